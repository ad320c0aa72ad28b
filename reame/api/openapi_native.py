"""What the editors' endpoints, files and batches take, as JSON Schemas. Pure."""

from __future__ import annotations

from reame.api.openapi_parts import NATIVE_WISHES
from reame.api.openapi_requests import ANSWERING, ANY_CHOICES, PENALTIES, PROMPT, SAMPLING, TOKENS
from reame.api.openapi_words import Schema, either, flag, many, number, one_of, part, record, text, whole
from reame.api.schema import MAX_EDITOR_STOPS, MAX_STOP_CHARS
from reame.api.schema_batches import URLS
from reame.api.schema_native import MAX_FILES, MAX_PROBS

_BIAS = [whole(0, 999_999_999), either(number(-100, 100), one_of(False))]
_GENERATING: dict[str, Schema] = {
    "model": ANSWERING["model"],
    "n_predict": whole(-1, None, "Tokens of an answer at most; -1 = no limit, 0 = the prompt is only computed."),
    "max_tokens": whole(0, None, "Another name of n_predict."),
    "max_completion_tokens": whole(1, None, "Another name of n_predict."),
    **SAMPLING,
    **PENALTIES,
    "logit_bias": either(
        PENALTIES["logit_bias"],
        many({"type": "array", "prefixItems": _BIAS, "minItems": 2, "maxItems": 2}),
    ),
    "stop": either(
        text(maxLength=MAX_STOP_CHARS), many(text(maxLength=MAX_STOP_CHARS), maxItems=MAX_EDITOR_STOPS)
    ),
    "n_cmpl": whole(1, ANY_CHOICES, "Answers to each prompt."),
    "n": whole(1, ANY_CHOICES, "Another name of n_cmpl."),
    "n_probs": whole(0, MAX_PROBS, "Log-probabilities of the likeliest tokens."),
    "return_tokens": flag("The ids of the answer's tokens."),
    "ignore_eos": flag("An answer goes on to its limit."),
    "t_max_predict_ms": number(0, 1e12, "The answer ends with its first line that ends after so long."),
    "stream": flag(),
    "reame": part(NATIVE_WISHES, note="Reame's own wishes.", additionalProperties=False),
}
_FILE = part({"filename": text(), "text": text()})

BODIES: dict[str, Schema] = {
    "NativeRequest": part({"prompt": PROMPT, **_GENERATING}, "prompt"),
    "InfillRequest": part(
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
    "TokenizeRequest": part(
        {
            "content": text(),
            "model": ANSWERING["model"],
            "add_special": flag("The beginning-of-text token in front."),
            "parse_special": flag("Special tokens are read as such; true when left out."),
            "with_pieces": flag("Each token with its text."),
        },
        "content",
    ),
    "DetokenizeRequest": part({"tokens": TOKENS | {"minItems": 0}, "model": ANSWERING["model"]}, "tokens"),
    "BatchRequest": part(
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
