"""Tools of the loop over a whole run: the stage, what was deleted, and decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.session import Action, StagedUnit, StagedWork
from ktx_cli.agent_tools.toolset import unresolved_failures

ONE = StagedUnit(
    "docs:a",
    "Handbook",
    "done",
    ("docs/a.md",),
    (
        Action("wiki", "created", "refunds", None, ("docs/a.md",), "What a refund is."),
        Action("sl", "updated", "orders", "shop", ("docs/a.md",), "1 measures"),
    ),
)
TWO = StagedUnit(
    "docs:b",
    "Terms",
    "done",
    ("docs/b.md",),
    (
        Action("wiki", "created", "refunds", None, ("docs/b.md",), "Refunds."),
        Action("sl", "updated", "orders", "hr", (), ""),
    ),
)
STAGE = StagedWork([ONE, TWO], {"docs/old.md": ("wiki:revenue", "sl:shop/orders")})


@pytest.fixture
def run(shop: Callable[..., Any]) -> Any:
    return _run(shop)


def _run(shop: Callable[..., Any]) -> Any:
    made = shop(stage="reconcile")
    made.session.stage, made.session.whole_run = STAGE, True
    return made


def test_the_stage_is_listed(run: Any) -> None:
    text = run.ok("stage_list")
    assert "- docs:a (done): Handbook; files: docs/a.md" in text
    assert "created wiki:refunds: What a refund is. [from docs/a.md]" in text
    assert "docs:a" not in run.ok("stage_list", start=2)
    assert "No unit" in run.ok("stage_list", start=3)


def test_two_units_overlap_in_what_both_wrote(run: Any) -> None:
    done = run.call("stage_diff", unit_a="docs:a", unit_b="docs:b")
    assert done.structured["overlap"] == ["wiki:refunds"]
    assert "Refunds." in done.text
    assert "did you mean `docs:b`?" in run.refused("stage_diff", unit_a="docs:a", unit_b="docs:bb")


def test_an_eviction_is_decided_once_the_artifact_is_gone(run: Any) -> None:
    decision = {
        "raw_path": "docs/old.md",
        "artifact": "wiki:revenue",
        "action": "removed",
        "reason": "its file is gone",
    }
    assert "docs/old.md: wiki:revenue, sl:shop/orders" in run.ok("eviction_list")
    assert "still exists" in run.refused("emit_eviction_decision", **decision)
    run.ok("wiki_remove", key="revenue")
    run.ok("emit_eviction_decision", **decision)
    run.ok("emit_eviction_decision", **{**decision, "reason": "better said"})
    run.ok("emit_eviction_decision", **{**decision, "artifact": "sl:shop/orders", "action": "kept"})
    assert [(each.artifact, each.reason) for each in run.session.records.evictions] == [
        ("wiki:revenue", "better said"),
        ("sl:shop/orders", "its file is gone"),
    ]
    assert "wiki:revenue (decided)" in run.ok("eviction_list")


@pytest.mark.table(
    ("tool", "arguments", "told"),
    [
        (
            "emit_eviction_decision",
            {"raw_path": "docs/a.md", "artifact": "wiki:a", "action": "kept"},
            "was not deleted",
        ),
        (
            "emit_eviction_decision",
            {"raw_path": "docs/old.md", "artifact": "wiki:x", "action": "kept"},
            "was not made from",
        ),
        (
            "emit_artifact_resolution",
            {"raw_path": "docs/x.md", "artifact": "wiki:a", "into": "wiki:b", "kind": "merged"},
            "is not a raw file of this run",
        ),
        (
            "emit_artifact_resolution",
            {"raw_path": "docs/b.md", "artifact": "wiki:a", "into": "wiki:a", "kind": "merged"},
            "cannot be combined with itself",
        ),
        (
            "emit_artifact_resolution",
            {"raw_path": "docs/b.md", "artifact": "wiki:a", "into": "wiki:invented", "kind": "merged"},
            "does not exist: name",
        ),
    ],
)
def test_decisions_that_cannot_be(tool: str, arguments: dict[str, Any], told: str, shop: Callable[..., Any]) -> None:
    made = _run(shop)
    assert told in made.refused(tool, **arguments, reason="r")
    assert unresolved_failures(made.session, made.calls) == ()


def test_a_resolution_of_duplicates_is_noted_once_and_contradictions_have_a_tool_of_their_own(run: Any) -> None:
    conflict = {"kind": "near_duplicate", "artifact": "wiki:a", "detail": "d", "flagged_for_human": True}
    assert "a person will review it" in run.ok("emit_conflict_resolution", **conflict)
    run.ok("emit_conflict_resolution", **conflict)
    (made,) = run.session.records.conflicts
    assert made.flagged
    assert run.call("emit_conflict_resolution", **{**conflict, "kind": "definitional_contradiction"}).is_error


def test_a_resolution_is_noted_once(run: Any) -> None:
    for _ in range(2):
        run.ok(
            "emit_artifact_resolution",
            raw_path="docs/b.md",
            artifact="wiki:refund",
            into="wiki:revenue",
            kind="merged",
            reason="the same",
        )
    assert len(run.session.records.resolutions) == 1


def test_a_write_over_a_whole_run_comes_from_the_files_it_names(run: Any) -> None:
    run.ok("wiki_write", key="a", summary="s", content="c")
    run.ok("wiki_write", key="b", summary="s", content="c", raw_paths=["docs/a.md"])
    assert [each.raw_paths for each in run.session.actions] == [(), ("docs/a.md",)]
