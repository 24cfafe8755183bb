"""The prompts a client offers to people, and the instructions of the server: packaged Markdown."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Final

import mcp_types as types

from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.mcp.tool import Options

LONGEST: Final = 10_000
"""Characters an argument may have."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What a prompt asks for. `default`: stands in its place where it is left out; None: it is needed."""

    name: str
    description: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt: `prompts/mcp/<name>.md` with `$argument` in it."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]


PROMPTS: Final = (
    ServerPrompt(
        "answer_question",
        "Answer a question",
        "Answer a question about data with the semantic layer, and say what the number is made of.",
        (Argument("question", "The question, as somebody would ask it."),),
    ),
    ServerPrompt(
        "explain_metric",
        "Explain a metric",
        "Say what a metric counts, what it leaves out, and how it is defined.",
        (Argument("metric", "Its name, or what people call it."),),
    ),
    ServerPrompt(
        "trace_number",
        "Find where a number comes from",
        "Find the definition behind a number somebody saw, and why it may differ.",
        (
            Argument("number", "The number and what it is said to be."),
            Argument("place", "Where it was seen: a report, a chart, a mail.", "not said"),
        ),
    ),
    ServerPrompt(
        "review_changes",
        "Review what changed",
        "Look through the context for what is wrong, out of date or waiting for a person.",
        (Argument("scope", "A topic, a source or a connection.", "all of it"),),
    ),
    ServerPrompt(
        "teach_fact",
        "Teach ktx a fact",
        "Put a fact into the context, after a look whether it is known or contradicted.",
        (Argument("fact", "What holds, in your own words."),),
    ),
)


def instructions(options: Options) -> str:
    """Return what a client tells its agent of this server."""
    parts = [("instructions", True), ("privacy", options.privacy), ("read_only", options.read_only)]
    return "\n".join(_packaged(name) for name, wanted in parts if wanted)


def definitions() -> list[types.Prompt]:
    """Return the prompts as a client lists them."""
    return [
        types.Prompt(
            name=each.name,
            title=each.title,
            description=each.description,
            arguments=[
                types.PromptArgument(name=one.name, description=one.description, required=one.default is None)
                for one in each.arguments
            ],
        )
        for each in PROMPTS
    ]


def filled(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt with its arguments in place; `UsageError` for a name or arguments it does not have."""
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        near = did_you_mean(name[:100], [each.name for each in PROMPTS])
        hint = f"did you mean `{near}`?" if near else f"prompts: {listing([each.name for each in PROMPTS], 10)}"
        raise UsageError(f"there is no prompt `{name[:100]}`", hint=hint)
    text = Template(_packaged(name)).substitute(_values(prompt, arguments))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


def _values(prompt: ServerPrompt, arguments: Mapping[str, str]) -> dict[str, str]:
    known = {each.name: each for each in prompt.arguments}
    unknown = next((each for each in arguments if each not in known), None)
    if unknown is not None:
        raise UsageError(f"{prompt.name} has no argument `{unknown[:100]}`", hint=f"it takes: {listing(known)}")
    values = {name: arguments.get(name, "").strip() or each.default for name, each in known.items()}
    for name, value in values.items():
        if value is None:
            raise UsageError(f"{prompt.name} needs `{name}`", hint=known[name].description)
        if len(value) > LONGEST:
            raise UsageError(f"`{name}` has over {LONGEST:,} characters", hint="say it shorter")
    return {name: value for name, value in values.items() if value is not None}


@functools.cache
def _packaged(name: str) -> str:
    return files("ktx_cli").joinpath("prompts", "mcp", f"{name}.md").read_text("utf-8")
