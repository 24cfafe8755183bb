"""The first step: whether this folder becomes a project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktx_cli.core import CancelledError, Command, listing, plural
from ktx_cli.jobs.clients.targets import Target, Where
from ktx_cli.jobs.clients.uninstall import NOT_INSTALLED, list_clients
from ktx_cli.jobs.setup.answers import AgentsAnswer, Answers, Build, EmbeddingAnswer, Step
from ktx_cli.jobs.setup.detect.files import agent_offers
from ktx_cli.jobs.setup.detect.gateways import EmbeddingOffer, embedding_offers
from ktx_cli.jobs.setup.detect.sources import source_offers
from ktx_cli.jobs.setup.setup import existing_folder
from ktx_cli.jobs.setup.wizard.databases import SOURCE, ask_connection, ask_for_another, asks_for_more
from ktx_cli.jobs.setup.wizard.dialog import anything
from ktx_cli.jobs.setup.wizard.prompter import Choice, capital
from ktx_cli.jobs.setup.wizard.work import AgainError, LeftOutError, Work
from ktx_cli.llm import NO_BACKEND, distinct_models, last_probes
from ktx_cli.project import Connection, Repository, read_state
from ktx_cli.runs import last_runs


def project_step(work: Work) -> None:
    """Make the project, unless it is there."""
    if work.layout.config.exists():
        return
    work.prompter.say(_says(work.root))
    default = work.root.resolve() != Path(work.request.environ.get("HOME") or "/").resolve()
    if not work.dialog.confirm("make", f"Make a ktx project in {work.root}?", default):
        raise CancelledError("nothing was made", hint=Command("setup", "--project-dir", "FOLDER"))
    work.save(Answers())


def _says(root: Path) -> str:
    """Say what ktx puts into the folder, and what becomes of git."""
    repository = Repository.discover(existing_folder(root))
    git = "A git repository is made here, for there is none."
    if repository is not None:
        git = f"The folder is in the git repository {repository.layout.top_level}: ktx commits its own files there."
    return f"ktx keeps ktx.yaml, semantic-layer/, wiki/ and raw-sources/ in git, and .ktx/ out of it. {git}"


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


def build_step(work: Work) -> None:
    """Read the connections now, or leave it to `ktx ingest`."""
    config = work.config
    if not config.connections:
        work.prompter.say("There is nothing to read yet.")
        return
    if not work.revisited and known(work, Step.BUILD):
        return
    counts = [plural(len(config.databases()), "database")]
    if config.sources():
        counts.append(plural(len(config.sources()), "context source"))
    asks = "" if config.llm.provider.backend == "none" else ", asking the model"
    choices = [
        Choice(Build.FULL, f"Read everything now: {' and '.join(counts)}{asks}"),
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


def embeddings_step(work: Work) -> None:
    """Choose who makes the vectors, if anybody."""
    if work.config.ingest.embeddings.backend != "none" and not work.changes("the embeddings"):
        return
    offers = work.looked("embeddings", lambda: _offers(work))
    choices = [Choice(each.backend, capital(each.label), "not usable now" if each.problem else "") for each in offers]
    usable = [each.backend for each in offers if each.problem is None and each.backend != "openai"]
    chosen = work.dialog.select("backend", "Search by meaning, too?", choices, usable[-1] if usable else "none")
    offer = next(each for each in offers if each.backend == chosen)
    if offer.problem is not None:
        _wait_for(work, offer)
    done = work.save(Answers(embeddings=_answer(work, offer)))
    if done.embeddings is not None:
        work.prompter.say(f"{done.embeddings.model} answers: {done.embeddings.dimensions} numbers a vector", "good")


def _offers(work: Work) -> list[EmbeddingOffer]:
    offers = embedding_offers(work.config, project_dir=work.root, environ=work.request.environ)
    if all(offer.backend != "openai" for offer in offers):
        offers.append(EmbeddingOffer("openai", "An API that speaks OpenAI's embeddings, with a key", {}, None))
    return offers


def _wait_for(work: Work, offer: EmbeddingOffer) -> None:
    assert offer.problem is not None
    work.prompter.say(offer.problem.message, "bad")
    if offer.problem.hint:
        work.prompter.say(offer.problem.hint, "hint")
    choices = [
        Choice("again", "Done: look again"),
        Choice("other", "Choose another"),
        Choice("leave", "Search by words alone"),
    ]
    chosen = work.prompter.select("What now?", choices, "again")
    if chosen == "leave":
        raise LeftOutError
    if chosen == "other":
        work.dialog.draft.forget(work.dialog.step, propose=False)
    work.look_again("embeddings")
    raise AgainError


def _answer(work: Work, offer: EmbeddingOffer) -> EmbeddingAnswer:
    found = dict(offer.settings)
    if offer.backend == "openai":
        if "api_key" not in found:
            found["api_key"] = work.dialog.secret("api-key", "Key", work.keeper("embeddings-api-key"))
        address = work.dialog.text(
            "base-url", "Address (empty: OpenAI's own)", str(found.get("base_url", "")), anything
        )
        found |= {"base_url": address} if address else {}
        found["model"] = work.dialog.text("model", "Model", str(found.get("model", "text-embedding-3-small")))
    return EmbeddingAnswer(offer.backend, **{key: value for key, value in found.items() if key != "backend"})


def known(work: Work, step: Step) -> str:
    """Return what is set up of a step; empty where nothing is."""
    config = work.config
    if step is Step.PROJECT:
        return str(work.root)
    if step is Step.LLM:
        return "" if config.llm.provider.backend == NO_BACKEND else _models(work)
    if step is Step.EMBEDDINGS:
        embeddings = config.ingest.embeddings
        return "" if embeddings.backend == "none" else f"{embeddings.backend}, {embeddings.model or 'its own model'}"
    if step is Step.BUILD:
        return _last_build(work)
    if step is Step.AGENTS:
        clients = list_clients(Where(work.root, work.request.environ))
        return listing(dict.fromkeys(each.target for each in clients if each.state != NOT_INSTALLED), 9)
    return _listed(config.databases() if step is Step.DATABASES else config.sources())


def _models(work: Work) -> str:
    probes = read_state(work.layout, last_probes) or {}
    last = {ref: probes.get(ref) for ref in distinct_models(work.config)}
    return listing((f"{ref}, last probe {each.finished if each else 'never'}" for ref, each in last.items()), 9)


def _last_build(work: Work) -> str:
    runs = read_state(work.layout, last_runs) or ()
    done = next((run for run in runs if run["status"] in ("done", "unchanged")), None)
    return "" if done is None else f"last run {done['run_id']}"


def _listed(connections: Mapping[str, Connection]) -> str:
    return listing((f"{name} ({entry.driver})" for name, entry in connections.items()), 9)
