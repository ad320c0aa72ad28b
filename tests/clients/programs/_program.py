"""What the programs share: where the daemon is, what is asked, and how the outcome is told."""

from __future__ import annotations

import json
import os
import sys

URL, MODEL, VECTORS = os.environ["TEST_URL"], os.environ["TEST_MODEL"], os.environ["TEST_VECTORS"]
"""The base of the OpenAI API, with /v1; the model that answers; the one that embeds."""
ROOT_URL = URL.removesuffix("/v1")
QUESTION = "Name three rivers."


def tell(**outcome: object) -> None:
    """The program's last word, for the test that runs it."""
    json.dump(outcome, sys.stdout)
    print()
