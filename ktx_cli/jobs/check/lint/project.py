"""The project as the rules of `ktx lint` read it: each file once, however many rules ask."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ktx_cli.core import Diagnostic, KtxError, ResultWarning
from ktx_cli.jobs.check.lint.coverage import Coverage, DescribedLayer
from ktx_cli.jobs.check.lint.staleness import ChangedTarget, changed_targets
from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.llm import bindings
from ktx_cli.project import KtxConfig, Layout, WorkingTree, connection_of, read_state
from ktx_cli.semantic import Model, layer_ids, load_layers, load_manifest
from ktx_cli.wiki import Graph, Page, load_wiki


@dataclass(frozen=True)
class LintedProject:
    """The files of a project, and what is derived from them when a rule first asks; no database, no model."""

    layout: Layout
    config: KtxConfig
    warn: Callable[[ResultWarning], None]
    """Takes what could not be examined."""
    connection: str | None = None
    """Only this connection and the pages that may refer to it; None: everything."""
    min_coverage: float | None = None
    """Percent of tables, columns and measures that must have a description."""

    @functools.cached_property
    def layers(self) -> Mapping[str, Model]:
        """The semantic layer of every connection; `UsageError` where the one asked for does not exist."""
        known = layer_ids(self.layout)
        if self.connection is not None and self.connection not in known:
            connection_of(self.config, self.connection)
        return dict(zip(known, load_layers(self.layout, self.config, known), strict=True))

    @functools.cached_property
    def linted_layers(self) -> list[str]:
        """The connections whose semantic layers are examined."""
        return [name for name in self.layers if self.connection in (None, name)]

    @functools.cached_property
    def described_layers(self) -> list[DescribedLayer]:
        """The examined semantic layers with what tells their descriptions apart."""
        try:
            rows = read_state(self.layout, _row_counts) or {}
        except KtxError as error:
            rows = {}
            self.warn(ResultWarning("state_unreadable", error.message, hint=error.hint))
        by_model = has_describer(self.config)
        return [
            DescribedLayer(self.layers[name], load_manifest(self.layout, name).tables, rows.get(name, {}), by_model)
            for name in self.linted_layers
        ]

    @functools.cached_property
    def coverage(self) -> Mapping[str, Coverage]:
        """How much of each examined semantic layer is described."""
        return {layer.model.connection: layer.coverage() for layer in self.described_layers}

    @functools.cached_property
    def layer_problems(self) -> list[tuple[str, Diagnostic]]:
        """What `ktx sl validate --no-data` reports, by connection."""
        return [
            problem
            for name in self.linted_layers
            for problem in validate_layers(
                self.layout,
                self.config,
                environ={},
                connection=name,
                data=False,
                load=lambda layout, config, connection: self.layers[connection],
            ).problems
        ]

    @functools.cached_property
    def graph(self) -> Graph:
        """All pages of the wiki with their references."""
        return Graph(load_wiki(WorkingTree(self.layout.root)))

    @functools.cached_property
    def pages(self) -> list[Page]:
        """The examined pages, by path."""
        pages = self.graph.wiki.pages
        if self.connection is None:
            return [page for _, page in sorted(pages.items())]
        paths = {page.path for page in self.graph.layer_readers(self.connection)}
        return [page for path, page in sorted(pages.items()) if path in paths]

    @functools.cached_property
    def page_problems(self) -> list[Diagnostic]:
        """What `ktx wiki lint` reports of the examined pages, and of files without a page where all are examined."""
        paths = None if self.connection is None else {page.path for page in self.pages}
        linted = lint_wiki(self.layout, self.config, wiki=self.graph.wiki, models=self.layers)
        return [diagnostic for diagnostic in linted.findings if paths is None or diagnostic.location.path in paths]

    @functools.cached_property
    def changed_targets(self) -> list[ChangedTarget]:
        """What the examined pages refer to that was changed or removed since they were committed."""
        changed, warnings = changed_targets(self.layout, self.config, self.graph, self.layers, self.pages)
        for warning in warnings:
            self.warn(warning)
        return [change for change in changed if self.connection in (None, change.target.connection)]


def has_describer(config: KtxConfig) -> bool:
    """Whether a scan asks a model for descriptions."""
    return config.scan.enrichment.mode == "llm" and bool(bindings(config))


def _row_counts(database: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Return connection -> physical name of a table -> its rows, as the last scan on this machine counted them."""
    rows = database.execute("SELECT connection, row_estimates FROM scans").fetchall()
    return {connection: json.loads(text) for connection, text in rows}
