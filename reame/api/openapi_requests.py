"""What the endpoints take, as JSON Schemas. A test holds them against the fields that are read. Pure."""

from __future__ import annotations

from reame.api.openapi_words import Schema, body, either, flag, many, number, one_of, record, ref, text, whole
from reame.api.schema import MAX_STOP_CHARS, MAX_STOPS
from reame.api.schema_chat import MAX_TOP_LOGPROBS
from reame.api.schema_completion import MAX_LOGPROBS
from reame.api.schema_embeddings import MOST_INPUTS
from reame.api.schema_warm import LONGEST_S
from reame.core.vote import MOST_CANDIDATES

MOST_TOKENS, MOST_CHOICES = 2**31, 2**31 - 2
"""Stand for what only a running server knows: how many tokens its model has, how many answers it computes at once."""
TOKENS = many(whole(0, MOST_TOKENS - 1), minItems=1)
SHORT = text(maxLength=MAX_STOP_CHARS)
PROMPT = either(
    text(), many(text(), minItems=1), TOKENS, many(TOKENS, minItems=1),
    note="A text, token ids, or a list of either.",
)  # fmt: skip
REAME = record(
    {
        "answers": flag("false: compute, even when the very same request was answered before."),
        "heal": flag("false: a prompt that ends within a word is not taken back to its last whole token."),
        "background": flag("true: only while nobody else wants anything."),
        "vote": text("Of best_of: what the candidates vote on."),
        "early_stop": flag("Of best_of: false lets all candidates finish."),
        "regex": text("A regular expression that the answer matches.", minLength=1),
        "choice": many(text(minLength=1), "The answer is one of these.", minItems=1),
        "grammar": text("A Lark grammar, or GBNF.", minLength=1),
        "confidence": flag("true: tell the probability of every label, or of each field of the JSON."),
    },
    "Reame's own wishes.",
)
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
STOP = either(SHORT, many(SHORT, maxItems=MAX_STOPS), note="The answer ends before these.")
ANSWERING: dict[str, Schema] = {
    "model": text("The served model's id; left out, it is the one there is."),
    "max_tokens": whole(1, None, "Tokens of an answer at most; above the context is fine."),
    "max_completion_tokens": whole(1, None, "Another name of max_tokens."),
    **SAMPLING,
    **PENALTIES,
    "stop": STOP,
    "n": whole(1, MOST_CHOICES, "Answers to one prompt."),
    "best_of": either(whole(1, MOST_CANDIDATES), one_of("auto"), note="Candidates that vote; one answer comes back."),
    "stream": flag("Server-sent events, as the answer comes."),
    "stream_options": record({"include_usage": flag("A last chunk with the usage.")}),
    "response_format": record(
        {
            "type": one_of("text", "json_object", "json_schema"),
            "schema": record(),
            "json_schema": record(
                {"name": text(), "description": text(), "schema": record(), "strict": flag()}, required=["schema"]
            ),
        },
        "What the answer must be.",
        required=["type"],
    ),
    "structured_outputs": record(note="vLLM's name for constraints: json, regex, choice or grammar."),
    "reame": REAME,
}
FUNCTION = record(
    {"name": text(pattern="^[A-Za-z0-9_-]{1,64}$"), "description": text(), "parameters": record(), "strict": flag()},
    required=["name"],
)
TEXT_PART = record({"type": one_of("text"), "text": text()}, required=["type", "text"])
CONTENT = either(text(), many(TEXT_PART))
MESSAGE = record(
    {
        "role": one_of("system", "developer", "user", "assistant"),
        "content": CONTENT,
        "name": text(),
        "reasoning_content": text(),
        "tool_calls": many(
            record(
                {
                    "id": text(minLength=1),
                    "type": one_of("function"),
                    "function": record({"name": text(), "arguments": text()}, required=["name", "arguments"]),
                }
            ),
            "Of an assistant's message.",
        ),
    },
    required=["role", "content"],
)
TOOL_MESSAGE = record(
    {"role": one_of("tool"), "content": CONTENT, "tool_call_id": text("The call that it answers.", minLength=1)},
    required=["role", "content", "tool_call_id"],
)

BODIES: dict[str, Schema] = {
    "ChatRequest": body(
        {
            "messages": many(ref("Message"), minItems=1),
            **ANSWERING,
            "logprobs": flag(),
            "top_logprobs": whole(0, MAX_TOP_LOGPROBS, "Needs logprobs."),
            "tools": many(record({"type": one_of("function"), "function": FUNCTION}, required=["type", "function"])),
            "tool_choice": either(one_of("none", "auto", "required"), record()),
            "parallel_tool_calls": flag(),
            "modalities": many(one_of("text")),
        },
        "messages",
    ),
    "CompletionRequest": body(
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
    "MessagesRequest": body(
        {
            "messages": many(
                record({"role": one_of("user", "assistant"), "content": CONTENT}, required=["role", "content"]),
                minItems=1,
            ),
            "max_tokens": whole(1),
            "model": ANSWERING["model"],
            "system": CONTENT,
            "stop_sequences": many(SHORT, maxItems=MAX_STOPS),
            **SAMPLING,
            "stream": flag(),
            "tools": many(
                record({"name": text(minLength=1), "description": text(), "input_schema": record()}, required=["name"])
            ),
            "tool_choice": record(
                {
                    "type": one_of("auto", "any", "tool", "none"),
                    "name": text(),
                    "disable_parallel_tool_use": flag(),
                },
                required=["type"],
            ),
            "output_config": record({"format": record({"type": one_of("json_schema"), "schema": record()})}),
            "output_format": record({"type": one_of("json_schema"), "schema": record()}),
            "reame": REAME,
        },
        "messages",
        "max_tokens",
    ),
    "ResponsesRequest": body(
        {
            "input": either(
                text(),
                many(
                    record(
                        {
                            "type": one_of("message", "function_call", "function_call_output", "reasoning"),
                            "role": one_of("system", "developer", "user", "assistant"),
                            "content": either(text(), many(record({"type": text(), "text": text()}))),
                            "call_id": text(),
                            "name": text(),
                            "arguments": text(),
                            "output": either(text(), many(record())),
                        }
                    ),
                    minItems=1,
                ),
            ),
            "model": ANSWERING["model"],
            "instructions": text("In front of everything, for this answer only."),
            "previous_response_id": text("The conversation that goes on."),
            "store": flag("false: the answer is not kept, and nothing can go on from it."),
            "max_output_tokens": whole(1),
            "text": record({"format": record({"type": one_of("text", "json_object", "json_schema")})}),
            "include": many(text()),
            "top_logprobs": whole(0, MAX_TOP_LOGPROBS),
            "tools": many(record({"type": one_of("function"), "name": text()}, required=["type", "name"])),
            "tool_choice": either(one_of("none", "auto", "required"), record()),
            "parallel_tool_calls": flag(),
            "stream": flag(),
            **SAMPLING,
            "stop": STOP,
            "presence_penalty": PENALTIES["presence_penalty"],
            "frequency_penalty": PENALTIES["frequency_penalty"],
            "reame": REAME,
        },
        "input",
    ),
    "EmbeddingsRequest": body(
        {
            "input": either(
                text(minLength=1), TOKENS,
                many(either(text(minLength=1), TOKENS), minItems=1, maxItems=MOST_INPUTS),
            ),
            "model": text("The embeddings model's id."),
            "encoding_format": one_of("float", "base64"),
            "dimensions": whole(1, 10**6, "The model's own number, or nothing."),
        },
        "input",
    ),
    "WarmRequest": body(
        {
            "prompt": PROMPT,
            "messages": many(ref("Message"), minItems=1),
            "model": ANSWERING["model"],
            "pin": flag("Keep it on disk, before what is not pinned."),
            "ttl_s": number(0, LONGEST_S, "Seconds that a pin holds.", above=True),
            "stream": flag("Progress as server-sent events."),
        }
    ),
    "Message": either(MESSAGE, TOOL_MESSAGE),
}  # fmt: skip
