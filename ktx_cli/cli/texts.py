"""Reads a text a person names on the command line: a file, or what is on stdin."""

from __future__ import annotations

import sys
from typing import Final

from ktx_cli.cli.settings import current_folder
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import shell_words

LARGEST: Final = 1_000_000
"""How many bytes of a text are read."""

STDIN: Final = "-"


def text_of(file: str, *, too_large: str) -> str:
    """Return the text of a file, of stdin for `-`; `UsageError` for one that cannot be read or is too large."""
    try:
        if file == STDIN:
            read = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with (current_folder() / file).open("rb") as stream:
                read = stream.read(LARGEST + 1)
    except OSError as error:
        hint = shell_words("ls", "-l", file)
        raise UsageError(f"cannot read {file}: {error.strerror or error}", hint=hint) from error
    if len(read) > LARGEST:
        raise UsageError(f"{file} is over {LARGEST:,} bytes", hint=too_large)
    try:
        return read.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8", hint=f"save {file} as UTF-8") from error
