"""One candidate of a conclave: its request, and what it has said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, evolve, field

from reame.core.vote import candidate_sampling
from reame.runtime.prompts import seeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reame.core.events import Finish, TokenLogprob, Usage
    from reame.core.request import Call, Request


@define(eq=False)
class Candidate:
    """`shared`: tokens that it has from candidate 0. `usage` is known when it has finished or was stopped."""

    request: Request
    texts: list[str] = field(factory=list)
    logprobs: list[TokenLogprob] = field(factory=list)
    shared: tuple[TokenLogprob, ...] = ()
    finish: Finish | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def tokens(self) -> list[TokenLogprob]:
        """With the probabilities that shared tokens had where they were drawn."""
        return [*self.shared, *self.logprobs[len(self.shared) :]]

    @property
    def num_spent(self) -> int:
        """Tokens that were generated for it alone, as far as they are known."""
        num_tokens = self.usage.completion_tokens if self.usage else len(self.logprobs)
        return max(0, num_tokens - len(self.shared))


def cut_to(tokens: Iterable[TokenLogprob], wanted: int | None) -> tuple[TokenLogprob, ...]:
    """As many rivals as the request wanted, not as many as the election did."""
    return () if wanted is None else tuple(evolve(token, top=token.top[:wanted]) for token in tokens)


def as_candidates(call: Call, requests: Sequence[Request]) -> list[Request]:
    """The requests of a conclave. Tokens are rated for it, prompts only once. At temperature 0 the seeds are fixed too,
    so that the same question has the same answer."""
    assert call.conclave is not None
    size = call.conclave.size
    is_seedless = call.sampling.temperature <= 0 and call.sampling.seed is None
    candidates = []
    for index, request in enumerate(requests):
        choice = index % size
        top = 2 if call.conclave.margin is not None and not choice else 0
        sampling = seeded(evolve(call.sampling, seed=0), choice) if is_seedless else request.sampling
        candidates.append(
            evolve(
                request,
                sampling=candidate_sampling(sampling, choice),
                logprobs=max(request.logprobs or 0, top),
                prompt_logprobs=call.prompt_logprobs and not choice,
            )
        )
    return candidates
