"""What a server says of itself on stderr: a line each, with the time, without secrets, without what clients sent."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.text import one_line
from ktx_cli.project.secrets import mask

_QUIET: Final = {"mcp": logging.ERROR, "uvicorn": logging.ERROR, "asyncio": logging.ERROR}
"""What these warn of is what clients do; refused requests stand in the audit log."""


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{isoformat(now())} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__})"
        return one_line(mask(text), 1000)


@contextmanager
def plain_log() -> Iterator[None]:
    """Write what is logged to stderr for a block."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    root = logging.getLogger()
    before = {name: logging.getLogger(name).level for name in _QUIET}
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
