"""How a request's tokens come about: its sampler, its constraint, the verification of drafts. Decode thread only."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from reame.core.batch import Output
from reame.core.events import TokenLogprob, certain
from reame.core.request import before_banned
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.constraint import Matcher
    from reame.core.healing import Healing
    from reame.core.request import Request
    from reame.engine.base import Engine


MOST_FORCED = 64
"""Forced tokens without rows that are taken at once; a constraint may force tokens for ever."""


class Drawing:
    """Lives from a request's first draw until `close`. `matcher` is None when the request has no constraint, `healing`
    when nothing was taken back from its prompt."""

    def __init__(
        self, engine: Engine, request: Request, matcher: Matcher | None, healing: Healing | None = None
    ) -> None:
        self.matcher = matcher
        self._healing = healing
        self._engine = engine
        self._num_top = request.logprobs
        self._asks_first = request.sampling.is_plain_greedy and self._num_top is None
        self._banned = request.sampling.banned
        self._sampler = engine.new_sampler(request.sampling, request.prompt)
        for token in request.forced:
            self._force(token)

    def close(self) -> None:
        self._engine.free_sampler(self._sampler)

    def verify(self, first_row: int, draft: Sequence[int]) -> Output:
        """Sample and match: draw the target's own token at each row and go on while it equals the draft. The tokens
        are exactly those of plain decoding, whatever the draft, as each draw uses the sampler once. What the
        constraint forces is not drawn, needs no row, and uses no random number.

        `first_row` is the index, in the last decode, of the row before the draft's first token.
        """
        tokens: list[int] = []
        logprobs: list[TokenLogprob] = []
        num_matched = 0
        forced = deque(self._forced())
        while (forced and len(tokens) - num_matched < MOST_FORCED) or num_matched == len(tokens):
            if forced:
                token = forced.popleft()
                self._force(token)
                self._note_forced(token, logprobs)
            else:
                token = self._sample(first_row + num_matched, logprobs)
            if num_matched == len(tokens) and num_matched < len(draft) and draft[num_matched] == token:
                num_matched += 1
            tokens.append(token)
            if token in self._engine.info.eog_tokens:
                break
            if not forced:
                forced.extend(self._forced())
                if not forced and self.is_over:
                    break
        return Output(tuple(tokens), tuple(logprobs), min(num_matched, len(tokens) - 1), self.is_over)

    @property
    def is_over(self) -> bool:
        return self.matcher is not None and self.matcher.is_over

    def _forced(self) -> tuple[int, ...]:
        """Before a token that is banned: its place is drawn, which fails when the constraint has no other for it."""
        return before_banned(self.matcher.forced(), self._banned) if self.matcher else ()

    def _force(self, token: int) -> None:
        self._engine.accept(self._sampler, token)
        if self.matcher:
            self.matcher.consume(token)

    def _sample(self, row: int, logprobs: list[TokenLogprob]) -> int:
        token = self._likeliest_if_allowed(row)
        if token is None:
            token = self._draw_allowed(row)
        if self._num_top is not None:
            piece = self._engine.vocabulary.piece
            logprob, rivals = self._engine.logprobs(row, token, self._num_top)
            logprobs.append(TokenLogprob(token, piece(token), logprob, tuple((t, piece(t), p) for t, p in rivals)))
        if self.matcher and token not in self._engine.info.eog_tokens:
            self.matcher.consume(token)
        if self._healing:
            self._healing.consume(self._engine.vocabulary.piece(token))
            self._healing = None if self._healing.is_over else self._healing
        return token

    def _likeliest_if_allowed(self, row: int) -> int | None:
        """A greedy draw under a constraint, which is asked about one token instead of the whole vocabulary: a fifth of
        the time. None when another token has to be drawn, or when it is another kind of draw."""
        if not self._asks_first or self._healing or self.matcher is None:
            return None
        token = self._engine.sample(row, self._sampler)
        is_end = token in self._engine.info.eog_tokens
        return token if not is_end and self.matcher.legal_prefix((token,)) else None

    def _draw_allowed(self, row: int) -> int:
        """A mask comes first where there is one: probabilities are those among what is allowed."""
        mask = None
        if mask_of := self._healing or self.matcher:
            mask = mask_of.mask()
            self._engine.mask(row, mask)
        token = self._engine.sample(row, self._sampler)
        if self.matcher and mask is not None and not mask[token]:
            raise RequestError("logit_bias forbids all that may come next under the constraint", param="logit_bias")
        return token

    def _note_forced(self, token: int, logprobs: list[TokenLogprob]) -> None:
        if self._num_top is not None:
            logprobs.append(certain(token, self._engine.vocabulary.piece(token), self._num_top))
