"""`reame archive` through the command line's parser, with the real tokenizer, on texts in the shapes people have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cyclopts import App

from reame import config_load
from reame.commands import archive_texts
from reame.commands.archive import register
from reame.commands.archive_texts import texts_in, texts_of
from reame.config_load import load_config
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.engine.llama_vocabulary_only import load_vocabulary
from reame.errors import ConfigError, ReameError
from reame.runtime.archiving import open_archive, tokenizer_fingerprint

if TYPE_CHECKING:
    from reame.memory.archive import Archive

INVOICE = "| Invoice | Customer | Total |\n|---|---|---|\n| 2024-0117 | Rossi S.r.l. | 1.204,50 EUR |\n"
LETTER = "Dear Sir or Madam,\n\nthank you for your letter of the 3rd of May, which we have read with interest.\n"
CHOICES = {"choices": [{"message": {"role": "assistant", "content": INVOICE}}, {"text": LETTER}]}


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with two keys in the working directory; the memory's directory, which is not made yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_load, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.delenv("REAME_CONFIG", raising=False)
    keys = tmp_path / "keys"
    keys.write_text("alice:sk-0123456789abcdef\nbob:sk-fedcba9876543210\n")
    keys.chmod(0o600)
    directory = tmp_path / "memory"
    tables = f'[model]\npath = "{model_path}"\n[memory]\npath = "{directory}"\n'
    (tmp_path / "one.toml").write_text(tables)
    (tmp_path / "keys.toml").write_text(f'{tables}[server]\napi_keys_file = "{keys}"\n')
    return directory


def reame(*words: str, config: str = "one.toml") -> int:
    app = App(name="reame")
    register(app)
    code = app(["archive", *words, "--config", config], result_action="return_value", exit_on_error=False)
    assert isinstance(code, int)
    return code


def as_json(capsys: pytest.CaptureFixture[str], *words: str, config: str = "one.toml") -> Any:
    capsys.readouterr()
    assert reame(*words, "--json", config=config) == 0
    return json.loads(capsys.readouterr().out)


def opened(config: str = "one.toml") -> Archive:
    settings = load_config(Path(config)).config
    vocabulary = load_vocabulary(Path(settings.model.path))
    archive = open_archive(settings, vocabulary, vocabulary.size)
    assert archive is not None
    return archive


def goes_on(archive: Archive, start: str, text: str, *, namespace: str = "") -> bool:
    """Whether the archive knows how the beginning of this text goes on."""
    vocabulary = load_vocabulary(Path(load_config(Path("one.toml")).config.model.path))
    tail = vocabulary.tokenize(start, add_special=False, parse_special=False)
    archive.prepare(namespace=namespace)
    sites = archive.continuations(tail, namespace=namespace, most=8)
    followed = [b"".join(map(vocabulary.piece, site.tokens)).decode() for site in sites]
    return any(piece and text.startswith(start + piece) for piece in followed)


def write(name: str, *values: object) -> str:
    Path(name).write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return name


def test_what_was_imported_is_drafted_from(capsys: pytest.CaptureFixture[str]) -> None:
    Path("letter.txt").write_text(LETTER)
    file = write("invoices.jsonl", {"text": INVOICE}, {"text": "  "})
    assert reame("import", file, "letter.txt") == 0
    assert capsys.readouterr().out.startswith("2 texts, ")
    archive = opened()
    assert goes_on(archive, "| Invoice | Customer |", INVOICE)
    assert goes_on(archive, "Dear Sir or Madam,\n\nthank you", LETTER)
    (group,) = as_json(capsys, "stats")["groups"]
    assert (group["key"], group["generations"], group["damaged"]) == ("", 2, 0)
    assert group["tokens"] == archive.stats().tokens
    assert reame("stats") == 0
    assert "archive: 2 texts, " in capsys.readouterr().out


def test_a_daemon_that_has_it_open_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    archive = opened()
    archive.append(list(range(100, 140)), namespace="")
    assert reame("import", write("a.jsonl", {"text": INVOICE})) == 0
    assert goes_on(archive, "| Invoice | Customer |", INVOICE)
    assert as_json(capsys, "stats")["groups"][0]["generations"] == 2
    assert reame("clear") == 0
    assert not goes_on(archive, "| Invoice | Customer |", INVOICE)
    archive.append(list(range(100, 140)), namespace="")
    assert as_json(capsys, "stats")["groups"][0]["generations"] == 1


def test_each_key_has_its_own(capsys: pytest.CaptureFixture[str], memory: Path) -> None:
    file = write("a.jsonl", {"text": INVOICE})
    with pytest.raises(ConfigError, match="with --key and one of alice, bob"):
        reame("import", file, config="keys.toml")
    with pytest.raises(ConfigError, match=r"no API key carol.*there are: alice, bob"):
        reame("import", file, "--key", "carol", config="keys.toml")
    with pytest.raises(ConfigError, match="omit --key"):
        reame("import", file, "--key", "alice")
    assert not memory.exists()
    for key in ("alice", "bob"):
        assert reame("import", file, "--key", key, config="keys.toml") == 0
    archive = opened("keys.toml")
    assert goes_on(archive, "| Invoice | Customer |", INVOICE, namespace="alice")
    assert not goes_on(archive, "| Invoice | Customer |", INVOICE)
    assert {group["key"] for group in as_json(capsys, "stats", config="keys.toml")["groups"]} == {"alice", "bob"}
    assert {group["key"] for group in as_json(capsys, "stats")["groups"]} == {None}
    deleted = as_json(capsys, "forget", "--key", "alice", config="keys.toml")["deleted"]
    assert (deleted["texts"], deleted["tokens"] > 10) == (1, True)
    assert not goes_on(archive, "| Invoice | Customer |", INVOICE, namespace="alice")
    assert goes_on(archive, "| Invoice | Customer |", INVOICE, namespace="bob")
    with pytest.raises(ConfigError, match="reame archive clear deletes all"):
        reame("forget", "--key", "bob", "--set", "memory.share=all", config="keys.toml")
    with pytest.raises(ConfigError, match="wants the name of a key"):
        reame("forget", "--key", "\udcff", config="keys.toml")


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ({"text": "a"}, ["a"]),
        ("a", ["a"]),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ["ab"]),
        (CHOICES, [INVOICE, LETTER]),
        ({"custom_id": "1", "error": None, "response": {"status_code": 200, "body": CHOICES}}, [INVOICE, LETTER]),
        ({"custom_id": "1", "error": {"code": "x"}, "response": None}, []),
        ({"custom_id": "1", "response": {"status_code": 400, "body": {"error": {"message": "no"}}}}, []),
        ({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": []}}]}, []),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}, ["a"]),
        ({"output": [{"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}, {"type": "x"}]}, ["a"]),
        ({"prompt": "x"}, None),
        ([1], None),
        (7, None),
    ],
)
def test_lines_of_many_kinds(line: object, texts: list[str] | None) -> None:
    assert texts_of(line) == texts


def test_what_is_wrong_with_a_file_is_said_before_anything_is_kept(memory: Path) -> None:
    good = write("good.jsonl", {"text": INVOICE})
    Path("bad.jsonl").write_text('{"text": "a"}\n\n{"text": \n')
    Path("latin.txt").write_bytes(b"caf\xe9")
    Path("empty.txt").write_text(" \n")
    faults = {
        "bad.jsonl": r"bad.jsonl, line 3: not JSON",
        write("other.jsonl", {"prompt": "x"}): r'other.jsonl, line 1: no text in it; known are {"text": ...}',
        "latin.txt": "latin.txt: not UTF-8 text",
        "none.txt": "none.txt: No such file or directory",
        ".": r"\.: Is a directory",
    }
    for file, message in faults.items():
        with pytest.raises(ReameError, match=message):
            reame("import", good, file)
    with pytest.raises(ReameError, match=r"empty.txt: no text in there"):
        reame("import", "empty.txt")
    with pytest.raises(ConfigError, match=r"memory.enabled and memory.archive must be true"):
        reame("import", good, "--set", "memory.archive=false")
    assert not memory.exists()


def test_deep_nesting_is_not_json(tmp_path: Path) -> None:
    Path("deep.jsonl").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ReameError, match="line 1"):
        list(texts_in(tmp_path / "deep.jsonl"))


def test_what_lies_in_the_way_is_one_line() -> None:
    Path("long.txt").write_text(INVOICE * 40)
    Path("memory").mkdir()
    Path("memory/archive").write_text("in the way")
    with pytest.raises(ReameError, match=r"memory/archive: Not a directory"):
        reame("import", "long.txt")


def test_long_texts_come_in_pieces_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_texts, "MOST", 100)
    lines = [f"line {number} of a text\n" for number in range(50)]
    Path("long.txt").write_text("".join(lines))
    write("long.jsonl", {"text": "".join(lines)}, {"text": "x" * 250})
    plain = list(texts_in(Path("long.txt")))
    assert "".join(plain) == "".join(lines)
    assert all(len(piece) <= 100 and piece.endswith("\n") for piece in plain)
    assert list(map(len, texts_in(Path("long.jsonl"))))[-3:] == [100, 100, 50]


@pytest.mark.usefixtures("memory")
def test_where_nothing_is_kept_nothing_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("stats",), ("clear",), ("forget", "--key", "x")):
        assert reame(*words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "deleted 0 texts, 0 tokens (0 bytes)"
    assert not (tmp_path / "memory").exists()


def test_the_import_and_the_daemon_have_one_fingerprint(model_path: Path) -> None:
    alone = load_vocabulary(model_path)
    engine = LlamaEngine(model_path, LlamaOptions(num_cells=64, num_seqs=1, max_rows=8))
    assert tokenizer_fingerprint(alone, alone.size) == tokenizer_fingerprint(engine.vocabulary, engine.info.vocab_size)
    assert tokenizer_fingerprint(alone, alone.size - 1) != tokenizer_fingerprint(alone, alone.size)
    engine.close()
