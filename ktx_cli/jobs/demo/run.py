"""Builds the company and a project in its folder, ingests it in two halves, without a model, with a question each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.context.scan.review import ReviewedEdge
from ktx_cli.core.clock import monotonic
from ktx_cli.core.events import Emit, StepFinished, StepStarted, ignore_events
from ktx_cli.core.text import plural
from ktx_cli.jobs.demo.answering import Asked, answered
from ktx_cli.jobs.demo.claim import claimed
from ktx_cli.jobs.demo.company import DBT_PROJECT, HANDBOOK, WAREHOUSE, WAREHOUSE_ID, build_company
from ktx_cli.jobs.demo.golden import write_evals
from ktx_cli.jobs.demo.questions import QUESTIONS
from ktx_cli.jobs.demo.sources import SecondHalf, name_sources, second_half
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.ingest.run import IngestRequest, ingest
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer
from ktx_cli.jobs.setup.request import SetupRequest
from ktx_cli.jobs.setup.run import setup
from ktx_cli.project.files import write_atomic
from ktx_cli.project.layout import CONFIG_NAME, EVALS_NAME, SEMANTIC_NAME
from ktx_cli.project.repository import Repository

SHOWN_JOINS = 3
"""How many of the found joins the demo shows."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo built: the folder, the rows of each table, the scan with a question, the context sources."""

    folder: Path
    seed: int
    rows: Mapping[str, int]
    ingest: IngestReport
    asked: Asked
    second: SecondHalf

    @property
    def joins(self) -> tuple[ReviewedEdge, ...]:
        """Found joins that no key declares and no name gives away: the column is called otherwise than the key."""
        found = (each for report in self.ingest.connections for each in report.joins)
        telling = [each for each in found if each.edge.child_columns != each.edge.parent_columns]
        return tuple(sorted(telling, key=lambda each: (each.edge.score, each.name))[:SHOWN_JOINS])

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "folder": str(self.folder),
            "seed": self.seed,
            "rows": dict(self.rows),
            "ingest": self.ingest.to_json(),
            "joins": [{"edge": each.name, "score": each.edge.score, "reason": each.edge.reason} for each in self.joins],
            **self.asked.to_json(),
            "second_half": self.second.to_json(),
        }


def demo(folder: Path, seed: int, *, environ: Mapping[str, str], emit: Emit = ignore_events) -> DemoReport:
    """Build the demo in a new or empty folder, or go on where another was killed; errors as `claimed`, `ingest`."""
    with claimed(folder) as half_built:
        return _demo(folder, seed, environ, emit, half_built=half_built)


def _demo(folder: Path, seed: int, environ: Mapping[str, str], emit: Emit, *, half_built: bool) -> DemoReport:
    emit(StepStarted("company"))
    started = monotonic()
    company = build_company(folder, seed, half_built=half_built)
    total = sum(company.rows.values())
    built = f"{plural(len(company.rows), 'table')}, {plural(total, 'row')}"
    emit(StepFinished("company", built, monotonic() - started))
    _commit_company(folder)
    setup(
        SetupRequest(
            project_dir=folder,
            environ=environ,
            answers=Answers(databases=(ConnectionAnswer({"driver": "duckdb", "path": WAREHOUSE}, WAREHOUSE_ID),)),
            emit=emit,
        )
    )
    report, _ = ingest(IngestRequest(folder, environ, connections=(WAREHOUSE_ID,), command="ktx demo", emit=emit))
    error = report.error()
    if error is not None:
        raise error
    asked = answered(folder, QUESTIONS[0], environ)
    return DemoReport(folder, seed, company.rows, report, asked, second_half(folder, environ, emit))


def _commit_company(folder: Path) -> None:
    """Make the folder a repository of its own, whatever lies around it, with the company's text files in it."""
    write_atomic(folder / ".gitignore", f"{WAREHOUSE}*\n".encode())
    name_sources(folder)
    write_evals(folder)
    repository = Repository.create(folder)
    folders = [folder / each for each in (DBT_PROJECT, HANDBOOK, SEMANTIC_NAME, EVALS_NAME)]
    files = [folder / ".gitignore", folder / CONFIG_NAME, *(path for each in folders for path in each.rglob("*"))]
    texts = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(files) if path.is_file()}
    base = repository.head().commit
    repository.commit(texts, message="The company: its dbt project, its handbook, its measures\n", base=base)
