"""What a scan writes is read back as it was meant, whatever the names in the database are."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.record import Relationship, RelationshipRecord, Status
from ktx_cli.scan.shards import entries
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.manifest import render_shard, source_names
from ktx_cli.semantic.model import Condition
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.warehouses.port import Column, ForeignKey, SemanticType, Table, TableKind, TableRef

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('."`[]= '), min_size=1, max_size=8
).filter(lambda name: name == name.strip())


def table(ref: TableRef, *columns: str, keys: tuple[ForeignKey, ...] = ()) -> Table:
    described = tuple(Column(name, "integer", SemanticType.NUMBER, nullable=False) for name in columns)
    return Table(ref, TableKind.TABLE, described, primary_key=columns[:1], foreign_keys=keys)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(NAMES, min_size=2, max_size=2, unique_by=str.casefold),
    st.lists(NAMES, min_size=4, max_size=4, unique_by=str.casefold),
    st.sampled_from(["duckdb", "postgres", "mysql", "bigquery", "tsql"]),
)
def test_scanned_tables_are_read_back(tables: list[str], columns: list[str], dialect: str) -> None:
    parent, child = (TableRef("main", name) for name in tables)
    key, own_key, reference, kind = columns
    known = (
        table(parent, key),
        table(child, own_key, reference, kind, keys=(ForeignKey((reference,), parent, (key,)),)),
    )
    edge = Relationship(
        child, (own_key,), parent, (key,), Status.ACCEPTED, 0.9, "values fit", condition=(kind, "it's"),
    )  # fmt: skip
    names = source_names((parent, child), {})
    found = entries(known, names, RelationshipRecord({}, (edge,)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "semantic-layer" / "shop" / "_schema" / "main.yaml"
        path.parent.mkdir(parents=True)
        path.write_bytes(render_shard({"tables": {names[ref]: entry for ref, entry in found.items()}}))
        model = load_model(Layout(Path(folder)), "shop", dialect)
    assert model.problems == ()
    assert {each.code for each in check_model(model)} <= {"dotted_name", "display_value", "unproven_cardinality"}
    sources = {ref: model.sources[names[ref]] for ref in (parent, child)}
    assert [sources[ref].table for ref in (parent, child)] == [("main", name) for name in tables]
    forward = {join.pairs: join.conditions for join in sources[child].joins}
    assert forward == {((reference, key),): (), ((own_key, key),): (Condition(True, kind, "it's"),)}
    back = {join.pairs: join.conditions for join in sources[parent].joins}
    assert back == {((key, reference),): (), ((key, own_key),): (Condition(False, kind, "it's"),)}
