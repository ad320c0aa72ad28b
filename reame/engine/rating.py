"""How probable the tokens of a prompt were, each after what precedes it. Decode thread only."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from reame.core.events import TokenLogprob

if TYPE_CHECKING:
    from reame.core.batch import Slice
    from reame.engine.base import Engine


def rate(engine: Engine, part: Slice, first: int) -> tuple[TokenLogprob, ...]:
    """The tokens that the slice's rows rate; before any of its rows is masked. `first` is the index of the slice's
    first row in the last decode.

    With a prompt's first row comes its first token, which nothing rates: its logprob is nan.
    """
    request = part.sequence.request
    if not request.prompt_logprobs:
        return ()
    piece, top = engine.vocabulary.spelled, request.logprobs or 0
    rated = []
    if not part.start and not part.sequence.rated:
        rated.append(TokenLogprob(request.prompt[0], piece(request.prompt[0]), nan))
    for offset in part.rated:
        token = request.prompt[part.start + offset + 1]
        logprob, rivals = engine.logprobs(first + offset, token, top)
        rated.append(TokenLogprob(token, piece(token), logprob, tuple((t, piece(t), p) for t, p in rivals)))
    return tuple(rated)
