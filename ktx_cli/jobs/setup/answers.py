"""The answers setup works on, wherever they come from: flags, a file of answers, or the questions of the wizard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.jobs.agents.targets import Scope, Target


class Step(StrEnum):
    """The steps of setup, in their order."""

    PROJECT = "project"
    LLM = "llm"
    EMBEDDINGS = "embeddings"
    DATABASES = "databases"
    SOURCES = "sources"
    BUILD = "build"
    AGENTS = "agents"


class Build(StrEnum):
    """How much the first build reads: nothing, the structure of the databases, or all there is."""

    NONE = "none"
    STRUCTURE = "structure"
    FULL = "full"


class Keeping(StrEnum):
    """Where a secret goes that was given in clear: a file in `.ktx/secrets`, or the keyring of the system."""

    FILE = "file"
    KEYRING = "keyring"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The backend and its models; None leaves a setting as it is.

    `models`: by role. `provider`: `api_key`, `base_url`, `location`, `project`, `auth`. `descriptions`: who describes
    tables and columns, `scan.enrichment.mode`.
    """

    backend: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    provider: Mapping[str, str] = field(default_factory=dict)
    descriptions: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The embeddings; None leaves a setting as it is."""

    backend: str | None = None
    model: str | None = None
    dimensions: int | None = None
    api_key: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionAnswer:
    """A database or a context source: its fields by `ktx.yaml` key, `driver` among them. `id` None: one is chosen."""

    fields: Mapping[str, Any]
    id: str | None = None

    @property
    def driver(self) -> str:
        """The driver."""
        return str(self.fields["driver"])


@dataclass(frozen=True, slots=True)
class AgentsAnswer:
    """The agent clients that get the project; `scope` None: each client's first."""

    targets: tuple[Target, ...]
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """What to set up. What is None or empty stays as it is."""

    llm: ModelAnswer | None = None
    embeddings: EmbeddingAnswer | None = None
    databases: tuple[ConnectionAnswer, ...] = ()
    sources: tuple[ConnectionAnswer, ...] = ()
    build: Build | None = None
    agents: AgentsAnswer | None = None
    keeping: Keeping = Keeping.FILE

    @property
    def connections(self) -> tuple[ConnectionAnswer, ...]:
        """The databases, then the sources."""
        return self.databases + self.sources

    def steps(self) -> Iterator[Step]:
        """Yield the steps that have an answer."""
        given = {
            Step.LLM: self.llm,
            Step.EMBEDDINGS: self.embeddings,
            Step.DATABASES: self.databases,
            Step.SOURCES: self.sources,
            Step.BUILD: self.build,
            Step.AGENTS: self.agents,
        }
        yield from (step for step, answer in given.items() if answer)

    def only(self, steps: frozenset[Step]) -> Answers:
        """Return the answers of some steps."""
        return Answers(
            self.llm if Step.LLM in steps else None,
            self.embeddings if Step.EMBEDDINGS in steps else None,
            self.databases if Step.DATABASES in steps else (),
            self.sources if Step.SOURCES in steps else (),
            self.build if Step.BUILD in steps else None,
            self.agents if Step.AGENTS in steps else None,
            self.keeping,
        )


MODEL_KEYS: Final = ("api_key", "base_url", "location", "project", "auth")
"""The fields of a provider that setup sets."""
