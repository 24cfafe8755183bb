"""What a repair may touch: every attempt at something that only people may say is refused, whoever drafted it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.agent_tools.layers import Layers
from ktx_cli.engine.gates import Gates
from ktx_cli.jobs.evolve.gate import refusals
from ktx_cli.project.layout import WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.model import CalendarSettings
from tests.evolve_project import write

SCHEMA = """\
tables:
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: amount, type: number}
      - {name: status, type: string}
      - {name: card_number, type: string}
"""
ORDERS = """\
name: orders
column_overrides:
  - {name: card_number, visibility: hidden}
policies:
  - {name: own, filter: "status <> 'secret'"}
measures:
  - {name: revenue, expr: sum(amount), filter: "status = 'paid'"}
  - {name: decided, expr: sum(amount), segments: [no_tests], status: accepted, owner: ada@example.com}
segments:
  - {name: no_tests, expr: "status <> 'test'"}
tests:
  - {name: known, query: {measures: [revenue]}, expect_value: 15}
"""
DECISIONS = """\
decisions:
  - {connection: shop, point: orders-internal, alternative: none, decision: No tests., decided_by: Ada,
     decided_on: 2026-01-05, segment: no_tests, measures: [orders.decided]}
"""
PATH = "semantic-layer/shop/orders.yaml"
PAGE = "wiki/global/revenue.md"


@pytest.fixture
def base(tmp_path: Path) -> Workspace:
    """A context in which people have said everything that only they may say."""
    files = {"semantic-layer/shop/_schema/main.yaml": SCHEMA, PATH: ORDERS, "decisions.yaml": DECISIONS}
    write(tmp_path, {**files, PAGE: "---\nsummary: Revenue\n---\n\nPaid orders.\n"})
    return Workspace(WorkingTree(tmp_path))


@pytest.fixture
def refused(base: Workspace) -> Callable[..., list[str]]:
    """Return why a change of files is refused."""
    gates = Gates(base, Layers({"shop": "sqlite"}, CalendarSettings()))

    def judge(path: str, content: str | None, *, renames: bool = False) -> list[str]:
        after = base.child()
        after.apply({path: content})
        return refusals(gates, base, after, renames=renames)

    return judge


@pytest.mark.parametrize(
    "path",
    [
        *("evals/shop.yaml", "decisions.yaml", "owners.yaml", "ktx.yaml", "prompts/evolve.md", "contradictions.yaml"),
        *("semantic-layer/shop/_schema/main.yaml", "raw-sources/shop/live-database/decisions.json"),
        *("wiki/user/ada/notes.md", "semantic-layer/orders.yaml", ".github/workflows/ci.yaml"),
    ],
)
def test_only_pages_and_definitions_may_change(refused: Callable[..., list[str]], path: str) -> None:
    (reason,) = refused(path, "cases: []\n")
    assert reason == f"it changes {path}, but a repair may only change pages and definitions"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("expect_value: 15", "expect_value: 0", "the test `known` of `orders` would change, but"),
        (ORDERS[ORDERS.index("tests:") :], "", "the test `known` of `orders` would change, but"),
        ("\"status = 'paid'\"}", "\"status = 'paid'\", status: accepted}", "`orders.revenue` would change its status"),
        ("\"status = 'paid'\"}", "\"status = 'paid'\", owner: me@example.com}", "would change its status"),
        ("\"status = 'paid'\"}", "\"status = 'paid'\", status: certified}", "would change its status"),
        ("owner: ada@example.com", "owner: bo@example.com", "`orders.decided` would change its status"),
        ("filter: \"status <> 'secret'\"", 'filter: "1 = 1"', "the policies of `orders` can only be changed by people"),
        ("visibility: hidden", "visibility: public", "`orders.card_number` is hidden"),
        ("segments: [no_tests]", "segments: []", "`orders.decided` would no longer follow"),
        ("expr: sum(amount), segments", "expr: count(*), segments", "`orders.decided` would no longer follow"),
        ("filter: \"status = 'paid'\"", "filter: \"card_number LIKE '4%'\"", "reads a hidden column"),
        ("sum(amount), filter", "sum(price), filter", "there is no column `price`"),
        ("name: revenue,", "name: revenue, description: Ask ada@corp-mail.com,", "semantic-layer/shop/orders.yaml: "),
    ],
)
def test_what_only_people_may_say_stays(refused: Callable[..., list[str]], old: str, new: str, reason: str) -> None:
    assert old in ORDERS
    found = refused(PATH, ORDERS.replace(old, new, 1))
    assert any(reason in each for each in found), found


@pytest.mark.parametrize(
    "text", ["The key is sk-ant-api03-R2D2x9Kq7LmZp4Vt8Wn1Yb6Hd3Jf5Gs0.", "Ask jane.doe@corp-mail.com."]
)
def test_no_page_gets_a_secret_or_contact_data(refused: Callable[..., list[str]], text: str) -> None:
    assert refused(PAGE, f"---\nsummary: Revenue\n---\n\nPaid orders. {text}\n")


def test_a_correction_passes(refused: Callable[..., list[str]]) -> None:
    assert refused(PATH, ORDERS.replace("status = 'paid'", "status IN ('paid', 'sent')")) == []
    assert refused(PAGE, "---\nsummary: Revenue\n---\n\nPaid and sent orders.\n") == []
    assert refused("wiki/global/new.md", "---\nsummary: New\nsl_refs: [orders.revenue]\n---\n\nNew.\n") == []


def test_a_rename_may_reach_tests_and_decided_measures(refused: Callable[..., list[str]]) -> None:
    renamed = ORDERS.replace("sum(amount), segments", "sum(id), segments")
    assert refused(PATH, renamed) and not refused(PATH, renamed, renames=True)
