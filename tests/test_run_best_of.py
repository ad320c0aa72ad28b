"""`reame run --best-of`: what it makes of the option, how an election is told, and the real thing on the real model."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reame.commands.election import conclave_of, told
from reame.config import Config
from reame.core.vote import Agreed, Conclave, Verdict, VoteKind
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_candidates_are_asked_for() -> None:
    config = Config()
    assert conclave_of("", None, config.conclave) is None
    assert conclave_of("1", "text", config.conclave) is None
    assert conclave_of("5", "number", config.conclave) == Conclave(size=5, vote="number")
    assert conclave_of("auto", None, config.conclave) == Conclave(size=5, margin=0.1)


@pytest.mark.parametrize(("best_of", "vote"), [("0", None), ("65", None), ("many", None), ("-3", None), ("", "text")])
def test_candidates_are_asked_for_wrongly(best_of: str, vote: VoteKind | None) -> None:
    with pytest.raises(ConfigError, match="--best-of"):
        conclave_of(best_of, vote, Config().conclave)


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (Verdict(candidates=5, vote="number", elected=1, agreement=3), "(3 of 5 candidates agree)"),
        (Verdict(candidates=1, vote="number", elected=0, agreement=1), "(one candidate answered, and was certain)"),
        (Verdict(candidates=3, vote="number", elected=0, agreement=1), "(no two of 3 candidates agree)"),
        (
            Verdict(candidates=5, vote="number", elected=1, agreement=3, stopped=2, ms_saved=2340),
            "(3 of 5 candidates agree; 2 stopped early, which saved about 2.3 s)",
        ),
        (
            Verdict(candidates=3, vote="json", elected=1, agreement=1, fields=(Agreed("a", 2), Agreed("b", 3))),
            "(no two of 3 candidates agree; field by field: a 2, b 3)",
        ),
    ],
)
def test_how_an_election_is_told(verdict: Verdict, line: str) -> None:
    assert told(verdict) == line


@pytest.mark.model
def test_one_answer_and_a_line_about_it(model_path: Path) -> None:
    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        run = [sys.executable, "-m", "reame", "run", str(model_path), "--context", "256", "--temperature", "0"]
        return subprocess.run([*run, *words], input="", capture_output=True, text=True, check=False, timeout=120)

    plain = ask("Name an animal.", "--max-tokens", "8", "--stats")
    best = ask("Name an animal.", "--max-tokens", "8", "--best-of", "3", "--vote", "text", "--stats")
    again = ask("Name an animal.", "--max-tokens", "8", "--best-of", "3", "--vote", "text", "--stats")
    assert plain.returncode == best.returncode == again.returncode == 0
    assert best.stdout == again.stdout
    assert best.stdout.strip()
    election, account = best.stderr.splitlines()
    assert re.fullmatch(r"\(.* candidates .*\)", election)
    assert re.fullmatch(r"\(prompt: .*; all answers: \d+ tokens, .*\)", account)
    assert again.stderr.splitlines()[0] == election
    wrong = ask("Name an animal.", "--best-of", "many")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == "reame: --best-of: expected a number from 1 to 64, or auto, got many\n"
