from __future__ import annotations

import pytest

from ktx_cli.scan.committed import RemovedTexts, has_comments
from ktx_cli.semantic.manifest import MANIFEST_HEADER

PLAIN = "tables:\n  a:\n    table: a\n"


@pytest.mark.table(
    ("text", "expected"),
    [
        (PLAIN, False),
        (MANIFEST_HEADER + PLAIN, False),
        (MANIFEST_HEADER.replace("\n", "\r\n") + PLAIN.replace("\n", "\r\n"), False),
        ("\ufeff" + MANIFEST_HEADER + PLAIN, False),
        (MANIFEST_HEADER + "# mine\n" + PLAIN, True),
        (MANIFEST_HEADER + PLAIN + "    # mine\n", True),
        (MANIFEST_HEADER + "tables:\n  a:  # mine\n    table: a\n", True),
        (MANIFEST_HEADER + PLAIN + "\n# mine", True),
        ("tables:\n  a:\n    table: 'x # y'\n    other: \"# z\"\n", False),
        ("tables:\n  a:\n    table: x#y\n", False),
        ("tables:\n  a:\n    table: 'x # y'  # mine\n", True),
        ("tables:\n  a:\n    d: |\n      # text\n      more # text\n", False),
        ("tables:\n  a:\n    d: >-\n      # text\n\n       # text\n    table: a\n", False),
        ("tables:\n  a:\n    d: |  # mine\n      text\n", True),
        ("tables:\n  a:\n    d: |\n      text\n    # mine\n    table: a\n", True),
        ("tables:\n  '# a': {table: a, columns: [{name: '#'}]}\n", False),
        ("tables: {a: {table: a}, # mine\n  b: {table: b}}\n", True),
        ("a: plain\n  goes on\n", False),
        ("", False),
        ("# mine\n", True),
    ],
)
def test_comments_are_told_from_text(text: str, expected: bool) -> None:
    assert has_comments(text.encode(), "shard.yaml") is expected


LOSSES = RemovedTexts({"b": "two.yaml", "a": "one.yaml"}, ("one.yaml", "three.yaml"))


@pytest.mark.table(
    ("written", "tables", "comments"),
    [
        (["one.yaml", "two.yaml", "three.yaml"], ["a", "b"], ["one.yaml", "three.yaml"]),
        (["two.yaml"], ["b"], None),
        (["three.yaml"], None, ["three.yaml"]),
        ([], None, None),
    ],
)
def test_only_what_was_written_is_named(
    written: list[str], tables: list[str] | None, comments: list[str] | None
) -> None:
    found = {warning.code: warning for warning in LOSSES.warnings("wh", written, {})}
    assert (found["removed_text"].details["tables"] if "removed_text" in found else None) == tables
    assert (found["removed_comments"].details["paths"] if "removed_comments" in found else None) == comments
    assert all("previous commit" in (warning.hint or "") for warning in found.values())


def test_where_the_old_text_is_when_there_is_no_history() -> None:
    replaced = {"one.yaml": ".ktx/replaced/0-one.yaml"}
    (removed, comments) = LOSSES.warnings("wh", ["one.yaml"], replaced)
    assert ".ktx/replaced/0-one.yaml" in (removed.hint or "") and ".ktx/replaced/0-one.yaml" in (comments.hint or "")
