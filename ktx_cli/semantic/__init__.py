"""The semantic layer: load the model from files, check it, and compile queries to correct SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.semantic.acceptance import (
        MOST_COMMITS,
        Accepted,
        Moves,
        Owner,
        Owners,
        RecordedTest,
        Statuses,
        accepted_in,
        defining_files,
        last_accepted,
        owners_in,
        record_acceptances,
        record_tests,
        recorded_tests,
    )
    from ktx_cli.semantic.answer import Answer, CompiledQuery, Prepared, ask_prepared, compile_query, prepare, receipt
    from ktx_cli.semantic.calendar import calendar_of
    from ktx_cli.semantic.caller import NOBODY, Caller, Principal
    from ktx_cli.semantic.change_checks import NOT_CHECKED, ChangeChecks, CheckData
    from ktx_cli.semantic.check import Resolver, read_fragment
    from ktx_cli.semantic.compile.build import Build, as_column, column, count_of, is_present, join, subquery
    from ktx_cli.semantic.compile.rows import Rows
    from ktx_cli.semantic.data_checks import PROTECTED, DataCheck, DataChecks
    from ktx_cli.semantic.decision_notes import (
        OpenDecision,
        PlanDecisions,
        decision_text,
        decisions_of_plan,
        effect_text,
        is_shown,
        names_hidden,
        names_values,
        open_decision,
        open_notes,
        short_number,
        shown_decision,
    )
    from ktx_cli.semantic.decisions import (
        Alternative,
        DecisionAnswer,
        DecisionKind,
        DecisionPoint,
        Decisions,
        DecisionState,
        Effect,
        Statement,
        answers_in,
        is_named_for,
        is_touched,
        load_answers,
        percent,
        with_answer,
        without_answer,
    )
    from ktx_cli.semantic.expressions.fragments import TEMPLATE, parse
    from ktx_cli.semantic.expressions.names import Expression, Name, Names, column_parts, placeholder
    from ktx_cli.semantic.filter_values import (
        MOST_CANDIDATES,
        MOST_CHECKED,
        Comparison,
        Recency,
        ValueFindings,
        comparisons,
        has_rows,
        is_proven,
        periods,
        plan_check,
    )
    from ktx_cli.semantic.formats import number_styles, sums_of_text
    from ktx_cli.semantic.graph import Edge, Graph, graph_of, reached_from
    from ktx_cli.semantic.guarded import (
        DEFAULT_BYTES,
        UNCACHED,
        ConnectionGuard,
        GuardedConnector,
        LoadLayer,
        QueryServices,
        broken_files_named,
        database_of,
        guard_of,
        json_rows,
        load_layer,
        load_layers,
        require_defined,
        store_layer,
        store_layers,
        stray_problems,
    )
    from ktx_cli.semantic.interchange.dbt.importer import NO_ONE_TABLE, Relation, import_dbt, relation_of
    from ktx_cli.semantic.interchange.dbt.project import STEERS, TARGET_NAME, Call, parse_call, read_documents, render
    from ktx_cli.semantic.interchange.drafts import IMPORT_HEADER
    from ktx_cli.semantic.interchange.importer import Placed, import_path, place
    from ktx_cli.semantic.interchange.lookml.importer import import_lookml
    from ktx_cli.semantic.interchange.lookml.project import Block, parse_lookml, read_project
    from ktx_cli.semantic.interchange.lookml.views import IRRELEVANT, UNKNOWN_TABLE, condition
    from ktx_cli.semantic.interchange.osi.exporter import export_osi
    from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi, table_origin
    from ktx_cli.semantic.interchange.powerbi.model import PowerBiModel, is_model_file, model_files, read_models
    from ktx_cli.semantic.interchange.powerbi.mquery import TableOrigin
    from ktx_cli.semantic.interchange.powerbi.template import (
        NO_MODEL,
        REPORT_SUFFIX,
        TEMPLATE_SUFFIX,
        schema_path,
        template_path,
        template_schema,
    )
    from ktx_cli.semantic.interchange.powerbi.world import NO_ROLES, POWERBI_INERT
    from ktx_cli.semantic.interchange.report import Fidelity, Item, Kind, Report, UnresolvedError
    from ktx_cli.semantic.interchange.tableau.document import parse_document
    from ktx_cli.semantic.interchange.tableau.importer import TABLEAU_IRRELEVANT, import_data_sources
    from ktx_cli.semantic.interchange.tableau.package import MAX_PACKAGE, document_in
    from ktx_cli.semantic.interchange.tableau.tables import TABLEAU_UNKNOWN
    from ktx_cli.semantic.interchange.tableau.workbook import (
        TABLEAU_SUFFIXES,
        TableauData,
        TableauLink,
        read_data_sources,
    )
    from ktx_cli.semantic.load.columns import NOT_AUTHORS, PRIORITY, is_imported
    from ktx_cli.semantic.load.entries import APPROVALS, SourceFile
    from ktx_cli.semantic.load.joins import meaning, mirrored, on_text, read_plain_join, table_parts, with_sides
    from ktx_cli.semantic.load.load import NO_CONNECTION, load_model, load_tree, read_files, read_source, text_of
    from ktx_cli.semantic.load.sources import KEY
    from ktx_cli.semantic.lookup import lookup_of
    from ktx_cli.semantic.manifest import (
        DISABLED,
        DISABLED_MEASURES,
        MANIFEST_HEADER,
        PROPOSED_MEASURES,
        PROPOSED_SEGMENTS,
        SUFFIXES,
        ColumnValues,
        Entry,
        ManifestLayout,
        Shard,
        is_shard_path,
        is_stray,
        is_table_file,
        is_yaml,
        layer_ids,
        load_lists,
        own_files,
        parse_shard,
        physical_name,
        plain_on,
        quoted,
        render_shard,
        shard_files,
        source_names,
        stray_paths,
    )
    from ktx_cli.semantic.masks import (
        has_masks,
        mask_misfit,
        masked_for,
        masks_in,
        masks_of,
        same_table,
        unmasked,
        with_inputs,
    )
    from ktx_cli.semantic.metric_tests import TestResult, run_test
    from ktx_cli.semantic.model import (
        GRAINS,
        PROBLEM_KEYS,
        Barred,
        CalendarSettings,
        Column,
        Condition,
        Join,
        Mask,
        Measure,
        MetricTest,
        Model,
        Parameter,
        Place,
        Relationship,
        Segment,
        SemanticError,
        Source,
        Status,
        Visibility,
        layer_diagnostic,
        spelled,
        unknown,
    )
    from ktx_cli.semantic.plan.axis import time_of
    from ktx_cli.semantic.plan.measures import Measures
    from ktx_cli.semantic.plan.plan import Plan
    from ktx_cli.semantic.plan.planner import parameter_values
    from ktx_cli.semantic.query import (
        DEFAULT_LIMIT,
        LONGEST,
        MOST_ITEMS,
        MOST_ROWS,
        Query,
        parse_query,
        with_grain,
        with_name,
    )
    from ktx_cli.semantic.readings import (
        TouchedMeasure,
        condition_in,
        is_additive,
        readings_of,
        rows_left_out,
        sql_name,
        time_expression,
        touched_measures,
        with_source,
    )
    from ktx_cli.semantic.status import (
        Claim,
        Definition,
        DefinitionKind,
        DefinitionStatus,
        Used,
        claims_in,
        declared_definitions,
        definition_text,
        is_weaker,
        items_in,
        lowest,
        mirrored_definitions,
        require_status,
        status_of,
        used_definitions,
    )
    from ktx_cli.semantic.store.layer import (
        DeclaredEntry,
        Manifest,
        ParsedCopies,
        declared_entries,
        has_store,
        load_manifest,
        source_digests,
        stored_copy,
        stored_hashes,
    )
    from ktx_cli.semantic.store.parts import declared_names
    from ktx_cli.semantic.store.reader import check_model, close_stores, store_path
    from ktx_cli.semantic.verification import Verified, verify, verify_sample
    from ktx_cli.semantic.visible import NOT_SHOWN, VisibleModel

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
