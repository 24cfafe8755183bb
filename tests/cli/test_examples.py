"""The examples in the help of commands run as they stand: in the demo, with the files they name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ktx_cli.cli.app import app
from ktx_cli.cli.help import examples_of
from ktx_cli.cli.main import command_line

Run = Callable[..., Any]
Git = Callable[..., str]

FILES = {
    "monthly.sql": "SELECT count(*) FROM shop.orders\n",
    "notes.md": "Guest cards are cards that a customer uses without an account.\n",
    "answer.json": '{"type": "object", "properties": {"prime": {"type": "boolean"}}}\n',
    "model.osi.yaml": """version: 0.1.1
semantic_model:
  - name: warehouse
    datasets:
      - name: tags
        source: shop.tags
        primary_key: [tag_id]
""",
    "exports/regions.csv": "code,name\nN,North\nS,South\n",
    "Sales.SemanticModel/definition/tables/tags.tmdl": """table tags

\tcolumn tag_id
\t\tdataType: int64
\t\tsourceColumn: tag_id

\tpartition tags = m
\t\tmode: import
\t\tsource =
\t\t\tlet
\t\t\t\tSource = PostgreSQL.Database("host", "demo"),
\t\t\t\tItem = Source{[Schema="shop",Item="tags"]}[Data]
\t\t\tin
\t\t\t\tItem
""",
}
"""Files that examples name."""

MODEL = "it calls a model"
CAPTURE = "it needs a capture, which a model makes"
DEMO = "it builds another demo"
PIPELINE = "the demo has no MongoDB"
SHARED = "it needs a shared state in Postgres"
SERVER = "it serves until it is stopped"
PARSED_ONLY = {
    "ktx agents install --target claude-code --install-dir ../app": "it needs the folder of an application",
    "ktx config unset connections.warehouse.allowed_functions.0": "the demo has no such list",
    "ktx demo": DEMO,
    "ktx demo my-demo --seed 11": DEMO,
    "ktx evolve company/net-revenue --runs 8": MODEL,
    "ktx evolve --since 2026-01-31 --max-usd 5": MODEL,
    'ktx llm ask "Which model are you?"': MODEL,
    'ktx llm ask --role triage --schema answer.json "Is 17 a prime number?"': MODEL,
    "ktx llm probe": MODEL,
    "ktx llm run request.json": MODEL,
    "ktx llm run request.json --json": MODEL,
    "ktx llm probe --model claude-code:haiku": MODEL,
    "ktx mcp publish": SHARED,
    "ktx mcp publish --force": SHARED,
    "ktx mcp publish --json": SHARED,
    "ktx worker": SHARED,
    "ktx worker --concurrency 8": SHARED,
    "ktx worker --once": SHARED,
    "ktx mcp logs --follow": "it waits for lines until it is stopped",
    "ktx mcp start": SERVER,
    "ktx mcp start --port 0 --read-only": SERVER,
    "ktx mcp start --projects sales finance --host 0.0.0.0 --token-file token.txt": SERVER,
    'ktx memory capture "Net revenue excludes tax and cancelled orders."': MODEL,
    "ktx memory capture --file notes.md --propose": MODEL,
    "ktx memory capture --file notes.md --dry-run": "it needs a configured model",
    "ktx memory retry latest": CAPTURE,
    "ktx memory retry latest --max-usd 1": CAPTURE,
    "ktx memory revert latest": CAPTURE,
    "ktx memory revert latest --wait 60": CAPTURE,
    "ktx memory show latest": CAPTURE,
    "ktx memory show latest --verbose": CAPTURE,
    'ktx mongo-query orders \'[{"$count": "n"}]\' --format csv': PIPELINE,
    'ktx mongo-query orders \'[{"$sortByCount": "$status"}]\'': PIPELINE,
    "ktx mongo-query orders --file monthly.json --max-rows 50": PIPELINE,
    "ktx proof --ablate measures --require-lift 0.05": MODEL,
    "ktx proof --runs 5 --max-usd 10 --markdown README.md": MODEL,
    "ktx runs show latest --transcript dbt:orders": "it needs a run with agents",
    "ktx setup --llm-backend claude-code --agents claude-code": MODEL,
    'ktx wiki contradictions "fiscal year" --holds 1': "the demo has no contradiction",
}
"""Example -> why it is parsed and not run."""

WARNED = 1
CODES = {
    "ktx check --skip evals --strict": WARNED,  # payments by guest cards, as the wiki says
    "ktx lint --min-coverage 80 --github": WARNED,
}
"""Example -> its exit code, where it is not 0."""


def leaves() -> list[tuple[str, Any]]:
    """Return every command with its words."""

    def below(node: Any, words: str) -> Any:
        for name, child in sorted(getattr(node, "commands", {}).items()):
            if getattr(child, "own", None):
                yield f"{words} {name}", child.own
            if getattr(child, "commands", None):
                yield from below(child, f"{words} {name}")
            elif not child.hidden and not getattr(child, "own", None):
                yield f"{words} {name}", child

    return list(below(typer.main.get_command(app), "ktx"))


EXAMPLES = [(path, example) for path, command in leaves() for example in examples_of(command)]


def test_every_example_is_of_its_own_command() -> None:
    assert EXAMPLES
    assert [each for each in EXAMPLES if not each[1].startswith(each[0])] == []
    known = {example for _, example in EXAMPLES}
    assert known >= {*PARSED_ONLY, *CODES}


def test_every_command_has_two_or_three_examples() -> None:
    counts = {path: len(examples_of(command)) for path, command in leaves()}
    assert len(counts) > 60
    assert {path: count for path, count in counts.items() if count not in (2, 3)} == {}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("example", [example for _, example in EXAMPLES])
def test_an_example_runs(ktx: Run, demo_project: Path, work: Path, git: Git, example: str) -> None:
    words = shlex.split(example)
    assert words[0] == "ktx"
    if example in PARSED_ONLY:
        node, context, rest = typer.main.get_command(command_line(words[1:])), None, words[1:]
        while getattr(node, "commands", None) and rest and rest[0] in node.commands:
            context = node.make_context(rest[0], [], parent=context, resilient_parsing=True)
            node, rest = node.commands[rest[0]], rest[1:]
        node.make_context(words[-1], rest, parent=context)
        return
    shutil.copytree(demo_project, work, dirs_exist_ok=True)
    git(work, "config", "user.name", "Ada")
    git(work, "config", "user.email", "ada@example.com")
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    answer = ktx(*words[1:])
    assert answer.code == CODES.get(example, 0), (answer.out, answer.err)
