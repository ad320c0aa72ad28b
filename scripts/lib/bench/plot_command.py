"""`./scripts/bench plot`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - cyclopts reads the annotations when it runs

from bench import plots
from bench.files import read


def plot(file: Path, into: Path) -> int:
    """Draw what `--json` wrote, once more.

    Parameters
    ----------
    file
        The JSON of a benchmark or of `scale`.
    into
        The directory for the SVG and PNG files.
    """
    for path in plots.obtain()(read(file), into):
        print(path)
    return 0
