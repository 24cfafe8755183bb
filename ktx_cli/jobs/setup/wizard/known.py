"""What is known of each step already, in a line."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.core.text import listing
from ktx_cli.jobs.agents.listing import NOT_INSTALLED, list_clients
from ktx_cli.jobs.agents.targets import Where
from ktx_cli.jobs.ingest.ledger import last_runs
from ktx_cli.jobs.models.probing import distinct_models, last_probes
from ktx_cli.jobs.setup.answers import Step
from ktx_cli.jobs.setup.wizard.work import Work
from ktx_cli.llm.roles import NO_BACKEND
from ktx_cli.project.config import Connection
from ktx_cli.project.state import read_state


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
