"""A commit on a new branch beside the user's own: no working file, no index and no other branch changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktx_cli.core.errors import GitError
from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import read_config
from ktx_cli.project.repository.conversion import Conversion, store_blobs
from ktx_cli.project.repository.discovery import commit_of
from ktx_cli.project.repository.entries import edit_index
from ktx_cli.project.repository.identity import identity_variables
from ktx_cli.project.repository.lock import IndexLock
from ktx_cli.project.repository.model import RepositoryLayout, TreeEntry
from ktx_cli.project.repository.paths import full_paths
from ktx_cli.project.repository.trees import TreeView
from ktx_cli.project.repository.working_files import naming


def propose_changes(
    git: Git,
    layout: RepositoryLayout,
    lock: IndexLock,
    changes: Mapping[str, bytes | None],
    *,
    ref: str,
    base: str | None,
    message: str,
    author: str | None,
    before_publish: Callable[[], None] | None,
) -> str:
    """Return the commit of `changes` on `base` that the new branch `ref` has; `GitError` where that branch is there."""
    config = read_config(git)
    identity = identity_variables(author, config, git.environ)
    conversion = Conversion(git, config, layout.object_format, full_paths(layout.prefix, changes))
    tree = _tree(git, layout, lock, changes, base, conversion)
    parent = () if base is None else ("-p", base)
    text = message.replace("\0", "").rstrip("\n").encode("utf-8", "replace") + b"\n"
    said = git.write("commit-tree", tree, *parent, stdin=text, variables=identity)
    commit = said.out.decode("ascii").strip()
    if before_publish is not None:
        before_publish()
    if commit_of(git, ref) is not None:
        raise GitError(f"{layout.top_level} has a branch {ref} already", hint="merge it or delete it first")
    git.write("update-ref", "-m", "ktx: proposed", ref, commit, layout.zeros, variables=identity)
    return commit


def _tree(
    git: Git,
    layout: RepositoryLayout,
    lock: IndexLock,
    changes: Mapping[str, bytes | None],
    base: str | None,
    conversion: Conversion,
) -> str:
    """Store the contents and return the id of the tree that has them."""
    existing = TreeView(git, layout.prefix, base).entries
    blobs = {path: conversion.blob(layout.prefix + path, text) for path, text in changes.items() if text is not None}
    store_blobs(git, layout.git_dir, [each.data for each in blobs.values() if each.data is not None])
    entries: dict[str, TreeEntry | None] = {}
    for path in changes:
        before = existing.get(path)
        mode = before.mode if before is not None and before.is_file else "100644"
        entries[layout.prefix + path] = TreeEntry(mode, blobs[path].oid) if path in blobs else None
    scratch = lock.scratch("tree")
    with naming(scratch):
        scratch.unlink(missing_ok=True)
    if base is not None:
        git.write("-c", "core.splitIndex=false", "read-tree", base, index=scratch)
    edit_index(git, layout, scratch, entries)
    return git.write("write-tree", index=scratch).out.decode("ascii").strip()
