"""The step of the context sources: what explains the tables, as dbt projects, BI tools and documents do."""

from __future__ import annotations

from ktx_cli.jobs.setup.answers import Answers
from ktx_cli.jobs.setup.detected import source_offers
from ktx_cli.jobs.setup.wizard.connecting import SOURCE, ask_connection, ask_for_another, asks_for_more
from ktx_cli.jobs.setup.wizard.work import Work


def sources_step(work: Work) -> None:
    """Connect context sources, one after another, until no other is wanted; raises `AgainError` or `LeftOutError`."""
    known = work.config.sources()
    if known and not asks_for_more(work):
        return
    offers = source_offers(work.root, work.request.environ, work.config)
    question = "Another context source?" if known else "Which context source: dbt, BI, documents?"
    none = "No other source" if known else "No context source for now"
    answer = ask_connection(work, SOURCE, offers, question=question, none=none, more=bool(known))
    done = work.save(Answers(sources=(answer,)))
    for test in done.tests.values():
        work.prompter.say(f"{answer.id}: {getattr(test, 'origin', 'saved')}", "good")
    ask_for_another(work)
