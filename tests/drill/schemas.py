"""Random schemas by the ten thousand, and whether what is written under them validates: see
tests/constraint/test_random_schemas.py."""

from __future__ import annotations

import sys

from _drill import arguments, play_more

if __name__ == "__main__":
    count = arguments(__doc__, count=20_000).count
    sys.exit(play_more("tests/constraint/test_random_schemas.py", "REAME_RANDOM_SCHEMAS", count, "schemas"))
