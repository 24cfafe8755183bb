"""Metabase, over its API."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="metabase",
    settings="ktx_cli.sources.metabase.settings:MetabaseConnection",
    source="ktx_cli.sources.metabase.source:MetabaseSource",
    questions=(
        Question("url", required=True),
        Question("token", required=True),
    ),
    variables={"api_url": ("METABASE_URL",), "api_key": ("METABASE_API_KEY",)},
)
