"""The step of the agent clients: who gets the project's tools and skills."""

from __future__ import annotations

from ktx_cli.jobs.agents.targets import Target
from ktx_cli.jobs.setup.answers import AgentsAnswer, Answers
from ktx_cli.jobs.setup.detected import agent_offers
from ktx_cli.jobs.setup.wizard.asking import Choice, capital
from ktx_cli.jobs.setup.wizard.work import LeftOutError, Work


def agents_step(work: Work) -> None:
    """Put the project into the configuration of agent clients."""
    offers = agent_offers(work.root, work.request.environ)
    there = [offer for offer in offers if offer.installed]
    left = [offer for offer in offers if not offer.installed and offer.target is not Target.UNIVERSAL]
    if there and not work.revisited and not work.dialog.begun():
        return
    others = [Choice(target, target) for target in Target if target is not Target.UNIVERSAL]
    choices = [Choice(offer.target, capital(offer.label)) for offer in left] or others
    chosen = work.dialog.several("targets", "Which agent clients get this project?", choices)
    if not chosen:
        raise LeftOutError
    while True:
        done = work.save(Answers(agents=AgentsAnswer(tuple(map(Target, chosen)))))
        for outcome in () if done.agents is None else done.agents.outcomes:
            work.prompter.say(f"{outcome.target}: {outcome.path}", "good")
        if done.error is None:
            return
        work.decide(done.error)
