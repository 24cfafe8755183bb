"""What is to be remembered: the text, where it belongs, how it is read; refused before anything of it is stored."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ktx_cli.context.scan.profiling.privacy_values import sign_of
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.context.wiki.keys import user_scope
from ktx_cli.context.wiki.secret_texts import secrets
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import listing, one_line
from ktx_cli.project.config import KtxConfig, connection_of
from ktx_cli.project.secrets import MASK

_LONGEST_LABEL: Final = 60
_MOST_TOLD: Final = 5


class SourceType(StrEnum):
    """What kind of text it is, and so how much of it is taken."""

    RESEARCH = "research"
    BACKFILL = "backfill"
    EXTERNAL = "external_ingest"


@dataclass(frozen=True, slots=True)
class Bounds:
    """`steps` of the agent's loop, `characters` of the text, and what its task says of how much to take."""

    steps: int
    characters: int
    stance: str


BOUNDS: Final[Mapping[SourceType, Bounds]] = {
    SourceType.RESEARCH: Bounds(
        20,
        16_000,
        "The text is what came of a piece of research. Be sparing: take only lessons that hold for later questions, and"
        " only what the text says was confirmed.",
    ),
    SourceType.BACKFILL: Bounds(
        25,
        16_000,
        "The text is an old conversation. Take least of all: only definitions and corrections that somebody stated"
        " plainly and nobody took back; in doubt, nothing.",
    ),
    SourceType.EXTERNAL: Bounds(
        30,
        48_000,
        "The text is the knowledge itself: a note or a document somebody gave to be kept. Take every fact, rule and"
        " definition in it that lasts.",
    ),
}


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """A text to remember. `name`: of the file it stands in, empty for a text that was given as it is.

    `connection`: the one database whose semantic layer it is about, None: all. `user`: whose pages it becomes, None:
    everybody's. `propose`: the change waits on a branch. `replace`: what is accepted may be changed. `proposer`: who
    asked, in a word.
    """

    text: str
    name: str = ""
    connection: str | None = None
    user: str | None = None
    source_type: SourceType = SourceType.EXTERNAL
    propose: bool = False
    replace: bool = False
    proposer: str = "cli"

    @property
    def label(self) -> str:
        """What people know it by, in a line without anything personal."""
        return f"{masked_words(self.name)}" if self.name else f'"{masked_words(self.text)}"'

    @property
    def sha256(self) -> str:
        """What tells it from every other text: the same words for the same scope are the same."""
        parts = [normalised(self.text), self.connection or "", self.user or ""]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def check(self, config: KtxConfig) -> None:
        """Raise `UsageError` for what cannot be captured: no text, too much of it, a secret in it, a wrong scope."""
        bounds = BOUNDS[self.source_type]
        if not self.text.strip():
            raise UsageError(
                "there is no text to remember", hint='ktx memory capture --text "Revenue is net of refunds."'
            )
        if len(self.text) > bounds.characters:
            raise UsageError(
                f"the text has {len(self.text):,} characters, {bounds.characters:,} may be captured as "
                f"`{self.source_type.value}`",
                hint="cut it into parts, or read documents: ktx connection add docs --driver documents --path DIR",
            )
        self._check_secrets()
        if self.user is not None:
            user_scope(self.user)
        if self.connection is not None:
            connection_of(config, self.connection)
            if self.connection not in config.databases():
                raise UsageError(
                    f"connection `{self.connection}` is a context source and has no semantic layer",
                    hint=f"one of {listing(config.databases()) or 'no database is configured'}",
                )

    def _check_secrets(self) -> None:
        found = [f"line {self.text.count(chr(10), 0, spot.at) + 1}: {spot.message}" for spot in secrets(self.text)]
        if found:
            raise UsageError(
                f"the text holds what looks like a secret, so nothing of it was stored: {listing(found, _MOST_TOLD)}",
                hint="take it out, and change the secret if it is one",
            )


def normalised(text: str) -> str:
    """Return a text without what no reader sees a difference in: line ends, blanks at ends, composed characters."""
    lines = unicodedata.normalize("NFC", text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line.rstrip() for line in lines.split("\n")).strip("\n")


def masked_words(text: str) -> str:
    """Return the beginning of a text in one line; words that look personal or like a key are masked."""
    start = one_line(visible(text[: 10 * _LONGEST_LABEL]), 4 * _LONGEST_LABEL)
    return one_line(" ".join(MASK if sign_of(word) is not None else word for word in start.split()), _LONGEST_LABEL)
