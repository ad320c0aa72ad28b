"""How an election is told: the object in an answer, and the comments before it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reame.core.vote import Progress, Verdict


def conclave_object(verdict: Verdict, *, stored: bool) -> dict[str, Any]:
    """`reame.conclave`. `stored`: it is an old one, and what it says of tokens and time was spent then."""
    told: dict[str, Any] = {
        "candidates": verdict.candidates,
        "vote": verdict.vote,
        "agreement": f"{verdict.agreement}/{verdict.candidates}",
        "elected": verdict.elected,
        "groups": [{"answer": group.answer, "candidates": list(group.candidates)} for group in verdict.groups],
        "silent": verdict.silent,
        "stopped": verdict.stopped,
        "tokens": verdict.tokens,
        "tokens_saved": verdict.tokens_saved,
        "ms": verdict.ms,
        "ms_saved": verdict.ms_saved,
        "stored": stored,
    }
    if verdict.fields:
        told["fields"] = {each.path: f"{each.votes}/{verdict.candidates}" for each in verdict.fields}
    return told


def progress_comment(progress: Progress) -> str:
    """A line that clients of a stream leave out."""
    return f": conclave: {said(progress)}\n\n"


def said(progress: Progress) -> str:
    return f"{progress.answered} of {progress.candidates} have answered, {progress.agreeing} agree"
