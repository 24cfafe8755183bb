"""Read the datasets of a Google Cloud project. BigQuery itself classifies every statement before it runs."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath
from ktx_cli.warehouses import base, cloud
from ktx_cli.warehouses.base import TableDraft, read_only_error, reason
from ktx_cli.warehouses.port import ConnectionSpec, ObjectProblem, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, tagged

if TYPE_CHECKING:
    pass

MAX_BYTES_BILLED = 100 * 2**30
"""The maximum number of bytes that one statement may bill, unless `max_bytes_billed` is set: 100 GiB."""

_SCOPES = ("https://www.googleapis.com/auth/bigquery",)
_READ, _WRITE = "bigquery.tables.getData", "bigquery.tables.updateData"
_LOOKED_AT = 20
_DRY_RUNS = 64
_REQUEST = re.compile(r"^(GET|POST) \S+: ")
_TYPES = {
    bool: "BOOL",
    int: "INT64",
    float: "FLOAT64",
    Decimal: "NUMERIC",
    str: "STRING",
    bytes: "BYTES",
    datetime.datetime: "DATETIME",
    datetime.date: "DATE",
    datetime.time: "TIME",
}


class BigQueryConnector(cloud.CloudConnector):
    """A BigQuery project; a schema is a dataset, or `project.dataset` for one of another project."""

    dialect = "bigquery"
    schema_keys = ("dataset_ids", "dataset_id")
    secret_keys = ("credentials_json",)
    reading = frozenset({"SELECT", "WITH", "FROM"})

    def __init__(self, spec: ConnectionSpec) -> None:
        self._key = _service_account(spec)
        url = urlsplit(str(spec.options.get("url") or ""))
        self.default_schemas = tuple(unquote(part) for part in url.path.split("/") if part)
        self.project = str(spec.options.get("project_id") or url.netloc or self._key.get("project_id") or "")
        if not self.project:
            cloud.required(spec, "project_id", "my-project")
        self._dry_runs: dict[str, tuple[str | None, int | None]] = {}
        """The kind and the bytes of statements that were tried and have not run yet."""
        address = ServerAddress("bigquery.googleapis.com", 443, self.project, "", "")
        super().__init__(spec, address, f"BigQuery project {self.project}")

    @property
    def own_catalog(self) -> str:
        """See `catalog_of`: the project."""
        return self.project

    def _open(self) -> Any:
        from google.cloud import bigquery

        return bigquery.Client(
            project=self.project, credentials=self._credentials(), location=self.options.get("location")
        )

    def _credentials(self) -> Any:
        """Return the credentials from the service account key, or those stored on this machine by Google's tools."""
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.oauth2.service_account import Credentials

        if not self._key:
            return google.auth.default(scopes=_SCOPES)[0]
        try:
            make: Any = Credentials.from_service_account_info
            return make(self._key, scopes=_SCOPES)
        except (ValueError, GoogleAuthError):
            raise _bad_key(self.spec) from None

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        rows = self._result(session, self._job(session, sql.strip(), parameters), None)
        return [tuple(row.values()) for row in rows]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        tried = None if parameters else self._dry_runs.pop(sql, None)
        kind = self._job(session, sql, parameters, dry_run=True).statement_type if tried is None else tried[0]
        if kind != "SELECT":
            raise read_only_error(self.where, f"`{kind}` statements are" if kind else "this kind of statement is")
        job = self._job(session, sql, parameters)
        with self._cancellable(lambda: _cancelled(session, job)):
            result = self._result(session, job, max_rows + 1)
            rows, cut = base.capped((row.values() for row in result), max_rows)
        return QueryResult(tuple(field.name for field in result.schema), rows, cut)

    def _job(self, session: Any, sql: str, parameters: tuple[Any, ...], *, dry_run: bool = False) -> Any:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(
            dry_run=dry_run,
            use_query_cache=not dry_run,
            maximum_bytes_billed=int(self.options.get("max_bytes_billed") or MAX_BYTES_BILLED),
            job_timeout_ms=int(self._seconds() * 1000),
            labels={"application": "ktx"},
            query_parameters=[_parameter(value) for value in parameters],
        )
        return session.query(tagged(sql), job_config=config, job_retry=None, **_patience())

    def _result(self, session: Any, job: Any, max_results: int | None) -> Any:
        retry = _patience()["retry"]
        return job.result(max_results=max_results, timeout=self._seconds(), retry=retry, job_retry=None)

    def _seconds(self) -> float:
        return int(self.options.get("job_timeout_ms") or 0) / 1000 or self.statement_seconds

    def _reusable(self, session: Any) -> bool:
        return True

    def _client_errors(self) -> tuple[type[Exception], ...]:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        return (GoogleAPIError, GoogleAuthError)

    def _text(self, error: Exception) -> str:
        # The text may begin with the request's address, and end with the job's number and the lines of the statement.
        return _REQUEST.sub("", str(getattr(error, "message", error)).partition("\n")[0])

    def _secrets(self) -> list[str]:
        return [*super()._secrets(), *(str(self._key.get(name) or "") for name in ("private_key", "private_key_id"))]

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, TimeoutError):
            return "", None, "timeout"
        return super()._describe(error)

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        from google.auth.exceptions import GoogleAuthError

        if isinstance(error, GoogleAuthError):
            return text, self._log_in_hint(), "connection"
        reasons = {each.get("reason") for each in getattr(error, "errors", ()) if isinstance(each, dict)}
        status = int(getattr(error, "code", 0) or 0)
        if reasons & {"stopped", "timeout"}:
            return "", None, "timeout"
        if "bytesBilledLimitExceeded" in reasons:
            return text, Command("config", "set", f"connections.{self.id}.max_bytes_billed", "BYTES"), "query"
        if status == 401:
            return text, self._log_in_hint(), "connection"
        if status == 403:
            return text, "grant the user roles/bigquery.dataViewer and roles/bigquery.jobUser", "query"
        if not status or status >= 500:
            return text, Command("connection", "test", self.id), "connection"
        if "location" in text:
            return text, Command("config", "set", f"connections.{self.id}.location", "EU"), "query"
        return text, None, "query"

    def _log_in_hint(self) -> str:
        setting = f"connections.{self.id}.credentials_json"
        return Hint("check {}", SettingPath(setting)) if self._key else Command("config", "set", setting, "file:PATH")

    def _identity(self, read: Reader) -> cloud.Identity:
        ((user,),) = read(IDENTITY)
        return cloud.Identity("BigQuery", user, self.project)

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[Table]) -> cloud.Rows:
        """See `CloudConnector`. Rows in a streaming buffer count when BigQuery moves them into the table's storage.

        Views and external tables are absent.
        """
        scope = Scope(schemas=tuple(cloud.schemas_of(tables)))
        catalog = self._catalog(read, parts, self._identity(read), scope)
        assert isinstance(catalog, BigQueryCatalog)
        return catalog.changes()

    def bytes_read(self, sql: str) -> int | None:
        """See `Metered`: a dry run costs nothing, and the statement needs no other one when it runs."""
        tried = self._dry_runs.get(sql)
        if tried is None:
            with self._session(sql) as session, self._as_client_error():
                job = self._job(session, sql, (), dry_run=True)
            tried = job.statement_type, job.total_bytes_processed
            while len(self._dry_runs) >= _DRY_RUNS:
                self._dry_runs.pop(next(iter(list(self._dry_runs)), ""), None)  # other threads use it, too
            self._dry_runs[sql] = tried
        return None if tried[1] is None else int(tried[1])

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        names = None if scope.schemas is None else [self._own(name) for name in scope.schemas]
        projects = {name.rpartition(".")[0] for name in ([""] if names is None else names)}
        found: dict[str, str] = {}
        for project in sorted(projects):
            found |= self._datasets(project, parts)
        wanted = {name: place for name, place in found.items() if names is None or name in names}
        return BigQueryCatalog(read, parts, self.project, wanted)

    def _scoped(self, scope: Scope) -> Scope:
        scoped = super()._scoped(scope)
        return scoped if scoped.schemas is None else replace(scoped, schemas=tuple(map(self._own, scoped.schemas)))

    def _own(self, dataset: str) -> str:
        """Return a dataset's name without the project of this connection."""
        return dataset.removeprefix(f"{self.project}.")

    def _datasets(self, project: str, parts: PartReader) -> dict[str, str]:
        """Return the datasets of a project (empty: this connection's) by name, with their locations."""
        prefix = f"{project}." if project else ""
        with self._session(None) as session:
            try:
                with self._as_client_error():
                    listed = list(session.list_datasets(project or None, **_patience()))
            except cloud.ClientError as error:
                if not project or getattr(error.cause, "code", None) not in _CLOSED:
                    raise
                parts.problems.append(ObjectProblem(None, "schema", f"project `{project}`: {reason(error)}"))
                return {}
        return {f"{prefix}{each.dataset_id}": _location(each) for each in listed}

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        """Check the permissions on one table of each dataset, because BigQuery reports them only per table."""
        first = {ref.schema: ref for ref in sorted(found, reverse=True)}
        looked_at = [ref for _, ref in sorted(first.items())][:_LOOKED_AT]
        with self._session(None) as session, self._as_client_error():
            allowed = {ref: self._permissions(session, ref) for ref in looked_at}
        if not allowed:
            return cloud.Rights(None)
        readable = sum(_READ in each for each in allowed.values())
        facts = (f"{_READ} on {readable} of {len(allowed)} checked tables, one per dataset",)
        return cloud.Rights(any(_WRITE in each for each in allowed.values()), facts)

    def _permissions(self, session: Any, ref: TableRef) -> list[str]:
        place = ".".join((*_place(self.project, ref.schema or ""), ref.name))
        return list(session.test_iam_permissions(place, [_READ, _WRITE], **_patience()).get("permissions", ()))


def _cancelled(session: Any, job: Any) -> bool:
    session.cancel_job(job.job_id, project=job.project, location=job.location, **_patience())
    return True


def _patience() -> dict[str, Any]:
    """Return the time limits for one request and for all its retries together."""
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    retry: Any = DEFAULT_RETRY
    return {"retry": retry.with_timeout(base.CONNECT_SECONDS), "timeout": base.CONNECT_SECONDS}


def _service_account(spec: ConnectionSpec) -> dict[str, Any]:
    """Return the key in `credentials_json`, empty if it is not set. Raises `ConfigError` for an invalid key."""
    text = spec.options.get("credentials_json")
    if not text:
        return {}
    try:
        key = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        raise _bad_key(spec) from None
    if not isinstance(key, dict):
        raise _bad_key(spec)
    return key


def _bad_key(spec: ConnectionSpec) -> ConfigError:
    message = f"connection `{spec.id}`: `credentials_json` is not a service account key"
    hint = Command("config", "set", f"connections.{spec.id}.credentials_json", "file:PATH")
    return ConfigError(message, hint=hint, details={"connection": spec.id})


def _parameter(value: Any) -> Any:
    from google.cloud import bigquery

    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return bigquery.ScalarQueryParameter(None, "TIMESTAMP", value)
    return bigquery.ScalarQueryParameter(None, _TYPES.get(type(value), "STRING"), value)


def _place(project: str, dataset: str) -> tuple[str, str]:
    """Return the project and name of a dataset, which is the given project's unless its name contains another."""
    other, _, name = dataset.rpartition(".")
    return other or project, name


def _location(dataset: Any) -> str:
    # The API sends it, but the client has no name for it.
    return str(dataset._properties.get("location") or "")


IDENTITY = "SELECT SESSION_USER()"

_KINDS = {"VIEW": TableKind.VIEW, "MATERIALIZED VIEW": TableKind.MATERIALIZED_VIEW, "EXTERNAL": TableKind.FOREIGN}
_RELATIONS = """
SELECT table_schema, table_name, table_type, IF(table_type = 'MATERIALIZED VIEW', ddl, NULL) AS ddl
FROM {dataset}.INFORMATION_SCHEMA.TABLES
"""
_COMMENTS = """
SELECT table_schema, table_name, option_value
FROM {dataset}.INFORMATION_SCHEMA.TABLE_OPTIONS WHERE option_name = 'description'
"""
# INFORMATION_SCHEMA has counts only per region, which requires permissions on the whole project.
_COUNTS = """
SELECT dataset_id AS table_schema, table_id AS table_name, row_count FROM {dataset}.`__TABLES__` WHERE type = 1
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default, is_generated, ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.COLUMNS WHERE is_hidden = 'NO'
"""
_COLUMN_COMMENTS = """
SELECT table_schema, table_name, column_name, description
FROM {dataset}.INFORMATION_SCHEMA.COLUMN_FIELD_PATHS WHERE field_path = column_name AND description IS NOT NULL
"""
_KEYS = """
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name, k.ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k
JOIN {dataset}.INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS c
  ON c.constraint_name = k.constraint_name AND c.table_name = k.table_name
WHERE c.constraint_type = 'PRIMARY KEY'
"""
# CONSTRAINT_COLUMN_USAGE lists the referenced columns in no order; their order is in the other table's primary key.
_FOREIGN_KEYS = """
SELECT k.table_schema, k.table_name, k.constraint_name, k.column_name, t.table_schema AS target_schema,
       t.table_name AS target_table, COALESCE(p.column_name, t.only_column) AS target_column, k.ordinal_position
FROM {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k
JOIN {dataset}.INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS c
  ON c.constraint_name = k.constraint_name AND c.table_name = k.table_name
JOIN (SELECT constraint_name, table_schema, table_name,
             IF(COUNT(DISTINCT column_name) = 1, MIN(column_name), NULL) AS only_column
      FROM {dataset}.INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE
      GROUP BY constraint_name, table_schema, table_name) AS t ON t.constraint_name = k.constraint_name
LEFT JOIN {dataset}.INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS p
  ON p.table_schema = t.table_schema AND p.table_name = t.table_name
 AND p.position_in_unique_constraint IS NULL AND p.ordinal_position = k.position_in_unique_constraint
WHERE c.constraint_type = 'FOREIGN KEY'
"""
_CHANGES = """
SELECT dataset_id AS table_schema, table_id AS table_name, creation_time, last_modified_time, row_count, size_bytes
FROM {dataset}.`__TABLES__` WHERE type = 1
"""
_VIEWS = "SELECT table_schema, table_name, view_definition FROM {dataset}.INFORMATION_SCHEMA.VIEWS"
_CLOSED = (400, 403, 404)
_TOGETHER = 200
_DEFINITION = re.compile(r"^AS\s", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class BigQueryCatalog:
    """A single read of a project's datasets. `datasets`: their names and locations."""

    def __init__(self, read: Reader, parts: PartReader, project: str, datasets: Mapping[str, str]) -> None:
        self._read = read
        self._parts = parts
        self._project = project
        self._datasets = datasets
        self._definitions: cloud.Rows = []

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views with their comments and row counts. A dataset without access is a problem."""
        rows = self._rows("schema", _RELATIONS, self._datasets)
        self._definitions = [(schema, name, _definition(ddl)) for schema, name, _, ddl in rows if ddl]
        drafts = cloud.drafts_of([(schema, name, kind, None, None) for schema, name, kind, _ in rows], _KINDS)
        for schema, name, option in self._rows("table comments", _COMMENTS, self._datasets):
            if (draft := drafts.get(TableRef(schema, name))) is not None:
                draft.comment = unquoted(option) or None
        for schema, name, count in self._rows("row counts", _COUNTS, self._datasets):
            if (draft := drafts.get(TableRef(schema, name))) is not None:
                draft.row_estimate = int(count)
        return drafts

    def changes(self) -> cloud.Rows:
        """Return the tables with a text that changes with their rows."""
        rows = self._rows("changes", _CHANGES, self._datasets)
        return [(schema, name, " ".join(map(str, rest))) for schema, name, *rest in rows]

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns, except pseudo columns of partitioned tables."""
        commented = self._rows("column comments", _COLUMN_COMMENTS, schemas)
        comments = {tuple(names): comment for *names, comment in commented}
        return [
            (schema, table, name, native, nullable == "YES", comments.get((schema, table, name)),
             None if default == "NULL" else default, generated != "NEVER")
            for schema, table, name, native, nullable, default, generated, _ in _ordered(
                self._rows("columns", _COLUMNS, schemas), 2
            )
        ]  # fmt: skip

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the primary keys, which BigQuery does not enforce. It has no unique keys."""
        rows = _ordered(self._rows("constraints", _KEYS, schemas), 3)
        return [(schema, table, name, "PRIMARY KEY", column) for schema, table, name, column, _ in rows]

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the foreign keys, which BigQuery does not enforce."""
        rows = _ordered(self._rows("foreign keys", _FOREIGN_KEYS, schemas), 3)
        # A foreign key and its target are in one dataset.
        return [(*row[:4], _labelled(row[0].rpartition(".")[0], row[4:-1])[0], *row[5:-1]) for row in rows]

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SQL of views and materialized views."""
        return [*self._rows("view definitions", _VIEWS, schemas), *self._definitions]

    def _rows(self, what: str, template: str, schemas: Sequence[str] | Mapping[str, str]) -> cloud.Rows:
        """Return the rows from all datasets; if one cannot be read, query each dataset separately."""
        rows: cloud.Rows = []
        for group in self._groups(schemas):
            project = group[0].rpartition(".")[0]
            try:
                rows += map(partial(_labelled, project), self._read(self._sql(template, group)))
            except cloud.ClientError as error:
                if getattr(error.cause, "code", None) not in _CLOSED:
                    raise
                if len(group) == 1:
                    self._parts.problems.append(ObjectProblem(None, what, f"dataset `{group[0]}`: {reason(error)}"))
                    continue
                for each in group:
                    rows += self._rows(what, template, [each])
        return rows

    def _groups(self, schemas: Sequence[str] | Mapping[str, str]) -> list[list[str]]:
        by_place: dict[tuple[str, str], list[str]] = {}
        for schema in schemas:
            by_place.setdefault((schema.rpartition(".")[0], self._datasets[schema]), []).append(schema)
        return [
            group[start : start + _TOGETHER]
            for group in map(sorted, by_place.values())
            for start in range(0, len(group), _TOGETHER)
        ]

    def _sql(self, template: str, datasets: Sequence[str]) -> str:
        places = (cloud.identifier("bigquery", *_place(self._project, dataset)) for dataset in datasets)
        return "\nUNION ALL\n".join(template.format(dataset=place).strip() for place in places)


def _labelled(project: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row that begins with the name of a dataset of a project (empty: the connection's)."""
    return (f"{project}.{row[0]}", *row[1:]) if project else row


def unquoted(literal: str) -> str:
    """Return the value of a GoogleSQL string literal, with either kind of quotes and backslash escapes."""
    return _ESCAPE.sub(_character, literal.strip()[1:-1])


def _ordered(rows: cloud.Rows, width: int) -> cloud.Rows:
    """Sort rows by their first `width` values and then by their last value, the position."""
    return sorted(rows, key=lambda row: (*row[:width], row[-1]))


def _character(match: re.Match[str]) -> str:
    two, four, eight, octal, other = match.groups()
    if digits := two or four or eight:
        return chr(int(digits, 16))
    return chr(int(octal, 8)) if octal else _LETTERS.get(other, other)


def _definition(ddl: str) -> str:
    """Return the query of a CREATE MATERIALIZED VIEW statement, which follows an AS on its own line."""
    found = _DEFINITION.search(ddl)
    return ddl[found.end() :].strip() if found else ddl
