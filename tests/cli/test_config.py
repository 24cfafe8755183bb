from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_show_has_defaults_and_masks_secrets(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  pg:\n    driver: postgres\n    host: h\n    password: canary-pw\n")
    answer = ktx("config", "show", "--json")
    assert "canary-pw" not in answer.out
    assert answer.data["llm"]["provider"]["backend"] == "none"
    assert "canary-pw" not in ktx("config", "get", "connections.pg.password").out


@pytest.mark.parametrize(
    ("key", "value", "printed"),
    [
        ("llm.provider.backend", "vertex", "vertex\n"),
        ("llm.models.curator", "opus", "opus\n"),
        ("storage.git.author", "Bot <bot@example.com>", "Bot <bot@example.com>\n"),
        ("connections.warehouse.include", "a.*,b", "- a.*\n- b\n"),
    ],
)
def test_set_then_get(ktx: Run, project: Path, key: str, value: str, printed: str) -> None:
    comment = "# keep me\n" + (project / "ktx.yaml").read_text()
    (project / "ktx.yaml").write_text(comment)
    assert ktx("config", "set", key, value, "--json").data["changed"] is True
    assert ktx("config", "get", key, "--plain").out == printed
    assert (project / "ktx.yaml").read_text().startswith("# keep me\n")
    assert ktx("config", "set", key, value, "--json").data["changed"] is False


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("llm.provider.backnd", "x", "llm.provider.backend"),
        ("llm.provider.backend", "gpt", "backend"),
        ("llm", "x", "block"),
        ("connections.none.path", "x", "none"),
        ("connections.warehouse.pth", "x", "path"),
        ("ingest.workUnits.stepBudget", "zero", "stepBudget"),
        ("", "x", ""),
    ],
)
def test_set_refuses(ktx: Run, project: Path, key: str, value: str, says: str) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("config", "set", key, value, "--json")
    assert answer.code == 2, answer
    error = answer.envelope["error"]
    assert says in error["message"] + (error["hint"] or "")
    assert (project / "ktx.yaml").read_bytes() == before


def test_validate_names_line_and_problem(ktx: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text("llm:\n  provider:\n    backend: nope\n")
    answer = ktx("config", "validate", "--json")
    assert answer.code == 2
    assert "ktx.yaml:3" in answer.envelope["error"]["message"]
    (work / "ktx.yaml").write_text("llm:\n  providr: {}\n")
    answer = ktx("config", "validate", "--json")
    assert answer.code == 0
    assert "provider" in str(answer.envelope["warnings"])


def test_schema_needs_no_project(ktx: Run, work: Path) -> None:
    schema = ktx("config", "schema", "--json").data
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "connections" in schema["properties"]


@pytest.mark.parametrize(
    ("key", "value", "first"),
    [
        ("scan.relationships.acceptThreshold", "0.3", "scan.relationships.reviewThreshold"),
        ("scan.relationships.reviewThreshold", "0.8", "scan.relationships.acceptThreshold"),
    ],
)
def test_thresholds_that_would_pass_each_other_say_the_order(
    ktx: Run, project: Path, key: str, value: str, first: str
) -> None:
    answer = ktx("config", "set", key, value, "--json")
    hint = answer.envelope["error"]["hint"]
    assert (answer.code, hint) == (2, f"ktx config set {first} {value}; then: ktx config set {key} {value}")
    for command in hint.split("; then: "):
        assert ktx(*command.split()[1:]).code == 0
    assert ktx("config", "get", key, "--plain").out == f"{value}\n"
