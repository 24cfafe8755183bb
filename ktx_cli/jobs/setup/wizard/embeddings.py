"""The step of the embeddings: search by meaning, beside the search by words that is always there."""

from __future__ import annotations

from ktx_cli.jobs.setup.answers import Answers, EmbeddingAnswer
from ktx_cli.jobs.setup.detected import EmbeddingOffer, embedding_offers
from ktx_cli.jobs.setup.wizard.asking import Choice, capital
from ktx_cli.jobs.setup.wizard.dialog import anything
from ktx_cli.jobs.setup.wizard.work import AgainError, LeftOutError, Work


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
