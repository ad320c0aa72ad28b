"""What the editors' endpoints, files and batches take, as JSON Schemas. Pure."""

from __future__ import annotations

from reame.api.openapi_requests import ANSWERING, MOST_CHOICES, PENALTIES, PROMPT, REAME, SAMPLING, TOKENS
from reame.api.openapi_words import Schema, body, either, flag, many, number, one_of, record, text, whole
from reame.api.schema import MAX_EDITOR_STOPS, MAX_STOP_CHARS
from reame.api.schema_batches import URLS
from reame.api.schema_native import MAX_FILES, MAX_PROBS

_GENERATING: dict[str, Schema] = {
    "model": ANSWERING["model"],
    "n_predict": whole(-1, None, "Tokens of an answer at most; -1 = no limit, 0 = the prompt is only computed."),
    "max_tokens": whole(0, None, "Another name of n_predict."),
    "max_completion_tokens": whole(0, None, "Another name of n_predict."),
    **SAMPLING,
    **PENALTIES,
    "logit_bias": either(
        PENALTIES["logit_bias"],
        many({"type": "array", "prefixItems": [whole(0, 999_999_999), either(number(-100, 100), one_of(False))]}),
    ),
    "stop": either(
        text(maxLength=MAX_STOP_CHARS), many(text(maxLength=MAX_STOP_CHARS), maxItems=MAX_EDITOR_STOPS)
    ),
    "n_cmpl": whole(1, MOST_CHOICES, "Answers to each prompt."),
    "n": whole(1, MOST_CHOICES, "Another name of n_cmpl."),
    "n_probs": whole(0, MAX_PROBS, "Log-probabilities of the likeliest tokens."),
    "return_tokens": flag("The ids of the answer's tokens."),
    "ignore_eos": flag("An answer goes on to its limit."),
    "t_max_predict_ms": number(0, 1e12, "The answer ends with its first line that ends after so long."),
    "stream": flag(),
    "reame": REAME,
}
_FILE = record({"filename": text(), "text": text()})

BODIES: dict[str, Schema] = {
    "NativeRequest": body({"prompt": PROMPT, **_GENERATING}, "prompt"),
    "InfillRequest": body(
        {
            "input_prefix": text("What stands above the line that is typed."),
            "input_suffix": text("What stands behind the cursor."),
            "prompt": text("The line that is being typed, up to the cursor."),
            "input_extra": many(_FILE, "Other files, the most telling last.", maxItems=MAX_FILES),
            **_GENERATING,
        },
        "input_prefix",
        "input_suffix",
    ),
    "TokenizeRequest": body(
        {
            "content": text(),
            "model": ANSWERING["model"],
            "add_special": flag("The beginning-of-text token in front."),
            "parse_special": flag("Special tokens are read as such; true when left out."),
            "with_pieces": flag("Each token with its text."),
        },
        "content",
    ),
    "DetokenizeRequest": body({"tokens": TOKENS | {"minItems": 0}, "model": ANSWERING["model"]}, "tokens"),
    "BatchRequest": body(
        {
            "input_file_id": text("A file that was uploaded with the purpose batch.", minLength=1),
            "endpoint": one_of(*URLS),
            "completion_window": text("Hours or days, such as 24h.", pattern="^[1-9][0-9]{0,2}[hd]$"),
            "metadata": record(additionalProperties=text(maxLength=512), maxProperties=16),
        },
        "input_file_id",
        "endpoint",
        "completion_window",
    ),
}
