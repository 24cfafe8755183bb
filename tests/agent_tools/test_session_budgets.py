"""However much there is, a result fits its budget, says when it was cut, and leaves no fence open."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.fence import LONGEST, LONGEST_RAW
from ktx_cli.agent_tools.session import Action, StagedUnit, StagedWork
from ktx_cli.agent_tools.toolset import BY_STAGE, tools_for
from ktx_cli.documents.raw import RawFile
from ktx_cli.warehouses.port import QueryResult

WORDS = "revenue customers orders refunds gross net amount region churn margin " * 6
TABLES, COLUMNS = 60, 150


def manifest() -> str:
    lines = ["tables:"]
    for table in range(TABLES):
        lines += [f"  revenue_{table}:", f"    table: revenue_{table}", f"    descriptions: {{db: {WORDS}}}"]
        lines += ["    columns:"]
        lines += [
            f"      - {{name: revenue_{n}, type: number, descriptions: {{db: {WORDS}}}}}"
            for n in range(COLUMNS if table < 4 else 5)
        ]
    return "\n".join(lines) + "\n"


def overlay() -> str:
    measures = [f"  - {{name: m{n}, expr: sum(revenue_{n}), descriptions: {{user: {WORDS}}}}}" for n in range(100)]
    return "\n".join(["name: revenue_0", "measures:", *measures]) + "\n"


def pages() -> dict[str, str]:
    body = (WORDS * 10)[:3_900]
    head = f"---\nsummary: {WORDS[:190]}\ntags: [revenue-tag-"
    made = {f"wiki/global/revenue-{n}.md": f"{head}{n}-{'x' * 250}]\n---\n\n{body}\n" for n in range(120)}
    long = "\n".join(f"line {n} {WORDS}" for n in range(400))
    return {**made, "wiki/global/long.md": f"---\nsummary: s\nintent: {WORDS}\n---\n\n{long}\n"}


def units() -> StagedWork:
    actions = tuple(Action("wiki", "created", f"page-{n}", None, ("a.md",) * 5, WORDS) for n in range(150))
    made = [StagedUnit(f"unit-{n}", WORDS, "done", tuple(f"f{m}" for m in range(50)), actions) for n in range(60)]
    evicted = {f"{'deep/' * 20}{n}.md": tuple(f"wiki:page-{m}" for m in range(60)) for n in range(300)}
    return StagedWork(made, evicted)


def wide(connection: str, sql: str, limit: int) -> QueryResult:
    if "boom" in sql:
        from ktx_cli.core.errors import SourceError

        raise SourceError(WORDS * 50, code="query", hint=WORDS * 50)
    columns = tuple(f"column_{n}_{'y' * 40}" for n in range(400))
    return QueryResult(columns, (("text " * 100,) * 400,) * limit, truncated=True)


CALLS: list[tuple[str, dict[str, Any], bool]] = [
    ("read_raw_file", {"path": "big.md"}, True),
    ("read_raw_span", {"path": "big.md", "start_line": 1, "end_line": 10**6}, True),
    ("read_raw_span", {"path": "one.json", "start_line": 1, "end_line": 1}, True),
    ("discover_data", {"query": "revenue", "limit": 50}, True),
    ("entity_details", {"targets": [f"revenue_{n}" for n in range(50)]}, True),
    ("entity_details", {"targets": ["revenue_0"]}, True),
    ("entity_details", {"targets": [*(f"nothing_{n}_{'z' * 300}" for n in range(49)), "revenue_1"]}, True),
    ("sql_execution", {"sql": "SELECT 1", "row_limit": 1000}, True),
    ("sql_execution", {"sql": "SELECT boom"}, False),
    ("wiki_search", {"query": "revenue", "limit": 50}, False),
    ("wiki_read", {"key": "long"}, True),
    ("wiki_read", {"key": "long", "start_line": 100}, True),
    ("wiki_list_tags", {}, True),
    ("wiki_write", {"key": "long", "replacements": [{"old_text": "line 7 ", "new_text": "l7 "}]}, True),
    ("wiki_remove", {"key": "revenue-1"}, False),
    ("sl_discover", {}, True),
    ("sl_discover", {"query": "revenue"}, True),
    ("sl_discover", {"source": "revenue_0"}, True),
    ("sl_read_source", {"source": "revenue_0"}, True),
    ("sl_write_source", {"source": "revenue_1", "yaml": "name: revenue_1\nmeasures: []\n"}, False),
    ("sl_edit_source", {"source": "revenue_0", "edits": [{"old_text": "name: m7,", "new_text": "name: m_7,"}]}, False),
    ("sl_validate", {}, False),
    ("sl_rollback", {"source": "revenue_0"}, False),
    ("load_skill", {"name": "sl"}, False),
    ("emit_unmapped_fallback", {"raw_path": "big.md", "reason": "parse_error", "fallback": "flagged"}, False),
    ("stage_list", {}, True),
    ("stage_diff", {"unit_a": "unit-1", "unit_b": "unit-2"}, True),
    ("eviction_list", {}, True),
    (
        "emit_conflict_resolution",
        {"kind": "near_duplicate", "artifact": "wiki:a", "detail": WORDS[:900], "flagged_for_human": True},
        False,
    ),
    (
        "emit_eviction_decision",
        {"raw_path": f"{'deep/' * 20}1.md", "artifact": "wiki:page-1", "action": "kept", "reason": "r"},
        False,
    ),
    (
        "emit_artifact_resolution",
        {"raw_path": "f1", "artifact": "sl:shop/a", "into": "sl:shop/b", "kind": "merged", "reason": "r"},
        False,
    ),
    (
        "record_contradiction",
        {
            "topic": WORDS[:100],
            "statements": [
                {"source": source, "text": WORDS[:900], "effect": WORDS[:400]} for source in ("data", "big.md")
            ],
            "evidence": WORDS[:1_900],
        },
        False,
    ),
]
MANY = "".join(
    f"  - {{name: m{n}, expr: sum(revenue_{n})}}\n  - {{name: g{n}, expr: sum(ghost_{n})}}\n" for n in range(100)
)
REFUSALS: list[tuple[str, dict[str, Any]]] = [
    ("sl_write_source", {"source": "revenue_2", "yaml": "name: revenue_2\nmeasures:\n" + MANY}),
    ("wiki_write", {"key": "x", "summary": "s", "content": " ".join(f"`revenue_3.revenue_{n}`" for n in range(150))}),
    ("sl_edit_source", {"source": "revenue_0", "edits": [{"old_text": "zz" * 5000, "new_text": ""}] * 50}),
    ("entity_details", {"targets": [f"nothing_{n}_{'z' * 300}" for n in range(50)]}),
    ("read_raw_file", {"path": "x" * 5000}),
    ("wiki_read", {"key": "x" * 50_000}),
]  # fmt: skip


@pytest.fixture(scope="module")
def huge() -> dict[str, str]:
    files = {"semantic-layer/shop/_schema/main.yaml": manifest(), "semantic-layer/shop/revenue_0.yaml": overlay()}
    return {**files, "semantic-layer/shop/orders.yaml": "name: revenue_5\n", **pages()}


@pytest.fixture
def giant(shop: Callable[..., Any], huge: dict[str, str]) -> Any:
    def raw(path: str, text: str) -> RawFile:
        return RawFile(path, "0" * 64, len(text), lambda: text.encode())

    lines = "\n".join(WORDS for _ in range(2_000))
    files = {"big.md": raw("big.md", lines), "one.json": raw("one.json", "x" * 200_000)}
    made = shop(files=huge, raw=files, run_sql=wide, privacy="off", find=None)
    made.session.stage, made.session.whole_run = units(), True
    made.session.values = lambda connection, source: {name: tuple(range(100)) for name in source.columns}
    return made


def test_every_result_fits_its_budget(giant: Any) -> None:
    called = set()
    for name, arguments, cut in CALLS:
        giant.stage = next(stage for stage in ("unit", "reconcile", "memory") if name in _names(giant, stage))
        done = giant.call(name, **arguments)
        assert not done.is_error, (name, done.text[:500])
        assert len(done.text) <= (LONGEST_RAW if name.startswith("read_raw") else LONGEST), (name, len(done.text))
        assert ("(cut:" in done.text or "shown." in done.text) is cut, (name, done.text[-300:])
        opened = re.findall(r'^<data id="(\w+)"', done.text, re.MULTILINE)
        assert all(f'</data id="{mark}">' in done.text for mark in opened), name
        called.add(name)
    known = {tool.name for tools in BY_STAGE.values() for tool in tools} | {"load_skill"}
    assert called == known - {"mongo_query"}, "which is only there with a connection to MongoDB"


def test_every_refusal_fits_its_budget(giant: Any) -> None:
    for name, arguments in REFUSALS:
        giant.stage = "unit"
        told = giant.refused(name, **arguments)
        assert len(told) <= LONGEST, (name, len(told))


def _names(giant: Any, stage: Any) -> set[str]:
    return {tool.name for tool in tools_for(giant.session, stage)}
