"""The prompts that a client offers to its users, the instructions of the server, and the resources."""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Iterator, Mapping
from importlib.resources import files
from string import Template
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types

from ktx_cli.agent_tools import visible
from ktx_cli.core import UsageError, did_you_mean, listing, one_line, yaml
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.semantic.layers import read_layers
from ktx_cli.jobs.serve.context import page_facts, read_definition
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.wiki import read_wiki
from ktx_cli.mcp.tool import LONGEST, Call, Options

LONGEST_PROMPT: Final = 10_000
"""Maximum number of characters of an argument."""


_DEFAULTS: Final = {"place": "not stated", "scope": "everything"}
"""Values of omitted arguments; an argument without a default is required."""


def _prompt(name: str, title: str, description: str, **arguments: str) -> types.Prompt:
    """Return a prompt, whose text is `prompts/mcp/<name>.md` with `$argument` placeholders."""
    asked = [
        types.PromptArgument(name=each, description=text, required=each not in _DEFAULTS)
        for each, text in arguments.items()
    ]
    return types.Prompt(name=name, title=title, description=description, arguments=asked)


PROMPTS: Final = (
    _prompt(
        "answer_question",
        "Answer a question",
        "Answer a question about data with the semantic layer, and explain how the number was computed.",
        question="The question, in your own words.",
    ),
    _prompt(
        "explain_metric",
        "Explain a metric",
        "Explain what a metric counts, what it excludes, and how it is defined.",
        metric="The name of the metric, or a common name for it.",
    ),
    _prompt(
        "trace_number",
        "Find out where a number comes from",
        "Find the definition behind a number, and the reasons why it may differ.",
        number="The number, and what it should represent.",
        place="Where the number appears: a report, a chart, an email.",
    ),
    _prompt(
        "review_changes",
        "Review the context",
        "Check the context for errors, outdated pages and open decisions.",
        scope="A topic, a source or a connection.",
    ),
    _prompt(
        "teach_fact",
        "Teach ktx a fact",
        "Add a fact to the context, after checking whether it is already known or contradicted.",
        fact="The fact, in your own words.",
    ),
)


def instructions(options: Options) -> str:
    """Return the instructions for agents that use this server."""
    parts = {
        "instructions": True,
        "instructions_admin": options.profile is Profile.ADMIN,
        "writing": not options.read_only,
        "privacy": options.privacy,
        "read_only": options.read_only,
    }
    return "\n".join(_packaged(name) for name, wanted in parts.items() if wanted)


def filled(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in; raises `UsageError` for an unknown name or argument."""
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        names = [each.name for each in PROMPTS]
        near = did_you_mean(name[:100], names)
        hint = f"did you mean `{near}`?" if near else f"available prompts: {listing(names, 10)}"
        raise UsageError(f"there is no prompt `{name[:100]}`", hint=hint)
    text = Template(_packaged(name)).substitute(_values(prompt, arguments))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


def _values(prompt: types.Prompt, arguments: Mapping[str, str]) -> dict[str, str]:
    known = {each.name: each.description for each in prompt.arguments or ()}
    unknown = next((each for each in arguments if each not in known), None)
    if unknown is not None:
        raise UsageError(f"{prompt.name} has no argument `{unknown[:100]}`", hint=f"arguments: {listing(known)}")
    values = {name: arguments.get(name, "").strip() or _DEFAULTS.get(name, "") for name in known}
    for name, value in values.items():
        if not value:
            raise UsageError(f"{prompt.name} requires the argument `{name}`", hint=known[name])
        if len(value) > LONGEST_PROMPT:
            raise UsageError(f"`{name}` is longer than {LONGEST_PROMPT:,} characters", hint="shorten it")
    return values


@functools.cache
def _packaged(name: str) -> str:
    return files("ktx_cli").joinpath("prompts", "mcp", f"{name}.md").read_text("utf-8")


AT_ONCE: Final = 100
"""Number of resources per page of the list."""

WIKI: Final = "ktx://wiki/{key}"
SOURCE: Final = "ktx://semantic-layer/{connection}/{source}"
MARKDOWN: Final = "text/markdown"
YAML: Final = "application/yaml"
_LONGEST_URI: Final = 1_000

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=WIKI,
        name="wiki page",
        title="A wiki page",
        description="Rules, exceptions and decisions behind the numbers. Find keys with discover_data.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template=SOURCE,
        name="source",
        title="A source of the semantic layer",
        description="The merged definition of a source: its columns, measures, joins and segments.",
        mime_type=YAML,
    ),
)


def resource_page(project: ServedProject, cursor: str | None) -> types.ListResourcesResult:
    """Return the page of resources after a cursor; raises `UsageError` for an invalid cursor."""
    after = "" if cursor is None else _decoded(cursor)
    found = sorted((*_pages(project), *_sources(project)), key=lambda each: str(each.uri))
    left = [each for each in found if str(each.uri) > after]
    more = len(left) > AT_ONCE
    return types.ListResourcesResult(
        resources=left[:AT_ONCE], next_cursor=_encoded(str(left[AT_ONCE - 1].uri)) if more else None
    )


def _pages(project: ServedProject) -> Iterator[types.Resource]:
    """Yield the shared wiki pages."""
    for page in read_wiki(project.layout).seen_from():
        yield _resource(f"ktx://wiki/{quote(page.key, safe='')}", page.key, page.summary, MARKDOWN)


def _sources(project: ServedProject) -> Iterator[types.Resource]:
    """Yield the sources that are visible."""
    for each in read_layers(project.layout, project.config(), None, load=project.load_layer).sources():
        connection, name = each.connection, each.source.name
        uri = f"ktx://semantic-layer/{quote(connection, safe='')}/{quote(name, safe='')}"
        yield _resource(uri, f"{connection}/{name}", each.source.description, YAML)


def _resource(uri: str, name: str, description: str | None, mime: str) -> types.Resource:
    text = one_line(visible(description or ""), 200)
    return types.Resource(uri=uri, name=name, description=text or None, mime_type=mime)


def resource_text(call: Call, uri: str, *, privacy: bool) -> types.ReadResourceResult:
    """Return the content of a resource, cut to the budget; raises `UsageError` for an unknown URI."""
    project, (kind, parts) = call.project, _parts(uri)
    if kind == "wiki" and len(parts) == 1:
        mime, tool, text = MARKDOWN, "context_read", visible(_page_text(project, parts[0]))
    elif kind == "semantic-layer" and len(parts) == 2:
        found = read_definition(project, parts[1], parts[0], "composed", privacy=privacy, shown_note=call.shown_note)
        mime, tool, text = YAML, "context_read", found.yaml
    else:
        raise UsageError(f"there is no resource `{one_line(uri, 200)}`", hint=f"valid URIs are {WIKI} and {SOURCE}")
    if len(text) > LONGEST:
        shown = f"{LONGEST:,} of {len(text):,} characters are shown"
        text = f"{text[:LONGEST]}\n\n(truncated: {shown}; the tool {tool} returns the full text in pages)"
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=text)])


def _page_text(project: ServedProject, key: str) -> str:
    """Return a page as its file, without references to what does not exist for the caller."""
    facts = page_facts(project.layout, key)
    page = facts.page
    if project.layout.connections is None:
        return page.text
    kept = {"refs": (page.refs, facts.refs), "sl_refs": (page.sl_refs, facts.sl_refs)}
    fields = dict(page.fields)
    for name in kept.keys() & fields.keys():
        named, known = kept[name]
        fields[name] = [each for each in named if visible(each) in known]
    head = f"---\n{yaml.dump(fields)}---\n\n" if fields else ""
    return head + page.body


def _parts(uri: str) -> tuple[str, list[str]]:
    """Return the kind of a URI and its decoded parts; no part can refer to another folder."""
    try:
        split = urlsplit(uri)
    except ValueError:
        return "", []
    if len(uri) > _LONGEST_URI or split.scheme != "ktx" or split.query or split.fragment:
        return "", []
    return split.netloc, [unquote(each) for each in split.path.removeprefix("/").split("/")]


def _encoded(uri: str) -> str:
    return base64.urlsafe_b64encode(uri.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        raise UsageError("invalid cursor", hint="list the resources from the beginning, without a cursor") from None
