"""`ktx agents install` and `uninstall`: the entry of a project in a client's configuration, and its skills."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
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
    agent_in,
    attributes_in,
    digest,
    http_entry,
    is_ktx,
    is_of,
    load_manifest,
    profile_in,
    read_configuration,
    save_manifest,
    server_options,
    stdio_entry,
    written,
)
from ktx_cli.jobs.clients.staging import Diff, Staging, diff_of, remove_empty
from ktx_cli.jobs.clients.targets import CLIENTS, NAME, PREFIX, Scope, Target, Where, installed_program, skill_files
from ktx_cli.project import Layout, found_program, remove_dead_leftovers_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
DEFAULT_NAME = "ktx"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An installation to make. `scope`: None is the client's first. `variables`: those of the project's secrets.

    `attributes`: of the caller, as in `--user-attribute`; `profile`: of the server.
    `agent`: in `serving.agents`. None: those of the existing entry.
    """

    targets: Sequence[Target]
    scope: Scope | None = None
    name: str | None = None
    address: Address | None = None
    variables: Sequence[str] = ()
    dry_run: bool = False
    attributes: Sequence[str] | None = None
    profile: str | None = None
    agent: str | None = None


@dataclass(slots=True)
class _Edits:
    """The edits for an installation in progress; nothing is written before all edits are complete."""

    where: Where
    wanted: Wanted
    manifest: Manifest = field(init=False)
    staging: Staging = field(init=False)
    warnings: list[ResultWarning] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.manifest = load_manifest(Layout(self.where.project))
        self.staging = Staging((self.where.project, self.where.root, *map(Path, self.manifest.install_dirs)))


def install(wanted: Wanted, where: Where) -> InstallReport:
    """Install into clients: into all of them or, with an error, none.

    Raises `UsageError` for an invalid scope or name, `ConfigError` for a configuration that cannot be read or edited,
    `StorageError` for a file that cannot be written.
    """
    if wanted.name is not None and not _NAME.fullmatch(wanted.name):
        message = "--name accepts letters, digits, `-` and `_`, at most 64"
        raise UsageError(message, hint=f"for example: --name {_folder_name(where)}")
    if where.install_dir is not None:
        if wanted.scope is Scope.USER:
            message = "--install-dir selects the folder of project files, but --scope user writes to your own settings"
            raise UsageError(message, hint="omit one of them")
        if not where.install_dir.is_dir():
            is_file = where.install_dir.exists()
            message = f"{where.install_dir} {'is not a folder' if is_file else 'does not exist'}"
            hint = Command("-p", where.install_dir, program="mkdir")
            raise UsageError(message, hint="pass the folder in which the agent works" if is_file else hint)
    edits, wanted_scope = _Edits(where, wanted), Scope.PROJECT if where.install_dir is not None else wanted.scope
    outcomes = [_install_one(edits, target, scope_of(target, wanted_scope)) for target in dict.fromkeys(wanted.targets)]
    return _finished(edits, outcomes)


def scope_of(target: Target, scope: Scope | None) -> Scope:
    """Return the requested scope; raises `UsageError` for a scope that the client does not have."""
    places = CLIENTS[target].places
    found = next(iter(places)) if scope is None else scope
    if found not in places:
        only = next(iter(places)).value
        raise UsageError(f"{target} has no configuration for a {found.value}", hint=f"use --scope {only} for {target}")
    return found


def _install_one(edits: _Edits, target: Target, scope: Scope) -> ClientOutcome:
    install_dir = None if edits.where.install_dir is None else str(edits.where.install_dir)
    outcome, made = (
        ClientOutcome(target, scope, install_dir),
        Install(target=target, scope=scope, install_dir=install_dir),
    )
    recorded = edits.manifest.of(*made.key) or made
    configuration = read_configuration(target, scope, edits.where, edits.staging)
    value = _value(edits, target, scope, _options(edits, configuration, recorded.entry))
    entry = None
    if configuration is None:
        outcome.name, outcome.entry = edits.wanted.name or DEFAULT_NAME, value
    else:
        entry = _install_entry(edits, configuration, value, recorded.entry, outcome)
    skills = _install_skills(edits, recorded, outcome)
    edits.manifest.put(made.model_copy(update={"entry": entry, "skills": skills}))
    return outcome


def _options(edits: _Edits, configuration: Configuration | None, recorded: Entry | None) -> Sequence[str]:
    """Return the server options; options not requested are taken from our entry in the client's own file."""
    wanted = edits.wanted
    ours = None if configuration is None or recorded is None else configuration.entries.get(recorded.name)
    attributes = attributes_in(ours) if wanted.attributes is None else wanted.attributes
    agent = agent_in(ours) if wanted.agent is None else wanted.agent
    return server_options(wanted.profile or profile_in(ours), agent, attributes)


def _value(edits: _Edits, target: Target, scope: Scope, options: Sequence[str]) -> dict[str, Any]:
    client, wanted, where = CLIENTS[target], edits.wanted, edits.where
    if wanted.address is not None:
        if not client.http:
            message = f"{target} starts servers itself and does not support running servers in its configuration file"
            raise UsageError(message, hint="omit --http, or add the URL as a connector in its settings")
        return http_entry(client, wanted.address)
    installed = installed_program(where.environ)
    if client.filters and not client.names_variables and wanted.variables:
        named = listing(sorted(wanted.variables))
        says = f"{target} does not pass your shell's variables to servers, but ktx.yaml refers to {named}"
        hint = "use file:PATH or keyring:NAME for those secrets in ktx.yaml"
        edits.warnings.append(ResultWarning("variables_unseen", says, hint=hint, target=target.value))
    program = NAME
    if scope is Scope.USER or target is Target.UNIVERSAL or where.install_dir is not None:
        _require_text(where.project, installed)
        scope, program = Scope.USER, str(installed)
    elif (lack := _lack(where.environ)) and not any(each.code == "not_on_path" for each in edits.warnings):
        says = f"files of a project are shared, so they start `{NAME}` without a path, but {lack}"
        hint = f"add {shell_words(installed.parent)} to PATH, or install for yourself: --scope user"
        edits.warnings.append(ResultWarning("not_on_path", says, hint=hint))
    return stdio_entry(client, scope, program, where.project, wanted.variables, options)


def _lack(environ: Mapping[str, str]) -> str | None:
    """Return why a client may not find the program; None if it is on PATH, even without the activated environment."""
    if found_program(environ) is None:
        return "PATH has none"
    activated = environ.get("VIRTUAL_ENV")
    if not activated:
        return None
    lasting = [
        folder
        for folder in environ.get("PATH", os.defpath).split(os.pathsep)
        if not Path(folder).is_relative_to(activated)
    ]
    if found_program({**environ, "PATH": os.pathsep.join(lasting)}) is not None:
        return None
    return f"only the activated environment {activated} has it, so clients that start elsewhere do not find it"


def _require_text(*paths: Path) -> None:
    """Raise `NotSupportedError` for a path that is not UTF-8, as JSON and TOML require."""
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            message = f"{path} has a name that is not UTF-8, so client files cannot refer to it"
            raise NotSupportedError(message, hint="rename the folder") from error


# -- the entry -------------------------------------------------------------------------------------------------


def _install_entry(
    edits: _Edits, configuration: Configuration, value: dict[str, Any], recorded: Entry | None, outcome: ClientOutcome
) -> Entry | None:
    if recorded is not None and recorded.path != configuration.shown:
        recorded = None  # the client uses another file now; the content of this one stays
    entries, before = configuration.entries, configuration.text
    name = _name_for(edits, configuration, entries, recorded)
    outcome.name, outcome.path, outcome.entry = name, configuration.path, value
    if recorded is not None and recorded.name != name and entries.get(recorded.name) == recorded.value:
        configuration.take(recorded)
    made = _found_entry(configuration, name, value, recorded, outcome) if name in entries else None
    if made is None:
        outcome.action = "updated" if recorded and recorded.name in entries else "added"
        made = configuration.put(name, value)
    _inherit(edits, configuration, made, recorded)
    if configuration.text != before:
        edits.staging.write(configuration.path, (configuration.text or "").encode())
    return made


def _found_entry(
    configuration: Configuration, name: str, value: dict[str, Any], recorded: Entry | None, outcome: ClientOutcome
) -> Entry | None:
    """Return the record of an entry that stays unchanged, or None for an older entry of ours, which is removed."""
    current = configuration.entries[name]
    known = recorded if recorded is not None and recorded.name == name else None
    if current == value:
        outcome.action = "unchanged"
        return known if known and known.value == value else configuration.found(name, value)
    if known is not None and current == known.value:
        configuration.take(known)
        return None
    outcome.action, outcome.entry = "kept", current
    if known is None or known.value != value:
        options = ("--target", configuration.target.value, "--scope", configuration.scope.value)
        hint = Hint("edit it by hand, or remove it and install again: {}", Command("agents", "uninstall", *options))
        outcome.left.append(Left(str(configuration.path), f"the entry `{name}` was edited", hint))
    return known or configuration.found(name, current)


def _name_for(edits: _Edits, configuration: Configuration, entries: dict[str, Any], recorded: Entry | None) -> str:
    """Return the name for the entry; raises `UsageError` if a foreign entry has that name."""
    wanted = edits.wanted.name
    ours = [
        name
        for name, value in entries.items()
        if (recorded is not None and name == recorded.name and value == recorded.value)
        or is_of(value, configuration.scope, edits.where)
    ]
    name = wanted or (recorded.name if recorded is not None else next(iter(ours), DEFAULT_NAME))
    if wanted is None and recorded is None and not ours and is_ktx(entries.get(DEFAULT_NAME)):
        name = _folder_name(edits.where)  # the other one belongs to another project that was here first
    if name not in entries or name in ours:
        return name
    message = f"{configuration.path} already has a server `{name}` that does not belong to this project"
    hint = "use another name: --name NAME"
    raise UsageError(message, hint=hint, details={"path": str(configuration.path), "name": name})


def _folder_name(where: Where) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", where.project.name.lower()).strip("-")[:40]
    return f"{DEFAULT_NAME}-{slug or 'project'}"


def _inherit(edits: _Edits, configuration: Configuration, made: Entry, recorded: Entry | None) -> None:
    """Ensure that what ktx created around the entry is removed with the last entry of any project."""
    peers = list(configuration.peers(edits.where))
    for each in [recorded, *(install.entry for install, _ in peers)]:
        if each is not None:
            made.created = made.created or each.created
            made.there = min(made.there, each.there)
    project = edits.where.project
    theirs = [written(Path(folder), project) for _, folders in peers for folder in folders]
    edits.manifest.folders += [folder for folder in dict.fromkeys(theirs) if folder not in edits.manifest.folders]


# -- the skills ------------------------------------------------------------------------------------------------


def _install_skills(edits: _Edits, recorded: Install, outcome: ClientOutcome) -> dict[str, str]:
    """Write the skills that are missing or older; return all ktx skills."""
    ours = dict(recorded.skills)
    known = {path: sha for install in edits.manifest.installs for path, sha in install.skills.items()}
    managed = _managed_skills(edits.where, outcome.scope)
    for path, content in skill_files(CLIENTS[outcome.target].places[outcome.scope], edits.where).items():
        key, current = written(path, edits.where.project), edits.staging.read(path)
        if current is not None and current != content and digest(current) != known.get(key):
            hint = Hint("move it away, then install again: {}", Command(path, program="rm"))
            outcome.left.append(Left(str(path), "it differs from what ktx wrote", hint))
            continue
        if current == content and key not in known and path.parent.name in managed:
            continue
        if current != content:
            edits.staging.write(path, content)
        ours[key] = digest(content)
    return ours


def _managed_skills(where: Where, scope: Scope) -> set[str]:
    """Return the names of the skills that `npx skills` has installed, according to its lock file."""
    path = where.root / "skills-lock.json" if scope is Scope.PROJECT else where.home / ".agents" / ".skill-lock.json"
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):  # not a lock file
        return set(json.loads(path.read_bytes()).get("skills", {}))
    return set()


def _finished(edits: _Edits, outcomes: Sequence[ClientOutcome]) -> InstallReport:
    """Write the staged files, and the record of the resulting installation.

    The manifest lists a file before it exists and until it is deleted, so that uninstalling finds everything after a
    kill.
    """
    where, manifest, staging = edits.where, edits.manifest, edits.staging
    layout = Layout(where.project)
    before = load_manifest(layout)
    diffs = [diff_of(change) for change in staging.changes]
    report = InstallReport(outcomes, diffs, edits.wanted.dry_run, edits.warnings)
    if report.dry_run:
        return report
    folders = {None, where.root, *before.install_dirs, *manifest.install_dirs}
    files = {path for folder in folders for path in _of_clients(where.at(None if folder is None else str(folder)))}
    for path in files:
        remove_dead_leftovers_of(path)
    made = [written(folder, where.project) for folder in staging.missing_folders()]
    manifest.folders += [folder for folder in made if folder not in manifest.folders]
    if before.installs != manifest.installs or before.folders != manifest.folders:
        save_manifest(layout, _both(before, manifest))
    try:
        staging.apply()
    except BaseException:
        save_manifest(layout, before)
        raise
    made_folders = {where.project / folder for folder in manifest.folders}
    around = {folder for path in files for folder in path.parents}  # it cannot have been created for another one
    kept = [*remove_empty(sorted(made_folders & around)), *sorted(made_folders - around)]
    manifest.folders = [written(folder, where.project) for folder in kept] if manifest.installs else []
    save_manifest(layout, manifest)
    return report


def _of_clients(where: Where) -> set[Path]:
    """Return the files of all clients, including the targets of links."""
    found: set[Path] = set()
    for place in (place for client in CLIENTS.values() for place in client.places.values()):
        with contextlib.suppress(NotReadyError):  # without a home folder, nothing is installed there
            for path in (*where.configs(place), *skill_files(place, where)):
                found.update((path, Path(os.path.realpath(path))))
    return found


def _both(before: Manifest, after: Manifest) -> Manifest:
    """Return what is installed or will be."""
    both = after.model_copy(deep=True)
    for install in before.installs:
        if both.of(*install.key) is None:
            both.put(install)
    return both


@dataclass(frozen=True, slots=True)
class Left(Record):
    """An item that was skipped because it differs from what ktx wrote."""

    path: str
    reason: str
    hint: str


@dataclass(slots=True)
class ClientOutcome(Record):
    """The result for one client in one scope.

    `action`: added, updated, unchanged, kept, removed, left, absent or none (the client has no file). `entry`: the
    entry in the file, or to paste. `path`: the file, None if there is none.
    """

    target: Target
    scope: Scope
    install_dir: str | None = None
    action: str = "none"
    name: str | None = None
    path: Path | None = None
    entry: dict[str, Any] | None = None
    left: list[Left] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InstallReport(Record):
    """The results of a command. `diffs`: the files that changed, or would."""

    outcomes: Sequence[ClientOutcome]
    diffs: Sequence[Diff]
    dry_run: bool
    warnings: Sequence[ResultWarning] = ()

    @property
    def error(self) -> PartialError | None:
        """The error for skipped files, None if there are none."""
        left = [each for outcome in self.outcomes for each in outcome.left]
        if not left:
            return None
        skipped = listing((f"{each.path} ({each.reason})" for each in left), 3)
        message = f"skipped: {skipped}"
        return PartialError(message, hint=left[0].hint, details={"left": [each.to_json() for each in left]})

    json_keys = ("dry_run", "clients=outcomes", "files=diffs")


def uninstall(where: Where, targets: Sequence[Target], scope: Scope | None, *, dry_run: bool) -> InstallReport:
    """Remove this project from clients; without targets, from all clients that it was installed into.

    With `where.install_dir`, only from that folder; otherwise, from all folders.

    Raises `ConfigError` for a configuration that cannot be read, `StorageError` for one that cannot be written.
    """
    edits = _Edits(where, Wanted(targets, scope, dry_run=dry_run))
    return _finished(edits, [_uninstall_one(edits, install) for install in _chosen(edits, targets, scope)])


def _chosen(edits: _Edits, targets: Sequence[Target], scope: Scope | None) -> list[Install]:
    """Return what to remove. For a named client, includes what is not recorded here, such as a colleague's entry."""
    only = None if edits.where.install_dir is None else str(edits.where.install_dir)
    found = [
        each
        for each in edits.manifest.installs
        if (not targets or each.target in targets)
        and (scope is None or each.scope is scope)
        and (only is None or each.install_dir == only)
    ]
    for target in dict.fromkeys(targets):
        if not any(each.target is target for each in found):
            wanted = scope if only is None else Scope.PROJECT
            found.append(Install(target=target, scope=scope_of(target, wanted), install_dir=only))
    return found


def _uninstall_one(edits: _Edits, install: Install) -> ClientOutcome:
    outcome = ClientOutcome(install.target, install.scope, install.install_dir, action="absent")
    where = edits.where.at(install.install_dir)
    is_recorded = edits.manifest.of(*install.key) is not None
    edits.manifest.drop(install)
    entry = _uninstall_entry(edits, where, install, outcome)
    skills = _uninstall_skills(edits, where, install, outcome, is_recorded=is_recorded)
    if entry is not None or skills:
        edits.manifest.put(install.model_copy(update={"entry": entry, "skills": skills}))
    return outcome


def _uninstall_entry(edits: _Edits, where: Where, install: Install, outcome: ClientOutcome) -> Entry | None:
    """Remove the entry; return its record if it was skipped."""
    recorded = install.entry
    configuration = read_configuration(install.target, install.scope, where, edits.staging, recorded)
    if configuration is None:
        if recorded is not None:
            hint = f"remove `{recorded.name}` from {recorded.path} by hand"
            outcome.left.append(Left(recorded.path, "the client now uses another file", hint))
        return recorded
    outcome.path, entries = configuration.path, configuration.entries
    ours = (configuration.found(*each) for each in entries.items() if is_of(each[1], configuration.scope, where))
    entry = recorded or next(ours, None)
    if entry is None or entry.name not in entries:
        return None
    outcome.name, current = entry.name, entries[entry.name]
    if current != entry.value and not is_of(current, install.scope, where):
        outcome.action = "left"
        hint = f"if nobody needs it, remove `{entry.name}` from {configuration.path} by hand"
        outcome.left.append(
            Left(str(configuration.path), f"the entry `{entry.name}` differs from what ktx wrote", hint)
        )
        return entry
    configuration.take(entry)
    outcome.action = "removed"
    if configuration.text is None:
        edits.staging.remove(configuration.path)
    else:
        edits.staging.write(configuration.path, configuration.text.encode())
    return None


def _uninstall_skills(
    edits: _Edits, where: Where, install: Install, outcome: ClientOutcome, *, is_recorded: bool
) -> dict[str, str]:
    """Remove the skills that nobody else uses; return the skipped skills."""
    left: dict[str, str] = {}
    shared = _used_by_others(edits, where, install)
    used = {edits.where.project / each for each in (*edits.manifest.skill_files(), *shared)}
    files = skill_files(CLIENTS[install.target].places[install.scope], where)
    packaged = {written(path, edits.where.project): digest(content) for path, content in files.items()}
    for key, wrote in (install.skills if is_recorded else packaged).items():
        path = edits.where.project / key
        reason = _reason_to_leave(edits, where, install, path, wrote)
        if path in used or reason is None:
            continue
        if not reason:
            edits.staging.remove(path)
            outcome.action = "removed" if outcome.action == "absent" else outcome.action
        elif is_recorded:
            left[key] = wrote
            outcome.left.append(Left(str(path), reason, Hint("if nobody needs it: {}", Command(path, program="rm"))))
    return left


def _reason_to_leave(edits: _Edits, where: Where, install: Install, path: Path, wrote: str) -> str | None:
    """Return why a skill is not removed: "" if it can be, None if it does not exist."""
    if not path.exists():
        return None
    folder = where.skills(CLIENTS[install.target].places[install.scope])
    if folder is None or not path.is_relative_to(folder) or ".." in path.parts:
        return "the client uses another file now"
    if not path.relative_to(folder).parts[0].startswith(PREFIX):
        return "it is not a ktx skill"
    return "" if digest(edits.staging.read(path) or b"") == wrote else "it was edited"


def _used_by_others(edits: _Edits, where: Where, install: Install) -> set[str]:
    """Return the skills in the same folder that other projects use."""
    used: set[str] = set()
    for target, client in CLIENTS.items():
        place = client.places.get(install.scope)
        if place is None or place.skills != CLIENTS[install.target].places[install.scope].skills:
            continue
        try:
            configuration = read_configuration(target, install.scope, where, edits.staging)
            peers = list(configuration.peers(where)) if configuration else []
        except KtxError:  # another client's unreadable file says nothing about others
            continue
        used.update(path for peer, _ in peers for path in peer.skills)
    return used
