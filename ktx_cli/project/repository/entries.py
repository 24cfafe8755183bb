"""Reading and editing an index file by git's own commands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ktx_cli.project.git import Git
from ktx_cli.project.repository.model import IndexEntry, RepositoryLayout, TreeEntry
from ktx_cli.project.repository.paths import decode, encode, joined

_MANY = 500
"""From so many paths on, git looks at the whole project in place of a list of paths."""

_FEW = 50
"""`git add --refresh` compares each path with each entry of the index: more paths than this are too slow."""


@dataclass(frozen=True)
class IndexView:
    """The project's part of an index: path (relative to the project) -> entry; `unmerged` are in conflict."""

    entries: Mapping[str, IndexEntry]
    unmerged: frozenset[str]

    def has_folder(self, path: str) -> bool:
        """Say whether anything lies below `path`."""
        start = path + "/"
        position = bisect_left(self._names, start)
        return position < len(self._names) and self._names[position].startswith(start)

    @cached_property
    def _names(self) -> list[str]:
        return sorted({*self.entries, *self.unmerged})


def read_index(git: Git, layout: RepositoryLayout) -> IndexView:
    """Read the project's part of the index."""
    where = ("--", layout.prefix) if layout.prefix else ()
    said = git.read("ls-files", "--stage", "-v", "-z", "--full-name", *where)
    entries: dict[str, IndexEntry] = {}
    unmerged = set()
    skipped = len(encode(layout.prefix))
    for record in said.out.split(b"\0"):
        if record:
            facts, _, path = record.partition(b"\t")
            entry = _entry(facts)
            name = decode(path[skipped:])
            if entry.stage:
                unmerged.add(name)
            else:
                entries[name] = entry
    return IndexView(entries, frozenset(unmerged))


def _entry(facts: bytes) -> IndexEntry:
    tag, mode, oid, stage = facts.decode("ascii").split(" ")
    return IndexEntry(mode, oid, int(stage), skip_worktree=tag in "Ss", assume_unchanged=tag.islower())


def modified_paths(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> frozenset[str]:
    """Return which tracked paths differ on disk from the index (content, kind, mode, or gone), as git sees it.

    Entries marked assume-unchanged or skip-worktree never count.
    """
    full = [layout.prefix + path for path in paths]
    wanted = [layout.prefix] if len(full) > _MANY else full
    if not full:
        return frozenset()
    said = git.read("ls-files", "--modified", "-z", "--full-name", "--", *(encode(p) for p in wanted if p))
    found = (decode(path[len(encode(layout.prefix)) :]) for path in said.out.split(b"\0") if path)
    return frozenset(found) & frozenset(paths)


def committable_paths(git: Git, layout: RepositoryLayout, folder: str) -> list[str]:
    """Return the files below a folder of the project that `git add --all` would take or keep, sorted."""
    where = encode(f"{layout.prefix}{folder}")
    said = git.read("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--full-name", "--", where)
    return sorted({decode(path[len(encode(layout.prefix)) :]) for path in said.out.split(b"\0") if path})


def ignored_paths(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> frozenset[str]:
    """Return which paths git ignores; tracked paths never count."""
    if not paths:
        return frozenset()
    start = f"./{layout.prefix}"
    # check-ignore refuses literal pathspecs; with `./` before it, no path is taken for pathspec magic.
    literal = {"GIT_LITERAL_PATHSPECS": "0"}
    questions = joined(start + path for path in paths)
    said = git.read("check-ignore", "-z", "--stdin", stdin=questions, ok=(0, 1), variables=literal)
    return frozenset(decode(path).removeprefix(start) for path in said.out.split(b"\0") if path)


def edit_index(
    git: Git,
    layout: RepositoryLayout,
    index: Path,
    changes: Mapping[str, TreeEntry | None],
    flags_of: Mapping[str, IndexEntry] | None = None,
) -> None:
    """Set or (None) remove entries of an index file; paths are full.

    git forgets skip-worktree and assume-unchanged of an entry that is set, so those of `flags_of` are set again; one
    command sets only one of the two.
    """
    if not changes:
        return
    git.write("update-index", "-z", "--index-info", stdin=_index_info(changes, layout.zeros), index=index)
    kept = [(path, flags) for path, flags in (flags_of or {}).items() if changes.get(path) is not None]
    skipped = [path for path, flags in kept if flags.skip_worktree]
    assumed = [path for path, flags in kept if flags.assume_unchanged]
    for option, paths in (("--skip-worktree", skipped), ("--assume-unchanged", assumed)):
        if paths:
            git.write("update-index", option, "-z", "--stdin", stdin=joined(paths), index=index)


def _index_info(changes: Mapping[str, TreeEntry | None], zeros: str) -> bytes:
    lines = []
    for path, entry in sorted(changes.items(), key=lambda change: change[1] is not None):
        mode, oid = ("0", zeros) if entry is None else (entry.mode, entry.oid)
        lines.append(f"{mode} {oid}\t".encode("ascii") + encode(path) + b"\0")
    return b"".join(lines)


def refresh_index(git: Git, layout: RepositoryLayout, index: Path, paths: Iterable[str]) -> None:
    """Give the entries of full paths the stat data of their files, so that nobody has to read them again."""
    wanted = list(paths)
    if not wanted:
        return
    if len(wanted) > _FEW:
        wanted = [layout.prefix or "."]
    sparse = ("--sparse",) if git.binary.number >= (2, 34) else ()
    git.write(
        "add", "--refresh", *sparse, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=joined(wanted), index=index
    )
