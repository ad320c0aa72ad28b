"""What kind of answer it is, and its label in one spelling: different answers stay different. Tables worked by hand."""

from __future__ import annotations

import pytest

from reame.core.vote import Ballot, VoteKind
from reame.core.vote_ballot import ballot, guessed
from reame.core.vote_label import final_label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("B", "b"),
        ("b", "b"),
        ("(B)", "b"),
        ("B)", "b"),
        ("B. Paris", "b"),
        ("B: Paris", "b"),
        ("B - Paris", "b"),
        ("B, because it rains", "b"),
        ("(b) it rains", "b"),
        ("B) Paris is the capital, as everybody knows.", "b"),
        ("**B**", "b"),
        ("- B", "b"),
        ("Option C: the third", "c"),
        ("Option C is the best of them all", "c"),
        ("The answer is (D).", "d"),
        ("The answer is D", "d"),
        ("The answer is D. Drop it.", "d"),
        ("I think, step by step.\nAnswer: C", "c"),
        ("答案是B。", "b"),
        (r"\boxed{A}", "a"),
        (r"\boxed{\text{(A)}}", "a"),
        ("Positive", "positive"),
        ("positive.", "positive"),
        ('"Positive"', "positive"),
        ("\u201cPositive\u201d", "positive"),
        ("「正面」", "正面"),
        ("Yes, because it rains.", "yes"),
        ("No - it is dry.", "no"),
        ("No it is dry.", "no"),
        ("Nein, es ist trocken.", "nein"),
        ("不是\uff0c它有3扇门", "不是"),
        ("No idea", "no idea"),
        ("The correct answer is: very negative.", "very negative"),
        ("This is a long sentence about a review that was good\nPositive", "positive"),
        ("Positive. The review praises all that there is.", "positive"),
        ("Positive, because the review praises all that there is", "positive"),
        ("Sentiment: Positive\nReason: it is good", "positive"),
        ("**Sentiment:** Positive because it is praised by all of them", "positive"),
        ("Overall sentiment: Very Negative", "very negative"),
        ("Colour here: red\nReason: the text says that it is", "colour here: red"),  # not the heading for all of them
        ("Positive: the review praises all that there is", "positive"),
        ("Category: it is not clear which of them is meant", None),
        ("St. Louis is the city that was meant by this", None),
        ("A dog barks at the cat in the garden of the house", None),
        ("", None),
        ("...", None),
    ],
)
def test_the_label(text: str, label: str | None) -> None:
    assert final_label(text) == label


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}', "json"),
        ("```json\n[1]\n```", "json"),
        ("18", "number"),
        ("There are 18 eggs.", "number"),
        ("The meeting is at 10:30 AM.", "number"),
        ("We add: 9 + 9 = 18 and so on and on, until nothing is left of all of this and more", "number"),
        ("First 3, then 4.\nThe answer is 7.", "number"),
        ("Yes, I counted.\nThe answer is 7.", "number"),
        ("(a) 18", "number"),
        ("B", "choice"),
        ("Positive.", "choice"),
        ("We saw it.\nThe answer is (B).", "choice"),
        ("The answer is B, because 3 is a prime.", "choice"),
        ("Answer: Yes, it has 3 doors, I think", "choice"),
        ("正面", "choice"),
        ("```python\nx = 1 + 2 = 3\n```", "text"),
        ("The sky is blue because air scatters short waves more than long ones.", "text"),
        ("天空是蓝色的因为空气散射短波", "text"),
        ("It was founded in 1998 by two people who had met at a university and who had then 3 ideas.", "text"),
        ("#### 1. Start\nWe begin here.\n#### 3. End\nHere it ends, and many words follow this.", "text"),
        ("A) Paris\nB) Rome", "text"),
    ],
)
def test_auto_knows_the_kind(text: str, kind: VoteKind) -> None:
    assert guessed(text) == kind
    told = ballot(text, "auto")
    assert told is not None
    assert told.kind == kind


@pytest.mark.parametrize(
    "answers",
    [
        ("C", "C++", "C#", "f*", "c/c++"),
        ("A", "A+", "A-"),
        ("J. K. Rowling", "J. R. R. Tolkien", "C. S. Lewis", "C. D. Darwin"),
        ("U.S.", "U.K."),
        ("N. Korea", "N. Ireland"),
        ("St. Louis", "St. Paul"),
        ("Dr. Smith", "Dr. Jones"),
        ("example.com", "example.org"),
        ("main.py", "main.rs"),
        ("Springfield, Illinois", "Springfield, Missouri"),
        ("\U0001f44d", "\U0001f44e", "<", ">", "-1", "1"),
        ("A, B", "A, C", "A and B", "(A) and (C)", "A"),
        ("A: Paris", "A: London"),
        ("No", "No idea", "No. 5", "No. 7", "No smoking"),
        ("Yes, it has 3 doors", "No, it has 3 doors", "It has 3 doors"),
        ("Yes it has 3 doors", "No it has 3 doors"),
        ("是\uff0c3扇", "不\uff0c3扇", "3扇"),
        ("Apollo 11", "Gemini 11", "11"),
        ("The answer is Apollo 11.", "The answer is Gemini 11."),
        ("It was Apollo 11.", "It was Gemini 11."),
        ("iPhone 15", "Pixel 15", "GPT-4", "covid-19", "Windows 11", "11"),
        ("John 3:16", "Luke 3:16"),
        ("The answer is May 5, 2024", "The answer is June 5, 2024", "5 May 2024", "5 June 2024", "24.12.2024"),
        ("The answer is 10:30 AM", "The answer is 10:45 AM", "The answer is 10:30 PM"),
        ("12/25/2024", "12/31/2024", "2024-01-15", "2024-03-20"),
        ("(3, 4)", "(3, 5)", "(3, 4]", "3 and 7", "3 and 9"),
        (r"\boxed{2\sqrt{3}}", r"\boxed{2\sqrt{5}}", r"\boxed{2\pi}", r"\boxed{2x}", r"\boxed{2^3}", r"\boxed{2}"),
        (">50", "<50", "50"),
        ("लड़का", "लड़की"),
        ("1.2.3", "1.2.4"),
        ("1920x1080", "1920x1200", "2x4", "#33ff57", "#33aa57"),
        ("https://example.com/5", "https://example.org/5", "5"),
        ("555-1234", "555-1235"),
    ],
)
def test_different_answers(answers: tuple[str, ...]) -> None:
    assert None not in (ballots := {ballot(answer, "auto") for answer in answers})
    assert len(ballots) == len(answers)


@pytest.mark.parametrize(
    "answers",
    [
        ("Yes.", "yes", "**Yes**", "Yes, because it rains.", "The answer is yes."),
        ("**Paris**", "paris", "*Paris*.", '"Paris"', "- Paris", "`Paris`", "# Paris", "The answer is Paris."),
        ("B", "(B)", "B. Paris", "B) because", "**B**", "Option B"),
        ("18", "18 apples", "It is 18.", "The answer is 18", "$18", "Approximately 18", "USD 18", "Total: 18"),
        ("1998", "In 1998", "It was founded in 1998."),
        ("10:30", "It is at 10:30.", "The answer is 10:30"),
        ("(3, 4)", "The answer is (3,4).", r"\boxed{(3, 4)}", r"\boxed{\left(3, 4\right)}"),
        ("3 and 7", "The answer is 3 or 7.", "x = 3 or x = 7"),
    ],
)
def test_one_answer_in_every_spelling(answers: tuple[str, ...]) -> None:
    assert len({ballot(answer, "auto") for answer in answers}) == 1


def test_labels_of_a_list_are_compared_as_they_are() -> None:
    labels = ("-1", "1", "C", "C++", "C#", ">50", "<50", "yes, today", "yes, tomorrow", "to be read by a human", "Yes")
    ballots = [ballot(label, "choice", is_label=True) for label in labels]
    assert [found.value for found in ballots if found] == list(labels)


@pytest.mark.parametrize(
    "unit",
    ["1, ", "(", "1 and ", "x + ", "^{", "\\", "a = 1, ", "1 h ", "A) ", "#### 1\n", "1'", " "],
)
def test_texts_without_an_end_take_little_time(unit: str) -> None:
    """What is bounded is read from every place at most once more; else this would hang."""
    for vote in ("auto", "number", "choice", "text"):
        found = ballot(unit * 100_000 + "!", vote)
        assert found is None or isinstance(found, Ballot)
