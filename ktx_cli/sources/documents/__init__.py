"""Documents in a folder, or in a git repository."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="documents",
    settings="ktx_cli.sources.documents.settings:DocumentsConnection",
    source="ktx_cli.sources.documents.source:DocumentsSource",
    kind="files",
    documents=True,
    questions=(Question("dir", required=True),),
    detector="ktx_cli.sources.documents.source:detect",
)
