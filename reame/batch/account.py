"""What a batch has cost so far: lines, tokens computed and remembered, and how that changes with the records. Pure.

Tokens are those of prompts and answers. Not computed are the cached ones of prompts, and all of an answer that was
known from before or is another line's.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reame.batch.result import Outcome

CUT = "cut_at_max_tokens"


@define
class Stage:
    """The records that were asked, up to the `last`-th: how many, the tokens computed for them, and their seconds."""

    last: int
    records: int = 0
    computed: int = 0
    seconds: float = 0.0


@define
class Account:
    """Of `lines`, `before` were done by an earlier run, and `failed_before` of these had failed. Times are seconds on
    one clock of the caller's, `began` the first. `cut_fails`: an answer that ran into its `max_tokens` is none."""

    lines: int
    before: int
    began: float
    failed_before: int = 0
    cut_fails: bool = False
    good: int = 0
    failed: int = 0
    faulty: int = 0
    alike: int = 0
    stored: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    remembered: int = 0
    last: float = 0.0
    failures: Counter[str] = field(factory=Counter)
    stages: list[Stage] = field(factory=list)

    @property
    def done(self) -> int:
        """Lines that this run has finished."""
        return self.good + self.failed

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens

    @property
    def share_remembered(self) -> float:
        """Of all tokens, those that were not computed: 0 to 1."""
        return self.remembered / self.tokens if self.tokens else 0.0

    @property
    def seconds(self) -> float:
        return max(self.last - self.began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """By what the lines took so far; None before the first."""
        tried = self.done - self.faulty
        return self.seconds * (self.lines - self.before - self.done) / tried if tried else None

    def fault(self, codes: Iterable[str]) -> None:
        """Lines that ask for nothing that can be done, one for each code."""
        number = self.failures.total()
        self.failures.update(codes)
        number = self.failures.total() - number
        self.failed += number
        self.faulty += number

    def take(self, outcome: Outcome, copies: int, now: float) -> None:
        """One answer, which is that of `copies` lines."""
        previous, self.last = self.last or self.began, now
        code = outcome.code or (CUT if self.cut_fails and outcome.is_cut else None)
        if code is None:
            self.good += copies
        else:
            self.failed += copies
            self.failures[code] += copies
        if not outcome.is_good:
            return
        usage, own = outcome.body.get("usage") or {}, outcome.body.get("reame") or {}
        prompt, answer = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
        is_stored = bool(own.get("stored_answers")) and own["stored_answers"] == len(outcome.body.get("choices", ()))
        cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0))
        known = prompt + answer if is_stored else min(cached, prompt)
        self.alike += copies - 1
        self.stored += is_stored
        self.prompt_tokens += prompt * copies
        self.answer_tokens += answer * copies
        self.remembered += known + (prompt + answer) * (copies - 1)
        stage = self._stage()
        stage.records += 1
        stage.computed += prompt + answer - known
        stage.seconds += now - previous

    def _stage(self) -> Stage:
        """That of the record that has just come: the first, up to the tenth, up to the hundredth, and so on."""
        number = sum(stage.records for stage in self.stages)
        if not self.stages or number >= self.stages[-1].last:
            self.stages.append(Stage(self.stages[-1].last * 10 if self.stages else 1))
        return self.stages[-1]

    def summary(self, price: float | None) -> Iterator[str]:
        """Lines for a person. `price`: of a million tokens, in whatever money."""
        yield self._lines()
        if self.failures:
            kinds = ", ".join(f"{number:,} {code}" for code, number in self.failures.most_common())
            yield f"failed: {kinds}; the `error` of each line in the output says what is wrong"
        if self.tokens:
            yield (
                f"{self.tokens:,} tokens ({self.prompt_tokens:,} of prompts, {self.answer_tokens:,} of answers), "
                f"of which {self.remembered:,} were not computed ({self.share_remembered:.1%})"
            )
            yield (
                f"{time_text(self.seconds)}: {60 * self.good / self.seconds:,.0f} records a minute, "
                f"{self.answer_tokens / self.seconds:,.1f} tokens of answers a second"
            )
            yield from self._curve()
        if price is not None:
            yield f"at {price:g} a million tokens this would have cost {price * self.tokens / 1e6:,.4g}"

    def _lines(self) -> str:
        parts = [f"{self.good:,} of {self.lines:,} lines answered"]
        if self.before:
            again = f" ({self.failed_before:,} of them failed: --retry does them again)" if self.failed_before else ""
            parts.append(f"{self.before:,} were done before{again}")
        if self.alike:
            parts.append(f"{self.alike:,} of them as another line's equal")
        if self.stored:
            parts.append(f"{self.stored:,} from old answers")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)

    def _curve(self) -> Iterator[str]:
        if len(self.stages) < 2:
            return
        first = 1
        for stage in self.stages:
            last = first + stage.records - 1
            what = f"record {first:,}" if first == last else f"records {first:,} to {last:,}"
            each, pace = stage.computed / stage.records, stage.seconds / stage.records
            yield f"  {what}: {each:,.0f} tokens computed and {pace:,.3g} s each"
            first = last + 1


def time_text(seconds: float) -> str:
    """`3 h 07 min`, `6 min 12 s`, `4.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
