"""`best_of`, and what `reame` says of it: several candidates answer, one is elected. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from reame.core.vote import MOST_CANDIDATES, VOTE_KINDS, Conclave, VoteKind

if TYPE_CHECKING:
    from reame.api.schema import Limits
    from reame.api.schema_fields import Fields

AUTO = "auto"


def read_conclave(fields: Fields, limits: Limits) -> Conclave | None:
    """None: no election; `best_of` as large as `n` asks for none either. With `n` above 1 all candidates are heard, as
    each may have a place among the answers. Raises RequestError (400)."""
    vote, early = _read_vote(fields), _read_early(fields)
    best_of, n = fields.get("best_of"), fields.whole("n", 1, limits.max_n) or 1
    if best_of is None:
        for name, value in (("vote", vote), ("early_stop", early)):
            if value is not None:
                raise fields.fault(f"reame.{name}", "needs best_of, the number of candidates.")
        return None
    size, margin = _size(fields, limits)
    if size == n and margin is None:
        return None
    if margin is not None and n > 1:
        raise fields.fault("best_of", 'may be "auto" for one answer only: leave n out, or send a number.')
    if n > size:
        raise fields.fault("best_of", f"is {size} and n is {n}: there cannot be more answers than candidates.")
    return Conclave(size=size, vote=vote or "auto", margin=margin, early=early is not False and n == 1)


def _size(fields: Fields, limits: Limits) -> tuple[int, float | None]:
    if fields.get("best_of") == AUTO:
        return limits.conclave_candidates, limits.conclave_margin
    if isinstance(fields.get("best_of"), str):
        raise fields.wrong("best_of", f'an integer from 1 to {MOST_CANDIDATES}, or "{AUTO}"')
    return fields.whole("best_of", 1, MOST_CANDIDATES) or 1, None


def _read_vote(fields: Fields) -> VoteKind | None:
    own = fields.record("reame")
    vote = own.text("vote") if own else None
    if own and vote is not None and vote not in VOTE_KINDS:
        raise own.fault("vote", f"must be one of {', '.join(VOTE_KINDS)}.")
    return cast("VoteKind | None", vote)


def _read_early(fields: Fields) -> bool | None:
    own = fields.record("reame")
    return None if own is None or own.get("early_stop") is None else own.flag("early_stop")
