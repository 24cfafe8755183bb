"""The Gemini API of Google."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.llm.registry import BackendKind, ProviderQuestion

_VERSION: Final = re.compile(r"(?:^|/)gemini-(\d+)(?:\.(\d+))?(?:-(?!.*(?:image|tts|audio|live|embedding))|$)")
_LATEST: Final = re.compile(r"(?:^|/)gemini-(?:pro|flash|flash-lite)-latest$")

FIRST_WITH_LEVELS: Final = (3, 0)
"""The first version whose thinking has levels; the one before has a budget of tokens."""

FIRST_WITH_THINKING: Final = (2, 5)


def version_of(model: str) -> tuple[int, int]:
    """Return the version of a Gemini model that writes text, (0, 0) for any other; an alias counts as the newest."""
    name = model.lower()
    if _LATEST.search(name):
        return FIRST_WITH_LEVELS
    found = _VERSION.search(name)
    return (0, 0) if found is None else (int(found[1]), int(found[2] or 0))


def is_effort_settable(model: str) -> bool:
    """Return whether the effort of a model can be set: for Gemini models from 2.5 on."""
    return version_of(model) >= FIRST_WITH_THINKING


GEMINI: Final = BackendKind(
    name="gemini",
    who="the Gemini API",
    label="The Gemini API, with an API key",
    maker="ktx_cli.llm.backends.gemini_api.backend:make",
    block="gemini",
    keys={"api_key": "api_key", "base_url": "base_url"},
    secrets=("api_key",),
    questions=(ProviderQuestion("api_key", "Key", secret=True),),
    models={
        "default": "gemini-3.8-flash",
        "triage": "gemini-3.5-flash-lite",
        "candidateExtraction": "gemini-3.5-flash-lite",
    },
    is_effort_settable=is_effort_settable,
    caches_by_itself=True,
    charges_list_prices=True,
    source="gemini_api",
    executor_type="generate_content",
    telemetry="gcp.gemini",
    package="gemini",
    module="google.genai",
)
