"""Looker, over its API."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="looker",
    settings="ktx_cli.sources.looker.settings:LookerConnection",
    source="ktx_cli.sources.looker.source:LookerSource",
    questions=(
        Question("url", required=True),
        Question("user", required=True),
        Question("token", required=True),
    ),
    variables={
        "base_url": ("LOOKERSDK_BASE_URL", "LOOKER_BASE_URL"),
        "client_id": ("LOOKERSDK_CLIENT_ID", "LOOKER_CLIENT_ID"),
        "client_secret": ("LOOKERSDK_CLIENT_SECRET", "LOOKER_CLIENT_SECRET"),
    },
)
