"""Searching overlays: each sees its own writes and no other's, whether there is an index or not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.search import searcher as views
from ktx_cli.search.corpus import Contents, Layer, Pages, Scope
from ktx_cli.search.searcher import Searcher, refresh
from ktx_cli.semantic.load.load import load_tree

THREADS, ROUNDS = 8, 6
ORDERS = "name: orders\ntable: orders\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n"


def measure(name: str) -> str:
    return f"{ORDERS}measures:\n  - {{name: {name}, expr: sum(id)}}\n"


class Project:
    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / ".ktx" / "search.sqlite"
        self.path.parent.mkdir()
        self.loads = 0
        files = {f"wiki/global/page-{n}.md": f"# Page {n}\n\nShared words and number {n}.\n" for n in range(20)}
        for path, text in {**files, "semantic-layer/shop/orders.yaml": measure("revenue")}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

    def contents(self) -> Contents:
        def load(tree: object) -> object:
            self.loads += 1
            return load_tree(tree, "shop", "sqlite")  # type: ignore[arg-type]

        layer = Layer(self.root, "shop", "sqlite", load)  # type: ignore[arg-type]
        return Contents([Pages(self.root), layer])

    def searcher(self) -> Searcher:
        return Searcher(self.path, self.contents, WorkingTree(self.root), look_seconds=0)

    def refresh(self) -> None:
        refresh(self.path, self.contents(), WorkingTree(self.root))


@pytest.fixture(params=["an index", "no index", "an old index"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    made = Project(tmp_path)
    if request.param != "no index":
        made.refresh()
    if request.param == "an old index":
        (tmp_path / "wiki/global/page-1.md").write_text("# Page 1\n\nRewritten.\n")
        (tmp_path / "wiki/global/page-2.md").unlink()
        (tmp_path / "wiki/global/late.md").write_text("# Late\n\nShared words.\n")
    return made


def ids(searcher: Searcher, overlay: Workspace, query: str, limit: int = 50) -> list[str]:
    return [hit.id for hit in searcher.search_tree(overlay, query, Scope(), limit).found.hits]


@pytest.mark.one_in(3)
def test_eight_loops_at_once_see_their_own_writes_and_no_others(project: Project) -> None:
    run = Workspace(WorkingTree(project.root))
    run.write("wiki/global/of-the-run.md", "# Of the run\n\nEvery loop begins with it: sesquipedalian.\n")
    searcher = project.searcher()
    start = threading.Barrier(THREADS)
    before = sorted(ids(project.searcher(), run, "shared words"))

    def loop(number: int) -> None:
        overlay = run.child()
        start.wait()
        for turn in range(ROUNDS):
            overlay.write(f"wiki/global/own-{number}-{turn}.md", f"# Own\n\nmarker{number}x{turn} of mine.\n")
            overlay.write("semantic-layer/shop/orders.yaml", measure(f"takings{number}x{turn}"))
            overlay.delete(f"wiki/global/page-{number + 5}.md")
            assert ids(searcher, overlay, f"marker{number}x{turn}") == [f"own-{number}-{turn}"]
            assert ids(searcher, overlay, f"takings{number}x{turn}")[0] == f"orders.takings{number}x{turn}"
            assert ids(searcher, overlay, "sesquipedalian") == ["of-the-run"]
            assert f"page-{number + 5}" not in ids(searcher, overlay, "shared words")
            assert "orders.revenue" not in ids(searcher, overlay, "revenue")
            other = (number + 1) % THREADS
            assert not {f"own-{other}-{turn}", "orders.revenue"} & set(ids(searcher, overlay, f"marker{other}x{turn}"))

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(loop, number) for number in range(THREADS)]:
            done.result()
    assert sorted(ids(searcher, run, "shared words")) == before


def test_an_overlay_is_found_as_the_same_files_on_a_disk(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = Workspace(WorkingTree(project.root))
    run.write("wiki/global/a.md", "# A\n\nFirst words.\n")
    child = run.child()
    child.write("wiki/global/b.md", "# B\n\nSecond words.\n")
    child.write("wiki/global/a.md", "# A\n\nChanged words.\n")
    child.write("semantic-layer/shop/orders.yaml", measure("takings"))
    child.delete("wiki/global/page-7.md")
    child.write("wiki/global/page-8.md", child.read("wiki/global/page-8.md") or b"")
    root = tmp_path_factory.mktemp("disk")
    for path in child.paths(""):
        if not path.startswith(".ktx"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(child.read(path) or b"")
    (root / ".ktx").mkdir()
    disk = Searcher(
        root / ".ktx/search.sqlite",
        lambda: Contents([Pages(root), Layer(root, "shop", "sqlite", lambda tree: load_tree(tree, "shop", "sqlite"))]),
        WorkingTree(root),
    )
    searcher = project.searcher()
    for query in ("words", "number", "takings", "orders", "first", "changed", "page"):
        assert sorted(ids(searcher, child, query)) == sorted(hit.id for hit in disk.search(query, limit=50).found.hits)


def test_what_loops_begin_with_is_read_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    compare = views.behind

    def behind(*args: Any) -> set[str]:
        looks.append(1)
        return compare(*args)

    monkeypatch.setattr(views, "behind", behind)
    run = Workspace(WorkingTree(project.root))
    run.write("wiki/global/of-the-run.md", "# Of the run\n\nWords.\n")
    searcher = project.searcher()
    for number in range(5):
        child = run.child()
        child.write(f"wiki/global/own-{number}.md", "# Own\n\nWords.\n")
        assert f"own-{number}" in ids(searcher, child, "own")
    assert looks == [1]
    assert project.loads <= 2, "once for an index, once for all loops"
    merged = run.child()
    for number in range(5):
        merged.write(f"wiki/global/own-{number}.md", "# Own\n\nWords.\n")
    assert len([each for each in ids(searcher, merged.child(), "own") if each.startswith("own-")]) == 5
    assert looks == [1], "an overlay on merged ones is made from what is known"
    assert project.loads <= 2


def test_an_index_written_meanwhile_is_taken_up(project: Project) -> None:
    run = Workspace(WorkingTree(project.root))
    run.write("wiki/global/own.md", "# Own\n\nWords of mine.\n")
    searcher = project.searcher()
    before = ids(searcher, run, "own page words")
    (project.root / "wiki/global/own.md").write_text("# Own\n\nWords of mine.\n")
    project.refresh()
    assert sorted(ids(searcher, run, "own page words")) == sorted(before)


def test_internal_columns_are_found_by_those_who_ask_for_them(project: Project) -> None:
    hidden = (
        "  - {name: margin, type: number, visibility: internal}\n  - {name: card, type: string, visibility: hidden}\n"
    )
    run = Workspace(WorkingTree(project.root))
    run.write("semantic-layer/shop/orders.yaml", ORDERS + hidden)
    searcher = project.searcher()

    def found(query: str, scope: Scope) -> list[str]:
        return [hit.id for hit in searcher.search_tree(run, query, scope).found.hits]

    for query in ("margin", "card", "margni"):
        assert found(query, Scope()) == []
        assert searcher.search_tree(run, query).found.corrected == {}
    assert found("margin", Scope(internal=True)) == ["orders.margin"]
    assert found("card", Scope(internal=True)) == []
