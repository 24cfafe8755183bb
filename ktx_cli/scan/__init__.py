"""Scan a database: profile its columns, infer keys and joins, write descriptions, and build the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.scan.committed import Committed, RemovedTexts, carried_over, folders, require_some_tables
    from ktx_cli.scan.decisions.reader import (
        decisions_path,
        read_decisions,
        read_record,
        source_of_tables,
        with_spreads,
    )
    from ktx_cli.scan.decisions.record import DECISIONS, FoundPoint, PointKey, has_points, points_bytes, read_points
    from ktx_cli.scan.decisions.tables import name_words, same_thing
    from ktx_cli.scan.descriptions.batches import estimated_tokens
    from ktx_cli.scan.descriptions.describers import Answers, Estimator, ModelDescriber, RuleDescriber, kept_answers
    from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Describer, DescriptionReport
    from ktx_cli.scan.descriptions.model import side_by_side
    from ktx_cli.scan.diagram import DIAGRAM_WRITERS, MOST_EDGES, MOST_TEXT, diagram_of
    from ktx_cli.scan.measures.additive import additive
    from ktx_cli.scan.measures.proposals import counted_entity, name_in_expr, outcome_rates
    from ktx_cli.scan.outcome import (
        PreviousScan,
        ScanOutcome,
        TableChanges,
        exclusion_hint,
        previous_scans,
        record_scan,
    )
    from ktx_cli.scan.pipeline import ScanJob, scan_connection
    from ktx_cli.scan.profile.answers import ProfileCounts
    from ktx_cli.scan.profile.profiler import TableProfile, Unsampled
    from ktx_cli.scan.profile.store import (
        ProfileStore,
        SearchedLists,
        ValueMatch,
        ValueMatches,
        find_values,
        forget_values,
        load_evidence,
        load_profiles_of,
        scanned_at,
        without_values,
    )
    from ktx_cli.scan.relationships.declarations import (
        Declarations,
        DeclaredJoin,
        DeclaredTable,
        Layer,
        declarations_text,
        read_declarations,
    )
    from ktx_cli.scan.relationships.evidence import ChildEvidence, Step
    from ktx_cli.scan.relationships.explanation import Explained, RunnerUp, Subject, explain
    from ktx_cli.scan.relationships.names import stem
    from ktx_cli.scan.relationships.record import DECLARATIONS, RELATIONSHIPS, STEADY, column_name, join_probabilities
    from ktx_cli.scan.relationships.verdict import scan_decision
    from ktx_cli.scan.removed_joins import GoneJoin
    from ktx_cli.scan.review import (
        BY_A_PERSON,
        INFERRED_JOINS,
        JOINED,
        AuthoredSources,
        Decision,
        JoinStatus,
        RelationshipReview,
        ReviewDraft,
        ReviewedRelationship,
        empty_overlay,
        read_review,
        relationships_named,
        status_counts,
    )
    from ktx_cli.scan.search_texts import (
        SearchTexts,
        SourceTexts,
        read_search_texts,
        search_texts_bytes,
        search_texts_path,
        search_texts_problem,
    )
    from ktx_cli.scan.shards import ManifestIndex
    from ktx_cli.scan.snapshot import (
        MANIFEST,
        LastScan,
        last_scans,
        manifest_hashes,
        read_manifest,
        read_table,
        snapshot_path,
        table_path,
    )
    from ktx_cli.scan.stages import (
        Depth,
        Failures,
        ScanPrompts,
        Stage,
        StageFailure,
        choose_depth,
        ends_more,
        needs_model,
        not_enriched,
        unexpected,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
