"""The rows of sources as the caller may see them, and the rows they join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Edge, Model, Path, Source
from tests.semantic_oracle.oracle.nodes import Node, Ref, Slot
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.values import compare, evaluate, exact, truth

Row = Mapping[str, Any]
Joined = dict[Path, Row | None]
"""A fact's row with the row (or none) at the end of each path; the fact's own is at the empty path."""


class World:
    """Tables behind a model. `attributes` are the caller's, `parameters` the query's (defaults filled in)."""

    def __init__(
        self,
        model: Model,
        tables: Mapping[str, Sequence[Row]],
        attributes: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ):
        self.model = model
        self.attributes = attributes
        self.parameters = parameters
        self._tables = {
            name: [{column: exact(value) for column, value in row.items()} for row in rows]
            for name, rows in tables.items()
        }
        self._allowed: dict[str, list[Row]] = {}

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a source that its policies let through."""
        if name not in self._allowed:
            source = self.model.sources[name]
            conditions = [parse(each) for each in source.policies]
            self._allowed[name] = [
                row for row in self._tables[name] if all(self._holds(source, row, each) for each in conditions)
            ]
            for condition in conditions:
                self._require_attributes(condition)
        return self._allowed[name]

    def _require_attributes(self, condition: Node) -> None:
        evaluate(condition, lambda node: self.slot(node) if isinstance(node, Slot) else None)

    def _holds(self, source: Source, row: Row, condition: Node) -> bool:
        return truth(evaluate(condition, lambda node: self._own(source, row, node))) is True

    def _own(self, source: Source, row: Row, node: Node) -> Any:
        if isinstance(node, Slot):
            return self.slot(node)
        assert isinstance(node, Ref)
        return self.value(source.name, row, node.parts[-1])

    def slot(self, node: Slot) -> Any:
        """Return what stands for `{{ user.x }}` or `{{ param.x }}`."""
        known, code = (self.attributes, "policy") if node.kind == "user" else (self.parameters, "parameter")
        if node.name not in known:
            raise OracleError(code, f"`{node.name}` is not given")
        return exact(known[node.name])

    def value(self, name: str, row: Row | None, column: str) -> Any:
        """Return a column of a row, computed where it is; NULL where there is no row."""
        if row is None:
            return None
        source = self.model.sources[name]
        spelled = source.column(column)
        if spelled is None:
            raise OracleError("unknown_name", f"{name} has no column `{column}`")
        text = source.columns[spelled].get("expr")
        if text is None or text.strip('"') == spelled:
            return row[spelled]
        return evaluate(parse(text), lambda node: self._own(source, row, node))

    def partners(self, edge: Edge, row: Row | None) -> list[Row]:
        """Return every row an edge leads to, looking at all rows of its target."""
        if row is None:
            return []
        return [other for other in self.rows(edge.target) if self._meet(edge, row, other)]

    def _meet(self, edge: Edge, row: Row, other: Row) -> bool:
        own, theirs = edge.source, edge.target
        return all(
            compare("=", self.value(own, row, a), self.value(theirs, other, b)) is True for a, b in edge.pairs
        ) and all(
            compare("=", self.value(own if mine else theirs, row if mine else other, column), value) is True
            for mine, column, value in edge.constants
        )

    def joined(self, row: Row, paths: Iterable[Path]) -> list[Joined]:
        """Return (row LEFT JOIN every path) as assignments; raises `OracleError` (cardinality).

        An edge to one row that finds several is a join that multiplies rows.
        """
        found: list[Joined] = [{(): row}]
        for path in sorted({each[: end + 1] for each in paths for end in range(len(each))}, key=len):
            longer: list[Joined] = []
            for each in found:
                partners: list[Row | None] = [*self.partners(path[-1], each[path[:-1]])]
                if path[-1].one and len(partners) > 1:
                    raise OracleError("cardinality", f"{path[-1].source} to {path[-1].target}")
                longer += [{**each, path: partner} for partner in partners or [None]]
            found = longer
        return found
