"""What `reame batch` does before and after anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lines import answer_of, line_of, write

from reame.batch.line import Record, read_line
from reame.batch.result import refusal, result_line
from reame.commands.batch_question import read_question
from reame.commands.batch_work import PARTLY, Wanted, run_batch
from reame.errors import ConfigError, RequestError


def wanted(output: Path, **more: Any) -> Wanted:
    nothing: dict[str, Any] = dict.fromkeys(("input", "question", "price", "key_file", "config"))
    given = {"ordered": False, "retry": False, "model": "", "url": "", "sets": ()} | more
    return Wanted(**nothing | {"output": output} | given)


async def test_lines_that_failed_in_an_earlier_run_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line_of("a", "one"), line_of("b", "two")]
    results = []
    for number, raw in enumerate(lines):
        record = read_line(raw, number)
        assert isinstance(record, Record)
        outcome = refusal(RequestError("no")) if number else answer_of("yes")
        results.append(result_line(record.id, record.custom_id, outcome))
    source, output = write(tmp_path / "in", *lines), tmp_path / "out.jsonl"
    output.write_bytes(b"".join(results))
    assert await run_batch(wanted(output, input=source)) == PARTLY
    assert "2 were done before (1 of them failed: --retry does them again)" in capsys.readouterr().out


@pytest.mark.parametrize("output", ["", ".", "/"])
async def test_an_output_without_a_name_is_said(tmp_path: Path, output: str) -> None:
    (tmp_path / "t.csv").write_text("name\na\n")
    (tmp_path / "p.txt").write_text("What is it?")
    question = read_question(
        None, csv=tmp_path / "t.csv", delimiter="", prompt_file=tmp_path / "p.txt", columns=(), schema=None,
        max_tokens=9,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="--output needs the name of a file"):
        await run_batch(wanted(Path(output), question=question))
