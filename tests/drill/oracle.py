"""The oracle property over many more random worlds than the suite plays: see tests/test_oracle.py."""

from __future__ import annotations

import sys

from _drill import arguments, play_more

if __name__ == "__main__":
    count = arguments(__doc__, count=20_000).count
    sys.exit(play_more("tests/test_oracle.py", "REAME_ORACLE_WORLDS", count, "worlds"))
