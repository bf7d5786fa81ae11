"""``completion``: the script that makes a shell complete our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: add to ~/.bashrc      eval "$(mqregistry completion bash)"
    zsh:  add to ~/.zshrc       eval "$(mqregistry completion zsh)"
    fish: mqregistry completion fish > ~/.config/fish/completions/mqregistry.fish
    """  # noqa: D301 (\\b is for click)
    from . import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "mqregistry", "_MQREGISTRY_COMPLETE").source())
