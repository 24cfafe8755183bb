"""The semantic layers of earlier commits, as far as some names need them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.scan.shards import Shard, parse_shard
from ktx_cli.context.semantic.loading.files import own_files
from ktx_cli.context.semantic.loading.inheriting import KEY as INHERITS
from ktx_cli.context.semantic.loading.load import load_tree
from ktx_cli.context.semantic.model import Model
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.semantic.layers import calendar_of
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.repository import Repository, TreeView

_NO_DIALECT: Final = ""


@dataclass(slots=True)
class EarlierLayers:
    """Reads layers of commits; a file is parsed once, however many commits have it.

    Only the sources that are named are made of the shards: they may hold thousands of columns in hundreds of commits.
    """

    repository: Repository
    config: KtxConfig
    _shards: dict[bytes, Shard] = field(default_factory=dict)
    _own: dict[bytes, frozenset[str] | None] = field(default_factory=dict)

    def models(self, commit: str, names: Collection[str]) -> dict[str, Model]:
        """Return the layers of a commit by connection.

        In them are the sources that have one of these names (folded) or read a table of one, and what those inherit.
        """
        view = self.repository.tree(commit)
        ids = dict.fromkeys(path.split("/")[1] for path in view.blobs(SEMANTIC_NAME) if path.count("/") > 1)
        return {each: self._model(view, each, frozenset(names)) for each in ids}

    def _model(self, view: TreeView, connection: str, names: frozenset[str]) -> Model:
        entry = self.config.connections.get(connection)
        dialect = None if entry is None else dialect_of(entry.driver)
        own = {path: self._named(view.read(path) or b"") for path in own_files(_Files(view), connection)}
        left_out = frozenset(path for path, named in own.items() if named is not None and not named & names)
        wanted = names.union(*(named for path, named in own.items() if named and path not in left_out))

        def parsed(content: bytes, where: str) -> Shard:
            if content not in self._shards:
                self._shards[content] = parse_shard(content, where)
            return _part_of(self._shards[content], wanted)

        tree = _Files(view, left_out)
        return load_tree(tree, connection, dialect or _NO_DIALECT, calendar_of(self.config), parse=parsed)

    def _named(self, content: bytes) -> frozenset[str] | None:
        """Return the names of a file of people's: its source's, its table's, those it inherits; None: not readable."""
        if content not in self._own:
            try:
                found = yaml.load(content, where="")
            except KtxError:
                found = None
            self._own[content] = _names_in(found) if isinstance(found, dict) else None
        return self._own[content]


@dataclass(frozen=True, slots=True)
class _Files:
    """A commit in the shape of a tree of files, some of them left out."""

    view: TreeView
    left_out: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        return self.view.read(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with a prefix."""
        found = self.view.blobs(prefix.rpartition("/")[0])
        return [path for path in found if path.startswith(prefix) and path not in self.left_out]


def _names_in(fields: Mapping[str, Any]) -> frozenset[str]:
    texts = [str(fields[key]) for key in ("name", "table", INHERITS) if fields.get(key) is not None]
    return frozenset(name for text in texts for name in (text.casefold(), _last(text)))


def _last(name: str) -> str:
    """Return the last part of a table's name, folded; what is in quotes may hold dots, and is looked at whole."""
    return (name.rpartition(".")[2] if not name.endswith('"') else name.split('"')[-2]).casefold()


def _part_of(shard: Shard, names: frozenset[str]) -> Shard:
    kept = {
        name: entry
        for name, entry in shard.tables.items()
        if name.casefold() in names or _last(str(entry.get("table"))) in names
    }
    return Shard({**shard.document, "tables": kept}, shard.sha256)
