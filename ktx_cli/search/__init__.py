"""Full-text and semantic search over pages, definitions, values and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.search.corpus import (
        KINDS,
        Found,
        Hit,
        Passage,
        Scope,
        Shown,
        documents,
        listed_columns,
        passage_documents,
    )
    from ktx_cli.search.index import Store, identity, open_index
    from ktx_cli.search.parts import (
        Contents,
        Layer,
        Pages,
        Part,
        Passages,
        Values,
        files_between,
        layer_signature,
        scan_signature,
        stray_signatures,
        values_signature,
        values_unit,
    )
    from ktx_cli.search.ranking import Index, found, hits, rank
    from ktx_cli.search.searcher import Answer, Refreshed, Searcher, refresh
    from ktx_cli.search.tokens import folded, plain_words, words
    from ktx_cli.search.views import Overlays, behind, open_base

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
