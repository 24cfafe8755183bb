"""What a dbt project declares: keys and joins of tests and constraints, layers, and lineage."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ktx_cli.documents import RawFile, Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, Layer
from ktx_cli.sources.dbt.source import DbtSource


def declared(**files: str) -> Declarations:
    """Return the declarations of a project; the names of files have `__` for `/` and end in `_yml` or `_sql`."""
    found: dict[str, RawFile] = {}
    for name, text in {"dbt_project_yml": "name: shop\n", **files}.items():
        path, content = name.replace("__", "/").replace("_yml", ".yml").replace("_sql", ".sql"), text.encode()
        found[path] = RawFile(path, hashlib.sha256(content).hexdigest(), len(content), content.__bytes__)
    return DbtSource().declarations(None, Snapshot(found))


def column(text: str) -> str:
    return f"models:\n  - name: orders\n    columns:\n      - name: id\n        {text}\n"


@pytest.mark.parametrize(
    ("text", "keys", "filled"),
    [
        ("tests: [unique, not_null]", (("id",),), ("id",)),
        ("data_tests: [unique]", (("id",),), ()),
        ("data_tests: [not_null]", (), ("id",)),
        ("data_tests: [{unique: {config: {where: 'x = 1'}}}]", (), ()),
        ("data_tests: [{unique: {config: {enabled: false}}}]", (), ()),
        ("data_tests: [{not_null: {config: {severity: warn}}}]", (), ("id",)),
        ("constraints: [{type: primary_key}]", (("id",),), ("id",)),
        ("constraints: [{type: not_null}, {type: unique}]", (("id",),), ("id",)),
        ("description: The key.", (), ()),
    ],
)
def test_keys_of_columns(text: str, keys: Any, filled: Any) -> None:
    table = declared(models__schema_yml=column(text)).tables["ref.orders"]
    assert (table.keys, table.filled) == (keys, filled)


COMBINED = {
    "data_tests: [{dbt_utils.unique_combination_of_columns: {combination_of_columns: [a, b]}}]": (("a", "b"),),
    "data_tests: [{dbt_utils.unique_combination_of_columns: {arguments: {combination_of_columns: [a, b]}}}]": (
        ("a", "b"),
    ),
    "constraints: [{type: primary_key, columns: [a, b]}]": (("a", "b"),),
    "constraints: [{type: check, columns: [a, b]}]": (),
    "data_tests: [{dbt_utils.expression_is_true: {expression: a > b}}]": (),
}


@pytest.mark.parametrize(("text", "keys"), COMBINED.items())
def test_keys_of_tables(text: str, keys: Any) -> None:
    yaml = f"models:\n  - name: orders\n    {text}\n"
    assert declared(models__schema_yml=yaml).tables["ref.orders"].keys == keys


REFERS = {
    "data_tests: [{relationships: {to: ref('people'), field: id}}]": ("ref.people", "id"),
    "tests: [{relationships: {arguments: {to: \"source('raw', 'people')\", field: key}}}]": (
        "source.raw.people",
        "key",
    ),
    "constraints: [{type: foreign_key, to: ref('people'), to_columns: [id]}]": ("ref.people", "id"),
    "data_tests: [{relationships: {to: ref('people'), field: id, config: {where: 'x'}}}]": None,
    "data_tests: [{relationships: {to: people, field: id}}]": None,
    "data_tests: [{relationships: {to: ref('people')}}]": None,
}


@pytest.mark.parametrize(("text", "expected"), REFERS.items())
def test_joins(text: str, expected: tuple[str, str] | None) -> None:
    found = declared(models__schema_yml=column(text)).joins
    joins = () if expected is None else (DeclaredJoin("ref.orders", ("id",), expected[0], (expected[1],)),)
    assert found == joins


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("models__staging__orders_sql", Layer.STAGING),
        ("models__shop__stg_orders_sql", Layer.STAGING),
        ("models__intermediate__orders_sql", Layer.INTERMEDIATE),
        ("models__int_orders_sql", Layer.INTERMEDIATE),
        ("models__marts__orders_sql", Layer.MARTS),
        ("models__finance__orders_sql", Layer.MARTS),
        ("models__marts__base_orders_sql", Layer.MARTS),
        ("models__marts__int__orders_sql", Layer.MARTS),
        ("models__staging__marts__orders_sql", Layer.STAGING),
        ("staging__models__orders_sql", Layer.MARTS),
    ],
)
def test_layers_of_models(path: str, expected: Layer) -> None:
    (table,) = declared(**{path: "select 1 as id\n"}).tables.values()
    assert table.layer is expected


def test_a_seed_needs_no_yaml() -> None:
    found = declared(models__orders_sql="select * from {{ ref('raw_orders') }}\n").tables
    assert (found["ref.raw_orders"].name, found["ref.raw_orders"].layer) == ("raw_orders", Layer.RAW)


def test_lineage_and_the_layers_of_everything_else() -> None:
    found = declared(
        models__sources_yml="sources: [{name: raw, schema: landing, tables: [{name: people, identifier: PPL}]}]\n",
        seeds__seeds_yml="seeds: [{name: countries}]\n",
        models__mid_sql="{{ config(materialized='ephemeral') }} select * from {{ source('raw', 'people') }}\n",
        models__people_sql="select * from {{ ref('mid') }} join {{ ref('countries') }} using (c)\n",
        models__off_sql="{{ config(enabled=false) }} select 1 as x\n",
        snapshots__old_sql="{% snapshot old %} select * from {{ ref('people') }} {% endsnapshot %}\n",
    ).tables
    assert set(found) == {"source.raw.people", "ref.countries", "ref.mid", "ref.people", "ref.old"}
    assert {name: table.layer for name, table in found.items() if table.layer is not Layer.MARTS} == {
        "source.raw.people": Layer.RAW, "ref.countries": Layer.RAW, "ref.old": Layer.SNAPSHOTS,
    }  # fmt: skip
    assert (found["source.raw.people"].name, found["source.raw.people"].schema) == ("PPL", "landing")
    assert (found["ref.mid"].virtual, found["ref.mid"].built_from) == (True, ("source.raw.people",))
    assert found["ref.people"].built_from == ("ref.mid", "ref.countries")
    assert (found["ref.old"].keys, found["ref.old"].built_from) == ((("dbt_scd_id",),), ("ref.people",))


VERSIONED = """\
models:
  - name: bills
    latest_version: 3
    columns: [{name: bill_id, data_tests: [unique, not_null]}]
    versions:
      - {v: 1, config: {alias: bills_old}}
      - {v: 2, defined_in: bills_second, columns: [{include: all, exclude: [tax]}]}
      - {v: 3}
      - {v: 4, config: {enabled: false}}
"""


def test_older_versions_are_in_the_layer_of_their_model() -> None:
    found = declared(
        models__staging__schema_yml=VERSIONED,
        models__staging__bills_v1_sql="select * from {{ source('raw', 'bills') }}\n",
        models__staging__bills_second_sql="{{ config(alias='bills_2nd') }} select * from {{ ref('bills', v=3) }}\n",
        models__staging__bills_v3_sql="select * from {{ ref('raw_bills') }}\n",
    ).tables
    assert {id: table.name for id, table in found.items()} == {
        "ref.bills": "bills_v3", "ref.bills_old": "bills_old", "ref.bills_2nd": "bills_2nd",
        "ref.raw_bills": "raw_bills",
    }  # fmt: skip
    assert {table.layer for id, table in found.items() if id != "ref.raw_bills"} == {Layer.STAGING}
    assert [found[id].built_from for id in ("ref.bills", "ref.bills_old", "ref.bills_2nd")] == [
        ("ref.raw_bills",), ("source.raw.bills",), ("ref.bills",)
    ]  # fmt: skip
    assert [found[id].keys for id in ("ref.bills", "ref.bills_old", "ref.bills_2nd")] == [
        (("bill_id",),), (("bill_id",),), ()
    ]  # fmt: skip


def test_a_version_without_a_file_is_built_from_what_the_latest_reads() -> None:
    text = "models: [{name: bills, versions: [{v: 1}, {v: 2}]}]\n"
    found = declared(models__schema_yml=text, models__bills_v2_sql="select * from {{ ref('raw_bills') }}\n").tables
    assert found["ref.bills_v1"].built_from == found["ref.bills"].built_from == ("ref.raw_bills",)
