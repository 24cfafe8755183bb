"""Setup of what was answered: tried first, saved only on success, then built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ktx_cli.core import Command, Emit, KtxError, ResultWarning, UsageError
from ktx_cli.engine import IngestReport
from ktx_cli.jobs.clients.install import Report, Wanted, install
from ktx_cli.jobs.clients.targets import Where
from ktx_cli.jobs.connections import check_connection_of
from ktx_cli.jobs.health.connection_checks import history_warnings
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.llm import probe_embeddings
from ktx_cli.jobs.setup.answers import AgentsAnswer, Build, ModelAnswer
from ktx_cli.jobs.setup.plan import planned, require_routes
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest, first_question
from ktx_cli.jobs.setup.save import same_secret, save_answers
from ktx_cli.llm import require_models, secret_names
from ktx_cli.project import KtxConfig, Layout, load_config, read_bytes
from ktx_cli.scan import Depth


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
        try_answers(request, layout, config, report)
    save_answers(request, layout, plan, report)
    report.probes.store(layout)
    report.warnings += load_config(layout.config).notices()
    _build(request, layout, report)
    return report


def require_folder(folder: Path) -> None:
    """Raise `UsageError` when the folder is something else; it is created when there is something to save."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise UsageError(f"{there} is not a folder", hint="--project-dir names the folder of the project")


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


def build_context(
    layout: Layout, build: Build, environ: Mapping[str, str], emit: Emit
) -> tuple[IngestReport, list[ResultWarning]]:
    """Read the connections, of databases the structure alone where that was asked for; raises as `ingest`."""
    structure = build is Build.STRUCTURE
    return ingest(
        IngestRequest(
            project_dir=layout.root,
            environ=environ,
            command=Command("setup"),
            databases_only=structure,
            depth=Depth.STRUCTURAL if structure else None,
            emit=emit,
        )
    )


def install_agents(layout: Layout, answer: AgentsAnswer, environ: Mapping[str, str]) -> Report:
    """Put the project into agent clients; raises as `install`."""
    variables = sorted(secret_names(load_config(layout.config).config))
    wanted = Wanted(answer.targets, answer.scope, variables=variables)
    return install(wanted, Where(layout.root, environ))


def try_answers(request: SetupRequest, layout: Layout, config: KtxConfig, report: SetupReport) -> None:
    """Connect to what was answered, and ask the models; raises the error a run would end with."""
    answers = request.answers
    for connection in report.tests:
        with naming(connection, config):
            report.tests[connection] = check_connection_of(
                config, connection, project_dir=layout.root, environ=request.environ
            )
        report.warnings += history_warnings(config, connection, project_dir=layout.root, environ=request.environ)
    if answers.embeddings is not None:
        report.embeddings = probe_embeddings(config, project_dir=layout.root, environ=request.environ)
    if answers.llm is not None and _about_a_model(answers.llm):
        report.probes = require_models(
            Layout(existing_folder(layout.root)),
            config,
            request.environ,
            command=Command("setup"),
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
