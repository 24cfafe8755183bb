"""Determines which relations a statement reads, and which of their columns and rows may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.protection.relations import (
        Named,
        Need,
        Refused,
        Relations,
        Table,
        _table_entries,
        column_need,
        names_in,
        needs_of,
        read_relations,
        source_id,
        sources_of,
        table_need,
    )
    from ktx_cli.protection.statements import (
        check_collections,
        check_protected,
        check_source,
        condition_columns,
        has_protected,
        reads_table,
        rows_countable,
        source_guard,
        tables_read,
        values_shown,
        view_reads,
    )
    from ktx_cli.protection.uses import LayerUses, Part, Use, Uses, asked_names

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
