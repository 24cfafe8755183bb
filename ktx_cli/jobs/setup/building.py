"""The last steps of setup: the first build, by what `ktx ingest` does, and the agent clients."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit
from ktx_cli.jobs.agents.installing import Wanted, install
from ktx_cli.jobs.agents.report import Report
from ktx_cli.jobs.agents.targets import Where
from ktx_cli.jobs.ingest.depth import Depth
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.ingest.run import IngestRequest, ingest
from ktx_cli.jobs.setup.answers import AgentsAnswer, Build
from ktx_cli.llm.backends.claude.host import secret_names
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout


def build_context(
    layout: Layout, build: Build, environ: Mapping[str, str], emit: Emit
) -> tuple[IngestReport, list[ResultWarning]]:
    """Read the connections, of databases the structure alone where that was asked for; raises as `ingest`."""
    structure = build is Build.STRUCTURE
    return ingest(
        IngestRequest(
            project_dir=layout.root,
            environ=environ,
            command="ktx setup",
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
