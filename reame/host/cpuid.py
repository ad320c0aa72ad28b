"""What an x86 processor says of itself, through glibc (2.33 and newer), which asks CPUID once when a process starts.

The kernel's list comes from the same place, but not under an emulator: qemu-user shows the host's /proc/cpuinfo.
"""

from __future__ import annotations

import ctypes

_LEAF_1, _LEAF_7, _LEAF_7_1 = 0, 1, 6  # glibc's numbers for CPUID leaves, <sys/platform/x86.h>
_EAX, _EBX, _ECX = 0, 1, 2
_BITS = {
    (_LEAF_1, _ECX): {
        "pni": 0, "ssse3": 9, "fma": 12, "sse4_1": 19, "sse4_2": 20, "movbe": 22, "popcnt": 23, "avx": 28, "f16c": 29,
    },
    (_LEAF_7, _EBX): {
        "bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
    },
    (_LEAF_7, _ECX): {"avx512vbmi": 1, "avx512_vbmi2": 6, "avx512_vnni": 11},
    (_LEAF_7_1, _EAX): {"avx_vnni": 4, "avx512_bf16": 5},
}  # fmt: skip


def denied_features() -> frozenset[str]:
    """Instruction sets, in the kernel's words, that the processor says it lacks. Empty where it cannot be asked."""
    try:
        leaf = ctypes.CDLL(None).__x86_get_cpuid_feature_leaf
    except (OSError, AttributeError):
        return frozenset()
    leaf.restype, leaf.argtypes = ctypes.POINTER(ctypes.c_uint32 * 8), [ctypes.c_uint]  # cpuid and active, 4 each
    words = {place: leaf(place[0]).contents[place[1]] for place in _BITS}
    if not words[_LEAF_1, _ECX]:  # glibc did not ask
        return frozenset()
    return frozenset(name for place, bits in _BITS.items() for name, bit in bits.items() if not words[place] >> bit & 1)
