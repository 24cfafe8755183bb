"""Setup of what was answered: tested first, saved only on success, committed where that is safe, then built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.clock import new_run_id
from ktx_cli.core.errors import KtxError, ResultWarning, SecretError, UsageError
from ktx_cli.core.events import Emit, Notice, ignore_events
from ktx_cli.jobs.agents.report import Report as AgentsReport
from ktx_cli.jobs.connections import SourceCheck, check_connection_of
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.models.embedding_probe import EmbeddingReport, probe_embeddings
from ktx_cli.jobs.models.probing import ProbeRun, require_models
from ktx_cli.jobs.setup.answers import Answers, Build, ConnectionAnswer, ModelAnswer
from ktx_cli.jobs.setup.building import build_context, install_agents
from ktx_cli.jobs.setup.keeping import keep_secret
from ktx_cli.jobs.setup.models import require_routes
from ktx_cli.jobs.setup.planning import Planned, kept, planned
from ktx_cli.jobs.setup.suggesting import first_database, first_question
from ktx_cli.project.config import KtxConfig, literal_secrets, load_config
from ktx_cli.project.config.saving import config_lock
from ktx_cli.project.files import read_bytes, storage_error, write_atomic
from ktx_cli.project.layout import CONFIG_NAME, Layout
from ktx_cli.project.leases import hold_lease
from ktx_cli.project.repository import Repository
from ktx_cli.project.secrets import SecretRef, resolve


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """What to set up, and where. `test` false: saved without connecting, and without asking a model."""

    project_dir: Path
    environ: Mapping[str, str]
    answers: Answers = field(default_factory=Answers)
    test: bool = True
    emit: Emit = ignore_events


@dataclass(slots=True)
class SetupReport:
    """What setup did; `commit` None: `ktx.yaml` was not committed.

    `tests`: of each connection that was set up what its test found, None where none was made. `error`: why the first
    build, or the installation into agent clients, did not come to its end; what was set up before is saved.
    """

    project_dir: Path
    created_project: bool
    created_repository: bool = False
    tests: dict[str, ConnectionTest | SourceCheck | None] = field(default_factory=dict)
    probes: ProbeRun = field(default_factory=ProbeRun)
    embeddings: EmbeddingReport | None = None
    changed: bool = False
    commit: str | None = None
    build: IngestReport | None = None
    agents: AgentsReport | None = None
    error: KtxError | None = None
    warnings: list[ResultWarning] = field(default_factory=list)
    has_connections: bool = False
    question: str | None = None

    @property
    def next_steps(self) -> list[str]:
        """What is worth typing now: the next step, and after a build a question."""
        if not self.has_connections:
            return [first_database(self.project_dir)]
        if self.build is None:
            return ["ktx ingest"]
        return [self.question] if self.question else ["ktx status"]

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        first = next(iter(self.tests), None)
        found = self.tests.get(first or "")
        return {
            "project_dir": str(self.project_dir),
            "created_project": self.created_project,
            "created_repository": self.created_repository,
            "connection": first,
            "server_version": getattr(found, "server_version", None),
            "tables": getattr(found, "tables", None),
            "connections": [_tested(connection, test) for connection, test in self.tests.items()],
            "probes": [result.to_json() for result in self.probes.results],
            "embeddings": None if self.embeddings is None else self.embeddings.to_json(),
            "changed": self.changed,
            "commit": self.commit,
            "next": self.next_steps[0],
            "build": None if self.build is None else self.build.to_json(),
            "agents": None if self.agents is None else self.agents.to_json(),
        }


def _tested(connection: str, test: ConnectionTest | SourceCheck | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": connection, "tested": test is not None}
    if isinstance(test, SourceCheck):
        return {**shown, "origin": test.origin}
    if test is not None:
        shown |= {"server_version": test.server_version, "tables": test.tables, "can_write": test.can_write}
    return shown


def setup(request: SetupRequest) -> SetupReport:
    """Set the project up; running it again changes only what the answers name.

    Raises `KtxError` before anything is written when a setting is wrong, or when what it names does not answer.
    """
    layout, answers = Layout(request.project_dir), request.answers
    require_folder(layout.root)
    before = read_bytes(layout.config)
    report = SetupReport(layout.root, created_project=before is None)
    plan = planned(answers, before, same_secret(request))
    config = load_config(layout.config, data=plan.text).config
    report.has_connections = bool(config.connections)
    report.tests = dict.fromkeys(plan.connections)
    if answers.llm is not None and answers.llm.backend is not None:
        report.warnings += require_routes(config, answers.llm.backend)
    if request.test:
        _test(request, layout, config, report)
    _save(request, layout, plan, report)
    report.probes.store(layout)
    report.warnings += load_config(layout.config).warnings()
    _build(request, layout, report)
    return report


def _test(request: SetupRequest, layout: Layout, config: KtxConfig, report: SetupReport) -> None:
    """Connect to what was answered, and ask the models; raises the error a run would end with."""
    answers = request.answers
    for connection in report.tests:
        with naming(connection, config):
            report.tests[connection] = check_connection_of(
                config, connection, project_dir=layout.root, environ=request.environ
            )
    if answers.embeddings is not None:
        report.embeddings = probe_embeddings(config, project_dir=layout.root, environ=request.environ)
    if answers.llm is not None and _about_a_model(answers.llm):
        report.probes = require_models(
            Layout(existing_folder(layout.root)),
            config,
            request.environ,
            command="ktx setup",
            warn=report.warnings.append,
            emit=request.emit,
        )


@contextlib.contextmanager
def naming(connection: str, config: KtxConfig) -> Iterator[None]:
    """Let errors say which connection they are about, and of what kind it is."""
    try:
        yield
    except KtxError as error:
        kind = "database" if connection in config.databases() else "source"
        error.details |= {"connection": connection, "kind": kind}
        raise


def _about_a_model(answer: ModelAnswer) -> bool:
    return answer.backend is not None or bool(answer.models) or bool(answer.provider)


def existing_folder(folder: Path) -> Path:
    """Return the folder, or the nearest above it that is there."""
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def require_folder(folder: Path) -> None:
    """Raise `UsageError` when the folder is something else; it is created when there is something to save."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="--project-dir names the folder of the project")


def same_secret(request: SetupRequest) -> Any:
    """Return what says whether a setting and an answer are one: a reference to a file and the secret in it are."""

    def same(configured: Any, given: Any) -> bool:
        reference = SecretRef.parse(configured) if isinstance(configured, str) and configured != given else None
        if reference is None or not isinstance(given, str):
            return bool(configured == given)
        try:
            kept = resolve(configured, project_dir=request.project_dir, environ=request.environ, where="setup")
        except SecretError:
            return False
        return kept == given.rstrip("\r\n")

    return same


def _save(request: SetupRequest, layout: Layout, plan: Planned, report: SetupReport) -> None:
    """Write `ktx.yaml`; commit it where the user has no edits of their own in it, and no secret stands in it."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(layout.root, error, "create") from error
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    run_id = new_run_id()
    with (
        hold_lease(layout, run_id=run_id, command="ktx setup", emit=request.emit, warn=report.warnings.append) as (
            lease,
            _,
        ),
        config_lock(layout.root),
    ):
        if repository is None:
            repository = Repository.create(layout.root)
            report.created_repository = True
            request.emit(Notice(f"created a git repository in {layout.root}"))
        repository.recover()
        before = read_bytes(layout.config)
        text = _with_kept_secrets(request, layout, plan, before)
        loaded = load_config(layout.config, data=text)
        report.changed = text != before
        if not report.changed:
            return
        if any(literal_secrets(loaded.config)):
            _save_only(layout, text, report, "a secret stands in it", "put the secret into env:NAME or file:PATH")
            return
        result = repository.commit(
            {CONFIG_NAME: text},
            message=f"ktx setup\n\nKtx-Run: {run_id}\n",
            base=repository.head().commit,
            author=loaded.config.storage.git.author,
            before_publish=lease.check,
        )
        report.commit = result.commit
        if CONFIG_NAME not in result.committed and CONFIG_NAME not in result.ignored:
            _save_only(layout, text, report, "it has changes of yours", _COMMIT)


def _with_kept_secrets(request: SetupRequest, layout: Layout, plan: Planned, before: bytes | None) -> bytes:
    """Return the text of `ktx.yaml` with references where secrets were answered; they are kept by then."""

    def keep(name: str, secret: str) -> str:
        return keep_secret(layout, name, secret, request.answers.keeping)

    answers = kept(request.answers, keep, plan.connections)
    return planned(_named(answers, plan), before).text


def _named(answers: Answers, plan: Planned) -> Answers:
    """Return the answers with the ids that were chosen when they were tested."""
    named = [
        ConnectionAnswer(answer.fields, name)
        for answer, name in zip(answers.connections, plan.connections, strict=True)
    ]
    split = len(answers.databases)
    return replace(answers, databases=tuple(named[:split]), sources=tuple(named[split:]))


def _save_only(layout: Layout, text: bytes, report: SetupReport, reason: str, hint: str) -> None:
    write_atomic(layout.config.resolve(), text)
    report.warnings.append(
        ResultWarning(
            "config_not_committed",
            f"ktx.yaml was saved but not committed, because {reason}",
            hint=hint,
        )
    )


_COMMIT: Final = f"git add {CONFIG_NAME} && git commit -m '{CONFIG_NAME}' -- {CONFIG_NAME}"
"""Commits the file and nothing else that is staged, also where git does not know it yet."""


def _build(request: SetupRequest, layout: Layout, report: SetupReport) -> None:
    """Read what was set up, then tell agent clients; the first error ends it, and what is saved stays."""
    answers = request.answers
    try:
        if answers.build is not None and answers.build is not Build.NONE:
            report.build, warnings = build_context(layout, answers.build, request.environ, request.emit)
            report.warnings += [each for each in warnings if each not in report.warnings]
            report.error = report.build.error()
            report.question = first_question(layout, load_config(layout.config).config)
        if answers.agents is not None:
            report.agents = install_agents(layout, answers.agents, request.environ)
            report.warnings += report.agents.warnings
            report.error = report.error or report.agents.error
    except KtxError as error:
        report.error = error
