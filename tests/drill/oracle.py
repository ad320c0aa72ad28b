"""The oracle property over many more random worlds than the suite plays: see tests/test_oracle.py."""

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
        [sys.executable, "-m", "pytest", "-q", "tests/test_oracle.py"],
        cwd=ROOT, env=os.environ | {"REAME_ORACLE_WORLDS": str(count)}, check=False,
    )  # fmt: skip
    print(f"{count} worlds: {'held' if not done.returncode else 'FAILED'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
