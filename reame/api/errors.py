"""Errors as OpenAI's object, with the HTTP status and the headers that belong to them. Pure.

A message is for the person at the client: what is wrong and what to do. Never a file's path, a key or a traceback.
"""

from __future__ import annotations

from typing import Any

from reame.errors import RequestError

_CODES = {
    401: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
    500: "internal_error",
    503: "unavailable",
}
ENDPOINTS = (
    "GET /v1/models, POST /v1/completions, POST /v1/chat/completions, POST /v1/messages, POST /v1/responses,"
    " POST /v1/embeddings, POST /v1/warm, /v1/files, /v1/batches,"
    " POST /completion, POST /infill, POST /tokenize, POST /detokenize, GET /health, GET /metrics;"
    " GET /docs describes them"
)
_MESSAGES = {
    404: f"There is nothing here. The endpoints are: {ENDPOINTS}.",
    405: "This endpoint does not know that method; the Allow header names those it knows.",
    408: "The request's body took too long to arrive.",
    413: "The request's body is too large for this server.",
    500: "The server failed to answer this request. Its log says more.",
}


def error_object(error: RequestError) -> dict[str, Any]:
    """`{"error": {"message", "type", "param", "code"}}`."""
    if error.status >= 500:
        kind = "server_error"
    else:
        kind = "rate_limit_error" if error.status == 429 else "invalid_request_error"
    code = error.code or _CODES.get(error.status)
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": code}}


def error_headers(error: RequestError) -> dict[str, str]:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="reame"'
    return headers


def from_status(status: int) -> RequestError:
    """The error for a status that the web framework or a bug gave."""
    return RequestError(_MESSAGES.get(status, "The request cannot be served."), status=status)
