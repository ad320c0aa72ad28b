"""Try a model in a child process first: what crashes there cannot take the daemon down.

llama.cpp can die by a signal: CPU flags that lie, kernels with faults (AMX), a build for another machine, no memory
for repacked weights. The child loads the model just as the daemon will, only with a small context, and computes a few
batches. Run it by hand with `python -m reame.engine.canary MODEL '{"threads": 2}'`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import asdict, evolve, frozen

from reame.core.request import Sampling
from reame.engine.base import Row
from reame.engine.kernels import library_file
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.engine.spin import FIXED
from reame.errors import ModelError, ReameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "reame.engine.canary")
"""`-P`, here and wherever else a Python starts: nothing is imported from the folder that somebody runs reame in."""
_BATCHES = (1, 64, 8)
"""Rows of the batches tried: matrix-vector, matrix-matrix and what lies between are different kernels."""
_CRASHES = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT, signal.SIGKILL)
"""What a fault ends a process with, SIGKILL when there is no memory; other signals are somebody's wish to stop."""
_SLOWEST_DISK = 10e6
"""Bytes a second; the model's size by this, and a minute and a half, is how long the child may take."""
_GLANCE_S = 0.1
"""Seconds between two looks at whether the trial is still wanted."""


@frozen(kw_only=True)
class Verdict:
    """The model runs here with these two. When not as it was asked for, `reason` says why, in a sentence."""

    extra_buffers: bool
    own_kernels: bool = False
    reason: str = ""


def check(
    model: Path,
    options: LlamaOptions,
    *,
    cache_dir: Path,
    parts: Sequence[Path] = (),
    cpu_features: Iterable[str] = (),
    command: Sequence[str] = COMMAND,
    timeout: float | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> Verdict:
    """Run the child, and when it dies by a signal, once more without own kernels, and once without extra buffers.
    Blocks; any thread.

    A good verdict is kept in `cache_dir`/canary, under a name that holds all it depends on: the files, the build of
    llama.cpp, the CPU and the settings. Raises ModelError, never kept, when the model cannot run. `timeout` is for each
    child, in seconds; by default it grows with the files. Once `go_on` says no, the child is killed: ModelError.
    `parts`: all files of a split model, `model` among them.
    """
    small = evolve(options, num_cells=512, num_seqs=1, max_rows=max(_BATCHES), max_sampled=1, mlock=False)
    trial = evolve(small, spin_count=options.spin_count or FIXED)
    try:
        files = parts or (model,)
        entry = cache_dir / "canary" / f"{_key(files, trial, cpu_features)}.json"
        seconds = timeout or 90 + sum(file.stat().st_size for file in files) / _SLOWEST_DISK
    except OSError as error:
        raise ModelError(f"refused: {model} cannot be read ({error.strerror})") from error
    if (kept := _kept(entry)) is not None:
        return kept
    run = partial(_crash, command=command, seconds=seconds, go_on=go_on)
    crash, reason = run(model, trial), ""
    for less, what in _lessened(trial):
        if crash is None:
            break
        first, crash = crash, run(model, less)
        trial, reason = less, f"{what} off: llama.cpp dies of {first.signal.name} here with them and runs without"
    if crash is not None:
        raise ModelError(f"refused: {_obituary(model.name, crash)}")
    verdict = Verdict(extra_buffers=trial.extra_buffers, own_kernels=trial.own_kernels, reason=reason)
    if signal.SIGKILL.name not in reason:  # there may be memory another time
        _keep(entry, verdict)
    return verdict


def _lessened(trial: LlamaOptions) -> Iterator[tuple[LlamaOptions, str]]:
    """What may be at fault, each of it left out."""
    if trial.own_kernels:
        yield evolve(trial, own_kernels=False), "own kernels"
    if trial.extra_buffers and not trial.exact:
        yield evolve(trial, extra_buffers=False), "extra buffers"


@frozen
class _Crash:
    signal: signal.Signals
    words: str
    """What ggml said before it ended itself: file, line, assertion; else empty."""


def _crash(
    model: Path, trial: LlamaOptions, *, command: Sequence[str], seconds: float, go_on: Callable[[], bool]
) -> _Crash | None:
    """None: it ran. Else how the child crashed. Raises ModelError for a refusal that was said in words."""
    try:
        done = _run([*command, str(model), json.dumps(asdict(trial))], seconds, go_on)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"refused: {model.name} gave no token within {seconds:.0f} s in a trial run") from error
    except OSError as error:
        raise ModelError(f"refused: the trial of the model could not start: {error}") from error
    said = done.stderr.decode("utf-8", "replace")
    if -done.returncode in _CRASHES:
        words = re.search(r"[^/\n]+:\d+: \S.*", said)
        return _Crash(signal.Signals(-done.returncode), words[0] if words else "")
    try:
        refusal = json.loads(done.stdout.splitlines()[-1]).get("refused")
    except (IndexError, ValueError, AttributeError):
        last = said.strip().rpartition("\n")[2] or "no message"
        refusal = f"the trial of {model.name} ended with status {done.returncode}: {last}"
    if refusal:
        raise ModelError(f"refused: {refusal}")
    return None


def _run(words: Sequence[str], seconds: float, go_on: Callable[[], bool]) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run` with a timeout, with a look at `go_on` now and then."""
    give_up = time.monotonic() + seconds
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "GGML_NO_BACKTRACE": "1"},
    ) as child:  # fmt: skip
        try:
            while go_on():
                try:
                    out, err = child.communicate(timeout=_GLANCE_S)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= give_up:
                        raise
                else:
                    return subprocess.CompletedProcess(words, child.returncode, out, err)
        finally:
            child.kill()
    raise ModelError("the trial of the model was given up")


def _obituary(name: str, crash: _Crash) -> str:
    if crash.signal == signal.SIGILL:
        return (
            "llama.cpp met an illegal instruction: it was built for another CPU; "
            "run ./scripts/setup on this machine to build it again"
        )
    if crash.signal == signal.SIGKILL:
        return f"{name} was killed in its trial, most likely for lack of memory: take a smaller model or quantisation"
    words = f" ({crash.words})" if crash.words else ""
    return f"llama.cpp dies of {crash.signal.name} with {name}{words}: fetch the file again or take another model"


def _key(files: Sequence[Path], trial: LlamaOptions, cpu_features: Iterable[str]) -> str:
    """A hash of all that the verdict depends on."""
    found = importlib.util.find_spec("llama_cpp")
    libraries = sorted((Path(found.origin).parent / "lib").iterdir()) if found and found.origin else []
    if trial.own_kernels:
        libraries.append(library_file())
    facts = (
        [_identity(file.resolve(strict=True)) for file in files],
        importlib.metadata.version("llama-cpp-python"),
        [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in libraries],
        sorted(cpu_features),
        asdict(trial),
    )
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _identity(file: Path) -> tuple[str | int, ...]:
    found = file.stat()
    return (str(file), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _kept(entry: Path) -> Verdict | None:
    """What was kept; anything unexpected in the file counts as nothing."""
    try:
        values = json.loads(entry.read_bytes())
        extra_buffers, own_kernels, reason = values["extra_buffers"], values["own_kernels"], values["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if type(extra_buffers) is not bool or type(own_kernels) is not bool or type(reason) is not str:
        return None
    return Verdict(extra_buffers=extra_buffers, own_kernels=own_kernels, reason=reason)


def _keep(entry: Path, verdict: Verdict) -> None:
    """Whole or not at all. Without a place to write, the next start tries the model again."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=entry.parent)
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(verdict), file)
        os.replace(name, entry)
    except OSError as error:
        log.warning("the canary's verdict cannot be kept: %s", error)


def try_model(model: Path, options: LlamaOptions) -> None:
    """Load, compute, draw. Raises ReameError in words, or takes this process down."""
    engine = LlamaEngine(model, options)
    sampler = engine.new_sampler(Sampling(seed=1), ())
    position = 0
    for size in _BATCHES:
        last = size - 1
        engine.decode(
            [
                Row((17 * (position + i)) % engine.info.vocab_size, position + i, 0, sampled=i == last)
                for i in range(size)
            ]
        )
        token = engine.sample(last, sampler)
        if not 0 <= token < engine.info.vocab_size or not math.isfinite(engine.logprobs(last, token, 1)[0]):
            raise ModelError(f"{model.name} computes no numbers here (NaN): fetch the file again or take another model")
        position += size


def main(arguments: Sequence[str], trial: Callable[[Path, LlamaOptions], None] = try_model) -> int:
    """The child: one JSON line on standard output, `{}` or `{"refused": why}`."""
    if len(arguments) != 2:
        print("usage: python -m reame.engine.canary MODEL.gguf '{\"threads\": 2}'", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    model, options = arguments
    try:
        trial(Path(model), LlamaOptions(**json.loads(options)))
    except ReameError as error:
        print(json.dumps({"refused": str(error)}))
        return 1
    print("{}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
