"""Reads the datasets of a Google Cloud project; BigQuery itself says of every statement what it is before it runs."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

from ktx_cli.connectors import base
from ktx_cli.connectors.bigquery_catalog import IDENTITY, BigQueryCatalog
from ktx_cli.connectors.cloud import CloudConnector, Identity, Rights, required
from ktx_cli.connectors.cloud_catalog import Catalog
from ktx_cli.connectors.port import ConnectionSpec, QueryResult, Scope, TableRef
from ktx_cli.connectors.reflect import PartReader, Reader, ServerAddress
from ktx_cli.connectors.statements import read_only_error
from ktx_cli.connectors.tagging import tagged
from ktx_cli.core.errors import ConfigError

MAX_BYTES_BILLED = 100 * 2**30
"""Bytes one statement may bill unless `max_bytes_billed` says otherwise: 100 GiB."""

_SCOPES = ("https://www.googleapis.com/auth/bigquery",)
_READ, _WRITE = "bigquery.tables.getData", "bigquery.tables.updateData"
_LOOKED_AT = 20
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


class BigQueryConnector(CloudConnector):
    """A project of BigQuery; a schema is what BigQuery calls a dataset."""

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
            required(spec, "project_id", "my-project")
        address = ServerAddress("bigquery.googleapis.com", 443, self.project, "", "")
        super().__init__(spec, address, f"BigQuery project {self.project}")

    def _open(self) -> Any:
        from google.cloud import bigquery

        return bigquery.Client(
            project=self.project, credentials=self._credentials(), location=self.options.get("location")
        )

    def _credentials(self) -> Any:
        """Return those of the service account's key, or those Google's own tools left on this machine."""
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
        kind = self._job(session, sql, parameters, dry_run=True).statement_type
        if kind != "SELECT":
            raise read_only_error(self.where, f"`{kind}` statements are" if kind else "this kind of statement is")
        result = self._result(session, self._job(session, sql, parameters), max_rows + 1)
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
        # Before it may stand the request's address, behind it the job's number and the statement's lines.
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
            return text, f"ktx config set connections.{self.id}.max_bytes_billed BYTES", "query"
        if status == 401:
            return text, self._log_in_hint(), "connection"
        if status == 403:
            return text, "grant the user roles/bigquery.dataViewer and roles/bigquery.jobUser", "query"
        if not status or status >= 500:
            return text, f"ktx connection test {self.id}", "connection"
        if "location" in text:
            return text, f"ktx config set connections.{self.id}.location EU", "query"
        return text, None, "query"

    def _log_in_hint(self) -> str:
        setting = f"connections.{self.id}.credentials_json"
        return f"check {setting}" if self._key else f"ktx config set {setting} file:PATH"

    def _identity(self, read: Reader) -> Identity:
        ((user,),) = read(IDENTITY)
        return Identity("BigQuery", user, self.project)

    def _catalog(self, read: Reader, parts: PartReader, identity: Identity, scope: Scope) -> Catalog:
        with self._session(None) as session, self._as_client_error():
            listed = {each.dataset_id: _location(each) for each in session.list_datasets(**_patience())}
        wanted = {name: place for name, place in listed.items() if scope.schemas is None or name in scope.schemas}
        return BigQueryCatalog(read, parts, self.project, wanted)

    def _rights(self, read: Reader, identity: Identity, found: Sequence[TableRef]) -> Rights:
        """Ask what may be done with one table of each dataset: BigQuery answers by table alone."""
        first = {ref.schema: ref for ref in sorted(found, reverse=True)}
        looked_at = [ref for _, ref in sorted(first.items())][:_LOOKED_AT]
        with self._session(None) as session, self._as_client_error():
            allowed = {ref: self._permissions(session, ref) for ref in looked_at}
        if not allowed:
            return Rights(None)
        readable = sum(_READ in each for each in allowed.values())
        facts = (f"{_READ} on {readable} of {len(allowed)} tables looked at, one of each dataset",)
        return Rights(any(_WRITE in each for each in allowed.values()), facts)

    def _permissions(self, session: Any, ref: TableRef) -> list[str]:
        place = f"{self.project}.{ref.schema}.{ref.name}"
        return list(session.test_iam_permissions(place, [_READ, _WRITE], **_patience()).get("permissions", ()))


def _patience() -> dict[str, Any]:
    """Return how long a request may take, and all its repetitions together."""
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    retry: Any = DEFAULT_RETRY
    return {"retry": retry.with_timeout(base.CONNECT_SECONDS), "timeout": base.CONNECT_SECONDS}


def _service_account(spec: ConnectionSpec) -> dict[str, Any]:
    """Return the key of `credentials_json`, empty when it is not given. Raises `ConfigError` for one that is no key."""
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
    return ConfigError(
        f"connection `{spec.id}`: `credentials_json` is no key of a service account",
        hint=f"ktx config set connections.{spec.id}.credentials_json file:PATH",
        details={"connection": spec.id},
    )


def _parameter(value: Any) -> Any:
    from google.cloud import bigquery

    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return bigquery.ScalarQueryParameter(None, "TIMESTAMP", value)
    return bigquery.ScalarQueryParameter(None, _TYPES.get(type(value), "STRING"), value)


def _location(dataset: Any) -> str:
    # The API sends it; the client has no name for it.
    return str(dataset._properties.get("location") or "")
