"""Elections only when needed: one answer, and forks of it from its most uncertain token."""

from __future__ import annotations

from functools import partial

from electing import PROMPT, begin, call_of, elected, speak
from serving import Serving, config_of, serving


async def test_forks_are_held_back_too() -> None:
    """Candidate 0 is not sure; of the others two begin, and agree with it."""
    async with serving(config_of(slots=8)) as up:
        speak(up, *["aa"] * 5)
        begin(up, 3)
        up.engine.logprobs = partial(_rivals, up, at=0)  # type: ignore[method-assign, assignment]
        _, _, verdict = await elected(up, call_of(margin=0.2))
    assert (verdict.candidates, verdict.agreement, verdict.stopped) == (5, 3, 2)


async def test_lazy_and_certain_is_one_answer() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", *["b"] * 4)
        begin(up, 3)
        text, _, verdict = await elected(up, call_of(margin=0.0))
        fates = {fate: up.metrics.candidates.labels(fate)._value.get() for fate in ("voted", "silent", "stopped")}
    assert (text, verdict.candidates, verdict.agreement, verdict.tokens) == ("aa", 1, 1, 3)
    assert (verdict.stopped, verdict.tokens_saved) == (0, 0), "nobody else was asked"
    assert fates == {"voted": 1, "silent": 0, "stopped": 0}


async def test_lazy_and_uncertain_forks_at_the_token() -> None:
    """The fake engine's rivals are all as likely, so the closest token is the first: nothing is shared."""
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", *["b"] * 4)
        begin(up, 5)
        text, finish, verdict = await elected(up, call_of(margin=0.5))
    assert (text, verdict.candidates, verdict.agreement) == ("b", 5, 4)
    assert finish.usage.completion_tokens == 3 + 4 * 2


async def test_forks_share_what_comes_before() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "abcde", *["abcff"] * 4)
        begin(up, 5)
        closest = partial(_rivals, up, at=3)
        up.engine.logprobs = closest  # type: ignore[method-assign]
        text, finish, verdict = await elected(up, call_of(margin=0.5, logprobs=0))
        assert up.num_rows == 40 + 5 + 4 * (1 + 2)
    assert (text, verdict.agreement) == ("abcff", 4)
    assert verdict.tokens == 6 + 3 * 3 + 3 == finish.usage.completion_tokens


def _rivals(up: Serving, row: int, token: int, top: int, *, at: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    position = up.engine.steps[-1][row].position - len(PROMPT) + 1
    return -1.0, tuple((t, -1.0 - (0 if position == at else t)) for t in range(top))
