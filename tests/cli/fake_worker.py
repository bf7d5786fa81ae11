"""Stands in for registry.server.worker: does over its status pipe and its stderr what the test's plan says.

The plan is the JSON in FAKE_PLAN: one list of steps for each life of a worker, by index; the last one repeats. A life
is counted in a file of FAKE_FOLDER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

spec = json.loads(sys.stdin.read())
index, status_fd = spec["index"], spec["status_fd"]
folder = Path(os.environ["FAKE_FOLDER"])
lives = folder / f"lives-{index}"
life = int(lives.read_text()) if lives.exists() else 0
lives.write_text(str(life + 1))
(folder / f"pid-{index}").write_text(str(os.getpid()))


def drained(*_):
    (folder / f"drained-{index}").touch()
    os._exit(0)


signal.signal(signal.SIGTERM, drained)
plans = json.loads(os.environ["FAKE_PLAN"])
plan = plans[min(index, len(plans) - 1)]
for step, value in plan[min(life, len(plan) - 1)]:
    if step == "say":
        os.write(status_fd, json.dumps(value).encode() + b"\n")
    elif step == "write":
        os.write(status_fd, value.encode())
    elif step == "log":
        print(value, file=sys.stderr, flush=True)
    elif step == "exit":
        os._exit(value)
    elif step == "kill":
        os.kill(os.getpid(), value)
    elif step == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif step == "stay":
        while True:
            signal.pause()
