"""A key that nothing reads is a promise that nothing keeps."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from reame.config_check import KEYS, TABLES

ROOT = Path(__file__).parent.parent / "reame"
SOURCES = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.startswith("config")]


def reads(tree: ast.AST) -> set[tuple[str, str]]:
    """(owner, attribute) of every attribute access: config.server.port has (config, server) and (server, port).

    A name that is annotated with a table's class, such as `limits: ServerConfig`, counts as that table.
    """
    classes = {cls.__name__: table for table, cls in TABLES.items()}
    tables: dict[str, str] = {}
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.arg) else getattr(getattr(node, "target", None), "id", None)
        annotation = getattr(node, "annotation", None)
        if name and annotation is not None and (table := classes.get(ast.unparse(annotation).strip("\"'"))):
            tables[name] = table
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = (node.value.id if isinstance(node.value, ast.Name) else node.value.attr).lstrip("_")
            found.add((tables.get(owner, owner), node.attr))
    return found


def test_reads_follows_attributes_and_annotations() -> None:
    code = "def f(limits: ServerConfig, config: Config): return limits.port, config.engine.threads, other.path"
    assert {("server", "port"), ("engine", "threads"), ("other", "path")} <= reads(ast.parse(code))
    assert ("model", "path") not in reads(ast.parse(code))


@pytest.fixture(scope="module")
def used() -> set[tuple[str, str]]:
    return set().union(*(reads(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES))


@pytest.mark.parametrize("dotted", KEYS)
def test_every_key_is_read_somewhere(dotted: str, used: set[tuple[str, str]]) -> None:
    table, key = dotted.split(".")
    is_read = not used.isdisjoint({(table, key), (f"{table}_config", key), ("config", key)})
    assert is_read, f"nothing under reame/ reads {dotted}"
