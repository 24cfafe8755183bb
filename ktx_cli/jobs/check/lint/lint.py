"""Looks through the files of a project for what a person should do something about; no database, no model."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from ktx_cli.core import KtxError, ResultWarning
from ktx_cli.jobs.check.lint.coverage import (
    Described,
    coverage_of,
    databases,
    lint_joins,
    lint_layers,
    too_low,
    undescribed,
    without_context,
)
from ktx_cli.jobs.check.lint.pages import lint_pages
from ktx_cli.jobs.check.lint.registry import COVERAGE, LAYER, RULES, TO_REVIEW, WIKI, Finding, Level, Linted, Selection
from ktx_cli.llm import bindings
from ktx_cli.project import KtxConfig, Layout, connection_of, read_state
from ktx_cli.semantic import Model, layer_ids, load_layers, load_manifest, shard_files

_ORDER: Final = list(Level)


def lint_project(
    layout: Layout,
    config: KtxConfig,
    *,
    connection: str | None = None,
    selection: Selection | None = None,
    min_coverage: float | None = None,
) -> tuple[Linted, list[ResultWarning]]:
    """Return what was found, the worst first, of one connection or of all; and warnings of what could not be looked at.

    `min_coverage`: percent of tables, columns and measures that must have a description. Writes nothing; git reads.
    Raises `UsageError` for an unknown connection.
    """
    wanted = selection or Selection()
    if connection is not None and connection not in layer_ids(layout):
        connection_of(config, connection)
    known = layer_ids(layout)
    models = dict(zip(known, load_layers(layout, config, known), strict=True))
    looked = [each for each in known if connection in (None, each)]
    linted = Linted()
    parts = [
        _coverage(layout, config, linted, [models[each] for each in looked]),
        _of_layers(layout, config, models, looked, wanted),
        _of_pages(layout, config, linted, models, connection, wanted),
    ]
    found = [without_context(*each) for each in databases(config, connection).items() if _is_empty(layout, each[0])]
    found += [each for findings, _ in parts for each in findings]
    kept = [each for each in dict.fromkeys(found) if each.code in wanted]
    if min_coverage is not None and (low := too_low(linted.total.all, min_coverage)):
        kept.append(low)
    linted.findings = sorted(kept, key=_place)
    return linted, [each for _, warnings in parts for each in warnings]


def _of_pages(
    layout: Layout,
    config: KtxConfig,
    linted: Linted,
    models: Mapping[str, Model],
    connection: str | None,
    wanted: Selection,
) -> tuple[list[Finding], list[ResultWarning]]:
    """Fill in how many pages there are; return what is wrong with them."""
    if not wanted.any(_codes(WIKI)):
        return [], []
    found, linted.pages, warnings = lint_pages(layout, config, models, connection, wanted)
    return found, warnings


def _codes(group: str) -> list[str]:
    return [rule.code for rule in RULES if rule.code.startswith(group)]


def _is_empty(layout: Layout, connection: str) -> bool:
    return not shard_files(layout, connection)


def _coverage(
    layout: Layout, config: KtxConfig, linted: Linted, models: Iterable[Model]
) -> tuple[list[Finding], list[ResultWarning]]:
    """Fill in the coverage; return what is not described."""
    found, warnings = [], []
    try:
        rows = read_state(layout, _rows) or {}
    except KtxError as error:
        rows = {}
        warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
    for model in models:
        known, seen = load_manifest(layout, model.connection).tables, rows.get(model.connection, {})
        layer = Described(model, known, seen, has_describer(config))
        linted.coverage[model.connection] = coverage_of(layer)
        found += list(undescribed(layer))
    return found, warnings


def has_describer(config: KtxConfig) -> bool:
    """Whether a scan asks a model for descriptions."""
    return config.scan.enrichment.mode == "llm" and bool(bindings(config))


def _rows(database: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Return connection -> physical name of a table -> its rows, as the last scan on this machine saw them."""
    found = database.execute("SELECT connection, row_estimates FROM scans").fetchall()
    return {connection: json.loads(text) for connection, text in found}


def _of_layers(
    layout: Layout, config: KtxConfig, models: Mapping[str, Model], looked: list[str], wanted: Selection
) -> tuple[list[Finding], list[ResultWarning]]:
    if not wanted.any(_codes(LAYER)):
        return [], []
    joins, warnings = lint_joins(layout, looked) if TO_REVIEW in wanted else ([], [])
    return lint_layers(layout, config, models, looked) + joins, warnings


def _place(finding: Finding) -> tuple[object, ...]:
    """Return what sorts findings; those of a coverage rule keep their order, the worst first."""
    place = () if finding.code.startswith(COVERAGE) else (finding.path or "", finding.line, finding.message)
    return (_ORDER.index(finding.level), finding.code, place)
