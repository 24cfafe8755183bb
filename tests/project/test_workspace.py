"""The overlay: what it shows, what it has changed, how children merge back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.merge import Conflict
from ktx_cli.project.workspace import Workspace, checked_path

FULL = bool(os.environ.get("KTX_TEST_FULL"))


class Tree:
    """A base tree in a dict that counts what it is asked."""

    def __init__(self, **files: str) -> None:
        self.files = {path.replace("__", "/"): content.encode() for path, content in files.items()}
        self.listed = 0

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def paths(self, prefix: str) -> Iterable[str]:
        self.listed += 1
        return [path for path in reversed(self.files) if path.startswith(prefix)]


def workspace(files: dict[str, str] | None = None) -> Workspace:
    tree = Tree()
    tree.files = {path: content.encode() for path, content in (files or {}).items()}
    return Workspace(tree)


def test_an_overlay_shows_the_base_and_what_was_changed() -> None:
    here = workspace({"wiki/a.md": "A", "wiki/b.md": "B", "wikis.md": "C"})
    here.write("wiki/c.md", "é")
    here.delete("wiki/a.md")
    here.write("wiki/b.md", b"B2")
    assert here.read("wiki/c.md") == "é".encode() and here.read_text("wiki/c.md") == "é"
    assert here.read("wiki/a.md") is None and here.read_text("wiki/a.md") is None
    assert [here.exists(path) for path in ("wiki/a.md", "wiki/b.md", "wiki/c.md", "wiki")] == [False, True, True, False]
    assert here.paths() == ("wiki/b.md", "wiki/c.md", "wikis.md")
    assert here.paths("wiki/") == ("wiki/b.md", "wiki/c.md")
    assert list(here.changes().items()) == [("wiki/a.md", None), ("wiki/b.md", b"B2"), ("wiki/c.md", "é".encode())]


def test_changes_are_only_what_differs() -> None:
    here = workspace({"a": "A", "b": "B"})
    here.write("a", "A")
    here.delete("nothing")
    here.write("b", "x")
    here.write("b", "B")
    assert here.changes() == {}
    here.write("a", "x")
    here.write("c", "x")
    here.drop("a")
    here.drop("c")
    here.drop("never")
    assert here.changes() == {} and here.read("a") == b"A" and here.read("c") is None


def test_changes_are_applied_as_writes_and_deletions() -> None:
    overlay = Workspace(Tree(a="A", b="B"))
    overlay.apply({"a": None, "b": "new", "c/d": b"bytes"})
    assert overlay.changes() == {"a": None, "b": b"new", "c/d": b"bytes"}
    other = Workspace(Tree(a="A", b="B"))
    other.apply(overlay.changes())
    assert other.changes() == overlay.changes()
    with pytest.raises(UsageError):
        other.apply({"c": "a file where a folder is"})


def test_the_base_is_listed_once() -> None:
    tree = Tree(a__b="1", c="2")
    here = Workspace(tree)
    for number in range(50):
        here.write(f"x/{number}", "1")
        here.child().write(f"y/{number}", "1")
        here.paths("x/")
    assert tree.listed == 1


@pytest.mark.table(
    ("path", "form"),
    [("a", "a"), ("a/b.md", "a/b.md"), ("./a//b/./c", "a/b/c"), ("a b/é.md", "a b/é.md"), (".gitignore", ".gitignore")],
)
def test_paths_have_one_form(path: str, form: str) -> None:
    assert checked_path(path) == form
    here = workspace()
    here.write(path, "x")
    assert list(here.changes()) == [form] and here.read(path) == b"x" and here.exists(path)
    here.drop(path)
    assert not here.exists(path)


@pytest.mark.table(
    "path",
    [
        *["", ".", "/", "a/", "a/.", "/etc/passwd", "..", "../a", "a/../b", "a/..", "a\\b", "..\\a", "a\x00b", "a\nb"],
        *[
            ".git",
            ".git/config",
            "a/.GIT/x",
            ".git./x",
            ".git /x",
            ".g\u200cit/x",
            "GIT~1/config",
            ".git::$DATA/x",
            "\ud800",
        ],
    ],
)
def test_paths_that_are_refused(path: str) -> None:
    here = workspace()
    for call in (here.read, here.read_text, here.exists, here.delete, here.drop, lambda p: here.write(p, "x")):
        with pytest.raises(UsageError, match="the path"):
            call(path)
    assert here.changes() == {}


def test_text_that_is_none() -> None:
    here = workspace()
    here.write("a", b"ok \xff")
    with pytest.raises(ConfigError, match=r"a is not UTF-8 text \(byte 3\)"):
        here.read_text("a")


def test_a_file_cannot_stand_where_a_folder_is() -> None:
    here = workspace({"a/b": "1", "c": "2"})
    here.write("d/e", "x")
    for path, clash in (("a", "a/b"), ("c/x", "c"), ("c/x/y", "c"), ("d", "d/e"), ("d/e/f", "d/e")):
        with pytest.raises(UsageError, match=f"{path} cannot be written: {clash} is in the way"):
            here.write(path, "x")
        with pytest.raises(UsageError, match="in the way"):
            here.child().write(path, "x")
    here.delete("a/b")
    here.write("a", "now a file")
    here.drop("d/e")
    here.write("d", "x")
    here.delete("c")
    here.write("c/x", "x")
    assert here.paths() == ("a", "c/x", "d")


def test_a_child_sees_the_parent_as_it_was() -> None:
    here = workspace({"a": "1", "b": "1"})
    here.write("a", "2")
    here.delete("b")
    child = here.child()
    here.write("a", "3")
    here.write("c", "3")
    assert (child.read("a"), child.read("b"), child.paths()) == (b"2", None, ("a",))
    assert child.changes() == {}
    child.write("a", "4")
    assert (here.read("a"), child.changes()) == (b"3", {"a": b"4"})
    grandchild = child.child()
    child.write("a", "5")
    assert grandchild.read("a") == b"4" and grandchild.paths() == ("a",)


def test_absorb_merges_file_by_file() -> None:
    base = "# c\nname: o\nmeasures:\n  - name: a # A\n    expr: 1\n"
    here = workspace({"o.yaml": base, "keep": "k", "gone": "g"})
    one, two = here.child(), here.child()
    one.write("o.yaml", base + "  - name: b\n    expr: 2\n")
    one.delete("gone")
    two.write("o.yaml", base.replace("expr: 1", "expr: 3") + "  - name: c\n    expr: 2\n")
    two.write("new", "n")
    assert here.absorb(one) == () and here.absorb(two) == ()
    assert here.read_text("o.yaml") == (
        "# c\nname: o\nmeasures:\n  - name: a # A\n    expr: 3\n  - name: c\n    expr: 2\n  - name: b\n    expr: 2\n"
    )
    assert here.paths() == ("keep", "new", "o.yaml")
    assert here.absorb(one) == () and here.paths() == ("keep", "new", "o.yaml")


def test_with_a_conflict_nothing_is_taken() -> None:
    here = workspace({"a.yaml": "x: 1\n", "b.md": "1\n", "c": "1"})
    child = here.child()
    for path, text in (("a.yaml", "x: 2\n"), ("b.md", "2\n"), ("c", "2"), ("d", "new")):
        child.write(path, text)
    here.write("a.yaml", "x: 3\n")
    here.write("b.md", "3\n")
    before = here.changes()
    assert here.absorb(child) == (
        Conflict("a.yaml", "x", "both sides changed it differently"),
        Conflict("b.md", "", "both sides changed the same lines"),
    )
    assert here.changes() == before
    here.drop("a.yaml")
    assert here.absorb(child, text_merge=lambda base, ours, theirs: ours + theirs) == ()
    assert here.read("b.md") == b"2\n3\n" and here.read("d") == b"new"


def test_a_file_and_a_folder_of_one_name_are_a_conflict() -> None:
    here = workspace({})
    one, two = here.child(), here.child()
    one.write("a", "file")
    two.write("a/b", "below")
    assert here.absorb(one) == ()
    assert here.absorb(two) == (Conflict("a/b", "", "a is in the way"),)
    assert here.paths() == ("a",)
    here.delete("a")
    assert here.absorb(two) == () and here.paths() == ("a/b",)


PATHS = st.sampled_from(["a", "b.yaml", "f/a", "f/b", "f/g/a", "h/a.yaml", "f", "h"])
CONTENTS = st.sampled_from([b"", b"1", b"x: 1\n", b"x: 2\n", b"x: 1\ny: 2\n"])
PREFIXES = st.sampled_from(["", "f/", "f", "h/", "b", "zz"])


class Overlays(RuleBasedStateMachine):
    """Overlays against dicts: each has (the files it began with, the files now)."""

    overlays = Bundle("overlays")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[Workspace, dict[str, bytes], dict[str, bytes]]] = []

    @initialize(target=overlays, files=st.dictionaries(st.sampled_from(["a", "f/a", "h/a.yaml", "k"]), CONTENTS))
    def begin(self, files: dict[str, bytes]) -> Any:
        tree = Tree()
        tree.files = dict(files)
        return self.keep(Workspace(tree), files)

    def keep(self, here: Workspace, files: dict[str, bytes]) -> Any:
        entry = (here, dict(files), dict(files))
        self.all.append(entry)
        return entry

    @rule(entry=overlays, path=PATHS, content=CONTENTS)
    def write(self, entry: Any, path: str, content: bytes) -> None:
        here, _, now = entry
        if any(other.startswith(path + "/") or path.startswith(other + "/") for other in now):
            with pytest.raises(UsageError):
                here.write(path, content)
        else:
            here.write(path, content)
            now[path] = content

    @rule(entry=overlays, path=PATHS)
    def delete(self, entry: Any, path: str) -> None:
        entry[0].delete(path)
        entry[2].pop(path, None)

    @rule(entry=overlays, path=PATHS)
    def drop(self, entry: Any, path: str) -> None:
        here, base, now = entry
        rest = [other for other in now if other != path]
        if path in base and any(other.startswith(path + "/") or path.startswith(other + "/") for other in rest):
            with pytest.raises(UsageError):
                here.drop(path)
            return
        here.drop(path)
        now.pop(path, None)
        if path in base:
            now[path] = base[path]

    @rule(target=overlays, entry=overlays)
    def child(self, entry: Any) -> Any:
        return self.keep(entry[0].child(), entry[2])

    @rule(entry=overlays, prefix=PREFIXES)
    def list_paths(self, entry: Any, prefix: str) -> None:
        assert entry[0].paths(prefix) == tuple(sorted(path for path in entry[2] if path.startswith(prefix)))

    @rule(parent=overlays, child=consumes(overlays))
    def absorb(self, parent: Any, child: Any) -> None:
        here, _, now = parent
        before = dict(now)
        changes = child[0].changes()
        conflicts = here.absorb(child[0])
        after = {path: here.read(path) for path in here.paths()}
        if conflicts:
            assert after == before
        else:
            for path, content in changes.items():
                if now.get(path) == child[1].get(path):  # nothing was changed here
                    assert after.get(path) == content
            assert {path: after.get(path) for path in before if path not in changes} == {
                path: content for path, content in before.items() if path not in changes
            }
        assert [conflict.path for conflict in conflicts] == sorted(conflict.path for conflict in conflicts)
        now.clear()
        now.update(after)

    @invariant()
    def agrees(self) -> None:
        for here, base, now in self.all:
            assert {path: here.read(path) for path in here.paths()} == now
            assert all(here.exists(path) for path in now)
            changed = {path for path in {*base, *now} if base.get(path) != now.get(path)}
            assert here.changes() == {path: now.get(path) for path in sorted(changed)}


Overlays.TestCase.settings = settings(max_examples=400 if FULL else 15, stateful_step_count=30, deadline=None)
TestOverlays = Overlays.TestCase


def test_a_definition_with_an_unusable_name_is_read_and_other_files_are_not_there() -> None:
    odd = {f"semantic-layer/shop/p{each}.yaml": b"policies: []" for each in ("\udcff", "\\", "\n")}
    pages = {f"wiki/global/p{each}.md": b"# P" for each in ("\udcff", "\\", "\n")}

    class Base(EmptyTree):
        def read(self, path: str) -> bytes | None:
            return {**odd, **pages}.get(path)

        def paths(self, prefix: str) -> list[str]:
            return [path for path in {**odd, **pages} if path.startswith(prefix)]

    workspace = Workspace(Base())
    assert {path: workspace.read(path) for path in workspace.paths()} == odd
    for path in (*odd, *pages, "semantic-layer/shop/other\\.yaml"):
        with pytest.raises(UsageError):
            workspace.write(path, b"x")
    for path in (*pages, "semantic-layer/shop/other\\.yaml"):
        with pytest.raises(UsageError):
            workspace.read(path)
