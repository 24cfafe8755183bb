"""The wiki: what `ktx wiki lint` says under stable codes, empty and doubled pages, pages that are out of date."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.project.config.file import load_config
from tests.jobs.check.lint.conftest import PAGE, Project

OVERLAY = "semantic-layer/warehouse/orders.yaml"
SHARD = "semantic-layer/warehouse/_schema/shop.yaml"


def test_everything_wiki_lint_says_is_said_with_its_place(project: Project) -> None:
    project.write(
        "wiki/global/bad.md", "---\nsl_refs: [orders.revnue, shop/x]\nrefs: [gone]\n---\n\nSee `orders.nope`.\n"
    )
    config = load_config(project.layout.config).config
    wanted = {(each.path, each.line, each.message) for each in lint_wiki(project.layout, config).findings}
    found = project.found("KTX2")
    assert {(each.location.path, each.location.line, each.message) for each in found} == wanted
    assert {each.code for each in found} == {"KTX201", "KTX204", "KTX205", "KTX210"}
    assert all(each.severity == "error" and each.hint for each in found)


@pytest.mark.parametrize(
    ("body", "code", "level"),
    [
        ("\n# Revenue\n\n---\n", "KTX233", "warning"),
        ("\nThe  TEXT of\nanother page.\n", "KTX234", "warning"),
        ("\nText. <!-- unseen -->\n", "KTX215", "warning"),
    ],
)
def test_a_page_that_says_nothing_of_its_own(project: Project, body: str, code: str, level: str) -> None:
    project.write("wiki/global/another.md", "---\nsummary: Another\n---\n\nThe text of another page.\n")
    project.write("wiki/global/odd.md", f"---\nsummary: Odd\n---\n{body}")
    project.write("wiki/user/ada/odd.md", "---\nsummary: Own\n---\n\nThe text of another page.\n")
    (found,) = project.found("KTX2")
    assert (found.code, found.severity, found.location.path) == (code, level, "wiki/global/odd.md")


def test_a_page_marked_as_out_of_date_is_information(committed: Project) -> None:
    committed.change("wiki/global/revenue.md", "summary:", "stale_since: '2026-01-02'\nsummary:")
    committed.change(OVERLAY, "sum(amount), desc", "sum(2 * amount), desc")
    (found,) = committed.found("KTX2")
    assert (found.code, found.severity, found.location.line) == ("KTX232", "info", 2)


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
    assert "column amount is gone" in told["wiki/global/orders.md"]


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


def test_one_connection_alone_has_the_pages_that_may_refer_to_it(committed: Project) -> None:
    committed.write("wiki/global/free.md", "---\nsummary: Free\nrefs: [gone]\n---\n\nText.\n")
    assert [each.code for each in committed.found("KTX2")] == ["KTX201"]
    found = committed.lint("KTX2", connection="warehouse")
    assert (found.pages, found.diagnostics) == (1, ())


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
