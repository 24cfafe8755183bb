"""Setup by flags: project, backend, one database; tested first, saved only on success, committed where that is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.clock import new_run_id
from ktx_cli.core.errors import ResultWarning, UsageError
from ktx_cli.core.events import Emit, Notice, ignore_events
from ktx_cli.jobs.connections import config_with_connection, probe_connection
from ktx_cli.jobs.models.probing import ProbeRun, require_models
from ktx_cli.jobs.setup.models import model_settings, require_routes
from ktx_cli.project import edit
from ktx_cli.project.config import KtxConfig, literal_secrets, load_config
from ktx_cli.project.config.saving import config_lock
from ktx_cli.project.config.values import parse_cli_value
from ktx_cli.project.files import read_bytes, storage_error, write_atomic
from ktx_cli.project.layout import CONFIG_NAME, Layout
from ktx_cli.project.leases import hold_lease
from ktx_cli.project.repository import Repository

NEW_CONFIG = b"""\
# The settings of this ktx project. `ktx config schema` describes every setting.
llm:
  provider:
    backend: none
"""


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """What to set up. None leaves a setting as it is; `database` holds the connection's fields by `ktx.yaml` key,
    `provider` those of the backend: `api_key`, `base_url`, `location`, `project`."""

    project_dir: Path
    environ: Mapping[str, str]
    backend: str | None = None
    model: str | None = None
    provider: Mapping[str, str] = field(default_factory=dict)
    database: Mapping[str, Any] | None = None
    connection: str | None = None
    test: bool = True
    emit: Emit = ignore_events


@dataclass(slots=True)
class SetupReport:
    """What setup did; `commit` None: `ktx.yaml` was not committed.

    `connection`: the one that was set up. `has_connections`: there is something to ingest.
    """

    project_dir: Path
    created_project: bool
    created_repository: bool = False
    connection: str | None = None
    test: ConnectionTest | None = None
    probes: ProbeRun = field(default_factory=ProbeRun)
    changed: bool = False
    commit: str | None = None
    warnings: list[ResultWarning] = field(default_factory=list)
    has_connections: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "project_dir": str(self.project_dir),
            "created_project": self.created_project,
            "created_repository": self.created_repository,
            "connection": self.connection,
            "server_version": None if self.test is None else self.test.server_version,
            "tables": None if self.test is None else self.test.tables,
            "probes": [result.to_json() for result in self.probes.results],
            "changed": self.changed,
            "commit": self.commit,
        }


def setup(request: SetupRequest) -> SetupReport:
    """Set the project up; running it again changes only what the request names.

    Raises `KtxError` before anything is written when a setting is wrong or the database does not answer.
    """
    layout = Layout(request.project_dir)
    _require_folder(layout.root)
    before = read_bytes(layout.config)
    report = SetupReport(layout.root, created_project=before is None)
    text = _planned_text(request, before, report)
    config = load_config(layout.config, data=text).config
    report.has_connections = bool(config.connections)
    if report.connection is not None and request.test:
        report.test = probe_connection(config, report.connection, project_dir=layout.root, environ=request.environ)
    report.probes = _probed(request, layout, config, report)
    _save(request, layout, report)
    report.probes.store(layout)
    report.warnings += load_config(layout.config).warnings()
    return report


def _probed(request: SetupRequest, layout: Layout, config: KtxConfig, report: SetupReport) -> ProbeRun:
    """Ask the models for real before they are saved, where the request names a backend or a model."""
    if request.backend is not None:
        report.warnings += require_routes(config, request.backend)
    if not request.test or (request.backend is None and request.model is None and not request.provider):
        return ProbeRun()
    existing = next(folder for folder in (layout.root, *layout.root.parents) if folder.is_dir())
    return require_models(
        Layout(existing),
        config,
        request.environ,
        command="ktx setup",
        warn=report.warnings.append,
        emit=request.emit,
    )


def _require_folder(folder: Path) -> None:
    """Raise `UsageError` when the folder is something else; it is created when there is something to save."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="--project-dir names the folder of the project")


def _planned_text(request: SetupRequest, before: bytes | None, report: SetupReport) -> bytes:
    """Return the text `ktx.yaml` will have; names the connection in the report."""
    text = NEW_CONFIG if before is None else before
    config = load_config(Path(CONFIG_NAME), data=text).config
    for dotted, given in model_settings(config, request.backend, request.model, request.provider).items():
        value = parse_cli_value(dotted, given)
        text = edit.set_value(text, tuple(dotted.split(".")), value, where=CONFIG_NAME)
    if request.database is not None:
        report.connection = request.connection or _id_for(config, request.database)
        text = _with_database(text, config, report.connection, request.database)
    return text


def _with_database(text: bytes, config: KtxConfig, connection: str, fields: Mapping[str, Any]) -> bytes:
    existing = config.connections.get(connection)
    if existing is None:
        return config_with_connection(text, connection, fields)
    if existing.driver != fields["driver"]:
        raise UsageError(
            f"connection `{connection}` has the driver `{existing.driver}`, not `{fields['driver']}`",
            hint="--database-connection-id names another",
        )
    for key, value in fields.items():
        text = edit.set_value(text, ("connections", connection, key), value, where=CONFIG_NAME)
    load_config(Path(CONFIG_NAME), data=text)
    return text


def _id_for(config: KtxConfig, fields: Mapping[str, Any]) -> str:
    """Return the id of the connection that is to this very database, else a free one."""
    for name, entry in config.connections.items():
        shown = entry.model_dump(by_alias=True)
        if all(shown.get(key) == fields.get(key) for key in ("driver", "url", "path")):
            return name
    number, name = 2, "warehouse"
    while name in config.connections:
        name, number = f"warehouse-{number}", number + 1
    return name


def _save(request: SetupRequest, layout: Layout, report: SetupReport) -> None:
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
        text = _planned_text(request, before, report)
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
            _save_only(layout, text, report, "it has changes of yours", "git diff ktx.yaml; commit it when you like")


def _save_only(layout: Layout, text: bytes, report: SetupReport, reason: str, hint: str) -> None:
    write_atomic(layout.config.resolve(), text)
    report.warnings.append(
        ResultWarning(
            "config_not_committed",
            f"ktx.yaml was saved but not committed, because {reason}",
            hint=hint,
        )
    )
