"""`ktx completion`: the script that teaches a shell to complete ktx."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.help import HelpCommand


class Shell(StrEnum):
    """The shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @app.command("completion", cls=HelpCommand)
    def completion(shell: Annotated[Shell, typer.Argument(help="The shell to print the script for.")]) -> None:
        """Print a completion script: `source <(ktx completion bash)`. Plain text in every mode."""
        from typer._completion_shared import get_completion_script

        script = get_completion_script(prog_name="ktx", complete_var="_KTX_COMPLETE", shell=shell.value)
        streams.write_out(script + "\n")
