"""Random schemas by the ten thousand, and whether what is written under them validates: see
tests/constraint/test_random_schemas.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _drill import arguments

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    count = arguments(__doc__, count=20_000).count
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/constraint/test_random_schemas.py"],
        cwd=ROOT, env=os.environ | {"REAME_RANDOM_SCHEMAS": str(count)}, check=False,
    )  # fmt: skip
    print(f"{count} schemas: {'held' if not done.returncode else 'FAILED'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
