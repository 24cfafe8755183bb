"""What of Notion's API is read: pages, the blocks in them, databases, data sources and their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.context.sources.http import HttpAuthError, HttpClient, HttpStatusError
from ktx_cli.core.errors import SourceError

ADDRESS: Final = "https://api.notion.com"
VERSION: Final = "2025-09-03"
_PAGE_SIZE: Final = 100
_NOT_SEEN: Final = (400, 403, 404)

Thing = Mapping[str, Any]


def plain_id(value: object) -> str:
    """Return an id as 32 hex digits, of whatever form it has (with dashes, at the end of a URL); empty for none."""
    found = re.findall(r"[0-9a-f]{32}", str(value or "").lower().replace("-", ""))
    return found[-1] if found else ""


class NotionApi:
    """Notion's objects. None of a `get`: the token does not see it, or there is no such thing."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def account(self) -> str:
        """Return the name of who the token is of."""
        return str(_mapping(self._client.get("v1/users/me")).get("name") or "an integration without a name")

    def page(self, page: str) -> Thing | None:
        """Return a page."""
        return self._get(f"v1/pages/{page}")

    def database(self, database: str) -> Thing | None:
        """Return a database, which names its data sources."""
        return self._get(f"v1/databases/{database}")

    def data_source(self, data_source: str) -> Thing | None:
        """Return a data source, which says what its rows have."""
        return self._get(f"v1/data_sources/{data_source}")

    def block(self, block: str) -> Thing | None:
        """Return a block without what is in it."""
        return self._get(f"v1/blocks/{block}")

    def children(self, block: str) -> Iterator[Thing]:
        """Yield the blocks in a block or page, in order."""
        return self._listed("GET", f"v1/blocks/{block}/children", {})

    def rows(self, data_source: str) -> Iterator[Thing]:
        """Yield the pages that are the rows of a data source."""
        return self._listed("POST", f"v1/data_sources/{data_source}/query", {})

    def accessible(self, kind: str) -> Iterator[Thing]:
        """Yield all the token sees of a kind: `page` or `data_source`."""
        wanted = {"filter": {"property": "object", "value": kind}}
        return self._listed("POST", "v1/search", wanted)

    def _get(self, path: str) -> Thing | None:
        try:
            return _mapping(self._client.get(path))
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN:
                return None
            raise

    def _listed(self, method: str, path: str, body: Mapping[str, Any]) -> Iterator[Thing]:
        cursor: str | None = None
        while True:
            asked = {"page_size": _PAGE_SIZE, **({"start_cursor": cursor} if cursor else {})}
            answer = self._client.get(path, asked) if method == "GET" else self._client.post(path, {**body, **asked})
            listed = _mapping(answer)
            yield from (item for item in listed.get("results") or () if isinstance(item, Mapping))
            following = listed.get("next_cursor")
            if not listed.get("has_more") or not following:
                return
            if following == cursor:
                raise SourceError("Notion repeats a part of a list", hint="run it again later")
            cursor = str(following)


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Notion answered with something that is no object", hint="run it again later")
    return answer
