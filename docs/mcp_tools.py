"""Writes the reference of the MCP server from the live tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def page() -> str:
    """Return the page: every tool with its arguments and its answer, resources, prompts."""
    from ktx_cli.jobs.clients.targets import Profile
    from ktx_cli.mcp.tool import LONGEST
    from ktx_cli.mcp.tools import PROFILES, TOOLS

    lines = ["# Tools, resources and prompts of the MCP server", ""]
    lines += [
        f"An answer has at most {LONGEST:,} characters. Longer answers are split into pages: `truncated` is true, and"
    ]
    lines += ["`next_offset` is the `offset` of the next page. Read the `warnings` before you use an answer."]
    lines += ['An error is an answer with `is_error` and the text `{"error": {code, message, hint, details}}`.', ""]
    lines += ["## Tools", ""]
    lines += ["Every tool can be called on every server. The default profile lists some of them, `--profile admin`"]
    lines += [
        "all, with the schemas of their answers.",
        "",
        "| tool | purpose | listed by default | writes |",
        "|---|---|---|---|",
    ]
    for each in TOOLS:
        listed, writes = each.name in PROFILES[Profile.DEFAULT], each.writes
        marks = " | ".join("yes" if mark else "no" for mark in (listed, writes))
        lines += [f"| [`{each.name}`](#{each.name}) | {each.title} | {marks} |"]
    for tool in TOOLS:
        lines += ["", f"### `{tool.name}`", "", _plain(tool.description), ""]
        if tool.takes is None:
            lines += _fields("Arguments", tool.input_schema(), needed=True)
        else:
            lines += [f"Arguments: the arguments of [`{tool.takes}`](#{tool.takes}) that belong to the query."]
        lines += ["", *_fields("Answer", tool.output_schema(), needed=False)]
    return "\n".join([*lines, "", *_resources(), "", *_prompts(), ""])


def _fields(title: str, schema: Mapping[str, Any], *, needed: bool) -> Iterator[str]:
    properties = schema.get("properties") or {}
    if not properties:
        yield f"{title}: none."
        return
    yield f"| {title.lower()} | type | |"
    yield "|---|---|---|"
    for name, field in properties.items():
        required = " Required." if needed and name in schema.get("required", ()) else ""
        yield f"| `{name}` | {_type(field, schema)} | {_plain(_described(field, schema))}{required} |"


def _described(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    default = field.get("default")
    shown = f" Default: `{default}`." if default not in (None, "", False, [], {}) else ""
    inner = [_target(each, schema) or each for each in (field, *field.get("anyOf", ()))]
    return next((str(each["description"]) for each in (field, *inner) if each.get("description")), "") + shown


def _target(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = field.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if isinstance(reference, str) else {}


def _type(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [_type(each, schema) for each in field["anyOf"]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    if "$ref" in field:
        names = ", ".join(f"`{name}`" for name in _target(field, schema).get("properties") or {})
        return f"object ({names})" if names else "object"
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items') or {}, schema)}"
    return str(field.get("type") or "any value")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _resources() -> Iterator[str]:
    from ktx_cli.mcp.prompts import TEMPLATES

    yield from ("## Resources", "", "| URI | content | type |", "|---|---|---|")
    for each in TEMPLATES:
        yield f"| `{each.uri_template}` | {each.title}. {each.description} | `{each.mime_type}` |"


def _prompts() -> Iterator[str]:
    from ktx_cli.mcp.prompts import PROMPTS

    yield from ("## Prompts", "", "| prompt | purpose | arguments |", "|---|---|---|")
    for each in PROMPTS:
        named = (f"`{one.name}`{'' if one.required else ' (optional)'}" for one in each.arguments or ())
        arguments = ", ".join(named)
        yield f"| `{each.name}` | {each.description} | {arguments} |"
