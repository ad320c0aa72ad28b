"""Constrained answers in the decode loop: they keep to their constraint, and one that cannot ends alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import evolve
from serving import call_of, config_of, prompt_of, serving, text_of

from reame.core.constraint import Constraint

if TYPE_CHECKING:
    from serving import Serving

    from reame.core.request import Call

REGEX = Constraint("regex", "(ab+c){2}d{0,3}g")
AMBIGUOUS = Constraint("grammar", 'start: s{300}\ns: t | t t | t t t\nt: "a" | "aa" | "aaa" | "ab" | s')
"""Goes well for about 150 tokens."""
PROMPTS = [prompt_of(5, 40, first=first) for first in range(3)]


def held(up: Serving, call: Call, constraint: Constraint) -> Call:
    """Compiled beforehand: a real thread takes no virtual time."""
    assert up.intake.model is not None
    assert up.intake.model.constraints is not None
    up.intake.model.constraints.compile(constraint)
    return evolve(call, constraint=constraint, constraint_field="reame.regex")


async def test_answers_keep_to_their_constraint(autojump_clock: object) -> None:
    async with serving(config_of(slots=4)) as up:
        answer = await up.answer(held(up, call_of(*PROMPTS, max_tokens=60), REGEX))
    for text, finish in zip(answer.texts, answer.finishes, strict=True):
        assert finish.reason in ("stop", "length")
        assert finish.reason == "length" or re.fullmatch(REGEX.source, text)
    assert any(finish.reason == "stop" for finish in answer.finishes)


async def test_what_is_forced_from_the_start_is_counted_and_cut_at_the_limit(autojump_clock: object) -> None:
    async with serving(config_of()) as up:
        whole = await up.answer(held(up, call_of(PROMPTS[0], max_tokens=20), Constraint("regex", "abcdefg")))
        cut = await up.answer(held(up, call_of(PROMPTS[0], max_tokens=4), Constraint("regex", "abcdefg")))
    assert (whole.texts, whole.finishes[0].reason) == (["abcdefg"], "stop")
    assert (cut.texts, cut.finishes[0].reason) == (["abcd"], "length")
    assert cut.finishes[0].usage.completion_tokens == 4


async def test_what_becomes_too_complex_ends_alone(autojump_clock: object) -> None:
    async with serving(config_of(slots=2, context=900, cells=2000, rows=16)) as up:
        call = held(up, call_of(PROMPTS[0], max_tokens=800), AMBIGUOUS)
        async with up.ask(call_of(PROMPTS[1], max_tokens=40)) as neighbour:
            broken = await up.answer(call)
            text = "".join([getattr(event, "text", "") async for _, event in neighbour])
        await up.idle()
    assert [error.code for error in broken.errors] == ["constraint_too_complex"]
    assert text == text_of(PROMPTS[1], 40)
