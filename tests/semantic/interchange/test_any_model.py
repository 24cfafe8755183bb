"""Whatever names and SQL a well-formed model has, what is imported of it loads and checks without an error."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.interchange.dbt.importer import import_dbt
from ktx_cli.semantic.interchange.lookml.importer import import_lookml
from ktx_cli.semantic.interchange.osi.exporter import export_osi
from ktx_cli.semantic.interchange.osi.importer import import_osi
from ktx_cli.semantic.interchange.report import Imported
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from tests.semantic.interchange.conftest import MANIFEST, errors

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

SOURCES = st.sampled_from(["orders", "customers", "order_items", "things"])
NAMES = st.sampled_from(
    ["a", "b", "id", "amount", "customer_id", "order", "Group", "two words", "a.b", "1x", "ordered_at"]
)
SQL = st.sampled_from(
    ["amount", "id", "upper(status)", "a + b", "amount > 1", "sum(amount)", "count(*)", "(select 1)", "sum(a) over ()",
     "date_trunc('day', ordered_at)", "orders.amount", "customers.region", "nobody.x", "'it''s'", "1", "a;b", "--x",
     "cast(a as date)", "a::integer", '"two words"', "amount) or (1=1", "{{ user.x }}", "{{ Dimension('a__b') }}"]
)  # fmt: skip


def loaded(found: Imported, *, manifest: bool) -> Model:
    files = {**found.files, **({"_schema/main.yaml": MANIFEST} if manifest else {})}
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / "semantic-layer" / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        model = load_model(Layout(Path(root)), "shop", "duckdb")
        assert errors(model) == [], found.files
    return model


def no_files() -> Imported:
    return Imported({}, ())


ENTITY = st.fixed_dictionaries(
    {"name": NAMES, "type": st.sampled_from(["primary", "foreign", "unique"])}, optional={"expr": SQL}
)
DIMENSION = st.fixed_dictionaries(
    {"name": NAMES, "type": st.sampled_from(["categorical", "time"])}, optional={"expr": SQL}
)
MEASURE = st.fixed_dictionaries(
    {"name": NAMES, "agg": st.sampled_from(["sum", "count", "count_distinct", "max", "sum_boolean", "median"])},
    optional={"expr": SQL, "non_additive_dimension": st.fixed_dictionaries({"name": NAMES})},
)
INPUT = st.one_of(NAMES, st.fixed_dictionaries({"name": NAMES}, optional={"filter": SQL, "alias": NAMES}))
METRIC = st.one_of(
    st.fixed_dictionaries(
        {"name": NAMES, "type": st.just("simple"), "type_params": st.fixed_dictionaries({"measure": INPUT})},
        optional={"filter": SQL},
    ),
    st.fixed_dictionaries({
        "name": NAMES, "type": st.just("ratio"),
        "type_params": st.fixed_dictionaries({"numerator": INPUT, "denominator": INPUT}),
    }),
    st.fixed_dictionaries({
        "name": NAMES, "type": st.just("derived"),
        "type_params": st.fixed_dictionaries({"expr": SQL, "metrics": st.lists(INPUT, min_size=1, max_size=2)}),
    }),
    st.fixed_dictionaries(
        {"name": NAMES, "type": st.just("cumulative"), "type_params": st.fixed_dictionaries({"measure": INPUT})}
    ),
)  # fmt: skip
SEMANTIC = st.fixed_dictionaries({
    "name": SOURCES, "model": SOURCES.map(lambda name: f"ref('{name}')"),
    "entities": st.lists(ENTITY, max_size=3), "dimensions": st.lists(DIMENSION, max_size=3),
    "measures": st.lists(MEASURE, max_size=3),
})  # fmt: skip
DBT = st.fixed_dictionaries({
    "semantic_models": st.lists(SEMANTIC, min_size=1, max_size=3), "metrics": st.lists(METRIC, max_size=4),
})  # fmt: skip


@QUICK
@given(DBT, st.booleans())
def test_what_is_imported_of_dbt_is_clean(document: Any, manifest: bool) -> None:
    model = loaded(no_files(), manifest=True) if manifest else None
    loaded(import_dbt({"a.yml": yaml.dump(document)}, model), manifest=manifest)


WORDS = st.sampled_from(["a", "b", "id", "amount", "status", "customer_id", "ordered_at"])
LOOKER_SQL = st.one_of(
    SQL.filter(lambda text: "{" not in text),
    st.sampled_from(
        ["${TABLE}.amount", "${a}", "${b} + 1", "${customers.a}", "${TABLE}.Weird", "sum(${a})", "${m}/${n}"]
    ),
)
FIELD = st.one_of(
    st.builds("dimension: {} {{ type: {} {} sql: {} ;; }}".format, WORDS,
              st.sampled_from(["string", "number", "yesno"]),
              st.sampled_from(["", "hidden: yes", "primary_key: yes"]), LOOKER_SQL),
    st.builds("dimension_group: {} {{ type: time sql: {} ;; }}".format, WORDS, LOOKER_SQL),
    st.builds("measure: {} {{ type: {} sql: {} ;; {} }}".format, st.sampled_from(["m", "n", "a"]),
              st.sampled_from(["sum", "count", "number", "max", "percent_of_total"]), LOOKER_SQL,
              st.sampled_from(["", 'filters: [a: "x"]', 'filters: [b: ">1", customers.a: "-y"]'])),
)  # fmt: skip
VIEW = st.builds(
    lambda name, fields: f"view: {name} {{\n{chr(10).join(fields)}\n}}", SOURCES, st.lists(FIELD, max_size=6)
)
JOIN = st.builds(
    "join: {0} {{ {3} relationship: {1} sql_on: ${{orders.{2}}} = ${{{0}.{2}}} ;; }}".format, SOURCES,
    st.sampled_from(["many_to_one", "one_to_many", "one_to_one"]), WORDS, st.sampled_from(["", "from: customers"]),
)  # fmt: skip
EXPLORE = st.builds(
    lambda joins, rule: f"explore: orders {{\n{chr(10).join(joins)}\n{rule}\n}}", st.lists(JOIN, max_size=3),
    st.sampled_from(["", "sql_always_where: ${orders.a} > 1 ;;",
                     "access_filter: { field: orders.a user_attribute: u }"]),
)  # fmt: skip


@QUICK
@given(st.lists(VIEW, min_size=1, max_size=3), EXPLORE, st.booleans())
def test_what_is_imported_of_lookml_is_clean(views: list[str], explore: str, manifest: bool) -> None:
    model = loaded(no_files(), manifest=True) if manifest else None
    loaded(import_lookml({"a.lkml": "\n".join([*views, explore])}, model), manifest=manifest)


FIELDS = st.lists(st.fixed_dictionaries({"name": NAMES, "expression": SQL}), max_size=4)
OSI_METRIC = st.fixed_dictionaries(
    {"name": NAMES, "expression": st.one_of(SQL, st.builds("SUM({}.{})".format, SOURCES, WORDS))}
)
OSI = st.fixed_dictionaries({
    "name": st.just("m"),
    "datasets": st.lists(
        st.fixed_dictionaries(
            {"name": SOURCES, "source": SOURCES, "fields": FIELDS},
            optional={"primary_key": st.lists(NAMES, max_size=2)},
        ),
        min_size=1, max_size=3,
    ),
    "relationships": st.lists(
        st.fixed_dictionaries({
            "name": NAMES, "from": SOURCES, "to": SOURCES, "from_columns": st.lists(NAMES, min_size=1, max_size=1),
            "to_columns": st.lists(NAMES, min_size=1, max_size=1),
        }), max_size=3,
    ),
    "metrics": st.lists(OSI_METRIC, max_size=3),
})  # fmt: skip


@QUICK
@given(OSI, st.booleans())
def test_what_is_imported_of_osi_is_clean_and_can_be_exported(document: Any, manifest: bool) -> None:
    model = loaded(no_files(), manifest=True) if manifest else None
    text = yaml.dump({"version": "0.1.1", "semantic_model": [document]})
    again = loaded(import_osi({"a.yaml": text}, model), manifest=manifest)
    exported, _ = export_osi(again)
    loaded(import_osi({"a.yaml": exported}, None), manifest=False)
