"""What an answer that calls tools says in a vote: the calls, whatever was said before them. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reame.core.tool_calls import Arguments, CallBegins, CallReader
from reame.core.vote import Ballot
from reame.core.vote_json import canonical, find_json

if TYPE_CHECKING:
    from reame.core.constraint import Constraint


def calls_ballot(text: str, constraint: Constraint | None) -> Ballot | None:
    """Two call the same when names and arguments are equal, in this order. None: nothing is called, so that the answer
    is what it says."""
    if constraint is None or constraint.kind != "tools":
        return None
    reader = CallReader(either="answer" in json.loads(constraint.source))
    calls: list[tuple[str, list[str]]] = []
    for part in (*reader.take(text), *reader.end()):
        match part:
            case CallBegins(_, name):
                calls.append((name, []))
            case Arguments(index, more):
                calls[index][1].append(more)
    said = [[name, find_json("".join(pieces))] for name, pieces in calls]
    return Ballot("choice", canonical(said)) if said else None
