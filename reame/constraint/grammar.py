"""A constraint as llguidance's grammar text. Any time and memory: it runs in the child process (`trial`)."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLParserLimits

from reame.constraint.closed import closed
from reame.constraint.fault import ConstraintFault
from reame.constraint.gbnf import lark_of
from reame.constraint.in_rust import in_rust
from reame.constraint.locate import locate
from reame.constraint.schema_check import check_schema, without_unsupported
from reame.constraint.schema_tree import at, with_at
from reame.constraint.tool_grammar import of_object, tool_grammar

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from reame.core.constraint import Constraint

LIMITS = LLParserLimits(max_lexer_states=25_000, step_max_items=5_000, verbose_errors=False)
"""A lexer state is 1 to 2 kB, and there is one lexer for each answer. With these, a token takes about 20 ms at most."""
TRIAL_STEPS = 64
"""Bytes of an answer that are tried out."""
LOCATING_S = 0.4
"""Seconds of processor time to find the keyword at fault."""
MOST_LEFT_OUT = 32
"""Of the schema of a tool that is not strict."""
_LEFT_OUT = frozenset(
    {"pattern", "minProperties", "maxProperties", "patternProperties", "multipleOf", "enum", "const"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)

_NUM_BYTES = 256
_ALLOWED = b"\xc8"  # llguidance's mark
_COMPACT: Any = {"whitespace_flexible": False}
_LARK_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|#[^\n]*|/(?:\\.|[^/\\\n])+/')
_OPEN = "leaves too much open at a time: fewer optional properties, or a grammar that is less ambiguous, work"
_MEANINGS = {
    "oneOf constraints are not supported": "is supported only where its schemas visibly exclude each "
    "other, by type or by a required property with different const values; use anyOf otherwise",
    "Unsatisfiable schema": "lets no value through",
    "schema too large": "becomes too large",
    "NoExtension": "lets no text through",
    "Parser Error: Current row has": _OPEN,
    "parser error: Too many items": _OPEN,
}


def compiled(constraint: Constraint, tokenizer: LLTokenizer) -> str:
    """The grammar's text, which llguidance has compiled once. Raises ConstraintFault."""
    if constraint.kind == "json_schema":
        return _schema_text(_checked(json.loads(constraint.source), tokenizer))
    text = _tools(json.loads(constraint.source), tokenizer) if constraint.kind == "tools" else _text(constraint)
    if fault := fault_in(text, tokenizer):
        raise ConstraintFault(_meaning(fault))
    return text


def fault_in(grammar: str, tokenizer: LLTokenizer) -> str:
    """What is wrong with a grammar's text, in llguidance's words; "" when an answer could begin.

    `tokenizer` has bytes for tokens. Of those that are allowed the last is taken, which ends JSON's strings late and
    its objects soon, or now and then the first.
    """
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
    for step in range(TRIAL_STEPS):
        if matcher.is_stopped():
            break
        allowed = matcher.compute_logit_bias()[:_NUM_BYTES]
        byte = allowed.find(_ALLOWED) if step % 3 else allowed.rfind(_ALLOWED)
        if byte < 0 or not matcher.consume_token(byte):
            break
    return matcher.get_error()


def _checked(schema: Any, tokenizer: LLTokenizer) -> Any:
    """The schema as it is compiled."""
    check_schema(schema)
    if schema is False:
        raise ConstraintFault("lets no value through")
    schema = closed({} if schema is True else schema)
    if not (fault := fault_in(_schema_text(schema), tokenizer)):
        return schema
    if _meaning(fault) == _OPEN:  # of the whole: no single keyword is at fault
        raise ConstraintFault(_OPEN)
    path, keyword = locate(
        schema, fault, lambda other: fault_in(_schema_text(other), tokenizer), until=time.process_time() + LOCATING_S
    )
    raise ConstraintFault(_meaning(fault), path, keyword)


def _loosened(schema: Any, tokenizer: LLTokenizer) -> Any:
    """The same of a schema that need not be held to in all: what is not supported is left out, one thing after the
    other. People's tools are full of it, and it is seldom what matters."""
    schema = without_unsupported(schema)
    for _ in range(MOST_LEFT_OUT):
        try:
            return _checked(schema, tokenizer)
        except ConstraintFault as fault:
            schema = _without(schema, fault)
    return _checked(schema, tokenizer)


def _without(schema: Any, fault: ConstraintFault) -> Any:
    """Raises the fault when it is of another kind."""
    try:
        holder = at(schema, fault.path)
        value = holder[fault.keyword]
    except (LookupError, TypeError):
        raise fault from None
    rest = {keyword: own for keyword, own in holder.items() if keyword != fault.keyword}
    if fault.keyword == "oneOf" and "anyOf" not in holder:
        rest["anyOf"] = value
    elif fault.keyword not in _LEFT_OUT:
        raise fault
    elif fault.keyword == "patternProperties":
        rest["additionalProperties"] = True  # else what matched a pattern would be forbidden now
    return with_at(schema, fault.path, rest)


def _tools(asked: dict[str, Any], tokenizer: LLTokenizer) -> str:
    """Paths of faults begin with the number of the tool in the request."""
    schemas = []
    for tool in asked["tools"]:
        try:
            hold = _checked if tool["strict"] else _loosened
            schemas.append(hold(of_object(tool["parameters"]), tokenizer))
        except ConstraintFault as fault:
            place = (tool["number"], "function", "parameters")
            raise ConstraintFault(fault.message, (*place, *fault.path), fault.keyword) from fault
    names, answer = [tool["name"] for tool in asked["tools"]], None
    if "answer" in asked:
        try:
            answer = _checked(asked["answer"], tokenizer)
        except ConstraintFault as fault:
            raise ConstraintFault(fault.message, ("answer", *fault.path), fault.keyword) from fault
    rules = tool_grammar(
        names, list(map(in_rust, schemas)), must=asked["must"], parallel=asked["parallel"], answer=in_rust(answer)
    )
    return LLMatcher.grammar_from_lark(rules)


def _schema_text(schema: Any) -> str:
    return LLMatcher.grammar_from_json_schema(json.dumps(in_rust(schema)), overrides=_COMPACT)


def _text(constraint: Constraint) -> str:
    match constraint.kind:
        case "json_object":
            return _schema_text({"type": "object"})
        case "regex":
            return LLMatcher.grammar_from_regex(constraint.source)
        case _:
            return LLMatcher.grammar_from_lark(_lark(constraint.source))


def _lark(source: str) -> str:
    """Lark as it is, GBNF translated."""
    if "::=" in _LARK_TEXT.sub("", source):
        source = lark_of(source)
    if "<" in _LARK_TEXT.sub("", source):
        raise ConstraintFault("asks for a special token; texts only are supported")
    return source


def _meaning(fault: str) -> str:
    """In our own words where we have some, else llguidance's, on one line."""
    ours = (ours for theirs, ours in _MEANINGS.items() if fault.startswith(theirs))
    return next(ours, f"is not supported: {_line(fault)}")


def _line(text: str) -> str:
    line = " ".join(text.replace("<non-verbose/>", "").split())
    if line.startswith("regex parse error"):  # then the regex, which is not the one that was sent
        line = line[line.find("error: ", len("regex parse error")) :]
    return line if len(line) <= 300 else line[:297] + "..."
