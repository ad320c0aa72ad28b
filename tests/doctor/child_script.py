"""Stands in for the doctor's child: does what the file `script.json` beside the order's folder says for its task.

A script is {task: [line, ...]}. A line is an object or a text that is printed, or one of "hang", "die", "trip".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

order = json.loads(sys.argv[1])
here = Path(os.environ["DOCTOR_SCRIPT"])
with here.with_suffix(".log").open("a") as log:
    log.write(sys.argv[1] + "\n")
for line in json.loads(here.read_text()).get(order["task"], []):
    if line == "hang":
        time.sleep(1000)
    elif line == "die":
        os.kill(os.getpid(), signal.SIGILL)
    elif line == "trip":
        sys.exit("Traceback\nboom: it tripped")
    else:
        print(line if isinstance(line, str) else json.dumps(line), flush=True)
