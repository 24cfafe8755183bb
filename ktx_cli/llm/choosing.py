"""What a person who sets a backend up by hand is asked, and which models are proposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ProviderQuestion:
    """One field of a provider. `optional`: an empty answer is one. `secret`: typed unseen."""

    field: str
    question: str
    default: str = ""
    optional: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Choosable:
    """A backend as it is offered. `by_hand`: it can be set up though the machine shows nothing of it.

    `models`: proposed by role, a cheap one for the roles that sort and pick; {}: they have to be named.
    """

    label: str
    questions: tuple[ProviderQuestion, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    by_hand: bool = True


_KEY: Final = ProviderQuestion("api_key", "Key", secret=True)
_ALIASES: Final = {"default": "sonnet", "triage": "haiku", "candidateExtraction": "haiku"}
_IDS: Final = {"default": "claude-sonnet-5-5", "triage": "claude-haiku-5-5", "candidateExtraction": "claude-haiku-5-5"}

CHOOSABLE: Final[Mapping[str, Choosable]] = {
    "claude-code": Choosable("Your own local Claude Code session", models=_ALIASES, by_hand=False),
    "claude-cli": Choosable("The same session through `claude --print`", models=_ALIASES, by_hand=False),
    "anthropic": Choosable("The Anthropic API, with a key", (_KEY,), _IDS),
    "vertex": Choosable(
        "Claude on Google Vertex AI",
        (
            ProviderQuestion("location", "Region", "europe-west1"),
            ProviderQuestion("project", "Google Cloud project (empty: the credentials' own)", optional=True),
        ),
        {"default": "claude-sonnet-5-5"},
    ),
    "gateway": Choosable(
        "A gateway that speaks the Anthropic API",
        (ProviderQuestion("base_url", "Address of the gateway", "http://127.0.0.1:4000"), _KEY),
    ),
}
"""The backends by name, in the order in which they are offered."""
