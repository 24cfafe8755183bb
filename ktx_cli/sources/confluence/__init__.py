"""Confluence Cloud, over its API."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="confluence",
    settings="ktx_cli.sources.confluence.settings:ConfluenceConnection",
    source="ktx_cli.sources.confluence.source:ConfluenceSource",
    documents=True,
    questions=(
        Question("url", required=True),
        Question("user"),
        Question("token", required=True),
        Question("space"),
    ),
)
