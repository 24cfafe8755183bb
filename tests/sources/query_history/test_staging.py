"""The raw files: what is dropped, what moves them, and that nothing a person looked for is in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.sources.query_history import model as buckets
from ktx_cli.sources.query_history.model import Coverage
from ktx_cli.sources.query_history.raw_files import MANIFEST, MAX_BYTES
from ktx_cli.sources.query_history.statements import Redactor
from ktx_cli.sources.query_history.tables import Tables
from ktx_cli.sources.query_history.templates import Readings
from tests.sources.query_history.conftest import MANIFEST as MANIFEST_TEXT
from tests.sources.query_history.conftest import SHARD, Tree

JOINED = "SELECT c.name, sum(o.total) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1"
PAID = "SELECT total FROM orders WHERE status = 'paid'"

Make = Callable[..., Any]


def table(staged: Any, display: str) -> dict[str, Any] | None:
    documents = [json.loads(content) for path, content in staged.files.items() if path.startswith("tables/")]
    return next((each for each in documents if each["table"] == display), None)


def patterns(staged: Any) -> list[dict[str, Any]]:
    files = [json.loads(content) for path, content in sorted(staged.files.items()) if path.startswith("patterns/")]
    return [each for file in files for each in file["patterns"]]


def reasons(staged: Any) -> str:
    return next((each.message for each in staged.warnings if each.code == "query_history_empty"), "")


def test_a_table_file_tells_of_its_use(seen: Make, staged: Make) -> None:
    found = table(staged([seen(JOINED, 60), seen(PAID, 40, user="bob", mean_ms=2000.0)]), "public.orders")
    assert found is not None
    statements = found.pop("statements")
    assert found == {
        "table": "public.orders",
        "source": "orders",
        "frequency": "high",
        "stats": {"executions": "100-1k", "users": "2-5", "runtime": "1-10s", "errors": "none", "recency": "unknown"},
        "columns": {
            "select": [["total", "high"]],
            "where": [["status", "mid"]],
            "join": [["customer_id", "high"]],
        },
        "filters": [["status = ?", "mid"]],
        "group_bys": [],
        "joins": [{"with": "public.customers", "source": "customers", "on": [["customer_id", "id"]],
                   "frequency": "high"}],
    }  # fmt: skip
    assert {each["executions"] for each in statements} == {"10-100"}
    assert "SELECT total FROM orders WHERE status = '?'" in {each["sql"] for each in statements}


def test_a_pattern_is_a_statement_on_several_tables(seen: Make, staged: Make) -> None:
    (pattern,) = patterns(staged([seen(JOINED, 60), seen(PAID, 40)]))
    assert pattern["tables"] == ["public.customers", "public.orders"]
    assert pattern["sources"] == ["customers", "orders"]
    assert pattern["executions"] == "10-100"


@pytest.mark.table(
    ("text", "facts", "settings", "reason"),
    [
        ("SHOW search_path", {}, {}, "1 not a query"),
        ("EXPLAIN SELECT total FROM orders", {}, {}, "1 not a query"),
        ("SET a = 1", {}, {}, "1 not a query"),
        ("INSERT INTO orders SELECT * FROM orders", {}, {}, "1 not a query"),
        ("/* ktx */ " + PAID, {}, {}, "1 sent by ktx"),
        ("SELECT relname FROM pg_class", {}, {}, "1 on system tables"),
        ("SELECT 1", {}, {}, "1 requests no data"),
        ("SELECT 1 FROM orders LIMIT 1", {}, {}, "1 requests no data"),
        ("SELECT 1 FROM orders LIMIT 1", {}, {"filters": {"dropTrivialProbes": False}}, ""),
        ("SELECT a FROM elsewhere", {}, {}, "1 out of scope"),
        (PAID, {"executions": 4}, {}, "1 rare"),
        (PAID, {"executions": 4}, {"minExecutions": 4}, ""),
        (PAID, {"failed": 10}, {}, "1 mostly fails"),
        (PAID, {"failed": 9}, {}, ""),
        (PAID, {"failed": 5}, {"filters": {"dropFailedBelow": {"errorRate": 0.5}}}, "1 mostly fails"),
        (PAID, {"failed": 5}, {"filters": {"dropFailedBelow": {"errorRate": 0.5, "executions": 11}}}, ""),
        ('/* {"app": "dbt"} */ ' + PAID, {}, {}, ""),
        ('/* {"app": "dbt"} */ ' + PAID, {}, {"filters": {"orchestrators": {"mode": "exclude"}}},
         "1 sent only by orchestrators"),
        ("# comment\n" + PAID, {}, {}, ""),
        ("-- what was paid?\n" + PAID, {}, {}, ""),
    ],
)  # fmt: skip
def test_what_does_not_count_is_dropped(
    text: str, facts: dict[str, Any], settings: dict[str, Any], reason: str, seen: Make, staged: Make
) -> None:
    dialect = "bigquery" if text.startswith("#") else "postgres"
    found = staged([seen(text, **facts)], dialect=dialect, **settings)
    assert bool(table(found, "public.orders")) is not bool(reason)
    assert reason in reasons(found)


@pytest.mark.table(
    ("users", "mode", "kept", "marks"),
    [
        ({"etl_nightly": 50}, "exclude", False, None),
        ({"etl_nightly": 50, "etl_hourly": 5}, "exclude", False, None),
        ({"etl_nightly": 50, "ada": 1}, "exclude", True, None),
        ({"etl_nightly": 50, None: 1}, "exclude", True, None),
        ({None: 50}, "exclude", True, None),
        ({"ada_etl_": 50}, "exclude", True, None),
        ({"etl_nightly": 50}, "include", True, None),
        ({"etl_nightly": 50}, "mark-only", True, ["service account"]),
        ({"etl_nightly": 50, "ada": 1}, "mark-only", True, None),
    ],
)
def test_service_accounts_are_dropped_only_where_nobody_else_asks(
    users: dict[str | None, int], mode: str, kept: bool, marks: list[str] | None, seen: Make, staged: Make
) -> None:
    accounts = {"patterns": ["^etl_"], "mode": mode}
    observed = [
        seen(PAID.replace("paid", f"s{place}"), count, user) for place, (user, count) in enumerate(users.items())
    ]
    found = table(staged(observed, filters={"serviceAccounts": accounts}), "public.orders")
    assert (found is not None) is kept
    if found is not None:
        assert found["statements"][0].get("marks") == marks


def test_what_a_person_sends_too_is_not_marked_as_an_orchestrators(seen: Make, staged: Make) -> None:
    mark = '/* {"app": "dbt"} */ '
    both, alone = staged([seen(mark + PAID), seen(PAID)]), staged([seen(mark + PAID)])
    assert "marks" not in table(both, "public.orders")["statements"][0]  # type: ignore[index]
    assert table(alone, "public.orders")["statements"][0]["marks"] == ["dbt"]  # type: ignore[index]


@pytest.mark.table(
    ("settings", "connection", "wanted"),
    [
        ({}, None, {"public.orders", "archive.orders", "public.customers"}),
        ({}, ["public.orders"], {"public.orders"}),
        ({"enabledTables": ["orders"]}, None, {"public.orders", "archive.orders"}),
        ({"enabledTables": ["archive.orders"], "enabledSchemas": ["public"]}, None, {"archive.orders"}),
        ({"enabledTables": ["archive.orders"]}, ["public.orders"], {"archive.orders"}),
        ({"enabledSchemas": ["ARCHIVE"]}, None, {"archive.orders"}),
        ({"enabledSchemas": ["*"]}, None, {"public.orders", "archive.orders", "public.customers", "raw.events"}),
    ],
)
def test_scope_is_tables_before_schemas_before_what_was_scanned(
    settings: dict[str, Any], connection: list[str] | None, wanted: set[str], seen: Make, staged: Make
) -> None:
    texts = [JOINED, "SELECT total FROM archive.orders", "SELECT a FROM raw.events"]
    found = staged([seen(text) for text in texts], enabled_tables=connection, **settings)
    names = {"public.orders", "archive.orders", "public.customers", "raw.events"}
    assert {name for name in names if table(found, name)} == wanted


def test_statements_that_turn_out_to_be_one_count_together(seen: Make, staged: Make) -> None:
    texts = [
        "SELECT total AS t FROM orders WHERE id IN (1)",
        "select total t from orders where id in (2, 3)",
        "SELECT total AS t\nFROM orders -- for Ada\nWHERE id IN (4,5,6)",
    ]
    (statement,) = table(staged([seen(text, 3, user) for user, text in enumerate(texts)]), "public.orders")[  # type: ignore[index]
        "statements"
    ]
    assert (statement["executions"], statement["users"]) == ("<10", "2-5")


def test_with_nothing_scanned_every_table_counts(seen: Make, staged: Make) -> None:
    found = staged([seen("SELECT a FROM raw.events")], over=Tables(Model("shop", "postgres", {})))
    assert table(found, "raw.events")["source"] is None  # type: ignore[index]


def test_a_statement_on_a_table_out_of_scope_is_not_told(seen: Make, staged: Make) -> None:
    found = staged([seen(JOINED)], enabledTables=["public.orders"])
    document = table(found, "public.orders")
    assert document is not None
    assert (document["statements"], document["joins"], patterns(found)) == ([], [], [])
    assert not [content for content in found.files.values() if b"customers" in content]


DECLARED = MANIFEST_TEXT.replace(
    "{name: status, type: string}", "{name: status, type: string, enum_values: {dbt: [paid, open, cancelled]}}"
)


def test_values_that_are_declared_stay_and_others_do_not(seen: Make, staged: Make) -> None:
    over = Tables(load_tree(Workspace(Tree({SHARD: DECLARED.encode()})), "shop", "postgres"))
    statement = "SELECT sum(total) FROM orders WHERE status = '{}'"
    found = staged(
        [seen(JOINED + " HAVING max(status) <> 'cancelled'"), seen(statement.format("paid"), 90),
         seen(statement.format("open"), 5), seen(statement.format("Maria Huber"), 5)],
        over=over,
    )  # fmt: skip
    document = table(found, "public.orders")
    assert document is not None
    assert document["filters"] == [["status = 'paid'", "high"], ["status = 'open'", "low"], ["status = ?", "low"]]
    (one,) = [each for each in document["statements"] if "WHERE" in each["sql"]]
    assert one["sql"] == "SELECT SUM(total) FROM orders WHERE status = 'paid'"
    assert one["values"] == {"public.orders.status": [["paid", "high"], ["open", "low"]]}
    assert not [content for content in found.files.values() if b"Huber" in content]


CANARY = "Kanarienvogel"


@given(form=st.sampled_from(("'{0}'", "$${0}$$", "E'{0}'", "4711{0}")), count=st.integers(10, 10_000))
def test_no_literal_reaches_a_raw_file(form: str, count: int, seen: Make, staged: Make) -> None:
    literal = form.format(CANARY) if "'" in form or "$" in form else "47114711"
    text = (
        f"SELECT {literal}, c.name FROM orders o JOIN customers c ON c.id = o.customer_id AND c.country = {literal} "
        f"WHERE o.status IN ({literal}, {literal}) GROUP BY {literal}, c.name HAVING max(o.status) > {literal} "
        f"-- {CANARY} 4711\n"
    )
    found = staged([seen(text, count, user=CANARY), seen(f"SELECT '{CANARY} FROM ((", count)])
    everything = b"\n".join(found.files.values()).decode() + repr([each.to_json() for each in found.warnings])
    assert CANARY not in everything
    assert "4711" not in everything
    assert patterns(found)


def test_redaction_patterns_blank_names_too(seen: Make, staged: Make) -> None:
    text = "SELECT total AS secret_alias FROM orders WHERE Secret_Function(status) = 1"
    found = staged([seen(text)], redactionPatterns=["(?i)secret_[a-z]+"])
    document = table(found, "public.orders")
    assert document is not None
    assert document["filters"] == [["[redacted](status) = 1", "high"]]
    assert not [content for content in found.files.values() if b"secret" in content.lower()]


def test_redaction_reaches_names_ktx_has_not_scanned(seen: Make, staged: Make, model: Model) -> None:
    text = "SELECT s.Secret_Column FROM raw.secret_plans s JOIN raw.secret_ideas t ON t.secret_id = s.secret_id"
    over = Tables(model, Redactor.of(["(?i)secret_[a-z]+"], "here"))
    found = staged([seen(text)], over=over, enabledSchemas=["*"], redactionPatterns=["(?i)secret_[a-z]+"])
    assert not [path for path, content in found.files.items() if b"secret" in content.lower() or "secret" in path]
    assert table(found, 'raw."[redacted]"') is not None


def test_a_pattern_that_is_none_stops_everything(seen: Make, staged: Make) -> None:
    with pytest.raises(ConfigError, match=r"redactionPatterns\[1\]` in ktx.yaml is not a regular expression"):
        staged([seen(PAID)], redactionPatterns=["a", "("])
    with pytest.raises(ConfigError, match=r"serviceAccounts.patterns\[0\]"):
        staged([seen(PAID)], filters={"serviceAccounts": {"patterns": ["("]}})


def test_unreadable_statements_are_counted_and_named(seen: Make, staged: Make) -> None:
    found = staged([seen("SELECT (("), seen("SELECT (("), seen("SELECT [["), seen(PAID)])
    (warning,) = [each for each in found.warnings if each.code == "query_history_unread"]
    assert warning.details["statements"] == 2
    assert "(9 characters): it cannot be parsed" in warning.message


COUNTS = st.lists(st.integers(5, 100_000), min_size=3, max_size=3)
TEXTS = (JOINED, PAID, "SELECT id FROM orders WHERE created_at > '2024-01-01' GROUP BY id")


KNOWN = Readings()
"""What is known of these few texts, so that each is parsed once for all examples."""


def bucketed(counts: list[int]) -> tuple[list[str], list[str]]:
    """Return all that a file may depend on: buckets of counts, and shares of the tables and columns."""
    shares = [buckets.tier(part, sum(counts)) for part in (*counts, counts[0] + counts[1], counts[0] + counts[2])]
    return [*map(buckets.executions, [*counts, sum(counts)])], shares


@given(counts=COUNTS, more=st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_a_few_executions_more_move_nothing(counts: list[int], more: list[int], seen: Make, staged: Make) -> None:
    later = [count + extra for count, extra in zip(counts, more, strict=True)]
    first, second = (
        staged([seen(text, n) for text, n in zip(TEXTS, c, strict=True)], known=KNOWN) for c in (counts, later)
    )
    assert (first.files == second.files) or bucketed(counts) != bucketed(later)


@given(one=COUNTS, other=COUNTS)
def test_a_real_shift_moves_the_files(one: list[int], other: list[int], seen: Make, staged: Make) -> None:
    first, second = (
        staged([seen(text, n) for text, n in zip(TEXTS, c, strict=True)], known=KNOWN) for c in (one, other)
    )
    assert (first.files != second.files) or bucketed(one)[0] == bucketed(other)[0]


@given(order=st.permutations(range(3)), parts=st.integers(1, 4))
def test_order_and_split_of_observations_change_nothing(order: list[int], parts: int, seen: Make, staged: Make) -> None:
    whole = staged([seen(text, 60) for text in TEXTS], known=KNOWN)
    pieces = [seen(TEXTS[place], 60 // parts) for place in order for _ in range(parts)]
    assert staged(pieces, known=KNOWN).files == whole.files


@given(days=st.integers(0, 3), hours=st.integers(0, 23))
def test_files_hold_no_time(days: int, hours: int, seen: Make, staged: Make) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    late = now + timedelta(days=days, hours=hours)
    observed = [seen(JOINED, last_seen=now - timedelta(days=1)), seen(PAID, mean_ms=120.0)]
    assert staged(observed, now=now, known=KNOWN).files == staged(observed, now=late, known=KNOWN).files


@pytest.mark.table(
    ("bucket", "below", "from_here"),
    [
        (buckets.executions, (9, "<10"), (10, "10-100")),
        (buckets.executions, (99, "10-100"), (100, "100-1k")),
        (buckets.executions, (999, "100-1k"), (1_000, "1k-5k")),
        (buckets.executions, (4_999, "1k-5k"), (5_000, "5k-50k")),
        (buckets.executions, (50_000, "5k-50k"), (50_001, ">50k")),
        (buckets.users, (0, "0"), (1, "1")),
        (buckets.users, (5, "2-5"), (6, "6-10")),
        (buckets.users, (10, "6-10"), (11, ">10")),
        (buckets.runtime, (99.9, "<100ms"), (100.0, "100ms-1s")),
        (buckets.runtime, (9_999, "1-10s"), (10_000, ">10s")),
        (buckets.runtime, (None, "unknown"), (0.0, "<100ms")),
        (buckets.errors, (0.0, "none"), (0.01, "low")),
        (buckets.errors, (0.09, "low"), (0.1, "high")),
    ],
)
def test_buckets_begin_where_they_say(bucket: Any, below: tuple[Any, str], from_here: tuple[Any, str]) -> None:
    assert [bucket(value) for value, _ in (below, from_here)] == [below[1], from_here[1]]


def test_recency_is_in_weeks(now: Any) -> None:
    found = [buckets.recency(now - timedelta(days=days), now) for days in (0, 7, 8, 45, 46)]
    assert found == ["current", "current", "recent", "recent", "stale"]


def test_the_manifest_holds_no_count_and_no_time(seen: Make, staged: Make, now: Any) -> None:
    few = staged([seen(PAID)], coverage=Coverage.PART)
    many = staged([seen(JOINED, 99_999)], coverage=Coverage.PART, now=now + timedelta(days=99))
    assert few.files[MANIFEST] == many.files[MANIFEST]
    assert json.loads(few.files[MANIFEST])["coverage"] == "part"


def test_every_file_is_small_enough_and_sorted(seen: Make, staged: Make) -> None:
    wide = ", ".join(f"'{place}' AS {'wide_column_' * 5}{place}" for place in range(100))
    texts = [f"SELECT {wide}, c.name AS n{number} FROM orders o, customers c" for number in range(20)]
    found = staged([seen(text) for text in texts])
    assert max(map(len, found.files.values())) <= MAX_BYTES
    assert len([path for path in found.files if path.startswith("patterns/")]) > 1
    assert len(patterns(found)) == 20
    for content in found.files.values():
        document = json.loads(content)
        assert content == (json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def test_a_pattern_too_large_for_any_file_is_left_out_and_named(seen: Make, staged: Make) -> None:
    wide = ", ".join(f"total AS {'ä' * 60}{place}" for place in range(1000))
    found = staged([seen(f"SELECT {wide} FROM orders, customers"), seen(JOINED)])
    (warning,) = [each for each in found.warnings if each.code == "query_history_too_large"]
    assert warning.details["patterns"] == json.loads(found.files[MANIFEST])["omitted_patterns"]
    assert len(patterns(found)) == 1


def test_a_new_pattern_changes_one_file(seen: Make, staged: Make) -> None:
    texts = [f"SELECT o.total AS t{n}, c.name FROM orders o, {other} c" for n in range(20)
             for other in ("customers", "regions", "archive.orders")]  # fmt: skip
    before = staged([seen(text) for text in texts]).files
    after = staged([seen(text) for text in (*texts, JOINED)]).files
    changed = {path for path in after if after[path] != before.get(path) and path.startswith("patterns/")}
    assert len(changed) == 1
    assert not before.keys() - after.keys()


def test_patterns_of_the_same_tables_stand_together(seen: Make, staged: Make) -> None:
    found = staged([seen(f"SELECT o.total AS t{n}, c.name FROM orders o, customers c") for n in range(20)])
    assert len([path for path in found.files if path.startswith("patterns/")]) == 1


@pytest.mark.table(
    ("users", "settings", "named"),
    [
        (
            ["ann", "etl_loader", "svc-dbt", "x@acme.iam.gserviceaccount.com"],
            {},
            ["etl_loader", "svc-dbt", "x@acme.iam.gserviceaccount.com"],
        ),
        (["bo", "abbot", "serviceman", "dbtina", None], {}, []),
        (["looker"], {"patterns": ["^etl_"]}, []),
        (["looker"], {"mode": "include"}, []),
        ([f"svc_{number:02}" for number in range(20)], {}, [f"svc_{number:02}" for number in range(10)]),
    ],
)
def test_users_that_are_probably_programs_are_suggested(
    users: list[str | None], settings: dict[str, Any], named: list[str], seen: Make, staged: Make
) -> None:
    found = staged([seen(PAID, 30, user) for user in users], filters={"serviceAccounts": settings})
    suggested = [each for each in found.warnings if each.code == "query_history_programs"]
    assert [name for each in suggested for name in each.details["users"]] == named
    for each in suggested:
        patterns = json.loads(shlex.split(str(each.hint).partition("run: ")[2])[-1])
        assert all(any(re.search(pattern, name) for pattern in patterns) for name in named)
        assert not any(re.search(pattern, f"{name}x") for pattern in patterns for name in named)
