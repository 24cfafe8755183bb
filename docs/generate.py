"""Generates the reference pages, the JSON Schema and `ktx.example.yaml` from the program; `--check` only compares."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by `make docs` from the program; edits here are lost. -->\n\n"


def pages() -> dict[str, str]:
    """Return path -> text of every generated file."""
    from docs import calibration, checks, mcp_tools, recording, settings
    from ktx_cli.project import json_schema

    return {
        "docs/reference/cli.md": NOTE + cli_page(),
        "docs/reference/configuration.md": NOTE + settings.settings_table(),
        "docs/reference/doctor.md": NOTE + checks.doctor_page(),
        "docs/reference/errors.md": NOTE + errors_page(),
        "docs/reference/events.md": NOTE + events_page(),
        "docs/reference/lint.md": NOTE + lint_page(),
        "docs/reference/mcp-tools.md": NOTE + mcp_tools.page(),
        "docs/reference/ktx.schema.json": json.dumps(json_schema(), indent=1) + "\n",
        "docs/concepts/relationships.md": calibration.page(),
        "ktx.example.yaml": settings.example_yaml(),
        **recording.pages(),
        **skill_pages(),
    }


def skill_pages() -> dict[str, str]:
    """Return the skills of the package in the folder that skill managers such as `npx skills add` read."""
    from ktx_cli.jobs.clients.targets import NAMES

    folder = ROOT / "ktx_cli" / "agent_skills"
    return {f"skills/{name}/SKILL.md": (folder / f"{name}.md").read_text("utf-8") for name in NAMES}


def cli_page() -> str:
    """Return the reference of every command: usage, description, options."""
    import typer.main

    from ktx_cli.cli.app import app
    from ktx_cli.cli.help import EXAMPLES, examples_of
    from ktx_cli.cli.settings import COMMON_OPTIONS

    root = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "All commands, with their arguments, options and examples.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    lines += [f"| {_linked(path)} | {_first_sentence(node.help or '')} |" for path, node in _leaves(root, "ktx")]
    lines += ["", "Every command accepts these options:", ""]
    lines += _options([p for p in root.params if p.name in COMMON_OPTIONS])
    for path, node in _leaves(root, "ktx"):
        text = inspect.cleandoc(node.help or "").partition(f"\n{EXAMPLES}\n")[0].rstrip()
        lines += ["", f"## `{path}`", "", text, ""]
        arguments = [p for p in node.params if p.param_type_name == "argument"]
        own = [p for p in node.params if p.param_type_name == "option" and p.name not in COMMON_OPTIONS]
        lines += [f"Usage: `{' '.join([path, '[OPTIONS]', *(_metavar(a) for a in arguments)])}`", ""]
        lines += [f"* `{_metavar(a)}` {a.help or ''}".rstrip() for a in arguments]
        lines += _options([p for p in own if p.name != "help"])
        if examples := examples_of(node):
            lines += ["", "<!-- not run: tests/cli/test_examples.py runs them -->", "```sh", *examples, "```"]
    return "\n".join(lines).rstrip() + "\n"


def _linked(path: str) -> str:
    return f"[`{path}`](#{path.replace(' ', '-')})"


def _first_sentence(text: str) -> str:
    first = inspect.cleandoc(text).partition("\n\n")[0]
    return " ".join(re.split(r"(?<=\.)\s", first, maxsplit=1)[0].split()).replace("|", "\\|")


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in sorted(getattr(node, "commands", {}).items()):
        if getattr(child, "own", None):
            yield f"{path} {name}", child.own
        if getattr(child, "commands", None):
            yield from _leaves(child, f"{path} {name}")
        elif not child.hidden:
            yield f"{path} {name}", child


def _metavar(argument: Any) -> str:
    text = argument.metavar or argument.name.upper()
    return (
        ("" if argument.required else "[") + text + ("" if argument.required else "]") + "..." * (argument.nargs == -1)
    )


def _options(options: list[Any]) -> list[str]:
    lines = []
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = option.default
        shown = f" Default: `{getattr(default, 'value', default)}`." if default not in (None, False, ()) else ""
        lines.append(f"* {names} {option.help or ''}{shown}")
    return lines


def errors_page() -> str:
    """Return the tables of exit codes and error codes."""
    from ktx_cli.core import errors

    meaning = {
        0: "success, including when there was nothing to do",
        1: "failure",
        2: "usage or configuration error",
        3: "not ready: setup or authentication is incomplete",
        4: "a source or a database is unreachable",
        5: "a rate limit or a budget was reached",
        6: "busy: another run holds the run lock",
        7: "partially done: the error lists what was skipped",
        130: "interrupted",
        141: "the reader of the output closed the pipe",
    }
    lines = [
        "# Errors and exit codes",
        "",
        "The exit codes and error codes of all commands.",
        "",
        "| exit code | meaning |",
        "|---|---|",
    ]
    lines += [f"| {code} | {text} |" for code, text in meaning.items()]
    lines += ["", "| error code | exit code | meaning |", "|---|---|---|"]
    lines += [f"| `{code}` | {number} | {text} |" for code, (number, text) in sorted(errors.ERROR_CODES.items())]
    lines.append("")
    return "\n".join(lines)


def events_page() -> str:
    """Return the events that `--progress jsonl` writes."""
    from ktx_cli.core import events

    lines = [
        "# Events",
        "",
        "`--progress jsonl` writes one event per line to stderr. Each event also has its time in `at`.",
        "",
    ]
    lines += ["| event | fields | meaning |", "|---|---|---|"]
    for item in vars(events).values():
        if inspect.isclass(item) and issubclass(item, events.Event) and item is not events.Event:
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(item))
            lines.append(f"| `{events.event_name(item)}` | {fields} | {' '.join((item.__doc__ or '').split())} |")
    return "\n".join([*lines, ""])


def lint_page() -> str:
    """Return the rules of `ktx lint`: a table for each group, then the purpose of each rule with its example."""
    from ktx_cli.jobs.check.lint.lint import GROUPS, all_rules, example_project

    lines = [LINT_TOP]
    for group, title in GROUPS.items():
        rules = [rule for rule in all_rules().values() if rule.group == group]
        lines += ["", f"## {title}", "", "| code | name | severity | alias | reports |", "|---|---|---|---|---|"]
        for rule in rules:
            alias = f"`{rule.alias}`" if rule.alias else ""
            lines.append(f"| `{rule.code}` | {rule.name} | {rule.severity} | {alias} | {rule.summary} |")
        for rule in rules:
            lines += ["", f"### `{rule.code}` {rule.name}", "", rule.summary, rule.explanation]
            lines += _example(rule.bad)
    lines += [
        "",
        "## The example project",
        "",
        "The examples above change files of this project:",
        *_example(example_project()),
    ]
    return "\n".join([*lines, ""])


LINT_TOP = """\
# The rules of `ktx lint`

A code never changes its meaning. `error` and `warning` end the command with exit code 1. An alias is the code under
which `ktx wiki lint` (`KTX2`) or `ktx sl validate` (`KTX3`) reports the same problem. `ktx sl validate` may report it
with a different severity."""


EXAMPLE_NOTE = "<!-- not run: tests/jobs/check/lint/test_rules.py runs the examples of rules -->"
KINDS = {".yaml": "yaml", ".md": "markdown", ".json": "json"}


def _example(files: Mapping[str, str | None]) -> list[str]:
    """Return the files of an example, each below its path."""
    lines = []
    for path, text in files.items():
        lines += ["", f"`{path}` is removed." if text is None else f"`{path}`:"]
        if text is not None:
            shown = [line if len(line) <= 200 else f"{line[:200]} ..." for line in text.splitlines()]
            lines += ["", EXAMPLE_NOTE, f"```{KINDS[Path(path).suffix]}", *shown, "```"]
    return lines


def main() -> None:
    """Write the pages, or with `--check` exit 1 if a page is out of date. `docs/parity.py` writes its own page."""
    from docs import parity

    stale = []
    for name, text in pages().items():
        path = ROOT / name
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}\nhint: make docs")
    if "--check" in sys.argv[1:] and not parity.is_current():
        sys.exit(f"out of date: docs/measured/{parity.PAGE.name}\nhint: make parity")


if __name__ == "__main__":
    main()
