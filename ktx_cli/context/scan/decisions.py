"""What people's decisions on found joins change in the project's files: shards of the manifest, and overlays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from ktx_cli.context.scan.losses import Losses, has_comments
from ktx_cli.context.scan.overlays import disabling, enabling, join_key
from ktx_cli.context.scan.relationships.model import EdgeStatus
from ktx_cli.context.scan.review import GENERATED_SOURCES, EdgeJoin, Review, ReviewedEdge
from ktx_cli.context.scan.shards import Shard, render_shard
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import shell_words

Joins = list[dict[str, Any]]


class Decision(StrEnum):
    """What a person says of an edge."""

    ACCEPT = "accept"
    REJECT = "reject"


class Draft:
    """The files of one connection with decisions made in them; nothing is written."""

    def __init__(self, review: Review) -> None:
        self.connection = review.connection
        self._review = review
        self._documents: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, bytes] = {}
        self._overlays: dict[str, bytes | None] = {}

    def decide(self, edge: ReviewedEdge, decision: Decision) -> frozenset[str]:
        """Make a decision and return the paths it changes; none where it holds already.

        Accepted: both tables have the join as `manual`, no overlay disables it. Rejected: the overlays of both disable
        it, and it is no longer a person's; of the two ends only the child's where its opposite waits for a decision.
        Where the opposite stands the joins are that one's, and nothing changes. Raises `ConfigError` where a file
        leaves no place for it, and for a join of something that is not there.
        """
        if decision is Decision.ACCEPT and edge.missing is not None:
            raise ConfigError(
                f"`{edge.name}` cannot be a join: {edge.missing}",
                hint=shell_words("ktx", "scan", "relationships", edge.connection, "--reject", edge.name),
            )
        if edge.opposite is not None and edge.opposite.stands:
            return frozenset()
        joins = edge.joins[:1] if decision is Decision.REJECT and edge.opposite is not None else edge.joins
        change = self._accept if decision is Decision.ACCEPT else self._reject
        return frozenset(path for join in joins for path in change(edge, join))

    def changes(self) -> dict[str, bytes | None]:
        """Return path -> new content of what differs; None for an overlay with nothing left in it."""
        return {**self._rendered(), **self._overlays}

    def shards(self) -> dict[str, Shard]:
        """Return all shards of the connection, as they are with the decisions."""
        texts = self._rendered()
        written = {
            path: Shard(document, hashlib.sha256(texts[path]).hexdigest()) for path, document in self._documents.items()
        }
        return {**self._review.shards, **written}

    def losses(self, contents: Mapping[str, bytes]) -> Losses:
        """Return what writing the shards anew takes out of `contents`, path -> what stands there now."""
        return Losses(
            comments=tuple(sorted(p for p in self._documents if p in contents and has_comments(contents[p], p)))
        )

    def _rendered(self) -> dict[str, bytes]:
        for path in self._documents.keys() - self._texts.keys():
            self._texts[path] = render_shard(self._documents[path])
        return self._texts

    def _accept(self, edge: ReviewedEdge, join: EdgeJoin) -> list[str]:
        if join.shard is None:
            raise ConfigError(
                f"`{join.source}` has no entry in the manifest of `{edge.connection}`, so no join can be written",
                hint=shell_words("ktx", "scan", edge.connection),
            )
        overlays = []
        if any(join.on in overlay.disabled for overlay in self._review.overlays.of(join.source)):
            path, before = self._overlay(join.source)
            overlays = self._put(path, before, None if before is None else enabling(before, [join.join], path))
        if any(join_key(join.join) in overlay.joins for overlay in self._review.overlays.of(join.source)):
            return overlays
        return [*self._change_joins(join, lambda joins: _with_manual(joins, join)), *overlays]

    def _reject(self, edge: ReviewedEdge, join: EdgeJoin) -> list[str]:
        sure = edge.edge.status is EdgeStatus.ACCEPTED
        path, before = self._overlay(join.source)
        touched = self._put(path, before, disabling(before, join.source, [join.join], path))
        return [*self._change_joins(join, lambda joins: _without_manual(joins, join, keep=sure)), *touched]

    def _overlay(self, source: str) -> tuple[str, bytes | None]:
        path, content = self._review.overlays.place(source)
        return path, self._overlays.get(path, content)

    def _put(self, path: str, before: bytes | None, after: bytes | None) -> list[str]:
        if after == before:
            return []
        self._overlays[path] = after
        return [path]

    def _change_joins(self, join: EdgeJoin, change: Callable[[Joins], Joins]) -> list[str]:
        """Change the joins of a source in its shard; all else stays."""
        if join.shard is None:
            return []
        document = self._documents.get(join.shard, self._review.shards[join.shard].document)
        tables = document["tables"]
        key = next(name for name in tables if str(name) == join.source)
        before = list(tables[key].get("joins") or ())
        after = change(before)
        if after == before:
            return []
        entry = {name: value for name, value in tables[key].items() if name != "joins"}
        self._texts.pop(join.shard, None)
        self._documents[join.shard] = {
            **document,
            "tables": {**tables, key: {**entry, "joins": after} if after else entry},
        }
        return [join.shard]


def _with_manual(joins: Joins, wanted: EdgeJoin) -> Joins:
    """Return the joins with the wanted one as a person's; a declared one is as sure as can be and stays."""
    key = join_key(wanted.join)
    if all(join_key(join) != key for join in joins):
        return [*joins, {**wanted.join, "source": "manual"}]
    return [
        _as_manual(join, wanted) if join_key(join) == key and join.get("source") != "formal" else join for join in joins
    ]


def _as_manual(join: dict[str, Any], wanted: EdgeJoin) -> dict[str, Any]:
    """Return a join as a person's; one that the opposite of the wanted one made takes its direction."""
    if join.get("source") == "inferred":
        join = {**join, "source": "manual"}
    relationship = wanted.join["relationship"]
    if {join.get("relationship"), relationship} == {"many_to_one", "one_to_many"}:
        join = {**join, "relationship": relationship}
    return join


def _without_manual(joins: Joins, wanted: EdgeJoin, *, keep: bool) -> Joins:
    """Return the joins without a person's wanted one; `keep`: the scan finds it too, and has it as `inferred`."""
    key = join_key(wanted.join)
    persons = [join for join in joins if join_key(join) == key and join.get("source") not in GENERATED_SOURCES]
    if not keep:
        return [join for join in joins if join not in persons]
    return [{**join, "source": "inferred"} if join in persons else join for join in joins]
