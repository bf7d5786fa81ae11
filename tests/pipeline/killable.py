"""``mqregistry``, telling in lines that begin with @ how far ``pipeline run`` is, for whoever wants to kill it there:
python -m tests.pipeline.killable pipeline run ...

KILLABLE_ON_SPARK=1: all layers take Spark for however little there is to do.
"""

from __future__ import annotations

import functools
import os
import sys

from mqregistry.cli import main
from mqregistry.pipeline import jobs
from mqregistry.pipeline.bronze import take
from mqregistry.pipeline.gold import build
from mqregistry.pipeline.gold import run as gold_run
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.table import Table
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
    told(take, "write_entries", lambda lake, stream, *_: f"bronze {stream}")
    told(take, "write_on_spark", lambda frame, lake, stream, *_: f"bronze {stream} on Spark")
    told(silver_job, "_replay_here", "silver here")
    told(silver_job, "_replay_on_spark", "silver on Spark")
    told(gold_run.GoldRun, "write", lambda run: f"gold {'on Spark' if run.on_spark else 'here'}")
    told(jobs, "acknowledge_with", "acknowledge")
    commit = Table.commit

    def committing(table, *arguments, **named):
        say(f"commit {table.name}")
        done = commit(table, *arguments, **named)
        say(f"committed {table.name}")
        return done

    Table.commit = committing


if __name__ == "__main__":
    tell_all()
    if os.environ.get("KILLABLE_ON_SPARK"):
        for function in (silver_job.SilverRun.__init__, build.refresh):
            function.__kwdefaults__["spark_from_rows"] = 0
        jobs.PipelineSettings.__new__.__defaults__ = (*jobs.PipelineSettings.__new__.__defaults__[:-1], 1)
    sys.exit(main())
