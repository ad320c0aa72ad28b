"""Constraints compiled for one model, and kept.

Bounds: `MAX_KEPT` grammars of `MAX_KEPT_CHARS` characters of source together (or a sixteenth of llguidance's text,
where that is more), apart from those in use; a compiled grammar takes about 50 bytes for each character.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

from attrs import define, field
from llguidance import LLMatcher

from reame.constraint.child import TrialChild
from reame.constraint.fault import ConstraintFault, shown
from reame.constraint.grammar import LIMITS
from reame.constraint.labels import MAX_LABELS, LabelGrammar, label_grammar
from reame.constraint.matcher import GrammarMatcher
from reame.core.constraint import MAX_SOURCE_CHARS
from reame.core.labels import labels_of
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.constraint.tokens import Tokens
    from reame.core.constraint import Constraint, Matcher

_SUBJECTS = {
    "json_object": "the object",
    "json_schema": "the schema",
    "regex": "the regular expression",
    "choice": "the choice",
    "grammar": "the grammar",
    "tools": "the tools",
}
MAX_KEPT = 64
MAX_KEPT_CHARS = 1 << 20


@define(eq=False)
class Grammar:
    """A compiled constraint. Any thread.

    What llguidance's lexer has found out is shared by all answers, which makes them fast, and its limit of states with
    it: so whoever meets the limit goes on with a lexer of its own, and later answers begin with a new one.
    """

    _text: str
    _tokens: Tokens
    size: int
    _fresh: LLMatcher
    _lock: threading.Lock = field(factory=threading.Lock)
    labels: ClassVar[None] = None
    """It is no list of labels."""

    def matcher(self) -> GrammarMatcher:
        """At the beginning of an answer. Takes about 50 us."""
        with self._lock:
            return GrammarMatcher(self._fresh.deep_copy(), self._tokens, self._renewed)

    def _renewed(self) -> LLMatcher:
        """Takes as long as to compile it."""
        with self._lock:
            self._fresh = _started(self._text, self._tokens)
        return _started(self._text, self._tokens)


Compiled = Grammar | LabelGrammar
"""Hands out matchers, each at the beginning of an answer."""


class ConstraintCompiler:
    """Any thread; `close` ends its child process. `tokens` is asked once, with the first constraint."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._new_tokens = tokens
        self._made: Tokens | None = None
        self._making = threading.Lock()
        self._child = TrialChild()
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Constraint, Compiled] = WeakValueDictionary()
        self._kept: OrderedDict[Constraint, Compiled] = OrderedDict()

    def known(self, constraint: Constraint) -> Compiled | None:
        """What is kept, or still held by somebody. Does not wait for anything."""
        with self._lock:
            grammar = self._known.get(constraint)
            if grammar is not None and constraint in self._kept:
                self._kept.move_to_end(constraint)
            return grammar

    def compile(self, constraint: Constraint) -> Compiled:
        """Blocks: milliseconds, or seconds for what is then refused. Hold the grammar as long as matchers are wanted.

        Raises RequestError (400) with the keyword at fault and its place; `param` is that place within the
        constraint, such as `.properties.age`.
        """
        grammar = self.known(constraint)
        if grammar is None:
            grammar = self._compile(constraint)
            self._keep(constraint, grammar)
        return grammar

    def matcher(self, constraint: Constraint) -> Matcher:
        """A new one; quick when `compile` was called and its grammar is held."""
        return self.compile(constraint).matcher()

    def close(self) -> None:
        self._child.close()

    def _tokens(self) -> Tokens:
        with self._making:
            if self._made is None:
                self._made = self._new_tokens()
            return self._made

    def _compile(self, constraint: Constraint) -> Compiled:
        if len(constraint.source) > MAX_SOURCE_CHARS:
            size = len(constraint.source)
            raise RequestError(f"the constraint has {size} characters; at most {MAX_SOURCE_CHARS} are supported")
        labels = labels_of(constraint)
        try:
            text = "" if constraint.kind == "choice" else self._child.grammar(constraint)
            if labels and (len(labels) <= MAX_LABELS or not text):
                return label_grammar(labels, self._tokens(), len(constraint.source))
        except ConstraintFault as fault:
            raise _refusal(constraint, fault) from None
        tokens = self._tokens()
        fresh = _started(text, tokens)
        if fresh.is_error():
            raise RequestError(f"the constraint does not work with this model's tokens: {fresh.get_error()[:200]}")
        return Grammar(text, tokens, max(len(constraint.source), len(text) // 16), fresh)

    def _keep(self, constraint: Constraint, grammar: Compiled) -> None:
        with self._lock:
            self._known[constraint] = self._kept[constraint] = grammar
            self._kept.move_to_end(constraint)
            size = sum(kept.size for kept in self._kept.values())
            while len(self._kept) > MAX_KEPT or (size > MAX_KEPT_CHARS and len(self._kept) > 1):
                _, oldest = self._kept.popitem(last=False)
                size -= oldest.size


def _started(text: str, tokens: Tokens) -> LLMatcher:
    """At the beginning of an answer, where all of them compute a mask."""
    fresh = LLMatcher(tokens.tokenizer, text, log_level=0, limits=LIMITS)
    if not fresh.is_error() and not fresh.is_stopped():
        fresh.compute_bitmask()
    return fresh


def _refusal(constraint: Constraint, fault: ConstraintFault) -> RequestError:
    subject = _SUBJECTS[constraint.kind]
    where = f" at {shown(fault.path)}" if fault.path else ""
    whose = f"`{fault.keyword}` in {subject}" if fault.keyword else subject
    steps = (*fault.path, fault.keyword) if fault.keyword else fault.path
    param = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return RequestError(f"{whose}{where} {fault.message}", param=param or None)
