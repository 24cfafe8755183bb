"""All LookML files as one: views and explores by name, refinements and extensions applied."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.core import ConfigError, KtxError, one_line
from ktx_cli.semantic.interchange.drafts import truncated
from ktx_cli.semantic.interchange.lookml.parser import Block, parse_lookml
from ktx_cli.semantic.interchange.report import Report
from ktx_cli.semantic.model import Place

SUFFIXES: Final = (".lkml", ".lookml")
_SINGLE: Final = frozenset({"derived_table", "case", "query", "always_filter", "conditionally_filter", "filters"})


@dataclass(slots=True)
class Project:
    """`views` and `explores` by name; `tops`: the documents, for what stands beside them."""

    views: dict[str, Block] = field(default_factory=dict)
    explores: dict[str, Block] = field(default_factory=dict)
    tops: list[Block] = field(default_factory=list)


def read_project(files: Mapping[str, str], report: Report) -> Project:
    """Read all LookML files, refinements in the order of the paths; what cannot be read is reported as dropped."""
    project = Project()
    refinements: list[Block] = []
    for path, text in sorted(files.items()):
        if path.endswith(".dashboard.lookml"):
            report.dropped(f"file {path}", "a dashboard is no definition", Place(path))
        elif path.endswith(SUFFIXES):
            _read_file(path, text, project, refinements, report)
    _refine(project, refinements, report)
    for kind in (project.views, project.explores):
        _extend(kind, report)
    return project


def _read_file(path: str, text: str, project: Project, refinements: list[Block], report: Report) -> None:
    try:
        top = parse_lookml(text, path)
    except ConfigError as error:
        why = f"it cannot be read: {error.message}"
        report.dropped(f"file {path}", why, Place(path, error.details["line"]))
        return
    project.tops.append(top)
    for key, kind in (("view", project.views), ("explore", project.explores)):
        for block in top.below(key):
            name = block.name or ""
            if name.startswith("+"):
                refinements.append(block)
            elif not name or name in kind:
                why = "another one has the name" if name else "it has no name"
                report.dropped(f"{key} `{name or '?'}`", why, block.place)
            else:
                kind[name] = block


def _refine(project: Project, refinements: list[Block], report: Report) -> None:
    for block in refinements:
        name = (block.name or "").removeprefix("+")
        kind = project.views if block.key == "view" else project.explores
        what = f"refinement of {block.key} `{name}`"
        if name in kind:
            kind[name] = merged(kind[name], block)
            report.kept(what, block.place, name)
        else:
            report.dropped(what, "nothing of that name was read", block.place)


def _extend(blocks: dict[str, Block], report: Report) -> None:
    """Put what they extend into those with `extends`."""
    done: dict[str, Block] = {}
    for name in blocks:
        _extended(name, blocks, done, [], report)
    for name, block in done.items():
        blocks[name] = block


def _extended(name: str, blocks: dict[str, Block], done: dict[str, Block], above: list[str], report: Report) -> Block:
    if name in done:
        return done[name]
    block = blocks[name]
    wanted = _extends(block)
    result: Block | None = None
    for parent in wanted:
        what = f"`extends: {parent}` of {block.key} `{name}`"
        if parent not in blocks or parent in (*above, name):
            why = "it extends itself" if parent in blocks else "nothing of that name was read"
            report.dropped(what, why, block.places.get("extends", block.place))
            continue
        base = _extended(parent, blocks, done, [*above, name], report)
        result = merged(result, base) if result is not None else base
        report.kept(what, block.places.get("extends", block.place), name)
    if result is not None:
        made = merged(result, block)
        made.place, made.name = block.place, name
        if "extension" not in block.values:
            made.values.pop("extension", None)
        block = made
    done[name] = block
    return block


def _extends(block: Block) -> list[str]:
    """Return what a block extends: both spellings, `extends: [a]` and `extends__all: [[a]]`."""
    value = block.values.get("extends")
    return [str(each) for each in value if isinstance(each, str)] if isinstance(value, list) else []


def merged(base: Block, above: Block) -> Block:
    """Return a block with another's keys put over it, fields of one name merged, both left as they are."""
    made = deepcopy(base)
    made.values |= {key: deepcopy(value) for key, value in above.values.items() if key != "extends"}
    made.places |= above.places
    for key, blocks in above.blocks.items():
        own = made.blocks.setdefault(key, [])
        for block in blocks:
            _merge_one(own, block, single=key in _SINGLE)
    return made


def _merge_one(own: list[Block], block: Block, *, single: bool) -> None:
    for index, each in enumerate(own):
        if each.name == block.name and (block.name is not None or single):
            own[index] = merged(each, block)
            own[index].place = block.place
            return
    own.append(deepcopy(block))


TIMEFRAMES: Final = {
    "raw": None, "time": None, "date": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year",
    "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
"""Timeframe of a dimension group -> the grain it is here; None: the time itself."""

_REFERENCE: Final = re.compile(r"\$\{\s*([\w.]+)\s*\}")
_TABLE: Final = re.compile(r"\$\{TABLE\}\s*\.\s*")
_LIQUID: Final = re.compile(r"\{%|\{\{")


class UnresolvedSqlError(KtxError):
    """A piece of LookML's SQL that has no meaning here."""

    code = "config"


def without_liquid(text: str) -> str:
    """Return the text; raises `UnresolvedError` where Liquid stands in it."""
    if _LIQUID.search(text):
        raise UnresolvedSqlError(f"it holds Liquid: {one_line(text, 80)}", hint="write its outcome")
    return text


def replaced(text: str, find: Callable[[str], str]) -> str:
    """Return SQL with `${TABLE}.column` as the column, and every other `${reference}` as `find` gives it."""
    plain = _TABLE.sub("", without_liquid(text).strip())
    found = _REFERENCE.sub(lambda match: find(match[1]), plain)
    if "${" in found:
        raise UnresolvedSqlError(f"its reference cannot be read: {one_line(text, 80)}", hint="write ${view.field}")
    return found


def references(text: str) -> list[str]:
    """Return what stands in `${...}`, without `TABLE`."""
    return [name for name in _REFERENCE.findall(text) if name != "TABLE"]


def cut(column: str, timeframe: str, dialect: str) -> str:
    """Return a column of a dimension group cut to a timeframe; raises `UnresolvedError` for one ktx does not have."""
    if timeframe not in TIMEFRAMES:
        raise UnresolvedSqlError(f"ktx has no timeframe `{timeframe}`", hint="write SQL in its place")
    grain = TIMEFRAMES[timeframe]
    return column if grain is None else truncated(column, grain, dialect)
