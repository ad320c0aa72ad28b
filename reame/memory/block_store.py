"""Blocks of computed prefixes on disk, for one model: looked up by name, without an index.

Nothing is read when a store is made: a look-up opens files one after the other until one is not there. So another
process's blocks are found, files that vanish are misses, and a restart has nothing to rebuild. Safe to call from
several threads, and with several processes on one directory.

The order of eviction is the files' mtime. A block is always a little older than the one before it, so a chain
loses its end first: a block without its beginning is of no use.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import asdict, define, frozen

from reame.memory import folders
from reame.memory.block_directory import BlockDirectory, Removed
from reame.memory.folders import PAGE, Place, Unusable, charge, opened, opened_file, place_of
from reame.memory.format import SMALLEST, Damaged, Foreign, decode, encode, read_header
from reame.memory.outage import Outage, Seldom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reame.core.blocks import Block

STEP_NS = 1000
"""How much older than the block before it a block is made."""
RECENT_NS = 60 * 10**9
"""Ancestors that were touched within this time are not touched again for a new block."""
MODEL_DIGITS = 16
