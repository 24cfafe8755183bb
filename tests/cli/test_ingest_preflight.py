"""When `ktx ingest` asks whether the configured model is usable: before it would need it, not when nothing changes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktx_cli.testing.model_script import UNAUTHORIZED
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents, git, history, tree

Run = Callable[..., Any]


def test_an_unchanged_run_asks_no_model_nor_does_a_clone_or_a_lost_state(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    head, files = git(company, "rev-parse", "HEAD"), tree(company)
    model_server.play([])
    assert ktx("ingest").code == 0
    shutil.rmtree(company / ".ktx")
    assert ktx("ingest").code == 0
    clone = company.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(company), str(clone)], check=True)
    for name in ("ktx.yaml", "shop.sqlite"):
        shutil.copy(company / name, clone / name)
    shutil.copytree(company / "docs", clone / "docs", dirs_exist_ok=True)
    assert ktx("ingest", "--project-dir", str(clone)).code == 0
    assert model_server.requests == []
    assert (git(company, "rev-parse", "HEAD"), git(clone, "rev-parse", "HEAD")) == (head, head)
    assert tree(clone) == files


def test_a_backend_that_does_not_answer_ends_a_first_run_before_anything_is_written(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    model_server.play(lambda _: UNAUTHORIZED)
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")
    assert not (company / ".git").exists()


def test_a_backend_that_does_not_answer_ends_a_run_with_changes_and_not_one_without(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    head, commits = git(company, "rev-parse", "HEAD"), history(company)
    model_server.play(lambda _: UNAUTHORIZED)
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").write_text("# refunds\n\nOther words.")
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")
    assert (git(company, "rev-parse", "HEAD"), history(company)) == (head, commits)
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert git(company, "rev-parse", "HEAD") != head
