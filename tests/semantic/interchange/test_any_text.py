"""Whatever stands in a file, an import gives files that are YAML, or a `KtxError`, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError
from ktx_cli.semantic.interchange.dbt.importer import import_dbt
from ktx_cli.semantic.interchange.lookml.importer import import_lookml
from ktx_cli.semantic.interchange.osi.importer import import_osi
from ktx_cli.semantic.interchange.report import Imported

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

SQL = st.one_of(
    st.sampled_from(["amount", "sum(amount)", "a.b", "${TABLE}.x", "${a}", "{{ Dimension('a__b') }} = 1", "((", "1"]),
    st.text(alphabet="ab.(){}$%'\";,=-+* \n\\", max_size=12),
)
DBT_KEYS = (
    "name", "model", "entities", "dimensions", "measures", "type", "expr", "agg", "filter", "type_params", "measure",
    "metrics", "numerator", "denominator", "semantic_model", "columns", "defaults", "agg_time_dimension", "tests",
    "non_additive_dimension", "description", "config", "entity", "dimension", "derived_semantics", "window",
)  # fmt: skip
OSI_KEYS = (
    "name", "source", "fields", "expression", "dialects", "dialect", "metrics", "relationships", "from", "to",
    "from_columns", "to_columns", "primary_key", "unique_keys", "ai_context", "custom_extensions", "data", "dimension",
    "is_time", "datatype", "description",
)  # fmt: skip
WORDS = st.sampled_from(
    ["a", "b", "ref('a')", "simple", "ratio", "derived", "cumulative", "primary", "foreign", "time", "categorical",
     "sum",
     "percentile", "ANSI_SQL", "main.a", "select 1", '{"ktx": {"alias": 1, "values": 2}}', "Decimal"]
)  # fmt: skip


def documents(keys: tuple[str, ...], tops: tuple[str, ...]) -> st.SearchStrategy[Any]:
    leaves = st.one_of(WORDS, SQL, st.booleans(), st.integers(-3, 300), st.none())
    values = st.recursive(
        leaves,
        lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.sampled_from(keys), below, max_size=6)),
        max_leaves=25,
    )
    entries = st.lists(st.dictionaries(st.sampled_from(keys), values, min_size=1, max_size=8), max_size=3)
    return st.dictionaries(st.sampled_from(tops), st.one_of(entries, values), max_size=3)


def check(found: Imported) -> None:
    for name, text in found.files.items():
        assert yaml.load(text, where=name)["name"]
    for item in found.report:
        assert item.what and item.place.line >= 1 and (item.target is not None) is (item.kind.value != "dropped")


@QUICK
@given(documents(DBT_KEYS, ("semantic_models", "models", "metrics", "sources")))
def test_any_dbt_document(document: Any) -> None:
    try:
        check(import_dbt({"a.yml": yaml.dump(document)}, None))
    except KtxError:
        pass


@QUICK
@given(documents(OSI_KEYS, ("semantic_model", "version")))
def test_any_osi_document(document: Any) -> None:
    try:
        check(import_osi({"a.yml": yaml.dump(document)}, None))
    except KtxError:
        pass


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["view: a {", "view: +a {", "explore: a {", "}", "dimension: b {", "measure: m {", "type: sum",
             "type: time",
             "sql: ${TABLE}.b ;;", "sql: ${m} ;;", "filters: [b: \"x\", m: \"\"]", "extends: [a]", "join: a {",
             "sql_on: ${a.b} = ${a.b} ;;", "dimension_group: c {", "derived_table: {", "tiers: [1, x]", "case: {",
             "when: {", "label: \"l\"", "primary_key: yes", "hidden: yes", "[", "]", "#x\n", ";;", "\"", "from: a"]
        ),
        SQL,
    ),
    max_size=14,
)  # fmt: skip


@QUICK
@given(PIECES)
def test_any_lookml(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    try:
        check(import_lookml({"a.lkml": text + "\n" + "}" * (text.count("{") - text.count("}"))}, None))
    except KtxError:
        pass


@QUICK
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    for read, name in ((import_dbt, "a.yml"), (import_osi, "a.json"), (import_lookml, "a.lkml")):
        try:
            check(read({name: text}, None))
        except KtxError:
            pass
