"""Finds what the names in a source's definitions stand for."""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.context.semantic.errors import SemanticError, ambiguous, unknown
from ktx_cli.context.semantic.graph import Graph
from ktx_cli.context.semantic.model import Column, Measure, Model, Source

Parts = Sequence[str]


class Resolver:
    """Looks up names from a source: its own first, then what its rows reach over joins to one row."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """The joins of the model."""
        if self._graph is None:
            self._graph = Graph(self.model)
        return self._graph

    def column(self, source: Source, parts: Parts) -> tuple[Source, Column]:
        """Return the column and its source; `SemanticError` where there is none or several."""
        if len(parts) == 1:
            own = source.column(parts[0])
            return (source, own) if own is not None else self._reached(source, parts[0])
        other = self._place(source, parts[:-1])
        found = other.column(parts[-1])
        if found is None:
            raise unknown("column", parts[-1], other.columns, f" in `{other.name}`")
        return other, found

    def measure(self, source: Source, parts: Parts) -> tuple[Source, Measure] | None:
        """Return the measure of a bare name of the source, or of `source.measure`, None where there is none."""
        owner = source if len(parts) == 1 else self.model.sources.get(parts[0]) if len(parts) == 2 else None
        found = None if owner is None else owner.measures.get(parts[-1])
        return None if owner is None or found is None else (owner, found)

    def _reached(self, source: Source, name: str) -> tuple[Source, Column]:
        """Return a column that just one of the sources within reach has."""
        owners = [
            (other, column)
            for other in self.model.sources.values()
            if (column := other.column(name)) is not None and self.graph.reaches(source.name, other.name)
        ]
        if len(owners) == 1:
            return owners[0]
        if owners:
            raise ambiguous("the column", name, (f"{other.name}.{name}" for other, _ in owners))
        raise unknown("column", name, source.columns, f" in `{source.name}`")

    def _place(self, source: Source, hops: Parts) -> Source:
        """Return the source that `hops` lead to, over joins to one row."""
        if len(hops) == 1 and hops[0].casefold() == source.name.casefold():
            return source
        path = self.graph.path(source.name, self._spelled(hops))
        if path is None:
            known = (name for edge in self.graph.edges(source.name) for name in (edge.name, edge.target))
            raise unknown(f"source or alias that `{source.name}` is joined to", ".".join(hops), known)
        if not path.to_one:
            raise SemanticError(
                f"`{'.'.join(hops)}` may have several rows for one of `{source.name}`",
                hint=f"define it in {path.end}, or make the joins on the way many_to_one",
                code="unreachable",
            )
        return self.model.sources[path.end]

    def _spelled(self, hops: Parts) -> tuple[str, ...]:
        """Return the hops with sources spelled as their files have them."""
        return tuple(hop if hop in self.graph.aliases else self._source_name(hop) for hop in hops)

    def _source_name(self, hop: str) -> str:
        if hop in self.model.sources:
            return hop
        alike = [name for name in self.model.sources if name.casefold() == hop.casefold()]
        return alike[0] if len(alike) == 1 else hop
