"""The rules between keys. Only loading applies them, so that code and tests may build any mixture of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.config import MAX_SEQUENCES
from reame.config_rules import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.config import Config, EngineConfig


@frozen
class Conflict:
    """A rule between keys that is broken: reported under the first key, silent when any of them is wrong by itself."""

    keys: tuple[str, ...]
    message: str


def conflicts(config: Config) -> Iterator[Conflict]:
    """The rules between keys that `config` breaks."""
    engine, server = config.engine, config.server
    if 0 < engine.cells < engine.context:
        yield Conflict(
            ("engine.cells", "engine.context"),
            f"expected at least engine.context ({engine.context}) or 0 for twice that, got {engine.cells}",
        )
    if engine.slots + engine.residents > MAX_SEQUENCES:
        yield Conflict(
            ("engine.residents", "engine.slots"),
            f"expected at most {MAX_SEQUENCES} together with engine.slots ({engine.slots}), got {engine.residents}",
        )
    if engine.batch_rows < engine.slots:
        yield Conflict(
            ("engine.batch_rows", "engine.slots"),
            f"expected at least engine.slots ({engine.slots}), a row for each running request, got {engine.batch_rows}",
        )
    yield from _arithmetic_conflicts(engine)
    if config.sampling.max_tokens > engine.context:
        yield Conflict(
            ("sampling.max_tokens", "engine.context"),
            f"expected at most engine.context ({engine.context}), got {config.sampling.max_tokens}",
        )
    if not is_loopback(server.host) and not server.api_keys_file:
        yield Conflict(
            ("server.host", "server.api_keys_file"),
            f'"{server.host}" is reachable from other machines and no key is asked for: '
            'name a file of keys in server.api_keys_file, or listen on "127.0.0.1"',
        )


def _arithmetic_conflicts(engine: EngineConfig) -> Iterator[Conflict]:
    if not engine.flash_attention and engine.kv_type != "f16":
        yield Conflict(
            ("engine.flash_attention", "engine.kv_type"),
            f'expected true, as kv_type is "{engine.kv_type}"; or use "f16"',
        )
    if engine.exact and (engine.kv_type != "q8_0" or not engine.flash_attention):
        yield Conflict(
            ("engine.exact", "engine.kv_type", "engine.flash_attention"),
            'expected false, as only kv_type = "q8_0" with flash_attention = true is exact',
        )
    if engine.exact and engine.extra_buffers == "on":
        yield Conflict(
            ("engine.exact", "engine.extra_buffers"), 'expected false, as extra_buffers is "on"; or use "auto" or "off"'
        )
