"""What a reader of the benchmark sees: ratios only where they are earned, goals, noise, and the same in JSON."""

from __future__ import annotations

import itertools
import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from attrs import evolve
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench import llama_bench
from bench.harness import Outcome, Result, is_quiet, quietest, rounds_of
from bench.markdown import markdown
from bench.noise import Noise
from bench.report import notes, rows, table, to_json
from bench.scenario import FULL, QUICK, Metric, Run, Scenario
from bench.scenarios import SCENARIOS
from bench.sides import LLAMA_BENCH, LLAMA_SERVER, REAME, Setup, Side, llama_server_command, reame_config
from bench.stats import Goal

SPEED = Metric(name="speed", title="decode", unit="tok/s", goals=(Goal("ratio", 0.97),))
GAP = Metric(name="gap", title="gap", unit="s", better="lower", goals=(Goal("value", 0.5, models="smollm2"),))
SETUP = Setup(model=Path("m.gguf"), threads=3, users=4, cells=9000)


def nothing(_run: Run) -> dict[str, float]:
    return {}


def outcome(*, others: float = 0.0, text: str = "same", **values: float) -> Outcome:
    noise = Noise(seconds=1.0, others=others, steal=0.0, client=0.01, pressure=0.25)
    return Outcome(values=values, noise=noise, texts=(text,), prompt_tokens=(16,))


def result(*runs: tuple[Side, list[Outcome]]) -> Result:
    scenario = Scenario(name="s", title="T", shows="x", favours="nobody", metrics=(SPEED, GAP), measure=nothing)
    return Result(scenario=scenario, sides=tuple(side for side, _ in runs), runs=tuple(tuple(made) for _, made in runs))


OURS = [outcome(speed=110, gap=0.1), outcome(speed=100, gap=0.2), outcome(speed=120, gap=0.1)]
SLOWER = [outcome(speed=55, gap=1.0), outcome(speed=50, gap=2.0), outcome(speed=60, gap=14.0)]
LIKE_US = [outcome(speed=100, gap=0.1), outcome(speed=110, gap=0.2), outcome(speed=121, gap=0.0)]


def test_a_clear_ratio_is_printed_with_its_range_and_goal() -> None:
    drawn = rows(result((REAME, OURS), (LLAMA_SERVER, SLOWER)), SPEED, "m.gguf")
    assert drawn == [
        ("decode, tok/s", "Reame", "110 (100 - 120)", "", ""),
        ("", "llama-server", "55 (50 - 60)", "2.00x (2.00 - 2.00)", ">= 0.97x: held"),
    ]


def test_the_same_as_markdown() -> None:
    other = Side("llama-server | x", "llama-server")
    made = result((REAME, OURS), (LLAMA_SERVER, SLOWER), (other, LIKE_US))
    assert markdown([made], "smollm2.gguf").splitlines() == [
        "| scenario | what | ours | others: ours is better by | goal |",
        "| --- | --- | --- | --- | --- |",
        "| `s` | decode, tok/s | 110 (100 - 120) | llama-server 55 (50 - 60): 2.00x (2.00 - 2.00); llama-server / x "
        "110 (100 - 121): no verdict (0.91 - 1.10) | llama-server: >= 0.97x: held, llama-server / x: >= 0.97x: open |",
        "| `s` | gap, s | 0.1 (0.1 - 0.2) | llama-server 2 (1 - 14): no verdict (10.00 - 140.00); llama-server / x 0.1 "
        "(0 - 0.2): no ratio (a zero) | at most 0.5 s: held |",
    ]
    with_one = markdown([result((REAME, OURS), (LLAMA_SERVER, SLOWER))], "m.gguf").splitlines()
    assert with_one[2].endswith(" 2.00x (2.00 - 2.00) | >= 0.97x: held |")
    assert with_one[3].endswith(" |  |"), "the goal of the gap is for smollm2"


def test_an_unclear_ratio_is_not() -> None:
    (_, row) = rows(result((REAME, OURS), (LLAMA_SERVER, LIKE_US)), SPEED, "m.gguf")
    assert row[3:] == ("no verdict (0.91 - 1.10)", ">= 0.97x: open")


def test_lower_is_better_and_a_zero_gives_no_ratio() -> None:
    both = result((REAME, OURS), (LLAMA_SERVER, SLOWER), (Side("other", "llama-server"), LIKE_US))
    ours, server, other = rows(both, GAP, "SmolLM2.gguf")
    assert ours[4] == "at most 0.5 s: held"
    assert server[3] == "no verdict (10.00 - 140.00)"  # surely better, but by how much nobody can say
    assert other[3] == "no ratio (a zero)"
    assert rows(both, GAP, "qwen.gguf")[0][4] == ""


def test_a_ceiling_has_no_goal_and_only_its_own_metrics() -> None:
    bench = [Outcome(values={"speed": value}, noise=OURS[0].noise) for value in (220.0, 200.0, 240.0)]
    both = result((REAME, OURS), (LLAMA_BENCH, bench))
    assert rows(both, SPEED, "m.gguf")[1] == ("", "llama-bench", "220 (200 - 240)", "0.50x (0.50 - 0.50)", "")
    assert [row[1] for row in rows(both, GAP, "m.gguf")] == ["Reame"]


def test_notes_tell_noise_and_other_work() -> None:
    noisy = [outcome(speed=1, gap=1, others=1.5, text="other"), *SLOWER[1:]]
    lines = notes(result((REAME, OURS), (LLAMA_SERVER, noisy)))
    assert lines[0] == (
        "Noise: others used 0.00 cores (at most 1.50), steal 0.00, CPU pressure 25%, this client 0.01. Rounds: 3."
    )
    assert lines[1].startswith("NOT QUIET: beside 1 of 6 runs")
    assert lines[2] == "Same text as llama-server in 2 of 3 rounds."


def test_noisy_rounds_are_left_out_whatever_they_measured() -> None:
    rounds = [
        [outcome(speed=1), outcome(speed=1, others=0.3)],
        [outcome(speed=2, others=0.05), outcome(speed=2)],
        [outcome(speed=3, others=0.9), outcome(speed=3)],
        [outcome(speed=4), outcome(speed=4)],
    ]
    assert [is_quiet(played) for played in rounds] == [False, True, False, True]
    assert quietest(rounds, 3) == [rounds[0], rounds[1], rounds[3]]
    assert quietest(rounds, 9) == rounds


@pytest.mark.parametrize(
    ("seconds", "noisy", "played"),
    [
        (1000, (), 7),  # all that were asked for
        (1000, (1, 2), 9),  # and others for the noisy ones
        (50, (), 5),  # of ten seconds each: the fifth ends in time
        (49, (), 4),
        (5, (), 3),  # the fewest of which a ratio is printed
        (0, (), 3),
    ],
)
def test_rounds_end_with_their_time_but_are_three_at_least(seconds: float, noisy: tuple[int, ...], played: int) -> None:
    now = [100.0]

    def one(place: int) -> list[Outcome]:
        now[0] += 10
        return [outcome(speed=place, others=0.3 if place in noisy else 0.0)]

    made = rounds_of(one, rounds=7, tries=14, seconds=seconds, clock=lambda: now[0])
    assert [run.values["speed"] for (run,) in made] == list(range(played))


def test_discarded_rounds_are_told() -> None:
    line = notes(evolve(result((REAME, OURS), (LLAMA_SERVER, SLOWER)), discarded=2))[0]
    assert line.endswith("Rounds: 3, and 2 discarded as noisier.")


def test_the_table_as_printed() -> None:
    printed = StringIO()
    Console(width=118, file=printed).print(table(result((REAME, OURS), (LLAMA_SERVER, SLOWER)), "m.gguf"))
    text = printed.getvalue()
    assert "Favours nobody" in text
    assert "2.00x (2.00 - 2.00)" in text
    assert max(len(line) for line in text.splitlines()) <= 118


def test_json_holds_every_run() -> None:
    told = json.loads(to_json([result((REAME, OURS), (LLAMA_SERVER, LIKE_US))], {"seed": 7}))
    ours, theirs = told["scenarios"][0]["sides"]
    assert told["seed"] == 7
    assert ours["values"]["speed"] == [110, 100, 120]
    assert theirs["ratios"]["speed"]["verdict"] is False
    assert "gap" not in theirs["ratios"]
    assert ours["noise"][0]["pressure"] == 0.25


def test_both_servers_get_the_same() -> None:
    command = llama_server_command(Path("bin"), SETUP, Side("x", "llama-server", ("-b", "64")), 81)
    options = dict(itertools.pairwise(command))
    engine = reame_config(SETUP, 82)["engine"]
    assert options["--threads"] == str(engine["threads"]) == "3"
    assert options["--ctx-size"] == str(engine["cells"]) == "9000"
    assert options["--cache-type-k"] == options["--cache-type-v"] == engine["kv_type"] == "q8_0"
    assert (options["--parallel"], options["-b"], options["--port"]) == ("4", "64", "81")


def test_llama_bench_rates_go_to_their_metrics() -> None:
    tests = (llama_bench.Test("short", 512, 0), llama_bench.Test("long", 2000, 0))
    command = llama_bench.command(Path("bin"), SETUP, tests)
    assert command[command.index("-p") + 1] == "512,2000"
    assert command[command.index("-n") + 1] == "0"
    output = json.dumps([{"n_prompt": n, "n_gen": 0, "avg_ts": n / 10} for n in (2000, 512)])
    assert llama_bench.rates(output, tests) == {"short": 51.2, "long": 200.0}


def test_every_scenario_says_what_it_shows_and_tests_only_its_own_metrics() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    for scenario in SCENARIOS:
        assert scenario.shows
        assert scenario.favours
        assert scenario.cells >= scenario.context
        for scale in (FULL, QUICK):
            assert {test.metric for test in scenario.tests(scale)} <= {metric.name for metric in scenario.metrics}


def test_every_scenario_stands_in_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md").read_text()
    part = text.partition("\n## Scenarios\n")[2].partition("\n## ")[0]
    rows_of = {line.split("|")[1].strip(): line for line in part.splitlines() if line.startswith("| `")}
    told = {name.partition(" ")[0].strip("`"): "(named)" in name for name in rows_of}
    assert told == {scenario.name: not scenario.by_default for scenario in SCENARIOS}
