"""Diagrams: what is drawn of a manifest, and that Mermaid and Graphviz take whatever its names are made of."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import KtxError, NotReadyError, UsageError
from ktx_cli.scan.diagram import Attribute, Diagram, Edge, Entity, diagram_of, dot, draw_svg, mermaid

NEEDS_DOT = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


def columns(*names: str, key: str = "", nullable: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": "string",
            **({"pk": True} if name == key else {}),
            **({} if nullable else {"nullable": False}),
        }
        for name in names
    ]


def join(to: str, on: str, relationship: str = "many_to_one", source: str = "formal") -> dict[str, str]:
    return {"to": to, "on": on, "relationship": relationship, "source": source}


SHOP: dict[str, Any] = {
    "orders": {
        "table": "shop.orders",
        "columns": columns("id", "customer_id", "status", key="id"),
        "joins": [join("customers", "customer_id = customers.id"), join("lines", "id = lines.order_id", "one_to_many")],
    },
    "customers": {
        "table": "shop.customers",
        "columns": columns("id", "name", key="id"),
        "joins": [join("orders", "id = orders.customer_id", "one_to_many")],
    },
    "lines": {
        "table": "shop.lines",
        "columns": columns("order_id", "sku", nullable=True),
        "joins": [
            join("orders", "order_id = orders.id"),
            join("products", "lines.sku = products.sku", source="inferred"),
        ],
    },
    "products": {"table": 'mart."Products"', "columns": columns("sku", "price")},
}

MERMAID = """\
erDiagram
    "customers" {
        string id PK
        string name
    }
    "lines" {
        string order_id FK
        string sku FK
    }
    "orders" {
        string id PK
        string customer_id FK
        string status
    }
    "products" {
        string sku
        string price
    }
    "lines" }o--o| "orders" : "order_id = id"
    "lines" }o..o| "products" : "sku (inferred)"
    "orders" }o--|| "customers" : "customer_id = id"
"""


def test_mermaid_of_a_shop() -> None:
    assert mermaid(diagram_of(SHOP)) == MERMAID


def test_the_order_of_the_manifest_does_not_matter() -> None:
    turned = {name: SHOP[name] for name in reversed(SHOP)}
    assert mermaid(diagram_of(turned)) == MERMAID
    assert dot(diagram_of(turned)) == dot(diagram_of(SHOP))


@pytest.mark.table(
    ("patterns", "names"),
    [
        ((), ["customers", "lines", "orders", "products"]),
        (("orders",), ["orders"]),
        (("*s",), ["customers", "lines", "orders", "products"]),
        (("mart.*",), ["products"]),
        (("shop.orders", "lines"), ["lines", "orders"]),
        (("mart.Products",), ["products"]),
    ],
)
def test_patterns_choose_tables(patterns: tuple[str, ...], names: list[str]) -> None:
    diagram = diagram_of(SHOP, patterns=patterns)
    assert [entity.name for entity in diagram.entities] == names
    assert all({edge.many, edge.one} <= set(names) for edge in diagram.edges)


@pytest.mark.table(
    ("pattern", "hint"),
    [("order", "did you mean `--tables orders`?"), ("*x", "known: customers, lines, orders, products")],
)
def test_a_pattern_that_covers_nothing_is_refused(pattern: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        diagram_of(SHOP, patterns=["orders", pattern])
    assert caught.value.message == f"no table matches `{pattern}`"
    assert caught.value.hint == hint


def test_keys_only_draws_keys_and_the_columns_of_joins() -> None:
    entities = {entity.name: entity for entity in diagram_of(SHOP, keys_only=True).entities}
    assert [each.name for each in entities["orders"].attributes] == ["id", "customer_id"]
    assert [each.name for each in entities["products"].attributes] == ["sku"]
    assert entities["orders"].hidden == 0


def test_a_wide_table_keeps_its_keys_and_joins() -> None:
    names = [f"c{number}" for number in range(100)] + ["order_id", "id"]
    tables: dict[str, Any] = {
        "wide": {"columns": columns(*names, key="id"), "joins": [join("orders", "order_id = orders.id")]},
        "orders": SHOP["orders"],
    }
    wide = diagram_of(tables, most_columns=5).entities[1]
    assert [each.name for each in wide.attributes] == ["order_id", "id", "c0", "c1", "c2"]
    assert wide.hidden == 97
    text = mermaid(diagram_of(tables, most_columns=5))
    assert "        … and_97_more\n" in text
    assert "... 97 more" in dot(diagram_of(tables, most_columns=5))


@pytest.mark.table(
    ("name", "given", "edge"),
    [
        ("b", join("a", "a_id = a.id"), Edge("b", "a", (("a_id", "id"),), "many_to_one", "formal")),
        ("b", join("a", "a.id = b.a_id"), Edge("b", "a", (("a_id", "id"),), "many_to_one", "formal")),
        ("b", join("a", "b.a_id = a.id"), Edge("b", "a", (("a_id", "id"),), "many_to_one", "formal")),
        ("a", join("b", "id = b.a_id", "one_to_many"), Edge("b", "a", (("a_id", "id"),), "many_to_one", "formal")),
        ("a", join("b", "x = b.y", "one_to_one"), Edge("a", "b", (("x", "y"),), "one_to_one", "formal")),
        ("b", join("a", "y = a.x", "one_to_one"), Edge("a", "b", (("x", "y"),), "one_to_one", "formal")),
        ("b", join("a", "y = a.x", "many_to_many"), Edge("a", "b", (("x", "y"),), "many_to_many", "formal")),
        ("b", join("a", "y = a.x AND z = a.w"), Edge("b", "a", (("y", "x"), ("z", "w")), "many_to_one", "formal")),
        ("b", join("a", "z = a.w and y = a.x"), Edge("b", "a", (("y", "x"), ("z", "w")), "many_to_one", "formal")),
        ("b", join("a", '"it""s" = a."and so"'), Edge("b", "a", (('it"s', "and so"),), "many_to_one", "formal")),
        ("b", join("a", "lower(y) = a.x"), Edge("b", "a", (), "many_to_one", "formal")),
        ("b", join("a", "y = a.x OR z = a.w"), Edge("b", "a", (), "many_to_one", "formal")),
        ("b", join("a", "y > a.x", source="manual"), Edge("b", "a", (), "many_to_one", "manual")),
        (
            "b",
            join("b", "boss = b.id", source="inferred"),
            Edge("b", "b", (("boss", "id"),), "many_to_one", "inferred"),
        ),
    ],
)
def test_conditions_become_edges(name: str, given: dict[str, str], edge: Edge) -> None:
    tables: dict[str, Any] = {"a": {"columns": []}, "b": {"columns": []}}
    tables[name]["joins"] = [given]
    assert diagram_of(tables).edges == (edge,)


def test_a_join_on_both_sides_is_one_edge_of_the_more_certain_origin() -> None:
    tables = {
        "a": {"columns": [], "joins": [join("b", "id = b.a_id", "one_to_many", "inferred")]},
        "b": {"columns": [], "joins": [join("a", "a_id = a.id"), join("a", "other = a.id", source="manual")]},
    }
    assert [(edge.pairs, edge.origin) for edge in diagram_of(tables).edges] == [
        ((("a_id", "id"),), "formal"),
        ((("other", "id"),), "manual"),
    ]


def test_joins_to_what_is_not_there_and_broken_entries_are_left_out() -> None:
    tables: dict[str, Any] = {
        "a": {"columns": ["x", {"name": "id"}, {}], "joins": [join("gone", "x = gone.id"), "b", {"to": 7}]},
        "b": {"columns": "none", "joins": {"to": "a"}},
        "c": {},
    }
    diagram = diagram_of(tables)
    assert diagram.edges == ()
    assert [len(entity.attributes) for entity in diagram.entities] == [2, 0, 0]


def odd(*names: str) -> Diagram:
    entities = tuple(Entity(name, (Attribute(name, name, key=True),)) for name in sorted(set(names)))
    edges = tuple(Edge(name, name, ((name, "x"),), "many_to_one", "inferred") for name in sorted(set(names)))
    return Diagram(entities, edges)


@pytest.mark.table(
    ("name", "entity", "column"),
    [
        ("orders", '"orders"', "orders"),
        ("Order Lines", '"Order Lines"', 'Order_Lines PK "Order Lines"'),
        ('a"b', '"a#quot;b"', 'a_b PK "a#quot;b"'),
        ("100%", '"100#37;"', '_100_ PK "100#37;"'),
        ("a\\b", '"a#92;b"', 'a_b PK "a#92;b"'),
        ("a~b~c", '"a#126;b#126;c"', 'a_b_c PK "a#126;b#126;c"'),
        ("#quot;", '"#35;quot;"', '_quot_ PK "#35;quot;"'),
        ("<b>", '"#lt;b#gt;"', '_b_ PK "#lt;b#gt;"'),
        ("direction TB", '"direction_TB"', 'direction_TB PK "direction_TB"'),
        ("pk", '"pk"', '_pk PK "pk"'),
        ("FK-note", '"FK-note"', '_FK-note PK "FK-note"'),
        ("pkg", '"pkg"', "pkg"),
        ("2024", '"2024"', '_2024 PK "2024"'),
        ("-x", '"-x"', '_-x PK "-x"'),
        ("größe", '"größe"', "größe"),
        ("売上", '"売上"', "売上"),
        ("a\nb", '"a b"', 'a_b PK "a b"'),
        ("", '"_"', '_ PK "_"'),
        ("}", '"}"', '_ PK "}"'),
        ("end", '"end"', "end"),
        ("a\u202eb", '"a b"', 'a_b PK "a b"'),
        ("a\u2028b", '"a b"', 'a_b PK "a b"'),
        ("a\u3000b", '"a b"', 'a_b PK "a b"'),
        ("a\u061cb", '"a\ufffdb"', 'a_b PK "a\ufffdb"'),
        ("\ud800x", '"\ufffdx"', '_x PK "\ufffdx"'),
        ("\uffff", '"\ufffd"', '_ PK "\ufffd"'),
        ("😀 orders", '"😀 orders"', '__orders PK "😀 orders"'),
        ("1st end", '"1st end"', '_1st_end PK "1st end"'),
        ("a;b", '"a;b"', 'a_b PK "a;b"'),
        ("%%{init: {}}%%", '"#37;#37;{init: {}}#37;#37;"', '___init_______ PK "#37;#37;{init: {}}#37;#37;"'),
        ("erDiagram", '"erDiagram"', "erDiagram"),
    ],
)
def test_odd_names_are_written_as_the_grammar_wants(name: str, entity: str, column: str) -> None:
    lines = mermaid(odd(name)).splitlines()
    assert lines[1] == f"    {entity} {{"
    word, _, comment = column.partition(" PK ")
    assert lines[2] == f"        {word} {word} PK{' ' + comment if comment else ''}"


def test_names_that_look_alike_when_written_stay_two_entities() -> None:
    text = mermaid(odd("a\nb", "a b"))
    assert re.findall(r'^    (".*") \{$', text, re.MULTILINE) == ['"a b"', '"a b (2)"']


WORD = r"(?!(?:[PFU]K)\b)[A-Za-z_\u00C0-\uFFFF][A-Za-z0-9_\u00C0-\uFFFF-]*"
QUOTED = r'"[^"%\r\n\v\b\\]+"'
LINE = re.compile(
    rf"    {QUOTED}(?: \{{)?"
    r"|    \}"
    rf"|        {WORD} {WORD}(?: (?:PK|FK)(?:, FK)?)?(?: {QUOTED})?"
    rf"|    {QUOTED} [|}}]o(?:--|\.\.)(?:o\||\|\||o\{{) {QUOTED} : {QUOTED}"
)
"""One line of a diagram, by Mermaid's lexer."""


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_names_keep_the_grammar(names: list[str]) -> None:
    first, *lines = mermaid(odd(*names)).removesuffix("\n").split("\n")
    assert first == "erDiagram"
    for line in lines:
        assert LINE.fullmatch(line), line
        assert line.isprintable(), "what nobody sees is a blank to Mermaid's lexer, or cannot be written"
        assert not re.search(r"direction\s+(?:TB|BT|RL|LR)", line, re.IGNORECASE)


def test_dot_draws_tables_and_edges_from_column_to_column() -> None:
    text = dot(diagram_of(SHOP))
    assert text.startswith("digraph ktx {\n")
    assert "  t1:c0_out:e -> t2:c0_in:w [arrowtail=crowodot, arrowhead=teeodot, style=solid," in text
    dashed = 'arrowhead=teeodot, style=dashed, color="#b26a00", label="inferred"]'
    assert f"t1:c1_out:e -> t3:c0_in:w [arrowtail=crowodot, {dashed}" in text
    assert "t2:c1_out:e -> t0:c0_in:w [arrowtail=crowodot, arrowhead=teetee, style=solid," in text


@NEEDS_DOT
@pytest.mark.parametrize(
    "name",
    [
        "orders",
        'a"b',
        "<b>&amp;</b>",
        "a\\nb",
        "größe 売上",
        "",
        "\\N",
        "}{|",
        "a\x00b\x1b",
        "\ud800",
        "-- ;",
        "a\u202eb",
        "\ufffe",
        "]]>",
        "a\nb",
    ],
)
def test_graphviz_draws_odd_names_as_xml(name: str) -> None:
    svg = draw_svg(dot(odd(name)))
    assert svg.startswith("<?xml")
    assert ElementTree.fromstring(svg).tag.endswith("svg")


@NEEDS_DOT
def test_the_same_manifest_gives_the_same_drawing() -> None:
    assert draw_svg(dot(diagram_of(SHOP))) == draw_svg(dot(diagram_of(SHOP)))


@NEEDS_DOT
def test_what_dot_refuses_is_said() -> None:
    with pytest.raises(KtxError) as caught:
        draw_svg("digraph {")
    assert caught.value.message.startswith("`dot` could not draw the diagram: Error:")
    assert "syntax error" in caught.value.message


def program(folder: Path, script: str) -> None:
    path = folder / "dot"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)


def test_without_graphviz_the_hint_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReadyError) as caught:
        draw_svg("digraph {}")
    assert caught.value.hint == "apt-get install graphviz"


def test_a_drawing_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "import time; time.sleep(60)")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KtxError) as caught:
        draw_svg("digraph {}", seconds=0.2)
    assert (caught.value.code, caught.value.message) == ("timeout", "`dot` did not finish within 0.2 seconds")


def test_a_program_that_says_nothing_is_a_failure_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "import sys; sys.exit(3)")
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    with pytest.raises(KtxError) as caught:
        draw_svg("digraph {}")
    assert caught.value.message == "`dot` could not draw the diagram: exit status 3"


def test_columns_that_become_one_word_stay_two() -> None:
    columns = [{"name": name, "type": "text"} for name in ("a b", "a.b", "a_b", "a_b_2")]
    lines = mermaid(diagram_of({"t": {"table": "t", "columns": columns}})).splitlines()[2:-1]
    assert [line.strip() for line in lines] == [
        'text a_b_3 "a b"', 'text a_b_4 "a.b"', "text a_b", "text a_b_2",
    ]  # fmt: skip
