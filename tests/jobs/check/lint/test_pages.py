"""The wiki: what `ktx wiki lint` says under stable codes, empty and doubled pages."""

from __future__ import annotations

import pytest

from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.project.config.file import load_config
from tests.jobs.check.lint.conftest import Project

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


def test_one_connection_alone_has_the_pages_that_may_refer_to_it(committed: Project) -> None:
    committed.write("wiki/global/free.md", "---\nsummary: Free\nrefs: [gone]\n---\n\nText.\n")
    assert [each.code for each in committed.found("KTX2")] == ["KTX201"]
    found = committed.lint("KTX2", connection="warehouse")
    assert (found.pages, found.diagnostics) == (1, ())
