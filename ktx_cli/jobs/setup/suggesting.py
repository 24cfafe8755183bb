"""What to type next: a database to connect, and after the first build a question that is surely answered."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.context.semantic.model import Model, Source, Visibility
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.semantic.layers import layer_ids, load_layer
from ktx_cli.jobs.setup.detected.data_files import file_databases
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout


def first_database(folder: Path) -> str | None:
    """Return the `ktx setup` that connects the nearest database in a folder; None where the folder has none."""
    found = next(iter(file_databases(folder)), None)
    if found is None:
        return None
    return shell_words("ktx", "setup", "--database", found.driver, "--database-path", found.fields["path"])


def how_to_connect(folder: Path) -> str:
    """Return the hint of an error that a project without a database causes."""
    flags = "`ktx setup` asks for a database in a terminal; `ktx setup --help` lists the flags that name one"
    return first_database(folder) or flags


def first_step(folder: Path, config: KtxConfig) -> str:
    """Return the command that fills an empty context; it runs as it stands."""
    return "ktx ingest" if config.connections else first_database(folder) or "ktx setup --help"


def first_question(layout: Layout, config: KtxConfig) -> str | None:
    """Return a `ktx sl query` that runs as it stands; None where no table with a key, and no measure, is known."""
    layers = [name for name in layer_ids(layout) if name in config.databases()]
    for connection in layers:
        try:
            asked = _measure(load_layer(layout, config, connection))
        except KtxError:  # `ktx sl validate` says what is wrong with its files
            continue
        if asked is not None:
            where = ["-c", connection] if len(layers) > 1 else []
            return shell_words("ktx", "sl", "query", *where, "-m", asked)
    return None


def _measure(model: Model) -> str | None:
    """Return a measure: one somebody defined, else the count of the table that most others are joined to."""
    sources = [each for each in model.sources.values() if each.visibility is Visibility.PUBLIC]
    for source in sorted(sources, key=lambda each: each.name):
        for name, measure in sorted(source.measures.items()):
            if measure.visibility is Visibility.PUBLIC:
                return f"{source.name}.{name}"
    keyed = [each for each in sources if len(each.grain) == 1 and each.grain[0] in each.columns and _plain(each)]
    if not keyed:
        return None
    fact = min(keyed, key=lambda each: (-len(each.joins), each.name))
    return f"count({fact.name}.{fact.grain[0]})"


def _plain(source: Source) -> bool:
    """Say whether the names can stand in an expression without quotes."""
    return source.name.isidentifier() and source.grain[0].isidentifier()
