"""Data dictionaries in CSV files, as a context source for ktx."""

from ktx_cli.project import Question
from ktx_cli.sources import SourceKind

SOURCE = SourceKind(
    driver="dictionary",
    settings="ktx_source_example.settings:DictionaryConnection",
    source="ktx_source_example.source:DictionarySource",
    questions=(
        Question("dir", required=True),
        Question("database", required=True, key="database", text="Connection whose tables it describes"),
    ),
)
