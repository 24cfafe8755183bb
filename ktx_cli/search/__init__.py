"""Full-text and semantic search over pages, definitions, values and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.search.base import Refreshed
    from ktx_cli.search.corpus import (
        KINDS,
        VALUE,
        Contents,
        Document,
        Field,
        Found,
        Hit,
        Layer,
        Pages,
        Part,
        Passage,
        Passages,
        Scope,
        Values,
        documents,
        files_between,
        layer_files,
        layer_signature,
        listed_columns,
        passage_documents,
        scan_signature,
        search_text_signatures,
        stray_signatures,
        values_signature,
        values_unit,
    )
    from ktx_cli.search.explanations import MOST_PAGES, explaining_in, mention
    from ktx_cli.search.index import Store, identity, open_index
    from ktx_cli.search.location import SharedIndex, index_of
    from ktx_cli.search.ranking import Index, alternatives, found, grouped_values, hits, rank
    from ktx_cli.search.searcher import (
        Overlays,
        SearchAnswer,
        Searcher,
        behind,
        open_base,
        refresh,
        search_together,
        tables_together,
    )
    from ktx_cli.search.shared_index import SharedTrees, explaining_in_tree, where_compared
    from ktx_cli.search.shared_session import (
        VectorFacts,
        close_search_readers,
        drop_statement,
        is_indexed,
        vector_facts,
    )
    from ktx_cli.search.shared_writer import KEPT_DAYS, UnusedVersion, unused_versions
    from ktx_cli.search.stems import folded, is_generic, is_stop_word, plain_words, stem, words
    from ktx_cli.search.store import IndexStore
    from ktx_cli.search.tables import FoundTable, find_tables

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
