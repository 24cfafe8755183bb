"""The files of a semantic layer as the writers need them: which one is about a source, and which are generated."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.agent_tools.layers import parse_once
from ktx_cli.core import ConfigError, KtxError, file_stem, listing, yaml
from ktx_cli.project import Layout, Tree, edit
from ktx_cli.protection import Refused
from ktx_cli.semantic import SUFFIXES, own_files


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file about a source beside the manifest."""

    path: str
    content: bytes
    document: Mapping[str, Any]


def own_file(tree: Tree, connection: str, name: str) -> OwnFile | None:
    """Return the file about a source, None where there is only the manifest or nothing; `Refused` for several."""
    found = [each for each in _own(tree, connection) if each.document["name"] == name]
    if len(found) > 1:
        raise Refused(f"several files are about `{name}`: {listing(each.path for each in found)}; people sort that out")
    if found:
        return found[0]
    path = _new_path(connection, name)
    content = tree.read(path)
    if content is not None:
        document = _document(content, path)
        about = "broken" if document is None else f"about `{document.get('name')}`"
        raise Refused(f"{path} is {about}, so nothing can be written about `{name}`; people sort that out")
    return None


def path_of(tree: Tree, connection: str, name: str) -> str:
    """Return where the file about a source is, or would be."""
    found = own_file(tree, connection, name)
    return _new_path(connection, name) if found is None else found.path


def manifest_names(tree: Tree, connection: str) -> list[str]:
    """Return the names of the generated sources; those of a shard that cannot be read are not among them."""
    found: list[str] = []
    schema = f"{Layout.schema_path(connection)}/"
    for path in tree.paths(schema):
        content = tree.read(path) if path.endswith(SUFFIXES) else None
        if content is None:
            continue
        try:
            found += parse_once(content, path).tables
        except KtxError:  # every check of the connection reports it
            continue
    return found


def read_document(text: str, where: str) -> dict[str, Any]:
    """Return the mapping a model wrote as YAML; `Refused` with line and column for anything else."""
    try:
        document = yaml.load(text, where=where)
    except ConfigError as error:
        raise Refused(f"the YAML cannot be read, nothing was saved: {error.message}" + _hint(error)) from error
    if not isinstance(document, dict):
        raise Refused("the YAML is no mapping: it begins with `name: <source>`; nothing was saved")
    return document


def put_into(file: OwnFile | None, document: Mapping[str, Any], text: str, where: str) -> bytes:
    """Return the new text of a file: of one that is there only what differs is changed, comments stay."""
    fresh = text.strip("\n") + "\n"
    if file is None:
        return fresh.encode("utf-8", "strict")
    try:
        return edit.apply(file.content, edit.diff(dict(file.document), dict(document), ()), where=where)
    except (ConfigError, ValueError):  # its form leaves no place for the change
        return fresh.encode("utf-8", "strict")


def _hint(error: KtxError) -> str:
    return f" ({error.hint})" if error.hint else ""


def _own(tree: Tree, connection: str) -> Iterator[OwnFile]:
    for path in own_files(tree, connection):
        content = tree.read(path)
        document = None if content is None else _document(content, path)
        if content is not None and document is not None and "name" in document:
            yield OwnFile(path, content, document)


@functools.lru_cache(maxsize=2_000)
def _document(content: bytes, path: str) -> Mapping[str, Any] | None:
    """Return the mapping in a file, None for anything else; nobody changes it."""
    try:
        found = yaml.load(content, where=path)
    except ConfigError:
        return None
    return found if isinstance(found, dict) else None


def _new_path(connection: str, name: str) -> str:
    return f"{Layout.context_paths(connection)[0]}/{file_stem(name)}.yaml"
