"""What ktx asks of Looker's API 4.0, and the shapes of the answers that are relied on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ktx_cli.context.sources.gathering import require_shallow
from ktx_cli.context.sources.http import HttpAuthError, HttpClient, HttpStatusError, Site
from ktx_cli.core.errors import SourceError

PAGE: Final = 500
"""Items of one answer."""

MOST_PAGES: Final = 2_000
ROOT: Final = "api/4.0"

_MODEL: Final = "name,label,project_name,explores"
_DASHBOARD: Final = "id,title,updated_at,deleted,folder"
_LOOK: Final = "id,title,updated_at,deleted,folder"
_Result = TypeVar("_Result")


class Looker:
    """A Looker; `login` first. A token that has ended is asked for again, once for each request."""

    def __init__(self, client: HttpClient, client_id: str, client_secret: str) -> None:
        self._client = client
        self._form = {"client_id": client_id, "client_secret": client_secret}

    @property
    def site(self) -> Site:
        """Where it is."""
        return self._client.site

    def login(self) -> None:
        """Get a token for all further requests."""
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
        """Return the error of a login that found nothing, which is how Looker refuses credentials."""
        site = self._client.site
        return HttpAuthError(
            f"Looker does not accept the credentials, or has no API at this address ({error.status})",
            hint=f"check `{site.where}.client_id`, `{site.where}.{site.credential}` and `{site.where}.{site.address}`",
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
        """Return the dashboards people made: enough of each to see whether it changed."""
        return list(self._pages("dashboards/search", {"fields": _DASHBOARD, "deleted": "false", "sorts": "id"}))

    def dashboard(self, dashboard: str) -> dict[str, Any]:
        """Return a dashboard with its tiles and filters."""
        return self._mapping(f"dashboards/{quote(dashboard, safe='')}")

    def looks(self) -> list[dict[str, Any]]:
        """Return the looks: enough of each to see whether it changed."""
        return list(self._pages("looks/search", {"fields": _LOOK, "deleted": "false", "sorts": "id"}))

    def look(self, look: str) -> dict[str, Any]:
        """Return a look with its query."""
        return self._mapping(f"looks/{quote(look, safe='')}")

    def activity(self, fields: list[str], filters: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return rows of Looker's own history of queries."""
        body = {"model": "system__activity", "view": "history", "fields": fields, "filters": dict(filters)}
        path = f"{ROOT}/queries/run/json"
        answer = self._again(lambda: self._client.post(path, {**body, "limit": "5000"}))
        if not isinstance(answer, list) or any(not isinstance(row, dict) or "looker_error" in row for row in answer):
            raise _odd(self._client.site, "the history of queries")
        return answer

    def _mapping(self, path: str) -> dict[str, Any]:
        answer = self._again(lambda: self._client.get(f"{ROOT}/{path}"))
        if not isinstance(answer, dict):
            raise _odd(self._client.site, f"GET /{path}")
        require_shallow(answer, f"Looker's /{path}")
        return answer

    def _pages(self, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages, each once: items that move while pages are read come twice."""
        seen: set[str] = set()
        for page in range(MOST_PAGES):
            asked = {**params, "limit": PAGE, "offset": page * PAGE}
            answer = self._again(lambda asked=asked: self._client.get(f"{ROOT}/{path}", asked))  # type: ignore[misc]
            if not isinstance(answer, list):
                raise _odd(self._client.site, f"GET /{path}")
            items = [each for each in answer if isinstance(each, dict)]
            new = [each for each in items if str(each.get("id", each.get("name"))) not in seen]
            seen.update(str(each.get("id", each.get("name"))) for each in new)
            yield from new
            if len(answer) < PAGE or not new:
                return

    def _again(self, ask: Callable[[], _Result]) -> _Result:
        """Return what a request gives, after a new login where the token has ended."""
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
    return SourceError(f"Looker answered {what} with something else", hint=site.hints["address"])
