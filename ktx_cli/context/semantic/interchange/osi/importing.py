"""OSI documents as the files of ktx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.semantic.interchange.drafts import SourceDraft, Sources, described
from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.joining import reach
from ktx_cli.context.semantic.interchange.osi.datasets import add_dataset, add_relationship
from ktx_cli.context.semantic.interchange.osi.metrics import add_metric
from ktx_cli.context.semantic.interchange.result import Imported, Report
from ktx_cli.context.semantic.interchange.writing import imported
from ktx_cli.context.semantic.loading.places import SourceFile
from ktx_cli.context.semantic.model import Model, Place
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError

DEFAULT_DIALECT: Final = "duckdb"
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def import_osi(files: Mapping[str, str], model: Model | None, *, dialect: str | None = None) -> Imported:
    """Return ktx's files for the semantic models of OSI documents.

    `files`: path -> YAML or JSON. `model`: the connection's semantic layer, whose manifest's sources are then changed,
    not repeated. `dialect`: sqlglot's name for the SQL to write; the model's, else DuckDB's. Raises nothing for what
    the files hold: it is in the report.
    """
    report = Report()
    sources = Sources(model, dialect or (model.dialect if model else DEFAULT_DIALECT), report)
    for path, text in sorted(files.items()):
        if path.endswith(_SUFFIXES):
            top = _load(path, text, report)
            if top is not None:
                _read_document(top, path, sources, report)
    return imported(sources.drafts.values(), report, "osi")


def _load(path: str, text: str, report: Report) -> Item | None:
    try:
        document = yaml.load(text, where=path)
    except KtxError as error:
        place = Place(path, error.details.get("line", 1))
        report.dropped(f"file {path}", f"it is no valid YAML: {error.message}", place)
        return None
    if not isinstance(document, dict):
        report.dropped(f"file {path}", "it is no mapping", Place(path))
        return None
    return Item(document, SourceFile(path, text.encode("utf-8", "replace"), document).place)


def _read_document(top: Item, path: str, sources: Sources, report: Report) -> None:
    models = top.items("semantic_model")
    single = top.item("semantic_model")
    for item in [*models, *([single] if single else [])]:
        _read_model(item, sources, report)
    top.skip("version")
    top.report_rest(report, path)


def _read_model(item: Item, sources: Sources, report: Report) -> None:
    name = item.text("name") or "?"
    drafts: dict[str, SourceDraft] = {}
    entries: list[tuple[Item, SourceDraft]] = []
    for below in item.items("datasets"):
        draft = add_dataset(below, sources, drafts, report)
        if draft is not None:
            entries.append((below, draft))
    several = _several(item.items("relationships"))
    for below in item.items("relationships"):
        add_relationship(below, drafts, report, aliased=_ends(below) in several)
    reach(drafts.values())
    for below, draft in entries:
        for metric in below.items("metrics"):
            add_metric(metric, drafts, report, home=draft)
        below.report_rest(report, f"dataset `{draft.name}`")
    for metric in item.items("metrics"):
        add_metric(metric, drafts, report)
    text = described(item.text("description"), None)
    if text:
        report.dropped(f"description of semantic model `{name}`", "ktx describes sources, not models", item.place)
    item.report_rest(report, f"semantic model `{name}`", {
        "ai_context": "ktx describes sources, not models", "custom_extensions": "they are of another tool",
    })  # fmt: skip


def _ends(item: Item) -> tuple[Any, Any]:
    return item.text("from"), item.text("to")


def _several(items: list[Item]) -> set[tuple[Any, Any]]:
    """Return the pairs of datasets with more than one relationship from the one to the other."""
    seen: set[tuple[Any, Any]] = set()
    several: set[tuple[Any, Any]] = set()
    for item in items:
        (several if _ends(item) in seen else seen).add(_ends(item))
    return several
