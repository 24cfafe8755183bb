"""Jinja in SQL files: known calls are resolved, the rest stays as it was written, and nothing is executed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.dbt.templates import MOST_CHARACTERS, Rendered, Texts, rendered

VARIABLES = {"days": 90, "card": "guest", "flag": False}


def read(text: str, dialect: str = "duckdb") -> Rendered:
    return rendered(text, Texts({}, VARIABLES, "prod"), dialect)


def words(text: str) -> str:
    """Return SQL with models by their names, on one line."""
    found = read(text)
    return " ".join(found.shown(found.sql).split())


@pytest.mark.table(
    ("text", "sql"),
    [
        ("select 1 from {{ ref('orders') }}", "select 1 from orders"),
        ("select 1 from {{ ref('pack', 'orders', v=2) }}", "select 1 from orders"),
        ('select 1 from {{source("web", "visits")}} v', "select 1 from visits v"),
        ("where d > {{ var('days') }} and c = '{{ var(\"card\") }}'", "where d > 90 and c = 'guest'"),
        ("where d > {{ var('other', 7) }}", "where d > 7"),
        ("{{ config(materialized='view', post_hook=\"grant {{ this }}\") }} select 1", "select 1"),
        ("a {% if is_incremental() %} b {% else %} c {% endif %} d", "a c d"),
        ("a {% if not is_incremental() %} b {% endif %} d", "a b d"),
        ("a {%- if is_incremental() and x() -%} b {%- endif -%} d", "a d"),
        ("a {% if var('flag') %} b {% elif target.name == 'prod' %} c {% else %} x {% endif %}", "a c"),
        ("a {% if unknown() %} b {% else %} c {% endif %}", "a b"),
        ("{% set days = 30 %} where d > {{ days }}", "where d > 30"),
        ("{% set x %} a {% endset %} b", "b"),
        ("{% macro m() %} a {% endmacro %} b", "b"),
        ("{% snapshot kept %} a {% endsnapshot %}", "a"),
        ("{% for m in ms %} sum({{ m }}) {{ ',' if not loop.last }} {% endfor %}", "sum({{ m }})"),
        ("select {{ dbt_utils.star(ref('a')) }}", "select {{ dbt_utils.star(ref('a')) }}"),
        ("{{ exec('rm') }}", "{{ exec('rm') }}"),
        ("select '-- no comment {# nor this' -- but this", "select '-- no comment {# nor this'"),
        ("a {# {{ ref('x') }} #} b /* {{ ref('y') }} */ c", "a b c"),
        ("a {{ never closed", "a {{ never closed"),
        ("a {% if x", "a {% if x"),
        ("{% endif %} {% else %} a", "a"),
    ],
)
def test_what_is_left_of_a_file(text: str, sql: str) -> None:
    assert words(text) == sql


@pytest.mark.table(
    ("text", "open_parts"),
    [
        ("select 1 from {{ ref('a') }} where x > {{ var('days') }}", ()),
        ("select {{ surrogate_key(['a']) }}", ("{{ surrogate_key(['a']) }}",)),
        ("where d > {{ var('unset') }}", ("{{ var('unset') }}",)),
        ("{% for m in ms %} {{ m }} {% endfor %}", ("{{ m }}", "{% for m in ms %}")),
        ("{% if is_incremental() %} {{ unknown() }} {% endif %}", ()),
    ],
)
def test_what_only_dbt_resolves_is_named(text: str, open_parts: tuple[str, ...]) -> None:
    found = read(text)
    assert found.unresolved == open_parts and found.is_resolved is not bool(open_parts)


def test_models_named_in_unresolved_jinja_are_references_too() -> None:
    found = read("select {{ star(from=ref('a')) }} from {{ ref('b') }}")
    assert (found.mentioned, tuple(found.references.values())) == ((("ref", "a"),), (("ref", "b"),))


def test_config_as_far_as_it_is_constant() -> None:
    found = read("{{ config(materialized='table', enabled=var('x'), docs=false, unique_key=['a', 'b']) }} select 1")
    assert found.config == {"materialized": "table", "docs": False, "unique_key": ["a", "b"]}


@pytest.mark.table(
    ("text", "dialect", "comments"),
    [
        ("-- one\n-- two\nselect 1 -- three", "duckdb", [("one two", 1), ("three", 3)]),
        ("/* one\n * two */ select {# three #} 1", "duckdb", [("one\ntwo", 1), ("three", 2)]),
        ("select 1 # one\n", "bigquery", [("one", 1)]),
        ("select '#' # one\n", "duckdb", []),
        ("select 'it\\'s -- no' -- one", "bigquery", [("one", 1)]),
        ("--\nselect 1", "duckdb", []),
    ],
)
def test_comments_with_their_lines(text: str, dialect: str, comments: list[tuple[str, int]]) -> None:
    assert [(each.text, each.line) for each in read(text, dialect).comments] == comments


def test_a_file_that_is_too_long_says_so() -> None:
    assert "characters" in read("x" * (MOST_CHARACTERS + 1)).problem
    assert "pieces of Jinja" in read("{{ a }}" * 5_000).problem


def test_a_placeholder_is_no_word_of_the_file() -> None:
    found = read("select ktx_part_0_ from {{ ref('a') }}")
    assert found.shown(found.sql) == "select ktx_part_0_ from a"


PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", "ref('a')", "if ", "endif", "else", "set x = ", "for x in y", "'", '"', "`",
     "--", "/*", "*/", "\n", " ", "\\", "select", "is_incremental()", "not ", "(" * 300, "x", "1"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_keeps_its_lines(text: str) -> None:
    found: Any = read(text)
    assert isinstance(found, Rendered)
    assert found.problem or found.sql.count("\n") <= text.count("\n")
