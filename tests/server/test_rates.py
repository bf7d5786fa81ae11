"""The limits of one worker: whom they hold, what observe and enforce do, what is counted, logged and kept."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from mqregistry.config.settings import Settings, options
from mqregistry.config.sources import build
from mqregistry.errors import ConfigError, RateExceeded
from mqregistry.server.limits.rates import MOST_ADDRESSES, Rates
from mqregistry.server.limits.summary_log import LINES, LINES_EACH, SUMMARY_S, SummaryLog
from mqregistry.server.limits.token_buckets import SECOND_NS

STRANGER = "10.1.2.3"


class Clock:
    now_ns = 1000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rates_of(clock: Clock, **settings: object) -> Rates:
    return Rates(Settings(**{"rate_burst_seconds": 1, **settings}), clock)  # type: ignore[arg-type]


def counted(rates: Rates, limit: str) -> tuple[int, int, int]:
    report = rates.report()
    seen, exceeded, refused = (
        report[f'rate_{name}_total{{limit="{limit}"}}'] for name in ("seen", "exceeded", "refused")
    )
    return seen, exceeded, refused


def served(rates: Rates, kind: str, hosts: list[str]) -> list[bool]:
    def one(host: str) -> bool:
        try:
            rates.check(kind, host)  # type: ignore[arg-type]
        except RateExceeded:
            return False
        return True

    return [one(host) for host in hosts]


# modes

KINDS = {
    "new_connections": "NewConnections", "writes": "Writes", "admin_writes": "AdminWrites", "new_brokers": "NewBrokers",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", ["address", "namespace"])
@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_each_limit_in_each_mode(clock, kind, scope, mode):
    rates = rates_of(clock, **{f"limit_{kind}": mode, f"{scope}_{kind}_per_second": 3})
    limit = f"{scope}{KINDS[kind]}PerSecond"
    hosts = [STRANGER] * 5 if scope == "address" else [f"10.0.0.{n}" for n in range(5)]
    expected = {"off": (0, 0, 0), "observe": (5, 2, 0), "enforce": (5, 2, 2)}[mode]
    assert served(rates, kind, hosts) == [True] * 3 + [mode != "enforce"] * 2
    assert counted(rates, limit) == expected
    clock.now_ns += SECOND_NS // 3
    assert served(rates, kind, hosts[-1:]) == [True]
    assert counted(rates, limit)[1:] == expected[1:]


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_open_connections_in_each_mode(clock, mode):
    rates = rates_of(clock, limit_connections=mode, address_connections=2)
    stays = [rates.opened(STRANGER) == "" for _ in range(3)]
    assert stays == [True, True, mode != "enforce"]
    assert counted(rates, "addressConnections") == {"off": (0, 0, 0), "observe": (3, 1, 0), "enforce": (3, 1, 1)}[mode]
    assert rates.opened("10.1.2.4") == ""
    for _ in range(3):
        rates.closed(STRANGER)
    assert [rates.opened(STRANGER) for _ in range(2)] == ["", ""]


def test_everything_is_observed_unless_told_otherwise():
    assert {option.default for option in options().values() if option.name.startswith("limit_")} == {"observe"}


def test_zero_is_no_limit(clock):
    rates = rates_of(
        clock, limit_writes="enforce", limit_connections="enforce", address_writes_per_second=0,
        namespace_writes_per_second=0, address_connections=0,
    )  # fmt: skip
    assert all(served(rates, "writes", [STRANGER] * 10_000))
    assert not any(rates.opened(STRANGER) for _ in range(100))


def test_a_new_broker_is_also_a_write(clock):
    rates = rates_of(clock, limit_new_brokers="enforce", address_new_brokers_per_second=1)
    for _ in range(3):
        rates.check_registration(STRANGER, is_new=False)
    rates.check_registration(STRANGER, is_new=True)
    with pytest.raises(RateExceeded, match="new brokers"):
        rates.check_registration(STRANGER, is_new=True)
    assert counted(rates, "addressWritesPerSecond")[0] == 5
    assert counted(rates, "addressNewBrokersPerSecond") == (2, 1, 1)


@pytest.mark.parametrize(
    ("code", "limit"),
    [(104, "addressWritesPerSecond")]
    + [(code, "addressAdminWritesPerSecond") for code in (100, 102, 205, 216, 217, 318, 327)]
    + [(code, "") for code in (103, 105, 106, 322, 904)],
)
def test_which_requests_count_as_what(clock, code, limit):
    rates = rates_of(clock)
    rates.check_request(code, STRANGER)
    assert {key for key, value in rates.report().items() if value and "address" in key} == (
        {f'rate_seen_total{{limit="{limit}"}}'} if limit else set()
    )


# whose buckets


def test_a_refused_one_takes_no_token_of_the_others(clock):
    rates = rates_of(
        clock, limit_writes="enforce", address_writes_per_second=2, namespace_writes_per_second=3
    )  # fmt: skip
    assert served(rates, "writes", [STRANGER] * 50) == [True] * 2 + [False] * 48
    assert served(rates, "writes", ["10.0.0.1", "10.0.0.2"]) == [True, False]


def test_loopback_has_no_limit_of_its_own_but_the_namespaces(clock):
    rates = rates_of(
        clock, limit_writes="enforce", limit_connections="enforce", address_writes_per_second=1,
        namespace_writes_per_second=3, address_connections=1,
    )  # fmt: skip
    assert served(rates, "writes", ["127.0.0.1", "::1", "127.8.8.8", "::ffff:127.0.0.1"]) == [True] * 3 + [False]
    assert [rates.opened("127.0.0.1") for _ in range(5)] == [""] * 5
    assert counted(rates, "addressWritesPerSecond") == (0, 0, 0)


def test_an_ipv6_network_of_64_bits_counts_as_one_address(clock):
    rates = rates_of(clock, limit_writes="enforce", address_writes_per_second=1)
    hosts = ["2001:db8::1", "2001:db8::2:0:0:1", "2001:db8:0:1::1", "fe80::1%eth0", "fe80::2"]
    assert served(rates, "writes", hosts) == [True, False, True, True, False]


def test_an_ipv4_address_is_the_same_in_ipv6(clock):
    rates = rates_of(clock, limit_writes="enforce", address_writes_per_second=1)
    assert served(rates, "writes", ["10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.2"]) == [True, False, True]


def test_what_is_no_ip_address_has_a_bucket_too(clock):
    rates = rates_of(clock, limit_writes="enforce", address_writes_per_second=1)
    assert served(rates, "writes", ["unix", "unix", "", ""]) == [True, False, True, False]


def test_settings_may_change_at_any_time(clock):
    rates = rates_of(clock, address_writes_per_second=1)
    assert served(rates, "writes", [STRANGER] * 3) == [True] * 3
    settings = {"rate_burst_seconds": 1, "address_writes_per_second": 1}
    rates.configure(Settings(limit_writes="enforce", **settings))
    assert served(rates, "writes", [STRANGER]) == [False]
    rates.configure(Settings(limit_writes="enforce", unlimited_addresses="10.0.0.0/8", **settings))
    assert served(rates, "writes", [STRANGER, "127.0.0.1", "127.0.0.1"]) == [True, True, False]
    rates.configure(Settings(limit_writes="off", **settings))
    assert served(rates, "writes", ["127.0.0.1"]) == [True]


# what is said


def test_a_refusal_names_limit_address_rate_and_setting(clock):
    rates = rates_of(clock, limit_writes="enforce", address_writes_per_second=7)
    served(rates, "writes", [STRANGER] * 7)
    with pytest.raises(RateExceeded) as caught:
        rates.check("writes", STRANGER)
    assert str(caught.value) == (
        "[OVERLOAD]more than 7 writes a second of 10.1.2.3 (addressWritesPerSecond=7, rateBurstSeconds=1); "
        "nothing was done, try again later"
    )


def test_a_refusal_by_the_namespaces_limit_says_so(clock):
    rates = rates_of(clock, limit_admin_writes="enforce", namespace_admin_writes_per_second=1)
    rates.check("admin_writes", "10.0.0.1")
    with pytest.raises(RateExceeded, match=r"1 writes of tools a second of all addresses together, now of 10\.0\.0\.2"):
        rates.check("admin_writes", "10.0.0.2")


def test_the_log_has_the_first_at_once_and_then_a_summary_a_minute(caplog):
    log = SummaryLog()
    with caplog.at_level(logging.WARNING):
        for second in range(4 * int(SUMMARY_S)):
            for number in range(2000 if second == 0 else 0):
                log.tell("limit=1", f"10.0.{number >> 8}.{number & 255}", "the first", lines=1)
            if second <= 100:
                log.tell("limit=1", "10.9.9.9", "the first", lines=1)
            log.summarize(float(second))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0] == "the first"
    assert lines[1].startswith("limit=1: 2060 more like it in the last 60 s, by others (1060), 10.0.")
    assert lines[1].endswith(" and 996 more addresses")
    assert lines[2] == "limit=1: 40 more like it in the last 60 s, by 10.9.9.9 (40)"
    caplog.clear()
    log.tell("limit=1", STRANGER, "again", lines=1)
    assert [record.getMessage() for record in caplog.records] == ["again"]


def test_the_first_of_each_kind_and_address_is_told_and_all_of_it_is_bounded(caplog):
    log = SummaryLog()
    with caplog.at_level(logging.INFO):
        for number in range(200_000):
            log.tell(f"kind {number % 200}", f"10.0.{number % 3000}", "what was wrong", logging.INFO)
        assert len(caplog.records) <= 101 * LINES * LINES_EACH
        caplog.clear()
        log.summarize(0.0)
        log.summarize(SUMMARY_S)
        assert len(caplog.records) <= 101
        caplog.clear()
        log = SummaryLog()
        log.tell("frames", "10.0.0.2", "two")
        for _ in range(LINES_EACH + 1):
            log.tell("frames", "10.0.0.1", "one")
        log.summarize(SUMMARY_S + 1)
        log.summarize(3 * SUMMARY_S)
    told = [record.getMessage() for record in caplog.records]
    assert told[: LINES_EACH + 1] == ["two", *["one"] * LINES_EACH]
    assert "frames: 1 more like it in the last 60 s, by 10.0.0.1 (1)" in told


def test_counts_go_on_while_nothing_is_logged(clock, caplog):
    rates = rates_of(clock, address_writes_per_second=1)
    with caplog.at_level(logging.WARNING):
        served(rates, "writes", [STRANGER] * 100)
    assert counted(rates, "addressWritesPerSecond") == (100, 99, 0)
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.endswith(": not refused, because of limitWrites=observe")


# memory


def test_what_is_kept_of_addresses_is_bounded(clock):
    rates = rates_of(
        clock, address_writes_per_second=1, address_new_brokers_per_second=1, namespace_writes_per_second=0,
        namespace_new_brokers_per_second=0,
    )  # fmt: skip
    hosts = [f"10.{n >> 8}.{n & 255}.1" for n in range(3 * MOST_ADDRESSES)]
    for host in hosts[:MOST_ADDRESSES]:
        rates.check_registration(host, is_new=True)
    tracemalloc.start()
    try:
        for host in hosts[MOST_ADDRESSES:]:
            rates.check_registration(host, is_new=True)
            rates.check_registration(host, is_new=True)
        grown_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rates.addresses == 2 * MOST_ADDRESSES
    assert grown_bytes < 8 << 20


def test_nothing_is_kept_of_closed_connections(clock):
    rates = rates_of(clock)
    for n in range(1000):
        rates.opened(f"10.0.0.{n & 255}")
    for n in range(1000):
        rates.closed(f"10.0.0.{n & 255}")
    assert rates._open == {}


# networks


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.256", "localhost", "10.0.0.1,10.0.0.2", "::1/129"])
def test_networks_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="expected addresses and networks, separated by ;"):
        build(environ={"MQREGISTRY_PROXY_PROTOCOL_FROM": text})
