"""Pieces of SQL: any text is read or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.check import LONGEST, Fragment, Reference, projected, read_fragment
from ktx_cli.semantic.model import SemanticError


def parsed(text: str, dialect: str) -> Fragment:
    return read_fragment(text, dialect, "it", ())


SYMBOLS = ("(", ")", ",", "+", "-", "*", "/", "[", "]", "{", "}", ".", ";", "--", "/*", "$1", "?", "@", "->", "::", "<")
KEYWORDS = (
    "case", "when", "then", "end", "and", "or", "not", "in", "is", "null", "over", "filter", "where", "distinct", "as",
    "select", "from", "interval", "cast", "lambda", "order", "by", "within", "group", "date", "array", "struct",
)  # fmt: skip
WORDS = st.sampled_from(("sum", "a", "b.c", "'x'", "1", *SYMBOLS, *KEYWORDS))


@given(
    st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=20), st.sampled_from(["duckdb", "tsql", "bigquery"])
)
def test_any_text_is_read_or_refused(text: str, dialect: str) -> None:
    for read in (parsed, projected):
        try:
            read(text, dialect)
        except SemanticError as error:
            assert error.hint


@pytest.mark.table("text", ["(" * 5_000, "1" + "+1" * 9_000, "a" * (LONGEST + 1), "not " * 4_000 + "a"])
def test_a_text_too_deep_or_long(text: str) -> None:
    try:
        parsed(text, "duckdb")
    except SemanticError as error:
        assert len(error.message) < 300


def test_references() -> None:
    fragment = parsed("sum(a) / b.c + f(day, d) + max(e, g)", "sqlite")
    assert set(fragment.references) == {
        Reference(("a",), True, False),
        Reference(("b", "c"), False, False),
        Reference(("day",), False, True),
        Reference(("d",), False, True),
        Reference(("e",), False, False),
        Reference(("g",), False, False),
    }
    assert (fragment.aggregates, fragment.nested, fragment.opaque) == (True, False, True)
