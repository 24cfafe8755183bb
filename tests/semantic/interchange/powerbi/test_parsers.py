"""The parsers of DAX, TMDL and M: what they read, what they refuse, and that they raise nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.semantic.interchange.powerbi.dax import (
    MAX_DEPTH,
    Binary,
    Call,
    Column,
    DaxError,
    Let,
    Name,
    Number,
    Rows,
    Text,
    Unary,
    parse_dax,
)
from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.interchange.powerbi.mquery import TableOrigin, origin_of
from ktx_cli.semantic.interchange.powerbi.template import template_schema
from ktx_cli.semantic.interchange.powerbi.tmdl import Node, parse_tmdl, reference_parts
from ktx_cli.semantic.interchange.report import UnresolvedError

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])
A, B, ONE, TWO = Column("T", "a"), Column(None, "b"), Number("1"), Number("2")


@pytest.mark.table(
    ("text", "tree"),
    [
        ("1 + 2 * T[a]", Binary("+", ONE, Binary("*", TWO, A))),
        ("(1 + 2) * T[a]", Binary("*", Binary("+", ONE, TWO), A)),
        ("1 - 2 - 1", Binary("-", Binary("-", ONE, TWO), ONE)),
        ("-1 ^ 2", Unary("-", Binary("^", ONE, TWO))),
        ("'My Table'[a ]] b]", Column("My Table", "a ] b")),
        ("'It''s'[x]", Column("It's", "x")),
        ("[b] > 1 && NOT [b] = 2", Binary("&&", Binary(">", B, ONE), Unary("NOT", Binary("=", B, TWO)))),
        ("NOT([b])", Call("NOT", (B,))),
        ("a || b && c", Binary("||", Name("a"), Binary("&&", Name("b"), Name("c")))),
        ('[b] IN {1, "x"}', Binary("IN", B, Rows(((ONE,), (Text("x"),))))),
        ("[b] NOT IN {1}", Unary("NOT", Binary("IN", B, Rows(((ONE,),))))),
        ("{(1, 2)}", Rows(((ONE, TWO),))),
        ('"a ""b"""', Text('a "b"')),
        ("1.5e3 -- a comment", Number("1.5e3")),
        ("sum(T[a]) // a comment", Call("SUM", (A,))),
        ("/* a */ percentile.inc(T[a]; 1)", Call("PERCENTILE.INC", (A, ONE))),
        ("F(1,,2)", Call("F", (ONE, None, TWO))),
        ("F()", Call("F", ())),
        ("VAR x = 1 VAR y = x RETURN y", Let((("x", ONE), ("y", Name("x"))), Name("y"))),
        ("F(var x = 1 return x)", Call("F", (Let((("x", ONE),), Name("x")),))),
        ("'T'", Name("T", quoted=True)),
        ("größe", Name("größe")),
    ],
)
def test_dax(text: str, tree: Any) -> None:
    assert parse_dax(text) == tree


@pytest.mark.table(
    ("text", "why"),
    [
        ("", "is empty"),
        ("1 +", "ends too early"),
        ("SUM(T[a]", "ends too early"),
        ("1 2", "unexpected `2`"),
        ("VAR x 1 RETURN x", "expected `=`"),
        ("VAR x = 1", "expected `RETURN`"),
        ("VAR = 1 RETURN 1", "name of a variable"),
        ("(1, 2)", "lists of several columns"),
        ("#", "is not valid DAX"),
        ('"open', "is not valid DAX"),
        ("(" * 200 + "1" + ")" * 200, f"more than {MAX_DEPTH} levels"),
        (" + ".join("1" * 500), "more than 120 levels"),
        ("1" * 30_000, "longer than 20,000"),
    ],
)
def test_no_dax(text: str, why: str) -> None:
    with pytest.raises(DaxError, match=why):
        parse_dax(text)


PIECES = st.sampled_from([
    "SUM(", "CALCULATE(", "FILTER(", "ALL(", "VAR x = ", " RETURN ", "T[a]", "[b]", "'T'", "Sales", "Sales[Quantity]",
    ")", "(", ",", ";", "{", "}", " IN ", " NOT ", "&&", "||", "+", "-", "*", "/", "^", "&", "=", "==", "<>", "<=",
    "1", "0.5", '"x"', "TRUE()", "BLANK()", "DIVIDE(", "IF(", "SWITCH(", "COUNTROWS(", "'Date'[Date]", "TOTALYTD(",
    "DATEADD(", "x", "SUMX(", "VALUES(", "[Revenue]", "ISBLANK(", "RELATED(", " -- c\n", "DISTINCTCOUNT(",
    "KEEPFILTERS(", "LASTDATE(",
])  # fmt: skip
DAX = st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=40))


@QUICK
@given(DAX)
def test_any_dax(text: str) -> None:
    try:
        parse_dax(text)
    except DaxError as error:
        assert error.message


MODEL = """\
table Sales
	measure M =
			{dax}
	measure Revenue = SUM(Sales[Quantity])
	column Quantity
		dataType: int64
	column C =
			{dax}
	column 'Order Date'
		dataType: dateTime
	partition Sales = m
		source = Sql.Database("s", "d"){{[Schema="main",Item="sales"]}}[Data]
table Date
	column Date
		dataType: dateTime
	partition Date = m
		source = Sql.Database("s", "d"){{[Schema="main",Item="dates"]}}[Data]
relationship r
	fromColumn: Sales.'Order Date'
	toColumn: Date.Date
"""


@QUICK
@given(DAX)
def test_any_measure(text: str) -> None:
    dax = text.replace("\n", "\n\t\t\t").replace("\r", " ")
    found = import_powerbi({"a.tmdl": MODEL.format(dax=dax)}, None)
    for name, content in found.files.items():
        assert yaml.load(content, where=name)["name"]
    assert all(each.what and (each.target is None) is (each.kind.value == "dropped") for each in found.report)


TMDL = """\
/// Who buys
/// from us
table 'Customers ''A'''
	lineageTag: 1

	measure Plain = COUNTROWS(Sales)
		formatString: "#,0"
		displayFolder: " My ""Best"" "

	measure Long =

			VAR a = 1

			RETURN
				a + 1
		IsHidden

	measure Fenced = ```
			VAR b = "c: d"
			RETURN b
			```
		lineageTag: 2

	measure Later = VAR c = 1
			RETURN c

	measure Empty =
		lineageTag: 3

	// a comment
	column 'Full Name'
		datatype: string
		sourceColumn: Full Name

	calculationGroup
		precedence: 1

		calculationItem YTD = SELECTEDMEASURE()

	partition P = m
		mode: import
		source =
				let
					Source = 1
				in
					Source

	annotation A = {"x": 1}

ref table Other
relationship 0-1
	isActive: false
	fromColumn: Sales.'Customer: Key'
"""


def test_tmdl() -> None:
    table, other, relationship = parse_tmdl(TMDL, "a.tmdl").children
    assert (table.kind, table.name, table.description, table.place.line) == (
        "table", "Customers 'A'", "Who buys\nfrom us", 3
    )  # fmt: skip
    measures = {each.name: each for each in table.below("measure")}
    assert {name: each.value for name, each in measures.items()} == {
        "Plain": "COUNTROWS(Sales)", "Long": "\nVAR a = 1\n\nRETURN\n    a + 1", "Fenced": 'VAR b = "c: d"\nRETURN b',
        "Later": "VAR c = 1\nRETURN c", "Empty": "",
    }  # fmt: skip
    assert measures["Plain"].properties == {"formatstring": "#,0", "displayfolder": ' My "Best" '}
    assert measures["Long"].flag("isHidden") and measures["Empty"].text("lineageTag") == "3"
    (column,) = table.below("column")
    assert (column.name, column.text("dataType"), column.place.line) == ("Full Name", "string", 31)
    (partition,) = table.below("partition")
    assert (partition.value, partition.text("source")) == ("m", "let\n    Source = 1\nin\n    Source")
    assert [each.name for each in table.below("calculationGroup")[0].children] == ["YTD"]
    assert other.is_ref and reference_parts(relationship.text("fromColumn") or "") == ("Sales", "Customer: Key")


def test_tmdl_with_spaces() -> None:
    (table,) = parse_tmdl("\ufefftable T\r\n  column a\r\n    isKey\r\n  measure m =\r\n      1\r\n", "a").children
    assert table.below("column")[0].flag("isKey") and table.below("measure")[0].value == "1"


@pytest.mark.table(
    ("text", "line"),
    [
        ("table T\n\tmeasure a = ```\n\t\t\tx", 2),
        ("table T\n\t??", 2),
        ("\n".join("\t" * n + "a x" for n in range(60)), 52),
    ],
)
def test_no_tmdl(text: str, line: int) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_tmdl(text, "a.tmdl")
    assert refused.value.details["line"] == line and refused.value.hint


LINES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from([
            "table T", "table 'a b'", "measure m = 1", "measure m =", "measure m = ```", "```", "column c", "isHidden",
            "", "sourceColumn: x", "partition p = m", "source =", "let", "in", "/// d", "// c", "ref table T",
            "relationship r", "fromColumn: T.c", "toColumn: 'a b'.c", "role r", "tablePermission T = 1",
            "expression e = 1", "hierarchy h", "calculationGroup", "model M", "'", "=", ":", "a b c = d",
        ]),
    ),
    max_size=20,
)  # fmt: skip


@QUICK
@given(st.one_of(LINES.map(lambda found: "\n".join("\t" * n + text for n, text in found)), st.text(max_size=80)))
def test_any_tmdl(text: str) -> None:
    try:
        assert isinstance(parse_tmdl(text, "a.tmdl"), Node)
    except ConfigError as error:
        assert error.details["line"] >= 1
    import_powerbi({"X.SemanticModel/definition/tables/a.tmdl": text}, None)


QUERIES = {
    "Server": '"s" meta [IsParameterQuery=true, Type="Text"]', "Place": '"raw"', "Base": "Sql.Database(Server, \"d\")",
}  # fmt: skip
NAVIGATED = 'Base{[Schema="a",Item="t"]}[Data]'


def _steps(*steps: str) -> str:
    lines = [f"    S{number} = {step}" for number, step in enumerate((NAVIGATED, *steps))]
    return "let\n" + ",\n".join(lines) + f"\nin\n    S{len(steps)}"


@pytest.mark.table(
    ("text", "origin"),
    [
        (NAVIGATED, TableOrigin(("a", "t"), "d")),
        ('Sql.Databases(Server){[Name="d"]}[Data]{[Schema=Place & "x",Item="t"]}[Data]',
         TableOrigin(("d", "rawx", "t"))),
        (
            'let Source = Snowflake.Databases("x", "w"), D = Source{[Name="D",Kind="Database"]}[Data],'
            ' S = D{[Name="P",Kind="Schema"]}[Data], T = S{[Name="T",Kind="Table"]}[Data] in T',
            TableOrigin(("D", "P", "T")),
        ),
        (
            'GoogleBigQuery.Database([BillingProject="p"]){[Name="p"]}[Data]{[Name="s",Kind="Schema"]}[Data]'
            '{[Name="t",Kind="Table"]}[Data]',
            TableOrigin(("p", "s", "t")),
        ),
        (
            _steps(
                'Table.RenameColumns(S0, {{"x", "X Y"}, {"y", "Z"}})',
                'Table.RenameColumns(S1, {"Z", "W"})',
                'Table.TransformColumnTypes(S2, {{"W", type number}})',
                'Table.AddColumn(S3, "New", each [W] * 2, type number)',
                'Table.TransformColumns(S4, {{"q", Text.Upper, type text}})',
                'Table.ReplaceValue(S5, "a", "b", Replacer.ReplaceText, {"r", "s"})',
                'Table.ReplaceErrorValues(S6, {{"t", 0}, {"u", null}})',
                'Table.FillDown(S7, {"v"})',
                'Table.ExpandRecordColumn(S8, "dim", {"n"}, {"dim.n"})',
                'Table.TransformColumns(S9, {"w", each _ + 1})',
                'Table.SelectRows(S10, each [d] >= RangeStart and [d] < RangeEnd)',
            ),
            TableOrigin(
                ("a", "t"), "d", None, {"X Y": "x", "W": "y"},
                frozenset({"New", "q", "r", "s", "t", "u", "v", "dim.n", "w"}),
            ),
        ),
        ('Value.NativeQuery(Base, "select a as b, c#(lf)from s.t", null, [X=true])',
         TableOrigin(("s", "t"), renamed={"b": "a"})),
        ('Sql.Database("s", "d", [Query="select a, count(*) as n from t group by a"])',
         TableOrigin(sql="select a, count(*) as n from t group by a")),
        ('Odbc.Query("dsn=x", "select * from t")', TableOrigin(("t",), renamed={})),
    ],
)  # fmt: skip
def test_m(text: str, origin: TableOrigin) -> None:
    assert origin_of(text, QUERIES) == origin


@pytest.mark.table(
    ("text", "why"),
    [
        ('Excel.Workbook(File.Contents("x.xlsx"))', "comes from `Excel.Workbook`"),
        (_steps("Table.SelectRows(S0, each [x] > 3)"), "changes rows or values with `Table.SelectRows`"),
        (
            _steps("Table.SelectRows(S0, each [d] >= RangeStart and [d] < RangeEnd and [x] > 1)"),
            "with `Table.SelectRows`",
        ),
        (_steps('Table.NestedJoin(S0, {"x"}, Other, {"y"}, "z")'), "with `Table.NestedJoin`"),
        (_steps("Table.TransformColumns(S0, {}, Text.Upper)"), "with `Table.TransformColumns`"),
        (_steps("Table.RenameColumns(S0, Pairs)"), "renames columns in a way"),
        ("Missing", "refers to `Missing`"),
        ("if Place = 1 then 2 else 3", "cannot follow its query"),
        ("let A = B, B = A in A", "refers to `A`, which is not in the model"),
        ("let A = 1", "is not valid M"),
        ("", "is not valid M"),
        ('Value.NativeQuery(Base, "delete from t")', "not a single SELECT"),
        ("((" * 100, "cannot follow its query"),
        ("{" * 100, "nested too deeply"),
    ],
)
def test_no_m(text: str, why: str) -> None:
    with pytest.raises(UnresolvedError, match=why):
        origin_of(text, QUERIES)


M_PIECES = st.sampled_from([
    "let ", " in ", "A", " = ", ", ", "(", ")", "[", "]", "{", "}", '"x"', '#"a b"', "Sql.Database", "1", "#", "each ",
    "Table.RenameColumns", "Schema=", "Item=", "Data", "&", "meta ", "type ", "if ", "Value.NativeQuery", '"select a"',
])  # fmt: skip


@QUICK
@given(st.one_of(st.lists(M_PIECES, max_size=20).map("".join), st.text(max_size=40)))
def test_any_m(text: str) -> None:
    try:
        origin_of(text, {"A": text})
    except UnresolvedError as error:
        assert error.message


@QUICK
@given(st.one_of(st.binary(max_size=60), st.text(max_size=20).map(str.encode)))
def test_any_template(content: bytes) -> None:
    with pytest.raises(ConfigError):
        template_schema(content, "a.pbit")
