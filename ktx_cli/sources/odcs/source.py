"""Data contracts as a context source: fetch, projection into the manifest, and units for the rest."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import CancelledError, ConfigError, Hint, SettingPath, one_line, plural, yaml
from ktx_cli.documents import Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.semantic import Fidelity
from ktx_cli.sources.git import MAX_BYTES, Origin, check_files, fetch_files
from ktx_cli.sources.odcs.contracts import KIND, why_no_contract
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

_SUFFIXES: Final = (".yaml", ".yml")
_SIGNS: Final = (".odcs.yaml", ".odcs.yml")
_SECRET: Final = re.compile(r"password|token|secret", re.IGNORECASE)
_MOST_NOTES: Final = 60


class OdcsSource(Source):
    """Data contracts in a folder or a git repository."""

    kind: ClassVar[str] = "odcs"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("odcs_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read all contracts. Raises the errors of `fetch_files`, and `ConfigError` if there is none.

        YAML files of other kinds are skipped. A file that cannot be read is skipped too, and its previous copy is kept.
        Without a previous copy of a contract, for example in a new clone, the snapshot is incomplete.
        """
        origin = _origin(entry, context)
        snapshot = fetch_files(origin, context, lambda path: MAX_BYTES if _is_yaml(path) else 0)
        found = _contracts(snapshot, context)
        lack = _lack(origin, found.origin, found.files)
        if lack is not None:
            raise lack
        return found

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        origin = _origin(entry, context)
        return check_files(origin, context, functools.partial(_lack, origin))

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the keys of tables, their columns without NULL, and the foreign keys between them."""
        from ktx_cli.sources.odcs.contracts import declarations_of

        return declarations_of({path: file.text() for path, file in snapshot.files.items()})

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write texts, rules, values, tags and freshness to the manifest, and business names to overlay files."""
        from ktx_cli.sources.odcs.projection import projected

        texts = {path: file.text() for path, file in snapshot.files.items()}
        return projected(entry, texts, context, complete=snapshot.complete)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each contract with parts that rules could not place."""
        from ktx_cli.sources.odcs.projection import losses

        lost = losses(projection.report)
        touched = [path for path in snapshot.files if path in changes.touched and path in lost]
        return tuple(WorkUnit(f"odcs-{path}", path, (path,), notes=_notes(lost[path])) for path in touched)


def _origin(entry: Any, context: FetchContext) -> Origin:
    """Return the location of the contracts."""
    return Origin(
        f"connections.{context.connection}", folder=entry.source_dir, url=entry.repo_url, branch=entry.branch,
        path=entry.path, token=entry.auth_token_ref,
    )  # fmt: skip


def _is_yaml(path: str) -> bool:
    return path.lower().endswith(_SUFFIXES)


def _lack(origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
    """Return the problem if there is no contract among the files."""
    if any(map(_is_yaml, paths)):
        return None
    message = f"no data contracts at {place}: it contains no YAML file with `kind: DataContract`"
    key = "path" if origin.path or not origin.folder else "source_dir"
    return ConfigError(message, hint=Hint("set {} to their folder", SettingPath(f"{origin.where}.{key}")))


def _contracts(snapshot: Snapshot, context: FetchContext) -> Snapshot:
    """Return the contracts among the YAML files, without the passwords of their servers."""
    files: dict[str, RawFile] = {}
    skipped = list(snapshot.skipped)
    complete = snapshot.complete
    for path, file in snapshot.files.items():
        if context.stopped():
            raise CancelledError("stopped while reading the source")
        content = file.read()
        try:
            why = why_no_contract(yaml.load(content, where=path))
            if why is None:
                files[path] = context.raw.put(path, _without_secrets(content, path))
            else:
                skipped.append(Skipped(path, why))
        except ConfigError as error:
            known = context.previous.get(path)
            before = context.raw.find(path, known) if known else None
            reason = f"line {error.details.get('line', 1)}: {error.problem}"
            skipped.append(Skipped(path, f"{reason}; ktx keeps its previous copy" if before else reason))
            if before is not None:
                files[path] = before
            elif known or KIND.encode() in content:
                complete = False
    fetched = sum(context.previous.get(path) != file.sha256 for path, file in files.items())
    return replace(snapshot, files=files, complete=complete, fetched=fetched, skipped=tuple(skipped))


def _without_secrets(content: bytes, path: str) -> bytes:
    """Return a contract with empty passwords and tokens; lines keep their numbers.

    Raises `ConfigError` if it is no longer valid without them.
    """
    text = content.decode("utf-8-sig") if content[:2] not in (b"\xff\xfe", b"\xfe\xff") else content.decode("utf-16")
    spans = sorted(_secret_spans(yaml.compose(text, where=path)), reverse=True)
    if not spans:
        return content
    for start, end, is_block in spans:
        head, newline, body = text[start:end].partition("\n")
        empty = head + newline + re.sub(r"\S", "*", body) if is_block else "''" + "\n" * text.count("\n", start, end)
        text = text[:start] + empty + text[end:]
    yaml.load(text, where=path)
    return text.encode()


def _secret_spans(root: yaml.Node | None) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and the end of each text below a key that names a secret, and whether it is a block."""
    waiting = [] if root is None else [(root, False)]
    while waiting:
        node, is_secret = waiting.pop()
        waiting += [(each, is_secret) for each in node.items]
        for key, value in node.pairs:
            named = key.kind == "scalar" and bool(_SECRET.fullmatch(str(key.value)))
            waiting.append((value, is_secret or named))
        if is_secret and node.kind == "scalar" and node.value not in (None, ""):
            yield node.start, node.end, node.style in ("|", ">")


def _notes(lost: Sequence[Fidelity]) -> str:
    lines = [f"- {each.place}: {each.what}: {one_line(each.why, 200)}" for each in lost[:_MOST_NOTES]]
    rest = [f"- and {len(lost) - _MOST_NOTES} more"] if len(lost) > _MOST_NOTES else []
    return "\n".join(["Rules have already written everything except:", *lines, *rest])


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the common folder of all contracts near a project, which are recognized by their suffix `.odcs.yaml`."""
    counts = {folder.path: sum(name.lower().endswith(_SIGNS) for name in folder.files) for folder in folders}
    having = [path for path, count in counts.items() if count]
    if having:
        parents = (having[0], *having[0].parents)
        common = next(parent for parent in parents if all(path.is_relative_to(parent) for path in having))
        yield Detected(PurePosixPath(common), plural(sum(counts.values()), "file"), {"source_dir": str(common)})
