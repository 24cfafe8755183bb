"""The contract of sources notices a source that breaks it, rule by rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import SourceError
from ktx_cli.documents import Snapshot, WorkUnit
from ktx_cli.sources import Conclusion, Projection
from ktx_cli.sources.documents.source import DocumentsSource
from ktx_cli.testing.source_contract import SHARD, SourceCase, SourceContract, Subject

numbers = itertools.count()


class Fetches(DocumentsSource):
    """A source whose fetch is changed by `edit`."""

    def __init__(self, edit: Callable[[Any, Any, Snapshot], Snapshot]) -> None:
        self.edit = edit

    def fetch(self, entry: Any, context: Any) -> Snapshot:
        return self.edit(self, context, super().fetch(entry, context))


def with_file(context: Any, found: Snapshot, content: bytes) -> Snapshot:
    return replace(found, files={**found.files, "z.md": context.raw.put("z.md", content)})


class Swallows(DocumentsSource):
    def fetch(self, entry: Any, context: Any) -> Snapshot:
        try:
            return super().fetch(entry, context)
        except SourceError:
            return Snapshot({})


class FailsWithoutHint(DocumentsSource):
    def fetch(self, entry: Any, context: Any) -> Snapshot:
        try:
            return super().fetch(entry, context)
        except SourceError as error:
            raise SourceError(error.message) from None


class NeverStops(DocumentsSource):
    def fetch(self, entry: Any, context: Any) -> Snapshot:
        return super().fetch(entry, replace(context, stopped=lambda: False))


class WritesToDisk(DocumentsSource):
    def fetch(self, entry: Any, context: Any) -> Snapshot:
        (context.layout.root / "notes.txt").write_text("x")
        return super().fetch(entry, context)


class Projects(DocumentsSource):
    """A source that writes `texts` one after another."""

    def __init__(self, path: str, text: Callable[[str], str], *, named: bool = True) -> None:
        self.path, self.text, self.named = path, text, named

    def project(self, entry: Any, snapshot: Snapshot, context: Any) -> Projection:
        before = context.workspace.read_text(self.path) or ""
        context.workspace.write(self.path, self.text(before).encode())
        return Projection({self.path: tuple(snapshot.files)} if self.named else {})


class CutsUnits(DocumentsSource):
    def __init__(self, cut: Callable[[tuple[WorkUnit, ...], Snapshot], tuple[WorkUnit, ...]]) -> None:
        self.cut = cut

    def units(self, entry: Any, snapshot: Snapshot, changes: Any, projection: Any) -> tuple[WorkUnit, ...]:
        return self.cut(super().units(entry, snapshot, changes, projection), snapshot)


class Concludes(DocumentsSource):
    def after_units(self, entry: Any, snapshot: Snapshot, context: Any, evidence: Any) -> Conclusion:
        context.workspace.write("wiki/global/x.md", b"x")
        return Conclusion(pages={"x": "created"})


class UnknownSkill(DocumentsSource):
    skills = ("nothing_of_the_kind",)


PAGE = "wiki/global/words.md"
MUTANTS = {
    "an unknown skill": (UnknownSkill(), "it_names_its_kind_and_skills_that_exist"),
    "a line that is two": (
        type("Two", (DocumentsSource,), {"check": lambda *args: "a\nb"})(),
        "a_check_says_what_is_there_in_one_line",
    ),
    "a fetch in part": (Fetches(lambda s, c, found: replace(found, complete=False)), "a_fetch_is_complete_and_hashed"),
    "a wrong hash": (
        Fetches(lambda s, c, f: replace(f, files={p: replace(r, sha256="0" * 64) for p, r in f.files.items()})),
        "a_fetch_is_complete_and_hashed",
    ),
    "a number in a file": (
        Fetches(lambda s, c, found: with_file(c, found, str(next(numbers)).encode())),
        "a_fetch_of_the_same_is_the_same",
    ),
    "all of it again": (
        Fetches(lambda s, c, found: replace(found, fetched=len(found.files))),
        "the_next_fetch_reads_only_what_changed",
    ),
    "nothing deleted": (Fetches(lambda s, c, found: replace(found, complete=False)), "what_is_removed_is_deleted"),
    "an error swallowed": (Swallows(), "a_source_that_cannot_be_read_fails"),
    "an error without a hint": (FailsWithoutHint(), "a_source_that_cannot_be_read_fails"),
    "no end": (NeverStops(), "a_fetch_that_is_asked_to_end_ends"),
    "a secret in a file": (
        Fetches(lambda s, c, found: with_file(c, found, b"token: hunter2-secret")),
        "no_secret_is_kept",
    ),
    "a secret in the cursor": (
        Fetches(lambda s, c, found: replace(found, cursor="hunter2-secret")),
        "no_secret_is_kept",
    ),
    "a file in the project": (WritesToDisk(), "a_fetch_writes_nothing_into_the_project"),
    "a file it does not name": (
        Projects(PAGE, lambda old: "x", named=False),
        "a_projection_writes_to_its_overlay_alone",
    ),
    "a file of another folder": (Projects("notes.md", lambda old: "x"), "a_projection_writes_to_its_overlay_alone"),
    "a number in what it writes": (
        Projects(PAGE, lambda old: str(next(numbers))),
        "a_projection_is_the_same_for_the_same_input",
    ),
    "more each time": (Projects(PAGE, lambda old: old + "x"), "a_projection_is_the_same_for_the_same_input"),
    "a broken definition": (
        Projects("semantic-layer/warehouse/orders.yaml", lambda old: "name: orders\nmeasures: [{name: a, expr: b}]\n"),
        "a_projection_breaks_no_definition",
    ),
    "over people's text": (Projects(SHARD, lambda old: old.replace("What people", "x")), "what_people_wrote_stays"),
    "one key twice": (CutsUnits(lambda made, s: (*made, *made)), "units_are_the_work_of_what_changed"),
    "files it does not have": (
        CutsUnits(lambda made, s: (*made, WorkUnit("x", "x", ("gone.md",)))),
        "units_are_the_work_of_what_changed",
    ),
    "a document left out": (CutsUnits(lambda made, s: made[1:]), "units_are_the_work_of_what_changed"),
    "work for nothing": (
        CutsUnits(lambda made, s: (*made, WorkUnit("x", "x", (next(iter(s.files)),)))),
        "units_are_the_work_of_what_changed",
    ),
    "a page of nothing": (Concludes(), "nothing_follows_from_no_evidence"),
}


def passes(source: DocumentsSource, rule: str, folder: Path) -> bool:
    """Return whether a rule holds for a source of documents in an empty folder."""
    documents = folder / "handbook"
    documents.mkdir()
    (documents / "a.md").write_text("# A\n")
    (documents / "b").mkdir()
    (documents / "b" / "b.md").write_text("# B\n")
    case = SourceCase(
        {"driver": "documents", "path": str(documents)},
        change=lambda: (documents / "a.md").write_text("# C\n"),
        remove=(documents / "a.md").unlink,
        breaks=lambda: documents.rename(folder / "moved"),
        source=source,
        secrets=("hunter2-secret",),
    )
    root = folder / "project"
    root.mkdir()
    given: dict[str, Any] = {"case": case, "tmp_path": folder}
    test = getattr(SourceContract(), f"test_{rule}")
    wanted = test.__func__.__code__.co_varnames[1 : test.__func__.__code__.co_argcount]
    try:
        test(Subject(case, root), **{name: given[name] for name in wanted if name in given})
    except (AssertionError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize("name", MUTANTS)
def test_it_notices(name: str, tmp_path: Path) -> None:
    source, rule = MUTANTS[name]
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    assert passes(DocumentsSource(), rule, tmp_path / "right")
    assert not passes(source, rule, tmp_path / "wrong")
