"""Several projects ranked as one: each hit is of its project, and what is wrong with one disturbs no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.search.corpus import Scope
from ktx_cli.search.searcher import JointAnswer, search_together, tables_together
from tests.search.test_searcher import Project

EVERYTHING = Scope()


@pytest.fixture
def projects(tmp_path: Path) -> list[Project]:
    """Two projects with the same files, of which one has an index."""
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(Project(tmp_path / name))
    made[0].refresh()
    return made


def together(projects: list[Project], query: str, scope: Scope = EVERYTHING, limit: int = 20) -> JointAnswer:
    searchers = [each.searcher() for each in projects]
    try:
        return search_together(searchers, query, scope, limit)
    finally:
        for each in searchers:
            each.close()


def named(answer: JointAnswer) -> list[tuple[int, str]]:
    return [(number, hit.id) for number, hit in answer.hits]


def test_what_is_alike_in_both_has_the_same_score_and_the_order_of_the_projects(projects: list[Project]) -> None:
    found = together(projects, "turnover euros", Scope(("measure",)))
    assert named(found) == [(0, "orders.revenue"), (1, "orders.revenue")] and found.total == 2
    assert found.hits[0][1] == found.hits[1][1]
    assert named(together(projects, "turnover euros", Scope(("measure",)), limit=1)) == [(0, "orders.revenue")]


def test_one_project_alone_is_ranked_as_by_its_own_search(projects: list[Project]) -> None:
    for query in ("revenue", "shipped", "turnoverr euros", "retention"):
        assert [hit for _, hit in together(projects[:1], query).hits] == list(projects[0].search(query).found.hits)


def test_how_rare_a_word_is_is_so_in_all(projects: list[Project]) -> None:
    for number in range(9):
        projects[0].write(f"wiki/global/ledger-{number}.md", f"# Ledger {number}\n\nThe ledger of accruals.\n")
    projects[1].write("wiki/global/accruals.md", "# Accruals\n\nKept by hand.\n")
    projects[1].write("wiki/global/ledger.md", "# Ledger\n\nKept by hand.\n")
    scores = {hit.id: hit.score for number, hit in together(projects, "accruals ledger").hits if number == 1}
    alone = {hit.id: hit.score for hit in projects[1].search("accruals ledger").found.hits}
    assert scores["accruals"] < alone["accruals"], "in the second project alone it is rarer"


def test_pages_that_explain_a_hit_are_those_of_its_project(projects: list[Project]) -> None:
    page = "---\nsummary: Rules\nsl_refs: [shop/orders.revenue]\n---\n\nNothing else.\n"
    projects[1].write("wiki/global/rules.md", page)
    found = together(projects, "turnover euros", Scope(("measure",)))
    assert [hit.pages for _, hit in found.hits] == [(), ("rules",)]


def test_a_page_of_a_user_stands_in_for_that_of_its_project_alone(projects: list[Project]) -> None:
    (projects[1].root / "wiki/user/ada/revenue.md").unlink()
    found = together(projects, "turnover", Scope(("page",), user="ada"))
    summaries = {(number, hit.summary) for number, hit in found.hits if hit.id == "revenue"}
    assert summaries == {(0, "My revenue"), (1, "Net revenue")}


def test_an_index_that_is_damaged_is_done_without(projects: list[Project]) -> None:
    projects[1].refresh()
    whole = named(together(projects, "revenue"))
    content = bytearray(projects[1].path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    projects[1].path.write_bytes(content)
    found = together(projects, "revenue")
    assert named(found) == whole
    assert [(number, each.code) for number, each in found.warnings] == [(1, "no_index")]


def test_warnings_say_of_which_project_they_are(projects: list[Project]) -> None:
    assert [(number, each.code) for number, each in together(projects, "revenue").warnings] == [(1, "no_index")]


def test_tables_have_scores_that_compare(projects: list[Project]) -> None:
    ledger = "name: ledger\ntable: ledger\ngrain: [id]\ndescription: Accruals.\ncolumns: [{name: id, type: number}]\n"
    projects[1].write("semantic-layer/shop/ledger.yaml", ledger)
    searchers = [each.searcher() for each in projects]
    found = tables_together(searchers, "accruals of the ledger", [EVERYTHING] * 2, 5)
    assert max((each.score for each in found[0]), default=0.0) < found[1][0].score
    assert found[1][0].name == "ledger"
    same = tables_together(searchers, "orders", [EVERYTHING] * 2, 1)
    assert same[0][0].score == same[1][0].score
    for each in searchers:
        each.close()
