"""Settings that several kinds of context sources have."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import WithJsonSchema

from ktx_cli.project import REFERENCE_PATTERN, checked, is_reference, setting

GIT_TOKEN: Final = "Token for a private repository, as a secret reference."
"""The description of the setting with a token for git."""


def _is_web_address(value: str) -> bool:
    return is_reference(value) or re.match(r"https?://[^/\s]+", value) is not None


WebAddress = Annotated[
    str,
    checked(
        _is_web_address,
        "must be a URL that begins with https:// or http://",
        hint="for example https://bi.example.com",
        of_value=True,
    ),
    WithJsonSchema({"type": "string", "pattern": f"^(?:https?://|{REFERENCE_PATTERN})"}),
]


def page_creates() -> Any:
    """Return the setting that limits how many wiki pages a run creates."""
    return setting(25, "Most wiki pages a run may create from here; candidates beyond that wait.", ge=0, le=25)


def page_updates() -> Any:
    """Return the setting that limits how many wiki pages a run changes."""
    return setting(20, "Most wiki pages a run may change from here; candidates beyond that wait.", ge=0, le=100)
