"""Trying what was answered, by the code that runs use, before anything of it is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.connections import check_connection_of
from ktx_cli.jobs.models.embedding_probe import probe_embeddings
from ktx_cli.jobs.models.probing import require_models
from ktx_cli.jobs.readiness.checks.history import history_warnings
from ktx_cli.jobs.setup.answers import ModelAnswer
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout


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
