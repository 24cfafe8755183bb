"""A `ktx.yaml` written by hand keeps its comments and its form, whatever command changes a setting of it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.config.file import load_config

Run = Callable[..., Any]

TEXT = """\
# Written by hand:   do not touch my spaces.


"llm" :              # a quoted key
        'provider':
                backend: none     # for now
        models: { "triage": claude-code:haiku,  default: sonnet }   # two of six
        # what nobody reads
        'of mine': {a: [1,2 , 3], b: "x: y"}
ingest: {embeddings: {backend: none}}   # in a line
x-shop: &shop {driver: sqlite, path: shop.sqlite}
connections:
 # the shop
 shop:   {driver: sqlite,   path: 'shop.sqlite'} # flow

 other:
    driver: "sqlite"   # quoted
    path: >-
      shop.sqlite
    include:
    - 'o*'   # orders
    -   "Order Lines"

    # the end of other
 again: *shop
# a last word
storage:
  git: {author: "Ada <ada@example.com>"}
"""
ANSWERS = """\
llm: {backend: claude-code, model: opus, descriptions: none}
databases: {other: {driver: sqlite, include: ['z*']}, wh: {path: shop.sqlite, driver: sqlite}}
sources: {notes: {driver: documents, path: docs}}
"""
NONE = "                backend: none     # for now"
CODE = NONE.replace("none", "claude-code")
MODELS = '        models: { "triage": claude-code:haiku,  default: sonnet }   # two of six'
SHOP = " shop:   {driver: sqlite,   path: 'shop.sqlite'} # flow"
PATH = ["    path: >-", "      shop.sqlite"]
ITEMS = ["    - 'o*'   # orders", '    -   "Order Lines"']
ROWS: list[tuple[str, list[str], list[str]]] = [
    ("setup", [], []),
    ("setup --llm-backend claude-code", [NONE], [CODE]),
    ("setup --llm-backend none --llm-model opus", [MODELS], [MODELS.replace("sonnet", "opus")]),
    (
        "setup --llm-role triage=claude-code:opus",
        [MODELS],
        [MODELS.replace("claude-code:haiku", '"claude-code:opus"')],
    ),
    ("setup --descriptions llm", [], ["scan:", "        enrichment:", "                mode: llm"]),
    (
        "setup --embeddings model2vec --embedding-model ./m",
        ["ingest: {embeddings: {backend: none}}   # in a line"],
        ["ingest: {embeddings: {backend: model2vec, model: ./m}}   # in a line"],
    ),
    (
        "setup --database sqlite --database-connection-id shop --include 'x*'",
        [SHOP],
        [SHOP.replace("'}", "', include: [x*]}")],
    ),
    (
        "setup --database sqlite --database-connection-id other --exclude a --database-path b.sqlite",
        PATH,
        ["    path: b.sqlite", "    exclude:", "    - a"],
    ),
    (
        "setup --database sqlite --database-path shop.sqlite --exclude '#x'",
        [SHOP],
        [SHOP.replace("'}", "', exclude: [\"#x\"]}")],
    ),
    (
        "setup --database mysql --database-url mysql://u:canary-pw@h/d",
        [],
        [" warehouse:", "    driver: mysql", "    url: file:.ktx/secrets/warehouse-url"],
    ),
    ("setup --source documents --source-dir docs", [], [" documents:", "    driver: documents", "    path: docs"]),
    ("setup --build none --agents codex", [], []),
    ("setup --print-plan --llm-backend claude-code", [], []),
    (
        "setup --answers answers.yaml",
        [NONE, MODELS, *ITEMS],
        [
            CODE, MODELS.replace("sonnet", "opus"), "    - z*", " wh:", "    driver: sqlite", "    path: shop.sqlite",
            " notes:", "    driver: documents", "    path: docs",
        ],
    ),
    ("config set connections.other.path data.sqlite", PATH, ["    path: data.sqlite"]),
    ("config set llm.models.default opus", [MODELS], [MODELS.replace("sonnet", "opus")]),
    ("config set connections.shop.include a,b", [SHOP], [SHOP.replace("'}", "', include: [a, b]}")]),
    (
        "connection add more --driver sqlite --path shop.sqlite",
        [],
        [" more:", "    driver: sqlite", "    path: shop.sqlite"],
    ),
    ("connection remove shop --yes", [SHOP], []),
    (
        "connection remove other --yes",
        [" other:", '    driver: "sqlite"   # quoted', *PATH, "    include:", *ITEMS],
        [],
    ),
    ("connection remove again --yes", [" again: *shop"], []),
]  # fmt: skip
"""A command, the lines it takes out and the lines it puts in; all others stay as they are."""

FORMS: dict[str, Callable[[str], bytes]] = {
    "as it is": lambda text: text.encode(),
    "CRLF, no end": lambda text: text.replace("\n", "\r\n").removesuffix("\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
}


@pytest.fixture
def config(shop: Path) -> Path:
    (shop.parent / "docs").mkdir()
    (shop.parent / "answers.yaml").write_text(ANSWERS)
    return shop.parent / "ktx.yaml"


def _changed(ktx: Run, config: Path, command: str, before: bytes) -> bytes:
    config.write_bytes(before)
    test = ["--no-test"] if command.startswith("setup") else []
    answer = ktx(*shlex.split(command), *test)
    assert answer.code == 0, answer
    load_config(config)
    return config.read_bytes()


@pytest.mark.table(("command", "without", "instead"), ROWS)
def test_what_a_command_changes(ktx: Run, config: Path, command: str, without: list[str], instead: list[str]) -> None:
    after = _changed(ktx, config, command, FORMS["as it is"](TEXT)).decode()
    lines = [*difflib.ndiff(TEXT.splitlines(), after.splitlines())]
    assert [line[2:] for line in lines if line.startswith("- ")] == without
    assert [line[2:] for line in lines if line.startswith("+ ")] == instead
    name = sorted(FORMS)[len(command) % len(FORMS)]
    assert _changed(ktx, config, command, FORMS[name](TEXT)) == FORMS[name](after), name


@pytest.mark.slow
@pytest.mark.table(("command", "without", "instead"), ROWS)
def test_the_form_of_the_file_stays(
    ktx: Run, config: Path, command: str, without: list[str], instead: list[str]
) -> None:
    after = _changed(ktx, config, command, FORMS["as it is"](TEXT)).decode()
    assert len(after.splitlines()) == len(TEXT.splitlines()) - len(without) + len(instead)
    for name, form in FORMS.items():
        assert _changed(ktx, config, command, form(TEXT)) == form(after), name


def test_what_cannot_be_placed_is_for_the_hand(ktx: Run, config: Path) -> None:
    config.write_text(TEXT)
    answer = ktx("setup", "--database", "sqlite", "--database-connection-id", "again", "--exclude", "a", "--json")
    error = answer.envelope["error"]
    assert (answer.code, config.read_text()) == (2, TEXT)
    assert error["hint"] == "edit ktx.yaml by hand: set connections.again.exclude"
