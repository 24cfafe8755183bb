"""What gates are told: of touched pages everything, of others what the change broke."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ktx_cli.project.layout import Tree, WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.model import Model
from ktx_cli.wiki.check import check_pages
from ktx_cli.wiki.store import backlinks, load_graph, load_wiki

MakeTree = Callable[[Mapping[str, str | bytes]], Tree]
PageText = Callable[..., str]
Models = dict[str, Model]


def told(tree: Tree, models: Models, *touched: str, **more: object) -> list[tuple[str, str]]:
    found = check_pages(tree, models, touched, **more)  # type: ignore[arg-type]
    return [(each.path.rpartition("/")[2], each.code) for each in found]


def path(key: str) -> str:
    return f"wiki/global/{key}.md"


def test_a_page_with_nothing_wrong(tree: MakeTree, models: Models, page_text: PageText) -> None:
    body = "See [[b]], [[a]], [[JSON]], `orders.revenue` and `table:orders`.\n"
    files = tree({"a": page_text(body, "refs: [b]", "sl_refs: [orders.revenue]"), "b": page_text()})
    assert check_pages(files, models, [path("a"), path("b"), "ktx.yaml", "raw-sources/x/y.md"]) == []


@pytest.mark.parametrize(
    ("lines", "body", "codes"),
    [
        (["refs: [nothing]"], "", {"dangling_page"}),
        ([], "[[nothing]]", {"dangling_page"}),
        (["refs: [../../secret, '', /etc/passwd, .git/config, 'a b']"], "", {"dangling_page"}),
        (["sl_refs: [nothing]"], "", {"dangling_source"}),
        (["sl_refs: [orders.nothing, other/orders]"], "", {"dangling_entity", "dangling_connection"}),
        (
            [],
            "`orders.nothing` `source:nothing` `table:nothing`",
            {"dangling_entity", "dangling_source", "dangling_table"},
        ),
        ([], "`measure:orders.margin` `segment:orders.paid`", {"dangling_entity"}),
        ([], "`measure:order_lines.margin` `column:orders.amount`", {"dangling_source"}),
        ([], "`product_margin.margin` `np.array` `orders.com` `payload.customer_id` `v1.2.3`", set()),
        (["tags: 3"], "", {"field_type"}),
        (["tags: [a, 2024]"], "", {"field_type"}),
        (["usage_mode: sometimes"], "", {"field_type"}),
        (["sort_order: true"], "", {"field_type"}),
        (["usage: 3", "source: {a: b}"], "", {"field_type"}),
        (["unknown: {a: [1]}", "usage_mode: never", "sort_order: 3", "stale_since:", "tags: one"], "", set()),
    ],
)
def test_what_is_wrong_with_a_page(
    lines: list[str], body: str, codes: set[str], tree: MakeTree, models: Models, page_text: PageText
) -> None:
    found = check_pages(tree({"a": page_text(body, *lines)}), models, [path("a")])
    assert {each.code for each in found} == codes
    assert all(each.hint and each.line > 2 and each.path == path("a") for each in found)


@pytest.mark.parametrize("text", ["Text.\n", "---\ntags: [a]\n---\nText.\n", "---\nsummary: ' '\n---\n"])
def test_a_page_needs_a_summary(text: str, tree: MakeTree, models: Models) -> None:
    assert told(tree({"a": text}), models, path("a")) == [("a.md", "missing_summary")]


def test_a_broken_page_keeps_no_other_from_being_checked(tree: MakeTree, models: Models, page_text: PageText) -> None:
    texts = {
        "a": "---\nx: [\n---\n",
        "b": page_text("[[c]]"),
        "wiki/global/deep/Net Revenue.md": "x",
        "con": page_text(),
    }
    files = tree({**texts, "wiki/global/picture.png": b"\xff"})
    found = check_pages(files, models, files.paths(""))
    assert [(each.path.rpartition("/")[2], each.code) for each in found] == [
        ("a.md", "front_matter"),
        ("b.md", "dangling_page"),
        ("con.md", "key"),
        ("Net Revenue.md", "place"),
    ]
    assert found[-1].message == "not a valid path for a page: pages belong directly in wiki/global/"
    assert found[-1].hint == "move it to wiki/global/deep-net-revenue.md"
    assert sorted(load_wiki(files).problems) == [path("a"), "wiki/global/deep/Net Revenue.md"]


def test_pages_that_refer_to_a_page_that_is_gone(tree: MakeTree, models: Models, page_text: PageText) -> None:
    texts = {
        "gone": page_text(),
        "a": page_text("[[gone]] [[never]]"),
        "b": page_text("", "refs: [gone]"),
        "c": page_text(),
    }
    texts["wiki/user/ada/d.md"] = page_text("[[gone]]")
    texts["wiki/user/ben/gone.md"] = page_text("[[gone]]")
    after = tree({key: text for key, text in texts.items() if key != "gone"})
    expected = [("a.md", "dangling_page"), ("b.md", "dangling_page"), ("d.md", "dangling_page")]
    assert told(after, models, path("gone")) == expected
    assert told(tree(texts), models, path("gone")) == []
    assert [page.key for page in load_graph(tree(texts)).backlinks("gone", "global")] == ["a", "b", "d"]


def test_a_change_of_the_semantic_layer_is_told_for_what_it_broke(
    tree: MakeTree, models: Models, page_text: PageText
) -> None:
    files = tree(
        {
            "a": page_text("`orders.revenue` [[never]]"),
            "b": page_text("", "sl_refs: [orders.revenue, never, crm/customers.nothing]"),
            "c": page_text("`crm/customers.id`"),
        }
    )
    orders = replace(models["warehouse"].sources["orders"], measures={})
    now = {**models, "warehouse": replace(models["warehouse"], sources={"orders": orders})}
    touched = "semantic-layer/warehouse/orders.yaml"
    assert told(files, now, touched, before=models) == [("a.md", "dangling_entity"), ("b.md", "dangling_entity")]
    both = [("a.md", "dangling_entity"), ("b.md", "dangling_entity"), ("b.md", "dangling_source")]
    assert told(files, now, touched) == both
    assert told(files, models, "semantic-layer/crm/customers.yaml", before=models) == []


def test_one_touched_page_reads_no_other_but_those_it_names(
    tree: MakeTree, models: Models, page_text: PageText
) -> None:
    files = tree({"a": page_text("[[b]]"), "b": page_text("[[c]]"), "c": page_text()})
    assert check_pages(files, models, [path("a")]) == []
    assert set(files.reads) == {path("a"), path("b")}  # type: ignore[attr-defined]


def test_a_graph_knows_who_reads_what(tree: MakeTree, models: Models, page_text: PageText) -> None:
    texts = {"a": page_text("[[b]] `orders.amount`"), "b": page_text("`crm/customers.id`"), "c": page_text("[[b]]")}
    graph = load_graph(tree(texts))
    assert [page.key for page in graph.readers("b")] == ["a", "c"]
    assert [page.key for page in graph.layer_readers("crm")] == ["a", "b"]
    assert [page.key for page in graph.layer_readers("warehouse")] == ["a"]
    assert [page.key for page in graph.backlinks("b", "global")] == ["a", "c"]


def test_a_user_s_own_page_takes_their_links(tree: MakeTree, page_text: PageText) -> None:
    mine, hers = "wiki/user/ada/b.md", "wiki/user/ada/x.md"
    files = tree({"a": page_text("[[b]]"), "b": page_text(), mine: page_text(), hers: page_text("[[b]]")})
    wiki = load_wiki(files)
    assert [page.path for page in backlinks(files, wiki.pages[path("b")])] == [path("a")]
    assert [page.path for page in backlinks(files, wiki.pages[mine])] == [hers]


def test_what_a_user_sees(tree: MakeTree, page_text: PageText) -> None:
    texts = {
        "a": page_text("", "tags: [x, y]"),
        "b": page_text("", "tags: [x]"),
        "wiki/user/ada/b.md": page_text("Mine."),
    }
    texts["wiki/user/ben/c.md"] = page_text()
    wiki = load_wiki(tree(texts))
    assert [page.path for page in wiki.seen_from()] == [path("a"), path("b")]
    assert [page.path for page in wiki.seen_from("user/ada")] == [path("a"), "wiki/user/ada/b.md"]
    assert wiki.tags() == {"x": 2, "y": 1}
    assert wiki.tags("user/ada") == {"x": 1, "y": 1}
    assert wiki.get("c") is None
    seen = wiki.get("b", "user/ada")
    assert seen is not None and seen.body == "Mine."


def test_references_never_lead_out_of_the_wiki(tmp_path: Path, models: Models, page_text: PageText) -> None:
    (tmp_path / "secret.md").write_text("x")
    (tmp_path / "wiki/global").mkdir(parents=True)
    (tmp_path / "wiki/global/a.md").write_text(page_text("", "refs: [../../secret]"))
    (tmp_path / "wiki/global/folder.md").mkdir()
    disk = WorkingTree(tmp_path)
    for files in (disk, Workspace(disk)):
        assert told(files, models, path("a")) == [("a.md", "dangling_page")]
    assert told(disk, models, path("a"), path("folder")) == [("a.md", "dangling_page"), ("folder.md", "unreadable")]
    assert list(load_wiki(disk).pages) == [path("a")]
