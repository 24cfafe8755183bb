"""Checks of the SQL in definitions: it parses in the dialect, and every name in it is a column or a measure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ktx_cli.context.semantic.checking.cycles import cycles
from ktx_cli.context.semantic.checking.fragments import Fragment, Reference, read_fragment
from ktx_cli.context.semantic.checking.reporting import Report
from ktx_cli.context.semantic.checking.resolving import Resolver
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.loading.entry import unknown_name
from ktx_cli.context.semantic.model import Column, Measure, Model, Place, Source
from ktx_cli.core.errors import KtxError

MeasureKey = tuple[str, str]
"""Source and measure."""

_PLAIN: Final = re.compile(r"(?:sum|avg|min|max|count)\(\s*(?:distinct\s+)?([A-Za-z_]\w*)\s*\)", re.IGNORECASE)
_ALL_ROWS: Final = re.compile(r"count\(\s*\*\s*\)", re.IGNORECASE)


class ExpressionChecks:
    """Checks the expressions of a model, source by source; `uses`: measure -> the measures it is computed from."""

    def __init__(self, model: Model, report: Report) -> None:
        self.model, self.report = model, report
        self.names = Resolver(model)
        self.uses: dict[MeasureKey, list[MeasureKey]] = {}
        self.parameters = {name for source in model.sources.values() for name in source.parameters}

    def check(self, source: Source) -> None:
        """Check all expressions of a source."""
        for column in source.columns.values():
            if column.expr is not None:
                self._check_rows(source, column.expr, f"column `{column.name}`", column.place)
        for segment in source.segments.values():
            self._check_rows(source, segment.expr, f"segment `{segment.name}`", segment.place)
        for policy in source.policies:
            self._check_rows(source, policy.filter, f"policy `{policy.name}`", policy.place, policy=True)
        for measure in source.measures.values():
            if measure.filter is not None:
                self._check_rows(source, measure.filter, f"`filter` of measure `{measure.name}`", measure.place)
            self._check_measure(source, measure)
        self._check_equal(source)
        self._check_computed(source)

    def _parse(
        self, source: Source, text: str, what: str, place: Place | None, *, policy: bool = False
    ) -> Fragment | None:
        try:
            said = f"{what} of `{source.name}`"
            return read_fragment(text, self.model.dialect, said, self.parameters, policy=policy)
        except SemanticError as error:
            self.report.raised(error, source, place)
        return None

    def _check_rows(self, source: Source, text: str, what: str, place: Place | None, *, policy: bool = False) -> None:
        """Check an expression over rows, which has no aggregate."""
        fragment = self._parse(source, text, what, place, policy=policy)
        if fragment is None:
            return
        if fragment.aggregates:
            said = f"{what} of `{source.name}` holds an aggregate, but is about single rows"
            self.report.error("aggregate", said, source, place, "move the aggregate into a measure")
        for reference in fragment.references:
            self._check_column(source, reference, what, place)

    def _check_column(self, source: Source, reference: Reference, what: str, place: Place | None) -> None:
        try:
            self.names.column(source, reference.parts)
        except SemanticError as error:
            if not reference.is_date_part:
                self.report.raised(error, source, place, f"{what} of `{source.name}`")

    def _check_measure(self, source: Source, measure: Measure) -> None:
        self._check_keys(source, measure)
        if self._is_plain(source, measure):
            return
        what = f"measure `{measure.name}`"
        fragment = self._parse(source, measure.expr, what, measure.place)
        if fragment is None:
            return
        used = self.uses.setdefault((source.name, measure.name), [])
        for reference in fragment.references:
            self._check_reference(source, measure, reference, used)
        if fragment.nested:
            said = f"{what} of `{source.name}` has an aggregate inside another one"
            hint = "make the inner one a measure, and say its keys by `per: [column]`"
            self.report.error("aggregate", said, source, measure.place, hint)
        if not (fragment.aggregates or fragment.opaque or used or fragment.references):
            said = f"{what} of `{source.name}` has no aggregate and names no measure"
            self.report.error("aggregate", said, source, measure.place, "write an aggregate, such as sum(amount)")

    def _is_plain(self, source: Source, measure: Measure) -> bool:
        """Say whether it is an aggregate of one own column, or counts rows: that needs no parser."""
        found = _PLAIN.fullmatch(measure.expr.strip())
        if found is not None:
            return not measure.per and source.column(found[1]) is not None
        return _ALL_ROWS.fullmatch(measure.expr.strip()) is not None

    def _check_keys(self, source: Source, measure: Measure) -> None:
        for key, names in (("per", measure.per), ("percent_of", measure.percent_of or ())):
            for name in names:
                parts = (name,) if source.column(name) else tuple(name.split("."))
                what = f"`{key}` of measure `{measure.name}`"
                self._check_column(source, Reference(parts, False, False), what, measure.place)

    def _check_reference(self, source: Source, measure: Measure, reference: Reference, used: list[MeasureKey]) -> None:
        """Check one name of a measure: inside an aggregate it is a column (a measure with `per`), else a measure."""
        found = self.names.measure(source, reference.parts)
        what = f"measure `{measure.name}`"
        if reference.aggregated and not (found and measure.per):
            if found and self._finds(source, reference) is None:
                said = f"{what} of `{source.name}` aggregates the measure `{reference}`"
                hint = "say over which keys it is computed first: per: [column]"
                self.report.error("aggregate", said, source, measure.place, hint)
            else:
                self._check_column(source, reference, what, measure.place)
        elif found is not None:
            used.append((found[0].name, found[1].name))
        elif not reference.passed:
            self._refuse_bare(source, measure, reference)
        else:
            self._check_column(source, reference, what, measure.place)

    def _refuse_bare(self, source: Source, measure: Measure, reference: Reference) -> None:
        what = f"measure `{measure.name}` of `{source.name}`"
        if self._finds(source, reference) is None:
            hint = unknown_name(str(reference), (*source.measures, *source.columns))
            self.report.error("unknown_name", f"{what}: there is no measure `{reference}`", source, measure.place, hint)
        else:
            hint = f"write an aggregate of it, such as sum({reference})"
            said = f"{what}: the column `{reference}` stands outside an aggregate"
            self.report.error("aggregate", said, source, measure.place, hint)

    def _finds(self, source: Source, reference: Reference) -> object | None:
        try:
            return self.names.column(source, reference.parts)
        except KtxError:
            return None

    def _check_equal(self, source: Source) -> None:
        """Warn of measures that compute the same."""
        alike: dict[tuple[object, ...], list[Measure]] = defaultdict(list)
        for measure in source.measures.values():
            alike[_shape(measure)].append(measure)
        for first, *others in alike.values():
            for other in others:
                what = f"measures `{first.name}` and `{other.name}` of `{source.name}` have the same expr"
                same = first.filter == other.filter
                hint = "keep one of them" if same else "keep one of them, and let questions filter, or name a segment"
                said = what if same else f"{what} and differ in their filter alone"
                self.report.warn("equal_measures", said, source, other.place, hint)

    def _check_computed(self, source: Source) -> None:
        """Refuse columns computed from themselves."""
        computed = {name: column for name, column in source.columns.items() if column.expr is not None}
        if not computed:
            return
        uses = {name: list(self._own_names(source, column)) for name, column in computed.items()}
        for cycle in cycles(uses):
            column = computed[cycle[0]]
            said = f"column `{cycle[0]}` of `{source.name}` is computed from itself: {' -> '.join((*cycle, cycle[0]))}"
            self.report.error("cycle", said, source, column.place, "take one of them out of the other's expr")

    def _own_names(self, source: Source, column: Column) -> Iterator[str]:
        """Yield the computed columns of the same source that a column is computed from."""
        what = f"column `{column.name}` of `{source.name}`"
        try:
            references = read_fragment(column.expr or "", self.model.dialect, what, self.parameters).references
        except SemanticError:  # reported when the column was checked
            return
        for reference in references:
            own = source.column(reference.parts[0]) if len(reference.parts) == 1 else None
            if own is not None and own.expr is not None:
                yield own.name

    def check_cycles(self) -> None:
        """Refuse measures computed from themselves; after all sources were checked."""
        for cycle in cycles(self.uses):
            source = self.model.sources[cycle[0][0]]
            shown = " -> ".join(".".join(key) for key in (*cycle, cycle[0]))
            said = f"measure `{cycle[0][1]}` of `{source.name}` is computed from itself: {shown}"
            place = source.measures[cycle[0][1]].place
            self.report.error("cycle", said, source, place, "take one of them out of the other's expr")


def _shape(measure: Measure) -> tuple[object, ...]:
    """Return what two measures that compute the same have in common; of the expr without blanks and case."""
    return (
        "".join(measure.expr.split()).casefold() if "'" not in measure.expr else " ".join(measure.expr.split()),
        tuple(sorted(measure.segments)), measure.time, measure.semi_additive, measure.cumulative, measure.offset,
        measure.percent_of, measure.per,
    )  # fmt: skip
