"""What has a description is counted, and what has none is told, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.check.lint.lint import DescribedLayer, Share
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.descriptions.facts import TEXT_KEYS
from ktx_cli.semantic.load.load import load_model
from tests.jobs.check.lint.conftest import Project


def test_tables_columns_and_measures_are_counted_and_texts_by_rules_are_not(project: Project) -> None:
    found = project.lint().coverage["warehouse"]
    assert (found.tables, found.columns, found.measures) == (Share(1, 2), Share(2, 6), Share(2, 2))
    assert found.all.to_json() == {"described": 5, "total": 10, "percent": 50.0}


def test_what_has_none_is_named_with_its_line(project: Project) -> None:
    told = {(each.code, str(each.location)): each.message for each in project.found("KTX1")}
    shard = "semantic-layer/warehouse/_schema/shop.yaml"
    assert told == {
        ("KTX101", f"{shard}:12"): "table `customers` has no description (1 join)",
        ("KTX102", f"{shard}:7"): "table `orders`: 2 of 4 columns without a description: customer_id, status",
        ("KTX102", f"{shard}:15"): "table `customers`: 2 of 2 columns without a description: id, country",
        ("KTX104", f"{shard}:12"): "table `customers` has no measure (1 join)",
    }


def test_what_is_hidden_does_not_count(project: Project) -> None:
    project.change("semantic-layer/warehouse/orders.yaml", "measures:", "visibility: hidden\nmeasures:")
    hidden = "name: customers\ncolumn_overrides: [{name: country, visibility: hidden}]\n"
    project.write("semantic-layer/warehouse/customers.yaml", hidden)
    found = project.lint().coverage["warehouse"]
    assert (found.tables, found.columns, found.measures) == (Share(0, 1), Share(0, 1), Share())
    assert found.measures.percent is None


def test_queried_tables_come_before_joined_ones_and_large_ones(project: Project) -> None:
    names = {"small": "", "large": "", "joined": "", "often": "    usage: {frequencyTier: high}\n"}
    columns = "    columns: [{name: id, type: number, pk: true}]\n"
    tables = "".join(f"  {name}:\n    table: {name}\n{more}{columns}" for name, more in names.items())
    tables = tables.replace(
        "  often:", "    joins: [{to: small, on: id = small.id, relationship: many_to_one}]\n  often:"
    )
    project.write("semantic-layer/warehouse/_schema/shop.yaml", f"tables:\n{tables}")
    (project.root / "semantic-layer/warehouse/orders.yaml").unlink()
    with open_for_writing(project.layout) as database:
        rows = '{"small": 3, "large": 12000}'
        database.execute("INSERT INTO scans VALUES ('warehouse', 'r', 't', '', '{}', 4, 4, ?)", (rows,))
    assert [each.message.split("`")[1] for each in project.found("KTX101")] == ["often", "joined", "large", "small"]
    assert "(queried: high)" in project.found("KTX101")[0].message
    assert "(12,000 rows)" in project.found("KTX101")[2].message


@pytest.mark.parametrize(("wanted", "fails"), [(50.0, False), (50.1, True), (0.0, False), (100.0, True)])
def test_too_little_is_an_error_only_where_more_is_wanted(project: Project, wanted: float, fails: bool) -> None:
    found = project.lint("KTX1", min_coverage=wanted)
    assert [each.code for each in found.diagnostics if each.severity == "error"] == ["KTX106"] * fails
    assert (found.error() is not None) is fails


def test_a_share_is_rounded_down() -> None:
    assert Share(1999, 2000).text == "99.9% (1,999 of 2,000)"
    assert Share(2000, 2000).percent == 100.0
    assert Share().text == "none"


def test_a_database_without_context_is_a_warning(project: Project) -> None:
    project.change("ktx.yaml", "connections:", "connections:\n  other:\n    driver: sqlite\n    path: other.sqlite")
    (found,) = project.found("KTX105")
    assert (found.severity, found.hint, found.location.connection) == ("warning", "ktx ingest other", "other")
    assert project.lint("KTX105", connection="warehouse").diagnostics == ()
    with pytest.raises(UsageError):
        project.lint(connection="nothing")


def test_a_table_of_many_columns_is_gone_through_once(tmp_path: Path) -> None:
    class Counted(list[Any]):
        begun = 0

        def __iter__(self) -> Iterator[Any]:
            self.begun += 1
            return super().__iter__()

        def __reversed__(self) -> Iterator[Any]:
            self.begun += 1
            return super().__reversed__()

    folder = tmp_path / "semantic-layer" / "wh" / "_schema"
    folder.mkdir(parents=True)
    names = [f"c{number}" for number in range(200)]
    by_rules = TEXT_KEYS["rules"]
    entry: dict[str, Any] = {
        "table": "t",
        "columns": [{"name": name, "type": "number", "descriptions": {by_rules: f"{name}."}} for name in names],
    }
    (folder / "main.yaml").write_bytes(yaml.dump({"tables": {"big": entry}}).encode())
    model = load_model(Layout(tmp_path), "wh", "sqlite")
    columns = Counted(entry["columns"])
    described = DescribedLayer(model, {"big": {**entry, "columns": columns}}, {})
    source = model.sources["big"]
    assert [described.is_described(source, column) for column in source.columns.values()] == [False] * len(names)
    assert columns.begun == 1
