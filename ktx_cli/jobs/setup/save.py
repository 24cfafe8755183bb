"""Saving what was answered: secrets apart, `ktx.yaml` whole, committed where that is safe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ktx_cli.core import Command, Hint, Notice, Placeholder, ResultWarning, SecretError, new_run_id
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer
from ktx_cli.jobs.setup.plan import Planned, kept, planned
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.secrets import keep_secret
from ktx_cli.project import (
    CONFIG_NAME,
    Layout,
    Repository,
    SecretRef,
    config_lock,
    hold_run_lock,
    literal_secrets,
    load_config,
    read_bytes,
    resolve,
    storage_error,
    write_atomic,
)


def same_secret(request: SetupRequest) -> Any:
    """Return what says whether a setting and an answer are one: a reference to a file and the secret in it are."""

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
    """Write `ktx.yaml`; commit it where the user has no edits of their own in it, and no secret stands in it."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(layout.root, error, "create") from error
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.check_writable()
    run_id = new_run_id()
    with (
        hold_run_lock(
            layout, run_id=run_id, command=Command("setup"), emit=request.emit, warn=report.warnings.append
        ) as (
            lock,
            _,
        ),
        config_lock(layout.root),
    ):
        if repository is None:
            repository = Repository.create(layout.root)
            report.created_repository = True
            request.emit(Notice(f"created a git repository in {layout.root}"))
        repository.recover()
        before = read_bytes(layout.config)
        text = _with_kept_secrets(request, layout, plan, before)
        loaded = load_config(layout.config, data=text)
        report.changed = text != before
        if not report.changed:
            return
        if any(literal_secrets(loaded.config)):
            _save_only(layout, text, report, "a secret stands in it", "put the secret into env:NAME or file:PATH")
            return
        result = repository.commit(
            {CONFIG_NAME: text},
            message=f"ktx setup\n\nKtx-Run: {run_id}\n",
            base=repository.head().commit,
            author=loaded.config.storage.git.author,
            before_publish=lock.check,
        )
        report.commit = result.commit
        if CONFIG_NAME not in result.committed and CONFIG_NAME not in result.ignored:
            _save_only(layout, text, report, "it has changes of yours", _COMMIT)


def _with_kept_secrets(request: SetupRequest, layout: Layout, plan: Planned, before: bytes | None) -> bytes:
    """Return the text of `ktx.yaml` with references where secrets were answered; they are kept by then."""

    def keep(name: str, secret: str) -> str:
        return keep_secret(layout, name, secret, request.answers.keeping)

    answers = kept(request.answers, keep, plan.connections)
    return planned(_named(answers, plan), before).text


def _named(answers: Answers, plan: Planned) -> Answers:
    """Return the answers with the ids that were chosen when they were tested."""
    named = [
        ConnectionAnswer(answer.fields, name)
        for answer, name in zip(answers.connections, plan.connections, strict=True)
    ]
    split = len(answers.databases)
    return replace(answers, databases=tuple(named[:split]), sources=tuple(named[split:]))


def _save_only(layout: Layout, text: bytes, report: SetupReport, reason: str, hint: str) -> None:
    write_atomic(layout.config.resolve(), text)
    report.warnings.append(
        ResultWarning("config_not_committed", f"ktx.yaml was saved but not committed, because {reason}", hint=hint)
    )


_COMMIT: Final = Hint(
    "{} && {}",
    Command("add", CONFIG_NAME, program="git"),
    Command("commit", "-m", Placeholder(f"'{CONFIG_NAME}'"), "--", CONFIG_NAME, program="git"),
)
"""Commits the file and nothing else that is staged, also where git does not know it yet."""
