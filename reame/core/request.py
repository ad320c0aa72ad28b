"""What is asked: a `Call` as the client meant it, and the `Request`s (one sequence each) that it becomes."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from attrs import Factory, frozen

from reame.core.constraint import OF_JSON
from reame.core.fim import Infill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reame.core.constraint import Constraint
    from reame.core.vote import Conclave


BAN = -100.0
"""This bias, or a lower one, lets a token never come."""


@frozen(kw_only=True)
class Sampling:
    """How the next token is drawn. `temperature` 0 is greedy; `seed` None means one drawn by the server.

    `logit_bias` adds to the logit of a token id; -100 or less bans it, as OpenAI documents.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()

    @property
    def banned(self) -> frozenset[int]:
        """Tokens that may not come, also where a constraint would have no other."""
        return frozenset(token for token, bias in self.logit_bias if bias <= BAN)

    @property
    def is_plain_greedy(self) -> bool:
        """The likeliest token, whatever came before."""
        penalised = self.repeat_penalty != 1 or self.presence_penalty or self.frequency_penalty
        return self.temperature <= 0 and not self.logit_bias and not penalised


def before_banned(tokens: Sequence[int], banned: frozenset[int]) -> tuple[int, ...]:
    """Up to the first that is banned, without it."""
    return tuple(takewhile(lambda token: token not in banned, tokens)) if banned else tuple(tokens)


@frozen(kw_only=True)
class Chat:
    """A conversation for the model's own template. `messages` are OpenAI's, checked, content parts joined to text.

    `continue_last`: the last message is the beginning of the assistant's answer and is continued, not closed.
    """

    messages: tuple[Mapping[str, Any], ...]
    continue_last: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()
    """That the model is told of, as OpenAI has them."""
    variables: Mapping[str, Any] = Factory(dict)
    """More of what the template may ask for, such as `enable_thinking`."""


Prompt = str | tuple[int, ...] | Chat | Infill
"""Text, token ids, a conversation, or a gap to be filled in."""


@frozen(kw_only=True)
class Call:
    """One API call, checked, before tokenisation. It becomes `len(prompts) * n` sequences, prompt-major.

    `max_tokens` None: the server's default, else up to the context's edge. `logprobs` None: none wanted; k: the
    chosen token's and the k likeliest ones' natural logarithms. `timeout` in seconds, None: the server's own.
    """

    prompts: tuple[Prompt, ...]
    n: int = 1
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    timeout: float | None = None
    answers: bool = True
    """An old answer to the very same request will do."""
    warm: bool = False
    """Nothing is generated: the prompts are computed in the background, for those who will ask."""
    background: bool = False
    """Computed only as far as nobody else feels it, and with no time limit but `timeout`."""
    constraint: Constraint | None = None
    """What the answer must be."""
    constraint_field: str = ""
    """Where in the client's request it stands, for errors."""
    answer_field: str = ""
    """The same of the form of an answer that calls no tool, where the constraint is that of the tools."""
    confidence: bool = False
    """With a constraint: how probable each label is, or each field of the JSON."""
    confidence_named: bool = False
    """It was asked for by name: then it is a fault where the context has no room for the labels."""
    conclave: Conclave | None = None
    """Several candidates answer each prompt; the elected answer comes first, then `n - 1` others."""
    prompt_logprobs: bool = False
    """The prompt's tokens are rated too, each by what stands before it; with `logprobs` only."""
    ids_only: bool = False
    """`logprobs` stand for the answer's token ids: nobody sees how probable they are."""
    heal: bool | None = None
    """Whether a prompt may be taken back to where its last word begins; None: where a gap is filled in."""
    generation_s: float | None = None
    """So many seconds after its first token an answer ends, once it has a line."""

    @property
    def tells_fields(self) -> bool:
        """How probable each field of the JSON is, is told: so tokens are rated, also for a client that does not see
        that."""
        return self.confidence and self.constraint is not None and self.constraint.kind in OF_JSON

    @property
    def width(self) -> int:
        """Sequences of one prompt at most."""
        return self.conclave.size if self.conclave else self.n


@frozen(kw_only=True)
class Request:
    """One sequence to be generated. Everything that decides its text is in here.

    `key` is the API key's name (whose turn it is); `namespace` bounds what memory it may use and feed. `max_tokens` is
    the most it may generate, already clamped to the context; 0 only computes the prompt, but for its last token (that
    is always computed anew, for its logits). `background`: only as far as nobody else feels it. `passing`: part of
    another request's work, whose cells go before anybody else's, and which teaches the archive nothing. `deadline` is
    on the clock that `Scheduler.plan(now)` is given, in seconds. `forced` are the tokens that `constraint` lets every
    answer begin with, fewer than `max_tokens`: they are generated without being drawn. With `prompt_logprobs` all of
    the prompt is computed anew, for its logits, and `forced` is empty, as what is told of the prompt comes first.
    `healed`: the answer's first tokens spell this, which was taken back from the prompt and is not told. Those that do
    nothing else do not count for `max_tokens`, as far as they are at most `most_again`, which fit the context too.
    `generation_s`: see `Call`. `conclave`: the election whose outcome is meant, where a request names an old answer;
    the loop computes single candidates. So with `labels`: all their probabilities are meant too.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = Sampling(seed=0)
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    key: str = ""
    namespace: str = ""
    deadline: float = float("inf")
    background: bool = False
    passing: bool = False
    constraint: Constraint | None = None
    forced: tuple[int, ...] = ()
    prompt_logprobs: bool = False
    healed: bytes = b""
    most_again: int = 0
    generation_s: float | None = None
    conclave: Conclave | None = None
    labels: bool = False
