"""MetricFlow definitions in a git repository."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="metricflow",
    settings="ktx_cli.sources.metricflow.settings:MetricFlowConnection",
    source="ktx_cli.sources.metricflow.source:MetricFlowSource",
    questions=(
        Question("repo", required=True),
        Question("branch"),
        Question("folder"),
    ),
)
