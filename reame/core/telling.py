"""What the clients are told: the tokens' text and probabilities, and how a sequence ended; as events, in order."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from reame.core.events import Delta, Event, Finish, FinishReason, TokenLogprob, certain

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.batch import Output
    from reame.core.request import Request
    from reame.core.sequence import Sequence
    from reame.errors import RequestError


class Telling:
    """`piece` gives a token's bytes, `eog_tokens` end a generation. Owner: the scheduler."""

    def __init__(self, piece: Callable[[int], bytes], eog_tokens: frozenset[int]) -> None:
        self._piece = piece
        self._eog_tokens = eog_tokens
        self._events: list[tuple[Sequence, Event]] = []

    def take_events(self) -> list[tuple[Sequence, Event]]:
        events, self._events = self._events, []
        return events

    def drawn(
        self, sequence: Sequence, output: Output, now: float, *, begins: bool = False
    ) -> FinishReason | None:
        """The sequence has these tokens too, as far as it goes on. Why it is over, if it is. What it only `begins` with
        is told with what follows: nobody has read the prompt yet, and clients take the first piece for that."""
        (text, logprobs), sequence.begun = sequence.begun, ("", ())
        reason: FinishReason | None = None
        for position, token in enumerate(output.tokens):
            sequence.tokens.append(token)
            if token in self._eog_tokens:
                reason = "stop"
                break
            piece = self._piece(token)
            sequence.num_again += 0 < len(piece) <= sequence.text.num_untold
            text += sequence.text.push(piece)
            sequence.has_line = sequence.has_line or b"\n" in piece
            if output.logprobs:
                sequence.untold_logprobs += output.logprobs[position : position + 1]
                logprobs += sequence.take_logprobs()
            is_over = output.is_over and position == len(output.tokens) - 1
            reason = "stop" if is_over else _reason_to_end(sequence, now)
            if reason:
                break
        if reason:
            text += sequence.text.finish()
            reason = "stop" if sequence.text.stopped else reason
            logprobs += sequence.take_logprobs()
        if begins and not reason:
            sequence.begun = text, logprobs
        elif text or logprobs:
            self._events.append((sequence, Delta(text=text, logprobs=logprobs)))
        return reason

    def logprobs_of_forced(self, request: Request) -> tuple[TokenLogprob, ...]:
        """What is told of the tokens that an answer is forced to begin with, when probabilities are wanted."""
        top = request.logprobs
        return () if top is None else tuple(certain(token, self._piece(token), top) for token in request.forced)

    def computed(self, sequence: Sequence) -> None:
        """How far it is, for one that only wants its prompt computed."""
        self._events.append((sequence, Delta(num_computed=sequence.num_computed)))

    def rated(self, sequence: Sequence, rated: tuple[TokenLogprob, ...]) -> None:
        """The prompt's tokens go out together, once the last of them is rated."""
        sequence.rated += rated
        if rated and len(sequence.rated) == len(sequence.request.prompt):
            self._events.append((sequence, Delta(prompt_logprobs=sequence.rated)))

    def rated_alone(self, sequence: Sequence) -> None:
        """The prompt is a single token: nothing rates it."""
        (token,) = sequence.request.prompt
        self.rated(sequence, (TokenLogprob(token, self._piece(token), nan),))

    def ended(
        self, sequence: Sequence, reason: FinishReason | None, now: float, *, saved: float, error: RequestError | None
    ) -> None:
        """`saved`: seconds that its cached tokens would have cost."""
        finish = Finish(
            reason=reason,
            usage=sequence.usage(),
            num_again=sequence.num_again,
            timings=sequence.timings(now, saved=saved),
            drafts=sequence.drafts,
            error=error,
            stop=sequence.text.stop,
        )
        self._events.append((sequence, finish))


def _reason_to_end(sequence: Sequence, now: float) -> FinishReason | None:
    if sequence.text.stopped:
        return "stop"
    limit_s = sequence.request.generation_s
    began = sequence.first_token or now  # nothing was drawn yet behind what is forced
    is_late = limit_s is not None and sequence.has_line and now - began >= limit_s
    return "length" if is_late or not sequence.num_left else None
