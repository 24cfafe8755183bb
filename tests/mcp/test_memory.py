"""Texts handed to a server: what it refuses at once and what it tells of each; the rest is in test_mcp_agents.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.jobs.capture.queue import enqueue
from ktx_cli.jobs.capture.records import CaptureRequest, Status, save
from ktx_cli.jobs.serve import runs as memories
from ktx_cli.project.layout import Layout
from tests.mcp.conftest import CONFIG, Company

BACKEND = "llm:\n  provider: {backend: claude-code}\n"
TEXT = "Refunds come off revenue on the day they are paid."


def nobody(*given: Any) -> Any:
    raise AssertionError("a process was started")


@pytest.mark.parametrize(
    ("settings", "code"),
    [("", "no_backend"), ("llm:\n  provider: {backend: anthropic}\n", "config"), ("llm: [", "config")],
    ids=["none", "no-model", "broken"],
)
def test_without_a_model_nothing_is_taken(company: Company, settings: str, code: str) -> None:
    company.write("ktx.yaml", settings + CONFIG)
    error = company.call("memory_ingest", {"content": TEXT}).error
    assert error is not None and error["code"] == code and error["hint"]
    assert not Layout(company.folder).memory.exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"content": "  \n"}, "there is no text"),
        ({"content": "Key: AKIAIOSFODNN7EXAMPLE"}, "looks like a secret"),
        ({"content": "a " * 8_001, "source_type": "research"}, "16,000"),
        ({"content": "a" * 48_001}, "content: String should have at most 48000"),
        ({"content": TEXT, "connection": "absent"}, "absent"),
        ({"content": TEXT, "user": "../ada"}, "../ada"),
        ({"content": TEXT, "source_type": "gossip"}, "source_type"),
        ({"content": TEXT, "replace": True}, "replace"),
    ],
)
def test_what_cannot_be_captured_is_refused_at_once(company: Company, arguments: dict[str, Any], part: str) -> None:
    company.write("ktx.yaml", BACKEND + CONFIG)
    error = company.call("memory_ingest", arguments).error
    assert error is not None and error["code"] == "usage" and part in error["message"], error
    assert not Layout(company.folder).memory.exists()


def test_a_server_that_may_not_write_looks_and_starts_nobody(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    company.write("ktx.yaml", BACKEND + CONFIG)
    monkeypatch.setattr(memories, "_spawned", nobody)
    record = enqueue(Layout(company.folder), CaptureRequest(TEXT))
    found = company.call("memory_ingest_status", {"run_id": record.run_id}, read_only=True)
    assert (found.data["status"], found.data["over"], found.data["wrote"]) == ("queued", False, [])
    refused = company.call("memory_ingest", {"content": TEXT}, read_only=True).error
    assert refused is not None and refused["message"] == "there is no tool `memory_ingest`"
    assert refused["hint"].startswith("this server is read-only")
    unknown = company.call("memory_ingest_status", {"run_id": "absent"}, read_only=True).error
    assert unknown is not None and unknown["code"] == "usage"


def test_a_conflict_is_told_without_the_lines_of_a_definition(company: Company) -> None:
    layout = Layout(company.folder)
    words = {"kind": "contradiction", "captured": "A month later.", "detail": "Not on two days.", "flagged": True}
    conflicts = (
        {"artifact": "wiki:refunds", "accepted": "On the\u200b day.", **words},
        {"artifact": "sl:shop/customers", "accepted": "- {name: email, visibility: hidden}", **words},
    )
    record = enqueue(layout, CaptureRequest(TEXT))
    error = {"code": "conflict", "message": "it contradicts", "hint": None, "details": {"conflicts": ["secret"]}}
    save(layout, replace(record, status=Status.CONFLICT, conflicts=conflicts, error=error, commits=("a", "b")))
    found = company.call("memory_ingest_status", {"run_id": "latest"}).data
    assert (found["status"], found["over"], found["commit"]) == ("conflict", True, "b")
    assert [each["accepted"] for each in found["conflicts"]] == ["On the day.", None]
    assert found["conflicts"][0]["captured"] == "A month later."
    assert found["error"] == {"code": "conflict", "message": "it contradicts", "hint": None}
