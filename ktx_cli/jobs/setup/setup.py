"""Applies answers: tests them, saves them only on success, then builds the context; or shows the plan."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    Hint,
    KtxError,
    Notice,
    NotReadyError,
    Placeholder,
    ResultWarning,
    SecretError,
    StorageError,
    UsageError,
    listing,
    new_run_id,
    plural,
)
from ktx_cli.engine import Begun, IngestReport
from ktx_cli.jobs.clients.install import InstallReport, Wanted, install
from ktx_cli.jobs.clients.targets import Where
from ktx_cli.jobs.connections import check_connection_of
from ktx_cli.jobs.health.connection_checks import history_warnings
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.llm import probe_embeddings
from ktx_cli.jobs.setup.answers import AgentsAnswer, Answers, Build, Keeping
from ktx_cli.jobs.setup.detect.marts import marts_of
from ktx_cli.jobs.setup.plan import Planned, kept, planned, require_routes, without_literals
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest, first_question
from ktx_cli.llm import NO_BACKEND, probe_models, secret_names
from ktx_cli.project import (
    CONFIG_NAME,
    MASK,
    KtxConfig,
    Layout,
    Repository,
    SecretRef,
    config_lock,
    edit,
    hold_run_lock,
    is_literal_secret,
    literal_secrets,
    load_config,
    mask,
    prepare_private_folder,
    read_bytes,
    redact_url,
    remember,
    resolve,
    storage_error,
    values_of,
    write_atomic,
)
from ktx_cli.scan import Depth

_MOST_NUMBERS: Final = 1000


def keep_secret(layout: Layout, name: str, secret: str, keeping: Keeping) -> str:
    """Store a secret under a unique name and return the reference to it; the same secret gets the same reference.

    A trailing line break is not part of the secret: a PEM key ends with one. Raises `NotReadyError` if there is no
    keyring, `StorageError` if it cannot be written.
    """
    if keeping is Keeping.KEYRING:
        remember(secret)
        return _in_keyring(layout.root, _safe(name), secret.rstrip("\r\n"))
    reference = reference_to(layout, name, secret, keeping)
    prepare_private_folder(layout)
    try:
        layout.secrets.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_error(layout.secrets, error, "create") from error
    path = layout.root / reference.removeprefix("file:")
    write_atomic(path, secret.rstrip("\r\n").encode() + b"\n", mode=0o600)
    return reference


def keep_secrets(layout: Layout, connection: str, fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Store the plaintext secrets in a connection's fields in files; return the fields without them, and references."""
    references: list[str] = []

    def keep(name: str, secret: str) -> str:
        references.append(keep_secret(layout, name, secret, Keeping.FILE))
        return references[-1]

    return without_literals(fields, keep, connection), references


def reference_to(layout: Layout, name: str, secret: str, keeping: Keeping) -> str:
    """Return the reference that `keep_secret` would return, without writing or reading the keyring."""
    remember(secret)
    name = _safe(name)
    if keeping is Keeping.KEYRING:
        return f"keyring:{_service(layout.root)}/{name}"
    path = _free(layout.secrets / name, secret.rstrip("\r\n"))
    return f"file:{path.relative_to(layout.root).as_posix()}"


def _service(root: Path) -> str:
    return f"ktx-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def _safe(name: str) -> str:
    """Return a file name for a key, which may contain any character."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:100]


def _free(path: Path, secret: str) -> Path:
    """Return the path, or a similar path if it already contains another secret; nothing is overwritten.

    A link is not replaced: one that came with a repository is tracked, and a file in its place would be committed.
    """
    for name in _names(path.name):
        candidate = path.with_name(name)
        if candidate.is_symlink():
            continue
        kept = read_bytes(candidate)
        if kept is None or kept.rstrip(b"\r\n") == secret.encode():
            return candidate
    raise StorageError(f"there are too many secrets named {path}", hint=f"remove unused ones in {path.parent}")


def _names(name: str) -> Iterator[str]:
    """Yield the name, then similar ones."""
    yield name
    yield from (f"{name}-{number}" for number in range(2, _MOST_NUMBERS))


def _in_keyring(root: Path, name: str, secret: str) -> str:
    try:
        import keyring
        import keyring.errors
    except ImportError as error:
        message = "the package keyring is not installed"
        raise NotReadyError(message, hint=Command("install", "ktx-cli[keyring]", program="pip")) from error
    service = _service(root)
    try:
        name = next(each for each in _names(name) if keyring.get_password(service, each) in (None, secret))
        keyring.set_password(service, name, secret)
    except Exception as error:  # a backend raises any exception that its system produces
        message = f"the keyring did not accept the secret: {type(error).__name__}"
        raise NotReadyError(message, hint="store it in a file instead: --keep-secrets file") from error
    return f"keyring:{service}/{name}"


def usable_keyring() -> bool:
    """Return whether a usable keyring exists; opens no window."""
    try:
        import keyring
        import keyring.backends.fail
    except ImportError:
        return False
    return not isinstance(keyring.get_keyring(), keyring.backends.fail.Keyring)


def same_secret(request: SetupRequest) -> Any:
    """Return a function that compares a setting with an answer: a reference to a file equals the secret in it."""

    def same(configured: Any, given: Any) -> bool:
        reference = SecretRef.parse(configured) if isinstance(configured, str) and configured != given else None
        if reference is None or not isinstance(given, str):
            return bool(configured == given)
        try:
            kept = resolve(configured, project_dir=request.project_dir, environ=request.environ, where="setup")
        except SecretError:
            return False
        return kept == given.rstrip("\r\n")

    return same


def save_answers(request: SetupRequest, layout: Layout, plan: Planned, report: SetupReport) -> None:
    """Write `ktx.yaml`, and commit it unless the user has uncommitted edits in it or it contains a secret."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(layout.root, error, "create") from error
    repository, destination = Repository.discover(layout.root), request.destination
    if repository is not None:
        repository.start(destination)
    run_id = new_run_id()
    with (
        hold_run_lock(
            layout, run_id=run_id, command=Command("setup"), emit=request.emit, warn=report.warnings.append
        ) as (lock, _),
        config_lock(layout.root),
    ):
        if repository is None:
            repository = Repository.create(layout.root)
            report.created_repository = True
            request.emit(Notice(f"created a git repository in {layout.root}"))
        repository.recover()
        before = _saved_text(request, layout)

        def keep(name: str, secret: str) -> str:
            return keep_secret(layout, name, secret, request.answers.keeping)

        text = planned(kept(request.answers, keep, plan.connections), before).text
        loaded = load_config(layout.config, data=text)
        report.config = text

        def uncommitted(reason: str, hint: str) -> None:
            if destination.branch is None:
                write_atomic(layout.config.resolve(), text)
            says = f"ktx.yaml was saved but not committed, because {reason}"
            report.warnings.append(ResultWarning("config_not_committed", says, hint=hint))

        report.changed = text != before
        if not report.changed:
            return
        if any(literal_secrets(loaded.config)):
            uncommitted("it contains a secret", "move the secret to env:NAME or file:PATH")
            return
        start = repository.start(destination)
        report.message = _message(_config_before(repository, start.commit, request.amends), loaded.config)
        result = repository.commit(
            {CONFIG_NAME: text},
            message=f"{report.message}\n\nKtx-Run: {run_id}\n",
            base=start.commit,
            author=loaded.config.storage.git.author,
            before_publish=lock.check,
            destination=destination,
            amends=request.amends,
        )
        report.commit = result.commit
        if CONFIG_NAME not in (*result.committed, *result.uncommitted, *result.ignored):
            uncommitted("it has uncommitted changes of yours", _COMMIT)


def _saved_text(request: SetupRequest, layout: Layout) -> bytes | None:
    """Return the `ktx.yaml` text that setup changes: that of the requested branch, if any."""
    repository = None if request.destination.branch is None else Repository.discover(layout.root)
    if repository is None:
        return read_bytes(layout.config)
    start = repository.start(request.destination)
    on_branch = None if start.ref == repository.head().ref else repository.tree(start.commit).read(CONFIG_NAME)
    return on_branch or read_bytes(layout.config)


def _config_before(repository: Repository, commit: str | None, amends: str | None) -> KtxConfig | None:
    """Return the settings that this setup's commit changes, or None if none can be read."""
    if commit is not None and commit == amends:
        commit = repository.parent_of(commit)
    text = None if commit is None else repository.tree(commit).read(CONFIG_NAME)
    with contextlib.suppress(KtxError):
        return None if text is None else load_config(Path(CONFIG_NAME), data=text).config
    return None


_LONGEST_SUBJECT: Final = 72


def _message(before: KtxConfig | None, after: KtxConfig) -> str:
    """Return the commit subject, and a line for each thing that was set up."""
    old = {} if before is None else before.connections
    changed = {name: entry for name, entry in after.connections.items() if old.get(name) != entry}
    removed = [name for name in old if name not in after.connections]
    parts = [f"connection{'' if len(changed) == 1 else 's'} {', '.join(changed)}"] if changed else []
    lines = [f"connection {name}: {entry.driver}" for name, entry in changed.items()]
    lines += [f"connection {name}: removed" for name in removed]
    for what, now, then in (
        ("model", after.llm.provider.backend, NO_BACKEND if before is None else before.llm.provider.backend),
        ("embeddings", after.ingest.embeddings.backend, "none" if before is None else before.ingest.embeddings.backend),
    ):
        if now != then:
            parts.append(f"{what} {now}")
            lines.append(f"{what}: {now}")
    begin = "Set up ktx" if before is None else "Change the setup of ktx"
    subject = f"{begin}: {', '.join(parts)}" if parts else begin
    if len(subject) > _LONGEST_SUBJECT:
        subject = f"{begin}: {plural(len(changed), 'connection')}" if changed else begin
    return "\n".join([subject, "", *lines]).rstrip()


_COMMIT: Final = Hint(
    "{} && {}",
    Command("add", CONFIG_NAME, program="git"),
    Command("commit", "-m", Placeholder(f"'{CONFIG_NAME}'"), "--", CONFIG_NAME, program="git"),
)
"""Commits only this file, regardless of what else is staged, even if git does not track the file yet."""


def setup(request: SetupRequest) -> SetupReport:
    """Set up the project; running it again only changes what the answers name.

    Raises `KtxError` before anything is written if a setting is invalid, or if a named service does not respond.
    """
    layout, answers = Layout(request.project_dir), request.answers
    require_folder(layout.root)
    before = _saved_text(request, layout)
    report = SetupReport(layout.root, created_project=before is None)
    plan = planned(answers, before, same_secret(request))
    config = load_config(layout.config, data=plan.text).config
    report.has_connections = bool(config.connections)
    report.tests = dict.fromkeys(plan.connections)
    if answers.llm is not None and answers.llm.backend is not None:
        report.warnings += require_routes(config, answers.llm.backend)
    if request.test:
        try_answers(request, layout, config, report)
    save_answers(request, layout, plan, report)
    report.probes.store(layout)
    report.warnings += load_config(layout.config, data=report.config).notices()
    report.branch = request.destination.branch
    _build(request, layout, report)
    return report


def require_folder(folder: Path) -> None:
    """Raise `UsageError` if the path is not a folder; the folder is created when there is something to save."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise UsageError(f"{there} is not a folder", hint="use --project-dir for the folder of the project")


def _build(request: SetupRequest, layout: Layout, report: SetupReport) -> None:
    """Read the connections, then install into agent clients; stops at the first error, and what is saved stays."""
    answers = request.answers
    try:
        if answers.build is not None and answers.build is not Build.NONE:
            report.build, warnings = build_context(request, layout, answers.build, report)
            report.warnings += [each for each in warnings if each not in report.warnings]
            report.error = report.build.error()
            report.commit = report.build.commit or report.commit
            report.warnings += _about_marts(request, layout, report)
            report.question = first_question(layout, load_config(layout.config, data=report.config).config)
        if answers.agents is not None:
            report.agents = install_agents(layout, answers.agents, request.environ, config=report.config)
            report.warnings += report.agents.warnings
            report.error = report.error or report.agents.error
    except KtxError as error:
        report.error = error


def _about_marts(request: SetupRequest, layout: Layout, report: SetupReport) -> list[ResultWarning]:
    """Return a warning for each new database in which a dbt project builds only some schemas as marts."""
    config = load_config(layout.config, data=report.config).config
    written = () if report.build is None else report.build.files.written
    databases, found = config.databases(), []
    for connection in report.tests.keys() & databases.keys():
        folder = f"{Layout.schema_path(connection)}/"
        parts = {path.removeprefix(folder).partition("/")[0] for path in written if path.startswith(folder)}
        schemas = sorted(part.removesuffix(".yaml") for part in parts)
        marts = marts_of(layout.root, request.environ, config, schemas) if len(schemas) > 1 else []
        if not marts or databases[connection].model_dump().get("include") or len(marts) == len(schemas):
            continue
        message = f"`{connection}` reads {len(schemas)} schemas; the dbt project has its marts in {listing(marts)}"
        patterns = json.dumps([f"{name}.*" for name in marts])
        hint = Command("config", "set", f"connections.{connection}.include", patterns)
        found.append(ResultWarning("marts_found", message, hint=hint))
    return found


def build_context(
    request: SetupRequest, layout: Layout, build: Build, report: SetupReport
) -> tuple[IngestReport, list[ResultWarning]]:
    """Read the connections, or only the database structure if requested; raises the errors of `ingest`.

    The setup and the run share one commit.
    """
    structure = build is Build.STRUCTURE
    made = report.commit or request.amends
    wanted = IngestRequest(
        layout.root,
        request.environ,
        command=Command("setup"),
        databases_only=structure,
        depth=Depth.STRUCTURAL if structure else None,
        emit=request.emit,
        destination=request.destination,
        begun=None if made is None else Begun(made, report.message or _first_lines(layout, made)),
        config=report.config,
    )
    return ingest(wanted)


def _first_lines(layout: Layout, commit: str) -> str:
    """Return the message of an earlier commit of this setup, without the run id."""
    repository = Repository.discover(layout.root)
    message = "" if repository is None else repository.message_of(commit)
    return message.partition("\n\nKtx-Run:")[0] or "Set up ktx"


def install_agents(
    layout: Layout, answer: AgentsAnswer, environ: Mapping[str, str], *, config: bytes | None = None
) -> InstallReport:
    """Install the project into agent clients; errors as in `install`. `config`: `ktx.yaml` text, if not on disk."""
    variables = sorted(secret_names(load_config(layout.config, data=config).config))
    wanted = Wanted(answer.targets, answer.scope, variables=variables)
    return install(wanted, Where(layout.root, environ))


def try_answers(request: SetupRequest, layout: Layout, config: KtxConfig, report: SetupReport) -> None:
    """Connect to the configured connections and call the models; raises the error with which a run would end."""
    answers = request.answers
    for connection in report.tests:
        with naming(connection, config):
            report.tests[connection] = check_connection_of(
                config, connection, project_dir=layout.root, environ=request.environ
            )
        report.warnings += history_warnings(config, connection, project_dir=layout.root, environ=request.environ)
    if answers.embeddings is not None:
        report.embeddings = probe_embeddings(config, project_dir=layout.root, environ=request.environ)
    llm = answers.llm
    if llm is not None and (llm.backend is not None or llm.models or llm.provider):
        report.probes = probe_models(
            Layout(existing_folder(layout.root)),
            config,
            request.environ,
            command=Command("setup"),
            warn=report.warnings.append,
            emit=request.emit,
        ).required()


@contextlib.contextmanager
def naming(connection: str, config: KtxConfig) -> Iterator[None]:
    """Make errors name the connection they are about and its type."""
    try:
        yield
    except KtxError as error:
        kind = "database" if connection in config.databases() else "source"
        error.details |= {"connection": connection, "kind": kind}
        raise


def existing_folder(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next(each for each in (folder, *folder.parents) if each.is_dir())


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan of setup. `steps`: pairs of what and how; `diff`: lines of a unified diff of `ktx.yaml`."""

    project_dir: Path
    steps: tuple[tuple[str, str], ...]
    diff: tuple[str, ...]
    warnings: list[ResultWarning] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the JSON output."""
        return {
            "project_dir": str(self.project_dir),
            "steps": [{"step": step, "would": would} for step, would in self.steps],
            "diff": list(self.diff),
        }


def preview(request: SetupRequest) -> Preview:
    """Return what `setup` would do for this request; connects to nothing, writes nothing, raises the same errors."""
    layout = Layout(request.project_dir)
    require_folder(layout.root)
    before = read_bytes(layout.config)
    plan = planned(request.answers, before, same_secret(request))
    secrets: list[str] = []

    def keep(name: str, secret: str) -> str:
        secrets.append(name)
        return reference_to(layout, name, secret, request.answers.keeping)

    shown = planned(kept(request.answers, keep, plan.connections), before).text
    loaded = load_config(layout.config, data=shown)
    steps = tuple(_steps(request, layout, before, shown, secrets))
    old, new = (_without_secrets(text).decode("utf-8", "replace").splitlines() for text in (before or b"", shown))
    lines = difflib.unified_diff(old, new, CONFIG_NAME, f"{CONFIG_NAME} (planned)", lineterm="")
    return Preview(layout.root, steps, tuple(redact_url(mask(line)) for line in lines), loaded.notices())


def _steps(
    request: SetupRequest, layout: Layout, before: bytes | None, after: bytes, secrets: list[str]
) -> Iterator[tuple[str, str]]:
    answers = request.answers
    if before is None:
        yield "project", f"create {CONFIG_NAME} in {layout.root}"
        if Repository.discover(existing_folder(layout.root)) is None:
            yield "git", f"create a repository in {layout.root}"
    tried = list(_tried(answers)) if request.test else []
    if tried:
        yield "test", f"test {listing(tried, len(tried))}"
    if secrets:
        yield "secrets", f"store {listing(secrets, len(secrets))} in the {answers.keeping}"
    if after != before:
        yield CONFIG_NAME, "save and commit it"
    if answers.build not in (None, Build.NONE):
        yield "build", f"read {'the structure of the databases' if answers.build is Build.STRUCTURE else 'everything'}"
    if answers.agents is not None:
        yield "agents", f"install the project in {listing(answers.agents.targets, len(answers.agents.targets))}"


def _tried(answers: Answers) -> Iterator[str]:
    if answers.llm is not None and answers.llm.backend != NO_BACKEND:
        yield "the models"
    if answers.embeddings is not None and answers.embeddings.backend != "none":
        yield "the embeddings"
    yield from (answer.id or f"the {answer.driver} connection" for answer in answers.connections)


def _without_secrets(text: bytes) -> bytes:
    """Return the text of `ktx.yaml` with its plaintext secrets masked, regardless of how they are written."""
    config = load_config(Path(CONFIG_NAME), data=text).config
    for keys, declared, value in values_of(config):
        if isinstance(value, str) and is_literal_secret(declared, keys[-1], value):
            for line in value.splitlines():
                remember(line)
            with contextlib.suppress(ConfigError):  # if it cannot be located, its lines are masked
                text = edit.set_value(text, keys, MASK, where=CONFIG_NAME)
    return text.replace(f'"{MASK}"'.encode(), MASK.encode())
