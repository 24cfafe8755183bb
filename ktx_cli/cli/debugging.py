"""`--debug`: tracebacks and the program's own log, on stderr, secrets masked."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ktx_cli.cli import streams
from ktx_cli.project.secrets import mask


class _StandardError(logging.Handler):
    """Writes records to stderr, secrets masked and control characters made harmless."""

    def emit(self, record: logging.LogRecord) -> None:
        streams.write_err(shown(self.format(record)) + "\n")


def shown(text: str) -> str:
    """Return text that may be printed: no secret that ktx resolved stands in it, nothing that steers a terminal."""
    return harmless(mask(text))


def harmless(text: str) -> str:
    """Return text in which no character can steer a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in text)


@contextlib.contextmanager
def shown_log() -> Iterator[None]:
    """Show what ktx logs while a command runs, from the lowest level on."""
    logger, handler = logging.getLogger("ktx_cli"), _StandardError()
    handler.setFormatter(logging.Formatter("debug: %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
