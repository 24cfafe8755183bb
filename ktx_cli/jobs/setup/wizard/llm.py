"""The step of the model backend: what this machine has, in the order of least effort, tried before it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktx_cli.jobs.setup.answers import Answers, ModelAnswer
from ktx_cli.jobs.setup.detect.models import ModelOffer, model_offers
from ktx_cli.jobs.setup.wizard.dialog import anything, something
from ktx_cli.jobs.setup.wizard.prompter import Choice, capital
from ktx_cli.jobs.setup.wizard.work import AgainError, LeftOutError, Work
from ktx_cli.llm import CHOOSABLE, NO_BACKEND, ProviderQuestion
from ktx_cli.project import ROLES

_OFFERS: Final = "models"


def llm_step(work: Work) -> None:
    """Choose a backend and its models."""
    if work.config.llm.provider.backend != NO_BACKEND and not work.changes("the model backend"):
        return
    work.say_once("A model writes descriptions, pages and measures; ktx computes the rest without one.")
    offers = work.looked(_OFFERS, lambda: _offers(work))
    answer = _answer(work, offers)
    done = work.save(Answers(llm=answer))
    for result in done.probes.results:
        if result.report is not None:
            work.prompter.say(f"{result.ref} answers: {result.report.account}", "good")
    for warning in done.warnings:
        if warning.code == "prompt_caching_ignored":
            work.prompter.say(warning.message, "hint")


def _offers(work: Work) -> list[ModelOffer]:
    work.prompter.say("Looking what models this machine has ...")
    return model_offers(work.config, project_dir=work.root, environ=work.request.environ)


def _answer(work: Work, offers: list[ModelOffer]) -> ModelAnswer:
    ready = [offer for offer in offers if offer.problem is None]
    barred = [offer for offer in offers if offer.problem is not None]
    choices = [Choice(_value(offer), capital(offer.label)) for offer in ready]
    choices += [Choice(_value(offer), capital(offer.label), "not usable now") for offer in barred]
    known = {offer.backend for offer in offers}
    by_hand = {backend: each.label for backend, each in CHOOSABLE.items() if each.by_hand}
    choices += [Choice(backend, label) for backend, label in by_hand.items() if backend not in known]
    choices.append(Choice(NO_BACKEND, "No model for now"))
    default = _value(ready[0]) if ready else NO_BACKEND
    chosen = work.dialog.select("backend", "Which model backend?", choices, default)
    if chosen == NO_BACKEND:
        return ModelAnswer(NO_BACKEND)
    offer = next((each for each in offers if _value(each) == chosen), ModelOffer(chosen, "", {}, None, ()))
    if offer.problem is not None:
        _wait_for(work, offer)
    provider = _provider(work, offer)
    models = _models(work, offer)
    says = "Let the model describe tables and columns, too?"
    described = "llm" if work.dialog.confirm("descriptions", says, True) else "none"
    return ModelAnswer(offer.backend, models, provider, described)


def _value(offer: ModelOffer) -> str:
    """Return what tells an offer from the others: a gateway's address too."""
    return f"{offer.backend} {offer.settings.get('base_url', '')}".strip()


def _wait_for(work: Work, offer: ModelOffer) -> None:
    """Say what is missing and look again when the person has seen to it; raises to choose again, or to leave it out."""
    assert offer.problem is not None
    work.prompter.say(offer.problem.message, "bad")
    hint = offer.problem.details.get("sign_in") or offer.problem.hint
    if hint:
        work.prompter.say(str(hint), "hint")
    choices = [
        Choice("again", "Done: look again"),
        Choice("other", "Choose another backend"),
        Choice("leave", "Leave the model out for now"),
    ]
    chosen = work.prompter.select("What now?", choices, "again")
    if chosen == "leave":
        raise LeftOutError
    if chosen == "other":
        work.dialog.draft.forget(work.dialog.step, propose=False)
    work.look_again(_OFFERS)
    raise AgainError


def _provider(work: Work, offer: ModelOffer) -> dict[str, str]:
    """Ask for what the backend needs and this machine does not show."""
    found = dict(offer.settings)
    for each in CHOOSABLE[offer.backend].questions:
        if each.field not in found and (value := _asked(work, offer.backend, each)):
            found[each.field] = value
    return found


def _asked(work: Work, backend: str, each: ProviderQuestion) -> str:
    key = each.field.replace("_", "-")
    if each.secret:
        return work.dialog.secret(key, each.question, work.keeper(f"llm-{backend}-{key}"))
    return work.dialog.text(key, each.question, each.default, anything if each.optional else something)


def _models(work: Work, offer: ModelOffer) -> dict[str, str]:
    """Ask which model does what; proposed is one for most, and a cheaper one for what is sorted and picked."""
    dialog, proposed = work.dialog, CHOOSABLE[offer.backend].models
    one, each = Choice("one", "One model for everything"), Choice("each", "A model for each role")
    choices = [Choice("proposed", _models_text(proposed)), one, each] if proposed else [one, each]
    chosen = dialog.select("models", "Which models?", choices, choices[0].value)
    if chosen == "proposed":
        return dict(proposed)
    default = _model(work, "model", "Model", offer, proposed.get("default", ""))
    if chosen == "one":
        return dict.fromkeys([*work.config.llm.models, "default"], default)
    found = {"default": default}
    for role, says in ROLES.items():
        if role != "default":
            found[role] = _model(work, f"model-{role}", f"{role}: {says}", offer, proposed.get(role, default))
    return {role: model for role, model in found.items() if role == "default" or model != default}


def _models_text(models: Mapping[str, str]) -> str:
    """Return the models in a line: `sonnet; haiku for triage, candidateExtraction`."""
    others = dict.fromkeys(model for role, model in models.items() if role != "default")
    roles = {other: ", ".join(role for role, model in models.items() if model == other) for other in others}
    if not roles:
        return f"{models['default']} for all"
    return "; ".join([models["default"], *(f"{model} for {named}" for model, named in roles.items())])


def _model(work: Work, key: str, question: str, offer: ModelOffer, default: str) -> str:
    if not offer.models:
        return work.dialog.text(key, question, default, something)
    choices = [Choice(model, model) for model in offer.models]
    return work.dialog.select(key, question, choices, default if default in offer.models else offer.models[0])
