"""The answers for setup, wherever they come from: flags, an answer file, or the wizard's questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.jobs.clients.targets import Scope, Target
from ktx_cli.project import SOURCES, WAREHOUSES, Kind, Question


class SetupStep(StrEnum):
    """The steps of setup, in order."""

    PROJECT = "project"
    LLM = "llm"
    EMBEDDINGS = "embeddings"
    DATABASES = "databases"
    SOURCES = "sources"
    BUILD = "build"
    AGENTS = "agents"


class Build(StrEnum):
    """How much the first build reads: nothing, the structure of the databases, or everything."""

    NONE = "none"
    STRUCTURE = "structure"
    FULL = "full"


class Keeping(StrEnum):
    """Where to store a plaintext secret: a file in `.ktx/secrets`, or the system keyring."""

    FILE = "file"
    KEYRING = "keyring"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The backend and its models; None leaves a setting unchanged.

    `models`: by role. `provider`: `api_key`, `base_url`, `location`, `project`, `auth`. `descriptions`: how tables and
    columns are described, `scan.enrichment.mode`.
    """

    backend: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    provider: Mapping[str, str] = field(default_factory=dict)
    descriptions: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The embeddings; None leaves a setting unchanged, and an empty `api_key` removes the configured one."""

    backend: str | None = None
    model: str | None = None
    dimensions: int | None = None
    api_key: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionAnswer:
    """A database or a context source: its fields by `ktx.yaml` key, including `driver`. `id` None: one is chosen."""

    fields: Mapping[str, Any]
    id: str | None = None

    @property
    def driver(self) -> str:
        """The driver."""
        return str(self.fields["driver"])


@dataclass(frozen=True, slots=True)
class AgentsAnswer:
    """The agent clients to install the project into; `scope` None: each client's first."""

    targets: tuple[Target, ...]
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to setup's questions. None or empty: that setting is unchanged."""

    llm: ModelAnswer | None = None
    embeddings: EmbeddingAnswer | None = None
    databases: tuple[ConnectionAnswer, ...] = ()
    sources: tuple[ConnectionAnswer, ...] = ()
    build: Build | None = None
    agents: AgentsAnswer | None = None
    keeping: Keeping = Keeping.FILE

    @property
    def connections(self) -> tuple[ConnectionAnswer, ...]:
        """The databases, followed by the sources."""
        return self.databases + self.sources

    def steps(self) -> Iterator[SetupStep]:
        """Yield the steps that have an answer."""
        yield from (step for step in SetupStep if getattr(self, step, None))

    def only(self, steps: frozenset[SetupStep]) -> Answers:
        """Return the answers for some steps."""
        left = set(SetupStep) - steps
        others: dict[str, Any] = {each.name: each.default for each in fields(self) if each.name in left}
        return replace(self, **others)


MODEL_KEYS: Final = ("api_key", "base_url", "location", "project", "profile", "auth", "api")
"""The provider fields that setup sets."""


@dataclass(frozen=True, slots=True)
class Word:
    """A fact about a connection. `keys`: its dotted keys in `ktx.yaml`; the first that the driver has is used.

    `question`: the question for people. `several`: it is a list. `secret`: it is typed unseen and kept out of
    `ktx.yaml`.
    """

    name: str
    keys: tuple[str, ...]
    question: str
    several: bool = False
    secret: bool = False


DATABASE_WORDS: Final = (
    Word("url", ("url",), "Connection URL with user and password", secret=True),
    Word("path", ("path",), "File or folder, relative to the project"),
    Word("host", ("host",), "Host"),
    Word("port", ("port",), "Port"),
    Word("name", ("database",), "Name of the database"),
    Word("user", ("username", "user"), "User"),
    Word("password", ("password",), "Password", secret=True),
    Word("account", ("account",), "Account identifier"),
    Word("warehouse", ("warehouse", "workgroup"), "Virtual warehouse or workgroup that runs the queries"),
    Word("role", ("role",), "Role"),
    Word("auth-method", ("authMethod",), "Authentication method: password or rsa"),
    Word("private-key", ("privateKey",), "Private key (PEM)", secret=True),
    Word("passphrase", ("passphrase",), "Passphrase of the private key", secret=True),
    Word("http-path", ("http_path",), "HTTP path of the SQL warehouse"),
    Word("token", ("token",), "Access token", secret=True),
    Word("catalog", ("catalog",), "Catalog"),
    Word("uri", ("uri",), "Address of the catalog"),
    Word("credential", ("credential",), "Client credential of the catalog", secret=True),
    Word("project", ("project_id",), "Google Cloud project"),
    Word("location", ("location", "region"), "Location of the datasets, or AWS region"),
    Word("credentials", ("credentials_json",), "Service account key (JSON)", secret=True),
    Word("sslmode", ("sslmode",), "libpq TLS mode, for example require or verify-full"),
    Word("ssl", ("ssl", "encrypt"), "Use TLS: true or false"),
    Word(
        "schema",
        ("schemas", "schema_names", "dataset_ids", "databases"),
        "Only scan this schema (dataset, database)",
        several=True,
    ),
)
"""The database fields, in the order of the questions. Table patterns have separate flags."""

SOURCE_WORDS: Final = (
    Word("dir", ("source_dir", "path"), "Folder, relative to the project"),
    Word("repo", ("repo_url", "repoUrl", "metricflow.repoUrl"), "Git URL or path of the repository"),
    Word("branch", ("branch", "metricflow.branch"), "Branch (empty for the default branch)"),
    Word("folder", ("path", "metricflow.path"), "Folder in the repository (empty for its root)"),
    Word("url", ("api_url", "base_url", "server_url"), "Base URL"),
    Word("user", ("email", "client_id", "token_name"), "Account, client ID or name of a token"),
    Word(
        "token",
        ("api_key", "client_secret", "auth_token", "api_token", "auth_token_ref", "metricflow.auth_token_ref"),
        "API key or access token",
        secret=True,
    ),
    Word("token-secret", ("token_secret",), "Secret of the personal access token", secret=True),
    Word("site", ("site",), "Name of the site in its address"),
    Word("credentials", ("credentials_json",), "Service account key (JSON)", secret=True),
    Word("crawl-mode", ("crawl_mode",), "Pages to read: selected_roots or all_accessible"),
    Word("root", ("root_page_ids", "folder_ids"), "ID of a page or folder to start from", several=True),
    Word("space", ("space_keys", "drive_ids", "projects"), "Space, project or shared drive to read", several=True),
    Word("target", ("target",), "Target of the dbt profile"),
)
"""The context source fields, in the order of the questions."""


def questions_of(driver: str) -> tuple[Question, ...]:
    """Return the questions about a connection with this driver."""
    kind: Kind | None = WAREHOUSES.find(driver) or SOURCES.find(driver)
    return () if kind is None else kind.questions


def words_of(driver: str, shared: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words about a connection with this driver: those for all drivers, then the driver's own."""
    known = {word.name for word in shared}
    own = (each for each in questions_of(driver) if each.word not in known)
    return (*shared, *(Word(each.word, (each.key,), each.text, secret=each.secret) for each in own))
