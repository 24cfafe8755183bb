"""A project in memory: the shards of its databases, snapshots of sources, and projections into overlays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.documents.raw import RawFile, Snapshot
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.interchange.report import Fidelity, Kind
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.sources.port import ProjectContext, Projection, Source

Files = Mapping[str, str]

SHOP = """\
# kept by hand
tables:
  customers:
    table: shop.customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: name, type: string}   # full name
      - {name: region, type: string}
  orders:
    table: shop.orders
    descriptions: {db: Orders, user: What people bought}
    columns:
      - {name: id, type: number, pk: true}
      - {name: customer_id, type: number}
      - {name: status, type: string}
      - {name: ordered_at, type: time}
      - {name: amount, type: number}
  invoices:
    table: shop.invoices
    columns:
      - {name: number, type: string}
      - {name: order_id, type: number}
"""
SHARD = "semantic-layer/shop/_schema/shop.yaml"
OTHER = """\
tables:
  customers:
    table: crm.customers
    columns: [{name: id, type: number, pk: true}]
  visits:
    table: crm.visits
    columns: [{name: id, type: number, pk: true}, {name: customer_id, type: number}]
"""
OTHER_SHARD = "semantic-layer/crm/_schema/crm.yaml"


class MemoryTree(dict[str, bytes]):
    """Files by path."""

    def read(self, path: str) -> bytes | None:
        return self.get(path)

    def paths(self, prefix: str) -> Iterable[str]:
        return [path for path in sorted(self) if path.startswith(prefix)]


def snapshot(files: Files) -> Snapshot:
    return Snapshot({path: raw(path, files[path].encode()) for path in sorted(files)})


def raw(path: str, content: bytes) -> RawFile:
    return RawFile(path, hashlib.sha256(content).hexdigest(), len(content), lambda: content)


class Project:
    """A project that keeps what projections write, as commits would."""

    def __init__(self, files: Files) -> None:
        self.files = MemoryTree({path: text.encode() for path, text in files.items()})
        self.owned: Mapping[str, Mapping[str, str]] = {}

    @property
    def connections(self) -> list[str]:
        return sorted({path.split("/")[1] for path in self.files if path.startswith("semantic-layer/")})

    def models(self) -> dict[str, Model]:
        return {connection: load_tree(self.files, connection, "duckdb") for connection in self.connections}

    def run(self, source: Source, files: Files, entry: Any = None, *, complete: bool = True) -> Projection:
        """Project a snapshot, and keep what came of it."""
        workspace = Workspace(self.files)
        context = ProjectContext("analytics", workspace, self.models(), self.owned)
        projection = source.project(entry, replace(snapshot(files), complete=complete), context)
        kept = {path: workspace.read(path) for path in workspace.paths()}
        self.files = MemoryTree({path: content for path, content in kept.items() if content is not None})
        self.owned = projection.owned
        return projection

    def data(self, path: str) -> Any:
        content = self.files.get(path)
        return None if content is None else yaml.load(content, where=path)

    def entry(self, name: str, path: str = SHARD) -> Any:
        return self.data(path)["tables"][name]

    def column(self, table: str, name: str, path: str = SHARD) -> Any:
        return next(each for each in self.entry(table, path)["columns"] if each["name"] == name)

    def errors(self) -> list[str]:
        """Return what loading and checking find wrong."""
        problems = [each for model in self.models().values() for each in (*model.problems, *check_model(model))]
        return [f"{each.place}: {each.message}" for each in problems if each.severity == "error"]


def lost(projection: Projection) -> list[str]:
    """Return what was dropped, with its place and why."""
    return [f"{each.place} {each.what}: {each.why}" for each in projection.report if each.kind is Kind.DROPPED]


def kept(report: Iterable[Fidelity]) -> set[str]:
    return {each.what for each in report if each.kind is Kind.KEPT}


def overlay(connection: str = "docs") -> ProjectContext:
    """Return where a source of documents may write in a project without files."""
    return ProjectContext(connection, Workspace(MemoryTree()), {})
