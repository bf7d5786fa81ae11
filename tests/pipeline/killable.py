"""``mqregistry``, telling in lines that begin with @ how far ``pipeline run`` is, for whoever wants to kill it there:
python -m tests.pipeline.killable pipeline run ...

KILLABLE_ON_SPARK=1: silver and gold take Spark for however little there is to do.
"""

from __future__ import annotations

import functools
import os
import sys

from mqregistry.cli import main
from mqregistry.pipeline import bronze, jobs
from mqregistry.pipeline.gold import build
from mqregistry.pipeline.gold import run as gold_run
from mqregistry.pipeline.gold.in_process import InProcess
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.silver import job as silver_job


def say(text):
    os.write(1, f"@{text}\n".encode())


def told(owner, name, stage):
    """Let a function say its stage (a text, or made of its arguments) before it works."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def call(*arguments, **named):
        say(stage(*arguments) if callable(stage) else stage)
        return function(*arguments, **named)

    setattr(owner, name, call)


def tell_all():
    told(snapshot, "take", "snapshot")
    told(bronze, "write_batch", lambda frame, lake, stream, *_: f"bronze {stream}")
    told(silver_job, "_replay_here", "silver here")
    told(silver_job, "_replay_on_spark", "silver on Spark")
    told(gold_run.GoldRun, "write", lambda run: f"gold {'here' if isinstance(run._engine, InProcess) else 'on Spark'}")
    told(build, "prune", "gold prune")
    told(jobs, "acknowledge_with", "acknowledge")
    commit = Lake.commit

    def committing(lake, log, number, content):
        say(f"commit {log.partition('/namespace=')[0]}")
        commit(lake, log, number, content)
        say(f"committed {log.partition('/namespace=')[0]}")

    Lake.commit = committing


if __name__ == "__main__":
    tell_all()
    if os.environ.get("KILLABLE_ON_SPARK"):
        for function in (silver_job.SilverRun.__init__, build.refresh):
            function.__kwdefaults__["spark_from_rows"] = 0
    sys.exit(main())
