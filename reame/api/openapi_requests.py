"""What the endpoints take, as JSON Schemas. A test holds them against the fields that are read. Pure."""

from __future__ import annotations

from reame.api.openapi_parts import (
    ANTHROPIC_CHOICE,
    ANTHROPIC_FORMAT,
    ANTHROPIC_MESSAGE,
    ANTHROPIC_TEXT,
    ANTHROPIC_TOOL,
    CONSTRAINTS,
    ITEM,
    JSON_SCHEMA,
    MESSAGE,
    RESPONSE_FORMAT,
    RESPONSES_CHOICE,
    RESPONSES_TOOL,
    TEXT_FORMAT,
    TOOL,
    TOOL_CHOICE,
    WISHES,
)
from reame.api.openapi_words import Schema, either, flag, many, number, one_of, part, record, ref, text, whole
from reame.api.schema import MAX_STOP_CHARS, MAX_STOPS
from reame.api.schema_chat import MAX_TOP_LOGPROBS
from reame.api.schema_completion import MAX_LOGPROBS
from reame.api.schema_embeddings import MOST_INPUTS
from reame.api.schema_tools import MAX_TOOLS
from reame.api.schema_warm import LONGEST_S
from reame.core.vote import MOST_CANDIDATES

MOST_TOKENS, ANY_CHOICES = 2**31, 2**31 - 2
"""Stand for what only a running server knows: how many tokens its model has, how many answers to a prompt it takes."""
TOKENS = many(whole(0, MOST_TOKENS - 1), minItems=1)
EMBEDDED = many(whole(0), "Token ids of the embeddings model.", minItems=1)
SHORT = text(maxLength=MAX_STOP_CHARS)
PROMPT = either(
    text(), many(text(), minItems=1), TOKENS, many(TOKENS, minItems=1),
    note="A text, token ids, or a list of either.",
)  # fmt: skip
REAME = part(WISHES, note="Reame's own wishes.", additionalProperties=False)
SAMPLING: dict[str, Schema] = {
    "temperature": number(0, 2, "0 = always the most probable token."),
    "top_p": number(0, 1, "Choose among the fewest tokens whose probabilities reach this.", above=True),
    "top_k": whole(-1, 10**6, "Choose among this many tokens; 0 and -1 = all."),
    "min_p": number(0, 1, "Leave out tokens less probable than this share of the best one."),
    "seed": whole(-(2**63), 2**64 - 1, "The same seed gives the same text."),
}
PENALTIES: dict[str, Schema] = {
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "repeat_penalty": number(0, 10, "1 = off.", above=True),
    "repetition_penalty": number(0, 10, "Another name of repeat_penalty.", above=True),
    "repeat_last_n": whole(0, 10**6),
    "logit_bias": record(
        note="Token ids, as strings, to numbers; -100 bans a token.",
        additionalProperties=number(-100, 100),
        propertyNames={"pattern": "^(0|[1-9][0-9]{0,8})$"},
    ),
}
STRUCTURED = part(
    {"json": JSON_SCHEMA, **CONSTRAINTS, "json_object": flag("Any object.")},
    note="vLLM's name for constraints: one of these.",
)
VARIABLES = record(note="More variables for the model's chat template.")
STOP = either(SHORT, many(SHORT, maxItems=MAX_STOPS), note="The answer ends before these.")
BEST_OF = either(
    whole(1, MOST_CANDIDATES), one_of("auto"), note="Candidates that vote; the elected answer is given, or the first n."
)
ANSWERING: dict[str, Schema] = {
    "model": text("The served model's id; left out, it is the one there is."),
    "max_tokens": whole(1, None, "Tokens of an answer at most; above the context is fine."),
    "max_completion_tokens": whole(1, None, "Another name of max_tokens."),
    **SAMPLING,
    **PENALTIES,
    "stop": STOP,
    "n": whole(1, ANY_CHOICES, "Answers to one prompt."),
    "best_of": BEST_OF,
    "stream": flag("Server-sent events, as the answer comes."),
    "stream_options": part({"include_usage": flag("A last chunk with the usage.")}),
    "response_format": RESPONSE_FORMAT,
    "structured_outputs": STRUCTURED,
    "reame": REAME,
}
OF_CHATS: dict[str, Schema] = {
    **SAMPLING,
    **PENALTIES,
    "n": whole(1, 1, "There is one answer."),
    "best_of": BEST_OF,
    "stream": flag(),
    "structured_outputs": STRUCTURED,
    "chat_template_kwargs": VARIABLES,
    "reame": REAME,
}
"""What protocols that become a chat take as it is."""
BODIES: dict[str, Schema] = {
    "ChatRequest": part(
        {
            "messages": many(ref("Message"), minItems=1),
            **ANSWERING,
            "logprobs": flag(),
            "top_logprobs": whole(0, MAX_TOP_LOGPROBS, "Needs logprobs."),
            "tools": many(TOOL, maxItems=MAX_TOOLS),
            "tool_choice": TOOL_CHOICE,
            "parallel_tool_calls": flag(),
            "modalities": many(one_of("text")),
            "chat_template_kwargs": VARIABLES,
        },
        "messages",
    ),
    "CompletionRequest": part(
        {
            "prompt": PROMPT,
            **ANSWERING,
            "max_tokens": whole(0, None, "Tokens of an answer at most; 0 = none."),
            "logprobs": whole(0, MAX_LOGPROBS),
            "echo": flag("The prompt's text in front of the answer."),
            "suffix": text("What stands behind the gap, for models that fill in."),
        },
        "prompt",
    ),
    "MessagesRequest": part(
        {
            "messages": many(ANTHROPIC_MESSAGE, minItems=1),
            "max_tokens": whole(1),
            "model": ANSWERING["model"],
            "system": ANTHROPIC_TEXT,
            "stop_sequences": many(SHORT, maxItems=MAX_STOPS),
            **OF_CHATS,
            "tools": many(ANTHROPIC_TOOL, maxItems=MAX_TOOLS),
            "tool_choice": ANTHROPIC_CHOICE,
            "output_config": part({"format": ANTHROPIC_FORMAT}),
            "output_format": ANTHROPIC_FORMAT,
        },
        "messages",
        "max_tokens",
    ),
    "ResponsesRequest": part(
        {
            "input": either(text(), many(ITEM, minItems=1)),
            "model": ANSWERING["model"],
            "instructions": text("In front of everything, for this answer only."),
            "previous_response_id": text("The conversation that goes on."),
            "store": flag("false: the answer is not kept, and nothing can go on from it."),
            "max_output_tokens": whole(1),
            "text": part({"format": TEXT_FORMAT}),
            "include": many(text()),
            "metadata": record(),
            "top_logprobs": whole(0, MAX_TOP_LOGPROBS),
            "tools": many(RESPONSES_TOOL, maxItems=MAX_TOOLS),
            "tool_choice": RESPONSES_CHOICE,
            "parallel_tool_calls": flag(),
            **OF_CHATS,
            "stop": STOP,
        },
        "input",
    ),
    "EmbeddingsRequest": part(
        {
            "input": either(
                text(minLength=1), EMBEDDED,
                many(either(text(minLength=1), EMBEDDED), minItems=1, maxItems=MOST_INPUTS),
            ),
            "model": text("The embeddings model's id."),
            "encoding_format": one_of("float", "base64"),
            "dimensions": whole(1, 10**6, "The model's own number, or nothing."),
        },
        "input",
    ),
    "WarmRequest": part(
        {
            "prompt": PROMPT,
            "messages": many(ref("Message"), minItems=1),
            "model": ANSWERING["model"],
            "pin": flag("Keep it on disk, before what is not pinned."),
            "ttl_s": number(0, LONGEST_S, "Seconds that a pin holds.", above=True),
            "stream": flag("Progress as server-sent events."),
        },
        anyOf=[{"required": ["prompt"]}, {"required": ["messages"]}],
    ),
    "Message": MESSAGE,
}  # fmt: skip
