"""Write Sigma's raw files. Only workbooks and data models that changed are requested."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ktx_cli.core import ResultWarning, SourceError, one_line, plural
from ktx_cli.documents import Snapshot
from ktx_cli.sources.fetch import ApiFetch, Document, PageTokens, entries, mappings, require_shallow
from ktx_cli.sources.http import RETRIED, HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.sigma import SigmaConnection

ROOT: Final = "v2"
PAGE: Final = 500
"""The number of entries to request per page."""
MOST_PAGES: Final = 200
WORKBOOKS: Final = "workbooks/"
MODELS: Final = "models/"
DATASETS: Final = "datasets/"

_LONGEST_SQL: Final = 20_000
_LONGEST_TEXT: Final = 4_000
_MOST_ELEMENTS: Final = 300
"""The maximum number of elements of a workbook or data model in its raw file."""
_COMMENT: Final = re.compile(r"\s*--\s*Sigma\s+Σ[^\n]*")
"""The comment that Sigma adds to its SQL, with the user's address and an ID that changes with each request."""
_NATIVE: Final = re.compile(r"inode-[^/]+/(.+)")
"""The ID of a column of a table in a database."""

_Result = TypeVar("_Result")


class Sigma:
    """A Sigma client; call `login` first. An expired token is renewed once per request."""

    def __init__(self, client: HttpClient, client_id: str, client_secret: str) -> None:
        self._client = client
        self._form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}

    @property
    def site(self) -> Site:
        """The address."""
        return self._client.site

    def login(self) -> None:
        """Get a token for all subsequent requests."""
        sent = self._client.send("POST", f"{ROOT}/auth/token", form=self._form)
        answer = self._client.decoded(sent, "POST /v2/auth/token")
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise self._odd("POST /v2/auth/token")
        self._client.use_headers({"Authorization": f"Bearer {token}"})

    def get(self, path: str) -> dict[str, Any]:
        """Return the mapping at a path."""
        answer = self._again(lambda: self._client.get(f"{ROOT}/{path}"))
        if not isinstance(answer, dict):
            raise self._odd(f"GET /{path}")
        require_shallow(answer, f"Sigma's /{path}")
        return answer

    def listed(self, path: str, *, id: str = "") -> list[Mapping[str, Any]]:
        """Return the entries of all pages of a list, with their key `id`. Raises if a page or an entry is missing."""
        found: list[Mapping[str, Any]] = []
        tokens, page = PageTokens("Sigma"), None
        for _ in range(MOST_PAGES):
            asked = {"limit": PAGE, "page": page}
            answer = self._again(lambda asked=asked: self._client.get(f"{ROOT}/{path}", asked))  # type: ignore[misc]
            if not isinstance(answer, dict):
                raise self._odd(f"GET /{path}")
            require_shallow(answer, f"Sigma's /{path}")
            found += entries(answer, "entries", "Sigma", f"GET /{path}", id=id)
            following = answer.get("nextPage")
            if following in (None, "") and answer.get("hasMore") is True:
                raise self._odd(f"GET /{path}")
            if following in (None, "") or answer.get("hasMore") is False:
                return found
            page = tokens.following(following)
        raise SourceError(
            f"Sigma has more than {MOST_PAGES} pages at /{path}", hint="select fewer documents with `paths`"
        )

    def _again(self, ask: Callable[[], _Result]) -> _Result:
        """Return the result of a request, logging in again if the token has expired."""
        try:
            return ask()
        except HttpAuthError as error:
            if error.status != 401:
                raise
        self.login()
        return ask()

    def _odd(self, what: str) -> SourceError:
        hint = self._client.site.hints["address"]
        return SourceError(f"Sigma returned an unexpected response for {what}", hint=hint)


def fetch(entry: SigmaConnection, context: FetchContext, sigma: Sigma, site: str) -> Snapshot:
    """Read Sigma's workbooks, data models and datasets. Unchanged ones come from the raw store."""
    sigma.login()
    api = ApiFetch(context, site)
    workbooks = [
        (f"{WORKBOOKS}{each['workbookId']}.json", each)
        for each in sigma.listed("workbooks", id="workbookId")
        if _has(each, "workbookId")
    ]
    models = [
        (f"{MODELS}{each['dataModelId']}.json", each)
        for each in sigma.listed("dataModels", id="dataModelId")
        if _has(each, "dataModelId")
    ]
    wanted = [(path, each) for path, each in (*workbooks, *models) if _is_wanted(each, entry.paths)]
    wanted.sort(key=lambda item: (str(item[1].get("updatedAt")), item[0]), reverse=True)
    chosen, rest = wanted[: entry.max_documents], wanted[entry.max_documents :]
    members = _members(sigma)
    for done, (path, listed) in enumerate(sorted(chosen, key=lambda item: item[0]), start=1):
        _read(api, sigma, path, listed, members)
        api.report(done, len(chosen))
    for path, _ in rest:
        api.keep(path)
    if not entry.paths:  # Sigma lists datasets without their folder.
        for each in sigma.listed("datasets", id="datasetId"):
            if _has(each, "datasetId") and not each.get("isArchived"):
                api.put(f"{DATASETS}{_safe(each['datasetId'])}.json", _dataset(each))
    return api.snapshot(f"Sigma at {site}", _warnings(entry, len(rest), context.connection))


def _warnings(entry: SigmaConnection, rest: int, connection: str) -> Iterator[ResultWarning]:
    if rest:
        limit = f"`max_documents` is {entry.max_documents}"
        what = f"{connection}: {plural(rest, 'document')} of Sigma not read, because {limit}"
        yield ResultWarning("not_read", what, hint="select documents with `paths`, or raise `max_documents`")


def _has(values: Mapping[str, Any], key: str) -> bool:
    return isinstance(values.get(key), str) and re.fullmatch(r"[\w.-]+", values[key]) is not None


def _safe(id: str) -> str:
    return id.replace("/", "-")


def _is_wanted(listed: Mapping[str, Any], paths: Sequence[str]) -> bool:
    """Return whether a document is selected: it is not archived, and is in one of the folders if there are any."""
    if listed.get("isArchived") is True:
        return False
    path = _text(listed.get("path")).strip("/").casefold()
    wanted = [each.strip("/").casefold() for each in paths]
    return not wanted or any(path == each or path.startswith(f"{each}/") for each in wanted)


def _members(sigma: Sigma) -> dict[str, str]:
    """Return ID -> name of each member, or none if the credentials may not list them."""
    try:
        listed = sigma.listed("members")
    except HttpAuthError as error:
        if error.status == 401:
            raise
        return {}
    except HttpStatusError as error:
        if error.status != 404:
            raise
        return {}
    names = ((each, f"{_text(each.get('firstName'))} {_text(each.get('lastName'))}".strip()) for each in listed)
    return {str(each.get("memberId")): name for each, name in names if name}


def _read(api: ApiFetch, sigma: Sigma, path: str, listed: Mapping[str, Any], members: Mapping[str, str]) -> None:
    """Put the raw file of a workbook or data model, from the last fetch if it has not changed since."""
    moment = listed.get("updatedAt")
    kept = api.unchanged(path, moment)
    if kept is not None:
        api.put(path, {**kept, **_common(listed, members)})
        return
    try:
        if path.startswith(WORKBOOKS):
            elements = _workbook_elements(sigma, f"workbooks/{quote(str(listed['workbookId']), safe='')}")
            document: Document = {**_common(listed, members), "kind": "workbook", "elements": elements}
        else:
            spec = sigma.get(f"dataModels/{quote(str(listed['dataModelId']), safe='')}/spec")
            document = {**_common(listed, members), "kind": "data model", "elements": list(_model_elements(spec))}
    except (SourceError, HttpAuthError) as error:
        api.skip(path, error)
        return
    api.put(path, document)
    api.read(path, moment)


def _common(listed: Mapping[str, Any], members: Mapping[str, str]) -> Document:
    """Return the facts about a document that its list contains, without those that change with every edit."""
    tags = (_text(each.get("name")) for each in mappings(listed.get("tags")))
    return {
        "id": listed.get("workbookId") or listed.get("dataModelId"),
        "name": _text(listed.get("name")),
        "description": _text(listed.get("description"))[:_LONGEST_TEXT],
        "path": _text(listed.get("path")),
        "owner": members.get(str(listed.get("ownerId")), ""),
        "tags": sorted({each for each in tags if each}),
        "url": _text(listed.get("url")),
    }


def _dataset(listed: Mapping[str, Any]) -> Document:
    return {
        "id": listed["datasetId"],
        "kind": "dataset",
        "name": _text(listed.get("name")),
        "description": _text(listed.get("description"))[:_LONGEST_TEXT],
        "url": _text(listed.get("url")),
    }


def _workbook_elements(sigma: Sigma, path: str) -> list[Document]:
    """Return the elements of a workbook with the formulas of their columns and their SQL."""
    formulas: dict[str, dict[str, Mapping[str, Any]]] = {}
    elements = sigma.listed(f"{path}/elements")
    for each in sigma.listed(f"{path}/columns"):
        name = _text(each.get("name")) or _text(each.get("label"))
        formulas.setdefault(str(each.get("elementId")), {})[name] = each
    queries = {str(each.get("elementId")): each for each in _queries(sigma, path)}
    found = []
    for each in elements[:_MOST_ELEMENTS]:
        id = str(each.get("elementId"))
        own, query = formulas.get(id, {}), queries.get(id, {})
        listed = each.get("columns")
        names = [name for name in (listed if isinstance(listed, list) else []) if isinstance(name, str)]
        columns = [_column(name, own.get(name, {})) for name in dict.fromkeys((*names, *own)) if name]
        facts = {
            "id": id,
            "name": _text(each.get("name")) or _text(query.get("elementName")),
            "type": _text(each.get("type")),
            "visualization": _text(each.get("vizualizationType") or each.get("visualizationType")),
            "columns": columns,
            "sql": without_comment(_text(query.get("sql"))),
            "problem": one_line(_text(query.get("error")), 200),
        }
        found.append({key: value for key, value in facts.items() if value})
    return found


def _queries(sigma: Sigma, path: str) -> list[Mapping[str, Any]]:
    """Return the SQL of a workbook's elements, or none if the credentials may not see it."""
    try:
        return sigma.listed(f"{path}/queries")
    except (HttpStatusError, HttpAuthError) as error:
        if error.status in (0, 401, *RETRIED):
            raise
        return []


def without_comment(sql: str) -> str:
    """Return the SQL of an element without Sigma's comment, shortened if it is very long."""
    plain = _COMMENT.sub("", sql).strip()
    return plain if len(plain) <= _LONGEST_SQL else f"{plain[:_LONGEST_SQL]}\n-- shortened by ktx"


def _column(name: str, values: Mapping[str, Any]) -> Document:
    facts = {"name": name, "formula": _text(values.get("formula")), "description": _text(values.get("description"))}
    return {key: value[:_LONGEST_TEXT] for key, value in facts.items() if value}


def _model_elements(spec: Mapping[str, Any]) -> Iterable[Document]:
    """Yield the tables of a data model: their source, columns, metrics and relationships."""
    elements = [each for page in mappings(spec.get("pages")) for each in mappings(page.get("elements"))]
    for each in elements[:_MOST_ELEMENTS]:
        source = each.get("source")
        source = source if isinstance(source, Mapping) else {}
        columns = mappings(each.get("columns"))
        if each.get("kind") not in (None, "table") or not (columns or source):
            continue
        path = source.get("path")
        facts = {
            "id": _text(each.get("id")),
            "name": _text(each.get("name")),
            "description": _text(each.get("description"))[:_LONGEST_TEXT],
            "connection": _text(source.get("connectionId")),
            "table": [str(part) for part in path] if isinstance(path, list) else [],
            "sql": without_comment(_text(source.get("statement")) or _text(source.get("definition"))),
            "columns": [_model_column(column) for column in columns],
            "metrics": [_column(_text(metric.get("name")), metric) for metric in mappings(each.get("metrics"))],
            "relationships": list(_relationships(each)),
            "filtered": bool(each.get("filters")),
        }
        yield {key: value for key, value in facts.items() if value}


def _model_column(column: Mapping[str, Any]) -> Document:
    """Return a column of a data model. `column`: its name in the database; other columns are computed."""
    native = _NATIVE.fullmatch(_text(column.get("id")))
    formula = _text(column.get("formula"))
    name = _text(column.get("name")) or formula.strip("[]").rpartition("/")[2]
    return {**_column(name, column), **({"column": native[1]} if native else {})}


def _relationships(element: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the relationships of an element whose keys are columns of tables."""
    for each in mappings(element.get("relationships")):
        keys = [
            (_NATIVE.fullmatch(_text(key.get("sourceColumnId"))), _NATIVE.fullmatch(_text(key.get("targetColumnId"))))
            for key in mappings(each.get("keys"))
        ]
        known = [(one[1], other[1]) for one, other in keys if one is not None and other is not None]
        if known and len(known) == len(keys):
            columns, references = zip(*known, strict=True)
            yield {"to": _text(each.get("targetElementId")), "columns": list(columns), "references": list(references)}


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
