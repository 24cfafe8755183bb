"""The prompts a client offers to people, and the instructions of the server: packaged Markdown."""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Final

import mcp_types as types

from ktx_cli.core import UsageError, did_you_mean, listing
from ktx_cli.jobs.serve.pages import MARKDOWN, SOURCE, WIKI, YAML, places, text_at
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.tool import LONGEST, Options

LONGEST_PROMPT: Final = 10_000
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
        if len(value) > LONGEST_PROMPT:
            raise UsageError(f"`{name}` has over {LONGEST_PROMPT:,} characters", hint="say it shorter")
    return {name: value for name, value in values.items() if value is not None}


@functools.cache
def _packaged(name: str) -> str:
    return files("ktx_cli").joinpath("prompts", "mcp", f"{name}.md").read_text("utf-8")


AT_ONCE: Final = 100
"""Resources in one page of the list."""

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=WIKI,
        name="wiki page",
        title="A page of the wiki",
        description="What numbers mean: rules, exceptions, decisions. Keys: wiki_search.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template=SOURCE,
        name="source",
        title="A source of the semantic layer",
        description="Columns, measures, joins and segments of a source, everything its files say put together.",
        mime_type=YAML,
    ),
)


def resource_page(project: ServedProject, cursor: str | None) -> types.ListResourcesResult:
    """Return the resources behind a cursor: those whose address comes after it; `UsageError` for one that is none."""
    after = "" if cursor is None else _decoded(cursor)
    left = [each for each in places(project) if each.uri > after]
    shown = left[:AT_ONCE]
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=each.uri, name=each.name, description=each.description or None, mime_type=each.mime)
            for each in shown
        ],
        next_cursor=_encoded(shown[-1].uri) if len(left) > AT_ONCE else None,
    )


def resource_text(project: ServedProject, uri: str, *, privacy: bool) -> types.ReadResourceResult:
    """Return what stands at an address, cut to the budget; raises as `text_at`."""
    found = text_at(project, uri, privacy=privacy)
    text = found.text
    if len(text) > LONGEST:
        note = (
            f"\n\n(cut: {LONGEST:,} of {len(text):,} characters are shown; the tool {found.tool} gives all, in pages)"
        )
        text = text[:LONGEST] + note
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=found.uri, mime_type=found.mime, text=text)]
    )


def _encoded(uri: str) -> str:
    return base64.urlsafe_b64encode(uri.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        raise UsageError("this cursor is none of this server's", hint="list the resources from the beginning") from None
