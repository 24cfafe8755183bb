"""The request for setup, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Command, Emit, Hint, KtxError, ResultWarning, ignore_events, plain
from ktx_cli.jobs.connections import SourceCheck
from ktx_cli.jobs.setup.answers import Answers
from ktx_cli.jobs.setup.detect.databases import file_databases
from ktx_cli.llm import ProbeRun
from ktx_cli.project import CONFIG_NAME, CURRENT_BRANCH, Destination, KtxConfig, Layout
from ktx_cli.semantic import Model, Visibility, layer_ids, load_layer
from ktx_cli.warehouses import ConnectionTest

if TYPE_CHECKING:
    from ktx_cli.engine import IngestReport
    from ktx_cli.jobs.clients.install import InstallReport as AgentsReport
    from ktx_cli.jobs.llm import EmbeddingReport


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """A project to set up. `test` false: save without connecting, and without calling a model.

    `destination`: where the changes go. `amends`: the earlier commit of the same setup, which is extended.
    """

    project_dir: Path
    environ: Mapping[str, str]
    answers: Answers = field(default_factory=Answers)
    test: bool = True
    emit: Emit = ignore_events
    destination: Destination = CURRENT_BRANCH
    amends: str | None = None


@dataclass(slots=True)
class SetupReport:
    """The result of setup; `commit` None: `ktx.yaml` was not committed. `branch`: the one that was asked for.

    `tests`: the test of each configured connection, None if it was not tested. `error`: why the first build, or the
    installation into agent clients, did not finish; everything before it is saved.
    """

    project_dir: Path
    created_project: bool
    created_repository: bool = False
    tests: dict[str, ConnectionTest | SourceCheck | None] = field(default_factory=dict)
    probes: ProbeRun = field(default_factory=ProbeRun)
    embeddings: EmbeddingReport | None = None
    changed: bool = False
    commit: str | None = None
    branch: str | None = None
    build: IngestReport | None = None
    agents: AgentsReport | None = None
    error: KtxError | None = None
    warnings: list[ResultWarning] = field(default_factory=list)
    has_connections: bool = False
    question: str | None = None
    config: bytes | None = None
    """The text of `ktx.yaml` as it was saved."""
    message: str = ""
    """The commit message, without the run id."""

    @property
    def uncommitted(self) -> list[str]:
        """The files written outside the commit: those of agent clients, in the project and in the home folder."""
        return [] if self.agents is None else [each.path for each in self.agents.diffs if each.kind != "remove"]

    @property
    def next_steps(self) -> list[str]:
        """The commands to run next: the next step, and after a build a question."""
        if self.branch is not None and self.commit is not None:
            return [Command("-C", self.project_dir, "switch", self.branch, program="git")]
        if not self.has_connections:
            return [first_database(self.project_dir) or Command("setup", "--help")]
        return [Command("ingest") if self.build is None else self.question or Command("status")]

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the JSON output."""
        first = next(iter(self.tests), None)
        found = self.tests.get(first or "")
        facts = {
            "connection": first,
            "server_version": getattr(found, "server_version", None),
            "tables": getattr(found, "tables", None),
            "connections": [_tested(connection, test) for connection, test in self.tests.items()],
            "probes": self.probes.results,
            "next": self.next_steps[0],
        }
        names = (
            *("project_dir", "created_project", "created_repository", "connection", "server_version", "tables"),
            *("connections", "probes", "embeddings", "changed", "commit", "branch", "uncommitted"),
            *("next", "build", "agents"),
        )
        return {name: plain(facts[name] if name in facts else getattr(self, name)) for name in names}


def _tested(connection: str, test: ConnectionTest | SourceCheck | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": connection, "tested": test is not None}
    if isinstance(test, SourceCheck):
        return {**shown, "origin": test.origin}
    if test is not None:
        shown |= {"server_version": test.server_version, "tables": test.tables, "can_write": test.can_write}
    return shown


def first_database(folder: Path) -> Command | None:
    """Return the `ktx setup` command that connects the nearest database in a folder, or None if there is none.

    Databases of another project below the folder, which may be mounted, are ignored.
    """
    offers = ((each, PurePosixPath(each.fields["path"]).parents) for each in file_databases(folder))
    own = (each for each, above in offers if not any((folder / one / CONFIG_NAME).exists() for one in list(above)[:-1]))
    found = next(own, None)
    if found is None:
        return None
    return Command("setup", "--database", found.driver, "--database-path", found.fields["path"])


def how_to_connect(folder: Path) -> Hint:
    """Return the hint for an error caused by a project without a database."""
    flags = Hint(
        "`{}` asks for a database in a terminal; `{}` lists the flags that name one",
        Command("setup"),
        Command("setup", "--help"),
    )
    return first_database(folder) or flags


def first_step(folder: Path, config: KtxConfig) -> Command:
    """Return a complete command that fills an empty context."""
    return Command("ingest") if config.connections else first_database(folder) or Command("setup", "--help")


def first_question(layout: Layout, config: KtxConfig) -> str | None:
    """Return a complete `ktx sl query`; None if no table with a key, and no measure, is known."""
    layers = [name for name in layer_ids(layout) if name in config.databases()]
    for connection in layers:
        try:
            asked = _measure(load_layer(layout, config, connection))
        except KtxError:  # `ktx sl validate` reports what is wrong with its files
            continue
        if asked is not None:
            where = ["-c", connection] if len(layers) > 1 else []
            return Command("sl", "query", *where, "-m", asked)
    return None


def _measure(model: Model) -> str | None:
    """Return a measure: one that somebody defined, else the count of the table that most others join to."""
    sources = [each for each in model.sources.values() if each.visibility is Visibility.PUBLIC]
    for source in sorted(sources, key=lambda each: each.name):
        for name, measure in sorted(source.measures.items()):
            if measure.visibility is Visibility.PUBLIC:
                return f"{source.name}.{name}"
    keyed = [
        each
        for each in sources
        if len(each.grain) == 1
        and each.grain[0] in each.columns
        and all(name.isidentifier() for name in (each.name, *each.grain))
    ]
    if not keyed:
        return None
    fact = min(keyed, key=lambda each: (-len(each.joins), each.name))
    return f"count({fact.name}.{fact.grain[0]})"
