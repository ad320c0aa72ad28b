"""The spin of libgomp's threads, with the real library in a process of its own: its environment counts as it loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import ctypes, json, os, sys
from pathlib import Path
from reame.engine.spin import SPARE, set_spin, spin_switch

set_spin(int(sys.argv[1]))
libgomp = ctypes.CDLL("libgomp.so.1")
switch = spin_switch(lambda: room)
tasks = Path("/proc/self/task")
nothing = ctypes.cast(libgomp.omp_get_thread_num, ctypes.c_void_p)
before = set(os.listdir(tasks))
libgomp.GOMP_parallel(nothing, None, ctypes.c_uint(2), ctypes.c_uint(0))
(worker,) = set(os.listdir(tasks)) - before

def state():
    return (tasks / worker / "stat").read_text().rpartition(")")[2].split()[0]

def cpu_seconds():
    # until the worker sleeps: what it spins after a region in which it had nothing to do
    while state() != "S":
        pass
    start = int((tasks / worker / "schedstat").read_text().split()[0])
    for _ in range(10):
        libgomp.GOMP_parallel(nothing, None, ctypes.c_uint(2), ctypes.c_uint(0))
        while state() != "S":
            pass
    return (int((tasks / worker / "schedstat").read_text().split()[0]) - start) / 1e9

def settled(number):
    while len(os.listdir(tasks)) != number:
        pass

number = len(os.listdir(tasks))
told = {"switch": switch is not None, "env": {n: os.environ.get(n) for n in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}}
if switch:
    wanted = SPARE + 1 + len(os.sched_getaffinity(0))
    told["long"] = cpu_seconds()
    room = wanted - 1
    told["refused"] = not switch.shorten() and len(os.listdir(tasks)) == number
    room = wanted
    told["done"] = switch.shorten() and switch.shorten()
    settled(number + 1 + len(os.sched_getaffinity(0)))
    told["short"] = cpu_seconds()
    switch.lengthen()
    switch.lengthen()
    settled(number)
    told["again"] = cpu_seconds()
print(json.dumps(told))
"""


def told(count: int, **environ: str) -> dict[str, object]:
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")} | environ
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count)], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_idle_threads_spin_long_or_shortly_as_they_are_told() -> None:
    found = told(0)
    assert found["switch"]
    assert found["refused"], "libgomp would end the process for want of a thread"
    assert found["done"]
    long, short, again = (found[name] for name in ("long", "short", "again"))
    assert isinstance(long, float)
    assert isinstance(short, float)
    assert isinstance(again, float)
    assert short < long / 3, "turns of the processor, not time on a clock"
    assert short < again / 3


def test_a_fixed_count_stays_and_the_user_s_environment_too() -> None:
    assert told(3000) == {"switch": False, "env": {"GOMP_SPINCOUNT": "3000", "OMP_WAIT_POLICY": None}}
    own = {"GOMP_SPINCOUNT": "77", "OMP_WAIT_POLICY": None}
    assert told(0, GOMP_SPINCOUNT="77") == {"switch": False, "env": own}
