"""What a check is and what it answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.context.scan.catalog import Manifest, load_manifest
from ktx_cli.core.errors import KtxError
from ktx_cli.project.config import LoadedConfig
from ktx_cli.project.layout import Layout

if TYPE_CHECKING:
    from ktx_cli.project.repository import Repository


class Level(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Concern(StrEnum):
    """What a failed check is about; it decides the exit code of `ktx doctor`."""

    SETUP = "setup"
    AUTH = "auth"
    OTHER = "other"


Repair = Callable[[], str]
"""Mends what a finding is about and says what it did; raises `KtxError`. It touches nothing of the user's."""

TIME_LIMIT = 30.0
"""Seconds a check may take before it counts as failed, unless it says otherwise."""


AUTH_CODES: Final = frozenset({"auth", "billing", "no_backend", "isolation"})
"""Errors that say that a model backend does not let us in."""
SETUP_CODES: Final = frozenset({"config", "not_ready", "not_supported", "secret"})
"""Errors that say that something is not set up, or not as it has to be."""


def concern_of(error: KtxError) -> Concern:
    """Return what an error is about: it decides the exit code of `ktx doctor`."""
    if error.code in AUTH_CODES:
        return Concern.AUTH
    return Concern.SETUP if error.code in SETUP_CODES else Concern.OTHER


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of a check: what was found, and the exact command or edit that helps.

    `repair`: what `ktx doctor --fix` does about it, None where a person has to decide. `file`: where it is, from the
    project's folder, and the `line` there.
    """

    check: str
    level: Level
    message: str
    hint: str | None = None
    concern: Concern = Concern.OTHER
    repair: Repair | None = field(default=None, compare=False, repr=False)
    file: str | None = None
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in the envelope."""
        return {
            "check": self.check,
            "level": self.level.value,
            "message": self.message,
            "hint": self.hint,
            "concern": self.concern.value,
        }


@dataclass(frozen=True)
class CheckContext:
    """What checks may look at; not `live`: nothing is asked that may take long or wait for a person."""

    layout: Layout
    loaded: LoadedConfig
    environ: Mapping[str, str]
    live: bool = False

    @functools.cached_property
    def manifests(self) -> dict[str, Manifest]:
        """The manifest of every connection, read once however many checks ask."""
        return {name: load_manifest(self.layout, name) for name in self.loaded.config.connections}

    @functools.cached_property
    def repository(self) -> Repository | None:
        """The repository around the project, asked for once however many checks need it; `KtxError` as `discover`."""
        from ktx_cli.project.repository import Repository

        return Repository.discover(self.project_dir)

    @property
    def project_dir(self) -> Path:
        """The project's folder."""
        return self.layout.root


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; `run` answers with one finding or several, within `seconds`.

    `live`: it opens databases or starts programs. `settings`: it needs a `ktx.yaml` that can be read.
    """

    id: str
    title: str
    run: Callable[[CheckContext], list[Finding]]
    live: bool = False
    settings: bool = True
    seconds: float = TIME_LIMIT
