"""Everything in a project that refers to a connection's tables and columns: the layer, pages, golden questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ktx_cli.context.semantic.model import Model, Place
from ktx_cli.context.tools.ledger import sources_of
from ktx_cli.context.tools.sql_names import Named, names_in
from ktx_cli.context.wiki.graph import Graph, load_graph
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.page import field_line
from ktx_cli.context.wiki.references import line_of
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.jobs.drift.layer_uses import LayerUses, asked_names
from ktx_cli.jobs.drift.model import REFERRED_TO, Change, ChangeKind
from ktx_cli.jobs.drift.uses import Part, Use, Uses
from ktx_cli.jobs.evals.loading import load_evals
from ktx_cli.jobs.evals.model import Case
from ktx_cli.jobs.linting.targets import targets_of
from ktx_cli.jobs.semantic.layers import layer_ids, load_layers
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree


@dataclass(slots=True)
class ContextUses:
    """Answers what changes break; the files are read when it is asked first. `warnings`: of what was left out."""

    layout: Layout
    config: KtxConfig
    warnings: list[ResultWarning] = field(default_factory=list)
    _layers: dict[str, LayerUses] | None = None

    def told(self, connection: str, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Return the changes of a connection, each with what refers to what it is about."""
        return tuple(
            replace(each, uses=self._of(connection, each)) if each.kind in REFERRED_TO else each for each in changes
        )

    def _of(self, connection: str, change: Change) -> tuple[Use, ...]:
        layer = self._read().get(connection)
        return () if layer is None else layer.uses.of(_starts(layer, change))

    def _read(self) -> dict[str, LayerUses]:
        """Return the layers of all connections, with what else in the project refers to them."""
        if self._layers is None:
            ids = layer_ids(self.layout)
            models = dict(zip(ids, load_layers(self.layout, self.config, ids), strict=True))
            self._layers = {name: LayerUses(model, Uses()) for name, model in models.items()}
            graph = load_graph(WorkingTree(self.layout.root))
            for _, page in sorted(graph.wiki.pages.items()):
                self._page(self._layers, models, graph, page)
            self._evals(self._layers)
        return self._layers

    def _page(self, layers: Mapping[str, LayerUses], models: Mapping[str, Model], graph: Graph, page: Page) -> None:
        for reference in graph.references(page):
            for target in targets_of(models, reference):
                layer = layers[target.connection]
                source = models[target.connection].sources[target.source]
                part = layer.source(source) if target.member is None else layer.member(source, target.member)
                if part is not None:
                    layer.uses.link(part, _page_part(page, line_of(page, reference)))
        for index, name in enumerate(page.texts("tables")):
            parts = tuple(part.strip('"') for part in name.split("."))
            for layer in layers.values():
                for source in sources_of(layer.model, parts):
                    layer.uses.link(layer.source(source), _page_part(page, field_line(page, "tables", index)))

    def _evals(self, layers: Mapping[str, LayerUses]) -> None:
        try:
            loaded = load_evals(self.layout)
        except KtxError as error:
            self.warnings.append(ResultWarning("evals_unreadable", error.message, hint=error.hint))
            return
        for case in loaded.cases:
            layer = layers.get(case.connection or (next(iter(layers)) if len(layers) == 1 else ""))
            if layer is not None:
                part = Part("eval", case.name, layer.model.connection, Place(case.path, case.line))
                layer.uses.note(part, _asked(layer.model, case))


def _asked(model: Model, case: Case) -> Named | None:
    if case.asked.sql is not None:
        return names_in(case.asked.sql, model.dialect)
    return None if case.asked.query is None else asked_names(model, case.asked.query)


def _page_part(page: Page, line: int) -> Part:
    return Part("page", page.path, None, Place(page.path, line))


def _starts(layer: LayerUses, change: Change) -> list[Part]:
    """Return the parts a change is about, and those whose statements name it."""
    if change.kind is ChangeKind.TABLE_REMOVED:
        return [*layer.of_table(change.table), *layer.uses.naming(change.table)]
    if change.kind is ChangeKind.FOREIGN_KEY_REMOVED:
        return layer.of_reference(change.table, change.columns)
    if change.kind in (ChangeKind.PRIMARY_KEY, ChangeKind.UNIQUE_KEY_REMOVED):
        return layer.of_key(change.table, change.columns) if change.before is not None else []
    return [
        part
        for name in change.columns
        for part in (*layer.of_column(change.table, name), *layer.uses.naming(change.table, name))
    ]
