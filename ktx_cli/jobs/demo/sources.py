"""The second half of the demo: dbt project and handbook are read, and a question can be asked that could not be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.context.semantic.asking import compile_query
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.model import Model
from ktx_cli.core.events import Emit
from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.demo.answering import Asked, answered
from ktx_cli.jobs.demo.company import DBT_PROJECT, HANDBOOK, WAREHOUSE_ID
from ktx_cli.jobs.demo.questions import FROM_DBT
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.ingest.run import IngestRequest, ingest
from ktx_cli.jobs.semantic.layers import load_layer
from ktx_cli.jobs.setup.planning import NEW_CONFIG
from ktx_cli.jobs.wiki import read_wiki
from ktx_cli.project.config import load_config
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import CONFIG_NAME, Layout

SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "dbt": {"driver": "dbt", "source_dir": DBT_PROJECT},
    "handbook": {"driver": "documents", "path": HANDBOOK},
}
"""The context sources of the company, as `ktx.yaml` names them."""


@dataclass(frozen=True, slots=True)
class Known:
    """How much a project knows of its warehouse.

    `descriptions` of sources and columns; `rules` say of a column that it is unique, never empty, or which values it
    has; `joins` count a pair of columns once; `pages` are those of the wiki.
    """

    descriptions: int
    rules: int
    joins: int
    measures: int
    pages: int

    @classmethod
    def of(cls, model: Model, pages: int) -> Known:
        """Count what a semantic layer has."""
        sources = list(model.sources.values())
        columns = [column for source in sources for column in source.columns.values()]
        return cls(
            sum(
                bool(text)
                for text in (*(each.description for each in sources), *(each.description for each in columns))
            ),
            sum(each.unique + (not each.nullable) + bool(each.values) for each in columns),
            len(
                {
                    frozenset(((source.name, own), (join.to, other)))
                    for source in sources
                    for join in source.joins
                    for own, other in join.pairs
                }
            ),
            sum(len(source.measures) for source in sources),
            pages,
        )


@dataclass(frozen=True, slots=True)
class SecondHalf:
    """What the context sources brought. `refused`: what the question got before them."""

    ingest: IngestReport
    before: Known
    after: Known
    refused: str
    asked: Asked

    @property
    def to_add(self) -> list[tuple[str, str]]:
        """What a model would add: the source, and what of it."""
        return [(work.name, each) for work in self.ingest.sources for each in work.left_for_a_model]

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        before, after = asdict(self.before), asdict(self.after)
        return {
            "ingest": self.ingest.to_json(),
            "known": {name: {"before": before[name], "after": after[name]} for name in before},
            "a_model_would_add": [{"source": source, "what": what} for source, what in self.to_add],
            "refused": self.refused,
            **self.asked.to_json(),
        }


def name_sources(folder: Path) -> None:
    """Write a `ktx.yaml` that names the context sources; what one that is there says stays."""
    path = Layout(folder).config
    text = read_bytes(path) or NEW_CONFIG
    known = load_config(Path(CONFIG_NAME), data=text).config.connections
    for connection, fields in SOURCES.items():
        if connection not in known:
            text = config_with_connection(text, connection, fields)
    write_atomic(path, text)


def second_half(folder: Path, environ: Mapping[str, str], emit: Emit) -> SecondHalf:
    """Read the context sources and ask; raises as `ingest` and `ask_layer` do."""
    model, before = _known(folder)
    refused = _refusal(model)
    report, _ = ingest(IngestRequest(folder, environ, connections=tuple(SOURCES), command="ktx demo", emit=emit))
    error = report.error()
    if error is not None:
        raise error
    _, after = _known(folder)
    return SecondHalf(report, before, after, refused, answered(folder, FROM_DBT, environ))


def _known(folder: Path) -> tuple[Model, Known]:
    layout = Layout(folder)
    model = load_layer(layout, load_config(layout.config).config, WAREHOUSE_ID)
    return model, Known.of(model, len(read_wiki(layout).pages))


def _refusal(model: Model) -> str:
    """Return why the question has no answer yet; empty where it has one."""
    try:
        compile_query(model, FROM_DBT.query)
    except SemanticError as error:
        return error.message
    return ""
