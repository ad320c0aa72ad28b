"""Errors in three scopes: one request, one step, the whole daemon. Everything else is a bug and propagates."""

from __future__ import annotations


class ReameError(Exception):
    """A fault that a person can do something about; its message is one line that says what."""


class ConfigError(ReameError):
    """The configuration file, a flag or an environment variable is wrong. Scope: the daemon does not start."""


class ModelError(ReameError):
    """The model cannot be found, read or run on this machine. Scope: the daemon does not start."""


class EngineError(ReameError):
    """One step failed inside llama.cpp. Scope: the sequences of that batch; serving goes on."""


class RequestError(ReameError):
    """One request cannot be served. Scope: that request, before it holds a slot or at its end.

    Mapped by the API to OpenAI's error object; `status` is the HTTP status, `param` the field at fault,
    `retry_after` seconds for the `Retry-After` header.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.retry_after = retry_after
