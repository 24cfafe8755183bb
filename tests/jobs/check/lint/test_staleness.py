"""Pages are stale when what they refer to is defined otherwise than when they were committed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ktx_cli.jobs.check.lint.staleness import Target, changes, part_of
from ktx_cli.project.config.file import load_config
from ktx_cli.semantic.guarded import load_layer
from tests.jobs.check.lint.conftest import PAGE, Project

OVERLAY = "semantic-layer/warehouse/orders.yaml"
SHARD = "semantic-layer/warehouse/_schema/shop.yaml"


CHANGED = {
    ("orders", "revenue"): [
        ("sum(amount), desc", "sum(2 * amount), desc", "expr was `sum(amount)`, is `sum(2 * amount)`")
    ],
    ("orders", "mean_paid"): [
        ("filter: status = 'paid'", "filter: status = 'sent'", "filter was `status = 'paid'`, is `status = 'sent'`"),
        ("filter: status = 'paid', ", "", "filter was `status = 'paid'`, is not there"),
        ("filter: status = 'paid'", "segments: [paid]", "segments was not there, is `paid`"),
    ],
    ("orders", "paid"): [("name: paid, expr: status = 'paid'", "name: paid, expr: id > 1", "is `id > 1`")],
    ("orders", "status"): [("status, type: string", "status, type: number", "type was `string`, is `number`")],
    ("orders", None): [
        ("    table: shop.orders", "    table: shop.sold", "table was `shop.orders`, is `shop.sold`"),
        ("{name: id, type: number, pk: true, descriptions: {db", "{name: id, type: number, descriptions: {db", "grain"),
        ("      - {name: status, type: string}\n", "", "column status was removed"),
        ("status, type: string", "status, type: number", "column status was string, is number"),
    ],
}
"""A source and a part of it -> changes of its files, and what is said of each."""


@pytest.mark.table(("target", "change"), [(target, change) for target in CHANGED for change in CHANGED[target]])
def test_what_is_another_in_a_definition_is_said_in_words(
    target: tuple[str, str | None], change: tuple[str, str, str], project: Project
) -> None:
    config = load_config(project.layout.config).config
    old, new, says = change
    then = part_of(load_layer(project.layout, config, "warehouse"), Target("warehouse", *target))
    (path,) = (path for path in (OVERLAY, SHARD) if old in (project.root / path).read_text())
    before = (project.root / path).read_text()
    project.change(path, old, new)
    now = part_of(load_layer(project.layout, config, "warehouse"), Target("warehouse", *target))
    project.write(path, before)
    assert then is not None and now is not None
    assert any(says in each for each in changes(then, now)), list(changes(then, now))
    assert list(changes(now, now)) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        (OVERLAY, "revenue, expr: sum(amount), desc", "revenue, expr: sum(2 * amount), desc",
         "`orders.revenue` was changed since the page was committed"),
        (SHARD, "{name: status, type: string}", "{name: status, type: number}", "`orders.status` was changed"),
        (SHARD, "    table: shop.orders", "    table: shop.new_orders", None),
        (OVERLAY, "What customers paid", "Money", None),
        (OVERLAY, "Of paid orders}", "Of paid orders, filter: id > 1}", None),
        (SHARD, "      - {name: amount", "      - {name: tax, type: number}\n      - {name: amount", None),
    ],
)  # fmt: skip
def test_a_page_is_stale_when_what_it_names_is_defined_otherwise(
    committed: Project, path: str, old: str, new: str, says: str | None
) -> None:
    """A description, another measure, a new column or another table of the source change nothing of what it names."""
    assert committed.found("KTX23") == []
    committed.change(path, old, new)
    found = committed.found("KTX23")
    assert [each.code for each in found] == (["KTX230"] if says else [])
    assert all(says is not None and says in each.message for each in found)
    committed.commit("changed")
    assert committed.found("KTX23") == found


def test_what_changed_is_told_with_the_command_that_shows_it(committed: Project) -> None:
    first = committed.git("rev-parse", "--short=10", "HEAD").strip()
    committed.change(OVERLAY, "revenue, expr: sum(amount), desc", "revenue, expr: sum(2 * amount), desc")
    (found,) = committed.found("KTX230")
    assert "expr was `sum(amount)`, is `sum(2 * amount)`" in found.message
    assert found.hint.endswith(f": git diff {first} -- semantic-layer/warehouse")
    assert str(found.location) == "wiki/global/revenue.md:3"
    assert "+  - {name: revenue, expr: sum(2 * amount)" in committed.git(
        "diff", first, "--", "semantic-layer/warehouse"
    )


def test_a_page_about_a_source_is_stale_when_a_column_of_it_goes(committed: Project) -> None:
    committed.write("wiki/global/orders.md", "---\nsummary: Orders\nsl_refs: [orders]\n---\n\nText.\n")
    committed.commit("page")
    committed.change(SHARD, "      - {name: amount, type: number, descriptions: {ai: What was paid}}\n", "")
    told = {each.location.path: each.message for each in committed.found("KTX230")}
    assert "column amount was removed" in told["wiki/global/orders.md"]


def test_what_is_gone_without_a_trace_is_told_from_history(committed: Project) -> None:
    """`orders.status` names nothing any more once there is no `orders`: the check of references passes over it."""
    committed.change(SHARD, "  orders:", "  sales:")
    committed.change(SHARD, "to: orders, on: id = orders.", "to: sales, on: id = sales.")
    committed.change(OVERLAY, "name: orders", "name: sales")
    found = committed.found("KTX2")
    assert [(each.code, each.location.line) for each in found] == [("KTX202", 3), ("KTX231", 6)]


def test_editing_or_committing_the_page_again_settles_it(committed: Project) -> None:
    committed.change(OVERLAY, "revenue, expr: sum(amount), desc", "revenue, expr: sum(2 * amount), desc")
    assert committed.found("KTX230")
    committed.change("wiki/global/revenue.md", "summary:", "reviewed: '2026-02-03'\nsummary:")
    assert committed.found("KTX23") == []
    committed.commit("page looked at again")
    assert committed.found("KTX2") == []


def test_a_broken_file_is_told_as_broken_and_makes_no_page_stale(committed: Project) -> None:
    committed.write(OVERLAY, "name: orders\nmeasures: [")
    assert committed.found("KTX2") == []
    assert [each.code for each in committed.found("KTX30")] == ["KTX302"]


def test_without_a_repository_it_says_what_was_not_looked_at(project: Project) -> None:
    project.write("wiki/global/revenue.md", PAGE)
    assert project.found("KTX2") == []
    assert [each.code for each in project.warnings] == ["staleness_unknown"]
    assert project.found("KTX204") == []
    assert project.warnings == []


def test_a_shallow_clone_accuses_no_page(committed: Project, tmp_path: Path) -> None:
    committed.change(OVERLAY, "revenue, expr: sum(amount), desc", "revenue, expr: sum(2 * amount), desc")
    committed.commit("changed")
    source = f"file://{committed.root}"
    subprocess.run(["git", "clone", "-q", "--depth", "1", source, "clone"], cwd=tmp_path, check=True)
    clone = Project.__new__(Project)
    clone.root, clone.layout = tmp_path / "clone", type(committed.layout)(tmp_path / "clone")
    assert clone.found("KTX2") == []
    (warning,) = clone.warnings
    assert warning.hint == "git fetch --unshallow"


def test_a_project_below_the_top_of_its_repository(committed: Project, tmp_path: Path) -> None:
    top = tmp_path / "mono"
    shutil.copytree(committed.root, top / "analytics" / "ktx", ignore=shutil.ignore_patterns(".git"))
    below = Project.__new__(Project)
    below.root, below.layout = top / "analytics" / "ktx", type(committed.layout)(top / "analytics" / "ktx")
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    below.commit("all of it")
    assert below.found("KTX2") == []
    below.change(OVERLAY, "revenue, expr: sum(amount), desc", "revenue, expr: sum(2 * amount), desc")
    assert [(each.code, str(each.location)) for each in below.found("KTX2")] == [("KTX230", "wiki/global/revenue.md:3")]


def test_another_connection_s_change_is_not_told_of_the_one_asked_for(committed: Project) -> None:
    other = "semantic-layer/other/_schema/a.yaml"
    committed.write(other, "tables:\n  people:\n    table: people\n    columns: [{name: age, type: number}]\n")
    committed.write("wiki/global/people.md", "---\nsummary: People\n---\n\n`people.age` and `orders.status`.\n")
    committed.commit("other")
    committed.change(other, "type: number", "type: string")
    assert [each.location.connection for each in committed.found("KTX23")] == ["other"]
    assert committed.lint("KTX23", connection="warehouse").diagnostics == ()


SALES = """\
name: sales
table: shop.orders
grain: [id]
inherits_columns_from: orders
columns: [{name: id}, {name: amount}]
"""
AMOUNT = "{name: amount, type: number"


STALE = {
    "`orders.amount`": ["orders.amount"],
    "`warehouse/orders.amount`": ["orders.amount"],
    "`shop.orders`": ["orders", "sales"],
    "`table:shop.orders`": ["orders", "sales"],
    "`table:orders`": ["orders"],
    "`source:orders`": ["orders"],
    "`warehouse/source:orders`": ["orders"],
    "`measure:orders.revenue`": [],
    "`column:orders.amount`": ["orders.amount"],
    "`column:shop.orders.amount`": [],
    "`sales.amount`": ["sales.amount"],
    "`table:shop.customers`": [],
    "`orders.status`": [],
    "`nothing.amount`": [],
}
"""What a page refers to -> what of it is another when the type of `orders.amount` is."""


def test_however_a_page_names_it_a_change_is_found(committed: Project) -> None:
    """Also of what a source inherits, which is in a file that nobody names."""
    committed.write("semantic-layer/warehouse/sales.yaml", SALES)
    pages = {f"wiki/global/page-{number}.md": reference for number, reference in enumerate(STALE)}
    for path, reference in pages.items():
        committed.write(path, f"---\nsummary: Page\n---\n\nAbout {reference}.\n")
    committed.commit("pages")
    assert committed.found("KTX2") == []
    committed.change(SHARD, AMOUNT, AMOUNT.replace("number", "string"))
    found = committed.found("KTX230")
    for path, reference in pages.items():
        stale = [each.message.split("`")[1] for each in found if each.location.path == path]
        assert sorted(stale) == STALE[reference], reference
