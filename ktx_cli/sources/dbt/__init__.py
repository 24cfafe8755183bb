"""dbt projects: a folder, or a repository."""

from ktx_cli.project import Question
from ktx_cli.sources.registry import SourceKind

SOURCE = SourceKind(
    driver="dbt",
    settings="ktx_cli.sources.dbt.settings:DbtConnection",
    source="ktx_cli.sources.dbt.source:DbtSource",
    questions=(Question("dir", required=True),),
    noun="dbt project",
    detector="ktx_cli.sources.dbt.source:detect",
)
