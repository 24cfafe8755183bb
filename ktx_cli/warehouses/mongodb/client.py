"""The commands that ktx sends to MongoDB: lists, counts, `find` and `aggregate`, each with a time limit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath, SourceError, monotonic, one_line
from ktx_cli.project import redact
from ktx_cli.warehouses import base, port, server

if TYPE_CHECKING:
    from pymongo import MongoClient

DEFAULT_PORT: Final = 27017
SYSTEM_DATABASES: Final = frozenset({"admin", "config", "local"})
BATCH_DOCUMENTS: Final = 1000
"""Documents per batch of a cursor; the server also ends a batch at 16 MiB."""

URL_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("authsource", "replicaset", "retryreads", "retrywrites", "appname", "w", "readpreference", "maxpoolsize"),
        base.ANY,
    ),
    **dict.fromkeys(("connecttimeoutms", "serverselectiontimeoutms", "sockettimeoutms", "srvservicename"), base.ANY),
    **dict.fromkeys(("tls", "ssl", "tlsallowinvalidcertificates", "tlsinsecure", "directconnection"), base.FLAG),
    "loadbalanced": base.FLAG,
    "readpreferencetags": base.ANY,
    "maxstalenessseconds": base.ANY,
    "readconcernlevel": base.ANY,
    "authmechanism": ("scram-sha-1", "scram-sha-256", "default"),
}
"""Parameters allowed in a URL, in lower case: none that reads a file, runs a program or asks another service."""

_INTERRUPTED: Final = frozenset({11601, 11602, 262})
_TIMED_OUT: Final = frozenset({50, 24, 46})
_LOG_IN: Final = frozenset({13, 18, 8000, 8002})


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as the server lists it. `kind`: `collection`, `view` or `timeseries`."""

    ref: port.TableRef
    kind: str
    options: Mapping[str, Any]


class MongoServer:
    """The client of one connection. Errors are `SourceError`s that name it and contain no password.

    `connector` names the connection in errors and has its time limit.
    """

    def __init__(self, spec: port.ConnectionSpec, connector: base.BaseConnector) -> None:
        self._spec = spec
        self._connector = connector
        self._stopped = False
        self._running: str | None = None
        self._client: MongoClient[Any] | None = None
        self.database = database_of(spec)

    def open(self) -> None:
        """Connect and log in. Raises `SourceError`, and `ConfigError` for an unusable URL."""
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError

        settings = self._settings()
        with self._translating(opens=True):
            self._require_reachable()
            client: MongoClient[Any] = MongoClient(**settings)
            try:
                client.admin.command("ping")
                self._client = client
            except PyMongoError:
                client.close()
                raise

    def close(self) -> None:
        """Close all sessions; calling it twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def interrupt(self) -> None:
        """Stop the running operation: no further batch is requested, and the server is asked to end ktx's own one."""
        from pymongo.errors import PyMongoError

        self._stopped, mark, client = True, self._running, self._client
        if mark is None or client is None:
            return
        try:
            own: list[Mapping[str, Any]] = [
                {"$currentOp": {"allUsers": False}},
                {"$match": {"command.comment": mark}},
                {"$project": {"opid": 1}},
            ]
            for each in client.admin.aggregate(own, maxTimeMS=1000):
                client.admin.command("killOp", 1, op=each["opid"])
        except PyMongoError:
            return  # the batch in progress ends at its time limit instead

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Do one operation, which `interrupt` ends; an operation within it is part of it."""
        if self._running is not None:
            yield
            return
        self._stopped, self._running = False, f"ktx {uuid.uuid4().hex}"
        try:
            yield
        finally:
            self._running = None

    def ping(self) -> None:
        """Make one round trip."""
        with self._translating():
            self._opened.admin.command("ping")

    def version(self) -> str:
        """Return the version of the server."""
        with self._translating():
            return str(self._opened.admin.command("buildInfo").get("version", ""))

    def rights(self) -> tuple[str | None, list[Mapping[str, Any]]]:
        """Return the user, or None if the server checks nobody, and the user's privileges."""
        with self._translating():
            found = self._opened.admin.command("connectionStatus", showPrivileges=True).get("authInfo", {})
        users = found.get("authenticatedUsers") or []
        return (str(users[0].get("user")) if users else None), list(found.get("authenticatedUserPrivileges") or [])

    def collections(self) -> list[Collection]:
        """Return the collections and views that the user may read, without those of the system, by name."""
        from bson import CodecOptions

        found: list[Collection] = []
        with self._translating():
            for name in self._databases():
                database = self._opened.get_database(name, codec_options=CodecOptions(dict))
                for each in database.list_collections(authorizedCollections=True):
                    if not str(each["name"]).startswith("system."):
                        ref = port.TableRef(name, str(each["name"]))
                        found.append(Collection(ref, str(each.get("type", "collection")), each.get("options") or {}))
        return sorted(found, key=lambda each: each.ref)

    def indexes(self, ref: port.TableRef) -> list[Mapping[str, Any]]:
        """Return the definitions of a collection's indexes, by name."""
        with self._translating():
            return sorted(self._collection(ref).list_indexes(), key=lambda each: str(each.get("name")))

    def estimate(self, ref: port.TableRef) -> int:
        """Return the number of documents according to the server's statistics."""
        with self._translating():
            return int(self._collection(ref).estimated_document_count(maxTimeMS=self._milliseconds()))

    def count(self, ref: port.TableRef) -> int:
        """Return the exact number of documents."""
        with self._translating(), self.operation():
            return int(self._collection(ref).count_documents({}, maxTimeMS=self._milliseconds(), comment=self._running))

    def find(
        self,
        ref: port.TableRef,
        *,
        criteria: Mapping[str, Any] | None = None,
        projection: Mapping[str, int] | None = None,
        sort: int = 0,
        skip: int = 0,
        limit: int = 0,
        until: float | None = None,
    ) -> Iterator[Any]:
        """Yield documents as `RawBSONDocument`s. `sort`: 1 or -1 for the order of `_id`, 0 for the stored order.

        `until`: the time (`monotonic`) at which reading fails as a timeout.
        """
        options = {"projection": projection, "skip": skip, "limit": limit, "batch_size": BATCH_DOCUMENTS}
        with self._translating(sql=True):
            cursor = self._collection(ref, raw=True).find(criteria or {}, comment=self._running, **options)
            cursor = cursor.max_time_ms(self._milliseconds(until))
            yield from self._each(cursor.sort("_id", sort) if sort else cursor, until)

    def aggregate(
        self, ref: port.TableRef, pipeline: Sequence[Mapping[str, Any]], *, batch: int, until: float
    ) -> Iterator[Any]:
        """Yield the results of a pipeline as `RawBSONDocument`s. The caller has checked the pipeline."""
        with self._translating(sql=True):
            cursor = self._collection(ref, raw=True).aggregate(
                list(pipeline),
                allowDiskUse=False,
                maxTimeMS=self._milliseconds(until),
                batchSize=batch,
                comment=self._running,
            )
            yield from self._each(cursor, until)

    def _each(self, cursor: Any, until: float | None) -> Iterator[Any]:
        with cursor:
            for each in cursor:
                if (self._running and self._stopped) or (until is not None and monotonic() >= until):
                    raise self._connector.timeout()
                yield each

    def _databases(self) -> list[str]:
        chosen = self._spec.options.get("databases")
        if chosen:
            return sorted({chosen} if isinstance(chosen, str) else set(map(str, chosen)))
        if self.database:
            return [self.database]
        listed = self._opened.admin.command("listDatabases", nameOnly=True, authorizedDatabases=True)["databases"]
        return sorted(str(each["name"]) for each in listed if each["name"] not in SYSTEM_DATABASES)

    @property
    def _opened(self) -> MongoClient[Any]:
        if self._client is None:
            raise self._connector.failure("the connection is closed")
        return self._client

    def _collection(self, ref: port.TableRef, *, raw: bool = False) -> Any:
        from bson import CodecOptions
        from bson.raw_bson import RawBSONDocument

        options: Any = CodecOptions(document_class=RawBSONDocument) if raw else CodecOptions(dict)
        return self._opened.get_database(ref.schema or self.database).get_collection(ref.name, codec_options=options)

    def _milliseconds(self, until: float | None = None) -> int:
        seconds = self._connector.statement_seconds
        return max(1, int(1000 * (seconds if until is None else min(seconds, until - monotonic()))))

    def _settings(self) -> dict[str, Any]:
        options = self._spec.options
        parameters = dict(parse_qsl(urlsplit(str(options.get("url") or "")).query, keep_blank_values=True))
        base.require_known(self._spec, {name.lower(): each for name, each in parameters.items()}, URL_PARAMETERS)
        settings = {
            "host": options.get("host"),
            "port": options.get("port"),
            "username": options.get("username") or options.get("user"),
            "password": options.get("password"),
            "authSource": options.get("authSource"),
            "replicaSet": options.get("replicaSet"),
            "tls": server.option_flag(options, "ssl"),
            "tlsCAFile": base.option_file(self._spec, "ca", str(given)) if (given := options.get("ca")) else None,
            "readPreference": options.get("readPreference")
            or (None if "readpreference" in map(str.lower, parameters) else "secondaryPreferred"),
        }
        if options.get("url"):
            settings |= {"host": options["url"], "port": None}
        milliseconds = base.CONNECT_SECONDS * 1000
        return {
            **{name: value for name, value in settings.items() if value is not None},
            "appname": "ktx",
            "connectTimeoutMS": milliseconds,
            "serverSelectionTimeoutMS": milliseconds,
            "socketTimeoutMS": int(1000 * (self._connector.statement_seconds + base.STOP_SECONDS)),
            "retryWrites": False,
            "maxPoolSize": 8,
            "uuidRepresentation": "standard",
        }

    def _require_reachable(self) -> None:
        """Raise `OSError` at once if the only server does not respond, for which the driver would wait longer."""
        nodes = nodes_of(self._spec)
        if len(nodes) == 1:
            server.open_socket(*nodes[0], base.CONNECT_SECONDS).close()

    @contextmanager
    def _translating(self, *, opens: bool = False, sql: bool = False) -> Iterator[None]:
        """Translate errors of the driver. `opens`: while connecting. `sql`: in a user's statement."""
        from bson.errors import BSONError
        from pymongo.errors import PyMongoError

        try:
            yield
        except (PyMongoError, BSONError, OSError) as error:
            raise self._translated(error, opens=opens, sql=sql) from None

    def _translated(self, error: Exception, *, opens: bool, sql: bool) -> SourceError | ConfigError:
        from pymongo.errors import ConfigurationError, ExecutionTimeout, InvalidURI, NetworkTimeout, OperationFailure

        text = one_line(self._redacted(str(error).partition(", full error:")[0]), 500)
        code = (error.code or 0) if isinstance(error, OperationFailure) else 0
        key = SettingPath(f"connections.{self._spec.id}")
        if isinstance(error, ConfigurationError | InvalidURI):
            message = f"connection `{self._spec.id}`: its settings cannot be used: {text}"
            return ConfigError(message, hint=Hint("check {}", key), details={"connection": self._spec.id})
        if isinstance(error, ExecutionTimeout | NetworkTimeout) or code in _TIMED_OUT | _INTERRUPTED:
            return self._connector.timeout(of_the_user=sql) if not opens else self._unreachable(text)
        if code in _LOG_IN:
            hint = Hint("check the user and the password in {}, and that the user has the role `read`", key)
            return self._connector.failure(text, hint=hint)
        if isinstance(error, OperationFailure):
            return self._connector.failure(text, code="query" if sql else "connection")
        return self._unreachable(text)

    def _unreachable(self, text: str) -> SourceError:
        hint = Hint("start the server, or check its address with {}", Command("connection", "test", self._spec.id))
        return self._connector.failure(text, hint=hint)

    def _redacted(self, text: str) -> str:
        url = str(self._spec.options.get("url") or "")
        given = [str(self._spec.options.get("password") or "")]
        try:
            given.append(urlsplit(url).password or "")
        except ValueError:
            given.append(url)
        return redact(text, tuple(filter(None, (url, *given))))


def nodes_of(spec: port.ConnectionSpec) -> list[tuple[str, int]]:
    """Return the servers that a connection names, or none if its URL names a DNS record instead."""
    url = str(spec.options.get("url") or "")
    if not url:
        return [(str(spec.options.get("host") or ""), int(spec.options.get("port") or DEFAULT_PORT))]
    return list(_parsed(spec, url).get("nodelist") or ()) if not url.startswith("mongodb+srv:") else []


def record_of(spec: port.ConnectionSpec) -> str:
    """Return the DNS record that a URL names instead of servers. Raises `ConfigError` for an invalid URL."""
    url = str(spec.options.get("url") or "")
    host = urlsplit(url).hostname if _parsed(spec, url.replace("mongodb+srv:", "mongodb:", 1)) else None
    return host or "mongodb+srv"


def database_of(spec: port.ConnectionSpec) -> str:
    """Return the database that a connection names, or an empty text."""
    if spec.options.get("database"):
        return str(spec.options["database"])
    url = str(spec.options.get("url") or "")
    return str(_parsed(spec, url.replace("mongodb+srv:", "mongodb:", 1)).get("database") or "") if url else ""


def _parsed(spec: port.ConnectionSpec, url: str) -> Mapping[str, Any]:
    from pymongo.errors import PyMongoError
    from pymongo.uri_parser import parse_uri

    try:
        return parse_uri(url.partition("?")[0], warn=False)  # `_settings` reports wrong parameters by name
    except (PyMongoError, ValueError):
        hint = Hint(
            "set {} to mongodb://USER:PASSWORD@HOST:PORT/DATABASE with reserved characters in the password "
            "percent-encoded",
            SettingPath(f"connections.{spec.id}.url"),
        )
        message = f"connection `{spec.id}`: its `url` cannot be read"
        raise ConfigError(message, hint=hint, details={"connection": spec.id}) from None
