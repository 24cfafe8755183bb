"""The console script `ktx`."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from ktx_cli.cli.streams import guard_standard_streams


def main() -> None:
    """Run the command line of this process and exit with the contract's code."""
    guard_standard_streams()
    signal.signal(signal.SIGTERM, _interrupt)
    from ktx_cli.cli.app import app

    try:
        app(prog_name="ktx")
    except KeyboardInterrupt:  # between two commands' own handlers
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM as Ctrl-C, so that a run ends in order."""
    raise KeyboardInterrupt
