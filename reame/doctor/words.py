"""Numbers as people read them."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes in decimal units, as disks and models are sold: `98 MB`, `1.12 GB`."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:.3g} {unit}" if count / limit < 1000 else f"{count / limit:.0f} {unit}"
    return f"{count:.0f} bytes"


def rate(per_second: float) -> str:
    """Tokens a second."""
    return f"{per_second:.0f} tok/s" if per_second >= 10 else f"{per_second:.2g} tok/s"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or share == 0 else f"{share:.1%}"


def count(number: float, thing: str) -> str:
    return f"{number:.4g} {thing}{'' if number == 1 else 's'}"
