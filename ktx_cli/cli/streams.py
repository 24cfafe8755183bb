"""Writes to stdout and stderr, which no other module does, and handles closed readers."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final

from ktx_cli.cli.settings import current_folder
from ktx_cli.core import Command, StorageError, UsageError


class ReaderGoneError(Exception):
    """The reader of stdout has closed it; the command ends quietly with exit code 141."""


class OutputError(StorageError):
    """Stdout does not accept the output (disk full); reported on stderr in every mode."""


def guard_standard_streams() -> None:
    """Open closed descriptors 0-2 and make odd characters harmless.

    Otherwise the next opened file would become descriptor 1, and output would be written into it. A closed stdout
    becomes a pipe without a reader, so that every write behaves as if the reader went away.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            _fill(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fill(descriptor: int) -> None:
    """Open this descriptor, which is the lowest free one, for ktx and its child processes."""
    if descriptor != 1:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        return
    _, writer = os.pipe()
    os.dup2(writer, descriptor)  # the reading end was descriptor 1, so this closes it
    os.close(writer)


def write_out(text: str) -> None:
    """Write data to stdout and flush it.

    Raises `ReaderGoneError` if the reader closed the pipe, `OutputError` if the output cannot be stored.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        silence_stdout()
        raise ReaderGoneError from error
    except OSError as error:
        raise output_error(error) from error


def output_error(error: OSError) -> OutputError:
    """Return the error for a failed write to stdout, after silencing stdout."""
    silence_stdout()
    reason = error.strerror or str(error)
    return OutputError(
        f"cannot write the output: {reason}", hint="the command itself has finished; redirect the output elsewhere"
    )


def write_err(text: str) -> None:
    """Write to stderr; errors are ignored, because an unread stderr must not stop the work."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def silence_stdout() -> None:
    """Point stdout at the null device, so that the interpreter's last flush cannot fail."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def stdout_speaks_utf8() -> bool:
    """Return whether stdout accepts any character."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


LARGEST: Final = 1_000_000
"""Maximum size of a text, in bytes."""

STDIN: Final = "-"


def text_of(
    file: str, *, too_large: str, name: str | None = None, unread: str | None = None, what: str | None = None
) -> str:
    """Return the text of a file, or of stdin for `-`; raises `UsageError` if it is unreadable or too large.

    `name`: the file's name in errors; `unread`: the hint if it cannot be read; `what`: what the text is.
    """
    name = name or file
    try:
        if file == STDIN:
            read = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with (current_folder() / file).open("rb") as stream:
                read = stream.read(LARGEST + 1)
    except OSError as error:
        hint = unread or Command("-l", file, program="ls")
        raise UsageError(f"cannot read {name}: {error.strerror or error}", hint=hint) from error
    if len(read) > LARGEST:
        raise UsageError(f"{name} is over {LARGEST:,} bytes", hint=too_large)
    try:
        return read.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8", hint=f"save {what or name} as UTF-8") from error
