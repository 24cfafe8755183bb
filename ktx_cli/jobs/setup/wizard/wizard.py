"""The wizard's steps in order: forward, back, skipping, and resuming where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import CancelledError, Command, Hint, listing, plural
from ktx_cli.jobs.clients.listing import NOT_INSTALLED, agent_offers, list_clients
from ktx_cli.jobs.clients.targets import Target, Where
from ktx_cli.jobs.setup.answers import AgentsAnswer, Answers, Build, EmbeddingAnswer, ModelAnswer, SetupStep
from ktx_cli.jobs.setup.detect.embeddings import embedding_offers, how_to_get_a_model
from ktx_cli.jobs.setup.detect.models import ModelOffer, model_offers
from ktx_cli.jobs.setup.request import SetupReport, SetupRequest
from ktx_cli.jobs.setup.setup import existing_folder
from ktx_cli.jobs.setup.wizard.databases import databases_step, sources_step
from ktx_cli.jobs.setup.wizard.dialog import (
    AgainError,
    BackAsked,
    Dialog,
    LeftOutError,
    MenuItem,
    Prompter,
    WizardDraft,
    WizardRun,
    anything,
    capital,
    something,
)
from ktx_cli.llm import NO_BACKEND, backend_kinds, distinct_models, kind_of, last_probes
from ktx_cli.project import ROLES, Connection, Layout, Repository, read_local, read_state
from ktx_cli.runs import last_runs


def llm_step(work: WizardRun) -> None:
    """Choose a backend and its models."""
    if work.config.llm.provider.backend != NO_BACKEND and not work.changes("the model backend"):
        return
    work.say_once("A model writes descriptions, pages and measures. ktx does everything else without one.")

    def look() -> list[ModelOffer]:
        work.prompter.say("Detecting available models ...")
        return model_offers(work.config, project_dir=work.root, environ=work.request.environ)

    done = work.save(Answers(llm=_answer(work, work.looked(str(SetupStep.LLM), look))))
    for result in done.probes.results:
        if result.report is not None:
            work.prompter.say(f"{result.ref} answers: {result.report.account}", "good")
    for warning in done.warnings:
        if warning.code == "prompt_caching_ignored":
            work.prompter.say(warning.message, "hint")


def _answer(work: WizardRun, offers: list[ModelOffer]) -> ModelAnswer:
    ready = [offer for offer in offers if offer.problem is None]
    choices = [MenuItem(offer.value, capital(offer.label)) for offer in ready]
    choices += [MenuItem(offer.value, capital(offer.label), "not usable now") for offer in offers if offer.problem]
    known = {offer.value for offer in offers}
    choices += [MenuItem(each.name, each.label) for each in backend_kinds() if each.by_hand and each.name not in known]
    choices.append(MenuItem(NO_BACKEND, "No model for now"))
    default = ready[0].value if ready else NO_BACKEND
    chosen = work.dialog.select("backend", "Which model backend?", choices, default)
    if chosen == NO_BACKEND:
        return ModelAnswer(NO_BACKEND)
    offer = next((each for each in offers if each.value == chosen), ModelOffer(chosen, ""))
    if offer.problem is not None:
        hint = str(offer.problem.details.get("sign_in") or offer.problem.hint or "")
        work.wait_for(offer.problem.message, hint, "Choose another backend", "Skip the model for now")
    provider = _provider(work, offer)
    models = _models(work, offer)
    says = "Also let the model describe tables and columns?"
    described = "llm" if work.dialog.confirm("descriptions", says, True) else "none"
    return ModelAnswer(offer.backend, models, provider, described)


def _provider(work: WizardRun, offer: ModelOffer) -> dict[str, str]:
    """Ask for what the backend needs but this machine does not provide."""
    found, dialog = dict(offer.settings), work.dialog
    for each in kind_of(offer.backend).questions:
        if each.field in found:
            continue
        key, accepted = each.field.replace("_", "-"), anything if each.optional else something
        if each.secret:
            value = dialog.secret(key, each.question, work.keeper(f"llm-{offer.backend}-{key}"), accepted)
        else:
            value = dialog.text(key, each.question, each.default, accepted)
        found |= {each.field: value} if value else {}
    return {field: value for field, value in found.items() if value}


def _models(work: WizardRun, offer: ModelOffer) -> dict[str, str]:
    """Ask which model to use for which roles; suggests one for most, and a cheaper one for triage and selection."""
    dialog, proposed = work.dialog, kind_of(offer.backend).models
    one, each = MenuItem("one", "One model for everything"), MenuItem("each", "A model for each role")
    choices = [MenuItem("proposed", _models_text(proposed)), one, each] if proposed else [one, each]
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
    """Return the models as one line: `sonnet to write pages and measures; haiku for triage, candidateExtraction`."""
    others = dict.fromkeys(model for role, model in models.items() if role != "default")
    roles = {other: ", ".join(role for role, model in models.items() if model == other) for other in others}
    if not roles:
        return f"{models['default']} for all"
    return "; ".join(
        [
            f"{models['default']} to write pages and measures",
            *(f"{model} for {named}" for model, named in roles.items()),
        ]
    )


def _model(work: WizardRun, key: str, question: str, offer: ModelOffer, default: str) -> str:
    if not offer.models:
        return work.dialog.text(key, question, default, something)
    choices = [MenuItem(model, model) for model in offer.models]
    return work.dialog.select(key, question, choices, default if default in offer.models else offer.models[0])


def project_step(work: WizardRun) -> None:
    """Create the project, unless it exists."""
    if work.layout.config.exists():
        return
    repository = Repository.discover(existing_folder(work.root))
    git = "A git repository will be created here, because there is none."
    if repository is not None:
        git = f"The folder is in the git repository {repository.layout.top_level}, where ktx commits its own files."
    kept = "ktx keeps ktx.yaml, semantic-layer/, wiki/ and raw-sources/ in git, but not .ktx/."
    work.prompter.say(f"{kept} {git}")
    default = work.root.resolve() != Path(work.request.environ.get("HOME") or "/").resolve()
    if not work.dialog.confirm("make", f"Create a ktx project in {work.root}?", default):
        raise CancelledError("nothing was created", hint=Command("setup", "--project-dir", "FOLDER"))
    work.save(Answers())


def agents_step(work: WizardRun) -> None:
    """Install the project into agent clients."""
    offers = agent_offers(work.root, work.request.environ)
    there = [offer for offer in offers if offer.installed]
    left = [offer for offer in offers if not offer.installed and offer.target is not Target.UNIVERSAL]
    if there and not work.revisited and not work.dialog.begun():
        return
    others = [MenuItem(target, target) for target in Target if target is not Target.UNIVERSAL]
    choices = [MenuItem(offer.target, capital(offer.label)) for offer in left] or others
    chosen = work.dialog.several("targets", "Which agent clients should use this project?", choices)
    if not chosen:
        raise LeftOutError
    while True:
        done = work.save(Answers(agents=AgentsAnswer(tuple(map(Target, chosen)))))
        for outcome in () if done.agents is None else done.agents.outcomes:
            work.prompter.say(f"{outcome.target}: {outcome.path}", "good")
        if done.error is None:
            return
        work.decide(done.error)


def build_step(work: WizardRun) -> None:
    """Read the connections now, or leave that to `ktx ingest`."""
    config = work.config
    if not config.connections:
        work.prompter.say("There is nothing to read yet.")
        return
    if not work.revisited and known(work, SetupStep.BUILD):
        return
    counts = [plural(len(config.databases()), "database")]
    if config.sources():
        counts.append(plural(len(config.sources()), "context source"))
    asks = "" if config.llm.provider.backend == "none" else ", with the model"
    choices = [
        MenuItem(Build.FULL, f"Read everything now: {' and '.join(counts)}{asks}"),
        MenuItem(Build.STRUCTURE, "Only read the structure of the databases"),
        MenuItem(Build.NONE, "Later, with ktx ingest"),
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


def embeddings_step(work: WizardRun) -> None:
    """Choose the embeddings, if any."""
    if work.config.ingest.embeddings.backend != "none" and not work.changes("the embeddings"):
        return

    def look() -> list[ModelOffer]:
        found = embedding_offers(work.config, project_dir=work.root, environ=work.request.environ)
        by_hand = ModelOffer("openai", "An API compatible with OpenAI's embeddings, with a key")
        has_key = any(offer.backend == "openai" and not offer.found for offer in found)
        return found if has_key else [*found, by_hand]

    offers = work.looked(str(SetupStep.EMBEDDINGS), look)
    if (sentence := how_to_get_a_model(offers, work.request.environ)) is not None:
        work.say_once(sentence)
    keys = [f"{each.backend} {each.found}".strip() for each in offers]
    choices = [
        MenuItem(key, capital(each.label), "not usable now" if each.problem else "")
        for key, each in zip(keys, offers, strict=True)
    ]
    usable = [choice.value for choice, each in zip(choices, offers, strict=True) if _is_free(each)]
    chosen = work.dialog.select("backend", "Enable semantic search, too?", choices, usable[-1] if usable else "none")
    offer = offers[keys.index(chosen)]
    if offer.problem is not None:
        work.wait_for(offer.problem.message, offer.problem.hint, "Choose another", "Full-text search only")
    done = work.save(Answers(embeddings=_embedding_answer(work, offer)))
    if done.embeddings is not None:
        work.prompter.say(f"{done.embeddings.model} answers: {done.embeddings.dimensions} numbers per vector", "good")


def _is_free(offer: ModelOffer) -> bool:
    """Return whether an offer can be used now, without a key and without sending texts to others."""
    return offer.problem is None and (offer.backend != "openai" or bool(offer.found))


def _embedding_answer(work: WizardRun, offer: ModelOffer) -> EmbeddingAnswer:
    found: dict[str, Any] = dict(offer.settings)
    if offer.found and offer.models[1:]:
        models = [MenuItem(model, model) for model in offer.models]
        found["model"] = work.dialog.select("model", "Which embedding model?", models, offer.models[0])
    if offer.found:
        return EmbeddingAnswer(offer.backend, api_key="" if offer.backend == "openai" else None, **found)
    if offer.backend == "openai":
        if "api_key" not in found:
            found["api_key"] = work.dialog.secret("api-key", "Key", work.keeper("embeddings-api-key"))
        address = work.dialog.text("base-url", "URL (empty: OpenAI's own)", found.get("base_url", ""), anything)
        found |= {"base_url": address} if address else {}
        found["model"] = work.dialog.text("model", "Model", found.get("model", "text-embedding-3-small"))
    return EmbeddingAnswer(offer.backend, **found)


def known(work: WizardRun, step: SetupStep) -> str:
    """Return what is set up for a step; empty if nothing is."""
    config = work.config
    match step:
        case SetupStep.PROJECT:
            return str(work.root)
        case SetupStep.LLM:
            if config.llm.provider.backend == NO_BACKEND:
                return ""
            probes = read_local(work.layout, last_probes) or {}
            last = {ref: probes.get(ref) for ref in distinct_models(config)}
            return listing((f"{ref}, last probe {each.finished if each else 'never'}" for ref, each in last.items()), 9)
        case SetupStep.EMBEDDINGS:
            found = config.ingest.embeddings
            return "" if found.backend == "none" else f"{found.backend}, {found.model or 'its own model'}"
        case SetupStep.BUILD:
            runs = read_state(work.layout, last_runs) or ()
            done = next((run for run in runs if run["status"] in ("done", "unchanged")), None)
            return "" if done is None else f"last run {done['run_id']}"
        case SetupStep.AGENTS:
            clients = list_clients(Where(work.root, work.request.environ))
            return listing(dict.fromkeys(each.target for each in clients if each.state != NOT_INSTALLED), 9)
    connections: Mapping[str, Connection] = config.databases() if step is SetupStep.DATABASES else config.sources()
    return listing((f"{name} ({entry.driver})" for name, entry in connections.items()), 9)


_STEPS: Final[Mapping[SetupStep, tuple[str, Callable[[WizardRun], None]]]] = {
    SetupStep.PROJECT: ("Project", project_step),
    SetupStep.LLM: ("Model", llm_step),
    SetupStep.EMBEDDINGS: ("Embeddings", embeddings_step),
    SetupStep.DATABASES: ("Databases", databases_step),
    SetupStep.SOURCES: ("Context sources", sources_step),
    SetupStep.BUILD: ("First build", build_step),
    SetupStep.AGENTS: ("Agent clients", agents_step),
}
_KEYS: Final = "Enter accepts an answer, {back} goes back, Ctrl-C stops; your answers are saved."


def run_wizard(request: SetupRequest, prompter: Prompter, only: Sequence[SetupStep] = ()) -> SetupReport:
    """Ask for what is missing, or run the steps in `only`; returns what was done.

    Raises `CancelledError` if the person stops; the answers so far are kept.
    """
    layout = Layout(request.project_dir)
    dialog = Dialog(prompter, WizardDraft(layout))
    work = WizardRun(request, dialog, SetupReport(layout.root, created_project=False))
    try:
        if only:
            wanted = [step for step in SetupStep if step in only and step is not SetupStep.PROJECT]
            _walk(work, [SetupStep.PROJECT], ())
            _walk(work, wanted, wanted)
        else:
            prompter.say(_KEYS.format(back=prompter.back))
            _walk(work, list(SetupStep), ())
            if not dialog.questions:
                _offer_changes(work)
    except KeyboardInterrupt:
        kept = "your answers are saved" if layout.config.exists() else "nothing was saved"
        raise CancelledError(f"setup was stopped; {kept}", hint=Command("setup")) from None
    work.report.has_connections = bool(work.config.connections)
    return work.report


def _walk(work: WizardRun, steps: Sequence[SetupStep], again: Sequence[SetupStep]) -> None:
    """Run some steps; run those in `again` even if they are settled. Going back from the first of those ends it.

    Going back skips steps that ask nothing; if no earlier step asks anything, the current question stays.
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


def _title(work: WizardRun, step: SetupStep) -> None:
    """Report the current step, and what is set up for it."""
    summary = known(work, step) if work.layout.config.exists() else ""
    if not summary and step in work.dialog.draft.settled:
        summary = "none"
    title = f"{list(SetupStep).index(step) + 1}/{len(SetupStep)} {_STEPS[step][0]}"
    work.prompter.say(f"{title}: {summary}" if summary else title, "title")


def _settled(work: WizardRun, step: SetupStep) -> bool:
    """Run a step until it is settled; False if the person goes back from its first question."""
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
            having = {SetupStep.DATABASES: work.config.databases(), SetupStep.SOURCES: work.config.sources()}
            if not having.get(step):
                work.prompter.say(Hint("skipped; {} asks again", Command("setup", "--only", step)), "hint")
        if step is SetupStep.PROJECT:
            draft.forget(step, propose=False)
        else:
            work.discard_secrets()
            draft.settle(step)
        return True


def _offer_changes(work: WizardRun) -> None:
    """Let the person choose steps to repeat because nothing is missing."""
    choices = [MenuItem("nothing", "Nothing: done")]
    choices += [MenuItem(step, title) for step, (title, _) in _STEPS.items() if step is not SetupStep.PROJECT]
    while True:
        try:
            question = "Everything is set up. What do you want to change?"
            chosen = work.prompter.select(question, choices, "nothing")
        except BackAsked:
            return
        if chosen == "nothing":
            return
        step = SetupStep(chosen)
        work.dialog.draft.reopen(step)
        _walk(work, [step], [step])
