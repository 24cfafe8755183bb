"""A server on 127.0.0.1 that speaks MongoDB's wire protocol and executes `find` and `aggregate` with mongomock."""

from __future__ import annotations

import itertools
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import bson
import mongomock
from bson import Decimal128
from bson.codec_options import CodecOptions

VERSION: Final = "7.0.14"
OP_MSG, OP_QUERY, OP_REPLY = 2013, 2004, 1
READING: Final = frozenset(
    {"hello", "ismaster", "ping", "buildinfo", "connectionstatus", "listdatabases", "listcollections", "listindexes"}
    | {"count", "find", "aggregate", "getmore", "killcursors", "endsessions", "killop", "saslstart"}
)
"""The commands that ktx may send, in lower case."""

_NAMES = itertools.count(1)


class CommandError(Exception):
    """An answer of the server that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MongoEmulator(socketserver.ThreadingTCPServer):
    """The server. Tests fill `client`, a mongomock client, and read `commands`, everything that was sent.

    `views`: (database, name) -> (collection, pipeline). `validators`: (database, collection) -> options. `raw`:
    (database, collection) -> documents as bytes, which `find` returns instead. `refuses_login`: every login fails.
    `slow`: collections whose statements run until they are killed or reach their time limit. `pretended`: (database,
    collection) -> the number of documents that statistics claim. `privileges`: of the user; None if there is no access
    control.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client: Any = mongomock.MongoClient()
        self.commands: list[tuple[str, Mapping[str, Any]]] = []
        self.views: dict[tuple[str, str], tuple[str, list[Any]]] = {}
        self.options: dict[tuple[str, str], dict[str, Any]] = {}
        self.raw: dict[tuple[str, str], list[bytes]] = {}
        self.slow: set[str] = set()
        self.pretended: dict[tuple[str, str], int] = {}
        self.privileges: list[Mapping[str, Any]] | None = None
        self.refuses_login = False
        self.killed: list[int] = []
        self.started = threading.Event()
        self._running: dict[int, tuple[str, threading.Event]] = {}
        self._cursors: dict[int, tuple[str, list[bytes]]] = {}
        self._numbers = itertools.count(1)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.server_address[1])

    def new_database(self) -> str:
        """Return a name that no other test uses."""
        return f"shop{next(_NAMES):04}"

    def settings(self, database: str, **more: Any) -> dict[str, Any]:
        """Return the settings of a connection to a database."""
        return {"host": "127.0.0.1", "port": self.port, "database": database, **more}

    def sent(self) -> set[str]:
        """Return the names of the commands that were sent, in lower case."""
        return {name.lower() for name, _ in self.commands}

    def answer(self, command: Mapping[str, Any]) -> dict[str, Any] | bytes:
        """Execute a command."""
        name = next(iter(command))
        self.commands.append((name, command))
        run: Callable[[Mapping[str, Any]], Any] | None = getattr(self, f"do_{name.lower()}", None)
        if run is None:
            return _error(59, f"no such command: '{name}'")
        try:
            return {**(run(command) or {}), "ok": 1.0}
        except CommandError as error:
            return _error(error.code, str(error))
        except (NotImplementedError, mongomock.OperationFailure, TypeError, ValueError, KeyError) as error:
            return _error(9, f"{type(error).__name__}: {error}")

    def do_hello(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "isWritablePrimary": True, "ismaster": True, "maxBsonObjectSize": 16 * 1024**2, "helloOk": True,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21,
            "readOnly": False, "saslSupportedMechs": ["SCRAM-SHA-256"],
        }  # fmt: skip

    do_ismaster = do_hello

    def do_ping(self, command: Mapping[str, Any]) -> None:
        return None

    do_endsessions = do_killcursors = do_ping

    def do_saslstart(self, command: Mapping[str, Any]) -> None:
        raise CommandError(18, "Authentication failed.")

    def do_buildinfo(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return {"version": VERSION}

    def do_connectionstatus(self, command: Mapping[str, Any]) -> dict[str, Any]:
        users = [] if self.privileges is None else [{"user": "reader", "db": "admin"}]
        return {"authInfo": {"authenticatedUsers": users, "authenticatedUserPrivileges": self.privileges or []}}

    def do_listdatabases(self, command: Mapping[str, Any]) -> dict[str, Any]:
        names = {*self.client.list_database_names(), "admin", "config", "local"}
        return {"databases": [{"name": name} for name in sorted(names)]}

    def do_listcollections(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database = command["$db"]
        names = set(self.client[database].list_collection_names())
        names |= {name for place, name in (*self.raw, *self.options) if place == database}
        entries: list[dict[str, Any]] = [
            {"name": name, "type": "collection", "options": self.options.get((database, name), {})} for name in names
        ]
        for (place, name), (on, pipeline) in self.views.items():
            if place == database:
                entries.append({"name": name, "type": "view", "options": {"viewOn": on, "pipeline": pipeline}})
        found = [bson.encode(each) for each in sorted(entries, key=lambda each: each["name"], reverse=True)]
        return self._cursor(f"{database}.$cmd.listCollections", found, 1000)

    def do_listindexes(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database, name = command["$db"], command["listIndexes"]
        known = self.client[database][name].index_information()
        found = [{"v": 2, "key": {"_id": 1}, "name": "_id_"}]
        for key, each in known.items():
            if key != "_id_":
                options = {option: value for option, value in each.items() if option not in ("key", "v", "ns")}
                found.append({"v": 2, "key": dict(each["key"]), "name": key, **options})
        return self._cursor(f"{database}.{name}", [bson.encode(each) for each in found], 1000)

    def do_count(self, command: Mapping[str, Any]) -> dict[str, Any]:
        place = command["$db"], command["count"]
        return {"n": self.pretended.get(place, len(list(self._documents(*place))))}

    def do_find(self, command: Mapping[str, Any]) -> dict[str, Any]:
        place = command["$db"], command["find"]
        self._wait(place[1], command)
        if place in self.raw:
            found = self.raw[place][: command.get("limit") or None]
        elif place in self.views:
            found = [bson.encode(each) for each in self._documents(*place)][: command.get("limit") or None]
        else:
            options = {"projection": command.get("projection") or None}
            cursor = self.client[place[0]][place[1]].find(command.get("filter") or {}, **options)
            for key, way in (command.get("sort") or {}).items():
                cursor = cursor.sort(key, way)
            found = [bson.encode(each) for each in cursor.skip(command.get("skip", 0)).limit(command.get("limit", 0))]
        return self._cursor(".".join(place), found, command.get("batchSize", 101))

    def do_aggregate(self, command: Mapping[str, Any]) -> dict[str, Any]:
        place, pipeline = (command["$db"], command["aggregate"]), list(command["pipeline"])
        if pipeline and "$currentOp" in pipeline[0]:
            mark = pipeline[1]["$match"]["command.comment"]
            found = [{"opid": number} for number, (comment, _) in self._running.items() if comment == mark]
            return self._cursor("admin.$cmd", [bson.encode(each) for each in found], 100)
        self._wait(place[1], command)
        if place in self.views:
            on, before = self.views[place]
            place, pipeline = (place[0], on), [*before, *pipeline]
        results = self.client[place[0]][place[1]].aggregate(pipeline)
        size = (command.get("cursor") or {}).get("batchSize", 101)
        return self._cursor(".".join(place), [bson.encode(each) for each in results], size)

    def do_getmore(self, command: Mapping[str, Any]) -> dict[str, Any]:
        number = int(command["getMore"])
        if number not in self._cursors:
            raise CommandError(43, f"cursor id {number} not found")
        namespace, left = self._cursors.pop(number)
        made = self._cursor(namespace, left, command.get("batchSize", 1000))
        made["cursor"]["nextBatch"] = made["cursor"].pop("firstBatch")
        return made

    def do_killop(self, command: Mapping[str, Any]) -> None:
        number = int(command["op"])
        self.killed.append(number)
        if number in self._running:
            self._running[number][1].set()

    def _documents(self, database: str, name: str) -> Iterator[Any]:
        if (database, name) in self.raw:
            yield from self.raw[database, name]
        elif (database, name) in self.views:
            on, pipeline = self.views[database, name]
            yield from self.client[database][on].aggregate(pipeline)
        else:
            yield from self.client[database][name].find()

    def _wait(self, name: str, command: Mapping[str, Any]) -> None:
        if name not in self.slow:
            return
        number, ended = next(self._numbers), threading.Event()
        self._running[number] = (str(command.get("comment")), ended)
        self.started.set()
        is_killed = ended.wait(command.get("maxTimeMS", 60_000) / 1000)
        del self._running[number]
        raise (
            CommandError(11601, "operation was interrupted")
            if is_killed
            else CommandError(50, "operation exceeded time limit")
        )

    def _cursor(self, namespace: str, documents: Sequence[bytes], size: int) -> dict[str, Any]:
        number, left = 0, list(documents[max(size, 1) :])
        if left:
            number = next(self._numbers)
            self._cursors[number] = (namespace, left)
        return {"cursor": {"id": bson.Int64(number), "ns": namespace, "firstBatch": list(documents[: max(size, 1)])}}


def _error(code: int, message: str) -> dict[str, Any]:
    return {"ok": 0.0, "errmsg": message, "code": code, "codeName": "Error"}


def _encode(answer: Any) -> bytes:
    """Encode an answer; documents that are bytes are embedded as they are, even if they are not valid BSON."""
    if isinstance(answer, dict):
        parts = b"".join(_element(name, value) for name, value in answer.items())
        return struct.pack("<i", len(parts) + 5) + parts + b"\0"
    raise TypeError(type(answer).__name__)


def _element(name: str, value: Any) -> bytes:
    key = name.encode() + b"\0"
    if isinstance(value, bytes):
        return b"\x03" + key + value
    if isinstance(value, list) and value and all(isinstance(each, bytes) for each in value):
        parts = b"".join(_element(str(place), each) for place, each in enumerate(value))
        return b"\x04" + key + struct.pack("<i", len(parts) + 5) + parts + b"\0"
    if isinstance(value, dict):
        return b"\x03" + key + _encode(value)
    return bson.encode({name: value})[4:-1]


class _Handler(socketserver.BaseRequestHandler):
    server: MongoEmulator

    def handle(self) -> None:
        while (message := self._read()) is not None:
            request, code, body = message
            if code == OP_QUERY:
                start = body.index(b"\0", 4) + 1 + 8
                command = bson.decode(body[start:])
                reply = struct.pack("<iqii", 8, 0, 0, 1) + _encode(self.server.answer(command))
                self._send(request, OP_REPLY, reply)
            elif code == OP_MSG:
                command = self._command(body)
                answer = self.server.answer(command)
                flags = struct.unpack_from("<I", body)[0]
                if not flags & 2:
                    self._send(request, OP_MSG, struct.pack("<I", 0) + b"\0" + _encode(answer))

    def _command(self, body: bytes) -> dict[str, Any]:
        (length,) = struct.unpack_from("<i", body, 5)
        assert body[4] == 0, "a command without document sequences"
        return bson.decode(body[5 : 5 + length], CodecOptions(tz_aware=False))

    def _read(self) -> tuple[int, int, bytes] | None:
        head = self._exactly(16)
        if head is None:
            return None
        length, request, _, code = struct.unpack("<iiii", head)
        body = self._exactly(length - 16)
        return None if body is None else (request, code, body)

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            try:
                part = self.request.recv(count - len(found))
            except OSError:
                return None
            if not part:
                return None
            found += part
        return found

    def _send(self, request: int, code: int, body: bytes) -> None:
        try:
            self.request.sendall(struct.pack("<iiii", len(body) + 16, 1, request, code) + body)
        except OSError:
            return


@contextmanager
def emulator() -> Iterator[MongoEmulator]:
    """Run a server on a free port."""
    with MongoEmulator() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def as_document(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row as a document: names with dots as nested documents, decimals and dates as BSON has them."""
    from datetime import date, datetime
    from decimal import Decimal

    document: dict[str, Any] = {}
    for name, value in zip(columns, row, strict=True):
        if isinstance(value, Decimal):
            value = Decimal128(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        *outer, last = name.split(".")
        place = document
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = value
    return document
