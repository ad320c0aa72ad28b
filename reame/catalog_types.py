"""What the catalogue says of a model: its file's source, and the numbers that tell whether it fits a machine."""

from __future__ import annotations

import re

from attrs import frozen

DEFAULT_CELLS = 16_384  # tokens the KV cache holds with the default configuration: twice engine.context
RUNTIME_BYTES = 256 << 20  # interpreter, llama.cpp's compute buffers, logits

_QUANTISATION = re.compile(r"[-_.](I?Q\d\w*|TQ\d\w*|MXFP4|BF16|F16|F32)\.gguf$", re.IGNORECASE)


@frozen
class HubFile:
    """One file of a Hugging Face repository, as it is today on branch `main`."""

    repo: str
    file: str

    def __str__(self) -> str:
        return f"hf:{self.repo}/{self.file}"

    @property
    def quantisation(self) -> str:
        """How the weights are stored, as the file's name says it (`Q4_K_M`); empty when it does not."""
        match = _QUANTISATION.search(self.file)
        return match[1].upper() if match else ""


@frozen
class WheelFile:
    """A GGUF file inside a Python wheel; the requirement is pinned, so sizes (bytes) and checksum are known."""

    requirement: str
    sha256: str
    wheel_size: int
    quantisation: str

    def __str__(self) -> str:
        return f"pip:{self.requirement}"


@frozen(kw_only=True)
class Entry:
    """One model of the catalogue.

    `size` is the GGUF's in bytes; whole megabytes mean that it is not known to the byte. `kv_values` is how many K and
    V numbers all layers keep per token, `context` the tokens the model was trained for. A licence other than
    Apache-2.0 is named because it asks something of the user.
    """

    name: str
    title: str
    source: HubFile | WheelFile
    size: int
    kv_values: int
    context: int
    licence: str = "Apache-2.0"
    advice: str

    @property
    def has_terms(self) -> bool:
        """Whether its licence asks something of the user."""
        return self.licence != "Apache-2.0"

    @property
    def size_is_exact(self) -> bool:
        return self.size % 1_000_000 != 0

    @property
    def ram(self) -> int:
        """Bytes to plan for with the default configuration: weights, a q8_0 KV cache (34 bytes per 32 values), runtime.

        An estimate: a machine with less can still run it with fewer `engine.cells`.
        """
        cells = min(DEFAULT_CELLS, 2 * self.context)
        return self.size + cells * self.kv_values * 34 // 32 + RUNTIME_BYTES
