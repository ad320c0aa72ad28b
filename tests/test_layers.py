"""Reads every import under reame/ and fails on a wrong edge between layers, also inside functions and TYPE_CHECKING."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reame

if TYPE_CHECKING:
    from collections.abc import Iterator

# A name stands for that module and all below it; `*` for any letters. The first row that fits a module holds for it.
# `reame` itself (the version) may be imported by everyone.
CONFIG = ["reame.errors", "reame.config*"]
PURE_CORE = ["reame.errors", "reame.core", "reame.speculation"]
EFFECTS = ["reame.constraint", "reame.engine", "reame.memory", "reame.host"]
MAY_IMPORT = {
    "reame.errors": [],
    "reame.config*": CONFIG,
    "reame.catalog*": [*CONFIG, "reame.catalog*"],
    "reame.pull*": [*CONFIG, "reame.catalog*", "reame.pull*"],
    "reame.core": ["reame.errors", "reame.core"],
    "reame.speculation": PURE_CORE,
    "reame.constraint": [*PURE_CORE, "reame.constraint"],
    "reame.engine": [*PURE_CORE, "reame.engine"],
    "reame.memory": [*PURE_CORE, "reame.memory"],
    "reame.host": [*PURE_CORE, "reame.host"],
    "reame.batch.width": [],
    "reame.batch": [*PURE_CORE, *CONFIG, "reame.api.schema_fields", "reame.batch"],
    "reame.doctor": [*PURE_CORE, *EFFECTS, *CONFIG, "reame.catalog*", "reame.doctor"],
    "reame.runtime": [*PURE_CORE, *EFFECTS, *CONFIG, "reame.catalog*", "reame.batch", "reame.doctor", "reame.runtime"],
    "reame.api.schema*": [*PURE_CORE, "reame.api.schema*"],
    "reame.api": [
        *PURE_CORE, *CONFIG, "reame.runtime.intake", "reame.runtime.prompts", "reame.runtime.metrics", "reame.api",
        "reame.batch", "reame.runtime.batch*", "reame.runtime.embeddings",
    ],
    "reame.commands": ["reame"],
    "reame.cli": ["reame.errors", "reame.config*", "reame.runtime.daemon", "reame.commands"],
    "reame.__main__": ["reame.cli"],
}
# Packages that only these modules import.
ONLY_IN = {
    "llama_cpp": ["reame.engine.llama*", "reame.engine.canary"],
    "trio": ["reame.runtime", "reame.api", "reame.engine.thread", "reame.commands", "reame.pull*"],
}
# Modules without I/O, threads, clock or chance of their own, and all that they may import from outside of reame.
PURE = ["reame.core", "reame.speculation", "reame.api.schema*"]
PURE_OUTSIDE = [
    *("__future__", "abc", "base64", "bisect", "codecs", "collections", "contextlib", "copy", "dataclasses", "enum"),
    *("datetime", "difflib", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers"),
    *("operator", "re", "statistics", "string", "struct", "types", "typing", "unicodedata"),
    *("attr", "attrs", "cattrs", "jinja2", "numpy", "xxhash"),
]
PURE_MUST_NOT_CALL = {"open", "print", "input", "__import__", "now", "utcnow", "today"}


def fits(module: str, rows: list[str]) -> bool:
    return any(fnmatchcase(module, row) or fnmatchcase(module, f"{row}.*") for row in rows)


def modules(package: Path) -> dict[str, Path]:
    """Dotted name -> file of every module of the package in this directory."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(tree: ast.Module, module: str, *, is_package: bool, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that a module imports; `from a import b` names a.b when that is a module of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            here = parts[: len(parts) - node.level + is_package] if node.level else []
            base = ".".join([*here, *([node.module] if node.module else [])])
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, name) for name in sorted({name if name in known else base for name in names}))


def impure_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in PURE_MUST_NOT_CALL:
                yield node.lineno, name


def fault(module: str, target: str) -> str | None:
    """What is wrong with this edge, or None."""
    inside = target.split(".")[0] == "reame"
    if target == "reame":
        return None
    if inside:
        rows = next((rows for name, rows in MAY_IMPORT.items() if fits(module, [name])), [])
        return None if fits(target, rows) else f"may import only {', '.join(rows) or 'nothing'} of reame"
    outside = target.split(".")[0]
    if outside in ONLY_IN and not fits(module, ONLY_IN[outside]):
        return f"is not one of {', '.join(ONLY_IN[outside])}"
    return "is pure" if fits(module, PURE) and outside not in PURE_OUTSIDE else None


def wrong_edges(package: Path) -> list[str]:
    """One line for every import, and every call of a pure module, that breaks the rules above."""
    found = modules(package)
    wrong = []
    for module, file in found.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if module != package.name and not any(fits(module, [name]) for name in MAY_IMPORT):
            wrong.append(f"{module}: no row of MAY_IMPORT fits this module")
        for line, target in imports(tree, module, is_package=file.name == "__init__.py", known=set(found)):
            if why := fault(module, target):
                wrong.append(f"{module}:{line}: imports {target}, but {module} {why}")
        if fits(module, PURE):
            wrong += [f"{module}:{line}: calls {name}(), but {module} is pure" for line, name in impure_calls(tree)]
    return wrong


def test_every_import_is_allowed() -> None:
    package = Path(reame.__file__).parent
    assert len(modules(package)) > 20
    wrong = wrong_edges(package)
    assert not wrong, "\n".join(wrong)


def plant(folder: Path, files: dict[str, str]) -> Path:
    """A package `reame` of these files, beside the modules that they import."""
    package = folder / "reame"
    bystanders = ("cli", "config", "core/scheduler", "engine/llama", "runtime/decode", "runtime/intake")
    for name, text in {**{f"{name}.py": "" for name in bystanders}, **files}.items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text, encoding="utf-8")
    (package / "__init__.py").touch()
    return package


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        ("core/a.py", "import trio\n", "trio"),
        ("core/a.py", "import os.path\n", "os.path"),
        ("core/a.py", "def f():\n    from time import monotonic\n", "time"),
        ("core/a.py", "def f(p):\n    return open(p)\n", "open()"),
        ("core/a.py", "from datetime import datetime\nT = datetime.now()\n", "now()"),
        ("core/a.py", "from reame import engine\n", "reame.engine"),
        ("core/a.py", "from ..engine import llama\n", "reame.engine.llama"),
        ("core/a.py", "from reame.config import Config\n", "reame.config"),
        ("core/__init__.py", "from ..runtime.decode import run\n", "reame.runtime.decode"),
        ("core/a.py", "import typing\nif typing.TYPE_CHECKING:\n    import reame.runtime\n", "reame.runtime"),
        ("speculation/a.py", "import llama_cpp.llama_cpp\n", "llama_cpp.llama_cpp"),
        ("api/schema_chat.py", "import quart\n", "quart"),
        ("api/routes.py", "from reame.runtime import intake, decode\n", "reame.runtime.decode"),
        ("api/routes.py", "from reame.engine.llama import Llama\n", "reame.engine.llama"),
        ("memory/a.py", "import trio\n", "trio"),
        ("memory/a.py", "import llama_cpp\n", "llama_cpp"),
        ("engine/step.py", "import trio\n", "trio"),
        ("engine/a.py", "from reame.runtime import intake\n", "reame.runtime.intake"),
        ("config.py", "from reame.core import scheduler\n", "reame.core.scheduler"),
        ("errors.py", "from reame import config\n", "reame.config"),
        ("runtime/a.py", "from reame.commands import run\n", "reame.commands"),
        ("runtime/a.py", "from reame import cli\n", "reame.cli"),
        ("surprise.py", "", "reame.surprise"),
    ],
)
def test_a_wrong_edge_is_found(tmp_path: Path, file: str, text: str, named: str) -> None:
    wrong = wrong_edges(plant(tmp_path, {file: text}))
    assert len(wrong) == 1
    assert named in wrong[0]


def test_right_edges_pass(tmp_path: Path) -> None:
    right = {
        "__init__.py": "__version__ = '1'\n",
        "core/a.py": "from collections.abc import Sequence\nfrom attrs import frozen\nfrom .scheduler import plan\n",
        "speculation/a.py": "import numpy as np\nfrom reame.core.scheduler import plan\n",
        "engine/llama_context.py": "import ctypes\nimport llama_cpp.llama_cpp\nfrom reame.core import scheduler\n",
        "engine/thread.py": "import trio\nfrom reame import __version__\n",
        "runtime/a.py": "import trio\nfrom reame.engine.llama import Llama\nfrom reame.config import Config\n",
        "api/schema_chat.py": "import json\nfrom reame.core import scheduler\n",
        "api/routes.py": "import quart\nfrom reame.runtime import intake\nfrom reame.api.schema_chat import parse\n",
        "commands/run.py": "from reame.runtime import decode\nfrom reame.engine import llama\n",
        "cli.py": "from reame.commands.run import run\n",
    }
    assert wrong_edges(plant(tmp_path, right)) == []
