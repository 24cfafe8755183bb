"""The step of the first build: reading what was set up, by what `ktx ingest` does."""

from __future__ import annotations

from ktx_cli.core.text import plural
from ktx_cli.jobs.setup.answers import Answers, Build, Step
from ktx_cli.jobs.setup.wizard.asking import Choice
from ktx_cli.jobs.setup.wizard.known import known
from ktx_cli.jobs.setup.wizard.work import LeftOutError, Work


def build_step(work: Work) -> None:
    """Read the connections now, or leave it to `ktx ingest`."""
    config = work.config
    if not config.connections:
        work.prompter.say("There is nothing to read yet.")
        return
    if not work.revisited and known(work, Step.BUILD):
        return
    said = [plural(len(config.databases()), "database")]
    if config.sources():
        said.append(plural(len(config.sources()), "context source"))
    asks = "" if config.llm.provider.backend == "none" else ", asking the model"
    choices = [
        Choice(Build.FULL, f"Read everything now: {' and '.join(said)}{asks}"),
        Choice(Build.STRUCTURE, "Read the structure of the databases alone"),
        Choice(Build.NONE, "Later, by ktx ingest"),
    ]
    chosen = Build(work.dialog.select("build", "Build the context?", choices, Build.FULL))
    if chosen is Build.NONE:
        raise LeftOutError
    while True:
        done = work.save(Answers(build=chosen))
        if done.build is not None:
            results = [(each.connection, each.status, each.result) for each in done.build.connections]
            results += [(each.name, each.status, each.result) for each in done.build.sources]
            for name, status, result in results:
                work.prompter.say(f"{name}: {result}", "bad" if status == "failed" else "good")
        if done.error is None:
            return
        work.decide(done.error)
