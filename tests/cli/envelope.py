"""What every answer in JSON holds, whichever command gave it."""

from __future__ import annotations

import json
import re
from typing import Any


def check_envelope(text: str, command: str, code: int) -> dict[str, Any]:
    """Return the one document on stdout of a command that ended with `code`."""
    assert text.endswith("\n")
    assert text.count("\n") == 1, f"more than one line on stdout: {text!r}"
    document: dict[str, Any] = json.loads(text)
    assert list(document) == ["schema", "ok", "data", "warnings", "error"]
    assert document["schema"] == f"ktx/{command.replace(' ', '-')}/v1"
    assert document["ok"] is (code == 0)
    for warning in document["warnings"]:
        assert {"code", "message", "hint"} <= set(warning)
    if code == 0:
        assert document["error"] is None
    else:
        assert list(document["error"]) == ["code", "message", "hint", "details"]
        assert re.fullmatch(r"[a-z_]+", document["error"]["code"])
        assert not document["error"]["message"].endswith(".")
        assert document["error"]["hint"], "an error names what to do"
    return document
