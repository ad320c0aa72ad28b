"""The child process in which constraints are compiled for the first time: `python -m reame.constraint.trial`.

It reads one constraint a line from standard input, and answers each with one line: {"grammar": text}, or {"fault":
message, "path": [...], "keyword": name}. One that takes more than `SECONDS` of processor time, `MEGABYTES` of memory,
or a deeper stack than the daemon's own threads have, ends it without an answer. It ends with its standard input.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import threading
from typing import Any

from llguidance import LLTokenizer

from reame.constraint.fault import ConstraintFault
from reame.constraint.grammar import compiled
from reame.core.constraint import Constraint

SECONDS = 0.7
MEGABYTES = 400
TOO_MUCH = "takes too much time or memory to compile: make it smaller or simpler"
STACK_BYTES = 2 << 20
"""A quarter of what other threads have: what compiles here compiles there."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the daemon, whose end ends us
    tokenizer = LLTokenizer("byte")
    _limit_memory()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        answer = _on_small_stack(line, tokenizer)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(answer), flush=True)


def _limit_memory() -> None:
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    limit = now + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _on_small_stack(line: str, tokenizer: LLTokenizer) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=lambda: answers.append(_try(line, tokenizer)))
    thread.start()
    thread.join()
    return answers[0]


def _try(line: str, tokenizer: LLTokenizer) -> dict[str, Any]:
    try:
        return {"grammar": compiled(Constraint(**json.loads(line)), tokenizer)}
    except ConstraintFault as fault:
        return {"fault": fault.message, "path": fault.path, "keyword": fault.keyword}
    except (MemoryError, RecursionError):
        return {"fault": TOO_MUCH, "path": (), "keyword": ""}
    except Exception as error:  # a check of ours is missing: this child lives on, and its author's words are no help
        return {"fault": f"cannot be read ({type(error).__name__})", "path": (), "keyword": ""}


if __name__ == "__main__":
    main()
