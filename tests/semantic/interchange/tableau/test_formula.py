"""The parser of Tableau formulas: any text is a tree or its own error, and a tree is written as text that means it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.interchange.tableau.formula import (
    Binary,
    Branches,
    Call,
    Constant,
    Field,
    FormulaError,
    Lod,
    Membership,
    Node,
    Unary,
    formula_text,
    parse_formula,
)

NAMES = st.text(string.ascii_letters + " ]()'.%é", min_size=1, max_size=8)
FIELDS = st.lists(NAMES, min_size=1, max_size=2).map(lambda parts: Field(tuple(parts)))
CONSTANTS = st.one_of(
    st.integers(0, 10**12).map(lambda number: Constant("integer", str(number))),
    st.decimals(0, 10**6, places=3).map(lambda number: Constant("real", f"{number:f}")),
    st.text(max_size=8).map(lambda text: Constant("string", text)),
    st.sampled_from([Constant("boolean", "TRUE"), Constant("null", "NULL"), Constant("date", "2024-01-31")]),
)


def _above(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    pairs = st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple)
    operators = st.sampled_from(["OR", "AND", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "^"])
    return st.one_of(
        st.builds(Unary, st.sampled_from(["-", "NOT"]), inner),
        st.builds(Binary, operators, inner, inner),
        st.builds(Membership, inner, several),
        st.builds(Membership, inner, FIELDS.map(lambda field: (field,)), st.just(value=True)),
        st.builds(Branches, st.none() | inner, pairs, st.none() | inner),
        st.builds(Lod, st.sampled_from(["FIXED", "INCLUDE", "EXCLUDE"]), several, inner),
        st.builds(Call, st.sampled_from(["SUM", "ZN", "DATETRUNC"]), several),
    )


TREES: st.SearchStrategy[Node] = st.recursive(st.one_of(FIELDS, CONSTANTS), _above, max_leaves=12)


@given(TREES)
def test_a_tree_survives_being_written(tree: Node) -> None:
    assert parse_formula(formula_text(tree)) == tree


PIECES = [
    "IF ", "THEN ", "ELSE ", "END", "{FIXED ", "}", ":", "(", ")", "[a]", "[", "]", "'", '"', "SUM(", ",", "1.5", "-",
    "+", "IN ", "CASE ", "WHEN ", "//x\n", "/*", "*/", "#2024-01-01#", "#", " AND ", " NOT ", ".", "\x00", "é", "∞",
]  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join)))
def test_any_text_is_a_formula_or_a_formula_error(text: str) -> None:
    try:
        tree = parse_formula(text)
    except FormulaError as error:
        assert error.message
    else:
        assert parse_formula(formula_text(tree)) == tree


@pytest.mark.table(
    ("text", "written"),
    [
        ("sum([Sales])", "SUM([Sales])"),
        ("-2^2", "-2 ^ 2"),
        ("(a())", "A()"),
        ("1-(2-3)-4", "1 - (2 - 3) - 4"),
        ("NOT [a] = 1 AND [b] OR [c]", "NOT [a] = 1 AND [b] OR [c]"),
        ('"it\'s" + \'a "b"\'', "'it''s' + 'a \"b\"'"),
        ("[a] == 1 // the first\n OR /* or\n else */ [b] != 2", "[a] = 1 OR [b] <> 2"),
        ("if [a] then 1 elseif [b] then 2 end", "IF [a] THEN 1 ELSEIF [b] THEN 2 END"),
        ("{SUM([a])}", "{FIXED : SUM([a])}"),
        ("{ exclude [Region],[State]: avg([a]) }", "{EXCLUDE [Region], [State] : AVG([a])}"),
        ("[Parameters].[Top ]]N]", "[Parameters].[Top ]]N]"),
        ("[a] in [Set 1]", "[a] IN [Set 1]"),
        ("2 * .5e3", "2 * .5e3"),
        ("#April 15, 2004#", "#April 15, 2004#"),
    ],
)
def test_formulas(text: str, written: str) -> None:
    assert formula_text(parse_formula(text)) == written


@pytest.mark.table(
    ("text", "message"),
    [
        ("", "the formula is not valid at character 1: it ends too early"),
        ("SUM([a]", "the formula is not valid at character 8: it ends too early; `)` is missing"),
        ("[a] [b]", "the formula is not valid at character 5: unexpected `[b]`"),
        ("IF 1 THEN 2", "the formula is not valid at character 12: it ends too early; `END` is missing"),
        ("CASE [a] END", "the formula is not valid at character 10: unexpected `END`; `WHEN` is missing"),
        ("a", "the formula is not valid at character 2: it ends too early; `(` is missing"),
        ("'open", "the formula is not valid at character 1: unexpected `'`"),
        ("(" * 200, "the formula has more than 40 levels of parentheses"),
        ("1" + "+1" * 200, "the formula is nested deeper than 100 levels"),
        ("-" * 1000 + "1", "the formula is nested deeper than 100 levels"),
        ("1" * 20_001, "the formula is longer than 20,000 characters"),
        ("1" + "+1" * 9_000, "the formula has more than 2,000 parts"),
    ],
)
def test_formulas_that_are_not_valid(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as refused:
        parse_formula(text)
    assert refused.value.message == message
