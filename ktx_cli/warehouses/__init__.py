"""Read-only access to databases and folders of data files, with one folder for each warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.warehouses.base import (
        BaseConnector,
        TableDraft,
        driver_error_name,
        leading_keyword,
        lost_its_session,
        reason,
        source_path,
    )
    from ktx_cli.warehouses.cloud import Catalog, CloudConnector, Identity, Rights
    from ktx_cli.warehouses.declarations import allowed_values, enum_values, is_date
    from ktx_cli.warehouses.dialect import (
        DIALECTS,
        EPOCHS,
        FALSE_WORDS,
        PATTERNS,
        TRUE_WORDS,
        Dialect,
        access_gap,
        column_list,
        dialect_named,
        quote,
        reader_role,
        table_path,
        value_list,
    )
    from ktx_cli.warehouses.duckdb.loaded import LoadedTable, LoadedTables
    from ktx_cli.warehouses.files.connector import READERS
    from ktx_cli.warehouses.guard.check import (
        PARSER_FAULTS,
        CheckedStatement,
        StatementPolicy,
        names_are_missing,
        require_shallow,
        silence_parser,
        with_hint,
    )
    from ktx_cli.warehouses.guard.columns import comparable_name
    from ktx_cli.warehouses.guard.functions import EITHER, FunctionList, Server, StatementRefusedError, server_of
    from ktx_cli.warehouses.guard.nodes import table_after_in
    from ktx_cli.warehouses.mongodb.pipeline import (
        CheckedPipeline,
        CollectionPaths,
        PipelineRefusedError,
        check_pipeline,
        parse_pipeline,
    )
    from ktx_cli.warehouses.pool import CachingConnector, ConnectorPool, QueryCache, ended_at
    from ktx_cli.warehouses.port import (
        Aggregating,
        Column,
        ConnectionSpec,
        ConnectionTest,
        Connector,
        DatabaseSchema,
        Evident,
        ForeignKey,
        ForwardingConnector,
        Index,
        Interruptible,
        Metered,
        ObjectProblem,
        OverBudgetError,
        QueryResult,
        Scope,
        SemanticType,
        StoredAs,
        Table,
        TableEvident,
        TableKind,
        TableRef,
        UniqueKey,
        attribute,
        bytes_read,
        catalog_of,
        decimal_places,
        is_interruptible,
        may_ask,
        named_tables,
        parse_name,
        reader_of,
        ref_order,
        samples_itself,
        scope_from_options,
        select,
        table_evidence,
    )
    from ktx_cli.warehouses.registry import (
        VERIFIED_TEXTS,
        Opener,
        Signature,
        Warehouse,
        connect,
        dialect_of,
        is_installed,
        missing_package,
        open_connection,
        open_database,
        runs_pipelines,
        warehouse_of,
    )
    from ktx_cli.warehouses.sampling import (
        Sample,
        SampleLimits,
        SampleMethod,
        exact_texts,
        read_sample,
        reads_all_rows,
        value_of,
        why,
    )
    from ktx_cli.warehouses.server import TAG, ServerConnector, is_local
    from ktx_cli.warehouses.sketch import (
        HASHES,
        SKETCH_SIZE,
        HashedKind,
        SketchedColumn,
        estimate_statement,
        hashed_kind,
        sketch_statement,
    )
    from ktx_cli.warehouses.time_arithmetic import DateOrTimestamp, PeriodLength, TimeKind
    from ktx_cli.warehouses.worker.wire import row_memory, row_size

BUILT_IN: Final = (
    "sqlite", "duckdb", "files", "postgres", "mysql", "sqlserver", "clickhouse", "snowflake", "bigquery", "redshift",
    "databricks", "trino", "hologres", "iceberg", "delta", "mongodb", "spark", "athena",
)  # fmt: skip
"""The database drivers, in the order used in all lists; each is a folder in this package."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
