"""Connection ids to propose: safe ones that nothing has yet."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from ktx_cli.core.text import is_device_name
from ktx_cli.project.config import RESERVED_IDS

_LONGEST: Final = 60


def free_id(wanted: str, taken: Collection[str]) -> str:
    """Return an id that may name a connection and is not taken, as near to `wanted` as that goes."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower())[:_LONGEST].strip("-_") or "warehouse"
    if stem in RESERVED_IDS or is_device_name(stem):
        stem = f"{stem}-db"
    used = {each.lower() for each in taken}
    number, name = 2, stem
    while name in used:
        name, number = f"{stem}-{number}", number + 1
    return name
