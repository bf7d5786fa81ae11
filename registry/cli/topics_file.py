"""Topics from a command line or a file."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from ..model import TopicConfig

_DEFAULTS: Final = (8, 8, 6, 0)
# In the order of a TopicConfig; a Java broker's topics.json has the first names.
_FIELDS: Final = (("readQueueNums", "read"), ("writeQueueNums", "write"), ("perm", "perm"), ("topicSysFlag", "flag"))
_EXPECTED: Final = "expected READ, WRITE, PERM as numbers, e.g. orders: [8, 8, 6]"


def parse_topic(text: str) -> TopicConfig:
    """Read ``NAME[:READ[:WRITE[:PERM]]]``; the default is 8:8:6, and WRITE is READ if only READ is given.

    Raises:
        ConfigError: the text has another form.
    """
    name, *numbers = text.split(":")
    try:
        values = [int(number) for number in numbers]
    except ValueError:
        raise ConfigError(f"topic {text!r}: expected NAME:READ:WRITE:PERM, e.g. orders:8:8:6") from None
    return _topic(name, values if len(values) != 1 else values * 2)


def read_topics(path: Path) -> list[TopicConfig]:
    """Read a file of topics, JSON or, if its name ends with .yaml or .yml, YAML.

    It holds ``NAME: [READ, WRITE, PERM]``, ``NAME: {read: 8, perm: 4}``, a list of names, or it is the topics.json of a
    Java broker.

    Raises:
        ConfigError: the file, or an entry of it, cannot be read; the message names both.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = _parse_yaml(text) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("topicConfigTable"), dict):
        content = content["topicConfigTable"]
    try:
        return list(_topics(content))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _parse_yaml(text: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError("YAML needs a library: pip install 'mqregistry[yaml]', or write the topics as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from error


def _topics(content: Any) -> Iterable[TopicConfig]:
    if isinstance(content, Mapping):
        for name, entry in content.items():
            yield _entry(str(name), entry)
    elif isinstance(content, list) and all(isinstance(name, str) for name in content):
        yield from map(parse_topic, content)
    else:
        raise ConfigError(f"neither a table nor a list of topics; {_EXPECTED}")


def _entry(name: str, entry: Any) -> TopicConfig:
    if entry is None:
        return _topic(name, [])
    if isinstance(entry, list):
        return _topic(name, entry)
    if not isinstance(entry, Mapping):
        raise ConfigError(f"topic {name}: {entry!r}; {_EXPECTED}")
    fields = zip(_FIELDS, _DEFAULTS, strict=True)
    return _topic(name, [next((entry[key] for key in keys if key in entry), default) for keys, default in fields])


def _topic(name: str, values: list[Any]) -> TopicConfig:
    if not name or len(values) > len(_DEFAULTS) or any(type(value) is not int or value < 0 for value in values):
        raise ConfigError(f"topic {name or repr(name)}: {values}; {_EXPECTED}")
    return TopicConfig(name, *values, *_DEFAULTS[len(values) :])
