"""Whether drafts pay, in a sentence, when it changes."""

from __future__ import annotations

from reame.core.draft import DraftCount
from reame.speculation.verdict import LEAST_DRAWN, LEAST_PROPOSED, Verdicts


class Counted:
    """Counts as the scheduler keeps them: since the start, and changed in place."""

    def __init__(self) -> None:
        self.verdicts = Verdicts()
        self.drafts: dict[str, DraftCount] = {}
        self.num_drawn = 0

    def minute(self, *, drawn: int = LEAST_DRAWN, **sources: tuple[int, int, float]) -> str | None:
        self.num_drawn += drawn
        for source, counts in sources.items():
            self.drafts.setdefault(source, DraftCount()).add(*counts)
        return self.verdicts.look(self.drafts, self.num_drawn)


def test_it_is_said_once_and_again_when_it_changes() -> None:
    counted = Counted()
    said = "drafts pay at present: prompt (80% of 100 tokens right, 2.5 s saved)"
    assert counted.minute(prompt=(100, 80, 2.5)) == said
    assert counted.minute(prompt=(100, 90, 3.0)) is None
    said = "drafts do not pay at present: prompt (10% of 50 tokens right, 0.25 s lost)"
    assert counted.minute(prompt=(50, 5, -0.25)) == said
    assert counted.minute(prompt=(50, 5, -0.5)) is None


def test_each_source_has_its_verdict() -> None:
    counted = Counted()
    assert counted.minute(prompt=(100, 80, 2.5), forms=(40, 4, -0.1)) == (
        "drafts pay at present: prompt (80% of 100 tokens right, 2.5 s saved); "
        "not: forms (10% of 40 tokens right, 0.1 s lost)"
    )
    assert counted.minute(prompt=(100, 80, 2.5)) is None, "forms were silent, which is no news"
    assert counted.minute(prompt=(100, 80, 2.5), forms=(40, 4, -0.1)) is None
    assert "forms (90% of 40" in (counted.minute(forms=(40, 36, 1.0)) or "")


def test_hardly_any_drafts_are_a_verdict_too() -> None:
    counted = Counted()
    assert "hardly used" in (counted.minute(prompt=(LEAST_PROPOSED - 1, 20, 0.1)) or "")
    assert counted.minute() is None
    assert "drafts pay" in (counted.minute(prompt=(LEAST_PROPOSED, 20, 0.1)) or "")
    assert "hardly used" in (counted.minute() or "")


def test_a_quiet_minute_says_nothing_and_is_added_to_the_next() -> None:
    counted = Counted()
    assert counted.minute(drawn=LEAST_DRAWN - 1, prompt=(20, 20, 1.0)) is None
    assert "prompt (100% of 40 tokens right, 2 s saved)" in (counted.minute(drawn=1, prompt=(20, 20, 1.0)) or "")


def test_many_small_sources_are_in_use_without_a_verdict_of_their_own() -> None:
    counted = Counted()
    few = LEAST_PROPOSED // 2
    assert counted.minute(prompt=(few, few, 1.0), forms=(few, few, 1.0)) == (
        "drafts are in use at present, each source too little to say whether it pays"
    )
