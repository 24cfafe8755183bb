"""What one source that fails costs, in each step of the phase that reads sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import SourceError
from ktx_cli.documents import WorkUnit
from ktx_cli.engine import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.sources import Conclusion
from ktx_cli.sources.dbt.source import DbtSource

CONFIG = """
  bad:
    driver: dbt
    source_dir: dbt
  docs:
    driver: documents
    path: handbook
"""


@pytest.fixture
def project(shop_project: Path) -> Path:
    (shop_project / "dbt").mkdir()
    (shop_project / "dbt" / "dbt_project.yml").write_text("name: shop\n")
    (shop_project / "dbt" / "schema.yml").write_text(
        "version: 2\nmodels:\n  - name: orders\n    description: One row for each order.\n"
    )
    (shop_project / "handbook").mkdir()
    (shop_project / "handbook" / "refunds.md").write_text("# Refunds\n\nWithin 30 days.\n")
    with (shop_project / "ktx.yaml").open("a") as config:
        config.write(CONFIG)
    return shop_project


def fails(self: DbtSource, *args: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize("step", ["fetch", "project", "units"])
def test_a_source_that_fails_in_one_step_costs_itself_alone(
    step: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DbtSource, step, fails)
    with (project / "ktx.yaml").open("a") as config:
        config.write("llm:\n  provider:\n    backend: anthropic\n    anthropic: {api_key: env:KEY}\n")
        config.write("  models: {default: m}\n")
    report, _ = ingest(IngestRequest(project, {"KEY": "k"}, dry_run=True))
    bad, docs = report.sources
    assert (bad.status, docs.status) == ("failed", "planned")
    assert bad.error is not None
    assert (bad.error.code, bad.error.hint) == ("internal", "ktx ingest bad --debug")
    assert bad.projection is None and bad.units == ()
    assert [unit.key for unit in docs.units] == ["refunds.md"]
    assert "raw-sources/docs/files/manifest.yaml" in report.files.to_json()["written"]
    written = [path for path in report.files.to_json()["written"] if "bad" in path]
    assert written == ([] if step == "fetch" else ["raw-sources/bad/dbt/declarations.json"]), "scans have used these"
    assert report.files.to_json()["removed"] == []


def test_a_source_that_fails_after_its_units_writes_nothing_and_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_done(self: DbtSource, entry: Any, snapshot: Any, context: Any, evidence: Any) -> Any:
        context.workspace.write("wiki/global/half.md", b"half")
        raise SourceError("the glossary has no terms", hint="add one")

    monkeypatch.setattr(DbtSource, "after_units", half_done)
    report, warnings = ingest(IngestRequest(project, {}))
    bad, docs = report.sources
    assert (bad.status, docs.status) == ("partial", "done")
    assert bad.left_out == ["the evidence of its units: the glossary has no terms"]
    assert [(each.code, each.message, each.hint) for each in warnings] == [
        ("source_incomplete", "bad (dbt): the glossary has no terms", "add one")
    ]
    assert report.commit is not None and not (project / "wiki" / "global" / "half.md").exists()


@pytest.mark.parametrize(("error", "again"), [(None, frozenset()), (SourceError("no"), frozenset({"a.json"}))])
def test_evidence_that_came_to_nothing_is_given_again(error: SourceError | None, again: frozenset[str]) -> None:
    records = {"evidence": [{"raw_path": "a.json", "evidence": {"kind": "term"}}]}
    outcomes = tuple(
        UnitOutcome("words", "dictionary", WorkUnit(path, path, (path,)), UnitStatus.DONE, session={"records": given})
        for path, given in (("a.json", records), ("b.json", {}))
    )
    work = SourceWork("words", None, DbtSource(), outcomes=outcomes, conclusion=Conclusion(error=error))
    assert work.unfinished() == again
