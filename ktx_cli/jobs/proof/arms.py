"""The arms of a proof: only the schema, the full context, and the context without one artifact.

Every arm with context has its own folder outside the project: a copy of the context with an overlay that removes the
artifact. All tools of an arm read this folder, so that they cannot reach anything else. Databases are opened with the
settings and paths of the project, which is only read.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ktx_cli.agent_tools import contents_of
from ktx_cli.core import Command, ConfigError, Hint, KtxError, ResultWarning, UsageError, listing
from ktx_cli.jobs.decide.decide import layers_of
from ktx_cli.jobs.decide.draft import DecisionDraft, page_key
from ktx_cli.jobs.proof.artifacts import Artifact, ArtifactKind, LayerFiles, list_artifacts
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.llm import Embedder, create_embedder
from ktx_cli.project import (
    CONFIG_NAME,
    CONTRADICTIONS_NAME,
    DECISIONS_NAME,
    OWN_NAMES,
    RAW_NAME,
    SEMANTIC_NAME,
    WIKI_NAME,
    KtxConfig,
    Layout,
    Tree,
    Warn,
    WorkingTree,
    Workspace,
    copy_shared,
    open_local,
    shared_state_of,
)
from ktx_cli.search import SharedIndex, index_of, refresh
from ktx_cli.semantic import Measure, Model, check_model, layer_ids, load_answers, load_tree
from ktx_cli.sources import source_for
from ktx_cli.warehouses import Connector, ConnectorPool, DatabaseSchema, Scope, dialect_of
from ktx_cli.wiki import GLOBAL, page_path

SCHEMA: Final = "schema"
"""The arm with only the database schema and read-only SQL."""
CONTEXT: Final = "context"
"""The arm with the tools of an agent client."""

_CONTEXT_NAMES: Final = (SEMANTIC_NAME, WIKI_NAME, RAW_NAME)
"""The context folders of a project."""
_CONTEXT_FILES: Final = (CONTRADICTIONS_NAME, DECISIONS_NAME)


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a proof. `artifact` is the artifact that it leaves out, if any."""

    name: str
    artifact: Artifact | None = None

    @classmethod
    def without(cls, artifact: Artifact) -> Arm:
        """Return the arm with all context except this artifact."""
        return cls(f"without:{artifact.id}", artifact)


class _ProjectPool(ConnectorPool):
    """Opens connections as in the project, regardless of the folder."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def open(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """See `ConnectorPool`."""
        return super().open(config, connection, project_dir=self._root, environ=environ)


@dataclass(slots=True)
class ArmProject(ServedProject):
    """The open folder of an arm, with the settings at the start of the proof."""

    settings: KtxConfig = field(kw_only=True)

    def config(self) -> KtxConfig:
        """Return the settings of the proof."""
        return self.settings


@dataclass
class Arms:
    """The folders for the arms of one proof, created on demand. A context manager.

    `ablates` is true if artifacts are ablated, which requires knowing what they affect. `tree` provides the context
    instead of the project files. `digest` identifies the full context.
    """

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    ablates: bool = True
    tree: Tree | None = None
    digest: str = ""
    models: dict[str, Model] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _scratch: Path = field(init=False)
    _depth: int = field(init=False)
    _pool: ConnectorPool = field(init=False)
    _base: Path = field(init=False)
    _context: ArmProject | None = None
    _protection: ArmProject | None = None
    _schemas: dict[str, DatabaseSchema] = field(default_factory=dict)
    _files: dict[str, LayerFiles] = field(default_factory=dict)
    _known_errors: dict[str, frozenset[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Arms:
        with contextlib.ExitStack() as stack:
            self._scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ktx-proof-")))
            self._pool = stack.enter_context(contextlib.closing(_ProjectPool(self.layout.root)))
            self._depth = 1 + max((_steps_up(each, self.layout.root) for each in self._folders()), default=0)
            self._base = self._copy_project()
            self._renew_index(Layout(self._base))
            self.digest = _digest_of(self._base, (self.layout.config,))
            tree = WorkingTree(self._base)
            self.models = {connection: self._load(tree, connection) for connection in layer_ids(Layout(self._base))}
            for model in self.models.values():
                _require_known(model)
            if self.ablates:
                self.artifacts = sorted([*list_artifacts(tree, self.models), *self._decisions(tree)])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def context(self) -> ArmProject:
        """The project for the arm with the full context."""
        if self._context is None:
            self._context = self._stack.enter_context(contextlib.closing(self._served(self._base)))
        return self._context

    @property
    def protection(self) -> ArmProject:
        """The project for the schema-only arm: hidden data stays hidden, and open decisions do not refuse answers."""
        if self._protection is None:
            semantic = self.config.semantic.model_copy(update={"open_decisions": "note"})
            project = self._served(self._base)
            project.settings = self.config.model_copy(update={"semantic": semantic})
            self._protection = self._stack.enter_context(contextlib.closing(project))
        return self._protection

    @contextlib.contextmanager
    def project_of(self, arm: Arm) -> Iterator[ArmProject]:
        """Open the project for an arm. The schema-only arm needs it to keep hidden data hidden.

        Raises `UsageError` for an artifact that cannot be left out on its own.
        """
        if arm.artifact is None:
            yield self.protection if arm.name == SCHEMA else self.context
            return
        with self.changed(self.overlay(arm.artifact).changes()) as project:
            yield project

    @contextlib.contextmanager
    def changed(self, changes: Mapping[str, bytes | None]) -> Iterator[ArmProject]:
        """Open a project with changed context files. `changes` maps paths to contents, or None for removed files."""
        folder = self._place(f"changed-{next(self._numbers)}")
        shutil.copytree(self._base, folder, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
        write_files(folder, changes)
        self._renew_index(Layout(folder))
        try:
            with contextlib.closing(self._served(folder)) as project:
                yield project
        finally:
            shutil.rmtree(folder)

    def _renew_index(self, own: Layout) -> None:
        """Update the copy of the search index, so that searches return no warnings about it.

        If the index of the project is shared, that of the arms is a file that is built from their files.
        """
        is_shared = isinstance(index_of(self.layout, self.config, self.environ), SharedIndex)
        if own.search_index.exists():
            content = own.search_index.read_bytes()
            own.search_index.unlink()  # the file is shared with the other arms
            own.search_index.write_bytes(content)
        elif not is_shared:
            return

        def embedder() -> Embedder | None:
            return create_embedder(self.config, self.layout.root, self.environ)

        renewed = refresh(own.search_index, contents_of(own, self.config), WorkingTree(own.root), embedder=embedder)
        if renewed.error is not None:
            raise renewed.error

    def overlay(self, artifact: Artifact) -> Workspace:
        """Return the context without an artifact. Raises `UsageError` if the rest depends on it."""
        tree = Workspace(WorkingTree(self._base))
        if artifact.kind is ArtifactKind.PAGE:
            tree.delete(page_path(GLOBAL, artifact.name))
        elif artifact.kind is ArtifactKind.DECISION:
            DecisionDraft(tree, layers_of(self.config)).take_back(artifact.connection, artifact.name)
        else:
            self._files_of(artifact.connection).leave_out(tree, artifact)
        if not tree.changes():
            hint = "leave out its page or its source instead"
            raise UsageError(f"`{artifact.id}` is not defined in a file of its own connection", hint=hint)
        model = self.models.get(artifact.connection)
        if model is not None:
            self._require_whole(tree, artifact, model)
        return tree

    def _decisions(self, tree: WorkingTree) -> Iterator[Artifact]:
        """Yield people's decisions with their pages and the measures that they change."""
        for connection, model in self.models.items():
            for answer in load_answers(tree, connection):
                artifact = Artifact(ArtifactKind.DECISION, answer.point, connection)
                try:
                    before = self._load(self.overlay(artifact), connection)
                except KtxError:  # reported if the user asks to leave it out
                    yield artifact
                else:
                    yield replace(artifact, touches=(page_key(answer.point), *_changed_measures(model, before)))

    def _require_whole(self, tree: Workspace, artifact: Artifact, model: Model) -> None:
        source = model.sources.get(artifact.name) if artifact.kind is ArtifactKind.SOURCE else None
        if source is not None and source.is_protected:
            message = f"`{artifact.id}` hides rows or columns, so it cannot be left out"
            raise UsageError(message, hint="leave out its measures or pages instead")
        is_measure = artifact.kind is ArtifactKind.MEASURE
        if is_measure and not self._files_of(artifact.connection).names_elsewhere(artifact):
            return
        if model.connection not in self._known_errors:
            self._known_errors[model.connection] = frozenset(_errors(model))
        known = self._known_errors[model.connection]
        broken = next((each for each in _errors(self._load(tree, artifact.connection)) if each not in known), None)
        if broken is not None:
            message = f"`{artifact.id}` cannot be left out on its own: {broken}"
            raise UsageError(message, hint="leave out the definition that uses it instead")

    def _files_of(self, connection: str) -> LayerFiles:
        """Return the files of a layer before any removal, parsed once per proof."""
        if connection not in self._files:
            self._files[connection] = LayerFiles(WorkingTree(self._base), connection)
        return self._files[connection]

    def dialect(self, connection: str) -> str:
        """Return the dialect of a database."""
        entry = self.config.connections.get(connection)
        return (None if entry is None else dialect_of(entry.driver)) or ""

    def schema(self, connection: str) -> DatabaseSchema:
        """Return the current structure of a database, read once per proof."""
        with self._lock:
            if connection not in self._schemas:
                connector, scope = self._pool.open(
                    self.config, connection, project_dir=self.layout.root, environ=self.environ
                )
                with connector:
                    self._schemas[connection] = connector.introspect(scope)
            return self._schemas[connection]

    def require_reachable(self, connections: Iterable[str]) -> None:
        """Raise `KtxError` if a database cannot be reached, before a model is paid for questions about it."""
        for connection in connections:
            connector, scope = self._pool.open(
                self.config, connection, project_dir=self.layout.root, environ=self.environ
            )
            with connector:
                connector.test(scope)

    def _load(self, tree: WorkingTree | Workspace, connection: str) -> Model:
        return load_tree(tree, connection, self.dialect(connection), configured=self.config.connections.keys())

    def _served(self, folder: Path) -> ArmProject:
        return ArmProject(Layout(folder), self.environ, pool=self._pool, settings=self.config)

    def _place(self, name: str) -> Path:
        """Return a folder nested so deeply that `..` in project paths stays inside the scratch folder."""
        folder = self._scratch.joinpath(name, *["in"] * self._depth)
        folder.mkdir(parents=True)
        return folder

    def _folders(self) -> Iterator[Path]:
        """Yield the folders of context sources as written in the settings."""
        for entry in self.config.sources().values():
            yield from source_for(entry.driver).folders(entry, self.layout.root)

    def _copy_project(self) -> Path:
        root, base = self.layout.root, self._place(CONTEXT)
        for name in _CONTEXT_NAMES:
            if (root / name).is_dir():
                shutil.copytree(root / name, base / name, symlinks=True)
        for path in root.iterdir():
            if path.name not in {*OWN_NAMES, ".git"}:
                (base / path.name).symlink_to(path)
            elif path.is_file():
                shutil.copyfile(path, base / path.name)
        for folder in self._folders():
            written = Path(os.path.normpath(base / os.path.relpath(folder, root)))
            if not written.exists() and written.is_relative_to(self._scratch):
                written.parent.mkdir(parents=True, exist_ok=True)
                written.symlink_to(folder)
        if self.tree is not None:
            write_files(base, dict(_unlike(WorkingTree(base), self.tree)))
        self._copy_private(Layout(base))
        return base

    def _copy_private(self, own: Layout) -> None:
        """Copy the state and the search index. Raw documents and secrets are read from the project."""
        own.private.mkdir(mode=0o700)
        for path, copy in ((self.layout.state, own.state), (self.layout.search_index, own.search_index)):
            if path.is_file():
                _copy_database(path, copy)
        own.own_state.touch()
        shared = shared_state_of(self.layout)
        if shared is not None:
            with open_local(own) as database:
                copy_shared(shared, database)
        for path, link in ((self.layout.raw_store, own.raw_store), (self.layout.secrets, own.secrets)):
            if path.is_dir():
                link.symlink_to(path)


def write_files(folder: Path, changes: Mapping[str, bytes | None]) -> None:
    """Write and delete files in an arm's folder. Symbolic links are replaced, not followed."""
    for path, content in changes.items():
        (folder / path).unlink(missing_ok=True)
        if content is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)


def _unlike(there: Tree, wanted: Tree) -> Iterator[tuple[str, bytes | None]]:
    """Yield the changes that turn one tree's context into another's."""
    for name in (*(f"{each}/" for each in _CONTEXT_NAMES), *_CONTEXT_FILES):
        for path in sorted({*there.paths(name), *wanted.paths(name)}):
            content = wanted.read(path)
            if content != there.read(path):
                yield path, content


def _changed_measures(model: Model, other: Model) -> list[str]:
    """Return the names of the measures that differ in another state of a layer."""

    def definitions(of: Model) -> dict[tuple[str, str], Measure]:
        pairs = ((source, each) for source in of.sources.values() for each in source.measures.values())
        return {(source.name, each.name): replace(each, place=None) for source, each in pairs}

    now, then = definitions(model), definitions(other)
    return sorted({key[1] for key in now.keys() | then.keys() if now.get(key) != then.get(key)})


def _require_known(model: Model) -> None:
    """Raise `KtxError` for a layer with errors, because it is unknown what an arm must hide."""
    if model.barred or model.sealed is not None:
        message = f"the semantic layer of `{model.connection}` has errors, so ktx does not know what it hides"
        raise KtxError(message, hint=Command("sl", "validate", "-c", model.connection), code="semantic_problems")


def _errors(model: Model) -> list[str]:
    """Return the errors in the definitions of a layer."""
    return [each.message for each in (*model.problems, *check_model(model)) if each.severity == "error"]


def _steps_up(folder: Path, root: Path) -> int:
    return Path(os.path.relpath(folder, root)).parts.count("..")


def _copy_database(path: Path, copy: Path) -> None:
    """Copy the committed state of a database to a single file, without side effects if no run is active."""
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{alone}", uri=True)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        copy.unlink(missing_ok=True)
        raise KtxError(f"cannot read {path}: {error}", hint=Command("doctor"), code="storage") from error


def _digest_of(folder: Path, also: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    tops = [folder / name for name in sorted(OWN_NAMES - {CONFIG_NAME, Layout(folder).private.name})]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*")) if path.is_file()]
    for path in (*sorted(files), *also):
        content = path.read_bytes()
        digest.update(f"{os.path.relpath(path, folder)}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()


def usable(arms: Arms, chosen: Sequence[Artifact], wanted: Sequence[str], warn: Warn) -> list[Artifact]:
    """Return the artifacts that can be left out. Raises for artifacts named by the user, and warns about others."""
    able, refused = [], []
    for artifact in chosen:
        try:
            arms.overlay(artifact)
        except (UsageError, ConfigError) as error:  # `ConfigError`: a file that cannot be edited in place
            if artifact.id in wanted or artifact.name in wanted:
                raise
            refused.append((artifact, error))
        else:
            able.append(artifact)
    if len(refused) == 1:
        warn(ResultWarning("not_ablated", refused[0][1].message, hint=refused[0][1].hint))
    elif refused:
        what = f"{len(refused)} artifacts cannot be left out on their own"
        message = f"{what}: {listing((each.id for each, _ in refused), 20)}"
        hint = Hint("to see why, name one of them: {}", Command("proof", "--dry-run", "--ablate", refused[0][0].id))
        warn(ResultWarning("not_ablated", message, hint=hint))
    return able
