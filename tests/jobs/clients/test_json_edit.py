"""Any JSON with comments: what is put in comes out again to the byte, and nothing else changes meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.jobs.clients import json_edit
from ktx_cli.jobs.clients.json_edit import parse, taken_back

ENTRY = {"type": "stdio", "command": "/opt/ktx", "args": ["--project-dir", "/a b", "mcp", "stdio"]}
SERVERS = ("mcpServers",)

_blanks = st.sampled_from(["", " ", "\t", "  "])
_comments = st.sampled_from(["/* c */", '/* { " } */', "/*a\n b*/", "// }, {\n", '// "x": 1\n', "//\n"])
_fillings = st.lists(st.one_of(_blanks, _comments, st.sampled_from(["\n", "\n\n", "\n  ", "\n\t"])), max_size=3).map(
    "".join
)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.sampled_from([1.5, 1e300, -0.0]), _texts
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A text of JSON with comments, in any layout, with or without servers."""
    data = draw(st.dictionaries(_texts.filter(lambda key: key not in SERVERS), _values, max_size=3))
    servers = draw(st.none() | st.dictionaries(_texts.filter(lambda key: key != "ktx"), _values, max_size=3))
    members = list(data.items())
    if servers is not None:
        members.insert(draw(st.integers(0, len(members))), (SERVERS[0], servers))
    text = draw(_fillings) + _written(draw, dict(members)) + draw(_fillings)
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from(["", "\ufeff"])) + text


def _written(draw: st.DrawFn, value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    is_object = isinstance(value, dict)
    pieces: list[str] = []
    for each in value:
        key = f"{json.dumps(each)}{draw(_fillings)}:{draw(_fillings)}" if is_object else ""
        pieces.append(draw(_fillings) + key + _written(draw, value[each] if is_object else each) + draw(_fillings))
    end = "," + draw(_fillings) if pieces and draw(st.booleans()) else draw(_fillings) if not pieces else ""
    return ("{" if is_object else "[") + ",".join(pieces) + end + ("}" if is_object else "]")


def added(text: str, name: str = "ktx", entry: dict[str, Any] = ENTRY) -> Any:
    return json_edit.add(text, SERVERS, name, entry, "file")


def data(text: str) -> Any:
    root = parse(text, "file").root
    return root.data if root else {}


@given(documents())
def test_the_reader_reads_what_was_written(text: str) -> None:
    root = parse(text, "file").root
    assert root is not None
    assert text[: root.start].strip(" \t\r\n\ufeff")[:1] in ("", "/")
    assert isinstance(root.data, dict)


@given(documents())
def test_what_is_put_in_is_taken_back_to_the_byte(text: str) -> None:
    edited = added(text)
    before, after = data(text), data(edited.text)
    assert after["mcpServers"].pop("ktx") == ENTRY
    assert after == {**before, "mcpServers": before.get("mcpServers", {})}
    assert taken_back(edited.text, edited.insertions) == text


@given(documents())
def test_the_entry_alone_goes_when_others_edited_meanwhile(text: str) -> None:
    """Another server behind ours, as a person or the client would add it."""
    edited = added(text)
    later = added(edited.text, "later", {"command": "x"}).text
    removed = json_edit.remove(later, SERVERS, "ktx", edited.there, "file")
    wanted = data(later)
    del wanted["mcpServers"]["ktx"]
    assert data(removed) == wanted
    assert comments(removed) == comments(later)


@given(documents())
def test_an_entry_is_cut_out_of_a_file_nobody_recorded(text: str) -> None:
    removed = json_edit.remove(added(text).text, SERVERS, "ktx", 1, "file")
    before = data(text)
    assert data(removed) == {**before, "mcpServers": before.get("mcpServers", {})}
    assert comments(removed) == comments(text)


def comments(text: str) -> list[str]:
    return [text[start:end] for start, end in parse(text, "file").comments]


LAYOUTS = {
    "two blanks": (
        '{\n  "mcpServers": {\n    "a": {}\n  }\n}\n',
        '{\n  "mcpServers": {\n    "a": {},\n    "ktx": {\n      "x": 1\n    }\n  }\n}\n',
    ),
    "tabs": (
        '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}\n',
        '{\n\t"mcpServers": {\n\t\t"a": {},\n\t\t"ktx": {\n\t\t\t"x": 1\n\t\t}\n\t}\n}\n',
    ),
    "four blanks, CRLF": (
        '{\r\n    "mcpServers": {}\r\n}\r\n',
        '{\r\n    "mcpServers": {\r\n        "ktx": {\r\n            "x": 1\r\n        }\r\n    }\r\n}\r\n',
    ),
    "a trailing comma": (
        '{\n  "mcpServers": {\n    "a": {}, // first\n  },\n}\n',
        '{\n  "mcpServers": {\n    "a": {}, // first\n    "ktx": {\n      "x": 1\n    },\n  },\n}\n',
    ),
    "a comment behind the last": (
        '{\n  "mcpServers": {\n    "a": {} // first\n    // more to come\n  }\n}\n',
        '{\n  "mcpServers": {\n    "a": {}, // first\n    "ktx": {\n      "x": 1\n    }\n    // more to come\n  }\n}\n',
    ),
    "one line": ('{"mcpServers": {"a": {}}}', '{"mcpServers": {"a": {}, "ktx": {"x": 1}}}'),
    "no servers": (
        '{\n  "theme": "dark"\n}\n',
        '{\n  "theme": "dark",\n  "mcpServers": {\n    "ktx": {\n      "x": 1\n    }\n  }\n}\n',
    ),
    "an empty object": ("{}", '{\n  "mcpServers": {\n    "ktx": {\n      "x": 1\n    }\n  }\n}'),
    "an empty file": ("", '{\n  "mcpServers": {\n    "ktx": {\n      "x": 1\n    }\n  }\n}\n'),
    "a comment alone": ("// to do", '// to do\n{\n  "mcpServers": {\n    "ktx": {\n      "x": 1\n    }\n  }\n}\n'),
    "a byte order mark": ('\ufeff{"mcpServers":{}}', '\ufeff{"mcpServers":{"ktx": {"x": 1}}}'),
}


@pytest.mark.table("layout", LAYOUTS)
def test_an_entry_is_written_as_the_file_is(layout: str) -> None:
    before, after = LAYOUTS[layout]
    edited = added(before, entry={"x": 1})
    assert edited.text == after
    assert taken_back(edited.text, edited.insertions) == before


CUTS = {
    "the first": ('{"s": {"ktx": {}, "b": 1}}', '{"s": { "b": 1}}'),
    "the middle": ('{"s": {"a": 1, "ktx": {}, "b": 1}}', '{"s": {"a": 1, "b": 1}}'),
    "the last": ('{"s": {"a": 1, "ktx": {}}}', '{"s": {"a": 1}}'),
    "the last before a comma": ('{"s": {"a": 1, "ktx": {},}}', '{"s": {"a": 1,}}'),
    "behind a comment of its line": ('{"s": {"a": 1, // a\n "ktx": {}, "b": 2}}', '{"s": {"a": 1, // a\n  "b": 2}}'),
    "the only one": ('{"s": {"ktx": {}}, "t": 1}', '{"s": {}, "t": 1}'),
}


@pytest.mark.table("cut", CUTS)
def test_a_cut_takes_one_comma(cut: str) -> None:
    before, after = CUTS[cut]
    assert json_edit.remove(before, ("s",), "ktx", 1, "file") == after


def test_objects_that_ktx_made_go_when_they_are_empty() -> None:
    text = '{\n  "theme": 1,\n  "mcp": {\n    "servers": {\n      "ktx": {}\n    }\n  }\n}\n'
    assert json_edit.remove(text, ("mcp", "servers"), "ktx", 0, "file") == '{\n  "theme": 1\n}\n'
    assert '"mcp": {' in json_edit.remove(text, ("mcp", "servers"), "ktx", 1, "file")
    noted = text.replace('"ktx": {}', '"ktx": {} // keep me')
    assert "keep me" in json_edit.remove(noted, ("mcp", "servers"), "ktx", 0, "file")


BROKEN = {
    "no brace at the end": ('{\n  "mcpServers": {\n', 3, "`}` is missing"),
    "a missing comma": ('{\n  "a": 1\n  "b": 2\n}', 3, "expected a comma or `}`"),
    "a key without quotes": ("{\n  a: 1\n}", 2, "expected a key in double quotes"),
    "quotes of another kind": ("{'a': 1}", 1, "expected a key in double quotes"),
    "no colon": ('{"a" 1}', 1, "expected a colon"),
    "two values": ("{}\n{}", 2, "there is text after the end of the JSON"),
    "a comment without end": ("{} /* a\n", 1, "a comment is not closed"),
    "no value": ('{"a": }', 1, "expected a value"),
    "a word that is none": ('{"a": nothing}', 1, "expected a value"),
    "a line break in a text": ('{"a": "x\ny"}', 1, "expected a value"),
    "merge conflict": ("<<<<<<< HEAD\n{}", 1, "expected a value"),
    "too deep": ('{"a": ' + "[" * 300, 1, "it is nested more than 200 levels deep"),
}


@pytest.mark.table("case", BROKEN)
def test_a_broken_file_is_refused_with_its_line(case: str) -> None:
    text, line, problem = BROKEN[case]
    with pytest.raises(ConfigError) as caught:
        added(text)
    assert caught.value.details["line"] == line
    assert problem in caught.value.message
    assert "nothing was written" in (caught.value.hint or "")


REFUSED = {
    "no object": ("[1]", "the content is not an object"),
    "a text": ('"x"', "the content is not an object"),
    "servers that are a list": ('{"mcpServers": []}', "`mcpServers` is not an object"),
    "servers that are null": ('{"mcpServers": null}', "`mcpServers` is not an object"),
    "servers twice": ('{"mcpServers": {}, "mcpServers": {}}', "the key occurs more than once"),
    "the entry twice": ('{"mcpServers": {"ktx": 1, "ktx": 2}}', "the key occurs more than once"),
    "the entry": ('{"mcpServers": {"ktx": {}}}', "it already exists"),
}


@pytest.mark.table("case", REFUSED)
def test_what_cannot_be_edited_safely_is_refused(case: str) -> None:
    text, problem = REFUSED[case]
    with pytest.raises(ConfigError) as caught:
        added(text)
    assert problem in caught.value.message
    assert caught.value.hint


def test_keys_that_stand_twice_elsewhere_are_nobodys_business() -> None:
    text = '{"a": 1, "a": 2, "mcpServers": {"x": 1, "x": 2}}'
    edited = added(text)
    assert '"a": 1, "a": 2' in edited.text
    assert json_edit.remove(edited.text, SERVERS, "ktx", 1, "file") == text
