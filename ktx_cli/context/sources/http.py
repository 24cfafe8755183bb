"""The one HTTP client of the sources that are read over the network: bounded in time, size and number of tries.

Sends nothing to another host than the one it was made for, shows no secret in an error, and asks while it waits
whether the run has been asked to end.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.context.sources.http_bounds import bound
from ktx_cli.context.sources.http_errors import (
    RETRIED,
    HttpAuthError,
    HttpStatusError,
    RetryPolicy,
    retry_after,
    said_by,
    status_error,
)
from ktx_cli.context.sources.http_site import Site, open_client, sendable
from ktx_cli.core.errors import CancelledError, KtxError, SourceError
from ktx_cli.core.events import Emit, Waiting, ignore_events
from ktx_cli.core.text import one_line
from ktx_cli.project import secrets

if TYPE_CHECKING:
    import httpx2

__all__ = ["Answer", "HttpAuthError", "HttpClient", "HttpStatusError", "RetryPolicy", "Site"]

MAX_BYTES: Final = 64_000_000
"""The largest answer, unpacked."""

ANSWER_SECONDS: Final = 300.0
"""The longest one request may take, from the first byte sent to the last of its answer, redirects included."""

_SLICE_SECONDS: Final = 0.25
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_REDIRECTS: Final = 5
_TOLD_FROM_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no error. `headers` have lower-case names; `content` is unpacked."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    said: str
    extra: Mapping[str, Any] = field(repr=False)


class HttpClient:
    """Requests to one site; may be used from several threads, and is closed by its `with`.

    Raises `HttpAuthError` for 401 and 403, `HttpStatusError` for other errors the site answers with, `SourceError`
    where no usable answer comes, `CancelledError` when `stopped()` says so. `sleep`, `clock` (Unix seconds),
    `monotonic` (seconds) and `uniform` can be replaced in tests.
    """

    def __init__(
        self,
        site: Site,
        *,
        policy: RetryPolicy | None = None,
        timeout: float = 30.0,
        max_bytes: int = MAX_BYTES,
        stopped: Callable[[], bool] = lambda: False,
        emit: Emit = ignore_events,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.site = site
        self._policy = policy or RetryPolicy()
        self._max_bytes = max_bytes
        self._stopped, self._emit = stopped, emit
        self._sleep, self._clock, self._monotonic, self._uniform = sleep, clock, monotonic, uniform
        self._current = threading.local()
        self._client = open_client(site, timeout)
        bound(self._client, self._left)

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def use_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every request from now on, for example after a login; what they show is a secret."""
        for value in headers.values():
            secrets.remember(value.rpartition(" ")[2])
        self._client.headers.update(sendable(headers, self.site))

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of a path below the base URL."""
        return self.decoded(self.send("GET", path, params=params), f"GET {_shown(path)}")

    def post(self, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of an answer to JSON. It is sent again like a `get`, so it must change nothing."""
        return self.decoded(self.send("POST", path, params=params, body=body), f"POST {_shown(path)}")

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, again where that may help, and return its answer; `body` becomes JSON, `form` a form."""
        extra: dict[str, Any] = {"params": _given(params), "data": form, "headers": headers}
        if body is not None:
            extra["json"] = body
        url = f"{str(self._client.base_url).rstrip('/')}/{path.lstrip('/')}"
        request = _Request(method, url, f"{method} {_shown(path)}", extra)
        tried = 0
        while True:
            tried += 1
            outcome, asked = self._once(request)
            if isinstance(outcome, Answer):
                return outcome
            self._wait_or_raise(outcome, tried, asked)

    def decoded(self, answer: Answer, said: str) -> Any:
        """Return the JSON of an answer."""
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{self.site.name} answered {said} with something that is no JSON", hint=self.site.hints["address"]
            ) from error

    def _once(self, request: _Request) -> tuple[Answer | KtxError, float | None]:
        """Return an answer, or the error of a try that may be repeated and the seconds the site asks for."""
        import httpx2

        try:
            with self._timed(request):
                answer = self._followed(request)
        except httpx2.LocalProtocolError as error:
            raise self._unreachable(request, error) from None
        except httpx2.HTTPError as error:
            return self._unreachable(request, error), None
        if answer.status < 400:
            return answer, None
        failed = status_error(self.site.name, request.said, answer.status, said_by(answer.content), self.site.hints)
        if answer.status not in RETRIED:
            raise failed
        return failed, retry_after(answer.headers.get("retry-after"), self._clock())

    def _wait_or_raise(self, failed: KtxError, tried: int, asked: float | None) -> None:
        if asked is not None and asked > self._policy.longest_wait:
            failed.hint = f"{self.site.name} asks to wait {asked:,.0f} seconds: run it again after that"
            raise failed
        if tried >= self._policy.tries:
            raise failed
        self._wait(self._policy.delay(tried, asked, self._uniform))

    def _wait(self, seconds: float) -> None:
        if seconds >= _TOLD_FROM_SECONDS:
            self._emit(Waiting(f"{self.site.name} is not ready", seconds))
        left = seconds
        while left > 0:
            self._look()
            self._sleep(min(left, _SLICE_SECONDS))
            left -= _SLICE_SECONDS

    def _look(self) -> None:
        if self._stopped():
            raise CancelledError(f"stopped while reading {self.site.name}")

    @contextmanager
    def _timed(self, request: _Request) -> Iterator[None]:
        """Give what this thread sends and reads the time of one request."""
        self._current.said, self._current.until = request.said, self._monotonic() + ANSWER_SECONDS
        try:
            yield
        finally:
            del self._current.said, self._current.until

    def _left(self) -> float:
        """Return the seconds this thread's request still has; raises where there are none, or the run is to end."""
        self._look()
        left: float = self._current.until - self._monotonic()
        if left > 0:
            return left
        raise SourceError(
            f"{self.site.name} did not finish its answer to {self._current.said} within {ANSWER_SECONDS:.0f} seconds",
            hint=f"wait until {self.site.name} answers faster, then run it again",
        )

    def _followed(self, request: _Request) -> Answer:
        """Send a request once and follow redirects inside the site."""
        method, url, extra = request.method, request.url, request.extra
        for _ in range(_MOST_REDIRECTS + 1):
            answer, target = self._sent(method, url, extra, request.said)
            if target is None:
                return answer
            if method not in ("GET", "HEAD") and answer.status not in (307, 308):
                break
            url, extra = target, {**extra, "params": None}
        raise SourceError(f"{self.site.name} redirects {request.said} in circles", hint=self.site.hints["address"])

    def _sent(self, method: str, url: str, extra: Mapping[str, Any], said: str) -> tuple[Answer, str | None]:
        self._look()
        with self._client.stream(method, url, **extra) as response:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return Answer(response.status_code, {}, b""), self._inside(response, location, said)
            content = self._content(response, said)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, headers, content), None

    def _inside(self, response: httpx2.Response, location: str, said: str) -> str:
        """Return where a redirect leads, when that is this site: credentials go to no other."""
        target = response.url.join(location)
        here, there = (_origin(url) for url in (response.url, target))
        if there not in (here, ("https", here[1], 443)):
            raise SourceError(
                f"{self.site.name} redirects {said} to {target.scheme}://{one_line(target.host, 100)}, "
                "where ktx sends no credentials",
                hint=f"set `{self.site.where}.{self.site.address}` to the address that answers",
            )
        return str(target)

    def _content(self, response: httpx2.Response, said: str) -> bytes:
        content = bytearray()
        for piece in response.iter_bytes():
            content += piece
            self._left()
            if len(content) > self._max_bytes:
                raise SourceError(
                    f"{self.site.name} answered {said} with more than {self._max_bytes:,} bytes",
                    hint=f"read less of it: see the settings of `{self.site.where}`",
                )
        return bytes(content)

    def _unreachable(self, request: _Request, error: Exception) -> SourceError:
        reason = one_line(secrets.mask(str(error)), 200) or type(error).__name__
        return HttpStatusError(
            f"{self.site.name} cannot be reached for {request.said}: {reason}",
            hint=f"check `{self.site.where}.{self.site.address}` and the network, then run it again",
            details={"request": request.said, "error": type(error).__name__},
        )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return parameters without those that have no value."""
    return {name: value for name, value in params.items() if value is not None} if params else None


def _shown(path: str) -> str:
    """Return a path for messages: without its query."""
    return one_line("/" + path.partition("?")[0].lstrip("/"), 120)
