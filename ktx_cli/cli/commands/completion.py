"""`ktx completion`: print a shell completion script, and complete the values of arguments and options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.help import HelpCommand
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import KtxError, count_edits, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from ktx_cli.semantic import VisibleModel

commands = typer.Typer()


Shell = StrEnum("Shell", ("BASH", "ZSH", "FISH"))
"""The shells with a completion script."""


@commands.command("completion", cls=HelpCommand)
def completion(shell: Annotated[Shell, Argument(help="Shell to print the script for.")]) -> None:
    """Print a shell completion script.

    Load it in bash with `source <(ktx completion bash)`. The script is plain text even with --json.

    Examples:
        ktx completion bash
        ktx completion zsh
        ktx completion fish
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="ktx", complete_var="_KTX_COMPLETE", shell=shell.value)
    streams.write_out(script + "\n")


_MEANT_BY_BASH = re.compile(r"[ \t\"'\\()<>|&;$`*?\[\]#~!{}]")
"""Characters with a special meaning in bash."""


def prepare() -> None:
    """Register typer's shells, with plain-text help, because it contains no markup for rich to render."""
    from typer import _completion_classes

    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.BashComplete.format_completion = _for_bash  # type: ignore[method-assign,assignment]
    _completion_classes.completion_init()


def _for_bash(shell: Any, item: Any) -> str:
    """Return a value quoted for bash's command line; inside open quotes nothing is escaped."""
    quotes = re.sub(r"\\.|[^'\"]", "", os.environ.get("COMP_WORDS", ""))
    if any(quotes.count(mark) % 2 for mark in "'\""):
        return str(item.value)
    return _MEANT_BY_BASH.sub(lambda found: f"\\{found[0]}", str(item.value))


_T = TypeVar("_T")


def read_around(ctx: typer.Context, read: Callable[[Path], Iterable[_T]]) -> list[_T]:
    """Return the result of `read` on the project in the `--project-dir` typed before, or in the current folder.

    Empty if there is no readable project: a shell cannot show an error in the middle of a line; the command will.
    """
    from ktx_cli.project import find_project

    named = [context.params.get("project_dir") for context in (ctx, ctx.find_root())]
    try:
        folder = find_project(next((name for name in named if name is not None), None), os.environ, current_folder())
        return [] if folder is None else list(read(folder))
    except KtxError:
        return []


def connection_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connection ids in `ktx.yaml` that begin with `incomplete`."""
    return _begun(read_around(ctx, lambda folder: _names(folder, "connections")), incomplete)


def _ids_with_mounts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connection ids that begin with `incomplete`, including those of mounted projects, as `mount/id`."""

    def ids(folder: Path) -> Iterator[str]:
        yield from _names(folder, "connections")
        for mount, path in _names(folder, "mounts").items():
            yield from (f"{mount}/{each}" for each in _names(folder / str(path), "connections"))

    return _begun(read_around(ctx, ids), incomplete)


def _names(folder: Path, block: str) -> dict[str, Any]:
    """Return the names in a block of a folder's `ktx.yaml`, or none if there is no such file."""
    from ktx_cli.core import yaml
    from ktx_cli.project import CONFIG_NAME, read_bytes

    text = read_bytes(folder / CONFIG_NAME)
    document = yaml.load(text, where=CONFIG_NAME) if text else None
    found = document.get(block) if isinstance(document, dict) else None
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def connection_option(help: str) -> Any:
    """Return the option that names one connection."""
    return Option("--connection-id", "-c", metavar="ID", help=help, autocompletion=_ids_with_mounts)


def near_subcommand(app: typer.Typer, word: str) -> str | None:
    """Return the subcommand of a group that `word` may be a misspelling of, None if none is within a few edits."""
    names = [each.name for each in app.registered_commands if each.name is not None and not each.hidden]
    near = did_you_mean(word, names)
    return near if near is not None and count_edits(word, near) <= max(2, len(near) // 3) else None


def source_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of sources that begin with `incomplete`."""
    return _begun((source.name for shown in _layers(ctx) for source in shown.sources()), incomplete)


def measure_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the measures, as `source.measure`, that begin with `incomplete`."""
    return _begun(_refs(ctx, "measures"), incomplete)


def dimension_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns, as `source.column`, that begin with `incomplete`; after a `:`, the time grains."""
    field, colon, _ = incomplete.rpartition(":")
    if colon:
        from ktx_cli.semantic import GRAINS

        return _begun((f"{field}:{grain}" for grain in GRAINS), incomplete)
    return _begun(_refs(ctx, "columns"), incomplete)


def segment_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the segments, as `source.segment`, that begin with `incomplete`."""
    return _begun(_refs(ctx, "segments"), incomplete)


def definition_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of sources, measures, segments and joins that begin with `incomplete`."""
    names = source_names(ctx, incomplete)
    names += [*measure_names(ctx, incomplete), *segment_names(ctx, incomplete)]
    joins = (
        f"{source.name} -> {join.alias or join.to}"
        for shown in _layers(ctx)
        for source in shown.sources()
        for join in source.joins
    )
    return [*names, *_begun(joins, incomplete)]


def _refs(ctx: typer.Context, kind: str) -> Iterator[str]:
    for shown in _layers(ctx):
        for source in shown.sources():
            names = {
                "measures": [each.name for each in shown.measures(source)],
                "columns": [each.name for each in shown.columns(source)],
                "segments": list(source.segments),
            }
            yield from (f"{source.name}.{name}" for name in names[kind])


def _layers(ctx: typer.Context) -> list[VisibleModel]:
    def layers(folder: Path) -> Iterable[VisibleModel]:
        from ktx_cli.jobs.semantic.layers import read_layers
        from ktx_cli.project import Layout, load_config

        layout, connection = Layout(folder), ctx.params.get("connection")
        config = load_config(layout.config).config
        if not config.mounts:
            return read_layers(layout, config, connection).shown
        from ktx_cli.project import load_mounts

        mounts = load_mounts(layout, config)
        mount, own = (None, None) if connection is None else mounts.split(connection)
        wanted = [each for each in mounts.projects() if connection is None or each[0] is mount]
        return [shown for _, where, settings in wanted for shown in read_layers(where, settings, own or None).shown]

    return read_around(ctx, layers)


def join_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of relationships that begin with `incomplete`."""
    from ktx_cli.jobs.review import relationship_names

    known = connection_ids(ctx, "")
    wanted = [id for id in ctx.params.get("ids") or () if id in known]
    return _begun(read_around(ctx, lambda folder: relationship_names(folder, wanted or known)), incomplete)


def open_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics of open contradictions that begin with `incomplete`."""

    def topics(folder: Path) -> Iterator[str]:
        from ktx_cli.jobs.contradictions import list_contradictions
        from ktx_cli.project import Layout

        for each in list_contradictions(Layout(folder)):
            if not each.contradiction.is_decided:
                yield each.contradiction.topic

    return [topic for topic in read_around(ctx, topics) if topic.startswith(incomplete)]


def open_points(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of unsettled decision points that begin with `incomplete`."""

    def points(folder: Path) -> Iterator[str]:
        from ktx_cli.jobs.decide.points import read_all
        from ktx_cli.project import Layout, load_config

        layout = Layout(folder)
        for each in read_all(layout, load_config(layout.config).config)[0]:
            yield from (point.id for point in each.decisions.unsettled())

    return [each for each in read_around(ctx, points) if each.startswith(incomplete)]


def page_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of global wiki pages that begin with `incomplete`."""
    from ktx_cli.project import WorkingTree
    from ktx_cli.wiki import GLOBAL, page_path, place_of

    def places(folder: Path) -> Iterable[Any]:
        below = page_path(GLOBAL, incomplete).removesuffix(".md")
        return map(place_of, WorkingTree(folder).paths(below))

    return [place[1] for place in read_around(ctx, places) if place is not None]


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
