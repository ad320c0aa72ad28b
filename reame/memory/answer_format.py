"""The body of one old answer: JSON, packed with zstd, behind a checksum that also covers the key it belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import zstandard
from attrs import asdict, frozen
from xxhash import xxh3_128_digest

from reame.core.events import Delta, TokenLogprob, Usage
from reame.core.labels import LabelChance
from reame.core.vote import Agreed, Group, Verdict
from reame.memory.format import Damaged

if TYPE_CHECKING:
    from reame.core.events import FinishReason

MOST_BYTES = 64 << 20
"""Of one answer, unpacked: an hour of text with logprobs."""
_CHECKSUM_BYTES = 16


@frozen(kw_only=True)
class Answer:
    """What a request was answered with: the deltas in order, why they ended, and the tokens that were counted."""

    deltas: tuple[Delta, ...]
    reason: FinishReason
    usage: Usage
    verdict: Verdict | None = None
    labels: tuple[LabelChance, ...] = ()
    stop: str = ""
    """The stop string that ended it, if one did."""


def pack(key: bytes, answer: Answer) -> bytes:
    """The body that is kept under `key`."""
    plain = {
        "deltas": [[delta.text, [_plain(each) for each in delta.logprobs]] for delta in answer.deltas],
        "reason": answer.reason,
        "usage": asdict(answer.usage),
        "verdict": asdict(answer.verdict) if answer.verdict else None,
        "labels": [[each.label, each.probability] for each in answer.labels],
        "stop": answer.stop,
    }
    packed = zstandard.ZstdCompressor().compress(json.dumps(plain, separators=(",", ":")).encode("ascii"))
    return xxh3_128_digest(key + packed) + packed


def unpack(key: bytes, body: bytes) -> Answer:
    """The answer in a body. Raises Damaged when it is not what `pack` made for this key."""
    checksum, packed = body[:_CHECKSUM_BYTES], body[_CHECKSUM_BYTES:]
    if xxh3_128_digest(key + packed) != checksum:
        raise Damaged("the checksum is wrong")
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= MOST_BYTES:
            raise Damaged("an answer of another size")
        plain = json.loads(zstandard.ZstdDecompressor().decompress(packed))
        return Answer(
            deltas=tuple(Delta(text=text, logprobs=tuple(map(_logprob, rest))) for text, rest in plain["deltas"]),
            reason=cast("FinishReason", plain["reason"]),
            usage=Usage(**plain["usage"]),
            verdict=_verdict(plain.get("verdict")),
            labels=tuple(LabelChance(label, chance) for label, chance in plain.get("labels", ())),
            stop=str(plain.get("stop", "")),
        )
    except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"not an answer: {error}") from None


def _plain(each: TokenLogprob) -> list[Any]:
    top = [[token, piece.decode("latin-1"), logprob] for token, piece, logprob in each.top]
    return [each.token, each.piece.decode("latin-1"), each.logprob, top]


def _logprob(plain: list[Any]) -> TokenLogprob:
    token, piece, logprob, top = plain
    return TokenLogprob(
        token, piece.encode("latin-1"), logprob, tuple((t, p.encode("latin-1"), value) for t, p, value in top)
    )


def _verdict(plain: dict[str, Any] | None) -> Verdict | None:
    if plain is None:
        return None
    groups = tuple(Group(group["answer"], tuple(group["candidates"])) for group in plain["groups"])
    return Verdict(**{**plain, "groups": groups, "fields": tuple(Agreed(**each) for each in plain["fields"])})
