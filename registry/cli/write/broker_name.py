"""The argument that the commands on a broker name share."""

from __future__ import annotations

import click

from .. import complete_names

name_argument = click.argument("name", shell_complete=complete_names.broker_names)
