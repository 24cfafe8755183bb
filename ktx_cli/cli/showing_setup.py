"""What `ktx setup` prints: what it did, or what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.cli.blocks import Block, Fields, Lines
from ktx_cli.core.text import plural

if TYPE_CHECKING:
    from ktx_cli.connectors.port import ConnectionTest
    from ktx_cli.jobs.connections import SourceCheck
    from ktx_cli.jobs.setup.preview import Preview
    from ktx_cli.jobs.setup.request import SetupReport


def report_blocks(report: SetupReport) -> list[Block]:
    """Draw what setup did."""
    rows = [("project", str(report.project_dir)), ("created", "yes" if report.created_project else "no")]
    rows += [(connection, tested(test)) for connection, test in report.tests.items() if test is not None]
    for result in report.probes.results:
        if result.report is not None:
            rows.append((str(result.ref), f"answers: {result.report.account}"))
    if report.embeddings is not None:
        rows.append(("embeddings", f"{report.embeddings.model}, {report.embeddings.dimensions} numbers a vector"))
    rows.append(("ktx.yaml", "saved" if report.changed else "unchanged"))
    if report.build is not None:
        rows += [(part.connection, part.result) for part in report.build.connections]
        rows += [(work.name, work.result) for work in report.build.sources]
    if report.agents is not None:
        rows += [
            (str(each.target), str(each.path or "printed by ktx agents install")) for each in report.agents.outcomes
        ]
    return [Fields(tuple(rows))]


def tested(test: ConnectionTest | SourceCheck) -> str:
    """Say in one line what the test of a connection found."""
    origin = getattr(test, "origin", None)
    if origin is not None:
        return str(origin)
    return f"{test.server_version}, {plural(test.tables, 'table or view', 'tables and views')}"  # type: ignore[union-attr]


def plan_blocks(plan: Preview) -> list[Block]:
    """Draw what setup would do."""
    steps = Fields(tuple(plan.steps) or (("ktx.yaml", "nothing would change"),))
    return [steps, Lines(plan.diff)] if plan.diff else [steps]
