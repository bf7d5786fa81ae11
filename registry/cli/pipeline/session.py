"""Options that commands of the pipeline share: how to start Spark, and the namespace if the command needs no Redis."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import click

from ..extras import extra
from ..options import config_file_option, read_settings, setting_options, together

_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_MASTER: Final = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[[\d, ]+\]|yarn|(spark|k8s)://.+")


class SparkStart(NamedTuple):
    """How to start Spark, from the options of a command."""

    master: str
    driver_memory: str
    jars: str | None
    conf: dict[str, str]

    def for_small_batches(self) -> SparkStart:
        """Let Spark interpret its plans: to compile a plan takes longer than the data of one minute."""
        return self._replace(conf={**_INTERPRETED, **self.conf})

    @contextlib.contextmanager
    def session(self, *, err: bool = False) -> Iterator[Any]:
        """A session of Spark while in the context. ``err``: say on stderr, not on stdout, which jars it fetches."""
        from mqregistry.pipeline.spark.session import ending, open_session

        spark = open_session(
            master=self.master, driver_memory=self.driver_memory, jars=self.jars, config=self.conf,
            tell=functools.partial(click.echo, err=err),
        )  # fmt: skip
        with ending(spark):
            yield spark


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """A callback that checks an option's value; Spark would refuse it only seconds later, with a stack trace."""

    def check(ctx: click.Context, param: click.Parameter, text: str) -> str:
        if not pattern.fullmatch(text):
            raise click.BadParameter(f"{text!r}: expected {expected}", ctx, param)
        return text

    return check


def _pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """The keys and values of several ``KEY=VALUE``."""
    for text in texts:
        if not text.startswith("spark.") or "=" not in text:
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE, with a KEY that begins with spark.", ctx, param)
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}


conf_option: Final = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", callback=_pairs,
    help="A setting of Spark, e.g. spark.ui.enabled=true; may be repeated.",
)  # fmt: skip

_OPTIONS: Final = together(
    click.option(
        "--master", default="local[*]", show_default=True, metavar="MASTER",
        callback=_matching(_MASTER, "local, local[N], local[*], yarn, spark://HOST:PORT or k8s://HOST:PORT"),
        help="Where Spark runs: local[N], spark://HOST:PORT, k8s://... (under spark-submit its own --master is used).",
    ),
    click.option(
        "--driver-memory", default="1g", show_default=True, metavar="SIZE", help="Memory of Spark's driver.",
        callback=_matching(_MEMORY, "a whole number with its unit: 512m, 2g"),
    ),
    click.option(
        "--jars", metavar="DIR", envvar="MQREGISTRY_DELTA_JARS",
        help="Folder of the jars with which Spark writes Delta tables, as 'mqregistry pipeline jars DIR' fills it; "
        "without it Spark fetches them. [env: MQREGISTRY_DELTA_JARS]",
    ),
)  # fmt: skip


def spark_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--master``, ``--driver-memory`` and ``--jars``; the command gets ``spark``, which has its ``--conf``."""

    @functools.wraps(function)
    def command(
        *, master: str, driver_memory: str, jars: str | None, conf: dict[str, str] | None = None, **options: Any
    ) -> None:
        with extra("spark"):
            function(spark=SparkStart(master, driver_memory, jars, conf or {}), **options)

    return _OPTIONS(command)


def namespace_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--namespace`` and ``-c``; the command gets the ``namespace`` that they name."""

    @functools.wraps(function)
    def command(*, namespace: str | None, config_file: Any, **options: Any) -> None:
        function(namespace=read_settings({"namespace": namespace}, config_file).namespace, **options)

    return config_file_option(setting_options("namespace")(command))
