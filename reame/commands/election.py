"""Elections in the terminal: what `--best-of` asks for, and one line about how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.vote import MOST_CANDIDATES, Conclave
from reame.errors import ConfigError

if TYPE_CHECKING:
    from reame.config import ConclaveConfig
    from reame.core.vote import Verdict, VoteKind


def conclave_of(best_of: str, vote: VoteKind | None, config: ConclaveConfig) -> Conclave | None:
    """None without `--best-of`, or with one candidate. Raises ConfigError."""
    if not best_of:
        if vote is not None:
            raise ConfigError("--vote needs --best-of, the number of candidates")
        return None
    if best_of == "auto":
        return Conclave(size=config.candidates, vote=vote or "auto", margin=config.margin)
    if not (best_of.isascii() and best_of.isdigit() and 1 <= int(best_of[:9]) <= MOST_CANDIDATES):
        raise ConfigError(f"--best-of: expected a number from 1 to {MOST_CANDIDATES}, or auto, got {best_of}")
    return Conclave(size=int(best_of), vote=vote or "auto") if int(best_of) > 1 else None


def told(verdict: Verdict) -> str:
    """How an answer was elected."""
    size, agreement = verdict.candidates, verdict.agreement
    if size == 1:
        said = "one candidate answered, and was certain"
    elif not agreement:
        said = f"none of the {size} candidates came to an answer: this is what one of them said"
    elif verdict.vote == "text" and agreement == 1:
        said = f"the {size} candidates said it in different words: this is the one nearest to the others"
    elif agreement == 1:
        said = f"no two of {size} candidates agree"
    else:
        said = f"{agreement} of {size} candidates agree"
    if verdict.fields:
        said += "; field by field: " + ", ".join(f"{each.path} {each.votes}" for each in verdict.fields)
    if verdict.stopped:
        seconds = verdict.ms_saved / 1e3
        said += f"; {verdict.stopped} stopped early, which saved about {seconds:.1f} s"
    return f"({said})"
