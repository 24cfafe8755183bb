"""YAML in and out: the 1.2 core schema, places in errors, bounds, and agreement with other readers and writers."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML as RuamelYAML
from ruamel.yaml.error import YAMLError as RuamelError

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError

DATA = Path(__file__).parent / "data"
EXAMPLES = 1500 if os.environ.get("KTX_TEST_FULL") else 15

TEXT_IN_1_2 = """
no NO No yes YES on off ON OFF y Y n N tRUE nULL 12:30:00 1:30 1_000 2024-01-01 2024-01-01T10:00:00Z 0b1 0O7 0X1F
-0x1f +0o7 0o8 .e3 1e . + += = << -.nan +.nan .Nan inf nan NaN 1.2.3 1e3x a:b http://x ?a -a
"""
AMBIGUOUS = """
no NO on off y N yes True null Null ~ 1e3 1E5 0o7 0x1f 0b1 017 12:30 190:20:30 12:30:00 1_000 2024-01-01 2024-1-1
.5 1. +1 -0 .inf -.Inf .nan = << - ? : -a ?a :a [a {a a: #a & * ! | > % @ ` --- ... 1e 0x 0. ._
"""
ODD = ["\x85", "\u2028", "\ufeff", "\x00"]
"""Texts some reader takes for a line break, a byte order mark or the end of the text."""

PLAIN = [
    ("true", True),
    ("True", True),
    ("TRUE", True),
    ("false", False),
    ("False", False),
    ("FALSE", False),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("~", None),
    ("0", 0),
    ("-0", 0),
    ("+12", 12),
    ("-7", -7),
    ("007", 7),
    ("0o17", 15),
    ("0x1fA", 506),
    ("1.5", 1.5),
    ("-.5", -0.5),
    ("1.", 1.0),
    ("1e3", 1000.0),
    ("+1.5E-2", 0.015),
    (".inf", math.inf),
    ("+.Inf", math.inf),
    ("-.INF", -math.inf),
    *[
        (text, text)
        for text in [
            "no",
            "NO",
            "No",
            "yes",
            "YES",
            "on",
            "off",
            "ON",
            "OFF",
            "y",
            "Y",
            "n",
            "N",
            "tRUE",
            "nULL",
            "12:30:00",
            "1:30",
            "1_000",
            "2024-01-01",
            "2024-01-01T10:00:00Z",
            "0b1",
            "0O7",
            "0X1F",
            "-0x1f",
            "+0o7",
            "0o8",
            ".e3",
            "1e",
            ".",
            "+",
            "+=",
            "=",
            "<<",
            "-.nan",
            "+.nan",
            ".Nan",
            "inf",
            "nan",
            "NaN",
            "1.2.3",
            "1e3x",
            "a:b",
            "http://x",
            "?a",
            "-a",
        ]
    ],
]


@pytest.fixture(params=["c", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with libyaml's parser and with the fallback."""
    if request.param == "python":
        monkeypatch.setattr(yaml, "_PARSER", pyyaml.SafeLoader)
    else:
        assert issubclass(yaml._PARSER, pyyaml.CSafeLoader)


@pytest.mark.usefixtures("parser")
@pytest.mark.table(("text", "expected"), PLAIN)
def test_plain_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    value = yaml.load(f"- {text}\n", where="t")[0]
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.usefixtures("parser")
def test_nan_quotes_and_keys() -> None:
    assert math.isnan(yaml.load(".nan", where="t"))
    text = "'true': \"1\"\nno: 'null'\n7: a\ntrue: b\n~: c\n1.5: d"
    expected = {"true": "1", "no": "null", 7: "a", True: "b", None: "c", 1.5: "d"}
    assert same(yaml.load(text, where="t"), expected)


@pytest.mark.usefixtures("parser")
@pytest.mark.table(
    ("text", "expected"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("---\n...\n", None),
        ("%YAML 1.2\n---\na: 1\n", {"a": 1}),
        ("a:\n- 1\n- 2\nb: {c: [x, y], d: }", {"a": [1, 2], "b": {"c": ["x", "y"], "d": None}}),
        ("<<: {a: 1}\nb: =", {"<<": {"a": 1}, "b": "="}),
        (
            "a: !!str 12\nb: !!int '0x1f'\nc: !!float 1\nd: !!bool 'true'\ne: !!null ''",
            {"a": "12", "b": 31, "c": 1.0, "d": True, "e": None},
        ),
        ("a: ! 12\nb: !!map {c: !!seq [1]}", {"a": "12", "b": {"c": [1]}}),
        (
            "a: &x [1, {b: 2}]\nc: *x\nd: &y text\ne: *y",
            {"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": "text", "e": "text"},
        ),
        ("&k a: 1\nb: *k", {"a": 1, "b": "a"}),
        ('"\\u00e9\\x41\\U0001F389\\/\\N"', "éA🎉/\x85"),
        ("a: 'x\u2028y\x85z'\nb: p\u2029q # c\u2028d", {"a": "x\u2028y\x85z", "b": "p\u2029q"}),
        ("a: x\x7fy\ufeffz\uffff", {"a": "x\x7fy\ufeffz\uffff"}),
        ('a: "\\U000F0000"\nb: \u2028', {"a": "\U000f0000", "b": "\u2028"}),
        ("a: 1\r\nb: |\r\n  x\r\n  y\r\n", {"a": 1, "b": "x\ny\n"}),
        ("a: |\n  \tx\n  y\nb:\n  - |-\n\n    \t\tz\n", {"a": "\tx\ny\n", "b": ["\n\t\tz"]}),
        ("a: |\r\n  \tx\r\nb: \u2028", {"a": "\tx\n", "b": "\u2028"}),
        ('{"a":1,"b":[true,null]}', {"a": 1, "b": [True, None]}),
        ("[:0]", [":0"]),
        ("[a, :0, ::b, :-, :'c', -:d]\n", ["a", ":0", "::b", ":-", ":'c'", "-:d"]),
        ('{:a: 1, b: :c, "d"::e, "f" :2}', {":a": 1, "b": ":c", "d": ":e", "f": 2}),
        (
            "a: [\n  :x,\n  ':y',\n  \", :z\"]\nb: x, :w\n:c: |\n  [:0, :1]\n",
            {"a": [":x", ":y", ", :z"], "b": "x, :w", ":c": "[:0, :1]\n"},
        ),
        ("[[:b], {c: [:d]}, [[], :e]]", [[":b"], {"c": [":d"]}, [[], ":e"]]),
        ("[" + ", ".join(f":{n}" for n in range(400)) + "]", [f":{n}" for n in range(400)]),
    ],
)
def test_documents(text: str, expected: object) -> None:
    assert same(yaml.load(text, where="t"), expected)


def test_an_alias_is_a_copy() -> None:
    value = yaml.load("a: &x [1, {b: 2}]\nc: *x", where="t")
    value["a"][1]["b"] = 3
    assert value["c"] == [1, {"b": 2}]


@pytest.mark.table("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(encoding: str) -> None:
    assert yaml.load("a: é🎉\n".encode(encoding), where="t") == {"a": "é🎉"}


def test_a_text_may_begin_with_a_byte_order_mark() -> None:
    assert yaml.load("\ufeffa: 1", where="t") == {"a": 1}
    assert yaml.locate("\ufeffa: 1", ("a",)) == (1, 1)


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)
)
CHAIN = "".join(f"k{i}: &k{i} [{f'*k{i - 1}' if i else 1}]\n" for i in range(400))

REFUSED = [
    ("a: 1\nb: 2\na: 3\n", "x.yaml:3:1: the key 'a' occurs twice"),
    ("{a: 1, a: 2}", "x.yaml:1:8: the key 'a' occurs twice"),
    ("joins: [a]\njoins: [b]\n", "x.yaml:2:1: the key 'joins' occurs twice"),
    ("1: a\n0x1: b", "x.yaml:2:1: the key 1 occurs twice"),
    ("? [a]\n: 1", "x.yaml:1:3: a key of the mapping is a collection"),
    ("a: !foo 1", "x.yaml:1:4: the tag !foo is unknown or does not match its value"),
    ("a: !!python/object:os.system x", "x.yaml:1:4: the tag !!python/object:os.system is unknown"),
    ("a: !!python/tuple [1]", "x.yaml:1:4: the tag !!python/tuple"),
    ("a: !!timestamp 2024-01-01", "x.yaml:1:4: the tag !!timestamp"),
    ("a: !!int x", "x.yaml:1:4: the tag !!int"),
    ("a: !!int 1.5", "x.yaml:1:4: the tag !!int"),
    ("a: !!bool no", "x.yaml:1:4: the tag !!bool"),
    ("a: !!map [1]", "x.yaml:1:4: the tag !!map"),
    ("a: !!str [1]", "x.yaml:1:4: the tag !!str"),
    ("a: 1\n---\nb: 2\n", "x.yaml:2:1: a second document begins"),
    ("a: *b", "x.yaml:1:4: the alias *b has no anchor before it"),
    ("a: &a [1, *a]", "x.yaml:1:11: the alias *a contains itself"),
    ("a: &a {b: {c: *a}}", "x.yaml:1:15: the alias *a contains itself"),
    (BOMB, "the aliases expand to more than 100,000 nodes"),
    (CHAIN, "the aliases expand to more than 100,000 nodes or 200 levels"),
    ("[" * 10_000, "x.yaml:1:201: nested deeper than 200 levels"),
    ("- " * 10_000 + "a", "x.yaml:1:401: nested deeper than 200 levels"),
    ("{a: " * 100_000, "nested deeper than 200 levels"),
    ("? " * 100_000, "x.yaml:1:"),
    ("\n".join(" " * i + "a:" for i in range(300)), "x.yaml:201:201: nested deeper than 200 levels"),
    ("a: x\n\x00", "x.yaml:2:1: the character U+0000 is not allowed in YAML"),
    ("a:\n  b: \x1b[1m", "x.yaml:2:6: the character U+001B"),
    ("a: \ud800", "x.yaml:1:4: the character U+D800"),
    (b"a: 1\nb: \xe9", "x.yaml:2:4: the text is not UTF-8"),
    (b"\xff\xfea\x00:\x00 \x00\x00\xd8", "x.yaml:1:4: the text is not UTF-16"),
    ("a:\n\tb: 1", "x.yaml:2:1: "),
    ("a: |\n\tb: 1", "x.yaml:2:1: "),
    ("x:\n  a: |\n  \tb: 1\n", "x.yaml:3:"),
    ("a: |\n    x\n  \ty: 1\n", "x.yaml:3:"),
    ("a: @x", "x.yaml:1:4: "),
    ("[:]", "x.yaml:1:2: "),
    ("[:0, :]", "x.yaml:1:6: "),
    ("a: b: c", "x.yaml:1:5: mapping values are not allowed"),
    ("a: [1", "x.yaml:"),
    ("a: 'x", "x.yaml:1:6: "),
    ("a: b\nc\nd: e", "x.yaml:"),
    ("9" * 5000, "x.yaml:1:1: an integer with 5,000 digits"),
]


@pytest.mark.usefixtures("parser")
@pytest.mark.table(("text", "message"), REFUSED)
def test_refusals_say_where_and_what_helps(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml.load(text, where="x.yaml")
    assert message in caught.value.message
    assert caught.value.message.startswith("x.yaml:")
    assert caught.value.hint and not caught.value.message.endswith(".")
    assert {"path", "line", "column"} <= caught.value.details.keys()


def test_a_depth_bomb_does_not_end_the_interpreter() -> None:
    code = (
        "from ktx_cli.core import yaml\n"
        "for text in ('[' * 1_000_000, '- ' * 1_000_000, '{a: ' * 500_000, '[' * 10_000 + ']' * 10_000):\n"
        "    for read in (yaml.load, yaml.compose):\n"
        "        try:\n"
        "            read(text, where='x')\n"
        "        except yaml.ConfigError as error:\n"
        "            print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["config"] * 8), done.stderr


@pytest.mark.table("text", ["- x\n" * 60_000, "- x\n" * 60_000 + "["])
def test_the_collector_runs_again_after_a_big_load(text: str) -> None:
    assert gc.isenabled()
    try:
        yaml.load(text, where="x")
    except ConfigError:
        pass
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        yaml.load("- x\n" * 60_000, where="x")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_the_typescript_package_wrote_reads_equal() -> None:
    expected = json.loads((DATA / "written-by-typescript.json").read_text("utf-8"))
    assert yaml.load((DATA / "written-by-typescript.yaml").read_bytes(), where="t") == expected
    assert yaml.load(yaml.dump(expected), where="t") == expected


@pytest.mark.table(
    ("value", "text"),
    [
        (None, "null\n"),
        ({}, "{}\n"),
        ([], "[]\n"),
        ("x", "x\n"),
        ("a\nb", '"a\\nb"\n'),
        (
            {"a": {"b": [1, {"c": None, "d": []}, [True, "x"]], "e": {}}},
            "a:\n  b:\n    - 1\n    - c: null\n      d: []\n    - - true\n      - x\n  e: {}\n",
        ),
        ({"b": 1, "a": 2}, "b: 1\na: 2\n"),
        (("a", (1,)), "- a\n- - 1\n"),
        ({"sql": "select 1\nfrom t\n"}, "sql: |\n  select 1\n  from t\n"),
        ({"sql": "select 1\n\n  from t"}, "sql: |-\n  select 1\n\n    from t\n"),
        ({"x": "a\n\n"}, "x: |+\n  a\n\n"),
        ({"x": "  a\nb"}, "x: |2-\n    a\n  b\n"),
        (["a\nb\n"], "- |\n  a\n  b\n"),
        ({"x": "a\n \nb"}, 'x: "a\\n \\nb"\n'),
        ({"x": "a\r\nb"}, 'x: "a\\r\\nb"\n'),
        ({3: 2, True: False, None: None, 1.5: 1e21}, "3: 2\ntrue: false\nnull: null\n1.5: 1.0e+21\n"),
        ({"é": "🎉 – ‘x’"}, "é: 🎉 – ‘x’\n"),
        ({"a": 'say "hi"', "b": "it's: so", "c": "'\"'"}, 'a: say "hi"\nb: "it\'s: so"\nc: "\'\\"\'"\n'),
        ({"x": '"q"'}, "x: '\"q\"'\n"),
        ("w" * 500 + " " + "w" * 500, "w" * 500 + " " + "w" * 500 + "\n"),
    ],
)
def test_dump(value: Any, text: str) -> None:
    assert yaml.dump(value) == text


@pytest.mark.table(
    "text",
    [
        "no",
        "NO",
        "on",
        "off",
        "y",
        "N",
        "yes",
        "True",
        "null",
        "Null",
        "~",
        "1e3",
        "1E5",
        "0o7",
        "0x1f",
        "0b1",
        "017",
        "12:30",
        "190:20:30",
        "12:30:00",
        "1_000",
        "2024-01-01",
        "2024-1-1",
        ".5",
        "1.",
        "+1",
        "-0",
        ".inf",
        "-.Inf",
        ".nan",
        "=",
        "<<",
        "-",
        "?",
        ":",
        "-a",
        "?a",
        ":a",
        "[a",
        "{a",
        "a:",
        "#a",
        "&",
        "*",
        "!",
        "|",
        ">",
        "%",
        "@",
        "`",
        "---",
        "...",
        "1e",
        "0x",
        "0.",
        "._",
        "",
        " a",
        "a ",
        "a: b",
        "a #b",
        "2024-01-01 10:00:00",
        "\t",
        "- a",
        "a\tb",
        "\x85",
        "\u2028",
        "\ufeff",
        "\x00",
    ],
)
def test_ambiguous_texts_are_quoted_in_every_position(text: str) -> None:
    for value in ([text], {text: text}, {"a": {"b": [text, [text]]}}):
        dumped = yaml.dump(value)
        assert dumped.count('"') + dumped.count("'") >= 2
        for read in (lambda t: yaml.load(t, where="t"), pyyaml.safe_load, ruamel_load):
            assert read(dumped) == value
    assert yaml.load(yaml.flow([text, {text: text}]), where="t") == [text, {text: text}]


@pytest.mark.table("value", [{1, 2}, b"x", object(), {"a": {"b": 1j}}, {("a",): 1}, [Path("x")], {"a": bytearray()}])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        yaml.dump(value)


def test_values_without_a_yaml_form_are_refused() -> None:
    loop: list[Any] = []
    loop.append({"a": loop})
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    for value in (loop, deep, {"a": "\ud800"}):
        with pytest.raises(ValueError, match=r"nests deeper|surrogate"):
            yaml.dump(value)


def test_shared_values_are_written_twice() -> None:
    shared = {"a": [1]}
    assert yaml.dump([shared, shared]) == "- a:\n    - 1\n- a:\n    - 1\n"


def test_long_keys_are_explicit_and_read_back() -> None:
    value = {"k" * 3000: {"a": ["x"]}, "b": 1}
    assert yaml.load(yaml.dump(value), where="t") == ruamel_load(yaml.dump(value)) == value


def test_the_deepest_value_that_can_be_written_can_be_read() -> None:
    deep: Any = 1
    for level in range(yaml.MAX_DEPTH):
        deep = [deep] if level % 2 else {"a": deep}
    assert yaml.load(yaml.dump(deep), where="t") == deep


@pytest.mark.table("layout", [yaml.Layout(2, 0), yaml.Layout(4, 4), yaml.Layout(3, 1), yaml.Layout(8, 0)])
def test_layouts(layout: yaml.Layout) -> None:
    value = {"a": {"b": ["x", "p\nq\n", {"c": [1, [2]], "d": "  e\nf"}]}, "g": "h\ni"}
    text = yaml.write_entry("top", value, 0, layout)
    assert yaml.load(text + "\n", where="t") == {"top": value}
    assert yaml.load(" " * 3 + yaml.write_item(value, 3, layout) + "\n", where="t") == [value]
    assert yaml.load("top:" + yaml.write_value(value, 0, layout) + "\n", where="t") == {"top": value}


LOCATED = "a: 1\nb:\n  - x: 1\n    y:\n      z: 2\n  - 5\nc: {d: [1, 2]}\n1: x\n"


@pytest.mark.table(
    ("path", "place"),
    [
        (("a",), (1, 1)),
        (("b", 0), (3, 5)),
        (("b", 0, "y", "z"), (5, 7)),
        (("b", 1), (6, 5)),
        (("c", "d", 1), (7, 12)),
        (("c", "nothing", "deeper"), (7, 1)),
        (("b", 7), (2, 1)),
        ((1,), (8, 1)),
        (("1",), None),
        (("nothing",), None),
        ((), None),
    ],
)
def test_locate(path: tuple[str | int, ...], place: tuple[int, int] | None) -> None:
    assert yaml.locate(LOCATED, path) == place
    assert yaml.locate(LOCATED.encode(), path) == place


def lines_in(node: yaml.Node | None) -> yaml.Lines:
    """Return the lines of everything in a node."""
    if node is None:
        return {}
    children = [(str(key.value), key, value) for key, value in node.pairs]
    found: yaml.Lines = {}
    for step, at, value in children or [(number, each, each) for number, each in enumerate(node.items)]:
        is_leaf = value.kind in ("scalar", "alias")
        found[step] = at.line + 1 if is_leaf else (at.line + 1, lines_in(value))
    return found


@pytest.mark.usefixtures("parser")
@pytest.mark.table(
    "text",
    [
        "",
        "one",
        "- a\n- b: 1\n  c:\n  - - 2\n    - {d: 3,\n e: 4}\n-\n- [5,\n  6]\n",
        "1: a\ntrue: b\n? {x: 1}\n: - c\n  - d\n? [p, q]\n: r\nlast: {}\nnone: []\n",
        "a: &x\n  b: 1\n*x : c\nd: *x\n? &k e\n: f\n",
        "text: |\n  a\n  b\nquoted: 'a\n\n  b'\n\n# a comment\n'after': !!str 1\n",
        "? &k {x: 1}\n: {y: 2}\n",
    ],
)
def test_lines_are_those_of_the_nodes(text: str) -> None:
    assert yaml.lines_of(text, where="") == lines_in(yaml.compose(text, where=""))


@pytest.mark.table("text", ["a: [", "a: !odd 1", "a: !odd {}", "!odd a: 1", "a: 1\n---\nb: 2"])
def test_lines_are_refused_of_what_does_not_parse(text: str) -> None:
    with pytest.raises(ConfigError):
        yaml.compose(text, where="")
    with pytest.raises(ConfigError):
        yaml.lines_of(text, where="")


def test_locate_in_what_does_not_parse() -> None:
    assert yaml.locate("a: [", ("a",)) is None
    assert yaml.locate("", ("a",)) is None


@pytest.mark.usefixtures("parser")
def test_compose_gives_marks_in_characters() -> None:
    text = "é🎉: &x !!str 'v' # c\nb: [*x, {c: }]\nd: |\n  t\n"
    root = yaml.compose(text, where="t")
    assert root is not None and root.kind == "mapping" and not root.flow
    (key, value), (_, items), (_, block) = root.pairs
    assert text[key.start : key.end] == "é🎉" and text[value.start : value.end] == "&x !!str 'v'"
    assert (value.value, value.style, value.anchor) == ("v", "'", "x")
    assert items.flow and text[items.start : items.end] == "[*x, {c: }]"
    assert (items.items[0].kind, items.items[0].value) == ("alias", "x")
    assert (block.style, block.line, block.column) == ("|", 2, 3)
    empty = items.items[1].pairs[0][1]
    assert empty.value is None and empty.start == empty.end
    assert yaml.compose("# c\n", where="t") is None


TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from([*"aby01_.:-+?#!&*|>%@`'\"\\,[]{}~=<eExonNO \t\n\r/", *ODD]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS, st.sampled_from([t for t, _ in PLAIN])
)
KEYS = st.one_of(TEXTS, st.integers(min_value=2), st.none())
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def ruamel_load(text: str) -> Any:
    reader = RuamelYAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader.load(text)


def ruamel_dump(value: Any) -> str:
    writer = RuamelYAML(typ="safe", pure=True)
    writer.version = (1, 2)
    writer.allow_unicode = True
    stream = io.StringIO()
    writer.dump(value, stream)
    return stream.getvalue()


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES)
def test_lines_of_what_we_write(value: Any) -> None:
    text = yaml.dump(value)
    assert yaml.lines_of(text, where="") == lines_in(yaml.compose(text, where=""))


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(VALUES)
def test_round_trip(value: Any) -> None:
    text = yaml.dump(value)
    assert same(yaml.load(text, where="t"), value)
    assert same(yaml.load(text.replace("\n", "\r\n").encode(), where="t"), value)
    assert same(yaml.load(yaml.flow(value), where="t"), value)
    assert yaml.dump(value) == text


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES)
def test_a_yaml_1_2_reader_reads_what_we_write(value: Any) -> None:
    assert same(ruamel_load(yaml.dump(value)), value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES)
def test_a_yaml_1_1_reader_reads_what_we_write(value: Any) -> None:
    assert same(pyyaml.load(yaml.dump(value), Loader=pyyaml.CSafeLoader), value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(VALUES)
def test_we_read_what_a_yaml_1_2_writer_writes(value: Any) -> None:
    text = ruamel_dump(value)
    try:
        own = ruamel_load(text)
    except RuamelError:
        reject()  # some of its own texts it cannot read, as `{null: ?0}`
    assume(same(own, value))
    assert same(yaml.load(text, where="t"), value)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text(alphabet="ab01:-?#[]{},&*!|>'\"%@ \n\t~.", max_size=30))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        value = yaml.load(text, where="t")
    except ConfigError as error:
        assert error.message.startswith("t:")
    else:
        assert same(yaml.load(yaml.dump(value), where="t"), value)
        yaml.compose(text, where="t")


def same(left: Any, right: Any) -> bool:
    """Equal in types and in order too."""
    if isinstance(left, dict) and isinstance(right, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and (left == right or left != left)
