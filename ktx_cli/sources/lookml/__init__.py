"""LookML in a git repository."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="lookml",
    settings="ktx_cli.sources.lookml.settings:LookMlConnection",
    source="ktx_cli.sources.lookml.source:LookMlSource",
    questions=(
        Question("repo", required=True),
        Question("branch"),
        Question("folder"),
    ),
    noun="LookML",
    detector="ktx_cli.sources.lookml.source:detect",
)
