"""Which table of which database a name of another tool means: the one that is there, or nobody says which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.names import physical_name
from ktx_cli.context.semantic.loading import load_tree
from ktx_cli.context.semantic.loading.files import own_files
from ktx_cli.context.semantic.model import Model, Source
from ktx_cli.context.sources.port import ProjectContext
from ktx_cli.project.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the manifest: the connection it is in, and its source."""

    connection: str
    source: Source

    @property
    def shard(self) -> str:
        """The path of the shard it is in."""
        return "" if self.source.place is None else self.source.place.path

    @property
    def text(self) -> str:
        """Its name as a `table:` has it."""
        *outer, name = self.source.table or (self.source.name,)
        prefix = "".join(f"{physical_name(TableRef(None, part))}." for part in outer)
        return prefix + physical_name(TableRef(None, name))


@dataclass(frozen=True, slots=True)
class Name:
    """What another tool calls a table; an empty part is not known.

    `schema_end`: how its schema ends where the tool puts something before it; counts only to choose among several.
    """

    name: str
    schema: str = ""
    database: str = ""
    schema_end: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part)


def manifest_models(context: ProjectContext) -> dict[str, Model]:
    """Return the models; those with errors as the manifest alone has them, so that no table is missed."""
    return {connection: _manifest_model(context, connection) for connection in context.models}


def _manifest_model(context: ProjectContext, connection: str) -> Model:
    model = context.models[connection]
    if not any(problem.severity == "error" for problem in model.problems):
        return model
    bare = Workspace(context.workspace)
    for path in own_files(context.workspace, connection):
        bare.delete(path)
    return load_tree(bare, connection, model.dialect, model.calendar)


class Tables:
    """The tables of all databases of a project."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._by_name: dict[str, list[Table]] = {}
        for connection, model in sorted(models.items()):
            for source in model.sources.values():
                if source.generated and source.table:
                    self._by_name.setdefault(source.table[-1].casefold(), []).append(Table(connection, source))

    def find(self, name: Name) -> list[Table]:
        """Return the tables a name may mean; case does not count, nor do parts that one side does not know."""
        found = [each for each in self._by_name.get(name.name.casefold(), ()) if _fits(each.source, name)]
        if len(found) > 1 and name.schema_end:
            end = name.schema_end.casefold()
            near = [each for each in found if _schema(each.source).endswith(("_" + end, end))]
            exact = [each for each in near if _schema(each.source) in (end,)]
            found = exact or near or found
        return _without_copies(found)


def _fits(source: Source, name: Name) -> bool:
    known = [part.casefold() for part in reversed(source.table or ())][1:]
    wanted = (name.schema.casefold(), name.database.casefold())
    return all(not part or part == own for part, own in zip(wanted, known, strict=False))


def _schema(source: Source) -> str:
    table = source.table or ()
    return table[-2].casefold() if len(table) > 1 else ""


def _without_copies(found: Iterable[Table]) -> list[Table]:
    """Return one source a table: the one with the table's own name, where a second source is over the same table."""
    groups: dict[tuple[str, tuple[str, ...]], list[Table]] = {}
    for each in found:
        groups.setdefault((each.connection, each.source.table or ()), []).append(each)
    kept: list[Table] = []
    for (_, parts), several in groups.items():
        own = [each for each in several if each.source.name == parts[-1]]
        kept += own if own else several
    return kept
