"""What the doctor's child processes are told to do, and the lines they answer with: JSON, one object a line.

A line is `{"fact": "decode", "key": 2, "value": 0.071}`, `{"doing": "...", "share": 0.4}` (of this child's time),
`{"skipped": "..."}`, `{"refused": "..."}` or `{"end": true}`, which is the last one. A fact stays true when the child
dies after it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from attrs import Factory, asdict, frozen

from reame.engine.llama import LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Mapping


@frozen(kw_only=True)
class Order:
    """`task`: a function of `child.TASKS`. `threads`: counts to try, the quick choice first. `variants`: name ->
    options that differ.
    """

    task: str
    seconds: float
    model: str = ""
    options: LlamaOptions = Factory(LlamaOptions)
    threads: tuple[int, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] = Factory(dict)
    folder: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        values = json.loads(text)
        options = LlamaOptions(**values.pop("options"))
        return cls(**{**values, "options": options, "threads": tuple(values["threads"])})


def tell_fact(name: str, value: object, key: str | int = "") -> None:
    _tell({"fact": name, "key": key, "value": value})


def tell_doing(what: str, share: float) -> None:
    _tell({"doing": what, "share": share})


def tell_skipped(what: str) -> None:
    _tell({"skipped": what})


def tell_end(**refused: str) -> None:
    _tell(refused or {"end": True})


def _tell(line: Mapping[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()
