"""What names in definitions and questions mean, and who may use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Model, Path, Source
from tests.semantic_oracle.oracle.nodes import Node, Ref, walk
from tests.semantic_oracle.oracle.paths import Router

METRIC_TIME = "metric_time"


@dataclass(frozen=True)
class Place:
    """A column as seen from a fact: the joins that lead to its source, and its name there."""

    path: Path
    source: str
    column: str


class Names:
    """Resolves references over one model and one query's choices of path."""

    def __init__(self, model: Model, router: Router):
        self.model = model
        self.router = router

    def place(self, fact: str, parts: Sequence[str], home: str | None, via: object = None) -> Place:
        """Return where a name is, from a fact; a bare one is looked for in `home` first."""
        hops = self.hops(parts, home)
        path = self.router.path(fact, hops, via)
        source = path[-1].target if path else fact
        return Place(path, source, self.column(source, parts[-1]))

    def hops(self, parts: Sequence[str], home: str | None) -> Sequence[str]:
        """Return the sources and aliases a name leads over; a bare name's source is the only one that has it."""
        if len(parts) > 1:
            return parts[:-1]
        if home is not None and self.model.sources[home].column(parts[0]):
            return [home]
        found = [name for name, source in self.model.sources.items() if source.column(parts[0])]
        if len(found) != 1:
            raise OracleError("ambiguous_name" if found else "unknown_name", f"column `{parts[0]}`: {found}")
        return found

    def end(self, parts: Sequence[str], home: str | None) -> str:
        """Return the source a name's column is in, whatever the path."""
        last = self.hops(parts, home)[-1]
        if last in self.model.sources:
            return last
        edges = self.model.aliases(last)
        if not edges:
            raise OracleError("unknown_name", f"no source or alias `{last}`")
        return edges[0].target

    def column(self, source: str, name: str) -> str:
        """Return a column's own spelling; raises `OracleError` (unknown_name)."""
        spelled = self.model.sources[source].column(name)
        if spelled is None:
            raise OracleError("unknown_name", f"{source} has no column `{name}`")
        return spelled

    def require_visible(self, node: Node, home: str | None, *, dimension: bool = False) -> None:
        """Raise `OracleError` (hidden) for a column a question may not use."""
        for part in walk(node):
            if isinstance(part, Ref) and part.parts != (METRIC_TIME,):
                source = self.model.sources[self.end(part.parts, home)]
                column = source.columns[self.column(source.name, part.parts[-1])]
                _require(source, column.get("visibility", "public"), dimension=dimension)


def _require(source: Source, visibility: str, *, dimension: bool) -> None:
    refused = ("hidden", "internal") if dimension else ("hidden",)
    if visibility in refused or source.visibility in refused:
        raise OracleError("hidden", f"a column of {source.name}")
