"""A table and a question: rows become requests, results become columns, and what does not fit is said."""

from __future__ import annotations

import csv
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from lines import answer_of

from reame.batch.line import Record, fault, read_line
from reame.batch.result import fault_line, result_line
from reame.commands.batch_question import Question, read_question
from reame.commands.batch_table import as_lines, write_table
from reame.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from pathlib import Path

TABLE = 'name,price\n"Lamp, red",3\nChair,"4\n5"\n\nShort\n'
SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}, "tags": {"type": "array"}}}


def question(
    folder: Path, prompt: str = "What is it?", table: str = TABLE, schema: Any = None, **more: Any
) -> Question:
    (folder / "t.csv").write_bytes(table.encode())
    (folder / "p.txt").write_text(prompt, "utf-8")
    (folder / "s.json").write_text(json.dumps(schema), "utf-8")
    made = read_question(
        None,
        csv=folder / "t.csv",
        delimiter=more.pop("delimiter", ""),
        prompt_file=folder / "p.txt",
        columns=more.pop("columns", ()),
        schema=None if schema is None else folder / "s.json",
        max_tokens=more.pop("max_tokens", 9),
    )
    assert made is not None
    return made


def bodies(made: Question) -> list[dict[str, Any]]:
    with as_lines(made) as lines:
        return [json.loads(line) for line in lines.path.read_bytes().splitlines()]


def table_of(made: Question, folder: Path, *texts: str, reason: str = "stop") -> list[list[str]]:
    """Written with these answers; the third row is a fault."""
    output = folder / "out.csv"
    with as_lines(made) as lines:
        raw = lines.path.read_bytes().splitlines()
        results = []
        for number, (line, text) in enumerate(zip(raw, texts, strict=False), 1):
            outcome = answer_of(text)
            outcome.body["choices"][0]["finish_reason"] = reason
            results.append((number, result_line("batch_req_0", "x", outcome)))
            assert isinstance(read_line(line, number), Record)
        for number, message in lines.faults.items():
            results.append((number, fault_line(fault(b"", number, RequestError(message), None))))
        write_table(lines.question, output, results)
    with output.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_an_instruction_stands_before_the_columns(tmp_path: Path) -> None:
    first, second, _ = bodies(question(tmp_path, columns=("price", "name")))
    assert first["body"]["messages"] == [
        {"role": "system", "content": "What is it?"},
        {"role": "user", "content": "price: 3\nname: Lamp, red"},
    ]
    assert (first["body"]["temperature"], first["body"]["max_tokens"]) == (0, 9)
    assert second["body"]["messages"][0] == first["body"]["messages"][0]
    assert "price: 4\n5" in second["body"]["messages"][1]["content"]


def test_a_prompt_with_places_is_filled_in(tmp_path: Path) -> None:
    prompt = 'Say {"a": 1} of {name} at {price}, not {{price}}. { }'
    first = bodies(question(tmp_path, prompt))[0]
    content = 'Say {"a": 1} of Lamp, red at 3, not {price}. { }'
    assert first["body"]["messages"] == [{"role": "user", "content": content}]


def test_a_schema_goes_with_each_request_in_its_own_order(tmp_path: Path) -> None:
    shape = {"type": "object", "properties": {"z": {}, "a": {}}}
    sent = bodies(question(tmp_path, schema=shape))[0]["body"]["response_format"]
    assert sent["type"] == "json_schema"
    assert list(sent["json_schema"]["schema"]["properties"]) == ["z", "a"]


def test_a_schema_that_cannot_be_is_refused_before_any_row(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"s.json: \$\.properties\.a\.type must be one or more of null, "):
        question(tmp_path, schema={"type": "object", "properties": {"a": {"type": "wat"}}})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_properties_become_columns_and_the_rest_stays(tmp_path: Path, delimiter: str) -> None:
    text = f"\ufeffname{delimiter}price\nLamp{delimiter}3\nChär{delimiter}4\n"
    made = question(tmp_path, table=text, schema=SCHEMA)
    output = tmp_path / "out.csv"
    answers = [answer_of('{"kind": "light", "tags": ["a", "ä"]}'), answer_of('{"kind": "seat"}')]
    write_table(made, output, [(n, result_line("batch_req_0", "x", each)) for n, each in enumerate(answers, 1)])
    with output.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    assert rows == [
        ["name", "price", "kind", "tags", "error"],
        ["Lamp", "3", "light", '["a", "ä"]', ""],
        ["Chär", "4", "seat", "", ""],
    ]


def test_without_a_schema_there_is_one_column_and_a_row_that_does_not_fit_says_so(tmp_path: Path) -> None:
    assert table_of(question(tmp_path), tmp_path, "a lamp", "a\nchair") == [
        ["name", "price", "answer", "error"],
        ["Lamp, red", "3", "a lamp", ""],
        ["Chair", "4\n5", "a\nchair", ""],
        ["Short", "", "", "the row's fields are 1, the header's 2: see its quotes"],
    ]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_is_written_as_the_old_one_was(tmp_path: Path, mark: str, end: str) -> None:
    """Excel's "CSV UTF-8" has a mark and CRLF, and LF where somebody has begun a new line within a field."""
    table = f'{mark}"the\nname";price{end}"Lamp\nred";3{end}'
    made = question(tmp_path, table=table)
    write_table(made, tmp_path / "out.csv", [(1, result_line("batch_req_0", "x", answer_of("a lamp")))])
    text = f'{mark}"the\nname";price;answer;error{end}"Lamp\nred";3;a lamp;{end}'
    assert (tmp_path / "out.csv").read_bytes() == text.encode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_field_with_a_carriage_return_is_no_end_of_its_row(tmp_path: Path, end: str) -> None:
    rows = table_of(question(tmp_path, table=f'name,price{end}"a\rb",3{end}c,4{end}'), tmp_path, "x\ry", "z")
    assert rows[1:] == [["a\rb", "3", "x\ry", ""], ["c", "4", "z", ""]]


def test_half_of_a_surrogate_pair_in_an_answer_stands_as_its_escape(tmp_path: Path) -> None:
    rows = table_of(question(tmp_path, schema=SCHEMA), tmp_path, '{"kind": "\\ud83d"}', '{"kind": "ä"}')
    assert [row[2] for row in rows[1:3]] == ["\\ud83d", "ä"]


def test_an_output_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out.csv").symlink_to("elsewhere/real.csv")
    assert len(table_of(question(tmp_path), tmp_path, "a lamp", "a chair")) == 4
    assert (tmp_path / "out.csv").is_symlink()
    assert [file.name for file in (tmp_path / "elsewhere").iterdir()] == ["real.csv"]


def test_half_of_a_number_is_no_value(tmp_path: Path) -> None:
    whole, part = (table_of(question(tmp_path, schema={"type": "integer"}), tmp_path, "12", "3", reason=reason)
                   for reason in ("stop", "length"))  # fmt: skip
    assert whole[1][2:] == ["12", ""]
    assert part[1][2:] == ["", "cut at --max-tokens: raise it and add --retry"]


def test_an_answer_that_was_cut_is_no_value(tmp_path: Path) -> None:
    rows = table_of(question(tmp_path, schema=SCHEMA), tmp_path, '{"kind": "li', '{"kind": "x"}', reason="length")
    assert rows[1][2:] == ["", "", "cut at --max-tokens: raise it and add --retry"]
    assert rows[2][2:] == ["x", "", ""]


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    made = question(tmp_path)
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(ValueError, match="shorter"):
        write_table(made, tmp_path / "out.csv", [])
    assert (tmp_path / "out.csv").read_text() == "old"
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": ("nme",)}, "no column 'nme'; it has name, price"),
        ({"prompt": "What is {nme}?"}, r"\{nme\} is no column of"),
        ({"prompt": "What is {name}?", "columns": ("name",)}, "leave out --column"),
        ({"prompt": "  \n"}, "empty"),
        ({"table": "name,name\na,b\n"}, "must name each column"),
        ({"table": ""}, "must name each column"),
        ({"schema": [1]}, "not an object"),
        ({"schema": {"type": "object", "properties": {"price": {}}}}, "a column 'price' already"),
        ({"table": "name,answer\na,b\n"}, "a column 'answer' already"),
        ({"schema": {"type": "object", "properties": {"error": {}}}}, "a property 'error', which is the column"),
        ({"max_tokens": 0}, "at least 1"),
        ({"delimiter": "x"}, "--delimiter is a comma"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_done(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        question(tmp_path, **change)


@pytest.mark.parametrize("data", [b"name\n\xff\n", b'name\n"open\n'])
def test_what_is_no_table_is_said(tmp_path: Path, data: bytes) -> None:
    made = question(tmp_path, table="name\na\n")
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(ConfigError, match=r"not UTF-8|line 2 is not of a table"), as_lines(made):
        pass


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"csv": None, "prompt_file": None, "columns": (), "schema": None, "max_tokens": 9}
    nothing |= {"delimiter": ""}
    assert read_question(tmp_path / "in", **nothing) is None
    for given, change, words in (
        (None, {}, "nothing to do"),
        (tmp_path, {"prompt_file": tmp_path}, "add --csv"),
        (tmp_path, {"csv": tmp_path}, "leave one out"),
        (None, {"csv": tmp_path}, "needs the question"),
    ):
        with pytest.raises(ConfigError, match=words):
            read_question(given, **nothing | change)


def test_a_table_that_is_changed_meanwhile_keeps_its_answers_in_their_rows(tmp_path: Path) -> None:
    made = question(tmp_path, table="name,price\nLamp,3\nChair,4\n")
    with as_lines(made) as lines:
        (tmp_path / "t.csv").write_text("price,name\n4,Chair\n")
        results = [(n, result_line("batch_req_0", "x", answer_of(text))) for n, text in ((1, "light"), (2, "seat"))]
        write_table(lines.question, tmp_path / "out.csv", results)
    assert (tmp_path / "out.csv").read_text() == "name,price,answer,error\nLamp,3,light,\nChair,4,seat,\n"


def test_fields_too_many_stay_together_in_the_last_column(tmp_path: Path) -> None:
    rows = table_of(question(tmp_path, table="name,price\nBolt,1\nBolt, M8,3\n"), tmp_path, "a")
    assert rows[1] == ["Bolt", "1", "a", ""]
    assert rows[2] == ["Bolt", " M8,3", "", "the row's fields are 3, the header's 2: see its quotes"]


def test_a_schema_with_nothing_but_an_answer_gives_its_value(tmp_path: Path) -> None:
    shape = {"type": "object", "properties": {"answer": {"type": "string"}}}
    rows = table_of(question(tmp_path, schema=shape), tmp_path, '{"answer": "yes"}', '{"answer": "no"}')
    assert [row[2] for row in rows[1:3]] == ["yes", "no"]
    rows = table_of(question(tmp_path, schema={"enum": ["yes", 1]}), tmp_path, '"yes"', "1")
    assert [row[2] for row in rows[1:3]] == ["yes", "1"]


def test_rows_keep_their_names_wherever_they_stand_and_however_long_answers_may_be(tmp_path: Path) -> None:
    first = [line["custom_id"] for line in bodies(question(tmp_path, table="name\na\nb\na\n"))]
    second = [line["custom_id"] for line in bodies(question(tmp_path, table="name\nnew\nb\na\na\n", max_tokens=50))]
    assert len(set(first)) == 3
    assert first[2] == f"{first[0]}-2"
    assert second[1:] == [first[1], first[0], first[2]]
    other = bodies(question(tmp_path, "What else?", table="name\na\nb\na\n"))
    assert not {line["custom_id"] for line in other} & set(first)


@pytest.mark.parametrize(
    ("table", "header"),
    [
        ("Name;Preis (netto, EUR)\nLampe;3,50\nStuhl;4\n", ["Name", "Preis (netto, EUR)"]),
        ("Name;Preis, netto, EUR\nLampe;3\n", ["Name", "Preis, netto, EUR"]),
        ('"Name, first";town\n"x, y";z\n', ["Name, first", "town"]),
        ("a,b;c,d\n1,2,3\n", ["a", "b;c", "d"]),
        ("name\na\n", ["name"]),
        ("a\tb, c\n1\t2\n", ["a", "b, c"]),
    ],
)
def test_the_delimiter_is_the_one_that_fits_the_rows(tmp_path: Path, table: str, header: list[str]) -> None:
    with question(tmp_path, table=table).table.rows() as rows:
        assert next(rows) == header


def test_a_delimiter_that_is_said_is_taken(tmp_path: Path) -> None:
    for said in ("\\t", "tab", "\t"):
        with question(tmp_path, table="a\tb;c\n1\t2;3\n", delimiter=said).table.rows() as rows:
            assert next(rows) == ["a", "b;c"]


def test_a_table_that_comes_through_a_pipe_is_refused(tmp_path: Path) -> None:
    made = question(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a file: a table is read twice"):
        read_question(
            None, csv=tmp_path / "pipe", delimiter="", prompt_file=tmp_path / "p.txt", columns=(), schema=None,
            max_tokens=made.max_tokens,
        )  # fmt: skip


def test_a_table_of_one_column_stays_one_of_commas_and_long_fields_are_no_obstacle(tmp_path: Path) -> None:
    assert question(tmp_path, table="name\na\n").table.delimiter == ","
    assert question(tmp_path, table=f"name,text\na,{'long ' * 40_000}\n").table.delimiter == ","
