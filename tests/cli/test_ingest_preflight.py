"""When `ktx ingest` asks whether the configured model is usable: before it would need it, not when nothing changes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.clock import now
from ktx_cli.llm import probe
from ktx_cli.llm.routing import PROBE_PROMPT
from ktx_cli.testing.model_script import UNAUTHORIZED, Reply
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import LONG, Agents, git, history, tree

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
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("refunds")
    monkeypatch.setattr(probe, "REMEMBERED_SECONDS", 0)
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    head, commits = git(company, "rev-parse", "HEAD"), history(company)
    model_server.play(lambda _: UNAUTHORIZED)
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").write_text("# refunds\n\nOther words.")
    answer = ktx("ingest", "--json")
    print(answer)
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")
    assert (git(company, "rev-parse", "HEAD"), history(company)) == (head, commits)
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert git(company, "rev-parse", "HEAD") != head


SEVEN = {
    "default": "claude-haiku-5-5", "triage": "claude-sonnet-5", "candidateExtraction": "claude-sonnet-5-5",
    "writer": "claude-opus-4-8", "curator": "claude-opus-5", "reconcile": "claude-opus-5-5",
    "repair": "claude-fable-5-2",
}  # fmt: skip


def probes(server: ModelServer) -> list[str]:
    """Return the models that were probed."""
    asked = (each.body for each in server.model_calls if PROBE_PROMPT in json.dumps(each.body["messages"][-1]))
    return [body["model"] for body in asked]


def with_seven_models(project: Path, mode: str = "none") -> None:
    text = (project / "ktx.yaml").read_text().replace("mode: none", f"mode: {mode}")
    models = "".join(f"    {role}: {model}\n" for role, model in SEVEN.items())
    (project / "ktx.yaml").write_text(text.replace("    default: claude-sonnet-5-5\n", models))


def test_of_seven_models_the_one_a_run_uses_is_probed(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    with_seven_models(company, mode="llm")
    model_server.play(Agents())
    ktx("scan", "--depth", "enriched")
    assert probes(model_server) == [SEVEN["candidateExtraction"]]


def test_documents_need_the_roles_that_sort_write_and_repair(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    with_seven_models(company)
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert sorted(probes(model_server)) == sorted(set(SEVEN.values()) - {SEVEN["default"]})


def test_a_project_without_work_for_a_model_is_built_without_a_probe(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    model_server.play(lambda _: UNAUTHORIZED)
    assert ktx("scan").code == 0
    assert model_server.requests == []


def test_a_probe_is_remembered_for_ten_minutes_and_a_failure_is_not(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(text: str, reply: Callable[..., Reply] | None = None) -> tuple[int, int]:
        (company / "docs/refunds.md").write_text(text)
        model_server.play(reply or Agents())
        return ktx("ingest").code, len(probes(model_server))

    configure("refunds")
    assert run("# refunds\n\nOne.", lambda _: UNAUTHORIZED) == (3, 1)
    assert run("# refunds\n\nOne.") == (0, 1)
    assert run("# refunds\n\nTwo.") == (0, 0)
    monkeypatch.setenv("SCRIPTED_KEY", "sk-of-another-account")
    assert run("# refunds\n\nThree.") == (0, 1)
    assert run("# refunds\n\nFour.") == (0, 0)
    model_server.play(Agents())
    assert ktx("llm", "probe").code == 0
    assert len(probes(model_server)) == 1
    monkeypatch.setattr(probe, "now", lambda: now() + timedelta(seconds=probe.REMEMBERED_SECONDS))
    assert run("# refunds\n\nFive.") == (0, 1)
    state = (company / ".ktx" / "state.sqlite").read_bytes()
    assert b"sk-of-another-account" not in state


def test_a_call_that_fails_is_reason_to_probe_again(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").write_text(f"# refunds\n\nOther words. {LONG}")
    model_server.play(lambda _: UNAUTHORIZED)
    answer = ktx("ingest", "--json")
    assert (answer.envelope["error"]["code"], probes(model_server)) == ("auth", [])
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    assert len(probes(model_server)) == 1
