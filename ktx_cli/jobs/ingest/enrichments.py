"""Who describes in a run: nobody, rules, the model, or in a dry run the answers that are kept."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ktx_cli.jobs.ingest.depth import Depth
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.scanning import Enrich
from ktx_cli.project.enrichment_store import StateEnrichmentStore

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.foretelling import Answers
    from ktx_cli.jobs.ingest.models import Models


def enriched(run: Run, models: Models, database: sqlite3.Connection) -> Enrich:
    """Return what makes the descriptions of each connection; answers are kept in `database`."""
    prompts = run.prompts
    if prompts is None:
        return _without_a_model(run)
    from ktx_cli.jobs.ingest.enriching import ByModel

    store = StateEnrichmentStore(run.layout, database)
    return lambda connection: ByModel(connection, run.config, prompts, store, models, run.request.emit)


def foretold(run: Run, answers: Answers) -> Enrich:
    """Return what tells of each connection what a run would ask; `answers`: those of earlier runs."""
    prompts = run.prompts
    if prompts is None:
        return _without_a_model(run)
    from ktx_cli.jobs.ingest.foretelling import Foretold

    return lambda connection: Foretold(run.layout, run.config, prompts, answers)


def _without_a_model(run: Run) -> Enrich:
    if run.depth is not Depth.ENRICHED:
        return lambda connection: None
    from ktx_cli.jobs.ingest.enriching import ByRules

    return lambda connection: ByRules()
