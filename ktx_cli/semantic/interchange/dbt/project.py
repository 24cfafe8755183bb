"""The YAML files of a dbt project: what is in them by its kind, whatever file it stands in."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import KtxError, one_line, yaml
from ktx_cli.semantic.interchange.dbt.entries import Semantic, paths
from ktx_cli.semantic.interchange.drafts import all_of, quoted, truncated
from ktx_cli.semantic.interchange.report import Item, Report
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.model import GRAINS, Place

_PROJECT: Final = "dbt_project"
_NO_MODEL: Final = frozenset({_PROJECT, "packages", "dependencies", "profiles", "selectors", "package-lock"})
_KINDS: Final = ("semantic_models", "models", "metrics", "sources")
_SILENT: Final = frozenset({"version"})
_REASONS: Final = {
    "saved_queries": "a saved question is no definition; keep it where questions are kept",
    "exposures": "they say who reads a model, not what it means",
    "groups": "they say who owns a model, not what it means",
    "macros": "they are code of dbt",
    "seeds": "they are tables; a scan reads them",
    "snapshots": "they are tables; a scan reads them",
    "unit_tests": "they test dbt's models, not measures",
    "data_tests": "they test dbt's models, not measures",
}


@dataclass(slots=True)
class Documents:
    """The entries of a project by kind. `variables`: of `dbt_project.yml`."""

    semantic_models: list[Item] = field(default_factory=list)
    models: list[Item] = field(default_factory=list)
    metrics: list[Item] = field(default_factory=list)
    sources: list[Item] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)


def read_documents(files: Mapping[str, str], report: Report, *, rest: bool = True) -> Documents:
    """Read all `.yml` and `.yaml` files; what cannot be read is reported as dropped.

    `rest` False: what else stands in them is not reported, as somebody else reads it.
    """
    found = Documents()
    for path, text in sorted(files.items()):
        where = PurePosixPath(path)
        if where.suffix not in (".yml", ".yaml"):
            continue
        document = _load(path, text, report if rest else Report())
        if where.stem == _PROJECT and isinstance(document, dict):
            variables = document.get("vars")
            found.variables |= variables if isinstance(variables, dict) else {}
        elif where.stem not in _NO_MODEL and document is not None:
            _sort_in(path, text, document, found, report, rest=rest)
    return found


def _load(path: str, text: str, report: Report) -> Any:
    try:
        return yaml.load(text, where=path)
    except KtxError as error:
        line = error.details.get("line", 1)
        report.dropped(f"file {path}", f"it is no valid YAML: {error.message}", Place(path, line))
        return None


def _sort_in(path: str, text: str, document: Any, found: Documents, report: Report, *, rest: bool) -> None:
    file = SourceFile(path, text.encode("utf-8", "replace"), document)
    if not isinstance(document, dict):
        if rest:
            report.dropped(f"file {path}", "it is no mapping", Place(path))
        return
    top = Item(document, file.place)
    top.skip(*_SILENT)
    for kind in _KINDS:
        getattr(found, kind).extend(top.items(kind))
    if rest:
        top.report_rest(report, path, _REASONS)


_EXPRESSION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
_LONGEST: Final = 1000
_FAULTS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)


class UnresolvedJinjaError(KtxError):
    """A piece of Jinja, or what it names, that has no meaning here."""

    code = "config"


TARGET_NAME: Final = "target.name"
"""What dbt calls the name of the profile's target: the one name that is known without a call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: `name`, its arguments, and the calls chained to it, such as `.grain('month')`; or `TARGET_NAME`."""

    name: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    chained: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return self.name if self.name == TARGET_NAME else f"{self.name}()"

    def argument(self, index: int, name: str) -> Any:
        """Return an argument by its place or name, None where it is not given."""
        return self.arguments[index] if index < len(self.arguments) else self.named.get(name)


def render(text: str, resolve: Callable[[Call], str]) -> str:
    """Return the text with every `{{ call }}` replaced by what `resolve` gives; raises `UnresolvedError`."""
    plain = _COMMENT.sub("", text)
    if "{%" in plain:
        raise UnresolvedJinjaError(f"it holds a Jinja statement: {one_line(text, 80)}", hint="write its outcome")
    rendered = _EXPRESSION.sub(lambda found: resolve(parse_call(found[1])), plain)
    if "{{" in rendered or "}}" in rendered:
        raise UnresolvedJinjaError(f"its Jinja cannot be read: {one_line(text, 80)}", hint="close every {{ with }}")
    return rendered.strip()


def parse_call(text: str) -> Call:
    """Return the call a piece of Jinja is; raises `UnresolvedError` for anything else."""
    shown = one_line(text.strip(), 60)
    if shown == TARGET_NAME:
        return Call(TARGET_NAME, (), {})
    try:
        tree = ast.parse(text.strip()[:_LONGEST], mode="eval").body
        return _call(tree)
    except _FAULTS:
        raise UnresolvedJinjaError(f"the Jinja `{shown}` is no call that is known", hint="write its outcome") from None


def _call(tree: ast.expr) -> Call:
    if not isinstance(tree, ast.Call):
        raise ValueError
    arguments = tuple(map(ast.literal_eval, tree.args))
    if isinstance(tree.func, ast.Attribute):
        inner = _call(tree.func.value)
        return Call(inner.name, inner.arguments, inner.named, (*inner.chained, (tree.func.attr, arguments)))
    if not isinstance(tree.func, ast.Name):
        raise ValueError
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords if keyword.arg}
    return Call(tree.func.id, arguments, named)


METRIC_TIME: Final = "metric_time"


class Scope:
    """Resolves the calls in texts of a semantic model; `variables`: what `var()` gives."""

    def __init__(self, semantic: Semantic, variables: Mapping[str, Any]) -> None:
        self._semantic, self._variables = semantic, variables

    def render(self, text: str) -> str:
        """Return SQL of the text; raises `KtxError` where something in it has no meaning here."""
        return render(text, self._resolve)

    def condition(self, filters: Iterable[str]) -> str | None:
        """Return one condition of several filters."""
        return all_of(self.render(condition) for condition in filters)

    def _resolve(self, call: Call) -> str:
        if call.name in ("Dimension", "TimeDimension"):
            return self._dimension(call)
        if call.name == "Entity":
            return self._entity(call)
        if call.name == "var":
            return self._variable(call)
        why = "it filters by a metric" if call.name == "Metric" else f"`{call.name}()` is no call that is known"
        raise UnresolvedJinjaError(why, hint="write a column in its place")

    def _variable(self, call: Call) -> str:
        name = call.argument(0, "name")
        value = self._variables.get(name) if isinstance(name, str) else None
        value = call.argument(1, "default") if value is None else value
        if not isinstance(value, str | int | float):
            raise UnresolvedJinjaError(f"the variable `{name}` has no value", hint="set it in dbt_project.yml")
        return str(value)

    def _path(self, call: Call) -> list[str]:
        name = call.argument(0, "name")
        path = call.argument(2 if call.name == "TimeDimension" else 1, "entity_path") or []
        if not isinstance(name, str) or not isinstance(path, list | tuple):
            raise UnresolvedJinjaError(f"`{call.name}()` names nothing", hint="write Dimension('order__status')")
        return [*(str(each) for each in path), *name.split("__")]

    def _dimension(self, call: Call) -> str:
        *hops, name = self._path(call)
        column, natural = self._column(hops, name)
        grain = call.argument(1, "time_granularity_name") if call.name == "TimeDimension" else None
        for method, arguments in call.chained:
            if method == "date_part" and arguments:
                return f"extract({arguments[0]} from {column})"
            if method != "grain" or not arguments:
                raise UnresolvedJinjaError(f"`.{method}()` is no call that is known", hint="write its outcome")
            grain = arguments[0]
        if grain is None or str(grain).lower() == natural:
            return column
        if str(grain).lower() not in GRAINS:
            raise UnresolvedJinjaError(f"`{grain}` is no grain", hint="use day, week, month, quarter or year")
        return truncated(column, str(grain).lower(), self._semantic.draft.dialect)

    def _column(self, hops: list[str], name: str) -> tuple[str, str | None]:
        """Return a dimension's column as expressions name it, and its natural grain."""
        if name == METRIC_TIME and not hops:
            name = self._semantic.time or name
        for end, path in paths(self._semantic, hops):
            found = end.dimensions.get(name)
            if found is not None and found.column is not None:
                return self._named(path, found.column), found.grain
        shown = "__".join((*hops, name))
        raise UnresolvedJinjaError(f"`{shown}` is no dimension that was imported", hint="import its semantic model too")

    def _named(self, path: tuple[str, ...], column: str) -> str:
        return ".".join(quoted(each, self._semantic.draft.dialect) for each in (*path, column))

    def _entity(self, call: Call) -> str:
        *hops, name = self._path(call)
        for end, path in paths(self._semantic, hops):
            found = end.entities.get(name)
            if found is not None and found.column is not None:
                return self._named(path, found.column)
        raise UnresolvedJinjaError(
            f"`{'__'.join((*hops, name))}` is no entity that was imported", hint="import its model"
        )
