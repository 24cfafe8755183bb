"""Questions of definitions: written for what changed, checked before they are kept, found by search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.agent_tools.searcher import open_searcher
from ktx_cli.core import ResultWarning, yaml
from ktx_cli.engine.definition_questions import definition_demand
from ktx_cli.engine.documents.questions import QuestionDemand
from ktx_cli.llm import LlmError
from ktx_cli.project import Layout, WorkingTree, Workspace, load_config, open_for_writing
from ktx_cli.scan import read_search_texts, search_texts_path
from ktx_cli.search import Scope
from tests.engine.question_model import Model, run_plan, write_questions

CONFIG = "connections:\n  shop: {driver: sqlite, path: shop.sqlite}\n"
SHARD = """\
tables:
  orders:
    table: orders
    columns:
      - {name: id, type: number}
      - {name: amount, type: number}
      - {name: margin, type: number, visibility: hidden}
  staff:
    table: staff
    columns: [{name: badge, type: number}]
"""
ORDERS = """\
name: orders
descriptions: {user: What people bought.}
measures:
  - {name: revenue, expr: sum(amount), description: What buyers paid., questions: [How much did buyers pay?]}
  - {name: profit, expr: sum(margin), visibility: internal}
  - {name: secret_margin, expr: avg(margin), visibility: hidden}
segments:
  - {name: large, expr: amount > 100}
"""
PATH = search_texts_path("shop")


def usual(said: str) -> dict[str, Any]:
    return {
        "sources": [
            {
                "source": label,
                "definitions": [
                    {"name": "source orders", "questions": ["What was bought?"], "synonyms": ["purchases"]},
                    {"name": "`measure revenue`", "questions": ["How rich are we getting?"], "synonyms": ["takings"]},
                    {"name": "segment large", "questions": ["Which baskets are huge?"], "synonyms": []},
                    {"name": "measure invented", "questions": ["What is this?"], "synonyms": []},
                ],
            }
            for label in ("s1", "S2")
        ]
    }


class World:
    """A project, and the run at whose end questions are written."""

    def __init__(self, root: Path, database: sqlite3.Connection) -> None:
        self.layout = Layout(root)
        self.config = load_config(self.layout.config).config
        self.database = database
        self.warnings: list[ResultWarning] = []

    def write(self, model: Model) -> Mapping[str, bytes | None]:
        """Write the questions of the layer, and return the files that change."""
        return write_questions(self.layout, self.config, self.database, model, self.warnings)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    layer = tmp_path / "semantic-layer" / "shop"
    (layer / "_schema").mkdir(parents=True)
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    (layer / "_schema" / "main.yaml").write_text(SHARD)
    (layer / "orders.yaml").write_text(ORDERS)
    with open_for_writing(Layout(tmp_path)) as database:
        yield World(tmp_path, database)


def overlay(world: World) -> Path:
    return world.layout.root / "semantic-layer" / "shop" / "orders.yaml"


def test_all_sources_are_one_call_and_nothing_is_asked_twice(world: World) -> None:
    model = Model(usual)
    assert list(world.write(model)) == [PATH]
    texts = read_search_texts(WorkingTree(world.layout.root), "shop")
    assert (len(model.asked), set(texts), world.warnings) == (1, {"orders", "staff"}, [])
    assert set(texts["orders"].texts) == {("source", "orders"), ("measure", "revenue"), ("segment", "large")}
    assert texts["orders"].texts["measure", "revenue"].synonyms == ("takings",)
    assert texts["staff"].texts == {}, "names of another source are left out"
    assert world.write(model) == {}
    assert len(model.asked) == 1


def test_a_damaged_file_is_reported_before_it_is_written_again(world: World) -> None:
    world.write(Model(usual))
    written = (world.layout.root / PATH).read_bytes()
    for damaged in (
        b"format: 1\nsources: [",
        b"format: 2\nsources: {}\n",
        b"format: 1\nsources: {orders: [a]}\n",
        b"\xff",
    ):
        (world.layout.root / PATH).write_bytes(damaged)
        world.warnings.clear()
        assert list(world.write(Model(usual))) == [PATH]
        (warning,) = world.warnings
        assert (warning.code, PATH in warning.message) == ("questions_unreadable", True)
        assert (world.layout.root / PATH).read_bytes() == written


def test_a_dry_run_counts_the_sources_that_would_be_asked_about(world: World) -> None:
    plan = run_plan(world.layout, world.config, [])

    def demand(is_kept: bool = False) -> QuestionDemand:
        return definition_demand(
            plan, Workspace(WorkingTree(world.layout.root)), ["shop"], lambda kind, keys: keys if is_kept else ()
        )

    assert (demand(), demand(is_kept=True)) == (QuestionDemand(2, 1), QuestionDemand())
    world.write(Model(usual))
    assert demand() == QuestionDemand()


def test_the_model_sees_definitions_and_nothing_hidden(world: World) -> None:
    model = Model(usual)
    world.write(model)
    (message,) = model.asked
    for shown in ("source orders: What people bought.", "measure revenue: `sum(amount)` What buyers paid.", "large"):
        assert shown in message
    assert "measure profit:" in message
    assert "margin" not in message


def test_only_a_changed_source_is_asked_about_and_texts_of_what_is_gone_go(world: World) -> None:
    world.write(Model(usual))
    overlay(world).write_text(
        ORDERS.replace("  - {name: large, expr: amount > 100}", "  []").replace("segments:\n", "segments:")
    )
    model = Model(lambda said: {"sources": []})
    world.write(model)
    assert "source orders" in model.asked[0] and "source staff" not in model.asked[0]
    texts = read_search_texts(WorkingTree(world.layout.root), "shop")
    assert set(texts["orders"].texts) == {("source", "orders"), ("measure", "revenue")}, "old ones stay until then"
    assert [each.code for each in world.warnings] == ["questions_failed"]
    again = Model(usual)
    world.write(again)
    assert len(again.asked) == 1


def test_a_call_that_fails_costs_nothing_but_its_questions(world: World) -> None:
    model = Model(usual, LlmError("too long", code="context"))
    world.write(model)
    (warning,) = world.warnings
    assert (warning.code, "2 sources" in warning.message, "too long" in warning.message) == (
        "questions_failed",
        True,
        True,
    )
    assert len(Model(usual).asked) == 0
    world.write(again := Model(usual))
    assert len(again.asked) == 1


def test_secrets_are_neither_sent_nor_kept(world: World) -> None:
    key = "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE8key"
    overlay(world).write_text(ORDERS.replace("What people bought.", f'"{key}"'))
    model = Model(
        lambda said: {
            "sources": [
                {
                    "source": "s2",
                    "definitions": [
                        {
                            "name": "source staff",
                            "questions": ["Is it ann.lee@quickmail.org?", key],
                            "synonyms": ["team"],
                        }
                    ],
                }
            ]
        }
    )
    world.write(model)
    assert "source orders:" in model.asked[0] and "aws_secret" not in model.asked[0]
    content = (world.layout.root / PATH).read_text()
    assert "ann.lee" not in content and "aws_secret" not in content and "team" in content


def test_search_finds_definitions_by_them_beside_those_of_people(world: World) -> None:
    world.write(Model(usual))
    searcher = open_searcher(world.layout, world.config, {})
    searcher.look_seconds = 0
    try:
        for query in ("takings", "how rich are we all getting", "how much did the buyers pay us"):
            assert searcher.search(query, Scope(), 3).found.hits[0].id == "orders.revenue", query
        path = world.layout.root / PATH
        path.write_text(path.read_text().replace("takings", "zebras"))
        assert searcher.search("zebras", Scope(), 3).found.hits[0].id == "orders.revenue"
        assert not searcher.search("takings", Scope(), 3).found.hits
        path.write_text("sources: [")
        assert not searcher.search("zebras", Scope(), 3).found.hits
    finally:
        searcher.close()


def test_the_file_is_one_that_people_can_read(world: World) -> None:
    world.write(Model(usual))
    document = yaml.load((world.layout.root / PATH).read_text(), where=PATH)
    assert document["sources"]["orders"]["measures"] == {
        "revenue": {"questions": ["How rich are we getting?"], "synonyms": ["takings"]}
    }
