"""Breaks one decision of the semantic layer at a time and shows that a case of the oracle notices.

`make mutate-semantic`. Each mutation replaces one place of the compiler in a copy of the package and asks the oracle's
cases again, on DuckDB. A mutation no case notices ends the run with exit code 1: the decision is not tested.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "ktx_cli/semantic"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One decision: what is broken, in which file below the package, the text and what takes its place."""

    name: str
    file: str
    text: str
    instead: str


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("facts without a partner are lost", "compile/rows.py", 'self._on(joined), "LEFT")', "self._on(joined))"),
    Mutation(
        "missing keys never meet",
        "../warehouses/dialect.py",
        "return exp.NullSafeEQ(this=one, expression=two)",
        "return exp.EQ(this=one, expression=two)",
    ),
    Mutation(
        "missing keys of two facts do not meet",
        "compile/statement.py",
        "result = result.group_by(*(column(key, rows) for key in dimensions), copy=False)",
        "result = result.where(*(column(key, rows).is_(exp.null()).not_() for key in dimensions), copy=False)"
        ".group_by(*(column(key, rows) for key in dimensions), copy=False)",
    ),
    Mutation(
        "facts are stacked without duplicates",
        "compile/statement.py",
        "picked += [as_column(_any(build, key, column(key, rows)), key) for key in measures]",
        "picked += [as_column(exp.Min(this=exp.Coalesce(this=column(key, rows), "
        "expressions=[exp.Literal.number(0)])), key) for key in measures]",
    ),
    Mutation(
        "a count of no rows is missing",
        "compile/statement.py",
        "if self._build.plan.leaves[number].kind == COUNT:",
        "if number < -99:",
    ),
    Mutation(
        "count(*) counts the filtered rows too",
        "expressions/fragments.py",
        "if counts_rows(aggregate):",
        "if counts_rows(aggregate) and condition is None:",
    ),
    Mutation(
        "a measure's filter is dropped",
        "plan/measures.py",
        "conditions = tuple(from_fact(condition, fact) for condition in context.conditions)",
        "conditions = ()",
    ),
    Mutation(
        "formulas lose their parentheses",
        "plan/measures.py",
        "return exp.paren(formula, copy=False)\n\n    def _measure",
        "return formula\n\n    def _measure",
    ),
    Mutation(
        "a missing sum spoils a formula",
        "plan/measures.py",
        "if self.leaves[int(formula.name)].kind in (SUM, COUNT):",
        "if not formula:",
    ),
    Mutation(
        "division by nothing fails or is endless",
        "plan/measures.py",
        "divisor = exp.Nullif(this=divisor, expression=exp.Literal.number(0))",
        "divisor = exp.Coalesce(this=divisor, expressions=[exp.Literal.number(1)])",
    ),
    Mutation(
        "an OR is two conditions",
        "expressions/names.py",
        "if isinstance(node, exp.And):",
        "if isinstance(node, exp.And | exp.Or):",
    ),
    Mutation(
        "a filter over details joins them",
        "compile/rows.py",
        "prefixes = {prefix for prefix in _prefixes(rows, condition) if prefix not in rows.joins}",
        "prefixes = _prefixes(rows, condition) & set(rows.joins)",
    ),
    Mutation(
        "filters over the same details are held apart",
        "compile/rows.py",
        "for other in [other for other in apart if other[0] & prefixes]:",
        "for other in ():",
    ),
    Mutation(
        "details count a row once for each of them",
        "compile/rows.py",
        "return query.distinct(copy=False) if self._distinct else query",
        "return query",
    ),
    Mutation(
        "rows with equal values are one row",
        "compile/rows.py",
        'selected[f"g{number}"] = self.rows.key(name)',
        'selected[f"g{number}"] = exp.null()',
    ),
    Mutation(
        "the path is any, not the shortest",
        "graph.py",
        "heapq.heappush(queue, (length + 1, several + (not edge.to_one), serial,",
        "heapq.heappush(queue, (-length - 1, several + (not edge.to_one), -serial,",
    ),
    Mutation(
        "of several paths the first is taken",
        "graph.py",
        "if len(found) > 1:\n            raise _ambiguous_path(start, hops, found)",
        "if len(found) > 99:\n            raise _ambiguous_path(start, hops, found)",
    ),
    Mutation(
        "other rows with the same parent are groups",
        "graph.py",
        "is_shared = is_shared or not self._is_to_one_back(edge)",
        "is_shared = False",
    ),
    Mutation(
        "joins of one row to one are shared",
        "graph.py",
        "is_shared = is_shared or not self._is_to_one_back(edge)",
        "is_shared = True",
    ),
    Mutation(
        "a row's own details are other rows",
        "graph.py",
        "elif is_shared and not self._is_bridge(edge):",
        "elif not self._is_bridge(edge):",
    ),
    Mutation("bridges are other rows", "graph.py", "elif is_shared and not self._is_bridge(edge):", "elif is_shared:"),
    Mutation(
        "facts with a key of two joins are bridges",
        "graph.py",
        "if not rest or not source.keyed or source.measures:",
        "if not rest or not source.keyed:",
    ),
    Mutation(
        "other rows are refused where they are asked for",
        "plan/planner.py",
        "if len(name.hops) != 1 or dimension.expression.via_to(name):",
        "if len(name.hops) != 1:",
    ),
    Mutation(
        "a role is the plain join",
        "compile/rows.py",
        "return exp.and_(*terms, copy=False)",
        "return exp.and_(*terms[:1], copy=False)",
    ),
    Mutation(
        "empty members are never shown",
        "compile/dimension_values.py",
        "if not plan.wanted or not plan.dimensions or wanted is False:",
        "if True:",
    ),
    Mutation(
        "conditions on members are not held",
        "compile/dimension_values.py",
        "for condition in plan.filters if _inside(build, group, condition)]",
        "for condition in plan.filters if not plan.filters]",
    ),
    Mutation(
        "conditions on details of members are not held",
        "compile/dimension_values.py",
        "return all(group.leads(path) for path in paths)",
        "return all(group.covers(path) for path in paths)",
    ),
    Mutation(
        "a running total starts with the time range",
        "compile/statement.py",
        "            start = None\n",
        "            start = asked.start\n",
    ),
    Mutation(
        "a window has one unit more",
        "compile/windows.py",
        "expression=self._shifted(end, cumulative.window))",
        "expression=self._shifted(self._shifted(end, cumulative.window), Span(1, cumulative.window.unit)))",
    ),
    Mutation(
        "since the start of the period is since ever",
        "compile/windows.py",
        "if cumulative.to_date is not None:",
        "if cumulative.to_date == 0:",
    ),
    Mutation(
        "the earlier period is the later one",
        "compile/windows.py",
        "start = truncate(self._shifted(start, offset),",
        "start = truncate(self._shifted(start, Span(-offset.count, offset.unit)),",
    ),
    Mutation(
        "a running total by periods starts with the time range",
        "compile/windows.py",
        "asked = replace(asked, start=None)",
        "asked = replace(asked, start=asked.start)",
    ),
    Mutation(
        "a window ends with the period, not with the time range",
        "compile/windows.py",
        "if last is None or self.asked is None or self.asked.end is None:\n            return [whole]",
        "if last is None or self.asked is not None:\n            return [whole]",
    ),
    Mutation(
        "a period of which a part is asked for is not filled",
        "compile/windows.py",
        "instant(value) - timedelta(microseconds=1) if last",
        "instant(value) - timedelta(days=1) if last",
    ),
    Mutation(
        "a window of minutes is held against whole hours",
        "compile/windows.py",
        "DAY if self.periods.counted_by == DAY else SECOND",
        "self.periods.counted_by if SECOND else DAY",
    ),
    Mutation(
        "weeks lie a year apart",
        "plan/plan.py",
        "return of == SECOND or (grain == DAY and base == MONTH)",
        "return True",
    ),
    Mutation(
        "the range's moved end cuts the last day of a shorter month",
        "compile/windows.py",
        "if differs_in_length(offset, self.periods.grain):",
        "if not offset:",
    ),
    Mutation(
        "a day the range cuts is whole a month before",
        "compile/windows.py",
        "return [exp.paren(condition, copy=False) for condition in result]",
        "return []",
    ),
    Mutation(
        "the last day is that of the rows left",
        "compile/statement.py",
        "return self._staged(values, where, [*row_conditions(self.rows, self.plan, on_time), *ranged])",
        "return self._staged(values, [], [*where, *row_conditions(self.rows, self.plan, on_time), *ranged])",
    ),
    Mutation(
        "the last day is looked for behind the days asked for",
        "compile/rows.py",
        "on_time = [condition for condition in filters if times.read(condition.expression) is not None]",
        "on_time = [condition for condition in filters if not condition]",
    ),
    Mutation(
        "the last day is looked for behind those of the measure's filter",
        "compile/statement.py",
        "on_time = [condition for condition in leaf.conditions if times.read(condition) is not None]",
        "on_time = [condition for condition in leaf.conditions if not condition]",
    ),
    Mutation(
        "a calendar is no time",
        "plan/axis.py",
        "self._calendars[edge] = self._joins_by_day(edge)",
        "self._calendars[edge] = False",
    ),
    Mutation(
        "first and last day are the same",
        "compile/rows.py",
        'pick = exp.Min if semi.take == "first" else exp.Max',
        "pick = exp.Max",
    ),
    Mutation(
        "the whole of a share is the share itself",
        "plan/measures.py",
        "replace(context.treatment, keep=kept)",
        "replace(context.treatment, keep=None)",
    ),
    Mutation("policies are not held", "compile/build.py", "if not source.policies:", "if True:"),
    Mutation(
        "hidden columns can be asked for",
        "expressions/names.py",
        "if visibility is Visibility.HIDDEN or (grouped",
        "if (grouped",
    ),
    Mutation(
        "weeks begin a day early",
        "../warehouses/time_arithmetic.py",
        "        if not sunday:\n",
        "        if sunday:\n",
    ),
    Mutation("the end of a range is in it", "calendar.py", "conditions.append(exp.LT(", "conditions.append(exp.LTE("),
    Mutation(
        "ties come in any order",
        "compile/statement.py",
        "result.append(_ordered(value.of(place), descending=False))",
        "result.append(_ordered(value.of(place), descending=True))",
    ),
    Mutation(
        "one row too many is not noticed",
        "answer.py",
        "len(rows) > limit or found.truncated",
        "found.truncated and not rows",
    ),
    Mutation(
        "rows that come several times are not noticed",
        "probes.py",
        "if joined_rows != alone:",
        "if joined_rows < alone:",
    ),
    Mutation(
        "rows of one key are not noticed",
        "probes.py",
        "if self.by_key and int(values[2]):",
        "if self.by_key and int(values[2]) < 0:",
    ),
    Mutation(
        "the axis is any grain, not the finest",
        "plan/axis.py",
        "finest = next((cut for cut in cuts if all(nests(cut, other, self.settings) for other in cuts)), None)",
        "finest = cuts[0]",
    ),
    Mutation(
        "a coarser dimension of the time is the row's own",
        "compile/statement.py",
        "index: of_period[index] if index in of_period else",
        "index: of_period[index] if index in of_period and dimension.grain == axis.grain else",
    ),
    Mutation(
        "coarser periods are not cut to their grain",
        "compile/dimension_values.py",
        "if reading.grain is not None and reading.grain != grain:",
        "if reading.grain is not None and reading.grain == DAY:",
    ),
    Mutation("weeks lie in months", "calendar.py", "return base == SECOND or fine == DAY", "return True"),
    Mutation(
        "calendar quarters lie in any fiscal year",
        "calendar.py",
        "return step % size == 0 and (first_month(fine, settings) - first_month(coarse, settings)) % size == 0",
        "return step % size == 0",
    ),
    Mutation(
        "a calendar's column is the same all month",
        "plan/axis.py",
        "return Reading(tree, reads, DatePart(DAY) if plain else None, edge, grain)",
        "return Reading(tree, reads, DatePart(YEAR) if plain else None, edge, grain)",
    ),
    Mutation(
        "months of all years are periods",
        "expressions/dates.py",
        '"month": DatePart(MONTH, of_year=True),',
        '"month": DatePart(MONTH, cuts=True),',
    ),
    Mutation(
        "to date counts from the period's start",
        "compile/windows.py",
        "last_day = shift(end.copy(), -1, DAY, kind, self.rows.build.dialect)",
        "last_day = start.copy()",
    ),
    Mutation(
        "to date goes by the whole period where the range cuts it",
        "compile/windows.py",
        "            return whole\n        moment = self._moved_end",
        "            return whole\n        return whole\n        moment = self._moved_end",
    ),
    Mutation(
        "a condition on the time shortens what is running",
        "plan/axis.py",
        "found = {index: times.bounds(each.expression) for index, each in enumerate(held)}",
        "found = {index: None for index, each in enumerate(held)}",
    ),
    Mutation("up to a day is before it", "plan/axis.py", "exp.LTE: (None, end),", "exp.LTE: (None, start),"),
    Mutation(
        "up to a moment is before it",
        "plan/axis.py",
        "{exp.GTE: (value, None), exp.LT: (None, value)}",
        "{exp.GTE: (value, None), exp.LT: (None, value), exp.LTE: (None, value)}",
    ),
    Mutation(
        "a range on another time is forgotten by what is running",
        "plan/axis.py",
        "beside, asked = asked, None",
        "beside, asked = None, None",
    ),
    Mutation(
        "an offset of an offset is the outer one",
        "plan/plan.py",
        "return Span(one.count + other.count, one.unit)",
        "return one",
    ),
    Mutation(
        "the last days of a longer month have nothing before them",
        "plan/plan.py",
        "last = later(instant(first).date(), 1, DAY)",
        "last = first",
    ),
    Mutation(
        "a missing aggregate spoils a formula",
        "plan/measures.py",
        "node.replace(self._operand(leaf) if _is_reckoned(node) else leaf)",
        "node.replace(leaf)",
    ),
    Mutation(
        "fill crosses the years of its months",
        "plan/axis.py",
        "result.append(FilledTime(number, grain, readings))",
        "result.append(FilledTime(number, grain, {number: readings[number]}))",
    ),
    Mutation(
        "a time without a granularity stays as it is",
        "plan/planner.py",
        "dimension = replace(dimension, grain=self._natural(dimension, columns))",
        "dimension = replace("
        "dimension, grain=self._natural(dimension, columns) if dimension.column.is_metric_time else None)",
    ),
    Mutation(
        "periods are those of the rows, not of the calendar they are read from",
        "compile/windows.py",
        "start = cut(rows, over if seen is None else seen, grain)",
        "start = cut(rows, over, grain)",
    ),
)


def run(mutation: Mutation, folder: Path) -> tuple[bool, float]:
    """Return whether a case notices the mutation, and the seconds it took."""
    started = time.perf_counter()
    place = folder / mutation.file.replace("/", "_") / str(abs(hash(mutation.name)))
    shutil.copytree(ROOT / "ktx_cli", place / "ktx_cli", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "benchmarks", place / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        ROOT / "tests" / "semantic_oracle",
        place / "tests" / "semantic_oracle",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    file = place / PACKAGE / mutation.file
    text = file.read_text()
    if text.count(mutation.text) != 1:
        raise SystemExit(f"`{mutation.name}`: its text is {text.count(mutation.text)} times in {mutation.file}")
    file.write_text(text.replace(mutation.text, mutation.instead))
    command = [sys.executable, "-m", "benchmarks.semantic_oracle", "--engine", "duckdb", "--quiet"]
    environ = {**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    shutil.rmtree(place)
    return done.returncode != 0, time.perf_counter() - started


def main() -> int:
    """Run all mutations, or those whose name or file holds one of some words; return 1 when one goes unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutations whose name or file holds one of these")
    parser.add_argument("--at-once", type=int, default=2)
    chosen = parser.parse_args()
    words = chosen.words or [""]
    wanted = [each for each in MUTATIONS if any(word in each.name or word in each.file for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        clean = Mutation("nothing is broken", "graph.py", "MOST_CHOICES: Final = 20", "MOST_CHOICES: Final = 20")
        if run(clean, Path(folder))[0]:
            print("the cases fail without any mutation")
            return 1
        with ThreadPoolExecutor(chosen.at_once) as pool:
            results = list(pool.map(lambda each: run(each, Path(folder)), wanted))
    for mutation, (noticed, seconds) in zip(wanted, results, strict=True):
        print(f"{'noticed' if noticed else 'MISSED ':8} {seconds:5.1f} s  {mutation.name}  ({mutation.file})")
    missed = [each.name for each, (noticed, _) in zip(wanted, results, strict=True) if not noticed]
    print(f"{len(wanted) - len(missed)} of {len(wanted)} mutations noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
