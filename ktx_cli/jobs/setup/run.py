"""Setup of what was answered: tried first, saved only on success, then built."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.core.errors import KtxError, UsageError
from ktx_cli.jobs.setup.answers import Build
from ktx_cli.jobs.setup.building import build_context, install_agents
from ktx_cli.jobs.setup.models import require_routes
from ktx_cli.jobs.setup.planning import planned
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.saving import same_secret, save_answers
from ktx_cli.jobs.setup.suggesting import first_question
from ktx_cli.jobs.setup.trying import try_answers
from ktx_cli.project.config import load_config
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout


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
