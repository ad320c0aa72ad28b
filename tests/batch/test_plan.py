"""Input, results and order: what is done is not done again, what is torn is cut, and other people's files are left."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from lines import answer_of, line_of, read, write

from reame.batch.journal import Journal
from reame.batch.plan import MOST_ALIKE, Plan
from reame.batch.result import Outcome, result_line
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reame.batch.plan import Counts

REFUSED = Outcome(status=400, request_id="", body={"error": {"message": "no", "code": "c"}})


@contextmanager
def opened(
    source: Path, output: Path, *, retry: bool = False, is_table: bool = False
) -> Iterator[tuple[Plan, Journal, Counts]]:
    plan, journal = Plan(source, is_table=is_table), Journal(output)
    try:
        plan.scan({})
        yield plan, journal, plan.resume(journal, retry=retry)
    finally:
        plan.close()
        journal.close()


def names(plan: Plan) -> list[list[str]]:
    return [[record.custom_id for record in group] for group in plan.groups()]


def finish(plan: Plan, journal: Journal, *, most: int = 1000) -> None:
    """Answer faults and records, `most` of these."""
    for text in (text for some in plan.faults() for _, text in some):
        journal.append(text)
    for number, group in enumerate(plan.groups()):
        if number < most:
            journal.append(
                b"".join(result_line(r.id, r.custom_id, answer_of(str(group[0].body))) for r in group)
            )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def test_records_stand_along_the_tree_and_identical_ones_are_one_group(tmp_path: Path, output: Path) -> None:
    apple, pear = "apple " * 30, "pear " * 30
    texts = {"a": apple + "1", "b": pear + "1", "c": apple + "2", "d": pear + "1", "e": apple + "1"}
    source = write(tmp_path / "in", *(line_of(name, text) for name, text in texts.items()))
    with opened(source, output) as (plan, _, counts):
        groups = names(plan)
    assert (counts.lines, counts.done) == (5, 0)
    assert sorted(groups) == [["a", "e"], ["b", "d"], ["c"]]
    kinds = [texts[group[0]][:5] for group in groups]
    assert kinds in ([apple[:5]] * 2 + [pear[:5]], [pear[:5]] + [apple[:5]] * 2)


def test_each_bad_line_gets_one_error_and_the_others_are_done(tmp_path: Path, output: Path) -> None:
    lines = [
        b"\xef\xbb\xbf" + line_of("a"), b"", line_of("b") + b"\r", line_of("a", "again"), b"{", line_of("c", url="/x"),
    ]  # fmt: skip
    source = tmp_path / "in"
    source.write_bytes(b"\n".join(lines) + b"\n\r\n\n")
    with opened(source, output) as (plan, journal, counts):
        assert counts.lines == len(lines)  # blank lines at the end are none
        finish(plan, journal)
        plan.sort(journal)
    found = read(output)
    assert [line["custom_id"] for line in found] == ["a", None, "b", "a", None, "c"]
    assert [line["response"]["status_code"] for line in found] == [200, 400, 200, 400, 400, 400]
    codes = [line["error"] and line["error"]["code"] for line in found]
    assert codes == [None, "blank_line", None, "duplicate_custom_id", "invalid_line", "invalid_url"]
    assert found[3]["error"]["message"] == "line 4: line 1 has this custom_id already"


def test_what_is_done_is_not_done_again_and_a_torn_end_is_cut(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(6)), b"{")
    with opened(source, output) as (plan, journal, _):
        finish(plan, journal, most=3)
    whole = output.read_bytes()
    first = {line["custom_id"] for line in read(output)}
    for torn in (b'{"id":"batch_req_1', b'{"id":"batch_req_1"}\n', b"\0" * 100, b"{"):
        output.write_bytes(whole + torn)
        with opened(source, output) as (plan, _, counts):
            assert counts.done == 4
            assert {name for (name,) in names(plan)} == {f"r{i}" for i in range(6)} - first
            assert list(plan.faults()) == []
        assert output.read_bytes() == whole


def test_any_cut_of_the_output_leads_to_the_same_results(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i % 4}") for i in range(8)), b"", line_of("r0"))
    with opened(source, output) as (plan, journal, _):
        finish(plan, journal)
        plan.sort(journal)
    whole = output.read_bytes()
    chance = random.Random(5)
    for _ in range(60):
        output.write_bytes(whole[: chance.randrange(len(whole))])
        with opened(source, output) as (plan, journal, _):
            finish(plan, journal)
            plan.sort(journal)
        assert output.read_bytes() == whole


def test_an_output_of_other_requests_is_left_alone(tmp_path: Path, output: Path) -> None:
    with opened(write(tmp_path / "in", line_of("a")), output) as (plan, journal, _):
        finish(plan, journal)
    before = output.read_bytes()
    with pytest.raises(ConfigError, match="1 answers to requests that the input does not have"):  # noqa: SIM117
        with opened(write(tmp_path / "in2", line_of("a", "other")), output):
            pass
    assert output.read_bytes() == before


@pytest.mark.parametrize(
    "text", [b"name,price\nlamp,3\n", b'{"a": 1}\n', b"no line end", b'{"id":"batch_req_1"}\n{}\n']
)
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, output: Path, text: bytes) -> None:
    output.write_bytes(text)
    with pytest.raises(ConfigError, match="line 1 is no result of a batch"):  # noqa: SIM117
        with opened(write(tmp_path / "in", line_of("a")), output):
            pass
    assert output.read_bytes() == text


def test_lines_that_were_mended_and_added_are_all_that_is_done(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", line_of("a"), b"{", line_of("c"))
    with opened(source, output) as (plan, journal, _):
        finish(plan, journal)
    write(source, line_of("a"), line_of("b"), line_of("c"), line_of("d"))
    with opened(source, output) as (plan, journal, counts):
        assert (counts.lines, counts.done, counts.failed) == (4, 2, 0)
        assert sorted(name for group in names(plan) for name in group) == ["b", "d"]
    assert [line["custom_id"] for line in read(output)] == ["a", "c"]


def test_what_failed_is_tried_again_when_that_is_wanted(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", line_of("a"), line_of("b", "other"))
    with opened(source, output) as (plan, journal, _):
        for (record,) in plan.groups():
            outcome = REFUSED if record.custom_id == "a" else answer_of("")
            journal.append(result_line(record.id, record.custom_id, outcome))
    with opened(source, output) as (plan, _, counts):
        assert (counts.done, counts.failed, names(plan)) == (2, 1, [])
    with opened(source, output, retry=True) as (plan, _, counts):
        assert (counts.done, counts.failed, names(plan)) == (1, 0, [["a"]])


def test_two_runs_cannot_write_one_output(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", line_of("a"))
    with opened(source, output) as (plan, journal, _):
        finish(plan, journal)
        with pytest.raises(ConfigError, match="another batch is writing it"):
            Journal(output)
        journal.rewrite([(0, journal.size)])
        with pytest.raises(ConfigError, match="another batch is writing it"):
            Journal(output)
    Journal(output).close()


def test_an_output_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    output, target = tmp_path / "link.jsonl", tmp_path / "elsewhere/out.jsonl"
    output.symlink_to(target)
    with opened(write(tmp_path / "in", line_of("a"), line_of("b", "other")), output) as (plan, journal, _):
        finish(plan, journal)
        journal.rewrite([(start, size) for _, start, size in plan.in_order(journal)][::-1])
    assert output.is_symlink()
    assert [line["custom_id"] for line in read(target)] == ["b", "a"]


def test_a_file_system_that_syncs_no_folders_is_no_obstacle(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vboxsf and 9p."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with opened(write(tmp_path / "in", line_of("a")), output) as (plan, journal, _):
        finish(plan, journal)
        journal.rewrite([(0, journal.size)])
        journal.append(output.read_bytes().replace(b"batch_req_", b"batch_req_0"))
    assert len(read(output)) == 2, "what is appended after a rewrite is in the file that has the name"


def test_very_many_identical_records_come_in_parts(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}") for i in range(MOST_ALIKE + 2)))
    with opened(source, output) as (plan, _, _):
        assert [len(group) for group in plan.groups()] == [MOST_ALIKE, 2]


def test_an_input_that_changes_meanwhile_is_noticed(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", line_of("a"))
    with opened(source, output) as (plan, _, _):
        source.write_bytes(source.read_bytes().replace(b"hi", b"ho"))
        with pytest.raises(ConfigError, match="line 1 is no longer what it was"):
            next(plan.groups())


def test_a_line_that_is_far_too_long_is_never_read_whole(tmp_path: Path, output: Path) -> None:
    source = tmp_path / "in"
    with source.open("wb") as file:
        file.truncate(200 << 20)
        file.seek(200 << 20)
        file.write(b"\n" + line_of("a") + b"\n")
    with opened(source, output) as (plan, journal, _):
        finish(plan, journal)
        plan.sort(journal)
    found = read(output)
    assert [line["response"]["status_code"] for line in found] == [413, 200]


HUGE = r"""
import re, sys
from itertools import islice
from pathlib import Path
from reame.batch.journal import Journal
from reame.batch.plan import Plan
from reame.batch.result import Outcome, result_line
plan, journal = Plan(Path(sys.argv[1])), Journal(Path(sys.argv[2]))
plan.scan({})
plan.resume(journal, retry=False)
outcome = Outcome(status=200, request_id="", body={"choices": []})
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
lines = (result_line(r.id, r.custom_id, outcome) for group in plan.groups() for r in group)
while text := b"".join(islice(lines, 10_000)):
    journal.append(text)
plan.sort(journal)
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_tens_of_thousands_of_lines_take_bounded_memory(tmp_path: Path, output: Path) -> None:
    """A few megabytes; the interpreter with what it imports has some 40. tests/drill/batch_kill.py has 100,000."""
    count, template = 25_000, line_of("NUMBER", "what is NUMBER?") + b"\n"
    with (tmp_path / "in").open("wb") as file:
        for number in range(count):
            file.write(template.replace(b"NUMBER", b"%d" % (number * 7919 % count)))
    words = [sys.executable, "-c", HUGE, str(tmp_path / "in"), str(output)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ)
    assert all(int(kilobytes) < 90_000 for kilobytes in done.stdout.split()), done.stdout
    with output.open("rb") as file:
        assert sum(1 for _ in file) == count


def test_of_a_table_answers_stay_when_rows_come_go_and_move(tmp_path: Path, output: Path) -> None:
    source = tmp_path / "in"
    write(source, line_of("a"), line_of("b"), line_of("c"))
    with opened(source, output, is_table=True) as (plan, journal, _):
        finish(plan, journal)
    kept = output.read_bytes()
    write(source, line_of("new"), line_of("c", max_tokens=99), line_of("a"))
    with opened(source, output, is_table=True) as (plan, journal, counts):
        assert (counts.lines, counts.done, counts.failed) == (3, 2, 0)
        assert names(plan) == [["new"]]
        finish(plan, journal)
        assert [number for number, _, _ in plan.in_order(journal)] == [1, 2, 3]
    assert output.read_bytes().startswith(kept), "the row may come back"
    write(source, line_of("x"), line_of("y"))
    with pytest.raises(ConfigError, match="4 answers to requests"), opened(source, output, is_table=True):
        pass


def test_of_a_table_an_answer_that_was_cut_has_failed(tmp_path: Path, output: Path) -> None:
    source = write(tmp_path / "in", line_of("a", "one"), line_of("b", "two"))
    with opened(source, output, is_table=True) as (plan, journal, _):
        for (record,) in list(plan.groups()):
            answer = answer_of("hi")
            answer.body["choices"][0]["finish_reason"] = "length" if record.custom_id == "a" else "stop"
            journal.append(result_line(record.id, record.custom_id, answer))
    with opened(source, output, is_table=True) as (_, _, counts):
        assert (counts.done, counts.failed) == (2, 1)
    write(source, line_of("a", "one", max_tokens=99), line_of("b", "two", max_tokens=99))
    with opened(source, output, is_table=True, retry=True) as (plan, _, counts):
        assert (counts.done, names(plan)) == (1, [["a"]])


def test_an_input_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(ConfigError, match="not a file: the input is read twice"):
        Plan(tmp_path / "pipe")
    os.close(writer)


def test_a_result_is_one_line_for_every_reader() -> None:
    outcome = Outcome(status=200, request_id="r", body={"text": "a\u2028b\u2029c\x85d\né"})
    line = result_line("batch_req_0", "x\u2028y", outcome).decode()
    assert len(line.splitlines()) == 1
    assert "é" in line
    told = json.loads(line)
    assert (told["custom_id"], told["response"]["body"]) == ("x\u2028y", outcome.body)
