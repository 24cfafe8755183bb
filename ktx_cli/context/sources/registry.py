"""Which module reads which kind of context source; a module is loaded when its kind is asked for."""

from __future__ import annotations

import importlib
from typing import Final, cast

from ktx_cli.context.sources.port import Checked, Source
from ktx_cli.core.errors import NotSupportedError
from ktx_cli.core.text import did_you_mean

_PACKAGE: Final = "ktx_cli.context.sources"
_SOURCES: Final = {
    "dbt": f"{_PACKAGE}.dbt.source:DbtSource",
    "metricflow": f"{_PACKAGE}.metricflow:MetricFlowSource",
    "lookml": f"{_PACKAGE}.lookml:LookMlSource",
    "metabase": f"{_PACKAGE}.metabase:MetabaseSource",
    "looker": f"{_PACKAGE}.looker:LookerSource",
    "notion": f"{_PACKAGE}.notion:NotionSource",
    "confluence": f"{_PACKAGE}.confluence:ConfluenceSource",
    "documents": f"{_PACKAGE}.files:FilesSource",
}
DRIVERS: Final = tuple(_SOURCES)
"""The drivers of context sources."""

QUERY_HISTORY: Final = "query-history"
"""The source a database has of its own: what people asked it. No driver: it belongs to the database's connection."""

_ALL: Final = {**_SOURCES, QUERY_HISTORY: f"{_PACKAGE}.query_history.source:QueryHistorySource"}


def checked_source(driver: str) -> Checked:
    """Return the source of a driver for a check; raises as `source_for`."""
    return cast(Checked, source_for(driver))


def source_for(driver: str) -> Source:
    """Return the source of a driver, or of the query history; raises `NotSupportedError` for one that has no code."""
    place = _ALL.get(driver)
    if place is None:
        near = did_you_mean(driver, DRIVERS)
        raise NotSupportedError(
            f"`{driver}` is no context source this version reads", hint=f"use {near or ', '.join(DRIVERS)}"
        )
    module, _, name = place.partition(":")
    return cast(Source, getattr(importlib.import_module(module), name)())
