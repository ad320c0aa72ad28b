"""What is counted, and what the summary says."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from lines import answer_of

from reame.batch.account import Account, time_text
from reame.batch.result import Outcome, read_result, refusal, result_line
from reame.batch.width import ENOUGH, widest
from reame.errors import RequestError


def test_the_hundredth_record_is_seen_to_be_cheaper_than_the_first() -> None:
    account = Account(120, 0, 50.0)
    for number in range(120):
        account.take(answer_of("", prompt=100, cached=0 if not number else 90, completion=5), 1, 52.0 + number)
    lines = list(account.summary(2.0))
    assert lines == [
        "120 of 120 lines answered",
        "12,600 tokens (12,000 of prompts, 600 of answers), of which 10,710 were not computed (85.0%)",
        "2 min 01 s: 60 records a minute, 5.0 tokens of answers a second",
        "  record 1: 105 tokens computed and 2 s each",
        "  records 2 to 10: 15 tokens computed and 1 s each",
        "  records 11 to 100: 15 tokens computed and 1 s each",
        "  records 101 to 120: 15 tokens computed and 1 s each",
        "at 2 a million tokens this would have cost 0.0252",
    ]


def test_copies_old_answers_and_failures_have_their_places() -> None:
    account = Account(9, 2, 0.0)
    account.take(answer_of("", prompt=10, cached=4, completion=3), 3, 1.0)
    old = answer_of("", prompt=10, cached=10, completion=3)
    account.take(evolve(old, body={**old.body, "reame": {"stored_answers": 1}}), 1, 2.0)
    account.take(refusal(RequestError("no")), 1, 3.0)
    account.fault(["invalid_line", "invalid_line"])
    assert (account.tokens, account.remembered) == (4 * 13, 4 + 2 * 13 + 13)
    assert list(account.summary(None))[:2] == [
        "4 of 9 lines answered, 2 were done before, 2 of them as another line's equal, 1 from old answers, 3 failed",
        "failed: 2 invalid_line, 1 invalid_request_error; the `error` of each line in the output says what is wrong",
    ]


def test_lines_that_ask_for_nothing_say_nothing_about_the_time_that_is_left() -> None:
    account = Account(20, 5, 0.0)
    account.fault(["blank_line"] * 3)
    assert account.seconds_left is None
    for number in range(4):
        account.take(answer_of("", prompt=10, cached=0, completion=3), 1, 2.0 + 2 * number)
    assert account.seconds_left == 8 * 2.0


def test_half_of_a_surrogate_pair_is_a_result_too() -> None:
    """It may be in an answer in JSON, and in what is said of a schema that holds it."""
    for outcome in (answer_of("ä \ud83d"), refusal(RequestError("no \ud800"))):
        line = result_line("batch_req_1", "a", outcome)
        found = read_result(line)
        assert found is not None
        assert found.response["body"] == outcome.body
    assert "ä".encode() in result_line("batch_req_1", "a", answer_of("ä"))


def test_nothing_to_do_says_little() -> None:
    assert list(Account(3, 3, 0.0).summary(None)) == ["0 of 3 lines answered, 3 were done before"]
    again = "0 of 9 lines answered, 9 were done before (2 of them failed: --retry does them again)"
    assert list(Account(9, 9, 0.0, 2).summary(None)) == [again]


def test_times() -> None:
    assert [time_text(s) for s in (0.04, 59.9, 372, 11_220)] == ["0.0 s", "59.9 s", "6 min 12 s", "3 h 07 min"]


def test_as_many_at_once_as_is_widest() -> None:
    assert widest(lambda rows: 1.0, 16) == 16  # rows are free
    assert widest(lambda rows: float(rows), 16) == 16  # rows cost what they give
    assert widest(lambda rows: rows**1.2, 16) == 1  # and here more: 2 ** 1.2 is 2.3
    groups_of_four = {1: 75, 2: 117, 3: 141, 4: 124, 5: 190, 6: 230, 7: 231, 8: 233}
    assert widest(lambda rows: groups_of_four[rows], 8) == 8
    assert widest(lambda rows: groups_of_four[rows], 6) == 4


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=30))
def test_no_other_number_is_much_faster(seconds: list[float]) -> None:
    chosen = widest(lambda rows: seconds[rows - 1], len(seconds))
    rate = chosen / seconds[chosen - 1]
    assert all(rows / each * ENOUGH <= rate * 1.000001 for rows, each in enumerate(seconds, 1))


@pytest.mark.parametrize("error", ["Bad Gateway", None, ["x"], {}])
def test_who_answers_for_a_daemon_in_front_of_it_may_have_errors_of_another_form(error: object) -> None:
    outcome = Outcome(status=502, request_id="", body={"error": error})
    account = Account(1, 0, 0.0)
    account.take(outcome, 1, 1.0)
    assert account.failures == {"status_502": 1}
    assert json.loads(result_line("batch_req_1", "a", outcome))["error"] == {"code": "status_502", "message": None}
