"""`ktx agents install` and `uninstall`: the entry of a project in a client's configuration, and its skills."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core import (
    Command,
    Hint,
    KtxError,
    NotReadyError,
    NotSupportedError,
    PartialError,
    Record,
    ResultWarning,
    UsageError,
    listing,
    shell_words,
)
from ktx_cli.jobs.clients.manifest import (
    Address,
    Configuration,
    Entry,
    Install,
    Manifest,
    attributes_in,
    digest,
    folder_of,
    http_entry,
    is_ktx,
    is_of,
    load_manifest,
    read_configuration,
    save_manifest,
    stdio_entry,
    words_of,
    written,
)
from ktx_cli.jobs.clients.staging import Diff, Staging, diff_of, remove_empty
from ktx_cli.jobs.clients.targets import (
    CLIENTS,
    NAME,
    PREFIX,
    Scope,
    Target,
    Where,
    found_program,
    installed_program,
    skill_files,
)
from ktx_cli.project import Layout, remove_dead_leftovers_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
DEFAULT_NAME = "ktx"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `scope`: None is the client's first. `variables`: what the project's secrets are in.

    `attributes`: of the caller, as `--user-attribute` takes them; None: those of the entry that is there.
    """

    targets: Sequence[Target]
    scope: Scope | None = None
    name: str | None = None
    address: Address | None = None
    variables: Sequence[str] = ()
    dry_run: bool = False
    attributes: Sequence[str] | None = None


@dataclass(slots=True)
class _Work:
    """An installation while it is put together; nothing is written before all of it is."""

    wanted: Wanted
    where: Where
    manifest: Manifest
    staging: Staging = field(init=False)
    warnings: list[ResultWarning] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.staging = Staging(self.where.project)


def install(wanted: Wanted, where: Where) -> Report:
    """Install into clients, all of them or (by an error) none.

    Raises `UsageError` for a scope or a name that cannot be, `ConfigError` for a configuration that cannot be read or
    edited, `StorageError` for a file that cannot be written.
    """
    if wanted.name is not None and not _NAME.fullmatch(wanted.name):
        raise UsageError(
            "--name takes letters, digits, `-` and `_`, 64 at most", hint=f"for example: --name {_folder_name(where)}"
        )
    work = _Work(wanted, where, load_manifest(Layout(where.project)))
    outcomes = [_install_one(work, target, scope_of(target, wanted.scope)) for target in dict.fromkeys(wanted.targets)]
    return finished(where, work.manifest, work.staging, outcomes, dry_run=wanted.dry_run, warnings=work.warnings)


def scope_of(target: Target, scope: Scope | None) -> Scope:
    """Return the scope that is meant; `UsageError` for one the client does not have."""
    places = CLIENTS[target].places
    found = next(iter(places)) if scope is None else scope
    if found not in places:
        only = next(iter(places)).value
        raise UsageError(f"{target} has no configuration for a {found.value}", hint=f"for {target}: --scope {only}")
    return found


def _install_one(work: _Work, target: Target, scope: Scope) -> Outcome:
    outcome = Outcome(target, scope)
    recorded = work.manifest.of(target, scope) or Install(target=target, scope=scope)
    configuration = read_configuration(target, scope, work.where, work.staging)
    value = _value(work, target, scope, _attributes(work, configuration, recorded.entry))
    entry = None
    if configuration is None:
        outcome.name, outcome.entry = work.wanted.name or DEFAULT_NAME, value
    else:
        entry = _install_entry(work, configuration, value, recorded.entry, outcome)
    skills = _install_skills(work, recorded, outcome)
    work.manifest.put(Install(target=target, scope=scope, entry=entry, skills=skills))
    return outcome


def _attributes(work: _Work, configuration: Configuration | None, recorded: Entry | None) -> Sequence[str]:
    """Return the attributes of the caller; unless some are asked for those of our entry in the client's own file."""
    if work.wanted.attributes is not None or configuration is None or recorded is None:
        return work.wanted.attributes or ()
    return attributes_in(configuration.entries.get(recorded.name))


def _value(work: _Work, target: Target, scope: Scope, attributes: Sequence[str]) -> dict[str, Any]:
    client, address = CLIENTS[target], work.wanted.address
    if address is not None:
        if not client.http:
            raise UsageError(
                f"{target} starts servers itself, its file names none that are running",
                hint="leave --http out, or add the address as a connector in its settings",
            )
        return http_entry(client, address)
    installed = installed_program(work.where.environ)
    if client.filters and client.form != "codex" and work.wanted.variables:
        work.warnings.append(_unseen(target, work.wanted.variables))
    if scope is Scope.USER or target is Target.UNIVERSAL:
        _require_text(work.where.project, installed)
        return stdio_entry(client, Scope.USER, str(installed), work.where.project, work.wanted.variables, attributes)
    if found_program(work.where.environ) is None and not any(each.code == "not_on_path" for each in work.warnings):
        work.warnings.append(_not_on_path(installed))
    return stdio_entry(client, scope, NAME, work.where.project, work.wanted.variables, attributes)


def _require_text(*paths: Path) -> None:
    """Raise `NotSupportedError` for a path whose bytes are not UTF-8, as JSON and TOML have to be."""
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            raise NotSupportedError(
                f"{path} has a name that is not UTF-8, which no file of a client can name", hint="rename the folder"
            ) from error


def _unseen(target: Target, variables: Sequence[str]) -> ResultWarning:
    return ResultWarning(
        "variables_unseen",
        f"{target} hands none of your shell's variables to servers, and ktx.yaml names {listing(sorted(variables))}",
        hint="refer to those secrets by file:PATH or keyring:NAME in ktx.yaml",
        target=target.value,
    )


def _not_on_path(installed: Path) -> ResultWarning:
    return ResultWarning(
        "not_on_path",
        f"files of a project are shared, so they name `{NAME}` alone, and PATH has none",
        hint=f"add {shell_words(installed.parent)} to PATH, or install for yourself: --scope user",
    )


# -- the entry -------------------------------------------------------------------------------------------------


def _install_entry(
    work: _Work, configuration: Configuration, value: dict[str, Any], recorded: Entry | None, outcome: Outcome
) -> Entry | None:
    if recorded is not None and recorded.path != configuration.shown:
        recorded = None  # the client looks elsewhere now; what is in the other file stays
    entries, before = configuration.entries, configuration.text
    name = _name_for(work, configuration, entries, recorded)
    outcome.name, outcome.path, outcome.entry = name, configuration.path, value
    if recorded is not None and recorded.name != name and entries.get(recorded.name) == recorded.value:
        configuration.take(recorded)
    made = _standing(configuration, name, value, recorded, outcome) if name in entries else None
    if made is None:
        outcome.action = "updated" if recorded and recorded.name in entries else "added"
        made = configuration.put(name, value)
    _inherit(work, configuration, made, recorded)
    if configuration.text != before:
        work.staging.write(configuration.path, (configuration.text or "").encode())
    return made


def _standing(
    configuration: Configuration, name: str, value: dict[str, Any], recorded: Entry | None, outcome: Outcome
) -> Entry | None:
    """Return the record of an entry that stays as it is; None for an older one of ours, which is taken out."""
    current = configuration.entries[name]
    known = recorded if recorded is not None and recorded.name == name else None
    if current == value:
        outcome.action = "unchanged"
        return known if known and known.value == value else _adopted(configuration, name, value)
    if known is not None and current == known.value:
        configuration.take(known)
        return None
    outcome.action, outcome.entry = "kept", current
    if known is None or known.value != value:
        outcome.left.append(_edited(configuration, name))
    return known or _adopted(configuration, name, current)


def _name_for(work: _Work, configuration: Configuration, entries: dict[str, Any], recorded: Entry | None) -> str:
    """Return under which name the entry goes; `UsageError` where it is taken by something that is not ours."""
    scope, project = configuration.scope, work.where.project
    ours = [name for name, value in entries.items() if _is_ours(value, scope, project, recorded, name)]
    if work.wanted.name is not None:
        return _free(configuration, entries, ours, work.wanted.name)
    if recorded is not None:
        return _free(configuration, entries, ours, recorded.name)
    if ours:
        return ours[0]
    if is_ktx(entries.get(DEFAULT_NAME)):  # another project's, which was here first
        return _free(configuration, entries, ours, _folder_name(work.where))
    return _free(configuration, entries, ours, DEFAULT_NAME)


def _free(configuration: Configuration, entries: dict[str, Any], ours: Sequence[str], name: str) -> str:
    if name not in entries or name in ours:
        return name
    raise UsageError(
        f"{configuration.path} has a server `{name}` already that is not this project's",
        hint="give this one another name: --name NAME",
        details={"path": str(configuration.path), "name": name},
    )


def _is_ours(value: Any, scope: Scope, project: Path, recorded: Entry | None, name: str | None = None) -> bool:
    known = recorded is not None and name in (None, recorded.name) and value == recorded.value
    return known or is_of(value, scope, project)


def _folder_name(where: Where) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", where.project.name.lower()).strip("-")[:40]
    return f"{DEFAULT_NAME}-{slug or 'project'}"


def _adopted(configuration: Configuration, name: str, value: dict[str, Any]) -> Entry:
    """Return the record of an entry that was there: a colleague's, of a file that is shared."""
    container = list(configuration.container)
    return Entry(
        path=configuration.shown, container=container, name=name, value=value, there=len(container), created=False
    )


def _edited(configuration: Configuration, name: str) -> Left:
    target, scope = configuration.target.value, configuration.scope.value
    uninstall = Command("agents", "uninstall", "--target", target, "--scope", scope)
    return Left(
        str(configuration.path),
        f"somebody changed the entry `{name}`",
        Hint("edit it by hand, or take it out and install again: {}", uninstall),
    )


def _inherit(work: _Work, configuration: Configuration, made: Entry, recorded: Entry | None) -> None:
    """Let what ktx made around the entry go with the last entry that is in it, whichever project that is of."""
    peers = list(configuration.peers(work.where.project))
    for each in [recorded, *(install.entry for install, _ in peers)]:
        if each is not None:
            made.created = made.created or each.created
            made.there = min(made.there, each.there)
    for _, folders in peers:
        work.manifest.folders += [folder for folder in folders if folder not in work.manifest.folders]


# -- the skills ------------------------------------------------------------------------------------------------


def _install_skills(work: _Work, recorded: Install, outcome: Outcome) -> dict[str, str]:
    """Write the skills that are missing or older; return all that are ktx's."""
    ours = dict(recorded.skills)
    known = {path: sha for install in work.manifest.installs for path, sha in install.skills.items()}
    for path, content in skill_files(CLIENTS[outcome.target].places[outcome.scope], work.where).items():
        key, current = written(path, work.where.project), work.staging.read(path)
        if current is not None and current != content and digest(current) != known.get(key):
            outcome.left.append(_foreign(path))
            continue
        if current != content:
            work.staging.write(path, content)
        ours[key] = digest(content)
    return ours


def _foreign(path: Path) -> Left:
    return Left(
        str(path),
        "it is not as ktx wrote it",
        Hint("move it away, then install again: {}", Command(path, program="rm")),
    )


def finished(
    where: Where,
    manifest: Manifest,
    staging: Staging,
    outcomes: Sequence[Outcome],
    *,
    dry_run: bool,
    warnings: Sequence[ResultWarning] = (),
) -> Report:
    """Write what was staged, and what is installed then.

    The manifest knows of a file before it is there, and forgets it when it is gone: who is killed between the two
    finds everything by uninstalling.
    """
    report = Report(outcomes, [diff_of(change) for change in staging.changes], dry_run, warnings)
    if dry_run:
        return report
    for path in _of_clients(where):
        remove_dead_leftovers_of(path)
    layout = Layout(where.project)
    before = load_manifest(layout)
    made = [written(folder, where.project) for folder in staging.missing_folders()]
    manifest.folders += [folder for folder in made if folder not in manifest.folders]
    if before.installs != manifest.installs or before.folders != manifest.folders:
        save_manifest(layout, _both(before, manifest))
    try:
        staging.apply()
    except BaseException:
        save_manifest(layout, before)
        raise
    made_folders, around = {where.project / folder for folder in manifest.folders}, _around(where)
    kept = [*remove_empty(sorted(made_folders & around)), *sorted(made_folders - around)]
    manifest.folders = [written(folder, where.project) for folder in kept] if manifest.installs else []
    save_manifest(layout, manifest)
    return report


def _around(where: Where) -> set[Path]:
    """Return the folders around the files of clients: no other one can have been made for them."""
    return {folder for path in _of_clients(where) for folder in path.parents}


def _of_clients(where: Where) -> set[Path]:
    """Return the files of all clients, also where links lead to."""
    found: set[Path] = set()
    for place in (place for client in CLIENTS.values() for place in client.places.values()):
        with contextlib.suppress(NotReadyError):  # without a home nothing is installed there
            for path in (*where.configs(place), *skill_files(place, where)):
                found.update((path, Path(os.path.realpath(path))))
    return found


def _both(before: Manifest, after: Manifest) -> Manifest:
    """Return what is or will be installed."""
    both = after.model_copy(deep=True)
    for install in before.installs:
        if both.of(install.target, install.scope) is None:
            both.put(install)
    return both


@dataclass(frozen=True, slots=True)
class Left(Record):
    """Something that was not touched, because it is not as ktx wrote it."""

    path: str
    reason: str
    hint: str


@dataclass(slots=True)
class Outcome(Record):
    """One client in one scope.

    `action`: added, updated, unchanged, kept, removed, left, absent or none (the client has no file). `entry`: what
    stands in the file, or has to be pasted. `path`: the file, None where there is none.
    """

    target: Target
    scope: Scope
    action: str = "none"
    name: str | None = None
    path: Path | None = None
    entry: dict[str, Any] | None = None
    left: list[Left] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report(Record):
    """Everything a command did. `diffs`: the files that changed, or would."""

    outcomes: Sequence[Outcome]
    diffs: Sequence[Diff]
    dry_run: bool
    warnings: Sequence[ResultWarning] = ()

    @property
    def error(self) -> PartialError | None:
        """What was left alone, None where nothing was."""
        left = [each for outcome in self.outcomes for each in outcome.left]
        if not left:
            return None
        skipped = listing((f"{each.path} ({each.reason})" for each in left), 3)
        return PartialError(
            f"left alone: {skipped}", hint=left[0].hint, details={"left": [each.to_json() for each in left]}
        )

    json_keys = ("dry_run", "clients=outcomes", "files=diffs")


@dataclass(slots=True)
class _UninstallWork:
    """What is taken out, while it is put together."""

    where: Where
    manifest: Manifest
    staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self.staging = Staging(self.where.project)


def uninstall(where: Where, targets: Sequence[Target], scope: Scope | None, *, dry_run: bool) -> Report:
    """Take this project out of clients (no targets: of all it was installed into).

    Raises `ConfigError` for a configuration that cannot be read, `StorageError` for one that cannot be written.
    """
    work = _UninstallWork(where, load_manifest(Layout(where.project)))
    chosen = _chosen(work.manifest, targets, scope)
    outcomes = [_uninstall_one(work, install) for install in chosen]
    return finished(where, work.manifest, work.staging, outcomes, dry_run=dry_run)


def _chosen(manifest: Manifest, targets: Sequence[Target], scope: Scope | None) -> list[Install]:
    """Return what to take out. Of a named client also what nobody recorded here, such as a colleague's entry."""
    found = [
        each
        for each in manifest.installs
        if (not targets or each.target in targets) and (scope is None or each.scope is scope)
    ]
    for target in dict.fromkeys(targets):
        if not any(each.target is target for each in found):
            found.append(Install(target=target, scope=scope_of(target, scope)))
    return found


def _uninstall_one(work: _UninstallWork, install: Install) -> Outcome:
    outcome = Outcome(install.target, install.scope, action="absent")
    is_recorded = work.manifest.of(install.target, install.scope) is not None
    work.manifest.drop(install.target, install.scope)
    entry = _uninstall_entry(work, install, outcome)
    skills = _uninstall_skills(work, install, outcome, is_recorded=is_recorded)
    if entry is not None or skills:
        work.manifest.put(Install(target=install.target, scope=install.scope, entry=entry, skills=skills))
    return outcome


def _uninstall_entry(work: _UninstallWork, install: Install, outcome: Outcome) -> Entry | None:
    """Take the entry out; return its record where it was left alone."""
    recorded = install.entry
    configuration = read_configuration(install.target, install.scope, work.where, work.staging, recorded)
    if configuration is None:
        if recorded is not None:
            outcome.left.append(_elsewhere(recorded))
        return recorded
    outcome.path = configuration.path
    entry = recorded or _unrecorded(configuration, work.where)
    if entry is None or entry.name not in configuration.entries:
        return None
    outcome.name, current = entry.name, configuration.entries[entry.name]
    if current != entry.value and not is_of(current, install.scope, work.where.project):
        outcome.action = "left"
        outcome.left.append(_replaced(configuration, entry.name))
        return entry
    configuration.take(entry)
    outcome.action = "removed"
    if configuration.text is None:
        work.staging.remove(configuration.path)
    else:
        work.staging.write(configuration.path, configuration.text.encode())
    return None


def _unrecorded(configuration: Configuration, where: Where) -> Entry | None:
    """Return the entry of this project that nobody recorded here."""
    container = list(configuration.container)
    for name, value in configuration.entries.items():
        if is_of(value, configuration.scope, where.project):
            return Entry(
                path=configuration.shown,
                container=container,
                name=name,
                value=value,
                there=len(container),
                created=False,
            )
    return None


def _elsewhere(entry: Entry) -> Left:
    return Left(entry.path, "the client looks elsewhere now", f"take `{entry.name}` out of {entry.path} by hand")


def _replaced(configuration: Configuration, name: str) -> Left:
    return Left(
        str(configuration.path),
        f"the entry `{name}` is not what ktx wrote",
        f"take `{name}` out of {configuration.path} by hand, if nobody needs it",
    )


def _uninstall_skills(work: _UninstallWork, install: Install, outcome: Outcome, *, is_recorded: bool) -> dict[str, str]:
    """Remove the skills that nobody else uses; return those that were left alone."""
    left: dict[str, str] = {}
    used = {*work.manifest.skill_files(), *_used_by_others(work, install)}
    for key, wrote in _skills(work, install, is_recorded=is_recorded).items():
        path = work.where.project / key
        reason = _reason_to_leave(work, install, path, wrote)
        if key in used or reason is None:
            continue
        if not reason:
            work.staging.remove(path)
            outcome.action = "removed" if outcome.action == "absent" else outcome.action
        elif is_recorded:
            left[key] = wrote
            outcome.left.append(Left(str(path), reason, Hint("if nobody needs it: {}", Command(path, program="rm"))))
    return left


def _skills(work: _UninstallWork, install: Install, *, is_recorded: bool) -> dict[str, str]:
    """Return the skills that ktx wrote, with the sha256 of each: as recorded, else as they are packaged."""
    if is_recorded:
        return install.skills
    packaged = skill_files(CLIENTS[install.target].places[install.scope], work.where)
    return {written(path, work.where.project): digest(content) for path, content in packaged.items()}


def _reason_to_leave(work: _UninstallWork, install: Install, path: Path, wrote: str) -> str | None:
    """Return why a skill is not removed, "" where it can be, None where it is not there."""
    if not path.exists():
        return None
    folder = work.where.skills(CLIENTS[install.target].places[install.scope])
    if folder is None or not path.is_relative_to(folder) or ".." in path.parts:
        return "the client looks elsewhere now"
    if not path.relative_to(folder).parts[0].startswith(PREFIX):
        return "it is no skill of ktx's"
    return "" if digest(work.staging.read(path) or b"") == wrote else "somebody changed it"


def _used_by_others(work: _UninstallWork, install: Install) -> set[str]:
    """Return the skills of this user that other projects count on."""
    used: set[str] = set()
    if install.scope is Scope.USER:
        for target, client in CLIENTS.items():
            if client.places[Scope.USER].skills != CLIENTS[install.target].places[Scope.USER].skills:
                continue
            try:
                configuration = read_configuration(target, Scope.USER, work.where, work.staging)
                peers = list(configuration.peers(work.where.project)) if configuration else []
            except KtxError:  # another client's file that cannot be read says nothing about others
                continue
            used.update(path for peer, _ in peers for path in peer.skills)
    return used


NOT_INSTALLED, INSTALLED, CHANGED, STALE, UNREADABLE = "not_installed", "installed", "changed", "stale", "unreadable"


@dataclass(slots=True)
class State(Record):
    """One client in one scope. `reasons`: what is changed, stale or unreadable, one sentence each."""

    target: Target
    scope: Scope
    state: str = NOT_INSTALLED
    name: str | None = None
    path: Path | None = None
    reasons: list[str] = field(default_factory=list)

    def say(self, state: str, reason: str) -> None:
        """Add a reason; of several states the first is the one."""
        self.state = state if self.state == INSTALLED else self.state
        self.reasons.append(reason)


def list_clients(where: Where) -> list[State]:
    """Return the state of every client in every scope; nothing is started or written."""
    manifest = load_manifest(Layout(where.project))
    return [
        _state(target, scope, manifest.of(target, scope), where)
        for target, client in CLIENTS.items()
        for scope in client.places
    ]


def _state(target: Target, scope: Scope, install: Install | None, where: Where) -> State:
    state, staging = State(target, scope), Staging(where.project)
    try:
        _look_at_entry(state, install, where, staging)
        _look_at_skills(state, install, where, staging)
    except KtxError as error:
        state.state, state.reasons = UNREADABLE, [error.message]
    return state


def _look_at_entry(state: State, install: Install | None, where: Where, staging: Staging) -> None:
    recorded = install.entry if install else None
    configuration = read_configuration(state.target, state.scope, where, staging, recorded)
    if configuration is None:
        state.state = INSTALLED if install else NOT_INSTALLED
        if recorded is not None:
            state.say(STALE, f"it was written to {recorded.path}, where the client does not look now")
        return
    state.path, entries = configuration.path, configuration.entries
    ours = [name for name, value in entries.items() if is_of(value, state.scope, where.project)]
    state.name = recorded.name if recorded else next(iter(ours), None)
    if state.name is None:
        state.state = INSTALLED if install else NOT_INSTALLED
        return
    state.state = INSTALLED
    if state.name not in entries:
        state.say(CHANGED, f"`{state.name}` is not in the file any more")
        return
    for kind, reason in _problems(entries[state.name], recorded, state.scope, where):
        state.say(kind, reason)


def _problems(value: Any, recorded: Entry | None, scope: Scope, where: Where) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an entry: it cannot work, or is not as it was written."""
    if is_ktx(value):
        folder, program = folder_of(value), words_of(value)[0]
        if folder is not None and not is_of(value, scope, where.project):
            yield STALE, f"it serves {folder}, and this project is {where.project}"
        if not _is_there(program, where):
            gone = "is not there any more" if os.sep in program else "is not on PATH"
            yield STALE, f"the program `{program}` {gone}"
    if recorded is not None and value != recorded.value:
        yield CHANGED, f"somebody changed `{recorded.name}`"


def _is_there(program: str, where: Where) -> bool:
    if os.sep in program:
        return Path(program).is_file() and os.access(program, os.X_OK)
    return found_program(where.environ, program) is not None


def _look_at_skills(state: State, install: Install | None, where: Where, staging: Staging) -> None:
    if install is None:
        return
    for path, content in skill_files(CLIENTS[state.target].places[state.scope], where).items():
        key, current = written(path, where.project), staging.read(path)
        if key not in install.skills or current is None:
            state.say(CHANGED, f"{path} is missing" if current is None else f"{path} is not ktx's")
        elif digest(current) != install.skills[key]:
            state.say(CHANGED, f"somebody changed {path}")
        elif current != content:
            state.say(STALE, f"{path} is of another version of ktx")
