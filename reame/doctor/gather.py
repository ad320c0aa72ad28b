"""Takes in what the doctor's children tell, line by line, and makes a `Measured` of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from attrs import Factory, define

from reame.doctor.results import Lossless, Measured, ModelMeasured, Spin, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.host.contention import Contention

_TABLES = ("decode", "few", "prefill", "steps", "bandwidth", "variant", "spin")


@define
class Told:
    """Facts so far; owner: `measure`."""

    name: str
    facts: dict[str, Any] = Factory(dict)
    skipped: list[str] = Factory(list)
    faults: list[str] = Factory(list)
    _refused: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the model ran far enough to say what threads are best."""
        return all(self.facts.get(name) for name in ("decode", "prefill", "few", "threads"))

    def best(self) -> tuple[int, int]:
        """Threads to decode with, and to read prompts with, that the first measurement chose."""
        decode, prefill = self.facts["threads"]
        return decode, prefill

    def take(self, handle: int, place: int, show: Callable[[float, str], None]) -> int:
        """Read the whole lines from byte `place` on of a child's output. Returns where the next ones begin."""
        data = os.pread(handle, 1 << 20, place)
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            try:
                self._take(json.loads(line), show)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # a library that prints
        return place + whole

    def ended(self, what: str, death: str) -> None:
        """The child is gone; `death` is empty when it went by itself."""
        if self._refused:
            self.faults.append(f"{what}: {self._refused}")
        elif death:
            self.faults.append(f"{what} {death}")
        self._refused = ""

    def measured(self, seconds: float, contention: Contention) -> Measured:
        facts = self.facts
        return Measured(
            seconds=seconds,
            bandwidth=facts.get("bandwidth", {}),
            disk_write=facts.get("disk_write"),
            disk_read=facts.get("disk_read"),
            contention=contention,
            model=self._model() if self.is_complete else None,
            faults=tuple(self.faults),
            skipped=tuple(self.skipped),
        )

    def _take(self, line: dict[str, Any], show: Callable[[float, str], None]) -> None:
        if "fact" in line:
            name, value = line["fact"], line["value"]
            if name in _TABLES:
                key = line["key"]
                self.facts.setdefault(name, {})[key] = value
            else:
                self.facts[name] = value
        elif "doing" in line:
            show(line["share"], line["doing"])
        elif "skipped" in line:
            self.skipped.append(line["skipped"])
        elif "refused" in line:
            self._refused = line["refused"]

    def _model(self) -> ModelMeasured:
        facts = self.facts
        return ModelMeasured(
            name=self.name,
            **{key: facts[key] for key in ("description", "size_bytes", "context_trained", "load_seconds")},
            threads=facts["threads"][0],
            prefill_threads=facts["threads"][1],
            **{key: facts[key] for key in ("anon_bytes", "file_bytes", "faults", "decode", "few", "prefill")},
            kv_bytes=facts.get("kv_bytes", 0),
            steps=facts.get("steps", {}),
            save=facts.get("save"),
            restore=facts.get("restore"),
            lossless=Lossless(**dict(zip(("warm", "crowd", "same_text"), facts["lossless"], strict=True)))
            if "lossless" in facts
            else None,
            variants={
                name: Variant(decode=decode, prefill=prefill, anon_bytes=anon)
                for name, (decode, prefill, anon) in facts.get("variant", {}).items()
            },
            spins={count: Spin(alone=alone, beside=beside) for count, (alone, beside) in facts.get("spin", {}).items()},
        )
