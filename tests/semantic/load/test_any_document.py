"""No document ends the loader, and what it makes of one is always the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.semantic import PROBLEM_KEYS
from ktx_cli.semantic.load.columns import KEYS as COLUMN_KEYS
from ktx_cli.semantic.load.columns import MEASURE_KEYS
from ktx_cli.semantic.load.joins import JOIN_KEYS
from ktx_cli.semantic.load.load import load_model, read_source
from ktx_cli.semantic.load.sources import KEYS as OVERLAY_KEYS
from ktx_cli.semantic.load.sources import STANDALONE_KEYS
from ktx_cli.semantic.store.reader import check_model

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
WORDS = st.sampled_from(
    ["a", "b", "id", "a.id = b.id", "id = b.id", "sum(id)", "1 day", "time", "many_to_one", "hidden"]
)
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS | WORDS, inner, max_size=3),
    max_leaves=8,
)


def mapping_of(keys: Any) -> Any:
    return st.dictionaries(st.sampled_from(sorted(keys)), VALUES | st.lists(VALUES, max_size=3), max_size=8)


BELOW = {
    key: st.lists(mapping_of(keys), max_size=3) | VALUES
    for key, keys in {
        "columns": COLUMN_KEYS,
        "column_overrides": COLUMN_KEYS,
        "joins": JOIN_KEYS,
        "measures": MEASURE_KEYS,
        "parameters": {"name", "type", "default", "values"},
        "policies": {"name", "filter"},
        "tests": {"name", "query", "expect", "expect_value", "invariant", "tolerance"},
    }.items()
}
SOURCES = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={key: BELOW.get(key, VALUES) for key in (STANDALONE_KEYS | OVERLAY_KEYS) - {"name"}},
)
SHARDS = st.fixed_dictionaries({"tables": st.dictionaries(st.sampled_from(["a", "b"]), SOURCES | VALUES) | VALUES})


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SHARDS | VALUES, SOURCES | VALUES, SOURCES | VALUES)
def test_any_document_is_loaded_and_checked(shard: Any, one: Any, two: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "semantic-layer" / "shop"
        (base / "_schema").mkdir(parents=True)
        for name, document in (("_schema/x.yaml", shard), ("one.yaml", one), ("two.yml", two)):
            (base / name).write_bytes(yaml.dump(document).encode("utf-8", "surrogatepass"))
        layout = Layout(Path(folder))
        model = load_model(layout, "shop", "duckdb")
        assert model == load_model(layout, "shop", "duckdb")
        problems = [*model.problems, *check_model(model)]
        assert all(each.path and each.line >= 1 and each.message for each in problems)
        assert repr([each.select(PROBLEM_KEYS) for each in problems])
        for name in ("a", "b"):
            read_source(WorkingTree(layout.root), "shop", name)


@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"name: a\ntable: {text}".encode("utf-8", "replace"))
)
def test_any_bytes_are_loaded(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "semantic-layer" / "shop"
        (base / "_schema").mkdir(parents=True)
        (base / "_schema" / "x.yaml").write_bytes(content)
        (base / "a.yaml").write_bytes(content)
        load_model(Layout(Path(folder)), "shop", "duckdb")
        read_source(WorkingTree(Path(folder)), "shop", "a")
