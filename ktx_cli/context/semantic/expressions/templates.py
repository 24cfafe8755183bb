"""The templates of definitions: `{{ param.NAME }}` and `{{ user.NAME }}`."""

from __future__ import annotations

import re
from typing import Final

TEMPLATE: Final = re.compile(r"\{\{\s*(\w+)\.(\w+)\s*\}\}")
"""One template: its kind and its name."""


def template_names(text: str) -> list[tuple[str, str]]:
    """Return the (kind, name) of every template in a text, each once."""
    return list(dict.fromkeys(TEMPLATE.findall(text)))


def has_other_braces(text: str) -> bool:
    """Say whether a text opens a template that is none."""
    return "{{" in TEMPLATE.sub("", text)
