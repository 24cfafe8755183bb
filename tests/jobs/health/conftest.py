"""Projects that a run has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from tests.jobs.conftest import Built


def ingested(project: Path) -> None:
    ingest(IngestRequest(project, {}))


@pytest.fixture
def ingested_project(shop_project: Path, built: Built) -> Path:
    """The small project, ingested."""
    return built(shop_project, ingested)
