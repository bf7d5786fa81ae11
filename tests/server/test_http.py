"""/metrics, /healthz, /readyz: what they say, and that they go on saying it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from mqregistry.config.settings import Settings, options
from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import StartError
from mqregistry.histograms import DurationHistogram
from mqregistry.server.auth.tally import Tally
from mqregistry.server.counting.counters import Counters
from mqregistry.server.limits.rates import Rates
from mqregistry.server.process.figures.metrics_table import OF_PIPELINE, Series
from mqregistry.server.process.http import HttpServer
from mqregistry.server.process.metrics import METRICS, PREFIX, SILENT_S, FrontEndWorkers, Status
from mqregistry.server.process.stream_metrics import stream_series
from mqregistry.store.store import CallTimes, RedisFigures
from mqregistry.store.streams import Alarm, ReaderPosition, StreamReader, StreamState, Survey

from .harness import Broker, wait_until
from .serving import Metrics, Serving, free_ports, get


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fleet(clock):
    return FrontEndWorkers(2, clock=clock)


@pytest.fixture
def http_port(fleet):
    (port,) = free_ports(1)
    server = HttpServer("127.0.0.1", port, fleet)
    yield port
    server.close()


@pytest.fixture
def serving(tmp_path, redis_url):
    with contextlib.ExitStack() as stack:

        def start(url=redis_url, **settings):
            serve = Serving(tmp_path, url, **settings)
            stack.callback(serve.close)
            return serve

        yield start


def counters():
    """Every counter of a worker."""
    tally = Tally(None, None, "fe")
    tally._failures["no_rule"] = 0
    return Counters().report() | Rates(Settings()).report() | tally.report() | CallTimes().counters()


def took(*seconds):
    """A histogram, as a worker tells it."""
    durations = DurationHistogram()
    for one in seconds:
        durations.add(one)
    return durations.told()


DURATIONS = {name: took(0.1) for name, metric in METRICS.items() if metric.kind == "histogram" and not metric.label} | {
    'request_seconds{group="lookup"}': took(0.1)
}


def told(**fields):
    """A status of a worker that has something of everything."""
    return Status(
        ready=True,
        counters=counters() | {'changes_total{type="kv_put"}': 1} | fields.pop("counters", {}),
        roles=[("c1", "master", 1)],
        durations=DURATIONS | fields.pop("durations", {'script_seconds{script="heartbeat"}': took(0.0025, 0.0025)}),
        certificates_end_s={"certificate": 2e9},
        **fields,
    )


def page(port):
    return Metrics(get(port, "/metrics").body.decode())


# the table of metrics


def test_every_documented_metric_is_exported_and_every_exported_one_is_documented(fleet, http_port):
    fleet.told(0, told())
    reader = StreamReader(1, {"changes": ReaderPosition("1-0")})
    fleet.show("streams", stream_series(Survey(1, {"changes": StreamState(1, 1)}, {"reader": reader})))
    fleet.sweeps.alarmed(Alarm("near", "changes", "reader"))
    fleet.show("redis", [Series(f"redis_{name}", "", 1) for name in RedisFigures._fields])
    fleet.show("fleet", [Series("front_ends", "ready", 1), Series("sweepers", "", 1)])
    fleet.show("brokers", [Series("broker_heard_seconds", "c1", 1, second="broker-a", third="10.0.0.1:10911")])
    answer = get(http_port, "/metrics")
    assert answer.content_type.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    documented = {
        PREFIX + name.removesuffix("_total"): metric for name, metric in METRICS.items() if name not in OF_PIPELINE
    }
    assert set(families) == set(documented)
    for name, metric in documented.items():
        family = families[name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert family.samples, f"{name} has no value"
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), sample


def test_every_counter_of_a_worker_is_a_documented_metric():
    for series in counters():
        name = series.partition("{")[0]
        assert METRICS[name].kind == "counter"
        assert re.findall(r'(\w+)="', series) == METRICS[name].labels


def test_every_label_value_is_named_in_the_help():
    for series in Counters().report():
        match = re.fullmatch(r'(\w+)\{\w+="(\w+)"\}', series)
        if match is not None:
            assert match[2] in METRICS[match[1]].help, series


def test_a_limit_is_named_by_its_setting():
    named = {re.search(r'limit="(\w+)"', series)[1] for series in Rates(Settings()).report()}
    assert named <= {option.key for option in options().values()}
    assert len(named) == 10


def test_a_scraper_may_ask_for_open_metrics(fleet, http_port):
    fleet.told(0, told())
    with socket.create_connection(("127.0.0.1", http_port), timeout=60) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n")
        text = client.makefile("rb").read().decode()
    assert "Content-Type: application/openmetrics-text" in text
    assert text.endswith("# EOF\n")


# sums over workers


ONE_MS = {'script_seconds{script="heartbeat"}': took(0.001)}


def test_counters_are_summed_and_what_a_dead_worker_counted_is_kept(fleet, http_port):
    fleet.told(0, told(counters={'lookups_total{result="found"}': 5, "view_rebuilds_total": 1}))
    fleet.told(1, told(counters={'lookups_total{result="found"}': 7, "view_rebuilds_total": 1}))
    expected = {
        "lookups_total{found}": 12.0, "view_rebuilds_total": 2.0,
        "script_seconds_count{heartbeat}": 4.0, "script_seconds_sum{heartbeat}": 0.01,
        "script_seconds_bucket{0.001,heartbeat}": 0.0, "script_seconds_bucket{0.0025,heartbeat}": 4.0,
        "script_seconds_bucket{+Inf,heartbeat}": 4.0,
    }  # fmt: skip

    def shown():
        found = page(http_port)
        return {name: found[name] for name in expected}

    assert shown() == expected
    fleet.gone(0)
    assert shown() == expected
    fleet.told(0, Status(ready=True))  # its successor begins at nothing
    assert shown() == expected
    fleet.told(0, told(counters={'lookups_total{result="found"}': 1}, durations=ONE_MS))
    assert shown() == {
        "lookups_total{found}": 13.0, "view_rebuilds_total": 2.0,
        "script_seconds_count{heartbeat}": 5.0, "script_seconds_sum{heartbeat}": 0.011,
        "script_seconds_bucket{0.001,heartbeat}": 1.0, "script_seconds_bucket{0.0025,heartbeat}": 5.0,
        "script_seconds_bucket{+Inf,heartbeat}": 5.0,
    }  # fmt: skip


def test_gauges_are_of_the_living(fleet, http_port):
    gauges = {"view_seq": 7, "view_lag_seconds": 0.01, "channels": 2, "connections": 3, "brokers_alive": 4, "topics": 5}
    fleet.told(0, told(gauges={**gauges, "view_stale": 1}, redis_away=True))
    gauges = {"view_seq": 9, "view_lag_seconds": 2.5, "channels": 1, "connections": 1, "brokers_alive": 5, "topics": 6}
    fleet.told(1, told(gauges={**gauges, "grace": 1}))
    assert page(http_port).items() >= {
        "view_seq": 7.0, "view_lag_seconds": 2.5, "channels": 3.0, "connections": 4.0, "brokers_alive": 5.0,
        "topics": 6.0, "view_stale": 1.0, "redis_away": 1.0, "leases": 1.0, "grace": 1.0, "workers": 2.0, "ready": 1.0,
    }.items()  # fmt: skip
    fleet.gone(1)
    assert page(http_port).items() >= {"channels": 2.0, "grace": 0.0, "workers": 1.0, "ready": 0.0}.items()


# readiness


def test_ready_once_every_worker_is(fleet, http_port):
    def readyz():
        answer = get(http_port, "/readyz")
        assert answer.content_type == "application/json"
        return answer.status, answer.body

    assert readyz() == (503, b'{"ready": false, "reasons": ["worker 1 is not up", "worker 2 is not up"]}\n')
    fleet.told(0, told())
    fleet.told(1, Status())
    assert readyz() == (503, b'{"ready": false, "reasons": ["worker 2 has not read the tables yet"]}\n')
    fleet.told(1, told(redis_away=True))
    assert readyz() == (200, b'{"ready": true, "reasons": []}\n')
    fleet.told(1, told(draining=True))
    assert readyz() == (503, b'{"ready": false, "reasons": ["worker 2 is draining"]}\n')
    fleet.draining = True
    assert readyz() == (503, b'{"ready": false, "reasons": ["draining"]}\n')


def test_that_nobody_sweeps_is_said_and_no_reason_to_be_unready(fleet, http_port):
    fleet.told(0, told(gauges={"broker_overdue_seconds": 45}))
    fleet.told(1, told(gauges={"broker_overdue_seconds": 29}))
    answer = get(http_port, "/readyz")
    assert answer.status == 200
    shown = json.loads(answer.body)
    assert (shown["ready"], shown["reasons"]) == (True, [])
    (warning,) = shown["warnings"]
    assert warning.startswith("no sweeper has run for 45 s: ")
    assert page(http_port)["broker_overdue_seconds"] == 45.0
    fleet.gone(0)
    assert "warnings" not in json.loads(get(http_port, "/readyz").body)


def test_a_worker_that_says_nothing_is_not_ready(fleet, clock, http_port):
    fleet.told(0, told())
    clock.now_s += SILENT_S + 1
    fleet.told(1, told())
    answer = get(http_port, "/readyz")
    assert (answer.status, b"worker 1 has been silent for 6 s" in answer.body) == (503, True)
    assert page(http_port)["workers"] == 1.0


# requests


def test_healthz_is_answered_whatever_the_workers_do(http_port):
    assert get(http_port, "/healthz") == (200, "text/plain; charset=utf-8", b"ok\n")
    assert get(http_port, "/healthz?verbose=1").status == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metricsx", "/healthz/../etc/passwd", "/%2e%2e/", "*"])
def test_an_unknown_path_is_404_and_says_what_there_is(http_port, path):
    answer = get(http_port, path)
    assert (answer.status, answer.body) == (404, b"try /metrics, /healthz, /readyz, /rocketmq/nsaddr or /http_sd\n")


def test_head_has_no_body(http_port):
    assert get(http_port, "/healthz", method="HEAD") == (200, "text/plain; charset=utf-8", b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "FLY"])
def test_another_method_is_refused(http_port, method):
    assert get(http_port, "/metrics", method=method).status == 501


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\xff" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"\r\n" * 3,
    ],
)
def test_garbage_is_answered_with_an_error_or_a_close(http_port, sent):
    with socket.create_connection(("127.0.0.1", http_port), timeout=60) as client:
        with contextlib.suppress(OSError):  # ENOTCONN, too: the server may have closed it already
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while data := client.recv(65536):
                answer += data
    assert re.search(rb"\b(400|414|431|505)\b", answer) or not answer
    assert get(http_port, "/healthz").status == 200


def test_clients_that_hang_hold_nobody_up(http_port):
    with contextlib.ExitStack() as stack:
        for sent in (b"", b"GET /metrics HTT", b"GET /metrics HTTP/1.1\r\nX: ") * 10:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", http_port)))
            client.sendall(sent)
        assert get(http_port, "/healthz", timeout_s=20).status == 200


def test_clients_that_hang_are_many_and_yet_there_is_an_answer(http_port):
    """As many as there may be at once: the oldest have to go for the newest."""
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", http_port)))
        assert get(http_port, "/healthz", timeout_s=20).status == 200
        assert threading.active_count() < 100


def test_a_client_that_does_not_read_holds_nobody_up(fleet, http_port):
    fleet.told(0, told(durations={f'script_seconds{{script="script{i}"}}': took(0.001) for i in range(2_000)}))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.connect(("127.0.0.1", http_port))
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert client.recv(10).startswith(b"HTTP/1.0 2")
        assert get(http_port, "/healthz", timeout_s=20).status == 200


# start


def test_a_taken_port_is_a_start_error_that_names_it(fleet):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=rf"cannot serve metrics on 127\.0\.0\.1:{port}: .*--http-port"):
            HttpServer("127.0.0.1", port, fleet)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "x" * 64 + ".invalid"])
def test_an_address_that_is_none_is_a_start_error(fleet, host):
    with pytest.raises(StartError, match=re.escape(f"cannot serve metrics on {host}:1234")):
        HttpServer(host, 1234, fleet)


def test_close_frees_the_port_though_a_client_hangs(fleet):
    (port,) = free_ports(1)
    server = HttpServer("127.0.0.1", port, fleet)
    with socket.create_connection(("127.0.0.1", port)):
        assert get(port, "/healthz").status == 200
        server.close()
        HttpServer("127.0.0.1", port, fleet).close()


# a front end as it is run


def test_what_a_front_end_does_is_counted(serving):
    serve = serving(workers=2)
    before = serve.metrics()
    assert before["brokers_alive"] == before["channels"] == before["topics"] == 0
    assert (before["workers"], before["leases"], before["ready"]) == (2, 2, 1)
    with serve.client() as broker, serve.client() as other, serve.client() as user:
        one = Broker()
        assert broker.register(one).code == 0  # changed
        assert broker.register(one).code == 0  # unchanged
        assert broker.register(one).code == 0
        ext, body = one.registration(counter=2)
        assert broker.request(103, ext | {"bodyCrc32": "1"}, body).code != 0  # refused: its crc32
        assert broker.request(103, {"brokerName": "broker-a"}).code != 0  # error: fields are missing
        assert other.register(Broker("broker-b", "127.0.0.1:10921", topics=["topic3", "topic4"])).code == 0
        serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 2, "both are shown")
        assert [user.route(topic).code for topic in ("topic1", "topic3", "topic1", "no-such-topic")] == [0, 0, 0, 17]
        expected = {
            "registrations_total{changed}": 2, "registrations_total{unchanged}": 2, "registrations_total{refused}": 1,
            "registrations_total{error}": 1, "lookups_total{found}": 3, "lookups_total{not_found}": 1,
            "lookups_total{error}": 0, "stale_answers_total": 0, 
            "requests_total{103,success}": 4, "requests_total{103,system_error}": 2,
            "requests_total{105,success}": 3, "requests_total{105,topic_not_exist}": 1,
            "request_seconds_count{registration}": 6, "change_visible_seconds_count": 4,
            "channels": 2, "connections": 3,
            "brokers_alive": 2, "topics": 4, "script_seconds_count{heartbeat}": 5,
            "script_seconds_count{register_broker}": 2, "bad_frames_total": 0, "view_stale": 0, "redis_away": 0,
        }  # fmt: skip
        found = {}

        def all_is_there():
            metrics = serve.metrics()
            found.update({name: metrics.get(name) for name in expected})
            return found == expected

        with contextlib.suppress(AssertionError):
            serve.wait_until(all_is_there, "the counts")
        assert found == expected
        after = serve.metrics()
        assert after["view_seq"] > before["view_seq"]
        assert 0 < after["script_seconds_sum{register_broker}"] < 60
        assert 0 < after["request_seconds_sum{registration}"] < 60
        assert after["loop_delay_seconds_count"] > 10
        user.socket.sendall(b"\xff" * 64)
        assert user.closed()
        serve.wait_until(lambda: serve.metrics()["bad_frames_total"] == 1, "what is no frame is counted")
        assert serve.metrics()["connections_closed_total{bad_frame}"] == 1
    serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 0, "their last connections are closed")
    serve.wait_until(lambda: (m := serve.metrics())["connections"] == m["channels"] == 0, "all are gone")


def test_counters_never_go_back_when_workers_die(serving):
    serve = serving(workers=2)
    seen: list[Metrics] = []
    stop = threading.Event()

    def scrape():
        while not stop.is_set():
            seen.append(serve.metrics())

    scraper = threading.Thread(target=scrape)
    with serve.client() as user:
        user.register(Broker())
        for _ in range(50):
            assert user.route("topic1").code == 0
        serve.wait_until(lambda: serve.metrics().get("lookups_total{found}") == 50, "all are counted")
        scraper.start()
        try:
            for number in (signal.SIGKILL, signal.SIGTERM):
                restarts = serve.metrics()["worker_restarts_total"]
                for worker in serve.workers():
                    worker.send_signal(number)
                serve.wait_until(
                    lambda restarts=restarts: (
                        (m := serve.metrics())["worker_restarts_total"] == restarts + 2 and m["ready"] == 1
                    ),
                    "both are up again",
                )
        finally:
            stop.set()
            scraper.join()
    counters = [key for key in seen[0] if key.partition("{")[0].endswith(("_total", "_count", "_sum"))]
    assert len(counters) > 10
    for key in counters:
        values = [metrics[key] for metrics in seen]
        assert values == sorted(values), key
    assert serve.metrics()["lookups_total{found}"] == 50


def test_expired_brokers_are_counted(serving):
    serve = serving()
    with serve.client() as broker:
        broker.falls_silent(Broker())
        serve.wait_until(lambda: serve.metrics()["grace"] == 0, "grace is over")
        serve.wait_until(lambda: serve.metrics()["brokers_expired_total"] == 1, "it fell silent")
        serve.wait_until(lambda: serve.metrics()["brokers_alive"] == 0, "it is gone")


def test_grace_is_shown(serving):
    serve = serving()
    serve.wait_until(lambda: serve.metrics()["grace"] == 1, "a namespace that nobody watched until now")


def test_redis_away_is_ready_and_stale(serving):
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as own:
        serve = serving(own.url)
        with serve.client() as user:
            assert user.register(Broker()).code == 0
            assert user.route("topic1").code == 0
            own.kill()
            serve.wait_until(lambda: serve.metrics()["redis_away"] == 1, "it is noticed")
            serve.wait_until(lambda: serve.metrics()["view_stale"] == 1, "the view may be behind")
            assert serve.readyz() == (200, [])
            assert serve.metrics()["leases"] == 0
            assert user.route("topic1").code == 0
            assert user.route("no-such-topic").code not in (0, 17)
            assert user.register(Broker(counter=2)).code not in (0, 17)
            serve.wait_until(
                lambda: (
                    serve.metrics().items()
                    >= {"stale_answers_total": 1, "lookups_total{error}": 1, "registrations_total{error}": 1}.items()
                ),
                "what was answered meanwhile is counted",
            )
            own.start()
            serve.wait_until(lambda: serve.metrics()["redis_away"] == 0, "it is back")
            serve.wait_until(lambda: serve.metrics()["view_stale"] == 0, "the view is fresh")
            assert user.route("topic1").code == 0
            assert serve.readyz() == (200, [])
            assert serve.metrics()["stale_answers_total"] == 1


def test_an_overdue_broker_that_nobody_removes_is_shown(serving):
    serve = serving(sweep=False)
    with serve.client() as broker:
        assert broker.register(Broker(heartbeatTimeoutMillis="1000")).code == 0
        serve.wait_until(lambda: serve.metrics()["broker_overdue_seconds"] > 0.5, "nobody removes it")


def test_not_ready_while_the_tables_are_not_read(serving, redis_url):
    """A worker that cannot come up: here for a namespace whose tables cannot be read."""
    with redis.Redis(unix_socket_path=redis_url.removeprefix("unix://"), protocol=2) as client:
        serve = serving()
        client.set(f"mq:{{{serve.namespace}}}:brokers", "no set")
        worker = serve.workers()[0]
        worker.kill()
        serve.wait_until(lambda: serve.readyz() == (503, ["worker 1 is not up"]), "not ready")
        assert serve.get("/healthz").status == 200
        assert serve.metrics()["ready"] == 0
        client.delete(f"mq:{{{serve.namespace}}}:brokers")
        serve.wait_until(lambda: serve.readyz() == (200, []), "ready again")


def test_a_paused_worker_makes_it_unready(serving):
    serve = serving(workers=2)
    paused = serve.workers()[0]
    paused.suspend()
    try:
        reasons = serve.wait_until(lambda: serve.readyz()[1], "its silence is noticed")
        assert re.fullmatch(r"worker [12] has been silent for \d+ s", reasons[0])
    finally:
        paused.resume()
    serve.wait_until(lambda: serve.readyz() == (200, []), "it tells of itself again")


def test_draining_is_not_ready(serving):
    serve = serving()
    with serve.client() as client:
        assert client.request(106).code == 0
        serve.process.terminate()
        wait_until(lambda: serve.readyz() == (503, ["draining"]), "load balancers are told")
    assert serve.process.wait(60) == 0


def test_a_taken_http_port_is_253_and_nothing_is_left(serving):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        serve = serving(booted=False, http_port=port)
        assert serve.process.wait(60) == 253
        assert f"cannot serve metrics on 127.0.0.1:{port}" in serve.log
    socket.create_server(("127.0.0.1", serve.port)).close()


def test_http_can_be_off(serving):
    serve = serving(http_port=0)
    assert "HTTP port off" in serve.log
    ours = psutil.Process(serve.process.pid).net_connections("tcp")
    assert {each.laddr.port for each in ours if each.status == psutil.CONN_LISTEN} == {serve.port}
