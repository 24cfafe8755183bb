"""Google's application default credentials and what the environment says of Vertex AI, read from files alone.

`google.auth.default()` would start `gcloud` and ask the metadata server of a cloud machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.connectors.registry import is_installed
from ktx_cli.core.errors import KtxError, NotReadyError
from ktx_cli.llm.backends.anthropic_api.client import missing_google_auth

LOGIN: Final = "gcloud auth application-default login"
FILE: Final = "application_default_credentials.json"
MAX_BYTES: Final = 1_000_000

_LOCATIONS: Final = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
_PROJECTS: Final = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_MEANT: Final = ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "CLAUDE_CODE_USE_VERTEX")
"""Variables that mean Claude on Vertex AI; the others may be there for anything of Google's."""


@dataclass(frozen=True, slots=True)
class VertexFound:
    """What is known. `problem`: why it cannot be used now."""

    project: str = ""
    location: str = ""
    problem: KtxError | None = None


def vertex_found(environ: Mapping[str, str]) -> VertexFound | None:
    """Return what there is for Vertex AI; None without credentials, unless a variable means it."""
    path = _credentials_file(environ)
    known = _read(path) if path is not None else None
    if known is None and not any(environ.get(name) for name in _MEANT) and not _names_file(environ):
        return None
    location = next(filter(None, map(environ.get, _LOCATIONS)), "")
    project = next(filter(None, map(environ.get, _PROJECTS)), "") or _project(known or {})
    return VertexFound(project, location, _problem(path, known))


def _problem(path: Path | None, known: Mapping[str, Any] | None) -> KtxError | None:
    if not is_installed("google.auth"):
        return missing_google_auth()
    if path is None:
        return NotReadyError("there are no Google credentials on this machine", hint=LOGIN)
    if known is None:
        return NotReadyError(f"{path} holds no Google credentials", hint=LOGIN, details={"path": str(path)})
    return None


def _names_file(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("GOOGLE_APPLICATION_CREDENTIALS"))


def _credentials_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file Google's libraries take: the one that is named, else that of `gcloud` where it is there."""
    if _names_file(environ):
        return Path(environ["GOOGLE_APPLICATION_CREDENTIALS"])
    named, base = environ.get("CLOUDSDK_CONFIG"), environ.get("APPDATA" if os.name == "nt" else "HOME")
    if not (named or base):
        return None
    folder = Path(named) if named else Path(base or "") / ("gcloud" if os.name == "nt" else ".config/gcloud")
    return folder / FILE if (folder / FILE).is_file() else None


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file of credentials says; None for any other."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            value = json.loads(stream.read(MAX_BYTES))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _project(known: Mapping[str, Any]) -> str:
    names = (known.get("project_id"), known.get("quota_project_id"))
    return next((name for name in names if isinstance(name, str)), "")
