"""mqadmin's commands with Java NameServers and with ours, over the same brokers: nobody can tell which is which.

MQREGISTRY_INTEROP_VERSIONS names the releases of brokers, tools and Java NameServers: a list with commas, or "all".
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from .conftest import ended_with_test, release_or_skip
from .mqadmin import clients, clusters, name_server, topics
from .mqadmin.commands import COMMANDS
from .mqadmin.run import Report, run
from .mqadmin.site import Site, open_site
from .mqadmin.story import ALL, Story

# The first test may have to fetch a release.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

USUAL = "5.3.3"
STORIES = (*name_server.STORIES, *topics.STORIES, *clusters.STORIES, *clients.STORIES)


def versions() -> tuple[str, ...]:
    chosen = os.environ.get("MQREGISTRY_INTEROP_VERSIONS", USUAL)
    return ALL if chosen == "all" else tuple(chosen.split(","))


@dataclass
class Run:
    site: Site
    asked: dict[str, set[int]] = field(default_factory=dict)
    stories: set[str] = field(default_factory=set)


@pytest.fixture(scope="module", params=versions())
def mqadmin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    release = release_or_skip(request.param)
    folder = tmp_path_factory.mktemp(f"mqadmin-{release.version}-")
    with contextmanager(ended_with_test)(folder) as processes, open_site(processes, release) as site:
        yield Run(site)


def test_each_command_of_the_release_is_in_the_table(mqadmin: Run) -> None:
    version = mqadmin.site.release.version
    known = {name for name, command in COMMANDS.items() if version in command.releases}
    listed = set(mqadmin.site.admin.commands())
    assert listed - known == set(), "decide what these have to do with a name server, and put them into `commands`"
    assert known - listed == set(), f"mqadmin {version} does not have these"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_output_is_the_same_with_ours(mqadmin: Run, story: Story) -> None:
    report = Report()
    run(story, mqadmin.site, report)
    mqadmin.stories.add(story.name)
    for name, codes in report.asked.items():
        mqadmin.asked.setdefault(name, set()).update(codes)
    assert not report.differences, "\n\n".join(report.differences)


def test_commands_ask_what_the_table_says(mqadmin: Run) -> None:
    """All that should ask a name server did: or the same output twice would prove nothing."""
    if len(mqadmin.stories) < len(STORIES):
        pytest.skip("not all stories were run")
    version = mqadmin.site.release.version
    said = {
        name: command.asks_in(version)
        for name, command in COMMANDS.items()
        if version in command.releases and not command.skipped
    }
    assert mqadmin.asked == said
