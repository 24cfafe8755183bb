"""The files of a LookML project: which model includes which, directly or not, and whose they are."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.context.semantic.interchange.lookml.parser import Block, parse_lookml
from ktx_cli.core.errors import ConfigError

SUFFIXES: Final = (".lkml", ".lookml")
_DASHBOARDS: Final = (".dashboard.lookml", ".dashboard.lkml")
_MODELS: Final = (".model.lkml", ".model.lookml")


@dataclass(frozen=True, slots=True)
class LookModel:
    """A model file: the Looker connection it names, and all files it includes, itself too, sorted."""

    path: str
    connection: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """`models` sorted by path. `owned`: model path -> its own files: itself, and what no model before it includes.

    `orphans`: what no model includes. `dashboards`: files of dashboards alone.
    """

    models: tuple[LookModel, ...]
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    dashboards: tuple[str, ...] = ()


def is_lookml(path: str) -> bool:
    """Say whether a file is LookML."""
    return path.endswith(SUFFIXES)


def project_files(texts: Mapping[str, str]) -> ProjectFiles:
    """Return what belongs together; a file that cannot be read includes nothing."""
    blocks = {path: block for path, text in texts.items() if (block := _parsed(path, text)) is not None}
    dashboards = tuple(sorted(path for path in texts if path.endswith(_DASHBOARDS)))
    included = {path: _included(path, block, texts) for path, block in blocks.items()}
    models = tuple(
        LookModel(path, str(blocks[path].values.get("connection") or ""), _reached(path, included))
        for path in sorted(blocks)
        if path.endswith(_MODELS)
    )
    taken: set[str] = set(dashboards)
    owned: dict[str, tuple[str, ...]] = {}
    others = {model.path for model in models}
    for model in models:
        own = [path for path in model.files if path == model.path or path not in taken | others]
        taken.update(own)
        owned[model.path] = tuple(own)
    return ProjectFiles(models, owned, tuple(sorted(set(texts) - taken)), dashboards)


def _parsed(path: str, text: str) -> Block | None:
    if path.endswith(_DASHBOARDS):
        return None
    try:
        return parse_lookml(text, path)
    except ConfigError:  # the importer reports it
        return None


def _included(path: str, block: Block, texts: Iterable[str]) -> frozenset[str]:
    value = block.values.get("include")
    patterns = [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
    return frozenset(found for pattern in patterns for found in _matching(pattern, path, texts))


def _matching(pattern: str, path: str, texts: Iterable[str]) -> list[str]:
    """Return the files a pattern means: from the root where it begins with `/`, else from its own folder or the root.

    `//` begins another project, which is not here. An ending may be left out. A pattern without a folder that finds
    nothing there is for files of every folder.
    """
    if pattern.startswith("//"):
        return []
    plain = pattern.lstrip("/")
    starts = [plain] if pattern.startswith("/") else [posixpath.join(posixpath.dirname(path), plain), plain]
    for start in starts:
        wanted = _expression(posixpath.normpath(start))
        found = [each for each in texts if wanted.fullmatch(each)]
        if found:
            return found
    if "/" in pattern:
        return []
    wanted = _expression(plain)
    return [each for each in texts if wanted.fullmatch(posixpath.basename(each))]


def _expression(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    text = "".join(meaning.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(text + r"(?:\.lkml|\.lookml)?")


def _reached(path: str, included: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    found = {path}
    todo = [path]
    while todo:
        new = included.get(todo.pop(), frozenset()) - found
        found |= new
        todo += new
    return tuple(sorted(found))
