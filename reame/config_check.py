"""A parsed TOML document -> a Config, or one ConfigError that holds every mistake at once. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_type_hints

from attrs import fields, frozen
from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from reame.config import Config
from reame.config_conflicts import conflicts
from reame.config_rules import key_shown, wrong
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from attrs import Attribute

    from reame.config_rules import Rule

TABLES: dict[str, type[Any]] = get_type_hints(Config)
KEYS: dict[str, Attribute[Any]] = {f"{name}.{key.name}": key for name, cls in TABLES.items() for key in fields(cls)}


@frozen
class Mistake:
    """What is wrong with one key (`path` has two parts), or with a whole table (one part)."""

    path: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(key_shown, self.path))}: {self.message}"


class ConfigMistakes(ConfigError):
    """One ConfigError for all mistakes of a source: a line for one, a heading and a line each for more."""

    def __init__(self, source: str, mistakes: Sequence[Mistake | str]) -> None:
        self.source = source
        self.mistakes = tuple(map(str, mistakes))
        head = "" if len(mistakes) == 1 else f" {len(mistakes)} mistakes"
        super().__init__(f"{source}:{head}" + ("\n  " if head else " ") + "\n  ".join(self.mistakes))


def check(document: Mapping[str, Any], source: str) -> Config:
    """The Config that `document` describes. Raises ConfigMistakes; `source` is how it names the document.

    Rules between keys are applied to what is left when all wrong values are replaced by their defaults, and only
    reported when every key they read is right.
    """
    try:
        config = _converter.structure(document, Config)
        mistakes = []
    except ClassValidationError as error:
        mistakes = list(_mistakes(error, ()))
        config = _converter.structure(_without(document, mistakes), Config)
    wrong_paths = {mistake.path for mistake in mistakes}
    for conflict in conflicts(config):
        paths = [tuple(key.split(".")) for key in conflict.keys]
        if not any(path in wrong_paths or path[:1] in wrong_paths for path in paths):
            mistakes.append(Mistake(paths[0], conflict.message))
    if mistakes:
        raise ConfigMistakes(source, mistakes)
    return config


def _mistakes(error: Exception, path: tuple[str, ...]) -> Iterator[Mistake]:
    """Flatten cattrs' tree of exceptions, in the order of the classes; unknown keys come last in their table."""
    if not isinstance(error, ClassValidationError):
        yield Mistake(path, str(error))
        return
    noted, others = error.group_exceptions()
    for inner, note in noted:
        yield from _mistakes(inner, (*path, note.name))
    for inner in others:
        if not isinstance(inner, ForbiddenExtraKeysError):
            raise inner  # a fault of ours, not of the document
        for name in sorted(inner.extra_fields):
            yield Mistake((*path, name), _unknown((*path, name)))


def _unknown(path: tuple[str, ...]) -> str:
    name = path[-1][:80]
    if len(path) == 1 and (close := get_close_matches(name, TABLES, 1)):
        return f"unknown table, did you mean [{close[0]}]?"
    meant = _meant(path[0], name) if len(path) == 2 else _meant("", name)
    if meant is not None:
        return f"unknown key, did you mean {meant}?"
    return "unknown key" if len(path) == 2 else f"unknown table; there are {', '.join(TABLES)}"


def _meant(table: str, name: str) -> str | None:
    """The dotted key that is closest to `name`: of the same table, else of the same name, else anywhere."""
    by_name = {key.name: dotted for dotted, key in KEYS.items()}
    own = {key.name: dotted for dotted, key in KEYS.items() if dotted.startswith(f"{table}.")}
    for choices, cutoff in ((own, 0.6), (by_name, 0.8)):
        if close := get_close_matches(name, choices, 1, cutoff):
            return choices[close[0]]
    return None


def _without(document: Mapping[str, Any], mistakes: Iterable[Mistake]) -> dict[str, Any]:
    kept = {name: dict(table) if isinstance(table, dict) else table for name, table in document.items()}
    for mistake in mistakes:
        table, *key = mistake.path
        del (kept[table] if key else kept)[key[0] if key else table]
    return kept


def _structure_table(cls: type[Any]) -> Callable[[Any, type[Any]], Any]:
    """cattrs' function for one table. Each value goes through the rule of its key, so nothing is converted quietly."""
    hooks: dict[str, Any] = {key.name: override(struct_hook=_accept(key.metadata["rule"])) for key in fields(cls)}
    structure = make_dict_structure_fn(cls, _converter, _cattrs_forbid_extra_keys=True, **hooks)

    def table(value: Any, _: type[Any]) -> Any:
        if not isinstance(value, dict):
            raise wrong("a table", value)
        return structure(value, cls)

    return table


def _accept(rule: Rule) -> Callable[[Any, Any], Any]:
    return lambda value, _: rule.accept(value)


_converter = Converter(forbid_extra_keys=True, detailed_validation=True)
for _cls in TABLES.values():
    _converter.register_structure_hook(_cls, _structure_table(_cls))
