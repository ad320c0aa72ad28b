"""A Python file that nobody has seen, drawn from a seed, and somebody who types into its middle. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from random import Random

THINGS = ("order", "customer", "invoice", "parcel", "booking", "ticket", "reading", "contract", "delivery", "payment")
FIELDS = ("name", "amount", "date", "weight", "status", "city", "price", "count", "owner", "reference", "level")
DOINGS = ("load", "store", "check", "merge", "count", "print", "sort", "find", "send", "close", "update")
TYPED_TOKENS = 3.4
"""Characters of such code in a token, about."""


@frozen
class Typing:
    """`before` ends and `after` begins with a whole line; `typed` goes between them, key by key."""

    before: str
    typed: str
    after: str

    def at(self, keys: int) -> tuple[str, str]:
        """After so many keys: the text above the cursor's line, and that line up to the cursor."""
        above, _, line = (self.before + self.typed[:keys]).rpartition("\n")
        return above + "\n", line


def typing(draw: Random, *, tokens: int, keys: int) -> Typing:
    """A file of about `tokens` tokens; the first `keys` characters of what stands in its middle are typed."""
    functions = ['"""Records of a small company."""\n\nimport json\n']
    while sum(map(len, functions)) < tokens * TYPED_TOKENS:
        functions.append(function(draw))
    middle = len(functions) // 2
    rest = "\n\n".join(functions[middle:])
    while len(rest) <= keys:
        rest += "\n\n" + function(draw)
    edge = rest.index("\n", keys) if "\n" in rest[keys:] else len(rest)
    return Typing("\n\n".join(functions[:middle]) + "\n\n", rest[:keys], rest[edge:])


def function(draw: Random) -> str:
    """A function with a docstring, a loop and a branch."""
    doing, thing = draw.choice(DOINGS), draw.choice(THINGS)
    first, second, third = draw.sample(FIELDS, 3)
    limit = draw.randint(3, 900)
    return (
        f"def {doing}_{thing}s({thing}s, {first}, limit={limit}):\n"
        f'    """{doing.capitalize()} the {thing}s whose {first} is known, by {second}."""\n'
        f"    chosen = []\n"
        f"    for number, {thing} in enumerate({thing}s):\n"
        f'        if {thing}["{second}"] > limit or {thing}["{third}"] == {first}:\n'
        f'            chosen.append((number, {thing}["{third}"]))\n'
        f'    with open("{thing}s_{limit}.json", "w") as file:\n'
        f"        json.dump(chosen, file)\n"
        f"    return sum({second} for _, {second} in chosen)\n"
    )
