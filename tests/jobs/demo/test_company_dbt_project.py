"""The dbt project is complete YAML, names only what exists, and its tests hold on the data as dbt would run them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.yaml import load
from ktx_cli.jobs.demo.company import MARTS, compiled_sql, copy_packaged, model_files, packaged_names, packaged_text

Ask = Callable[[str], list[tuple[Any, ...]]]
Json = dict[str, Any]

YAML_FILES = [name for name in packaged_names("dbt") if name.endswith(".yml")]


@functools.cache
def entries(key: str) -> list[Json]:
    """Return what all YAML files list under a key."""
    documents = [load(packaged_text(f"dbt/{name}"), where=name) for name in YAML_FILES]
    return [entry for document in documents if isinstance(document.get(key), list) for entry in document[key]]


def relations() -> Iterator[tuple[str, Json]]:
    """Yield every source table and model as (what to select from, its YAML)."""
    for source in entries("sources"):
        for table in source["tables"]:
            yield f"{source['schema']}.{table['name']}", table
    for model in entries("models"):
        yield relation(f"ref('{model['name']}')"), model


def relation(reference: str) -> str:
    function, arguments = re.fullmatch(r"(ref|source)\((.*)\)", reference).groups()  # type: ignore[union-attr]
    names = re.findall(r"'([^']+)'", arguments)
    if function == "source":
        assert names[1] in {t["name"] for s in entries("sources") if s["name"] == names[0] for t in s["tables"]}
        return ".".join(names)
    return MARTS.get(names[0], f"({compiled_sql(names[0])})")


def data_tests() -> Iterator[tuple[str, str, str, Json]]:
    """Yield every test of a column as (relation, column, kind, arguments)."""
    for where, entry in relations():
        for column in entry["columns"]:
            for test in column.get("data_tests", []):
                kind, arguments = (test, {}) if isinstance(test, str) else next(iter(test.items()))
                yield where, column["name"], kind, arguments


def failures(where: str, column: str, kind: str, arguments: Json) -> str:
    """Return the SQL whose rows break the test."""
    match kind:
        case "unique":
            return f"SELECT {column} FROM {where} AS t WHERE {column} IS NOT NULL GROUP BY 1 HAVING count(*) > 1"
        case "not_null":
            return f"SELECT 1 FROM {where} AS t WHERE {column} IS NULL"
        case "accepted_values":
            values = ", ".join(f"'{value}'" for value in arguments["values"])
            return f"SELECT {column} FROM {where} AS t WHERE {column} NOT IN ({values})"
        case "relationships":
            target = relation(arguments["to"])
            return (
                f"SELECT {column} FROM {where} AS t WHERE {column} IS NOT NULL"
                f" AND {column} NOT IN (SELECT {arguments['field']} FROM {target} AS p)"
            )
    raise AssertionError(kind)


TESTS = list(data_tests())


def test_the_project_is_written_whole(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix() for path in copy_packaged("dbt", tmp_path)}
    assert written == set(packaged_names("dbt"))
    assert {"dbt_project.yml", "profiles.yml", *model_files().values()} <= written


@pytest.mark.table("name", YAML_FILES)
def test_yaml_parses(name: str) -> None:
    assert type(load(packaged_text(f"dbt/{name}"), where=name)) is dict


def test_every_model_is_described_and_every_description_has_a_model() -> None:
    described = [model["name"] for model in entries("models")]
    assert sorted(described) == sorted(model_files())
    assert all(model["description"] for model in entries("models"))
    assert len([path for path in model_files().values() if path.startswith("models/staging/")]) >= 5
    assert {name for name, path in model_files().items() if path.startswith("models/marts/")} == set(MARTS)


def test_every_table_is_a_source(ask: Ask) -> None:
    sources = {f"{source['schema']}.{table['name']}" for source in entries("sources") for table in source["tables"]}
    assert sources == {name for (name,) in ask("SELECT schema_name || '.' || table_name FROM duckdb_tables()")}


@pytest.mark.table("model", sorted(model_files()))
def test_models_run_and_leave_no_jinja(model: str, ask: Ask) -> None:
    sql = compiled_sql(model)
    assert "{" not in sql
    assert ask(f"SELECT count(*) FROM ({sql}) AS m")[0][0] > 0


@pytest.mark.parametrize("model", sorted(MARTS))
def test_the_views_of_the_warehouse_are_the_marts(model: str, ask: Ask) -> None:
    assert ask(f"FROM {MARTS[model]} EXCEPT ALL ({compiled_sql(model)})") == []
    assert ask(f"({compiled_sql(model)}) EXCEPT ALL FROM {MARTS[model]}") == []


@pytest.mark.table(("where", "entry"), relations)
def test_documented_columns_exist(where: str, entry: Json, ask: Ask) -> None:
    existing = {row[0] for row in ask(f"DESCRIBE SELECT * FROM {where} AS r")}
    documented = [column["name"] for column in entry["columns"]]
    assert len(documented) == len(set(documented))
    assert set(documented) <= existing


def test_every_kind_of_test_is_used() -> None:
    assert {kind for _, _, kind, _ in TESTS} == {"unique", "not_null", "relationships", "accepted_values"}


@pytest.mark.table("test", TESTS)
def test_the_tests_of_the_project_hold(test: tuple[str, str, str, Json], ask: Ask) -> None:
    broken = ask(failures(*test))
    if test[3].get("config", {}).get("severity") == "warn":
        assert broken, "a test that is only a warning has a reason"
    else:
        assert broken == []


def test_the_semantic_models_name_columns_of_their_models(ask: Ask) -> None:
    assert [model["name"] for model in entries("semantic_models")] == ["order_revenue", "customer_value"]
    for model in entries("semantic_models"):
        columns = {row[0] for row in ask(f"DESCRIBE SELECT * FROM {relation(model['model'])}")}
        for part in ("entities", "dimensions", "measures"):
            assert {entry.get("expr", entry["name"]) for entry in model[part]} <= columns
        assert model["defaults"]["agg_time_dimension"] in {entry["name"] for entry in model["dimensions"]}


def test_metrics_name_measures_and_metrics() -> None:
    measures = {entry["name"] for model in entries("semantic_models") for entry in model["measures"]}
    metrics = {entry["name"]: entry for entry in entries("metrics")}
    assert {"net_revenue", "active_customers"} <= metrics.keys()
    for metric in metrics.values():
        parameters = metric["type_params"]
        if metric["type"] == "simple":
            assert parameters["measure"] in measures
        else:
            assert {parameters["numerator"], parameters["denominator"]} <= set(metrics)


def test_the_exposure_depends_on_what_exists(ask: Ask) -> None:
    (exposure,) = entries("exposures")
    assert len(exposure["depends_on"]) == 2
    for reference in exposure["depends_on"]:
        ask(f"SELECT 1 FROM {relation(reference)} LIMIT 1")


def test_the_profile_points_at_the_warehouse_beside_the_project() -> None:
    profiles = load(packaged_text("dbt/profiles.yml"), where="profiles.yml")
    project = load(packaged_text("dbt/dbt_project.yml"), where="dbt_project.yml")
    output = profiles[project["profile"]]["outputs"]["local"]
    assert (output["path"], output["schema"]) == ("../warehouse.duckdb", "finance")
    assert all(view.startswith(f"{output['schema']}.") for view in MARTS.values())
