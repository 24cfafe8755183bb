"""Evidence of agents and the pages it becomes: reused, marked once, archived in time, revived."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ktx_cli.core.diagnostics import Diagnostic
from ktx_cli.sources.query_history.pages import (
    Evidence,
    PageChange,
    PatternFacts,
    QueryPattern,
    TableUsage,
    narratives,
    pattern_facts,
    pattern_pages,
    problems,
    table_documents,
)
from ktx_cli.wiki.page import Page, changed, new_page, parse, render

Make = Callable[..., Any]
DAY = date(2026, 5, 4)
JOINED = "SELECT c.country, sum(o.total) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1"
FACTS = {
    name: PatternFacts(name, f"SELECT {name}", ("customers", "orders"), executions)
    for name, executions in (("a", "10-100"), ("b", "5k-50k"), ("c", "<10"))
}


def pattern(slug: str = "sales", fingerprints: tuple[str, ...] = ("a", "b"), title: str = "Sales") -> QueryPattern:
    return QueryPattern(slug=slug, title=title, narrative="How much is sold.", fingerprints=fingerprints)


def run(pages: list[Page], *evidence: QueryPattern, current: str = "abc", day: int = 0, **options: Any) -> Any:
    facts = {name: FACTS[name] for name in current}
    options = {"connection": "shop", **options}
    return pattern_pages(pages, evidence, facts, today=DAY + timedelta(days=day), archive_after_days=90, **options)


def after(pages: list[Page], changes: tuple[PageChange, ...]) -> list[Page]:
    return list({**{page.key: page for page in pages}, **{each.page.key: each.page for each in changes}}.values())


def test_a_pattern_becomes_a_page() -> None:
    (change,) = run([], pattern())
    assert change.reason == "created"
    assert dict(change.page.fields) == {
        "summary": "Sales",
        "tags": ["historic-sql", "pattern"],
        "source": "query-history",
        "connection": "shop",
        "tables": ["customers", "orders"],
        "representative_sql": "SELECT b",
        "fingerprints": ["a", "b"],
    }
    assert change.page.key == "queries-sales"
    again = parse("global", change.page.key, render(change.page))
    assert not isinstance(again, Diagnostic)
    assert run([again], pattern()) == ()


@pytest.mark.table(
    ("fingerprints", "slug", "keys"),
    [
        (("a", "b"), "revenue", ["queries-sales"]),
        (("a",), "revenue", ["queries-sales"]),
        (("a", "b", "c"), "revenue", ["queries-sales"]),
        (("c",), "revenue", ["queries-revenue"]),
        (("c",), "sales", ["queries-sales-2"]),
    ],
)
def test_a_page_with_enough_in_common_is_reused(fingerprints: tuple[str, ...], slug: str, keys: list[str]) -> None:
    pages = after([], run([], pattern()))
    changes = run(pages, pattern(slug, fingerprints, "Revenue"))
    assert [each.page.key for each in changes] == keys


def test_an_updated_page_keeps_what_people_added() -> None:
    (page,) = after([], run([], pattern()))
    page = changed(page, {"tags": ["mine", "pattern", "historic-sql"], "refs": ["handbook"]})
    (change,) = run([page], pattern(title="Sales by month"))
    assert (change.reason, change.page.summary) == ("updated", "Sales by month")
    assert change.page.tags == ("mine", "pattern", "historic-sql")
    assert change.page.refs == ("handbook",)


def test_a_page_of_an_unchanged_file_is_not_stale() -> None:
    pages = after([], run([], pattern()))
    assert run(pages, current="ab", day=400) == ()
    assert run(pages, current="b", day=400) == ()


def test_a_page_nobody_asks_for_is_marked_once_and_archived_in_time() -> None:
    pages = after([], run([], pattern()))
    (stale,) = run(pages, current="c", day=1)
    assert (stale.reason, stale.page.fields["stale_since"], "stale" in stale.page.tags) == ("stale", "2026-05-05", True)
    pages = after(pages, (stale,))
    for day in range(2, 91, 7):
        assert run(pages, current="c", day=day) == ()
    (archived,) = run(pages, current="c", day=91)
    assert (archived.reason, archived.page.fields["archived_since"]) == ("archived", "2026-08-03")
    assert archived.page.fields["stale_since"] == "2026-05-05"
    pages = after(pages, (archived,))
    assert run(pages, current="c", day=500) == ()
    (revived,) = run(pages, current="a", day=501)
    assert (revived.reason, revived.page.is_stale, revived.page.tags) == (
        "asked again",
        False,
        ("historic-sql", "pattern"),
    )
    (written,) = run(pages, pattern(title="Again"), day=501)
    assert (written.page.key, written.page.is_stale) == ("queries-sales", False)


def test_nothing_is_stale_where_the_history_was_cut() -> None:
    assert run(after([], run([], pattern())), current="c", complete=False) == ()


def test_pages_of_others_are_left_alone() -> None:
    other = new_page("queries-sales", {"summary": "By hand", "tables": ["orders"], "fingerprints": ["x"]}, "Text")
    changes = run([other], pattern())
    assert [each.page.key for each in changes] == ["queries-sales-2"]


def test_evidence_without_a_statement_that_is_there_writes_nothing() -> None:
    assert run([], pattern(fingerprints=("gone",))) == ()


@pytest.mark.table(
    ("given", "field"),
    [
        ({"kind": "pattern", "slug": "No Slug", "title": "t", "narrative": "n", "fingerprints": ["a"]}, "slug"),
        ({"kind": "pattern", "slug": "a", "title": "t", "narrative": "n", "fingerprints": []}, "fingerprints"),
        ({"kind": "pattern", "slug": "a", "title": "", "narrative": "n", "fingerprints": ["a"]}, "title"),
        ({"kind": "table_usage", "table": "orders", "narrative": ""}, "narrative"),
        ({"kind": "table_usage", "table": "orders", "narrative": "n", "frequencyTier": "high"}, "frequencyTier"),
        ({"kind": "else"}, "kind"),
    ],
)
def test_evidence_has_a_form(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        TypeAdapter(Evidence).validate_python(given)


def test_evidence_is_about_its_own_file(seen: Make, staged: Make) -> None:
    files = staged([seen(JOINED)]).files
    table_path = next(
        path for path in files if path.startswith("tables/") and b'"table": "public.orders"' in files[path]
    )
    pattern_path = next(path for path in files if path.startswith("patterns/"))
    (known,) = pattern_facts(files)
    rows: list[tuple[TableUsage | QueryPattern, str, tuple[str, ...]]] = [
        (TableUsage(table="public.orders", narrative="n"), table_path, ()),
        (TableUsage(table="orders", narrative="n"), table_path,
         (f"{table_path} is about the table public.orders, not orders",)),
        (TableUsage(table="public.orders", narrative="n"), pattern_path,
         (f"{pattern_path} contains patterns: give `pattern` evidence",)),
        (pattern(fingerprints=(known,)), pattern_path, ()),
        (pattern(fingerprints=(known, "zz")), pattern_path, (f"{pattern_path} contains no statement zz",)),
        (pattern(), table_path, (f"{table_path} is about one table: give `table_usage` evidence",)),
    ]  # fmt: skip
    assert [problems(evidence, path, files[path]) for evidence, path, _ in rows] == [wanted for *_, wanted in rows]


def test_narratives_are_by_source(seen: Make, staged: Make) -> None:
    documents = table_documents(staged([seen(JOINED), seen("SELECT a FROM raw.x")], enabledSchemas=["*"]).files)
    evidence = [TableUsage(table=name, narrative=f" {name}. ") for name in ("public.orders", "raw.x", "nowhere")]
    assert narratives(evidence, documents) == {"orders": "public.orders."}


def test_a_page_of_another_connection_is_left_alone() -> None:
    (mine,) = run([], pattern())
    assert run([mine.page], current="", connection="other") == ()
    (other,) = run([mine.page], pattern(), connection="other")
    assert (other.page.key, other.reason) == ("queries-sales-2", "created")
