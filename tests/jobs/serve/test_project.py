"""What a server keeps of a project is as its files are now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from ktx_cli.core.errors import ConfigError, NoProjectError
from ktx_cli.jobs.semantic.question import Question, ask_layer
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.caller import Caller

CONFIG = "connections:\n  shop:\n    driver: duckdb\n    path: shop.duckdb\n"
SOURCE = """\
name: orders
table: main.orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: amount, type: number}
measures:
  - {name: total, expr: sum(amount)}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ServedProject]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as session:
        session.execute("CREATE TABLE orders AS SELECT range AS id, 2 AS amount FROM range(5)")
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    folder = tmp_path / "semantic-layer" / "shop"
    folder.mkdir(parents=True)
    (folder / "orders.yaml").write_text(SOURCE)
    served = ServedProject(Layout(tmp_path), {})
    yield served
    served.close()


def total(project: ServedProject) -> object:
    told = ask_layer(
        project.layout,
        project.config(),
        Question({"measures": ["orders.total"]}),
        environ={},
        services=project.services,
    )
    return told.rows[0][0]


def test_a_layer_is_read_once_and_again_where_its_file_changed(project: ServedProject) -> None:
    first = project.load_layer(project.layout, project.config(), "shop")
    assert project.load_layer(project.layout, project.config(), "shop") is first
    assert total(project) == 10
    path = project.layout.root / "semantic-layer" / "shop" / "orders.yaml"
    path.write_text(SOURCE.replace("sum(amount)", "sum(amount * 10)"))
    assert total(project) == 100
    path.unlink()
    assert "orders" not in project.load_layer(project.layout, project.config(), "shop").sources


def test_settings_are_those_of_the_file_now(project: ServedProject) -> None:
    first = project.config()
    assert project.config() is first
    project.layout.config.write_text(CONFIG + "semantic:\n  week_start: sunday\n")
    assert project.config().semantic.week_start == "sunday"
    project.layout.config.write_text("connections: [")
    with pytest.raises(ConfigError):
        project.config()
    project.layout.config.unlink()
    with pytest.raises(NoProjectError):
        project.config()
    project.layout.config.write_text(CONFIG)
    assert total(project) == 10


def test_the_same_question_is_checked_once(project: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.warehouses.guard import check

    checks: list[str] = []
    inner = check.check

    def counted(sql: str, *rest: object, **more: object) -> object:
        checks.append(sql)
        return inner(sql, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "check", counted)
    assert total(project) == 10
    first = len(checks)
    assert total(project) == 10
    assert (first > 0, len(checks)) == (True, first)


def test_new_data_is_counted_anew(project: ServedProject) -> None:
    assert total(project) == 10
    project.pool.close()
    with duckdb.connect(str(project.layout.root / "shop.duckdb")) as session:
        session.execute("INSERT INTO orders VALUES (9, 7)")
    assert total(project) == 17


def test_a_question_is_compiled_once_a_day_and_anew_for_another_layer(
    project: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ktx_cli.semantic import answer

    asked: list[object] = []
    inner = answer.prepare

    def counted(model: object, query: object, **rest: object) -> object:
        asked.append(query)
        return inner(model, query, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(answer, "prepare", counted)
    model = project.load_layer(project.layout, project.config(), "shop")
    monday, tuesday = (datetime(2026, 3, day, 12, tzinfo=UTC) for day in (2, 3))
    query = {"measures": ["orders.total"]}
    first = project.prepare(model, query, caller=Caller.of({}), now=monday)
    assert project.prepare(model, dict(query), caller=Caller.of({}), now=monday.replace(hour=23)) is first
    assert project.prepare(model, query, caller=Caller.of({"region": "EU"}), now=monday) is not first
    assert project.prepare(model, query, caller=Caller.of({}), now=tuesday) is not first
    assert len(asked) == 3
    (project.layout.root / "semantic-layer" / "shop" / "orders.yaml").write_text(SOURCE.replace("sum", "max"))
    assert total(project) == 2


def test_what_is_made_of_a_question_is_made_again_where_a_decision_or_a_setting_changed(project: ServedProject) -> None:
    model = project.load_layer(project.layout, project.config(), "shop")
    now = datetime(2026, 1, 2, tzinfo=UTC)
    prepared = project.prepare(model, {"measures": ["orders.total"]}, caller=Caller.of({}), now=now)
    made: list[object] = []

    def value(name: str = "status") -> object:
        return project.remember("shop", prepared, name, lambda: made.append(object()) or made[-1])

    first = value()
    assert value() is first and value("other") is not first
    root = project.layout.root
    changes = (
        root / "decisions.yaml",
        root / ".ktx" / "state.sqlite",
        root / ".ktx" / "state.sqlite-wal",
        root / "ktx.yaml",
    )
    for path in changes:
        before = value()
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{CONFIG}semantic: {{timezone: Europe/Oslo}}\n" if path.name == "ktx.yaml" else "changed")
        assert value() is not before, path
        path.unlink() if path.name != "ktx.yaml" else None
    other = project.prepare(model, {"measures": ["orders.total"], "limit": 7}, caller=Caller.of({}), now=now)
    assert project.remember("shop", other, "status", lambda: "another") == "another"
    source = root / "semantic-layer" / "shop" / "orders.yaml"
    source.write_text(SOURCE.replace("sum(amount)", "sum(amount * 10)"))
    assert total(project) == 100 and not any(each.prepared is prepared for each in project._made.values())


def test_a_compiled_statement_is_parsed_once(project: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.warehouses.guard.check import _Rules

    texts: list[str] = []
    parse = _Rules.parse
    monkeypatch.setattr(_Rules, "parse", lambda rules, sql: texts.append(sql) or parse(rules, sql))
    question = Question({"measures": ["orders.total"], "dimensions": ["orders.id"], "filters": ["orders.amount > 1"]})
    answer = ask_layer(project.layout, project.config(), question, environ={}, services=project.services)
    assert len(answer.rows) == 5
    assert [text for text in texts if "LIMIT" in text and "GROUP BY" in text] == list(dict.fromkeys(texts))[-1:]
