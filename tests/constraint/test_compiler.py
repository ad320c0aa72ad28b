"""What is compiled once, kept, let go, and shared by threads."""

from __future__ import annotations

import gc
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest
from walking import Walker, of_schema

from reame.constraint import compiler as module
from reame.constraint.compiler import ConstraintCompiler
from reame.core.constraint import Constraint
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary


@pytest.fixture
def own(tokens: Tokens) -> Iterator[ConstraintCompiler]:
    compiler = ConstraintCompiler(lambda: tokens)
    yield compiler
    compiler.close()


def number(n: int) -> Constraint:
    return Constraint("regex", f"number {n}")


def test_the_same_constraint_is_compiled_once(own: ConstraintCompiler) -> None:
    assert own.known(number(1)) is None
    grammar = own.compile(number(1))
    assert own.compile(Constraint("regex", "number 1")) is grammar
    assert own.known(number(1)) is grammar


def test_the_longest_unused_goes_first_unless_somebody_holds_it(
    own: ConstraintCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    held = own.compile(number(0))
    for n in range(1, 4):
        own.compile(number(n))
    own.compile(number(1))
    own.compile(number(4))
    gc.collect()
    assert own.known(number(0)) is held
    assert [own.known(number(n)) is not None for n in range(1, 5)] == [True, False, True, True]


def test_large_ones_are_kept_up_to_a_sum(own: ConstraintCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_CHARS", 3 * len(number(0).source))
    for n in range(5):
        own.compile(number(n))
    gc.collect()
    assert [own.known(number(n)) is not None for n in range(5)] == [False, False, True, True, True]


def test_vocabulary_is_read_with_the_first_constraint(tokens: Tokens) -> None:
    asked: list[int] = []

    def told() -> Tokens:
        asked.append(1)
        return tokens

    compiler = ConstraintCompiler(told)
    with pytest.raises(RequestError):
        compiler.compile(Constraint("regex", "("))
    assert asked == []
    compiler.compile(number(1))
    compiler.compile(number(2))
    assert asked == [1]
    compiler.close()


def test_a_child_that_was_killed_while_it_was_idle_is_nobodys_fault(own: ConstraintCompiler) -> None:
    before = set(psutil.Process().children())
    own.compile(number(1))
    (child,) = set(psutil.Process().children()) - before
    child.kill()
    psutil.wait_procs([child], timeout=0)
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        pass
    assert own.compile(number(2)) is not None


def test_the_child_comes_back_after_what_was_too_much_and_ends_with_the_compiler(own: ConstraintCompiler) -> None:
    slow = of_schema({"allOf": [{"type": "string", "pattern": f"^(..)*a.{{{n}}}$"} for n in range(1, 30)]})
    own.compile(number(1))
    first = psutil.Process().children()
    with pytest.raises(RequestError, match="too much time or memory"):
        own.compile(slow)
    own.compile(number(2))
    assert psutil.Process().children() != first
    own.close()
    assert not set(psutil.Process().children()) - set(first)


def test_threads_may_compile_and_begin_at_the_same_time(
    own: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    walker = Walker(tokens, vocabulary.piece)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: walker.walk(own.matcher(number(n % 3)), n).text, range(24)))
    assert texts == [f"number {n % 3}".encode() for n in range(24)]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """More files are open than select can name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 4096 else 4096, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    assert max(opened) >= 1024
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_beside_many_connections(own: ConstraintCompiler) -> None:
    own.compile(number(7))
