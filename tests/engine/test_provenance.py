"""What became of artifacts in a run, and what the deliveries of all sources say of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine.provenance import (
    earlier_texts,
    keep_texts,
    origins,
    reconciled_by,
    rewrite_deliveries,
    what_became,
    with_shared_files,
)
from ktx_cli.engine.reconciliation import decided_evictions
from ktx_cli.engine.source_phase import _delivery
from ktx_cli.engine.work import Became, Reconciliation, SourceWork, UnitOutcome, UnitStatus
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.sources import Delivery, FileState, FileStatus, RawStore, parse_delivery, render_delivery

PAGE = b"---\nsummary: s\n---\n\nText.\n"


def raw(path: str) -> RawFile:
    return RawFile(path, f"sha of {path}", 1, lambda: b"x")


class Documents:
    kind = "files"


def work(connection: str, *paths: str, known: dict[str, tuple[str, ...]] | None = None, **fields: Any) -> SourceWork:
    """Return a source with these files; `known`: file -> the artifacts an earlier run made of it."""
    states = {path: FileState(f"sha of {path}", artifacts=names) for path, names in (known or {}).items()}
    deleted = tuple(sorted(set(states) - set(paths)))
    return SourceWork(
        connection,
        None,
        Documents(),  # type: ignore[arg-type]
        Delivery(states),
        Snapshot({path: raw(path) for path in paths}),
        Changes(deleted=deleted),
        **fields,
    )


def action(kind: str, key: str, *raw_paths: str) -> dict[str, Any]:
    page = {"target": "wiki", "kind": kind, "key": key, "connection": None}
    return {**page, "raw_paths": list(raw_paths), "detail": ""}


def merge(artifact: str, into: str, kind: str = "merged") -> dict[str, Any]:
    return {"raw_path": "docs/a.md", "artifact": artifact, "into": into, "kind": kind, "reason": "r"}


def unit(*actions: dict[str, Any], status: UnitStatus = UnitStatus.DONE, **records: Any) -> UnitOutcome:
    session = {"actions": list(actions), "records": records}
    return UnitOutcome("docs", "files", WorkUnit("u", "u", ("a.md",)), status, session=session)


def tree(*pages: str, without: tuple[str, ...] = ()) -> Workspace:
    base = Workspace(EmptyTree())
    base.apply({f"wiki/global/{key}.md": PAGE for key in (*pages, *without)})
    after = base.child()
    for key in without:
        after.delete(f"wiki/global/{key}.md")
    return after


def test_what_was_removed_and_merged_over_the_whole_run() -> None:
    units = [
        unit(action("removed", "old", "a.md"), resolutions=[merge("wiki:twin", "wiki:page")]),
        unit(action("removed", "page"), status=UnitStatus.FAILED),
    ]
    reconciliation = Reconciliation(session={"actions": [action("removed", "twin")]}, steps=1)
    became = what_became(units, tree("page", without=("old", "twin", "other")), reconciliation)
    assert became.removed == {"wiki:old", "wiki:twin", "wiki:other"}
    assert became.of(["wiki:twin", "wiki:old", "wiki:else"]) == {"wiki:page", "wiki:else"}
    failed = Reconciliation(session={"actions": [action("removed", "twin")]}, steps=1, problem="wrong")
    assert what_became([], tree("page", "twin"), failed) == Became()


@pytest.mark.table(
    ("records", "left"),
    [
        ([merge("wiki:a", "wiki:b"), merge("wiki:b", "wiki:c")], {"wiki:c"}),
        ([merge("wiki:a", "wiki:b", "subsumed")], set()),
        ([merge("wiki:a", "wiki:invented")], set()),
        ([merge("wiki:a", "wiki:b"), merge("wiki:b", "wiki:a")], set()),
    ],
)
def test_merges_are_followed(records: list[dict[str, Any]], left: set[str]) -> None:
    became = what_became([unit(resolutions=records)], tree("c", without=("a", "b")))
    assert became.of(["wiki:a"]) == left


def test_a_page_that_reconciliation_wrote_comes_of_the_files_of_every_source_it_names() -> None:
    written = action("updated", "margin", "dbt/models/docs.md", "docs/glossary.md", "docs/gone.md")
    reconciliation = Reconciliation(session={"actions": [written, action("removed", "twin", "docs/a.md")]}, steps=1)
    works = [work("dbt", "models/docs.md"), work("docs", "glossary.md", "a.md")]
    assert [reconciled_by(reconciliation, each) for each in works] == [
        {"wiki:margin": ("models/docs.md",)},
        {"wiki:margin": ("glossary.md",)},
    ]
    own = work("docs", "glossary.md", reconciled={"wiki:margin": ("glossary.md",)})
    assert _delivery(own).files["glossary.md"].artifacts == ("wiki:margin",)


def test_a_merged_page_takes_the_place_of_the_one_that_went_in_every_state() -> None:
    became = Became(frozenset({"wiki:twin"}), {"wiki:twin": frozenset({"wiki:page"})})
    known = {"a.md": ("wiki:twin", "wiki:x"), "gone.md": ("wiki:twin",)}
    made = _delivery(work("docs", "a.md", known=known, became=became))
    assert {path: state.artifacts for path, state in made.files.items()} == {
        "a.md": ("wiki:page", "wiki:x"),
        "gone.md": ("wiki:page",),
    }


def test_sources_that_were_not_read_are_rewritten_too() -> None:
    workspace = tree("page", without=("twin",))
    path = "raw-sources/dbt/dbt/manifest.yaml"
    delivery = Delivery({"m.md": FileState("1", artifacts=("wiki:twin",)), "n.md": FileState("2")}, projected="p")
    other = "raw-sources/notes/files/manifest.yaml"
    workspace.apply({path: render_delivery(delivery), other: b"version: 9 # wiki:twin\n"})
    became = Became(frozenset({"wiki:twin"}), {"wiki:twin": frozenset({"wiki:page"})})
    rewrite_deliveries(workspace, became, ())
    after = parse_delivery(workspace.read(path), path)
    assert (after.files["m.md"].artifacts, after.projected) == (("wiki:page",), "p")
    assert workspace.read(other) == b"version: 9 # wiki:twin\n"


def decision(path: str, artifact: str, kind: str = "kept") -> dict[str, Any]:
    return {"raw_path": f"docs/{path}", "artifact": artifact, "action": kind, "reason": "r"}


@pytest.mark.table(
    ("decisions", "became", "left"),
    [
        ((), Became(), {"gone.md": ("wiki:a", "wiki:b")}),
        ((decision("gone.md", "wiki:a"),), Became(), {"gone.md": ("wiki:b",)}),
        ((decision("gone.md", "wiki:a"), decision("gone.md", "wiki:b")), Became(), {}),
        ((decision("gone.md", "wiki:a"),), Became(frozenset({"wiki:b"})), {}),
        (
            (decision("gone.md", "wiki:a"),),
            Became(frozenset({"wiki:b"}), {"wiki:b": frozenset({"wiki:c"})}),
            {"gone.md": ("wiki:c",)},
        ),
        ((decision("gone.md", "wiki:a"),), Became(frozenset({"wiki:b"}), {"wiki:b": frozenset({"wiki:a"})}), {}),
    ],
)
def test_the_next_run_asks_only_for_what_is_undecided(
    decisions: tuple[dict[str, Any], ...], became: Became, left: dict[str, tuple[str, ...]]
) -> None:
    source = work("docs", known={"gone.md": ("wiki:a", "wiki:b")}, became=became)
    reconciliation = Reconciliation(session={"records": {"evictions": list(decisions)}}, steps=1)
    evicted, warnings = decided_evictions(source, reconciliation, became)
    made = _delivery(work("docs", known={"gone.md": ("wiki:a", "wiki:b")}, became=became, evicted=evicted))
    assert {path: state.artifacts for path, state in made.files.items()} == left
    assert bool(warnings) is bool(left)
    failed = Reconciliation(problem="wrong", steps=1)
    assert decided_evictions(source, failed, became) == ({}, [])


def test_what_else_an_artifact_comes_of_is_known() -> None:
    works = [work("docs", "a.md", known={"a.md": ("wiki:x",), "gone.md": ("wiki:x", "wiki:y")}), work("dbt", "m.md")]
    made = UnitOutcome("dbt", "files", WorkUnit("u", "u", ("m.md",)), UnitStatus.DONE)
    made = UnitOutcome(
        "dbt", "files", made.unit, UnitStatus.DONE, session={"actions": [action("updated", "x", "m.md")]}
    )
    assert origins(works, [made]) == {"wiki:x": ("dbt/m.md", "docs/a.md")}


def planned(source: SourceWork, *units: WorkUnit) -> SourceWork:
    return replace(source, units=units, asked=True)


def test_a_unit_may_read_the_other_sources_of_its_pages() -> None:
    known = {
        "a.md": ("wiki:x", "sl:shop/orders"),
        "b.md": ("wiki:x",),
        "c.md": ("sl:shop/orders",),
        "d.md": ("wiki:y",),
    }
    docs = planned(work("docs", *known, known=known), WorkUnit("u", "u", ("a.md",), ("e.md",)))
    dbt = work("dbt", "m.md", known={"m.md": ("wiki:x",), "gone.md": ("wiki:x",)})
    after, other = with_shared_files([docs, dbt])
    assert after.units[0].dependencies == ("e.md", "b.md", "dbt/m.md")
    assert after.shared == {"b.md": ("wiki:x",), "dbt/m.md": ("wiki:x",)}
    assert (list(after.beside), other) == (["dbt/m.md"], dbt)


def test_the_earlier_text_of_a_changed_file_is_kept_from_run_to_run(tmp_path: Path) -> None:
    store = RawStore(tmp_path / "raw")

    def text(path: str, content: bytes) -> RawFile:
        return RawFile(path, hashlib.sha256(content).hexdigest(), len(content), lambda: content)

    class OnDisk(Documents):
        def folders(self, entry: Any, root: Path) -> list[Path]:
            return [root]

    def source(content: bytes, before: bytes | None, status: FileStatus = FileStatus.DONE) -> SourceWork:
        files = {"a.md": text("a.md", content)}
        states = {} if before is None else {"a.md": FileState(hashlib.sha256(before).hexdigest(), status)}
        changes = Changes(added=("a.md",)) if before is None else Changes(modified=("a.md",))
        return SourceWork("docs", None, OnDisk(), Delivery(states), Snapshot(files), changes, asked=True)  # type: ignore[arg-type]

    unit_ = WorkUnit("u", "u", ("a.md",))
    keep_texts(store, [source(b"one", None)], tmp_path)
    changed = source(b"two", b"one")
    assert [each.text() for each in earlier_texts(store, changed, unit_).values()] == ["one"]
    assert earlier_texts(store, source(b"two", b"one", FileStatus.FAILED), unit_) == {}, "no agent worked it through"
    assert earlier_texts(store, source(b"two", b"other"), unit_) == {}
    keep_texts(store, [changed], tmp_path)
    assert earlier_texts(store, changed, unit_) == {}, "the text that was replaced is dropped"
    assert [each.text() for each in earlier_texts(store, source(b"three", b"two"), unit_).values()] == ["two"]
