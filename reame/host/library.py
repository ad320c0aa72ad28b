"""What a libggml-cpu was compiled with, read from the file without loading it.

ggml has a function for each instruction set that only returns 0 or 1, decided when it was compiled; the machine code
of such a function is a constant and a return, which can be read like data.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WORDS = {
    "sse3": "pni", "ssse3": "ssse3", "avx": "avx", "avx_vnni": "avx_vnni", "avx2": "avx2", "bmi2": "bmi2",
    "f16c": "f16c", "fma": "fma", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi", "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16", "neon": "asimd", "dotprod": "asimddp", "matmul_int8": "i8mm", "fp16_va": "asimdhp",
    "sve": "sve", "sme": "sme",
}  # fmt: skip
"""ggml's name of an instruction set -> the kernel's."""

_PREFIX = b"ggml_cpu_has_"
_TRUE = (
    b"\xb8\x01\x00\x00\x00",  # x86-64: mov eax, 1
    b"\x20\x00\x80\x52",  # AArch64: mov w0, 1
)
_MARKS = (b"\xf3\x0f\x1e\xfa", b"\x5f\x24\x03\xd5")  # endbr64, bti c: where a call may land
_SYMBOLS = 11  # section type SHT_DYNSYM


def compiled_features(library: Path) -> frozenset[str]:
    """In the kernel's words. Empty when the file is not there or is not a 64-bit little-endian ELF with these names."""
    try:
        data = library.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            return frozenset()
        return frozenset(_WORDS[name] for name, code in _functions(data) if name in _WORDS and code.startswith(_TRUE))
    except (OSError, struct.error, ValueError, IndexError):
        return frozenset()


def _functions(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Name behind the prefix and the first bytes of code of each exported `ggml_cpu_has_...`."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * i) for i in range(count)]
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != _SYMBOLS:
            continue
        names = sections[link][4]
        for place in range(start, start + length, 24):
            name, _, _, section, address, _ = struct.unpack_from("<IBBHQQ", data, place)
            if data.startswith(_PREFIX, names + name) and 0 < section < count:
                end = data.index(b"\0", names + name)
                code = address - sections[section][3] + sections[section][4]
                yield data[names + name + len(_PREFIX) : end].decode("ascii"), _unmarked(data[code : code + 9])


def _unmarked(code: bytes) -> bytes:
    return code[4:] if code.startswith(_MARKS) else code
