"""A process of its own that appends generations without end, and says after each how many tokens it had.

usage: archivist.py DIRECTORY SEED
"""

from __future__ import annotations

import sys
from pathlib import Path

from generations import Writing, new_archive


def main() -> None:
    archive = new_archive(Path(sys.argv[1]))
    writing = Writing(int(sys.argv[2]))
    while True:
        tokens = writing.generation()
        archive.append(tokens, namespace="")
        if archive.stats().dropped:
            sys.exit("dropped")
        print(len(tokens), flush=True)


if __name__ == "__main__":
    main()
