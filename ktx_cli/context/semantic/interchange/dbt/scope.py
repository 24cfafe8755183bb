"""What the Jinja of dbt's filters stands for, seen from one semantic model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ktx_cli.context.semantic.interchange.dbt.entries import Semantic, paths
from ktx_cli.context.semantic.interchange.dbt.jinja import Call, UnresolvedError, render
from ktx_cli.context.semantic.interchange.sql import all_of, quoted, truncated
from ktx_cli.context.semantic.model import GRAINS

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
        return all_of(self.render(each) for each in filters)

    def _resolve(self, call: Call) -> str:
        if call.name in ("Dimension", "TimeDimension"):
            return self._dimension(call)
        if call.name == "Entity":
            return self._entity(call)
        if call.name == "var":
            return self._variable(call)
        why = "it filters by a metric" if call.name == "Metric" else f"`{call.name}()` is no call that is known"
        raise UnresolvedError(why, hint="write a column in its place")

    def _variable(self, call: Call) -> str:
        name = call.argument(0, "name")
        value = self._variables.get(name) if isinstance(name, str) else None
        value = call.argument(1, "default") if value is None else value
        if not isinstance(value, str | int | float):
            raise UnresolvedError(f"the variable `{name}` has no value", hint="set it in dbt_project.yml")
        return str(value)

    def _path(self, call: Call) -> list[str]:
        name = call.argument(0, "name")
        path = call.argument(2 if call.name == "TimeDimension" else 1, "entity_path") or []
        if not isinstance(name, str) or not isinstance(path, list | tuple):
            raise UnresolvedError(f"`{call.name}()` names nothing", hint="write Dimension('order__status')")
        return [*(str(each) for each in path), *name.split("__")]

    def _dimension(self, call: Call) -> str:
        *hops, name = self._path(call)
        column, natural = self._column(hops, name)
        grain = call.argument(1, "time_granularity_name") if call.name == "TimeDimension" else None
        for method, arguments in call.chained:
            if method == "date_part" and arguments:
                return f"extract({arguments[0]} from {column})"
            if method != "grain" or not arguments:
                raise UnresolvedError(f"`.{method}()` is no call that is known", hint="write its outcome")
            grain = arguments[0]
        if grain is None or str(grain).lower() == natural:
            return column
        if str(grain).lower() not in GRAINS:
            raise UnresolvedError(f"`{grain}` is no grain", hint="use day, week, month, quarter or year")
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
        raise UnresolvedError(f"`{shown}` is no dimension that was imported", hint="import its semantic model too")

    def _named(self, path: tuple[str, ...], column: str) -> str:
        return ".".join(quoted(each, self._semantic.draft.dialect) for each in (*path, column))

    def _entity(self, call: Call) -> str:
        *hops, name = self._path(call)
        for end, path in paths(self._semantic, hops):
            found = end.entities.get(name)
            if found is not None and found.column is not None:
                return self._named(path, found.column)
        raise UnresolvedError(f"`{'__'.join((*hops, name))}` is no entity that was imported", hint="import its model")
