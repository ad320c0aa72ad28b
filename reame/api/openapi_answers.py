"""What the endpoints answer, as JSON Schemas. Pure."""

from __future__ import annotations

from reame.api.openapi_words import (
    Schema,
    answer,
    either,
    flag,
    many,
    nullable,
    number,
    one_of,
    record,
    ref,
    text,
    whole,
)

COUNT = whole(0)
USAGE = answer(
    {
        "prompt_tokens": COUNT,
        "completion_tokens": COUNT,
        "total_tokens": COUNT,
        "prompt_tokens_details": answer({"cached_tokens": COUNT}),
    }
)
REAME = record(
    {
        "live_tokens": COUNT,
        "disk_tokens": COUNT,
        "computed_tokens": COUNT,
        "stored_answers": COUNT,
        "queued_ms": number(0, 1e12),
        "prefill_ms": number(0, 1e12),
        "decode_ms": number(0, 1e12),
        "saved_ms": {"type": "number"},
    },
    "Where the prompt's tokens came from, and where the time went.",
)
REASON = one_of("stop", "length", "tool_calls")
_HEAD: dict[str, Schema] = {"id": text(), "created": COUNT, "model": text(), "system_fingerprint": text()}
_CHOICE: dict[str, Schema] = {"index": COUNT, "logprobs": nullable(record()), "finish_reason": REASON}
_MESSAGE = answer(
    {
        "role": one_of("assistant"),
        "content": nullable(text()),
        "refusal": nullable(text()),
        "tool_calls": many(record()),
    },
    "tool_calls",
)
_LIST: dict[str, Schema] = {"object": one_of("list"), "data": many(record())}

ANSWERS: dict[str, Schema] = {
    "Error": answer(
        {
            "error": answer(
                {"message": text(), "type": text(), "param": nullable(text()), "code": nullable(text())}
            )
        }
    ),
    "AnthropicError": answer({"type": one_of("error"), "error": answer({"type": text(), "message": text()})}),
    "Chat": answer(
        {
            **_HEAD,
            "object": one_of("chat.completion"),
            "choices": many(answer(_CHOICE | {"message": _MESSAGE})),
            "usage": USAGE,
            "reame": REAME,
        }
    ),
    "Completion": answer(
        {
            **_HEAD,
            "object": one_of("text_completion"),
            "choices": many(answer(_CHOICE | {"text": text()})),
            "usage": USAGE,
            "reame": REAME,
        }
    ),
    "AnthropicMessage": answer(
        {
            "id": text(),
            "type": one_of("message"),
            "role": one_of("assistant"),
            "model": text(),
            "content": many(record({"type": one_of("text", "tool_use")})),
            "stop_reason": one_of("end_turn", "max_tokens", "stop_sequence", "tool_use"),
            "stop_sequence": nullable(text()),
            "usage": answer({"input_tokens": COUNT, "output_tokens": COUNT, "cache_read_input_tokens": COUNT}),
            "reame": REAME,
        }
    ),
    "TokenCount": answer({"input_tokens": COUNT}),
    "Response": answer(
        {
            "id": text(),
            "object": one_of("response"),
            "created_at": COUNT,
            "status": one_of("completed", "incomplete"),
            "model": text(),
            "output": many(record({"type": one_of("message", "function_call")})),
            "usage": answer({"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT}),
            "incomplete_details": nullable(record()),
            "error": nullable(record()),
            "reame": REAME,
        }
    ),
    "Embeddings": answer(
        {
            "object": one_of("list"),
            "model": text(),
            "data": many(
                answer(
                    {
                        "object": one_of("embedding"),
                        "index": COUNT,
                        "embedding": either(many({"type": "number"}), text()),
                    }
                )
            ),
            "usage": answer({"prompt_tokens": COUNT, "total_tokens": COUNT}),
        }
    ),
    "Warmed": answer(
        {
            "object": one_of("warm"),
            "id": text(),
            "created": COUNT,
            "model": text(),
            "prompt_tokens": COUNT,
            "cached_tokens": COUNT,
            "computed_tokens": COUNT,
            "pinned_until": nullable(COUNT),
            "reame": REAME,
        }
    ),
    "Model": answer(
        {
            "id": text(),
            "object": one_of("model"),
            "created": COUNT,
            "owned_by": text(),
            "max_model_len": whole(1, None, "Tokens of one request at most."),
        }
    ),
    "Models": answer({"object": one_of("list"), "data": many(ref("Model"))}),
    "Health": answer(
        {
            "status": text(),
            "detail": text(),
            "model": text(),
            "slots": answer({"total": COUNT, "busy": COUNT}),
            "queue": answer({"depth": COUNT, "oldest_wait_s": number(0, 1e12)}),
        }
    ),
    "Native": either(ref("NativeAnswer"), many(ref("NativeAnswer"))),
    "NativeAnswer": answer(
        {
            "index": COUNT,
            "content": text(),
            "tokens": many(COUNT),
            "stop": flag(),
            "model": text(),
            "stop_type": one_of("eos", "word", "limit"),
            "stopping_word": text(),
            "tokens_predicted": COUNT,
            "tokens_evaluated": COUNT,
            "tokens_cached": COUNT,
            "truncated": flag(),
            "timings": record(),
            "generation_settings": record(),
        }
    ),
    "Tokens": answer({"tokens": many(either(COUNT, answer({"id": COUNT, "piece": either(text(), many(COUNT))})))}),
    "Text": answer({"content": text()}),
    "Items": answer(_LIST),
    "Deleted": answer({"id": text(), "object": one_of("file", "response"), "deleted": one_of(True)}),
    "File": record({"id": text(), "object": one_of("file"), "bytes": COUNT, "filename": text(), "purpose": text()}),
    "Files": answer(_LIST),
    "Batch": record({"id": text(), "object": one_of("batch"), "endpoint": text(), "status": text()}),
    "Batches": answer(_LIST),
}
