"""``broker run``: a broker that only registers, for drills."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import click

from ...client.addresses import NAMESRV_ADDR
from ...client.broker.registrar import BrokerConfig, BrokerRegistrar, Pace, RedisWriter, RegistrationResult, TopicTable
from ...errors import ConfigError, RegistryError
from ...names import printable
from ...operators.words import counted
from ...protocol.codes import RELEASES, Encoding
from ...queued_output import queue_output
from .. import complete_names, output
from ..tls import tls_options
from ..topics_file import parse_topic, read_topics
from ..write.broker import broker
from .state_files import name_servers_or


@broker.command("run")
@click.option(
    "--name", "broker_name", required=True, metavar="NAME", help="brokerName.",
    shell_complete=complete_names.broker_names,
)  # fmt: skip
@click.option(
    "--cluster", "cluster_name", default="DefaultCluster", show_default=True, metavar="NAME", help="clusterName."
)
@click.option("--id", "broker_id", type=int, default=0, show_default=True, help="brokerId; 0 is the master.")
@click.option("--addr", "broker_addr", default="127.0.0.1:10911", show_default=True, metavar="HOST:PORT",
              help="brokerAddr: what clients connect to.")  # fmt: skip
@click.option("--ha-addr", "ha_server_addr", default="", metavar="HOST:PORT", help="Where slaves replicate from.")
@click.option("--topics", "files", multiple=True, type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="File of topics, YAML or JSON, or a Java broker's topics.json. May be repeated.")  # fmt: skip
@click.option("--topic", "texts", multiple=True, metavar="NAME:READ:WRITE:PERM", help="One topic. May be repeated.")
@click.option("--system-topics/--no-system-topics", default=True,
              help="Also register the topics that a Java broker makes by itself: TBW102, SELF_TEST_TOPIC ...  "
              "[default: yes]")  # fmt: skip
@click.option("-n", "--namesrv", metavar="ADDRESSES", help=f"'host:port;host:port'. [env: {NAMESRV_ADDR}; else the "
              "'mqregistry up' that runs here]")  # fmt: skip
@click.option("--redis", metavar="URL", help="Write to this Redis directly, without a name server.")
@click.option("--namespace", default="default", show_default=True, help="The registry's namespace; only with --redis.")
@click.option("--compat", type=click.Choice(["5.x", "4.8"]), default="5.x", show_default=True,
              help="The compat mode of the registry; only with --redis.")  # fmt: skip
@click.option("--release", type=click.Choice(list(RELEASES)), default="5.5.0", show_default=True,
              help="The RocketMQ version in the broker's requests.")  # fmt: skip
@click.option("--perm", "broker_permission", type=click.IntRange(0, 7), default=6, show_default=True,
              help="brokerPermission; with 4 the broker takes no messages.")  # fmt: skip
@click.option("--zone", "zone_name", metavar="NAME", help="zoneName.")
@click.option("--period", type=click.FloatRange(min=0.01), metavar="SECONDS",
              help="Time between registrations.  [default: 30; the first after 10]")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.01), default=6.0, show_default=True, metavar="SECONDS",
              help="The longest time that one registration may take.")  # fmt: skip
@click.option("--need-register", is_flag=True,
              help="Before each registration, ask whether it is needed (QUERY_DATA_VERSION, 322).")  # fmt: skip
@click.option("--oneway", is_flag=True, help="Send one-way registrations, which are not answered.")
@click.option("--compressed", is_flag=True, help="Send bodies compressed by zlib.")
@click.option("--binary", is_flag=True, help="Send binary request headers.")
@click.option("--acting-master", is_flag=True,
              help="Send a heartbeat (904) every second; after 10 s without one the broker is removed.")  # fmt: skip
@click.option("--split", type=click.IntRange(min=1), metavar="N", help="Send at most N topics in one registration.")
@tls_options
@click.option("--stay/--leave", default=False,
              help="At the end: only close the connection, or unregister (UNREGISTER_BROKER, 104).  "
              "[default: leave]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print each result as a JSON object on one line.")
@click.option("-v", "--verbose", is_flag=True,
              help="Print every result; without -v only a result that differs from the previous one.")  # fmt: skip
def run_broker(files: tuple[Path, ...], texts: tuple[str, ...], **options: Any) -> None:
    """Register a broker until Ctrl-C, and print what each name server answers.

    \b
    mqregistry broker run --name broker-a --topic orders:8:8:6 --topic bills:4:4:6
    mqregistry broker run --name broker-a --topics topics.yaml -n '10.0.0.8:9876;10.0.0.9:9876'
    """  # noqa: D301 (\\b is for click)
    try:
        given = [*(topic for path in files for topic in read_topics(path)), *map(parse_topic, texts)]
        config = _config(options)
        topics = TopicTable.with_system_topics(config, given) if options["system_topics"] else TopicTable(given)
        drill = _Drill(config, topics, len({topic.topic_name for topic in given}), options)
    except (ConfigError, ValueError) as error:  # ValueError: a topic is wrong
        raise click.UsageError(str(error)) from error
    queue_output()  # the broker must send heartbeats, even if nobody reads the output
    # _Drill prints what the client would log
    logging.getLogger("mqregistry.client").addHandler(logging.NullHandler())
    asyncio.run(drill.run())
    if not drill.was_registered:
        raise RegistryError("no name server accepted the registration")


def _config(options: dict[str, Any]) -> BrokerConfig:
    names = ("broker_name", "cluster_name", "broker_id", "broker_addr", "ha_server_addr", "broker_permission",
             "zone_name", "oneway")  # fmt: skip
    return BrokerConfig(
        **{name: options[name] for name in names},
        version=RELEASES[options["release"]],
        encoding=Encoding.ROCKETMQ if options["binary"] else Encoding.JSON,
        compressed_register=options["compressed"],
        force_register=not options["need_register"],
        register_broker_timeout_ms=int(options["timeout"] * 1000),
        enable_slave_acting_master=options["acting_master"],
        enable_split_registration=options["split"] is not None,
        split_registration_size=options["split"] or 800,
    )


class _Drill:
    """One run of the command: the broker, and the output."""

    def __init__(self, config: BrokerConfig, topics: TopicTable, own_topics: int, options: dict[str, Any]) -> None:
        self._own_topics = own_topics
        self._as_json, self._verbose = options["as_json"], options["verbose"]
        self._said: dict[str, tuple[object, ...]] = {}
        self.was_registered = False
        period_s = options["period"]
        pace = Pace(period_s, period_s, min(1.0, period_s)) if period_s else None
        common: dict[str, Any] = {"pace": pace, "unregister": not options["stay"], "on_result": self._tell}
        if options["redis"]:
            if options["tls"] is not None:
                raise ConfigError("--tls is for name servers, --redis registers without one: give one of them")
            writer = RedisWriter(options["redis"], options["namespace"], compat=options["compat"])
            self._registrar = BrokerRegistrar(config, topics, transport="redis", redis=writer, **common)
            self._writer: RedisWriter | None = writer
        else:
            advice = f"name the servers to register at: --namesrv HOST:PORT (or {NAMESRV_ADDR}), or --redis URL"
            servers = name_servers_or(options["namesrv"], advice)
            self._registrar = BrokerRegistrar(config, topics, servers, tls=options["tls"], **common)
            self._writer = None

    async def run(self) -> None:
        """Register, and print results, until SIGINT or SIGTERM."""
        config, topics = self._registrar.config, self._registrar.topics
        if not self._as_json:
            who = f"{config.broker_name} (cluster {config.cluster_name}, id {config.broker_id}, {config.broker_addr})"
            system = len(topics) - self._own_topics
            also = f" and {counted(system, 'system topic')}" if system else ""
            click.echo(f"{who}: {counted(self._own_topics, 'topic')}{also}; Ctrl-C leaves")
        stop, entered = asyncio.Event(), asyncio.Event()
        running = asyncio.ensure_future(self._until(stop, entered))

        def interrupted() -> None:
            stop.set()
            if not entered.is_set():  # the first registrations may take long
                running.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupted)
        try:
            await running
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
        finally:
            if self._writer is not None:
                await self._writer.close()
        for server, error in self._registrar.unregistered.items():
            if self._as_json:
                output.json_line({"server": server, "status": "failed" if error else "unregistered", "error": error})
            else:
                click.echo(f"{server}  {f'not unregistered: {error}' if error else 'unregistered'}")

    async def _until(self, stop: asyncio.Event, entered: asyncio.Event) -> None:
        async with self._registrar:
            entered.set()
            await stop.wait()

    def _tell(self, result: RegistrationResult) -> None:
        self.was_registered = self.was_registered or result.ok
        answer = result.answer
        news = (result.status, result.error, result.data_version, answer)
        if self._said.get(result.server) == news and not self._verbose:
            return
        self._said[result.server] = news
        if self._as_json:
            output.json_line({
                "server": result.server, "status": result.status, "elapsed_ms": round(result.elapsed_ms, 1),
                "error": result.error, "failures": result.failures, "masterAddr": answer.master_addr,
                "haServerAddr": answer.ha_server_addr, "orderTopicConfig": answer.order_topic_config,
                "dataVersion": result.data_version,
            })  # fmt: skip
            return
        text = f"{result.server}  {result.status} after {result.elapsed_ms:.0f} ms"
        if result.error:
            text += f": {result.error.removeprefix(f'{result.server}: ')}; tried again"
        elif result.data_version is not None:
            text += f", version {result.data_version.counter}"
        if result.ok and answer.master_addr:
            text += f", master {answer.master_addr}"
        if result.ok and answer.ha_server_addr:
            text += f", replicates from {answer.ha_server_addr}"
        if result.ok and answer.order_topic_config:
            text += f", ordered: {', '.join(sorted(answer.order_topic_config))}"
        click.echo(printable(text))
