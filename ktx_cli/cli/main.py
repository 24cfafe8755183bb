"""The console script `ktx`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final

from ktx_cli.cli.streams import guard_standard_streams

if TYPE_CHECKING:
    import typer


_COLLECT_EVERY: Final = (100_000, 20, 50)
"""Garbage collection thresholds: nearly everything a command creates lives as long as the command, and with

Python's own thresholds it would take a sixth of the time of imports.
"""


def main() -> None:
    """Run the command line of this process and exit with the contract's code."""
    gc.set_threshold(*_COLLECT_EVERY)
    atexit.register(_leave_cycles)
    guard_standard_streams()
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP; `nohup` ignores it, and that stays so
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)

    try:
        command_line(sys.argv[1:])(prog_name="ktx")
    except KeyboardInterrupt:  # between the handlers of two commands
        sys.exit(130)


def _leave_cycles() -> None:
    """Skip garbage collection at exit too, because the process ends anyway.

    DuckDB would report objects that still exist as a leak on stderr.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM and the closing of the terminal like Ctrl-C, so that a run ends cleanly."""
    raise KeyboardInterrupt


def command_line(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> typer.Typer:
    """Return the app for a command line: with only the command it names, or with all commands.

    All are needed to complete words, and to suggest commands.
    """
    from ktx_cli.cli.app import COMMANDS, of_one, whole_app

    first = _first_word(argv)
    return whole_app() if "_KTX_COMPLETE" in environ or first not in COMMANDS else of_one(first)


def _first_word(argv: Sequence[str]) -> str:
    """Return the first word that is neither a common option nor its value, or an empty string if unknown."""
    from ktx_cli.cli.settings import FLAGS, VALUED

    words = iter(argv)
    for word in words:
        if word in VALUED:
            next(words, "")
        elif word not in FLAGS and word.partition("=")[0] not in VALUED:
            return word
    return ""
