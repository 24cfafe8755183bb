"""The only place that writes to stdout and stderr, and knows what to do when nobody reads them."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from ktx_cli.core.errors import StorageError


class ReaderGoneError(Exception):
    """Whoever read our stdout has gone away; the command ends quietly with 141."""


_stdout_missing = False


def guard_standard_streams() -> None:
    """Fill closed descriptors 0-2 with the null device and make odd characters harmless.

    Without this the next file we open would become descriptor 1, and output would be written into it.
    """
    global _stdout_missing
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            _stdout_missing = _stdout_missing or descriptor == 1
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_out(text: str) -> None:
    """Write data to stdout and flush it.

    Raises `ReaderGoneError` when the reader went away, `StorageError` when the output cannot be stored.
    """
    if _stdout_missing:
        raise ReaderGoneError
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        silence_stdout()
        raise ReaderGoneError from error
    except OSError as error:
        silence_stdout()
        reason = error.strerror or str(error)
        raise StorageError(
            f"cannot write the output: {reason}", hint="the result is complete; send it somewhere else"
        ) from error


def write_err(text: str) -> None:
    """Write to stderr; a stderr nobody reads must not stop the work, so its errors are ignored."""
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
    """Say whether stdout can take any character."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
