"""Runs the steps in their order: forward, back, leaving out, and on from where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ktx_cli.core import CancelledError, Command, Hint
from ktx_cli.jobs.setup.answers import Step
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.wizard.databases import databases_step
from ktx_cli.jobs.setup.wizard.dialog import Dialog, Draft
from ktx_cli.jobs.setup.wizard.llm import llm_step
from ktx_cli.jobs.setup.wizard.prompter import BackAsked, Choice, Prompter
from ktx_cli.jobs.setup.wizard.steps import agents_step, build_step, embeddings_step, known, project_step, sources_step
from ktx_cli.jobs.setup.wizard.work import AgainError, LeftOutError, Work
from ktx_cli.project import Layout

_STEPS: Final[Mapping[Step, tuple[str, Callable[[Work], None]]]] = {
    Step.PROJECT: ("Project", project_step),
    Step.LLM: ("Model", llm_step),
    Step.EMBEDDINGS: ("Embeddings", embeddings_step),
    Step.DATABASES: ("Databases", databases_step),
    Step.SOURCES: ("Context sources", sources_step),
    Step.BUILD: ("First build", build_step),
    Step.AGENTS: ("Agent clients", agents_step),
}
_KEYS: Final = "Enter takes an answer, {back} goes back, Ctrl-C stops; what was answered is kept."


def run_wizard(request: SetupRequest, prompter: Prompter, only: Sequence[Step] = ()) -> SetupReport:
    """Ask what is missing, or go through the steps in `only`; returns what was done.

    Raises `CancelledError` where the person stops; what was answered by then is kept.
    """
    layout = Layout(request.project_dir)
    dialog = Dialog(prompter, Draft(layout))
    work = Work(request, dialog, SetupReport(layout.root, created_project=False))
    try:
        if only:
            wanted = [step for step in Step if step in only and step is not Step.PROJECT]
            _walk(work, [Step.PROJECT], ())
            _walk(work, wanted, wanted)
        else:
            prompter.say(_KEYS.format(back=prompter.back))
            _walk(work, list(Step), ())
            if not dialog.questions:
                _offer_changes(work)
    except KeyboardInterrupt:
        kept = "what was answered is kept" if layout.config.exists() else "nothing was saved"
        raise CancelledError(f"setup was stopped; {kept}", hint=Command("setup")) from None
    work.report.has_connections = bool(work.config.connections)
    return work.report


def _walk(work: Work, steps: Sequence[Step], again: Sequence[Step]) -> None:
    """Go through some steps; those in `again` though they are settled. Going back from the first of those ends it.

    Going back passes by a step that asks nothing; where none before it asks, the question stays that somebody was at.
    """
    place, back, returned = 0, False, False
    while place < len(steps):
        step = steps[place]
        work.revisited = back or returned or step in again
        _title(work, step)
        if step in work.dialog.draft.settled and not work.revisited:
            place += 1
            continue
        asked = work.dialog.questions
        if not _settled(work, step):
            if place == 0 and again:
                return
            place, back = max(place - 1, 0), True
        elif back and place and work.dialog.questions == asked:
            place -= 1
        else:
            returned = back and work.dialog.questions == asked
            place, back = place + 1, False


def _title(work: Work, step: Step) -> None:
    """Tell where the person is, and what is set up of it."""
    summary = known(work, step) if work.layout.config.exists() else ""
    if not summary and step in work.dialog.draft.settled:
        summary = "none"
    title = f"{list(Step).index(step) + 1}/{len(Step)} {_STEPS[step][0]}"
    work.prompter.say(f"{title}: {summary}" if summary else title, "title")


def _settled(work: Work, step: Step) -> bool:
    """Go through a step until it is settled; False where the person goes back from its first question."""
    draft = work.dialog.draft
    while True:
        work.dialog.begin(step)
        try:
            _STEPS[step][1](work)
        except AgainError:
            continue
        except BackAsked:
            if work.dialog.step_back():
                continue
            return False
        except LeftOutError:
            _tell_left_out(work, step)
        if step is Step.PROJECT:
            draft.forget(step, propose=False)
        else:
            work.discard_secrets()
            draft.settle(step)
        return True


def _tell_left_out(work: Work, step: Step) -> None:
    config = work.config
    having = {Step.DATABASES: config.databases(), Step.SOURCES: config.sources()}
    if not having.get(step):
        work.prompter.say(Hint("left out; {} asks again", Command("setup", "--only", step)), "hint")


def _offer_changes(work: Work) -> None:
    """Let the person choose what to go through again, as nothing is missing."""
    while True:
        chosen = _chosen_change(work)
        if chosen == "nothing":
            return
        step = Step(chosen)
        work.dialog.draft.reopen(step)
        _walk(work, [step], [step])


def _chosen_change(work: Work) -> str:
    choices = [Choice("nothing", "Nothing: done")]
    choices += [Choice(step, title) for step, (title, _) in _STEPS.items() if step is not Step.PROJECT]
    try:
        return work.prompter.select("Everything is set up. What do you want to change?", choices, "nothing")
    except BackAsked:
        return "nothing"
