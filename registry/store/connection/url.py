"""Parses a Redis URL.

Forms:
    redis://[user:password@]host[:port][/db]        one Redis; rediss:// with TLS
    unix:///path/to/socket[?db=0]                   one Redis on this machine
    redis+sentinel://[user:password@]h1[:p],h2[:p]/master-name[/db]     rediss+sentinel:// with TLS
    redis+cluster://[user:password@]h1[:p],h2[:p]                       rediss+cluster:// with TLS

Options in the query: ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs`` (required, none), and
for Sentinel ``sentinel_username``, ``sentinel_password``. The environment variable MQREGISTRY_REDIS_PASSWORD keeps the
password out of process lists.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigError
from ...names import MAX_NAME_BYTES, printable
from ...networks import is_loopback

PASSWORD_VARIABLE = "MQREGISTRY_REDIS_PASSWORD"
# The beginning of the placeholder passwords in deploy/.
_EXAMPLE: Final = "change-me"
_QUERY_OPTIONS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "db"})
_SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_SCHEMES: Final = frozenset(
    {"unix", *(f"{tls}{form}" for tls in ("redis", "rediss") for form in ("", "+sentinel", "+cluster"))}
)
_HOST: Final = r"(?:[\w.-]*|\[[0-9A-Fa-f:.%]+\])(?::\d{1,5})?"
_PLACE: Final = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/[\w.,/-]*)?")
NOT_SHOWN: Final = "a text that is no Redis URL (it may hold a password, and is not shown)"
_QUOTED: Final = (
    "write the characters / # ? @ [ ] % of a password as %2F %23 %3F %40 %5B %5D %25, or put it into "
    "MQREGISTRY_REDIS_PASSWORD as it is"
)


class RedisAddress(NamedTuple):
    """The address of a Redis, and its login.

    ``form``: ``sentinel``, ``cluster``, or ``""`` for one server; then only ``url`` has the address.
    ``login``: username, password and TLS options under redis-py's names; for one server only a password from outside
    the
        URL.
    ``master``: the name of the master at the Sentinels.
    ``sentinel_login``: like ``login``, for the Sentinels themselves.
    """

    form: str
    url: str
    login: dict[str, Any]
    hosts: list[tuple[str, int]]
    master: str = ""
    database: int = 0
    sentinel_login: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    def __repr__(self) -> str:
        return f"RedisAddress({without_password(self.url)!r})"


def parse_url(url: str, password: str | None = None) -> RedisAddress:
    """Parse a Redis URL of any of the forms above.

    Args:
        password: used if the URL has none; default: MQREGISTRY_REDIS_PASSWORD.

    Raises:
        ConfigError: the URL has none of the forms, a user without a password, or the password of an example. No
            message contains a password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:  # the URL is not shown: any part of it may be the password
        raise ConfigError(f"redis: {without_password(url)!r} cannot be read: {_QUOTED}") from None
    if parts.scheme != "unix" and "@" in f"{parts.path}#{parts.fragment}" + parts.query.partition("sentinel_")[0]:
        raise ConfigError(f"redis: {without_password(url)!r}: an @ stands behind the host: {_QUOTED}")
    tls, _, form = parts.scheme.partition("+")
    query = dict(parse_qsl(parts.query))
    for key in query:
        if key not in _QUERY_OPTIONS and not (form == "sentinel" and key in _SENTINEL_OPTIONS):
            allowed = sorted(_QUERY_OPTIONS | (_SENTINEL_OPTIONS if form == "sentinel" else set()))
            shown = key if "@" not in url and "password" not in url.partition(key)[0] else "of this name"
            raise ConfigError(f"redis: {without_password(url)!r}: no option {shown!r}; there are {', '.join(allowed)}")
        if key.startswith("ssl_") and tls != "rediss":
            raise ConfigError(f"redis: {without_password(url)!r}: {key} needs a URL that begins with rediss")
    password = password or os.environ.get(PASSWORD_VARIABLE) or None
    _check_login(url, unquote(parts.username or ""), unquote(parts.password or "") or password or "")
    _check_login(url, query.get("sentinel_username", ""), query.get("sentinel_password", ""))
    if not form and parts.scheme in ("redis", "rediss", "unix"):
        return RedisAddress("", url, {"password": password} if password and parts.password is None else {}, [])
    if form not in ("sentinel", "cluster") or tls not in ("redis", "rediss"):
        raise ConfigError(
            f"redis: {without_password(url)!r} is none of redis://, rediss://, unix://, "
            "redis+sentinel://, redis+cluster:// (or rediss+…)"
        )
    login: dict[str, Any] = {
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else password,
    }
    tls_options: dict[str, Any] = {"ssl": True} if tls == "rediss" else {}
    tls_options |= {key: value for key, value in query.items() if key.startswith("ssl_")}
    login |= tls_options
    path = parts.path.strip("/").split("/")
    if form == "cluster":
        if query.get("db", "0") != "0" or path not in ([""], ["0"]):
            raise ConfigError(f"redis: {without_password(url)!r}: a Redis Cluster has no databases but 0")
        return RedisAddress(form, url, login, _hosts(parts.netloc, 6379))
    if not path[0]:
        raise ConfigError(f"redis: {without_password(url)!r} names no master: …sentinel://hosts/master-name")
    sentinel_login = dict(tls_options)
    if query.get("sentinel_password"):
        sentinel_login["password"] = query["sentinel_password"]
        sentinel_login["username"] = query.get("sentinel_username")
    hosts = _hosts(parts.netloc, 26379)
    database = path[1] if path[1:] else query.get("db", "0")
    if not database.isdecimal():
        raise ConfigError(f"redis: {without_password(url)!r}: its path ends with no database number")
    return RedisAddress(form, url, login, hosts, path[0], int(database), sentinel_login)


def _check_login(url: str, username: str, password: str) -> None:
    """Refuse the password of an example, and a user without a password."""
    if password.startswith(_EXAMPLE):
        raise ConfigError(
            f"redis: {without_password(url)!r}: the password is that of the example, which everybody knows: choose one "
            f"(sh deploy/passwords.sh does), for users.acl and {PASSWORD_VARIABLE}"
        )
    if username and not password:
        raise ConfigError(
            f"redis: {without_password(url)!r} names a user, and there is no password: set "
            f"{PASSWORD_VARIABLE}, or put it into the URL"
        )


def is_open_to_others(url: str) -> bool:
    """Whether this Redis is on another machine, and is used without a password (and without a client certificate)."""
    address, parts = parse_url(url), urlsplit(url)
    hosts = [host for host, _ in address.hosts] or [parts.hostname or ""]
    protected = parts.password or address.login.get("password") or "ssl_certfile=" in parts.query
    return not protected and parts.scheme != "unix" and any(host and not is_loopback(host) for host in hosts)


def username_of(url: str) -> str | None:
    """The Redis user that a URL names; None: it names none, or cannot be read."""
    try:
        username = urlsplit(url).username
    except ValueError:
        return None
    return printable(unquote(username))[:MAX_NAME_BYTES] if username else None


def without_password(url: str) -> str:
    """The URL without its password, for messages and logs.

    A password may have any character, even unquoted, so everything between ``://`` and the last @ is left out. A text
    that is no Redis URL is left out completely.
    """
    scheme, sep, rest = url.partition("://")
    if not sep or scheme not in _SCHEMES:
        return NOT_SHOWN
    login, at, shown = rest.rpartition("@")
    place, question, query = shown.partition("?")
    if "?" in login or (scheme != "unix" and not _PLACE.fullmatch(place)):
        return f"{scheme}://***"  # an @ in an option, or in an unquoted password: the rest may belong to the password
    options = [part for part in query.split("&") if part.partition("=")[0] in _QUERY_OPTIONS | _SENTINEL_OPTIONS]
    told = [part if "password" not in part else f"{part.partition('=')[0]}=***" for part in options]
    return f"{scheme}://{'***@' if at else ''}{place}{question}{'&'.join(told)}"


def _hosts(netloc: str, default_port: int) -> list[tuple[str, int]]:
    hosts = []
    for item in netloc.rpartition("@")[2].split(","):
        host, colon, port = item.rpartition(":")
        if not colon or not port.isdigit():
            host, port = item, str(default_port)
        if not host:
            raise ConfigError("redis: the URL names no host; expected host[:port][,host[:port]...]")
        hosts.append((host.strip("[]"), int(port)))
    return hosts
