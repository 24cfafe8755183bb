"""What of Confluence's REST API (version 2, Cloud) is read: spaces and the pages in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from ktx_cli.context.sources.http import HttpAuthError, HttpClient, HttpStatusError
from ktx_cli.core.errors import SourceError

_PAGE_SIZE: Final = 250
_NOT_SEEN: Final = (403, 404)

Thing = Mapping[str, Any]


class ConfluenceApi:
    """Confluence's objects."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def spaces(self, keys: Sequence[str]) -> Iterator[Thing]:
        """Yield the spaces of these keys that the account sees; all it sees where there are none."""
        wanted = {"keys": ",".join(keys)} if keys else {"status": "current"}
        return self._listed("api/v2/spaces", wanted)

    def pages(self, space: str) -> Iterator[Thing]:
        """Yield the pages of a space, without their bodies."""
        return self._listed(f"api/v2/spaces/{quote(space, safe='')}/pages", {"status": "current"})

    def page(self, page: str) -> Thing | None:
        """Return a page with its body and labels; None: the account does not see it, or it is gone."""
        asked = {"body-format": "storage", "include-labels": "true"}
        try:
            return _mapping(self._client.get(f"api/v2/pages/{quote(page, safe='')}", asked))
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN:
                return None
            raise

    def _listed(self, path: str, params: Mapping[str, str]) -> Iterator[Thing]:
        cursor: str | None = None
        while True:
            listed = _mapping(self._client.get(path, {**params, "limit": _PAGE_SIZE, "cursor": cursor}))
            yield from (item for item in listed.get("results") or () if isinstance(item, Mapping))
            following = _cursor(listed)
            if following is None:
                return
            if following == cursor:
                raise SourceError("Confluence repeats a part of a list", hint="run it again later")
            cursor = following


def _cursor(listed: Thing) -> str | None:
    """Return what the address of the next part says, None at the end."""
    links = listed.get("_links")
    following = links.get("next") if isinstance(links, Mapping) else None
    if not isinstance(following, str):
        return None
    return next(iter(parse_qs(urlsplit(following).query).get("cursor", ())), None)


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Confluence answered with something that is no object", hint="run it again later")
    return answer
