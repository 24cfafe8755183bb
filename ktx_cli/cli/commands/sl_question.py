"""The question that the words and options of a command line make."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.cli.settings import current_folder
from ktx_cli.core.errors import UsageError

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.questions import Question

LARGEST: Final = 1_000_000
"""How many bytes of a question are read from a file or stdin."""

EXAMPLE: Final = "ktx sl query --measure orders.revenue --dimension customers.country"


def question_of(values: Mapping[str, Any]) -> Question:
    """Return the question of the options; what they say is added to the JSON, or stands in its place."""
    from ktx_cli.jobs.semantic.questions import Question
    from ktx_cli.jobs.serving.attributes import read_attributes

    query = _json_query(values["text"], values["file"])
    for key, added in _lists(values).items():
        query[key] = [*_list(query, key), *added]
    query.update(_single(values))
    span = {"start": values["start"], "end": values["end"], "last": values["last"], "field": values["time_field"]}
    if given := {key: value for key, value in span.items() if value is not None}:
        query["time_range"] = {**_object(query, "time_range"), **given}
    if values["via"]:
        query["via"] = {**_object(query, "via"), **_pairs(values["via"], "--via", "regions=bill_to")}
    if not query:
        raise UsageError("the query names no measure and no dimension", hint=EXAMPLE)
    return Question(
        query,
        connection=values["connection"],
        grain=values["grain"],
        parameters=_pairs(values["parameter"], "--parameter", "currency=EUR"),
        attributes=read_attributes(values["user_attribute"]),
    )


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    found = {
        "measures": values["measure"],
        "dimensions": [_dimension(each) for each in values["dimension"] or ()],
        "filters": values["filter"],
        "segments": values["segment"],
        "having": values["having"],
        "order_by": values["order_by"],
    }
    return {key: list(each) for key, each in found.items() if each}


def _single(values: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: values[key] for key in ("limit", "offset", "include_empty", "timezone")}
    found["comparison"] = None if values["compare"] is None else {"offset": values["compare"]}
    found |= {key: True for key in ("totals", "fill") if values[key]}
    return {key: value for key, value in found.items() if value is not None}


def _dimension(text: str) -> Any:
    from ktx_cli.context.semantic.query import with_grain

    field, grain = with_grain(text)
    return text if grain is None else {"field": field, "granularity": grain}


def _list(query: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = query.get(key)
    if value is not None and not isinstance(value, list):
        raise UsageError(f"`{key}` of the query must be a list", hint=f'"{key}": [...]')
    return value or ()


def _object(query: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = query.get(key)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"`{key}` of the query must be an object", hint=f'"{key}": {{...}}')
    return value or {}


def _pairs(texts: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, equal, value = text.partition("=")
        if not equal or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, not `{text}`", hint=f"{option} {example}")
        found[name.strip()] = value
    return found


def _json_query(text: str | None, file: str | None) -> dict[str, Any]:
    if text is not None and file is not None:
        raise UsageError("both a query and --query-file are given", hint="leave one out")
    if text is None and file is None:
        return {}
    where = "the query" if file is None and text != "-" else "stdin" if "-" in (text, file) else str(file)
    content = text if file is None and text != "-" else _read(where)
    try:
        query = json.loads(content or "")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", hint='{"measures": ["orders.revenue"]}') from error
    if not isinstance(query, dict):
        raise UsageError(f"{where} is not a JSON object", hint='{"measures": ["orders.revenue"]}')
    return query


def _read(where: str) -> str:
    try:
        if where == "stdin":
            content = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with (current_folder() / where).open("rb") as stream:
                content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{where} is over {LARGEST:,} bytes", hint="a query is shorter")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror or error}", hint="check --query-file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8", hint="save the query as UTF-8") from error
