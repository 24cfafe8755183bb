"""The YAML files of a dbt project: what is in them by its kind, whatever file it stands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.loading.places import SourceFile
from ktx_cli.context.semantic.model import Place
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError

_PROJECT: Final = "dbt_project"
_NO_MODEL: Final = frozenset({_PROJECT, "packages", "dependencies", "profiles", "selectors", "package-lock"})
_KINDS: Final = ("semantic_models", "models", "metrics", "sources")
_SILENT: Final = frozenset({"version"})
_REASONS: Final = {
    "saved_queries": "a saved question is no definition; keep it where questions are kept",
    "exposures": "they say who reads a model, not what it means",
    "groups": "they say who owns a model, not what it means",
    "macros": "they are code of dbt",
    "seeds": "they are tables; a scan reads them",
    "snapshots": "they are tables; a scan reads them",
    "unit_tests": "they test dbt's models, not measures",
    "data_tests": "they test dbt's models, not measures",
}


@dataclass(slots=True)
class Documents:
    """The entries of a project by kind. `variables`: of `dbt_project.yml`."""

    semantic_models: list[Item] = field(default_factory=list)
    models: list[Item] = field(default_factory=list)
    metrics: list[Item] = field(default_factory=list)
    sources: list[Item] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)


def read_documents(files: Mapping[str, str], report: Report, *, rest: bool = True) -> Documents:
    """Read all `.yml` and `.yaml` files; what cannot be read is reported as dropped.

    `rest` False: what else stands in them is not reported, as somebody else reads it.
    """
    found = Documents()
    for path, text in sorted(files.items()):
        where = PurePosixPath(path)
        if where.suffix not in (".yml", ".yaml"):
            continue
        document = _load(path, text, report if rest else Report())
        if where.stem == _PROJECT and isinstance(document, dict):
            variables = document.get("vars")
            found.variables |= variables if isinstance(variables, dict) else {}
        elif where.stem not in _NO_MODEL and document is not None:
            _sort_in(path, text, document, found, report, rest=rest)
    return found


def _load(path: str, text: str, report: Report) -> Any:
    try:
        return yaml.load(text, where=path)
    except KtxError as error:
        line = error.details.get("line", 1)
        report.dropped(f"file {path}", f"it is no valid YAML: {error.message}", Place(path, line))
        return None


def _sort_in(path: str, text: str, document: Any, found: Documents, report: Report, *, rest: bool) -> None:
    file = SourceFile(path, text.encode("utf-8", "replace"), document)
    if not isinstance(document, dict):
        if rest:
            report.dropped(f"file {path}", "it is no mapping", Place(path))
        return
    top = Item(document, file.place)
    top.skip(*_SILENT)
    for kind in _KINDS:
        getattr(found, kind).extend(top.items(kind))
    if rest:
        top.report_rest(report, path, _REASONS)
