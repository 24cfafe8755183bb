"""The wiki: pages, links, references and page checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.wiki.check import (
        LONGEST_BODY,
        LONGEST_SUMMARY,
        LONGEST_TEXT,
        MOST_TEXTS,
        Checker,
        NamedHosts,
        Replacement,
        Revision,
        check_pages,
        lint_page,
        problems_of,
        refused,
        refused_codes,
        revised,
        warnings_of,
    )
    from ktx_cli.wiki.contradictions import (
        DATA,
        Contradiction,
        ContradictionDecision,
        Statement,
        contradictions_in,
        entry_line,
        load_contradictions,
        merged,
        settled,
        with_contradictions,
        with_decision,
    )
    from ktx_cli.wiki.injection import hosts_of, instructions
    from ktx_cli.wiki.page import (
        CATALOG,
        DIAGNOSTIC_KEYS,
        FOLDER,
        GLOBAL,
        PRIVATE,
        Page,
        body_line,
        changed,
        check_key,
        could_be_key,
        field_line,
        new_page,
        page_path,
        parse,
        place_of,
        render,
        scopes_seen_from,
        suggested_key,
        user_of,
        user_scope,
    )
    from ktx_cli.wiki.redaction import REASONS, screened, screened_line, without_private
    from ktx_cli.wiki.reference import MEMBERS, Kind, Missing, Reference, Resolver, line_of, references
    from ktx_cli.wiki.similar import DUPLICATE, Likeness, SimilarPages, outlines
    from ktx_cli.wiki.store import (
        Graph,
        Wiki,
        backlinks,
        case_twins,
        graph_about,
        is_about,
        load_graph,
        load_wiki,
        no_such_page,
        own_page,
        read_page,
    )
    from ktx_cli.wiki.text import (
        UNEXPECTED_LINK,
        hidden_characters,
        hidden_markup,
        hosts_in,
        unstated_figures,
        without_fences,
        without_swallowed,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
