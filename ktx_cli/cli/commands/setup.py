"""`ktx setup`: create or change a project, from questions, flags or a file of answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ktx_cli.cli.attempts import SetupAttempt
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.reports import destination_of
from ktx_cli.cli.settings import current_folder
from ktx_cli.cli.setup_flags import answers_of, with_flags
from ktx_cli.core import Command, Hint, UsageError
from ktx_cli.jobs.setup.answers import Answers, SetupStep

if TYPE_CHECKING:
    from ktx_cli.jobs.setup.request import SetupRequest

commands = typer.Typer()


def setup(session: Session, **values: Any) -> Result:
    """Create a project, or change the current one.

    On a terminal and without flags, ktx asks the questions; each question has a flag. Flags and --answers only change
    the settings that they name. ktx tests connections and models before it saves them.

    Examples:
        ktx setup
        ktx setup --database duckdb --database-path warehouse.duckdb --build structure
        ktx setup --llm-backend claude-code --agents claude-code
    """
    request = _request(session, values)
    if values["print_plan"]:
        return _plan(session, request)
    if not values["answers"] and not any(request.answers.steps()) and session.settings.interactive:
        if request.destination.branch is not None:
            steps = Command("switch", "-c", request.destination.branch, program="git"), Command("setup")
            message = "--branch requires the answers as flags or in a file, because the questions read ktx.yaml"
            raise UsageError(message, hint=Hint("create the branch first: {} && {}", *steps))
        return _asked(session, request, tuple(values["only"] or ()))
    return _done(session, request, values)


command(commands, "setup")(with_flags(setup))


def _request(session: Session, values: Mapping[str, Any]) -> SetupRequest:
    from ktx_cli.jobs.setup.request import SetupRequest
    from ktx_cli.project import folder_for_setup, require_meant

    typed, here = session.settings.project_dir, current_folder()
    folder = folder_for_setup(typed, os.environ, here)
    if not session.settings.interactive:  # in a terminal the wizard asks
        require_meant(folder, typed, os.environ, here)
    where = destination_of(values["branch"], no_commit=values["no_commit"])
    return SetupRequest(
        folder, os.environ, _answers(values), test=not values["no_test"], emit=session.emitter(), destination=where
    )


def _answers(values: Mapping[str, Any]) -> Answers:
    typed = answers_of(values)
    only = frozenset(values["only"] or SetupStep)
    if values["answers"] is None:
        left = [step for step in typed.steps() if step not in only]
        if left:
            message = f"a flag answers the step {left[0]}, which --only skips"
            raise UsageError(message, hint=f"omit --only, or add --only {left[0]}")
        return typed
    from ktx_cli.jobs.setup.plan import load_answers

    if any(typed.steps()):
        hint = Hint("add the answers to the file, or run {} again with the flags", Command("setup"))
        raise UsageError("--answers cannot be used together with flags that answer questions", hint=hint)
    answers = load_answers(values["answers"])
    if values["keep_secrets"] is not None:
        answers = replace(answers, keeping=values["keep_secrets"])
    return answers.only(only)


def _plan(session: Session, request: SetupRequest) -> Result:
    from ktx_cli.cli.setup_flags import plan_blocks
    from ktx_cli.jobs.setup.setup import preview

    plan = preview(request)
    session.warn(*plan.warnings)
    return Result(plan.to_json(), plan_blocks(plan))


def _asked(session: Session, request: SetupRequest, only: tuple[SetupStep, ...]) -> Result:
    from ktx_cli.cli.blocks import Fields
    from ktx_cli.cli.prompts import open_prompter
    from ktx_cli.jobs.setup.wizard.wizard import run_wizard

    report = run_wizard(request, open_prompter(session), only)
    session.warn(*report.warnings)
    shown = Fields((("project", str(report.project_dir)), ("ktx.yaml", "saved" if report.changed else "unchanged")))
    return Result(report.to_json(), [shown], report.error, next_steps=report.next_steps)


def _done(session: Session, request: SetupRequest, values: Mapping[str, Any]) -> Result:
    from ktx_cli.cli.setup_flags import report_blocks
    from ktx_cli.jobs.setup.setup import setup as run_setup

    attempt = SetupAttempt(Command("setup", *session.settings.project_words), values, request.answers)
    with attempt.hinting():
        report = run_setup(request)
    for warning in report.warnings:
        attempt.retell(warning)
    session.warn(*report.warnings)
    return Result(report.to_json(), report_blocks(report), report.error, next_steps=report.next_steps)
