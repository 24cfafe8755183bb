"""Any worker or the coordinator killed at any moment: the same final tree, nothing paid twice, no unit lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import PostgresServer
from tests.cli import test_ingest_kills as local
from tests.worlds.forks import Forks
from tests.worlds.ingest_kills import Case
from tests.worlds.worker_kills import SharedCase, sweep_workers

FULL: Final = bool(os.environ.get("KTX_TEST_FULL"))

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

template = local.template
environ = local.environ


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_any_moment_nothing_is_lost_or_paid_twice(
    template: Path,
    tmp_path: Path,
    environ: dict[str, str],
    model_server: ModelServer,
    postgres_server: PostgresServer,
    forks: Forks,
) -> None:
    case = Case(template, model_server, local.model, local.name_of, forks, environ, local.AT_ONCE)
    shared = SharedCase(case, postgres_server)
    found = sweep_workers(shared, tmp_path / "scratch", kills=60 if FULL else 5, seed=11, progress=print)
    print(f"\n{found.line}")
    assert found.violations == []
