"""The step of the model backend: what this machine has, in the order of least effort, tried before it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktx_cli.jobs.models.probing import distinct_models, last_probes
from ktx_cli.jobs.setup.answers import Answers, ModelAnswer
from ktx_cli.jobs.setup.detected import ModelOffer, model_offers
from ktx_cli.jobs.setup.wizard.asking import Choice
from ktx_cli.jobs.setup.wizard.dialog import anything, something
from ktx_cli.jobs.setup.wizard.work import AgainError, LeftOutError, Work
from ktx_cli.llm.roles import CLAUDE_BACKENDS, NO_BACKEND
from ktx_cli.project.config.llm import ROLES
from ktx_cli.project.state import read_state

_OFFERS: Final = "models"
_MANUAL: Final[Mapping[str, str]] = {
    "anthropic": "The Anthropic API, with a key",
    "vertex": "Claude on Google Vertex AI",
    "gateway": "A gateway that speaks the Anthropic API",
}
"""What can be set up though this machine shows nothing of it."""

PROPOSED: Final[Mapping[str, Mapping[str, str]]] = {
    "claude-code": {"default": "sonnet", "triage": "haiku", "candidateExtraction": "haiku"},
    "anthropic": {
        "default": "claude-sonnet-5-5",
        "triage": "claude-haiku-5-5",
        "candidateExtraction": "claude-haiku-5-5",
    },
    "vertex": {"default": "claude-sonnet-5-5"},
}
"""The models that are proposed, by backend: a cheap one for the roles that sort and pick, another for the rest."""


def llm_step(work: Work) -> None:
    """Choose a backend and its models."""
    config = work.config
    if config.llm.provider.backend != NO_BACKEND:
        work.prompter.say(_known(work))
        if not work.revisited or not work.dialog.confirm("change", "Change the model backend?", False):
            return
    if work.revisited or not work.dialog.answered("backend"):
        work.prompter.say(
            "A model writes descriptions, pages and measures. Without one, ktx does what can be computed."
        )
    offers = work.looked(_OFFERS, lambda: _offers(work))
    answer = _answer(work, offers)
    done = work.save(Answers(llm=answer))
    for result in done.probes.results:
        if result.report is not None:
            work.prompter.say(f"{result.ref} answers: {result.report.account}", "good")
    for warning in done.warnings:
        if warning.code == "prompt_caching_ignored":
            work.prompter.say(warning.message, "hint")


def _known(work: Work) -> str:
    """Say what is configured, and when it was last seen to work."""
    config = work.config
    probes = read_state(work.layout, last_probes) or {}
    said = []
    for ref in distinct_models(config):
        last = probes.get(ref)
        said.append(f"{ref}, last probe {'never' if last is None else last.finished}")
    return "; ".join(said)


def _offers(work: Work) -> list[ModelOffer]:
    work.prompter.say("Looking what models this machine has ...")
    return model_offers(work.config, project_dir=work.root, environ=work.request.environ)


def _answer(work: Work, offers: list[ModelOffer]) -> ModelAnswer:
    ready = [offer for offer in offers if offer.problem is None]
    barred = [offer for offer in offers if offer.problem is not None]
    choices = [Choice(_value(offer), offer.label) for offer in ready]
    choices += [Choice(_value(offer), offer.label, "not usable now") for offer in barred]
    known = {offer.backend for offer in offers}
    choices += [Choice(backend, label) for backend, label in _MANUAL.items() if backend not in known]
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
    if offer.problem.hint:
        work.prompter.say(offer.problem.hint, "hint")
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
    dialog, found = work.dialog, dict(offer.settings)
    if offer.backend == "gateway" and "base_url" not in found:
        found["base_url"] = dialog.text("base-url", "Address of the gateway", "http://127.0.0.1:4000", something)
    if offer.backend in ("anthropic", "gateway") and "api_key" not in found:
        found["api_key"] = dialog.secret("api-key", "Key", work.keeper(f"llm-{offer.backend}-api-key"))
    if offer.backend == "vertex":
        found.setdefault("location", dialog.text("location", "Region", "europe-west1"))
        if "project" not in found:
            project = dialog.text("project", "Google Cloud project (empty: the credentials' own)", "", anything)
            found |= {"project": project} if project else {}
    return found


def _models(work: Work, offer: ModelOffer) -> dict[str, str]:
    """Ask which model does what; proposed is one for most, and a cheaper one for what is sorted and picked."""
    dialog, proposed = work.dialog, _proposed(offer)
    one, each = Choice("one", "One model for everything"), Choice("each", "A model for each role")
    choices = [Choice("proposed", _told(proposed)), one, each] if proposed else [one, each]
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


def _proposed(offer: ModelOffer) -> Mapping[str, str]:
    if offer.backend in CLAUDE_BACKENDS:
        return PROPOSED["claude-code"]
    return PROPOSED.get(offer.backend, {})


def _told(models: Mapping[str, str]) -> str:
    others = [f"{model} for {role}" for role, model in models.items() if role != "default"]
    return "; ".join([f"{models['default']} for all" if not others else models["default"], *others])


def _model(work: Work, key: str, question: str, offer: ModelOffer, default: str) -> str:
    if not offer.models:
        return work.dialog.text(key, question, default, something)
    choices = [Choice(model, model) for model in offer.models]
    return work.dialog.select(key, question, choices, default if default in offer.models else offer.models[0])
