"""Project checks that open no database: configuration, backend, context, repository, run lock."""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import (
    Command,
    Hint,
    KtxError,
    Location,
    SettingPath,
    StorageError,
    escaped,
    listing,
    new_run_id,
    plural,
)
from ktx_cli.jobs.health.model import OLDER, CheckContext, CheckResult, Concern, Level, failed
from ktx_cli.jobs.health.shared_checks import of_files, replicated
from ktx_cli.project import (
    CONFIG_NAME,
    CONTRADICTIONS_NAME,
    DATABASE_SOURCE,
    DECISIONS_NAME,
    SEMANTIC_NAME,
    HeldReason,
    WorkingTree,
    clock_of,
    current_holder,
    held_hint,
    hold_run_lock,
    index_path,
    is_damage,
    open_for_writing,
    origin_of,
    read_state,
)
from ktx_cli.scan import MANIFEST, has_points, manifest_hashes
from ktx_cli.semantic import SUFFIXES, layer_ids, shard_files, stray_problems

if TYPE_CHECKING:
    from ktx_cli.core import Diagnostic, ResultWarning
    from ktx_cli.project import Held, Layout, Mount, Repository

CONTRADICTIONS: Final = "contradictions"
"""The name of the check for undecided contradictions."""

DECISIONS: Final = "decisions"
"""The name of the check for undecided decision points."""

CONVENTIONS: Final = "conventions"
"""The name of the check for settings that disagree with the sources."""

OLD_SECONDS: Final = 600.0
"""git holds the index lock briefly, or for as long as somebody edits the message of a partial commit."""


def check_config(context: CheckContext) -> list[CheckResult]:
    """Check that `ktx.yaml` is valid; reports its warnings, and errors that disable a connection."""
    errors = [issue.to_warning() for issue in context.loaded.issues if issue.severity == "error"]
    findings = [_of_config(warning, is_error=warning in errors) for warning in context.loaded.warnings()]
    return findings or [CheckResult("config", Level.OK, "ktx.yaml is valid")]


def _of_config(warning: ResultWarning, *, is_error: bool) -> CheckResult:
    """Return the result for a warning; a hint that is not a command is an edit, so it includes the location."""
    line: int | None = warning.details.get("line")
    hint = warning.hint
    if line and hint and not hint.is_typed:
        is_strange = warning.code == "config_unknown_key" and hint.suggestion is None
        does = "remove it; " if is_strange else ""
        hint = Hint("in {} line {}: {}{}", CONFIG_NAME, line, does, hint)
    level, concern = (Level.FAIL, Concern.SETUP) if is_error else (Level.WARN, Concern.OTHER)
    return CheckResult("config", level, warning.message, hint, concern, location=Location(CONFIG_NAME, line))


def check_databases(context: CheckContext) -> list[CheckResult]:
    """Check that at least one database is configured."""
    config = context.loaded.config
    databases = config.databases()
    for entry in () if databases else config.disabled().values():
        error = entry.error()
        message = f"no database in ktx.yaml can be used: {error.message}"
        return [CheckResult("databases", Level.FAIL, message, error.hint, Concern.SETUP)]
    if not databases and config.mounts:
        return [CheckResult("databases", Level.OK, "none of its own")]
    if not databases:
        from ktx_cli.jobs.setup.request import how_to_connect

        hint = how_to_connect(context.project_dir)
        return [CheckResult("databases", Level.FAIL, "no database is configured in ktx.yaml", hint, Concern.SETUP)]
    findings = []
    for name in config.setup.database_connection_ids:
        if name not in config.connections:
            message = f"`setup.database_connection_ids` contains `{name}`, which is not a connection"
            kept = [name for name in config.setup.database_connection_ids if name in config.connections]
            hint = Command("config", "set", "setup.database_connection_ids", json.dumps(kept))
            findings.append(CheckResult("databases", Level.WARN, message, hint))
    return [CheckResult("databases", Level.OK, plural(len(databases), "database")), *findings]


MOUNTS: Final = "mounts"


def check_mounts(context: CheckContext) -> list[CheckResult]:
    """Check that every mounted project is readable."""
    if not context.loaded.config.mounts:
        return [CheckResult(MOUNTS, Level.OK, "no other project is mounted")]
    from ktx_cli.project import load_mounts

    found = load_mounts(context.layout, context.loaded.config)
    broken = [CheckResult(MOUNTS, Level.FAIL, e.message, e.hint, Concern.SETUP) for e in found.broken.values()]
    return [*broken, *(finding for mount in found.usable.values() for finding in _mount_findings(context, mount))]


def _mount_findings(context: CheckContext, mount: Mount) -> Iterator[CheckResult]:
    """Yield the important facts about a mounted project; run `ktx doctor` there for its own checks."""
    from ktx_cli.jobs.health.search_facts import index_facts

    config, where = mount.config, f"mount `{mount.name}`"
    for warning in mount.loaded.notices():
        yield CheckResult(MOUNTS, Level.WARN, f"{where}: {warning.message}", mount.placed(warning.hint or ""))
    if config.mounts:
        message = f"{where} has mounts itself, which ktx does not follow: {listing(config.mounts)}"
        yield CheckResult(MOUNTS, Level.WARN, message, "mount them here too, or remove them there")
    layers, index = layer_ids(mount.layout), index_facts(mount.layout, config, context.environ)
    if config.databases() and not layers:
        hint = mount.placed(Command("ingest"))
        yield CheckResult(MOUNTS, Level.WARN, f"{where} has no semantic layer yet", hint)
    elif index.state != "current":
        yield CheckResult(MOUNTS, Level.WARN, f"{where}: index: {index.text}", mount.placed(Command("index")))
    else:
        what = f"{plural(len(layers), 'semantic layer')}, {plural(index.pages, 'page')}"
        yield CheckResult(MOUNTS, Level.OK, f"{mount.name}: {mount.path}, {what}")


def check_repository(context: CheckContext) -> list[CheckResult]:
    """Check that runs can commit to the repository."""
    if origin_of(context.project_dir) != context.project_dir or replicated(context) is not None:
        return [CheckResult("repository", Level.OK, "not needed: this is the folder of a replica")]
    try:
        repository = context.repository
        if repository is None:
            message = "not in a git repository; the first run creates one"
            init = Command("-C", context.project_dir, "init", program="git")
            return [CheckResult("repository", Level.WARN, message, init)]
        lock = repository.leftover_lock()
        if lock is not None:
            message = f"an interrupted run left {lock}, which blocks git; the next run removes it"
            hint = Command("doctor", "--fix", "--only", "repository")
            return [
                CheckResult("repository", Level.WARN, message, hint, repair=functools.partial(_recovered, repository))
            ]
        repository.check_writable()
        head = repository.head()
        held = _old_lock(repository) if context.live else None
    except KtxError as error:
        return [CheckResult("repository", Level.FAIL, error.message, error.hint)]
    if held is not None:
        message = (
            f"{held} has existed for more than {OLD_SECONDS / 60:.0f} minutes: its git command is waiting, or has died"
        )
        return [CheckResult("repository", Level.WARN, message, Command(held, program="rm"))]
    where = "a folder of the repository" if repository.layout.is_host else "its own repository"
    return [CheckResult("repository", Level.OK, f"{where} at {repository.layout.top_level}, on {head.ref}")]


def _old_lock(repository: Repository) -> Path | None:
    """Return a lock of the index that is not a run's and older than git commands take; a person has to judge it."""
    index = index_path(repository.layout)
    lock = index.with_name(f"{index.name}.lock")
    try:
        return lock if time.time() - lock.lstat().st_mtime > OLD_SECONDS else None
    except FileNotFoundError:
        return None


def _recovered(repository: Repository) -> str:
    done = repository.recover()
    return f"removed what an interrupted run left in {repository.layout.git_dir}: {listing(done.removed)}"


def check_run_lock(context: CheckContext) -> list[CheckResult]:
    """Check that the run lock is free, or held by a live process."""
    older: list[ResultWarning] = []
    try:
        found = read_state(context.layout, lambda state: (current_holder(state), clock_of(state)), older.append)
    except KtxError as error:
        return [_unreadable(context, error)]
    if older:
        return [CheckResult("lock", Level.SKIP, OLDER, older[0].hint)]
    holder, now = found or (None, 0.0)
    if holder is None:
        return [CheckResult("lock", Level.OK, "no run is active")]
    who = f"`{holder.command}`, pid {holder.pid} on {holder.hostname}, since {holder.since_text}"
    if holder.is_alive(now):
        return [CheckResult("lock", Level.OK, f"running: {who}{holder.silence(now)}")]
    message = f"a dead run left its lock, which the next run takes over: {who}"
    hint = Command("doctor", "--fix", "--only", "lock")
    return [CheckResult("lock", Level.WARN, message, hint, repair=lambda: _given_back(context, who))]


def _unreadable(context: CheckContext, error: KtxError) -> CheckResult:
    """Return the result for an unreadable state database; a damaged one is moved aside."""
    cause = error.__cause__
    if not isinstance(cause, sqlite3.Error) or not is_damage(cause):
        return failed("lock", error)
    hint = Command("doctor", "--fix", "--only", "lock")
    return CheckResult("lock", Level.FAIL, error.message, hint, repair=lambda: _moved_aside(context))


def _moved_aside(context: CheckContext) -> str:
    warnings: list[ResultWarning] = []
    with open_for_writing(context.layout, warnings.append):
        return "; ".join(warning.message for warning in warnings) or "the state database is usable"


def _given_back(context: CheckContext, who: str) -> str:
    """Take the run lock over as a run does, and release it."""
    with hold_run_lock(context.layout, run_id=new_run_id(), command=Command("doctor", "--fix")):
        return f"took the lock over from {who}, and released it"


CONTEXT = "context"


def check_context(context: CheckContext) -> list[CheckResult]:
    """Check that every readable database has a manifest."""
    snapshot = replicated(context)
    if snapshot is not None:
        commit = snapshot.commit[:12]
        message = (
            f"this is the folder of a replica, which serves the context of commit {commit} from the shared database"
        )
        return [CheckResult(CONTEXT, Level.OK, f"{message}; run `ktx ingest` and `ktx mcp publish` in a clone")]
    connections = list(context.loaded.config.databases())
    repository = _repository(context)
    empty = [connection for connection in connections if _is_empty(context.layout, connection)]
    findings = []
    for connection in connections:
        for problem in context.manifests[connection].problems:
            findings.append(CheckResult(CONTEXT, Level.FAIL, problem.message, problem.hint))
        if connection in empty:
            level = Level.FAIL if empty == connections else Level.WARN
            findings.append(_without_tables(connection, level))
        else:
            findings += _missing(context, connection, repository)
    return findings or [CheckResult(CONTEXT, Level.OK, "every database has context")]


def _repository(context: CheckContext) -> Repository | None:
    try:
        return context.repository
    except KtxError:  # reported by the check of the repository
        return None


def _is_empty(layout: Layout, connection: str) -> bool:
    """Return whether the last scan found no table; an unreadable snapshot counts as unknown."""
    where = layout.raw_path(connection, DATABASE_SOURCE, MANIFEST)
    try:
        text = WorkingTree(layout.root).read(where)
        return text is not None and not shard_files(layout, connection) and not manifest_hashes(text, where)
    except KtxError:
        return False


def _without_tables(connection: str, level: Level) -> CheckResult:
    message = f"connection `{connection}` has no tables, so there is no context"
    hint = Hint(
        "create a table in it, or correct {} in ktx.yaml; then: {}",
        SettingPath(f"connections.{connection}"),
        Command("ingest", connection),
    )
    return CheckResult(CONTEXT, level, message, hint, Concern.SETUP)


def _missing(context: CheckContext, connection: str, repository: Repository | None) -> Iterator[CheckResult]:
    """Yield the shards of the connection that are missing from the working tree."""
    has_shards = bool(shard_files(context.layout, connection))
    absent = [] if repository is None else _absent(repository, context.layout, connection)
    sparse = [held for held in absent if held.reason is HeldReason.SKIP_WORKTREE]
    lost = [held for held in absent if held.reason not in (HeldReason.SKIP_WORKTREE, HeldReason.UNREADABLE)]
    if lost:
        what = listing(held.path for held in lost)
        message = f"context of connection `{connection}` is deleted in your working tree: {what}"
        hint = held_hint(((held.path, held.reason) for held in lost), context.project_dir)
        yield CheckResult(CONTEXT, Level.FAIL, message, hint, Concern.SETUP)
    elif sparse and repository is not None and not has_shards:
        message = f"the context of connection `{connection}` is outside your sparse checkout"
        where = f"{repository.layout.prefix}{SEMANTIC_NAME}"
        hint = Command("-C", repository.layout.top_level, "sparse-checkout", "add", where, program="git")
        yield CheckResult(CONTEXT, Level.FAIL, message, hint, Concern.SETUP)
    elif not has_shards:
        message = f"connection `{connection}` has no context yet"
        yield CheckResult(CONTEXT, Level.FAIL, message, Command("ingest", connection), Concern.SETUP)


def _absent(repository: Repository, layout: Layout, connection: str) -> list[Held]:
    try:
        shards = repository.committed(layout.schema_path(connection))
        return repository.absent(path for path in shards if path.endswith(SUFFIXES))
    except KtxError:  # reported by the check of the repository
        return []


WIKI, SEMANTIC = "wiki", "semantic"
MOST = 20
"""The largest number of results of a kind that are listed one by one."""


@of_files(WIKI)
def check_wiki(context: CheckContext) -> list[CheckResult]:
    """Check that wiki pages have no broken references, as `ktx wiki lint` does."""
    from ktx_cli.jobs.wiki import lint_wiki

    linted = lint_wiki(context.layout, context.loaded.config)
    dangling = [diagnostic for diagnostic in linted.findings if diagnostic.code.startswith("dangling_")]
    if not dangling:
        return [CheckResult(WIKI, Level.OK, "wiki pages have no broken links")]
    findings = [
        CheckResult(WIKI, Level.WARN, str(each), _edit(each), location=Location(each.path, each.line))
        for each in dangling
    ]
    return _bounded(findings, Command("wiki", "lint"))


def _edit(diagnostic: Diagnostic) -> str:
    if not diagnostic.hint:
        return f"edit {diagnostic.path} line {diagnostic.line}"
    return Hint("in {} line {}: {}", diagnostic.path, diagnostic.line, diagnostic.hint)


@of_files(SEMANTIC)
def check_semantic(context: CheckContext) -> list[CheckResult]:
    """Check that definitions of the semantic layer have no errors, as `ktx sl validate` does for the files."""
    from ktx_cli.jobs.semantic.validate import validate_layers

    validation = validate_layers(context.layout, context.loaded.config, environ=context.environ, data=False)
    errors = [problem for _, problem in validation.problems if problem.severity == "error"]
    if not errors:
        return _without_errors(context)
    return _bounded([_of_problem(error, Level.FAIL) for error in errors], Command("sl", "validate"))


def _without_errors(context: CheckContext) -> list[CheckResult]:
    if not layer_ids(context.layout):
        return [CheckResult(SEMANTIC, Level.SKIP, "there is no semantic layer yet")]
    return [CheckResult(SEMANTIC, Level.OK, "the definitions have no errors")]


def _of_problem(problem: Diagnostic, level: Level) -> CheckResult:
    file, line = escaped(problem.path), problem.line
    hint = Hint("in {} line {}: {}", file, line, problem.hint) if problem.hint else f"correct {file} line {line}"
    return CheckResult(SEMANTIC, level, f"{file}:{line}: {problem.message}", hint, location=Location(file, line))


@of_files(SEMANTIC)
def check_compiled(context: CheckContext) -> list[CheckResult]:
    """Check that every definition compiles, using the last run's result or, for changed files, the current content.

    Files that belong to no connection are included: they block raw SQL on every database.
    """
    from ktx_cli.engine import broken_now, broken_sentence, way_out

    strays = stray_problems(context.layout, context.loaded.config)
    findings = _bounded([_of_problem(problem, Level.WARN) for problem in strays], Command("sl", "validate"))
    broken = broken_now(context.layout, context.loaded.config)
    if broken:
        first = broken[0]
        message, hint = broken_sentence(broken, "do not compile"), way_out(broken)
        findings.append(CheckResult(SEMANTIC, Level.WARN, message, hint, location=Location(first.path, first.line)))
    return findings or _without_errors(context)


def check_contradictions(context: CheckContext) -> list[CheckResult]:
    """Check that contradictions between sources are decided; no result if none were ever recorded."""
    from ktx_cli.wiki import load_contradictions

    try:
        found = load_contradictions(WorkingTree(context.layout.root))
    except KtxError as error:
        location = Location(CONTRADICTIONS_NAME)
        return [CheckResult(CONTRADICTIONS, Level.WARN, error.message, error.hint, location=location)]
    undecided = [each for each in found if not each.is_decided]
    if not undecided:
        return [CheckResult(CONTRADICTIONS, Level.OK, "every recorded contradiction is decided")] if found else []
    topics = listing(each.topic for each in undecided)
    verb = "waits" if len(undecided) == 1 else "wait"
    message = f"{plural(len(undecided), 'contradiction')} between sources {verb} for a decision: {topics}"
    review = Command("wiki", "contradictions", "--review")
    hint = Hint("decide with {}, or correct the source and delete the entry", review)
    return [CheckResult(CONTRADICTIONS, Level.WARN, message, hint, location=Location(CONTRADICTIONS_NAME))]


@of_files(DECISIONS)
def check_decisions(context: CheckContext) -> list[CheckResult]:
    """Check that decision points are decided; with the policy `refuse`, an open one is a failure.

    No values are shown, because check results go to CI and to agents.
    """
    config = context.loaded.config
    recorded = [each for each in layer_ids(context.layout) if has_points(context.layout, each)]
    if not recorded:
        return [CheckResult(DECISIONS, Level.OK, "no scan has found decision points")]
    from ktx_cli.jobs.decide.notes import project_decisions
    from ktx_cli.jobs.decide.points import read_all

    try:
        loaded, warnings = read_all(context.layout, config, only=recorded)
    except KtxError as error:
        return [CheckResult(DECISIONS, Level.WARN, error.message, error.hint, location=Location(DECISIONS_NAME))]
    findings = [CheckResult(DECISIONS, Level.WARN, each.message, each.hint, cause=each.cause) for each in warnings]
    waiting = project_decisions(loaded)
    if not waiting:
        return findings or [CheckResult(DECISIONS, Level.OK, "no decisions are open")]
    refuses = config.semantic.open_decisions == "refuse"
    largest = waiting[0]
    name = "" if largest.is_masked else f"{largest.point.id}, "
    count = plural(len(waiting), "open decision")
    message = f"{count}, the largest: {name}{largest.effect_text(values=False)}"
    if refuses:
        message += "; answers that depend on them are refused"
    level = Level.FAIL if refuses else Level.WARN
    return [*findings, CheckResult(DECISIONS, level, message, Command("decide"))]


@of_files(CONVENTIONS)
def check_conventions(context: CheckContext) -> list[CheckResult]:
    """Check that time zone, fiscal years and weeks in `ktx.yaml` agree with the sources."""
    from ktx_cli.sources import open_conventions, recorded_conventions

    config = context.loaded.config
    try:
        recorded = recorded_conventions(WorkingTree(context.layout.root), sorted(config.connections))
    except KtxError as error:
        return [CheckResult(CONVENTIONS, Level.WARN, error.message, error.hint)]
    found = open_conventions(config, recorded) if config.databases() else []
    if not found:
        verdict = "agree with ktx.yaml" if recorded else "state none"
        return [CheckResult(CONVENTIONS, Level.OK, f"the sources {verdict}")]
    location = Location(CONFIG_NAME)
    return [CheckResult(CONVENTIONS, Level.WARN, each.message, each.hint, location=location) for each in found]


def _bounded(findings: Sequence[CheckResult], command: str) -> list[CheckResult]:
    """Return the first results, and a result that counts the others."""

    kept = list(findings[:MOST])
    if len(findings) > MOST:
        first = findings[0]
        kept.append(
            CheckResult(first.check, first.level, f"{len(findings) - MOST} more: run {command} to list them", command)
        )
    return kept


INDEX = "index"


@of_files(INDEX)
def check_index(context: CheckContext) -> list[CheckResult]:
    """Check that the index exists, is intact and up to date, with vectors if embeddings are configured."""
    from ktx_cli.agent_tools import open_searcher

    searcher = open_searcher(context.layout, context.loaded.config, context.environ)
    try:
        drift = searcher.drift()
    except StorageError as error:
        return [failed(INDEX, error)]
    finally:
        searcher.close()
    if not drift:
        where = f" ({index_place})" if (index_place := searcher.place()) else ""
        return [CheckResult(INDEX, Level.OK, f"the search index is up to date{where}")]
    return [
        CheckResult(INDEX, Level.WARN, warning.problem, warning.hint, repair=lambda: _rebuilt(context))
        for warning in drift
    ]


def _rebuilt(context: CheckContext) -> str:
    from ktx_cli.jobs.index import index_project

    done = index_project(context.layout, context.loaded.config, context.environ, warn=lambda warning: None)
    if done.error is not None:
        raise done.error
    return (
        f"updated the search index: {done.added:,} documents added, {done.removed:,} removed, "
        f"{done.documents:,} in total"
    )
