"""What the shell completes in `ktx sl`: names of sources, measures, dimensions and segments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from ktx_cli.cli.settings import current_folder
from ktx_cli.core.errors import KtxError

if TYPE_CHECKING:
    from ktx_cli.context.search.shown import Shown


def source_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of sources that begin with what was typed."""
    return _begun((source.name for shown in _layers(ctx) for source in shown.sources()), incomplete)


def measure_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.measure` of the measures that begin with what was typed."""
    return _begun(_refs(ctx, "measures"), incomplete)


def dimension_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.column` of the columns that begin with what was typed; behind `:` the grains of time."""
    field, colon, _ = incomplete.rpartition(":")
    if colon:
        from ktx_cli.context.semantic.model import GRAINS

        return _begun((f"{field}:{grain}" for grain in GRAINS), incomplete)
    return _begun(_refs(ctx, "columns"), incomplete)


def segment_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.segment` of the segments that begin with what was typed."""
    return _begun(_refs(ctx, "segments"), incomplete)


def _refs(ctx: typer.Context, kind: str) -> Iterator[str]:
    for shown in _layers(ctx):
        for source in shown.sources():
            names = {
                "measures": [each.name for each in shown.measures(source)],
                "columns": [each.name for each in shown.columns(source)],
                "segments": list(source.segments),
            }
            yield from (f"{source.name}.{name}" for name in names[kind])


def _layers(ctx: typer.Context) -> Iterable[Shown]:
    """Return the semantic layers of the project around, or of the one named earlier; none where one cannot be read."""
    from ktx_cli.jobs.semantic.reading import read_layers
    from ktx_cli.project.config import load_config
    from ktx_cli.project.layout import Layout
    from ktx_cli.project.resolve import find_project

    try:
        named = [context.params.get("project_dir") for context in (ctx, ctx.find_root())]
        folder = find_project(next((name for name in named if name is not None), None), os.environ, current_folder())
        if folder is None:
            return ()
        layout = Layout(folder)
        return read_layers(layout, load_config(layout.config).config, ctx.params.get("connection")).shown
    except KtxError:  # a shell cannot show an error in the middle of a line; the command itself will
        return ()


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
