"""Old answers of several threads and processes at once, and of one that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from answering import key, long

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.memory.answers import AnswerStore


def test_threads_and_processes_at_once(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from answering import key, long
from reame.memory.answers import AnswerStore
store = AnswerStore(Path(sys.argv[1]), budget_bytes=50_000)
for number in range(100):
    store.put(key(number % 50), long(number % 50), namespace="")
    assert store.get(key(number % 50)) in (None, long(number % 50))
store.close()
"""
    store = open_store(50_000)
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    path = str(tmp_path / "memory" / "answers.sqlite")
    others = [subprocess.Popen([sys.executable, "-c", program, path], env=environment) for _ in range(2)]
    wrong = []

    def use(start: int) -> None:
        for number in range(100):
            store.put(key(start + number % 50), long(start + number % 50), namespace="")
            if store.get(key(number % 50)) not in (None, long(number % 50)):
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(start,)) for start in (0, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(60) for other in others] == [0, 0]
    counts = store.stats()
    assert wrong == []
    assert counts.corrupt == 0
    assert counts.bytes <= 50_000
    assert store.verify() == (counts.answers, 0)


def test_a_writer_that_is_killed_leaves_a_sound_database(
    open_store: Callable[..., AnswerStore], tmp_path: Path
) -> None:
    program = """
import sys
from pathlib import Path
from answering import key, long
from reame.memory.answers import AnswerStore
store = AnswerStore(Path(sys.argv[1]), budget_bytes=1 << 30)
number = 0
while True:
    assert store.put(key(number), long(number), namespace="")
    print(number, flush=True)
    number += 1
"""
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-c", program, str(tmp_path / "memory" / "answers.sqlite")]
    for lines in (1, 37, 90):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            last = [int(process.stdout.readline()) for _ in range(lines)][-1]
            process.kill()
        store = open_store(1 << 30)
        assert store.get(key(last)) == long(last)
        assert store.verify()[1] == 0
        store.close()
