"""Write Looker's raw files and resolve the table of an explore; only changed dashboards and looks are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ktx_cli.core import Hint, Record, ResultWarning, SettingPath, SourceError, listing, one_line
from ktx_cli.documents import Snapshot
from ktx_cli.faces import exp
from ktx_cli.sources.fetch import ApiFetch, Document, mappings, require_shallow
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.looker import LookerConnection
from ktx_cli.sources.port import FetchContext
from ktx_cli.warehouses import DIALECTS, dialect_named

_LONGEST: Final = 2_000
_TEMPLATE: Final = re.compile(r"\$\{|\{\{|\{%|@\{")


class Why(StrEnum):
    """The reason why an explore has no table in ktx."""

    NO_CONNECTION = "no_connection_mapping"
    TEMPLATE = "looker_template_unresolved"
    DERIVED = "derived_table_not_supported"
    NO_TABLE = "no_physical_table"
    SEVERAL = "multiple_table_references"
    UNREADABLE = "parse_error"


@dataclass(frozen=True, slots=True)
class Target:
    """A table of a connection (`parts` outermost first), or the reason why there is none (`why`)."""

    connection: str | None
    parts: tuple[str, ...] = ()
    why: Why | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the target in its raw file form."""
        if self.why is not None:
            return {"connection": self.connection, "why": self.why.value}
        return {"connection": self.connection, "table": list(self.parts)}

    @classmethod
    def stored(cls, value: Mapping[str, Any] | None) -> Target:
        """Return the target from a raw file."""
        if not value:
            return cls(None, why=Why.NO_TABLE)
        why = value.get("why")
        return cls(value.get("connection"), tuple(value.get("table") or ()), None if why is None else Why(why))


def target_of(sql_table_name: object, connection: str | None) -> Target:
    """Return the table in a `sql_table_name`. `connection`: the one mapped to Looker's, or None."""
    if connection is None:
        return Target(None, why=Why.NO_CONNECTION)
    text = sql_table_name.strip().rstrip(";").strip() if isinstance(sql_table_name, str) else ""
    if not text:
        return Target(connection, why=Why.NO_TABLE)
    if _TEMPLATE.search(text):
        return Target(connection, why=Why.TEMPLATE)
    if text.startswith("(") or re.match(r"(?i)(?:select|with)\b", text):
        return Target(connection, why=Why.DERIVED)
    found = _parsed(text) if len(text) <= _LONGEST and ";" not in text else Why.UNREADABLE
    return Target(connection, why=found) if isinstance(found, Why) else Target(connection, found)


def _parsed(text: str) -> tuple[str, ...] | Why:
    import sqlglot
    from sqlglot.errors import SqlglotError

    for dialect in _dialects(text):
        try:
            tree = sqlglot.parse_one(f"SELECT * FROM {text}", read=dialect)
        except (SqlglotError, RecursionError):
            continue
        tables = list(tree.find_all(exp.Table))
        if len(tables) > 1:
            return Why.SEVERAL
        if len(tables) == 1 and _is_alone(tree, tables[0]):
            return tuple(part.name for part in tables[0].parts)
    return Why.UNREADABLE


def _dialects(text: str) -> list[str]:
    """Return the dialects to try for a name: first those with its quotes, ordered by support for dotted names."""

    def rank(name: str) -> tuple[bool, bool]:
        dialect = dialect_named(name)
        return dialect.name_quotes[0] not in text, not dialect.dotted_names

    return sorted(DIALECTS, key=rank)


def _is_alone(tree: Any, table: Any) -> bool:
    """Return whether a query consists only of the table, possibly with an alias."""
    plain = exp.select("*").from_(table.copy())
    named = all(isinstance(part, exp.Identifier) and part.name for part in table.parts)
    return bool(named and isinstance(tree, exp.Select) and tree == plain)


USAGE_PATH: Final = "usage.json"
FOLDERS_PATH: Final = "folders.json"

_FIELD_KEYS: Final = (
    "name", "label", "description", "type", "sql", "view", "primary_key", "hidden", "tags", "value_format_name",
    "enumerations", "filters", "group_label", "timezone", "dimension_group",
)  # fmt: skip
_QUERY_KEYS: Final = (
    "model", "view", "fields", "pivots", "fill_fields", "filters", "filter_expression", "sorts", "limit",
    "dynamic_fields", "total",
)  # fmt: skip
_FILTER_KEYS: Final = ("name", "title", "type", "default_value", "model", "explore", "dimension", "required")
_TILE_KEYS: Final = ("id", "title", "subtitle_text", "note_text", "body_text", "type", "look_id")
_JOIN_KEYS: Final = ("name", "relationship", "type", "sql_on", "foreign_key", "view_label")

Targets = Mapping[tuple[str, str], Target]
"""Model and explore -> the table that the explore reads."""


def explore_path(model: str, explore: str) -> str:
    """Return the raw file of an explore."""
    return f"explores/{_safe(model)}/{_safe(explore)}.json"


def dashboard_path(dashboard: str) -> str:
    """Return the raw file of a dashboard."""
    return f"dashboards/{_safe(dashboard)}.json"


def look_path(look: str) -> str:
    """Return the raw file of a look."""
    return f"looks/{_safe(look)}.json"


def _safe(name: str) -> str:
    """Return a path component for an ID: unchanged if the ID is plain, else with a digest that makes it unique."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', name)[:60]}-{digest}"


def explore_document(model: str, answer: Mapping[str, Any], connections: Mapping[str, str | None]) -> Document:
    """Return the raw document of an explore. `connections`: Looker's name -> the connection in ktx."""
    name = str(answer["name"])
    connection = connections.get(str(answer.get("connection_name")))
    fields = answer.get("fields")
    fields = fields if isinstance(fields, Mapping) else {}
    return {
        **_some(answer, ("label", "description", "view_name", "always_filter", "sql_always_where")),
        "model": model,
        "name": name,
        "looker_connection": answer.get("connection_name"),
        "sql_table_name": answer.get("sql_table_name"),
        "target": target_of(answer.get("sql_table_name"), connection).to_json(),
        "joins": [_join(each, connection) for each in mappings(answer.get("joins"))],
        "dimensions": _fields(fields.get("dimensions")),
        "measures": _fields(fields.get("measures")),
        "source_name": source_name(model, name),
    }


def source_name(model: str, explore: str) -> str:
    """Return the name of the source created for an explore."""
    return f"looker__{model}__{explore}"


def _join(join: Mapping[str, Any], connection: str | None) -> Document:
    target = target_of(join.get("sql_table_name"), connection)
    return {**_some(join, _JOIN_KEYS), "from": join.get("from"), "target": target.to_json()}


def _fields(value: Any) -> list[Document]:
    return sorted((_some(each, _FIELD_KEYS) for each in mappings(value)), key=lambda each: str(each.get("name")))


def dashboard_document(answer: Mapping[str, Any]) -> Document:
    """Return the raw document of a dashboard, with queries but without their tables."""
    return {
        **_some(answer, ("id", "title", "description")),
        "folder": _folder(answer),
        "filters": [_some(each, _FILTER_KEYS) for each in mappings(answer.get("dashboard_filters"))],
        "tiles": [_tile(each) for each in mappings(answer.get("dashboard_elements")) if not each.get("deleted")],
    }


def look_document(answer: Mapping[str, Any]) -> Document:
    """Return the raw document of a look, with its query but without its table."""
    facts = _some(answer, ("id", "title", "description"))
    return {**facts, "folder": _folder(answer), "query": query_document(answer.get("query"))}


def _tile(tile: Mapping[str, Any]) -> Document:
    look = tile.get("look")
    maker = tile.get("result_maker")
    nested = [each.get("query") for each in (look, maker) if isinstance(each, Mapping)]
    query = next((each for each in (tile.get("query"), *nested) if isinstance(each, Mapping)), None)
    return {**_some(tile, _TILE_KEYS), "query": query_document(query), "merged": bool(tile.get("merge_result_id"))}


def query_document(query: Any) -> Document | None:
    """Return the content of a query, without the IDs that Looker recreates for the same query."""
    return _some(query, _QUERY_KEYS) if isinstance(query, Mapping) else None


def with_targets(document: Mapping[str, Any], targets: Targets) -> Document:
    """Return a dashboard or look with the tables that its queries read, as currently defined by their explores."""
    if "tiles" in document:
        tiles = [{**tile, "query": _with_target(tile.get("query"), targets)} for tile in document["tiles"]]
        return {**document, "tiles": tiles}
    return {**document, "query": _with_target(document.get("query"), targets)}


def _with_target(query: Mapping[str, Any] | None, targets: Targets) -> Document | None:
    if not query:
        return None
    unknown = Target(None, why=Why.NO_TABLE)
    target = targets.get((str(query.get("model")), str(query.get("view"))), unknown)
    return {**query, "target": target.to_json()}


def queries_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the queries of a dashboard or a look."""
    tiles = [tile.get("query") for tile in document.get("tiles") or []]
    return [query for query in (*tiles, document.get("query")) if query]


def _folder(answer: Mapping[str, Any]) -> str | None:
    folder = answer.get("folder")
    found = folder.get("id") if isinstance(folder, Mapping) else answer.get("folder_id")
    return None if found is None else str(found)


def _some(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    return {key: value[key] for key in keys if value.get(key) not in (None, "", [], {}, False)}


_COLUMN: Final = re.compile(r"\$\{TABLE\}\s*\.\s*(?:(?P<plain>[A-Za-z_]\w*)|[\"`\[](?P<quoted>[A-Za-z_]\w*)[\"`\]])")
_KINDS: Final[Mapping[str, str]] = {"number": "number", "yesno": "boolean", "tier": "string", "zipcode": "string"}


def column_of(sql: object) -> str | None:
    """Return the column of `${TABLE}.column`, or None for other SQL."""
    found = _COLUMN.fullmatch(sql.strip().rstrip(";").strip()) if isinstance(sql, str) else None
    return None if found is None else found["plain"] or found["quoted"]


def kind_of(field: Mapping[str, Any]) -> str:
    """Return a dimension's ktx type."""
    kind = str(field.get("type") or "string")
    if kind.startswith(("date", "time", "duration")):
        return "time"
    return _KINDS.get(kind, "string")


def fetch(entry: LookerConnection, context: FetchContext, api: Looker, site: str) -> Snapshot:
    """Return the current content of Looker. `site` is its address."""
    return _Fetch(entry, context, api, site).snapshot()


class _Fetch:
    def __init__(self, entry: LookerConnection, context: FetchContext, api: Looker, site: str) -> None:
        self._entry, self._api, self._site = entry, api, site
        self._gathered = ApiFetch(context, site)
        self._targets: dict[tuple[str, str], Target] = {}
        self._unmapped: set[str] = set()
        self._warnings: list[ResultWarning] = []

    def snapshot(self) -> Snapshot:
        self._api.login()
        self._explores()
        self._folders()
        path_of, document_of = dashboard_path, dashboard_document
        self._contents(self._api.dashboards(), path_of, self._api.dashboard, document_of)
        self._contents(self._api.looks(), look_path, self._api.look, look_document)
        self._usage()
        warnings = [*self._warnings, *_unmapped(self._entry, self._unmapped)]
        return self._gathered.snapshot(f"Looker at {self._site}", warnings)

    def _explores(self) -> None:
        named = [
            (str(model["name"]), str(explore["name"]))
            for model in self._api.models()
            for explore in model["explores"]
            if isinstance(explore, Mapping) and explore.get("name")
        ]
        for done, (model, explore) in enumerate(sorted(set(named)), start=1):
            document = self._explore(model, explore)
            if document is not None:
                self._targets[model, explore] = Target.stored(document.get("target"))
            self._gathered.report(done, len(named))

    def _explore(self, model: str, explore: str) -> Document | None:
        """Return an explore, or None if it cannot be read or if its connection is skipped."""
        path = explore_path(model, explore)
        try:
            answer = self._api.explore(model, explore)
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(path, error)
            return self._gathered.kept(path)
        self._gathered.read(path, None)
        mappings, used = self._entry.mappings.connection_mappings, str(answer.get("connection_name"))
        if used in mappings and mappings[used] is None:
            return None
        if used not in mappings:
            self._unmapped.add(used)
        document = explore_document(model, {**answer, "name": explore}, mappings)
        self._gathered.put(path, document)
        return document

    def _folders(self) -> None:
        try:
            folders = self._api.folders()
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(FOLDERS_PATH, error)
            return
        named = {
            str(each["id"]): {"name": str(each.get("name") or ""), "parent_id": each.get("parent_id")}
            for each in folders
            if each.get("id") is not None
        }
        self._gathered.put(FOLDERS_PATH, {"folders": named})

    def _contents(
        self,
        listed: Iterable[Mapping[str, Any]],
        path_of: Callable[[str], str],
        ask: Callable[[str], Mapping[str, Any]],
        document_of: Callable[[Mapping[str, Any]], Document],
    ) -> None:
        """Read dashboards or looks, reusing unchanged ones."""
        wanted = [each for each in listed if each.get("id") not in (None, "") and not each.get("deleted")]
        for done, each in enumerate(wanted, start=1):
            path, moment = path_of(str(each["id"])), each.get("updated_at")
            document = self._gathered.unchanged(path, moment)
            if document is None:
                document = self._content(path, str(each["id"]), moment, ask, document_of)
            if document is not None:
                self._gathered.put(path, with_targets(document, self._targets))
            self._gathered.report(done, len(wanted))

    def _content(
        self,
        path: str,
        number: str,
        moment: object,
        ask: Callable[[str], Mapping[str, Any]],
        document_of: Callable[[Mapping[str, Any]], Document],
    ) -> Document | None:
        try:
            answer = ask(number)
        except (SourceError, HttpAuthError) as error:
            if getattr(error, "status", None) != 404:
                self._gathered.skip(path, error)
                return self._gathered.kept(path)
            return None
        self._gathered.read(path, moment)
        return document_of({**answer, "id": number})

    def _usage(self) -> None:
        """Write usage. Without permission to read it, the previous usage is kept."""
        try:
            usage = read_usage(self._api)
        except (SourceError, HttpAuthError) as error:
            if getattr(error, "status", None) in (0, 401):
                raise
            self._gathered.keep(USAGE_PATH)
            self._warnings.append(_no_usage(error.message))
            return
        document = {kind: {key: each.to_json() for key, each in found.items()} for kind, found in usage.items()}
        self._gathered.put(USAGE_PATH, document)


def _no_usage(reason: str) -> ResultWarning:
    return ResultWarning(
        "no_usage",
        f"usage of Looker content is unknown: {one_line(reason, 200)}",
        hint="grant the API key's role the permission see_system_activity",
    )


def _unmapped(entry: LookerConnection, names: Iterable[str]) -> list[ResultWarning]:
    shown = listing(sorted(one_line(name, 60) for name in names))
    if not shown:
        return []
    where = f"connections.{entry.id}.mappings.connectionMappings"
    return [
        ResultWarning(
            "unmapped_connection",
            (
                f"Looker connections that are not mapped to a ktx connection: {shown}; ktx writes only pages "
                "for their explores"
            ),
            hint=Hint("add each one to `{}`, with null to skip it", SettingPath(where)),
        )
    ]


PAGE: Final = 500
"""The number of items in a response."""

MOST_PAGES: Final = 2_000
ROOT: Final = "api/4.0"

_MODEL: Final = "name,label,project_name,explores"
_DASHBOARD: Final = "id,title,updated_at,deleted,folder"
_LOOK: Final = "id,title,updated_at,deleted,folder"
_Result = TypeVar("_Result")


class Looker:
    """A Looker client; call `login` first. An expired token is renewed once per request."""

    def __init__(self, client: HttpClient, client_id: str, client_secret: str) -> None:
        self._client = client
        self._form = {"client_id": client_id, "client_secret": client_secret}

    @property
    def site(self) -> Site:
        """The address."""
        return self._client.site

    def login(self) -> None:
        """Get a token for all subsequent requests."""
        try:
            sent = self._client.send("POST", f"{ROOT}/login", form=self._form)
        except HttpStatusError as error:
            if error.status != 404:
                raise
            raise self._denied(error) from error
        answer = self._client.decoded(sent, "POST /login")
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise _odd(self._client.site, "POST /login")
        self._client.use_headers({"Authorization": f"token {token}"})

    def _denied(self, error: HttpStatusError) -> HttpAuthError:
        """Return the error for a login with status 404, which is how Looker rejects credentials."""
        site = self._client.site
        return HttpAuthError(
            f"Looker rejected the credentials, or has no API at this address ({error.status})",
            hint=Hint(
                "check `{}`, `{}` and `{}`",
                SettingPath(f"{site.where}.client_id"),
                SettingPath(f"{site.where}.{site.credential}"),
                SettingPath(f"{site.where}.{site.address}"),
            ),
            details=error.details,
        )

    def models(self) -> list[dict[str, Any]]:
        """Return the LookML models with the names of their explores, by name."""
        listed = self._pages("lookml_models", {"fields": _MODEL})
        return sorted((each for each in listed if _named(each)), key=lambda each: str(each["name"]))

    def explore(self, model: str, explore: str) -> dict[str, Any]:
        """Return an explore with its fields and joins."""
        return self._mapping(f"lookml_models/{quote(model, safe='')}/explores/{quote(explore, safe='')}")

    def folders(self) -> list[dict[str, Any]]:
        """Return all folders."""
        return list(self._pages("folders/search", {"fields": "id,name,parent_id"}))

    def dashboards(self) -> list[dict[str, Any]]:
        """Return the user-defined dashboards, with enough fields to detect changes."""
        return list(self._pages("dashboards/search", {"fields": _DASHBOARD, "deleted": "false", "sorts": "id"}))

    def dashboard(self, dashboard: str) -> dict[str, Any]:
        """Return a dashboard with its tiles and filters."""
        return self._mapping(f"dashboards/{quote(dashboard, safe='')}")

    def looks(self) -> list[dict[str, Any]]:
        """Return the looks, with enough fields to detect changes."""
        return list(self._pages("looks/search", {"fields": _LOOK, "deleted": "false", "sorts": "id"}))

    def look(self, look: str) -> dict[str, Any]:
        """Return a look with its query."""
        return self._mapping(f"looks/{quote(look, safe='')}")

    def activity(self, fields: list[str], filters: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return rows from Looker's own query history."""
        body = {"model": "system__activity", "view": "history", "fields": fields, "filters": dict(filters)}
        path = f"{ROOT}/queries/run/json"
        answer = self._again(lambda: self._client.post(path, {**body, "limit": "5000"}))
        if not isinstance(answer, list) or any(not isinstance(row, dict) or "looker_error" in row for row in answer):
            raise _odd(self._client.site, "the query history")
        return answer

    def _mapping(self, path: str) -> dict[str, Any]:
        answer = self._again(lambda: self._client.get(f"{ROOT}/{path}"))
        if not isinstance(answer, dict):
            raise _odd(self._client.site, f"GET /{path}")
        require_shallow(answer, f"Looker's /{path}")
        return answer

    def _pages(self, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages without duplicates, because items that move during paging appear twice."""
        seen: set[str] = set()
        for page in range(MOST_PAGES):
            asked = {**params, "limit": PAGE, "offset": page * PAGE}
            answer = self._again(lambda asked=asked: self._client.get(f"{ROOT}/{path}", asked))  # type: ignore[misc]
            if not isinstance(answer, list):
                raise _odd(self._client.site, f"GET /{path}")
            if any(not isinstance(each, dict) or each.get("id", each.get("name")) in (None, "") for each in answer):
                raise _odd(self._client.site, f"GET /{path}")
            new = [each for each in answer if str(each.get("id", each.get("name"))) not in seen]
            seen.update(str(each.get("id", each.get("name"))) for each in new)
            yield from new
            if len(answer) < PAGE or not new:
                return
        message = f"Looker has more than {MOST_PAGES:,} pages at /{path}"
        raise SourceError(message, hint="give the API key a role that sees less content")

    def _again(self, ask: Callable[[], _Result]) -> _Result:
        """Return the result of a request, logging in again if the token has expired."""
        try:
            return ask()
        except HttpAuthError as error:
            if error.status != 401:
                raise
        self.login()
        return ask()


def _named(model: Mapping[str, Any]) -> bool:
    return isinstance(model.get("name"), str) and isinstance(model.get("explores"), list)


def _odd(site: Site, what: str) -> SourceError:
    return SourceError(f"Looker returned an unexpected response for {what}", hint=site.hints["address"])


WINDOW: Final = {"history.created_date": "30 days"}
_COUNTS: Final = ("history.query_run_count", "user.count")
_STEPS: Final = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FULL_QUERIES: Final = 10
FULL_USERS: Final = 3


class Lane(StrEnum):
    """How much work to spend on an item."""

    SKIP = "skip"
    LIGHT = "light"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """The number of queries and users in 30 days, each rounded down to 1, 3, 10, 30, ..."""

    queries: int = 0
    users: int = 0

    @property
    def lane(self) -> Lane:
        """Return the lane: unused items are skipped, and widely used ones are processed in full."""
        if self.queries >= FULL_QUERIES or self.users >= FULL_USERS:
            return Lane.FULL
        return Lane.LIGHT if self.queries or self.users else Lane.SKIP

    json_keys = ("queries_at_least=queries", "users_at_least=users")

    @classmethod
    def stored(cls, value: Any) -> Usage | None:
        """Return the usage from a raw file, or None if it is unknown."""
        if not isinstance(value, Mapping):
            return None
        return cls(int(value.get("queries_at_least", 0)), int(value.get("users_at_least", 0)))


def rounded(count: object) -> int:
    """Return the largest step up to a count, or 0 for an invalid count."""
    if isinstance(count, bool) or not isinstance(count, int | float):
        return 0
    return max((step for step in _STEPS if step <= count), default=0)


def read_usage(looker: Looker) -> dict[str, dict[str, Usage]]:
    """Return kind (`dashboards`, `explores`, `looks`) -> ID -> usage. An explore's ID is `model::explore`."""
    return {
        "dashboards": _by_id(looker, ["dashboard.id"]),
        "explores": _by_id(looker, ["query.model", "query.view"]),
        "looks": _by_id(looker, ["look.id"]),
    }


def _by_id(looker: Looker, fields: list[str]) -> dict[str, Usage]:
    return dict(sorted(_usages(looker.activity([*fields, *_COUNTS], WINDOW), fields)))


def _usages(rows: Iterable[Mapping[str, Any]], fields: list[str]) -> Iterable[tuple[str, Usage]]:
    for row in rows:
        names = [row.get(field) for field in fields]
        usage = Usage(*(rounded(row.get(count)) for count in _COUNTS))
        if all(name not in (None, "") for name in names) and usage != Usage():
            yield "::".join(map(str, names)), usage
