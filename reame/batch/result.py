"""One line of a batch's output, as OpenAI has it: `id`, `custom_id`, `response`, `error`. Pure.

A failed line has the HTTP status and OpenAI's error object in `response`, and its code and message in `error` as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.batch.line import Fault
    from reame.errors import RequestError

_LINE_ENDS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}


@frozen(kw_only=True)
class Outcome:
    """What came of a request: the HTTP status, and the body of the answer or of the error."""

    status: int
    request_id: str
    body: Mapping[str, Any]

    @property
    def is_good(self) -> bool:
        return self.status == 200

    @property
    def is_cut(self) -> bool:
        """An answer that ran into its `max_tokens`."""
        return _is_cut(self.body)

    @property
    def code(self) -> str | None:
        """That of its error, or the error's type where it has none."""
        named = self.error.get("code") or self.error.get("type")
        return None if self.is_good else named or f"status_{self.status}"

    @property
    def error(self) -> Mapping[str, Any]:
        """OpenAI's error object; empty where there is none, as when something in front of a daemon answered for it."""
        error = self.body.get("error")
        return error if isinstance(error, dict) else {}


def result_line(line_id: str, custom_id: str | None, outcome: Outcome) -> bytes:
    """One line, with its end."""
    error = None
    if not outcome.is_good:
        error = {"code": outcome.code, "message": outcome.error.get("message")}
    value = {
        "id": line_id,
        "custom_id": custom_id,
        "response": {"status_code": outcome.status, "request_id": outcome.request_id, "body": outcome.body},
        "error": error,
    }
    return _encoded(value) + b"\n"


def refusal(error: RequestError, request_id: str = "") -> Outcome:
    """The outcome of a request that was refused with `error`."""
    inner = {
        "message": error.message,
        "type": "server_error" if error.status >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
    }
    return Outcome(status=error.status, request_id=request_id, body={"error": inner})


def fault_line(fault: Fault) -> bytes:
    return result_line(fault.id, fault.custom_id, refusal(fault.error))


@frozen(kw_only=True)
class Result:
    """A line of an output file, read back."""

    id: str
    custom_id: str | None
    is_good: bool
    response: Mapping[str, Any]
    error: Mapping[str, Any] | None

    @property
    def is_cut(self) -> bool:
        """As of an `Outcome`."""
        body = self.response.get("body")
        return isinstance(body, dict) and _is_cut(body)


def read_result(raw: bytes) -> Result | None:
    """None for what is no whole line of ours."""
    try:
        value = json.loads(raw)
        response, error = value["response"], value["error"]
        status, name = response["status_code"], value["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(name, str) or not name.startswith("batch_req_"):
        return None
    return Result(id=name, custom_id=value["custom_id"], is_good=status == 200, response=response, error=error)


def _encoded(value: Mapping[str, Any]) -> bytes:
    """As readable text, but for line ends that only some programs take for such; escaped where it holds half of a
    surrogate pair, as an answer in JSON may, or what is said of a schema: UTF-8 has no word for that."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_LINE_ENDS).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _is_cut(body: Mapping[str, Any]) -> bool:
    choices = body.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") == "length" for choice in choices
    )
