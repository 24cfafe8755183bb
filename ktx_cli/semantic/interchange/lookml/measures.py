"""Measures of views."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic.interchange.drafts import all_of, described, fault, filled
from ktx_cli.semantic.interchange.lookml.parser import Block
from ktx_cli.semantic.interchange.lookml.project import UnresolvedSqlError, replaced
from ktx_cli.semantic.interchange.lookml.views import REASONS, Dimensions, Resolved, View, World
from ktx_cli.semantic.interchange.report import Item

_AGGREGATES: Final[dict[str, Callable[[str], str]]] = {
    "count_distinct": lambda sql: f"count(distinct {sql})",
    "sum": lambda sql: f"sum({sql})",
    "average": lambda sql: f"avg({sql})",
    "min": lambda sql: f"min({sql})",
    "max": lambda sql: f"max({sql})",
    "median": lambda sql: f"median({sql})",
    "sum_distinct": lambda sql: f"sum({sql})",
    "average_distinct": lambda sql: f"avg({sql})",
    "median_distinct": lambda sql: f"median({sql})",
}
_FORMULAS: Final = ("number", "string", "yesno", "date", "date_time", "int")
_MEASURES: Final = {
    "list": "a list of values is no number; ask for the dimension",
    "running_total": "it runs over the rows of a result; a measure of ktx can be `cumulative` over time",
    "percent_of_previous": "it runs over the rows of a result; a question can ask for a `comparison`",
}
_PERIODS: Final = ("year", "quarter", "month", "week", "date", "day")


class Measures:
    """Resolves the measures of all views, each when it is first named."""

    def __init__(self, world: World, dimensions: Dimensions) -> None:
        self._world, self._dimensions, self._report = world, dimensions, world.report

    def add_all(self, view: View) -> None:
        """Resolve all measures of a view."""
        for name in view.blocks("measure"):
            self.measure(view, name)

    def measure(self, view: View, name: str) -> Resolved | None:
        """Return a measure, None where it is dropped or there is none."""
        key = f"measure {name}"
        if key in view.fields:
            return view.fields[key]
        block = view.blocks("measure").get(name)
        if block is None or key in view.open:
            return None
        view.open.append(key)
        what = f"measure `{view.block.name}.{name}`"
        try:
            made = self._resolve(view, block, name, what)
        except KtxError as error:
            self._report.dropped(what, error.message, block.place)
            made = None
        view.open.pop()
        view.fields[key] = None if made is None else Resolved(name, None)
        if made is not None:
            view.draft.measures[name] = made
        return view.fields[key]

    def _resolve(self, view: View, block: Block, name: str, what: str) -> dict[str, Any] | None:
        item = block.item
        word = (item.text("type") or "string").lower()
        if "." in name:
            raise UnresolvedSqlError("its name has a dot", hint="rename it")
        if word in _MEASURES:
            self._report.dropped(what, _MEASURES[word], block.place)
            return None
        own = self._expression(view, block, item, word)
        why = fault(view.draft, own["expr"], aggregate=True, measures=own.pop("uses"))
        limit = self._filter(view, block)
        why = why or (fault(view.draft, limit, aggregate=False) if limit else None)
        if why is not None:
            self._report.dropped(what, why, block.place)
            return None
        shown = self._shown(item)
        self._report_rest(view, block, item, word, what)
        return filled({"name": name, **own, "filter": limit, **shown})

    def _expression(self, view: View, block: Block, item: Item, word: str) -> dict[str, Any]:
        """Return `expr`, what else makes the measure, and the measures it uses."""
        sql = item.text("sql")
        if word == "count":
            return {"expr": "count(*)", "uses": ()}
        if word == "period_over_period":
            return self._period(view, item)
        if sql is None:
            raise UnresolvedSqlError("it has no `sql`", hint="write the SQL it aggregates")
        if word in _FORMULAS or word == "percent_of_total":
            uses: list[str] = []
            expr = replaced(sql, lambda each: self._operand(view, each, uses))
            whole = {"percent_of": "total"} if word == "percent_of_total" else {}
            return {"expr": expr, "uses": uses, **whole}
        text = replaced(sql, lambda each: self._dimensions.sql_of(view, each))
        why = fault(view.draft, text, aggregate=False)
        if why is not None:
            raise UnresolvedSqlError(why, hint="correct its `sql`")
        if word in ("percentile", "percentile_distinct"):
            fraction = item.number("percentile")
            if fraction is None or not 0 <= fraction <= 100:
                raise UnresolvedSqlError("its `percentile` is no number from 0 to 100", hint="write percentile: 75")
            return {"expr": f"percentile({text}, {fraction / 100:g})", "uses": ()}
        if word not in _AGGREGATES:
            raise UnresolvedSqlError(f"its type is `{word}`, which ktx has not", hint="write SQL in a `type: number`")
        return {"expr": _AGGREGATES[word](text), "uses": ()}

    def _operand(self, view: View, name: str, uses: list[str]) -> str:
        """Return a measure a formula names, or the dimension inside an aggregate of its own."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        found = self.measure(target, own) if target is not None else None
        if target is None or found is None:
            return self._dimensions.sql_of(view, name)
        uses.append(found.name if target is view else f"{target.draft.name}.{found.name}")
        return uses[-1]

    def _period(self, view: View, item: Item) -> dict[str, Any]:
        based, period, kind = item.text("based_on") or "", (item.text("period") or "").lower(), item.text("kind")
        item.skip("based_on_time", "value_to_date")
        if period not in _PERIODS or kind not in (None, "previous"):
            raise UnresolvedSqlError(f"its period is `{period}`, its kind `{kind}`", hint="write kind: previous")
        uses: list[str] = []
        expr = self._operand(view, based, uses)
        if not uses:
            raise UnresolvedSqlError(f"`based_on` is `{based}`, no measure that was imported", hint="name a measure")
        return {"expr": expr, "offset": f"1 {'day' if period == 'date' else period}", "uses": uses}

    def _filter(self, view: View, block: Block) -> str | None:
        """Return one condition of `filters`, in the newer form and both older ones."""
        pairs = [each for each in block.values.get("filters") or () if isinstance(each, tuple)]
        for below in block.below("filters"):
            if "field" in below.values:
                pairs.append((below.values["field"], below.values.get("value", "")))
            else:
                pairs += [(key, value) for key, value in below.values.items()]
        result = []
        for field, value in pairs:
            column = self._dimensions.sql_of(view, str(field))
            result.append(condition(column, self._dimensions.kind_of(view, str(field)), str(value)))
        return all_of(result)

    def _shown(self, item: Item) -> dict[str, Any]:
        text = described(item.text("description"), item.text("label"))
        restricted = bool(item.words("required_access_grants"))
        return {
            "descriptions": {"lookml": text} if text else None,
            "visibility": "hidden" if restricted else "internal" if item.flag("hidden") else None,
            "format": item.text("value_format_name") or item.text("value_format"),
        }

    def _report_rest(self, view: View, block: Block, item: Item, word: str, what: str) -> None:
        target = f"{view.draft.name}.{block.name}"
        item.skip("filters", "type", "percentile", "sql_distinct_key")
        if word.endswith("_distinct") and word != "count_distinct":
            why = f"each row of `{view.draft.name}` counts once; its `sql_distinct_key` is not used"
            self._report.approximated(what, why, block.place, target)
        if item.has("required_access_grants"):
            why = "who has the access grant is not asked here: no question may use it"
            self._report.approximated(f"`required_access_grants` of {what}", why, block.place, target)
        self._report.kept(what, block.place, target)
        item.report_rest(self._report, what, REASONS)


_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_COMPARED: Final = re.compile(rf"(<=|>=|<>|!=|<|>|=)?\s*({_NUMBER})")
_BETWEEN: Final = re.compile(rf"({_NUMBER})\s+to\s+({_NUMBER})", re.IGNORECASE)
_INTERVAL: Final = re.compile(rf"([\[(])\s*({_NUMBER}|-inf)?\s*,\s*({_NUMBER}|inf)?\s*([\])])", re.IGNORECASE)


def condition(column: str, kind: str, text: str) -> str:
    """Return the condition a filter expression means for a column of a ktx type.

    Raises `UnresolvedError` for an expression that has no SQL form here, such as a relative date.
    """
    stripped = text.strip()
    if not stripped:
        raise UnresolvedSqlError("its filter is empty, which means any value", hint="remove the filter")
    if kind == "boolean":
        return _boolean(column, stripped)
    if kind == "number":
        return _numbers(column, stripped)
    if kind == "time":
        raise UnresolvedSqlError(f"the date filter `{stripped}` has no SQL form here", hint="write SQL in its place")
    return _texts(column, stripped)


def _boolean(column: str, text: str) -> str:
    word = text.lower()
    if word in ("yes", "true"):
        return column
    if word in ("no", "false"):
        return f"NOT coalesce({column}, FALSE)"
    raise UnresolvedSqlError(f"`{text}` is neither yes nor no", hint='write "yes" or "no"')


def _numbers(column: str, text: str) -> str:
    parts = re.split(r",(?![^\[(]*[\])])|\s+OR\s+", text, flags=re.IGNORECASE)
    several = [each for part in parts if (each := part.strip())]
    wanted = [_number(column, each) for each in several if not _is_negative(each)]
    refused = [_number(column, _inner(each)) for each in several if _is_negative(each)]
    return _combined(column, wanted, refused)


def _is_negative(text: str) -> bool:
    return text.lower().startswith("not ") and text.lower() != "not null"


def _inner(text: str) -> str:
    return text[4:].strip()


def _number(column: str, text: str) -> str:
    if text.lower() in ("null", "not null"):
        return f"{column} IS {text.upper()}"
    if (found := _COMPARED.fullmatch(text)) is not None:
        return f"{column} {(found[1] or '=').replace('!=', '<>')} {found[2]}"
    if (found := _BETWEEN.fullmatch(text)) is not None:
        return f"{column} BETWEEN {found[1]} AND {found[2]}"
    if (found := _INTERVAL.fullmatch(text)) is not None:
        return _interval(column, found)
    both = re.split(r"\s+AND\s+", text, flags=re.IGNORECASE)
    if len(both) > 1:
        return " AND ".join(_number(column, each.strip()) for each in both)
    raise UnresolvedSqlError(f"the number filter `{text}` is not known", hint='write ">10", "1 to 5" or "[1, 5)"')


def _interval(column: str, found: re.Match[str]) -> str:
    ends = []
    if found[2] and found[2].lower() != "-inf":
        ends.append(f"{column} {'>=' if found[1] == '[' else '>'} {found[2]}")
    if found[3] and found[3].lower() != "inf":
        ends.append(f"{column} {'<=' if found[4] == ']' else '<'} {found[3]}")
    return " AND ".join(ends) or f"{column} IS NOT NULL"


def _texts(column: str, text: str) -> str:
    several = [each.strip() for each in re.findall(r'\s*((?:"[^"]*"|\^.|[^,])+)', text)]
    wanted = [each for each in several if each and not each.startswith("-")]
    refused = [each[1:] for each in several if each.startswith("-") and each != "-"]
    return _combined(column, _texts_are(column, wanted), _texts_are(column, refused))


def _texts_are(column: str, values: list[str]) -> list[str]:
    plain = [
        _literal(_unescaped(value)) for value in values if "%" not in value.replace("^%", "") and not _is_word(value)
    ]
    patterns = [value for value in values if "%" in value.replace("^%", "")]
    found = [f"{column} IN ({', '.join(plain)})" if len(plain) > 1 else f"{column} = {plain[0]}"] if plain else []
    found += [f"{column} LIKE {_literal(_unescaped(pattern))}" for pattern in patterns]
    return found + [_word(column, value) for value in values if _is_word(value)]


def _is_word(text: str) -> bool:
    return text.upper() in ("NULL", "EMPTY")


def _word(column: str, text: str) -> str:
    return f"{column} IS NULL" if text.upper() == "NULL" else f"({column} IS NULL OR {column} = '')"


def _unescaped(text: str) -> str:
    quoted = re.fullmatch(r'"([^"]*)"', text)
    return re.sub(r"\^(.)", r"\1", quoted[1] if quoted else text)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _combined(column: str, wanted: list[str], refused: list[str]) -> str:
    """Return: one of the wanted and none of the refused; a value that is not known is not refused, as in Looker."""
    found = [wanted[0] if len(wanted) == 1 else f"({' OR '.join(wanted)})"] if wanted else []
    for each in refused:
        unknown = "" if "IS NULL" in each or wanted else f" OR {column} IS NULL"
        found.append(f"(NOT ({each}){unknown})")
    if not found:
        raise UnresolvedSqlError("its filter says nothing", hint="remove the filter")
    return " AND ".join(found)
