"""What setup can see by itself: models, embeddings, databases, context sources and agent clients of this machine.

Nothing is written, no model is asked, and nothing but loopback is talked to. What is not there is no error; what is
there and cannot be used is an offer with a `problem`.
"""

from ktx_cli.connectors.registry import missing_package
from ktx_cli.jobs.setup.detected.agents import AgentOffer, agent_offers
from ktx_cli.jobs.setup.detected.databases import DatabaseOffer, database_offers
from ktx_cli.jobs.setup.detected.embeddings import EmbeddingOffer, embedding_offers
from ktx_cli.jobs.setup.detected.models import ModelOffer, model_offers
from ktx_cli.jobs.setup.detected.sources import SourceOffer, source_offers

__all__ = [
    "AgentOffer",
    "DatabaseOffer",
    "EmbeddingOffer",
    "ModelOffer",
    "SourceOffer",
    "agent_offers",
    "database_offers",
    "embedding_offers",
    "missing_package",
    "model_offers",
    "source_offers",
]
