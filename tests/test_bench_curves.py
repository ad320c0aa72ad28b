"""Curves, marks, slopes, energy, and which rivals a peer at a URL takes the place of."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench.client import Address
from bench.curves import groups, line, lines, marks
from bench.energy import Energy, in_words
from bench.harness import rivals
from bench.remote import Remote
from bench.scale import table, to_json
from bench.scale_disk import archive, blocks
from bench.scale_slope import Series, slope
from bench.scenarios import SCENARIOS
from bench.scenarios.replay import share_avoided
from bench.sides import LLAMA_SERVER, Side
from bench.sse import Reply

PEER = Remote(Side("vllm at box", "url"), Address(port=80))


def test_a_line_has_medians_and_extremes_and_bears_holes() -> None:
    drawn = line("x", [[(1, 10), (2, 5)], [(1, 30)], [(1, 20), (2, 7)]])
    assert drawn.x == (1, 2)
    assert drawn.middle == (20, 6)
    assert (drawn.low, drawn.high) == ((10, 5), (30, 7))


def told(kind: str) -> dict[str, Any]:
    ratio = {"median": 2.0, "lowest": 1.8, "highest": 2.5, "pairs": 3, "verdict": True}
    ours = {"label": "Reame", "kind": "reame", "curves": [{"c": [[1, 2]]}], "ratios": {}}
    other = {"label": "other", "kind": kind, "curves": [], "ratios": {"m": ratio}}
    return {"scenarios": [{"name": "s", "titles": {"m": "speed"}, "sides": [ours, other]}]}


def test_curves_and_marks_of_a_file() -> None:
    (drawn,) = lines(told("llama-server"), "s", "c")
    assert (drawn.label, drawn.x, drawn.middle) == ("Reame", (1,), (2,))
    assert lines(told("llama-server"), "another", "c") == []
    (mark,) = marks(told("llama-server"))
    assert (mark.title, mark.rival, mark.middle, mark.is_verdict) == ("s: speed", "other", 2.0, True)
    assert marks(told("reame")) == []


@given(st.floats(-2, 2), st.floats(0.01, 100))
def test_the_slope_of_a_power_is_its_exponent(exponent: float, factor: float) -> None:
    points = [(size, factor * size**exponent) for size in (1.0, 10.0, 50.0, 1000.0)]
    assert slope(points) == pytest.approx(exponent, abs=1e-9)


@pytest.mark.parametrize("points", [[], [(1, 1), (2, 2)], [(1, 1), (2, 0), (3, 1)], [(2, 1), (2, 2), (2, 3)]])
def test_no_slope(points: list[tuple[float, float]]) -> None:
    assert slope(points) is None


def test_scale_in_a_file_and_its_pictures() -> None:
    points = ((1.0, 2.0), (10.0, 20.0), (100.0, 200.0))
    made = Series(name="users_wait", title="t", size="users", unit="s", points=points, note="the end")
    read = json.loads(to_json([made], {"seed": 1}))
    (growth,) = groups(read)["users"]
    assert growth.slope == pytest.approx(1.0)
    assert (growth.x, growth.y) == ((1, 10, 100), (2, 20, 200))
    assert table([made]).row_count == 2


def test_blocks_and_archive_are_really_asked(tmp_path: Path) -> None:
    """A block that does not come back fails the measurement itself."""
    made = blocks((32, 64, 96), tmp_path / "b", 1, lambda _line: None)
    made += archive((600, 1200, 1800), tmp_path / "a", 1, lambda _line: None)
    assert [series.name for series in made] == [
        "blocks_write",
        "blocks_read",
        "blocks_miss",
        "blocks_open",
        "archive_append",
        "archive_find",
        "archive_open",
    ]
    assert all(len(series.points) == 3 and series.slope is not None for series in made)
    assert len(list((tmp_path / "b").rglob("*.kv"))) == 96


def zone(root: Path, name: str, *, kind: str, joules: float, range_uj: int = 10_000_000) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "name").write_text(f"{kind}\n")
    (root / name / "energy_uj").write_text(f"{int(joules * 1e6)}\n")
    (root / name / "max_energy_range_uj").write_text(f"{range_uj}\n")


def test_energy_of_all_packages_over_the_turn_of_a_counter(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", kind="package-0", joules=1)
    zone(tmp_path, "intel-rapl:1", kind="package-1", joules=9)
    zone(tmp_path, "intel-rapl:0:0", kind="core", joules=1)
    zone(tmp_path, "intel-rapl:2", kind="psys", joules=1)
    zone(tmp_path, "intel-rapl-mmio:0", kind="package-0", joules=1)
    before = Energy.now(tmp_path)
    assert before is not None
    zone(tmp_path, "intel-rapl:0", kind="package-0", joules=4)
    zone(tmp_path, "intel-rapl:1", kind="package-1", joules=2)
    zone(tmp_path, "intel-rapl:0:0", kind="core", joules=4)
    assert before.joules() == pytest.approx(3 + 3)
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert before.joules() is None


def test_energy_that_cannot_be_read(tmp_path: Path) -> None:
    assert Energy.now(tmp_path / "none") is None
    assert "not readable" in in_words(tmp_path)


def test_a_peer_takes_the_place_of_all_llama_servers_once() -> None:
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    for scenario in SCENARIOS:
        assert rivals(scenario, None) == scenario.rivals
        sides = rivals(scenario, PEER)
        assert not [side for side in sides if side.kind == "llama-server"]
        beside_llama = any(side.kind == "llama-server" for side in scenario.rivals)
        assert sides.count(PEER.side) == (beside_llama and not scenario.restarts)
    assert LLAMA_SERVER in by_name["prefix"].rivals
    assert rivals(by_name["prefix"], PEER) == ()


def test_the_share_that_was_not_computed() -> None:
    def reply(prompt: int, cached: int, completion: int, skipped: int) -> Reply:
        return Reply(
            sent=0,
            times=(),
            text="",
            ended=1,
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=completion,
            skipped_tokens=skipped,
        )

    assert share_avoided([reply(90, 0, 10, 0)]) == 0
    assert share_avoided([reply(90, 60, 10, 5), reply(90, 90, 10, 10)]) == pytest.approx(165 / 200)
