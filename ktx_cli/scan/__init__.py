"""What a scan learns of a database and keeps: profiles, keys, joins, descriptions, the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.scan.carry import Losses
    from ktx_cli.scan.committed import (
        MANIFEST,
        RELATIONSHIPS,
        Base,
        Committed,
        carried_over,
        folders,
        manifest_hashes,
        read_table,
        require_some_tables,
        snapshot_path,
        table_path,
    )
    from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Described, TableFacts, content_hash, gather_facts
    from ktx_cli.scan.descriptions.model import (
        KIND,
        Descriptions,
        Estimate,
        answers_so_far,
        describe,
        estimate,
        side_by_side,
    )
    from ktx_cli.scan.descriptions.packing import estimated_tokens
    from ktx_cli.scan.descriptions.rules import describe_by_rules
    from ktx_cli.scan.diagram import MOST_EDGES, MOST_TEXT, Diagram, diagram_of, dot, draw_svg, mermaid
    from ktx_cli.scan.failures import Failures, Stage, StageFailure, ends_more, unexpected, with_failed_parts
    from ktx_cli.scan.findings import Knowledge
    from ktx_cli.scan.overlays import Overlays, empty_overlay
    from ktx_cli.scan.pipeline import Findings, Look, PreviousScan, ScanOutcome, Seen, TableChanges, scan_connection
    from ktx_cli.scan.profile.counts import FAILED, NOT_READ, SampledTable, TableProfile, unsampled
    from ktx_cli.scan.profile.profiler import OUT_OF_TIME, Budget, Profiled, SparingConnector, profile_tables
    from ktx_cli.scan.profile.store import (
        Found,
        Searched,
        StoredLook,
        ValueMatch,
        bare,
        comes_back_equal,
        find_values,
        load_lists,
        load_look,
        load_profiles,
        load_turns,
        save_values,
        without_private,
        without_values,
    )
    from ktx_cli.scan.profile.values import ColumnValues, Dictionary, DictionaryLimits, build_dictionary
    from ktx_cli.scan.relationships.hints import GivenHints, HintSource, ViewJoins, proposed_hints, recorded_hints
    from ktx_cli.scan.relationships.model import Cardinality, Check, Discovery, Edge, EdgeStatus, KeyChoice
    from ktx_cli.scan.relationships.proposals import Proposals, propose
    from ktx_cli.scan.relationships.search import discover
    from ktx_cli.scan.removed_joins import GoneJoin
    from ktx_cli.scan.review import Decision, Draft, Review, ReviewedEdge, Standing, counted, edges_named, read_review
    from ktx_cli.scan.shards import Places

_HOMES = {
    "carry": "Losses",
    "committed": (
        "Base Committed MANIFEST RELATIONSHIPS carried_over folders manifest_hashes read_table "
        "require_some_tables snapshot_path table_path"
    ),
    "descriptions.facts": "Described TEXT_KEYS TableFacts content_hash gather_facts",
    "descriptions.model": "Descriptions Estimate KIND answers_so_far describe estimate side_by_side",
    "descriptions.packing": "estimated_tokens",
    "descriptions.rules": "describe_by_rules",
    "diagram": "Diagram MOST_EDGES MOST_TEXT diagram_of dot draw_svg mermaid",
    "failures": "Failures Stage StageFailure ends_more unexpected with_failed_parts",
    "findings": "Knowledge",
    "overlays": "Overlays empty_overlay",
    "pipeline": "Findings Look PreviousScan ScanOutcome Seen TableChanges scan_connection",
    "profile.counts": "FAILED NOT_READ SampledTable TableProfile unsampled",
    "profile.profiler": "Budget OUT_OF_TIME Profiled SparingConnector profile_tables",
    "profile.store": (
        "Found Searched StoredLook ValueMatch bare comes_back_equal find_values load_lists load_look "
        "load_profiles load_turns save_values without_private without_values"
    ),
    "profile.values": "ColumnValues Dictionary DictionaryLimits build_dictionary",
    "relationships.hints": "GivenHints HintSource ViewJoins proposed_hints recorded_hints",
    "relationships.model": "Cardinality Check Discovery Edge EdgeStatus KeyChoice",
    "relationships.proposals": "Proposals propose",
    "relationships.search": "discover",
    "removed_joins": "GoneJoin",
    "review": "Decision Draft Review ReviewedEdge Standing counted edges_named read_review",
    "shards": "Places",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
