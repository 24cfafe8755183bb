"""Notion, over its API."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="notion",
    settings="ktx_cli.sources.notion.settings:NotionConnection",
    source="ktx_cli.sources.notion.source:NotionSource",
    documents=True,
    questions=(
        Question("token", required=True),
        Question("crawl-mode", default="all_accessible"),
        Question("root"),
    ),
    variables={"auth_token": ("NOTION_TOKEN", "NOTION_API_KEY")},
    presets={"crawl_mode": "all_accessible"},
)
