"""The HTTP client for all sources that are read over the network, with limits on time, size and retries.

It sends nothing to other hosts, shows no secrets in errors, and checks for cancellation while it waits.
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import (
    CancelledError,
    ConfigError,
    Emit,
    Hint,
    KtxError,
    NotReadyError,
    SettingPath,
    SourceError,
    Waiting,
    ignore_events,
    one_line,
)
from ktx_cli.project import has_password, mask
from ktx_cli.project import remember as remember_secret

if TYPE_CHECKING:
    import ssl

    import httpx2


__all__ = ["HttpAuthError", "HttpClient", "HttpResponse", "HttpStatusError", "RetryPolicy", "Site"]

MAX_BYTES: Final = 64_000_000
"""The maximum size of an uncompressed response."""

ANSWER_SECONDS: Final = 300.0
"""The maximum duration of one request, from the first byte sent to the last byte received, including redirects."""

_SLICE_SECONDS: Final = 0.25
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_REDIRECTS: Final = 5
_REPORTED_FROM_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A successful response. `headers` have lower-case names; `content` is uncompressed."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    label: str
    extra: Mapping[str, Any] = field(repr=False)


class HttpClient:
    """Requests to one site. Can be used from several threads; leaving its `with` block closes it.

    Raises `HttpAuthError` for 401 and 403, `HttpStatusError` for other error responses, `SourceError` if there is no
    usable response, `CancelledError` if `stopped()` returns true. `sleep`, `clock` (Unix seconds), `monotonic`
    (seconds) and `uniform` can be replaced in tests.
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
        """Close the connections."""
        self._client.close()

    def use_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every further request, for example after a login. Their values are secrets."""
        for value in headers.values():
            remember_secret(value.rpartition(" ")[2])
        self._client.headers.update(sendable(headers, self.site))

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of a path below the base URL."""
        return self.decoded(self.send("GET", path, params=params), f"GET {_shown(path)}")

    def post(self, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON response to a JSON request. It is retried like a `get`, so it must not change anything."""
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
    ) -> HttpResponse:
        """Send a request, with retries, and return its response. `body` is sent as JSON, `form` as a form."""
        extra: dict[str, Any] = {"params": _given(params), "data": form, "headers": headers}
        if body is not None:
            extra["json"] = body
        url = f"{str(self._client.base_url).rstrip('/')}/{path.lstrip('/')}"
        request = _Request(method, url, f"{method} {_shown(path)}", extra)
        tried = 0
        while True:
            tried += 1
            outcome, asked = self._once(request)
            if isinstance(outcome, HttpResponse):
                return outcome
            self._wait_or_raise(outcome, tried, asked)

    def decoded(self, answer: HttpResponse, label: str) -> Any:
        """Return the JSON of a response."""
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            message = f"{self.site.name} returned invalid JSON for {label}"
            raise SourceError(message, hint=self.site.hints["address"]) from error

    def _once(self, request: _Request) -> tuple[HttpResponse | KtxError, float | None]:
        """Return a response, or the error from a retryable attempt and the requested seconds to wait."""
        import httpx2

        try:
            with self._timed(request):
                answer = self._followed(request)
        except httpx2.LocalProtocolError as error:
            raise self._unreachable(request, error) from None
        except httpx2.HTTPError as error:
            unreached = self._unreachable(request, error)
            if _is_unknown_host(error):
                raise unreached from None
            return unreached, None
        if answer.status < 400:
            return answer, None
        reason = error_reason(answer.content)
        is_busy = answer.status in RETRIED or reason in self.site.busy
        detail = error_text(answer.content)
        failed = status_error(
            self.site.name, request.label, answer.status, detail, self.site.hints, is_busy=reason in self.site.busy
        )
        if reason:
            failed.details["reason"] = reason
        if not is_busy:
            raise failed
        return failed, retry_after(answer.headers.get("retry-after"), self._clock())

    def _wait_or_raise(self, failed: KtxError, tried: int, asked: float | None) -> None:
        if asked is not None and asked > self._policy.longest_wait:
            failed.hint = f"{self.site.name} asks to wait {asked:,.0f} seconds; retry after that"
            raise failed
        if tried >= self._policy.tries:
            raise failed
        self._wait(self._policy.delay(tried, asked, self._uniform))

    def _wait(self, seconds: float) -> None:
        if seconds >= _REPORTED_FROM_SECONDS:
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
        """Apply the time limit of one request to everything that this thread sends and reads."""
        self._current.label, self._current.until = request.label, self._monotonic() + ANSWER_SECONDS
        try:
            yield
        finally:
            del self._current.label, self._current.until

    def _left(self) -> float:
        """Return the remaining seconds for this thread's request. Raises if there are none, or the run is cancelled."""
        self._look()
        left: float = self._current.until - self._monotonic()
        if left > 0:
            return left
        raise SourceError(
            (
                f"{self.site.name} did not finish its response to {self._current.label} within "
                f"{ANSWER_SECONDS:.0f} seconds"
            ),
            hint=f"retry when {self.site.name} responds faster",
        )

    def _followed(self, request: _Request) -> HttpResponse:
        """Send a request once and follow redirects inside the site."""
        method, url, extra = request.method, request.url, request.extra
        for _ in range(_MOST_REDIRECTS + 1):
            answer, target = self._sent(method, url, extra, request.label)
            if target is None:
                return answer
            if method not in ("GET", "HEAD") and answer.status not in (307, 308):
                break
            url, extra = target, {**extra, "params": None}
        raise SourceError(f"{self.site.name} redirects {request.label} in a loop", hint=self.site.hints["address"])

    def _sent(self, method: str, url: str, extra: Mapping[str, Any], label: str) -> tuple[HttpResponse, str | None]:
        self._look()
        with self._client.stream(method, url, **extra) as response:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return HttpResponse(response.status_code, {}, b""), self._inside(response, location, label)
            content = self._content(response, label)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return HttpResponse(response.status_code, headers, content), None

    def _inside(self, response: httpx2.Response, location: str, label: str) -> str:
        """Return the target of a redirect if it is on this site, because credentials are not sent to any other."""
        target = response.url.join(location)
        here, there = (_origin(url) for url in (response.url, target))
        if there not in (here, ("https", here[1], 443)):
            raise SourceError(
                f"{self.site.name} redirects {label} to {target.scheme}://{one_line(target.host, 100)}, "
                "where ktx does not send credentials",
                hint=Hint("set `{}` to the final address", SettingPath(f"{self.site.where}.{self.site.address}")),
            )
        return str(target)

    def _content(self, response: httpx2.Response, label: str) -> bytes:
        content = bytearray()
        for piece in response.iter_bytes():
            content += piece
            self._left()
            if len(content) > self._max_bytes:
                message = f"the response from {self.site.name} to {label} is larger than {self._max_bytes:,} bytes"
                hint = Hint("request less data: see the settings of `{}`", SettingPath(self.site.where))
                raise SourceError(message, hint=hint)
        return bytes(content)

    def _unreachable(self, request: _Request, error: Exception) -> SourceError:
        reason = one_line(mask(str(error)), 200) or type(error).__name__
        return HttpStatusError(
            f"cannot reach {one_line(urlsplit(request.url).hostname or '', 100)} ({self.site.name}) "
            f"for {request.label}: {reason}",
            hint=Hint("check the network")
            if self.site.is_fixed
            else Hint("check `{}` and the network", SettingPath(f"{self.site.where}.{self.site.address}")),
            details={"request": request.label, "error": type(error).__name__},
        )


def _is_unknown_host(error: BaseException | None) -> bool:
    """Return whether a request failed because the name of the host does not resolve."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the parameters that have a value."""
    return {name: value for name, value in params.items() if value is not None} if params else None


def _shown(path: str) -> str:
    """Return a path for messages, without its query."""
    return one_line("/" + path.partition("?")[0].lstrip("/"), 120)


Left = Callable[[], float]
"""Returns the remaining seconds for this thread's request. Raises if there are none."""


def bound(client: httpx2.Client, left: Left) -> None:
    """Limit everything that a client connects, sends and reads, including its proxies, to `left()`."""
    # The pool accepts a backend as an argument, but httpx2 does not pass one on to it.
    for transport in (client._transport, *client._mounts.values()):
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend, left)


class _Backend:
    """An httpcore2 network backend whose waits all end with the request's time limit."""

    def __init__(self, inner: Any, left: Left) -> None:
        self._inner, self._left = inner, left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        wait = _Wait(self._left)
        stream = wait(lambda most: self._inner.connect_tcp(host, port, most, local_address, socket_options), timeout)
        return _Stream(stream, wait)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(min(seconds, self._left()))


class _Stream:
    """An httpcore2 connection whose waits all end with the request's time limit."""

    def __init__(self, inner: Any, wait: _Wait) -> None:
        self._inner, self._wait = inner, wait

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._wait(lambda most: self._inner.read(max_bytes, most), timeout)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._wait(lambda most: self._inner.write(buffer, most), timeout)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        stream = self._wait(lambda most: self._inner.start_tls(ssl_context, server_hostname, most), timeout)
        return _Stream(stream, self._wait)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Wait:
    """Call a blocking function with the shorter of its own time limit and the request's."""

    def __init__(self, left: Left) -> None:
        self._left = left

    def __call__(self, call: Callable[[float], Any], timeout: float | None) -> Any:
        import httpcore2

        left = self._left()
        try:
            return call(left if timeout is None else min(timeout, left))
        except httpcore2.TimeoutException:
            self._left()
            raise


RETRIED: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Responses after which a retry may help."""

_SHOWN_CHARACTERS: Final = 200
_READ_OF_AN_ERROR: Final = 20_000


class HttpStatusError(SourceError):
    """Raised if a site returned an error. `status`: the HTTP status, or 0 without a response."""

    status: int = 0


class HttpAuthError(NotReadyError):
    """Raised if a site rejected the credentials (401), or denied access (403); `status` says which."""

    status: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when to retry a request; times are in seconds.

    The delay is drawn from 0 to `base * 2 ** n`, at most `cap` ("full jitter", Brooker, AWS Architecture Blog, 2015).
    If a site asks to wait longer than `longest_wait`, the request fails.
    """

    tries: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_wait: float = 120.0

    def delay(self, tried: int, asked: float | None, uniform: Callable[[float, float], float]) -> float:
        """Return the seconds to wait after `tried` attempts. `asked` is the wait that the site requested."""
        drawn = uniform(0.0, min(self.cap, self.base * 2.0**tried))
        return drawn if asked is None else max(asked, drawn)


CHECKING: Final = RetryPolicy(tries=2, cap=2.0, longest_wait=5.0)
"""The policy for checking whether a site responds while a user waits."""


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds in a `Retry-After` header, or None if the value is unusable. `now` is Unix time."""
    if not value:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}(?:\.[0-9]{0,9})?\s*", value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - now)


def error_text(content: bytes) -> str:
    """Return the message in an error response on one line: from its JSON, or its text unless it is a web page."""
    text = content[:_READ_OF_AN_ERROR].decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = "" if text.startswith("<") else text
    return one_line(mask(_message_in(body)), _SHOWN_CHARACTERS)


def _message_in(body: Any) -> str:
    if isinstance(body, dict):
        named = (
            _message_in(body.get(key))
            for key in ("message", "error_description", "detail", "title", "error", "errorMessages")
        )
        return next((text for text in named if text), _message_in(body.get("errors")))
    if isinstance(body, list):
        return _message_in(body[0]) if body else ""
    return body if isinstance(body, str) else ""


def error_reason(content: bytes) -> str:
    """Return the machine-readable reason in an error response of Google's shape, or an empty string."""
    try:
        error = json.loads(content[:_READ_OF_AN_ERROR])["error"]
        listed = [*(error.get("errors") or ()), *(error.get("details") or ())]
        reason = next((each["reason"] for each in listed if "reason" in each), "")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
    return reason if isinstance(reason, str) and re.fullmatch(r"\w{1,60}", reason) else ""


def status_error(
    name: str, asked: str, status: int, detail: str, hints: Mapping[str, str], *, is_busy: bool = False
) -> KtxError:
    """Return the error for a response. `asked` describes the request; `hints` has `credential` and `address`.

    `is_busy`: the site gave a reason after which a retry helps, whatever the status says.
    """
    tail = f": {detail}" if detail else ""
    details = {"status": status, "request": asked}
    if status in (401, 403) and not is_busy:
        what = f"{name} rejected the credentials" if status == 401 else f"{name} refuses {asked}"
        denied = HttpAuthError(f"{what} ({status}){tail}", hint=hints["credential"], details=details)
        denied.status = status
        return denied
    is_final = status < 500 and status != 429 and not is_busy
    hint = hints["address"] if is_final else f"retry when {name} responds again"
    failed = HttpStatusError(f"{name} returned status {status} for {asked}{tail}", hint=hint, details=details)
    failed.status = status
    return failed


@dataclass(frozen=True, slots=True)
class Site:
    """The site that a client talks to. `name` and `where` (`connections.notes`) are for messages.

    `credential` and `address` are the keys of the connection to which errors refer; `is_fixed`: the base URL is not a
    setting, and `address` selects objects. `proxy`: a URL, or a mapping with
    `url`; None uses the environment. `busy`: reasons in an error response (`error_reason`) after which a retry may help
    whatever its status.
    """

    name: str
    where: str
    base_url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credential: str = "api_key"
    address: str = "base_url"
    is_fixed: bool = False
    proxy: Any = field(default=None, repr=False)
    busy: frozenset[str] = frozenset()

    @property
    def hints(self) -> Mapping[str, str]:
        """Return the hints for this site's errors."""
        return {
            "credential": Hint(
                "check `{}` and the permissions of its owner in {}",
                SettingPath(f"{self.where}.{self.credential}"),
                self.name,
            ),
            "address": Hint(
                "check `{}` and the objects that the connection selects", SettingPath(f"{self.where}.{self.address}")
            ),
        }


def open_client(site: Site, timeout: float) -> httpx2.Client:
    """Return a client for this site; `timeout` is in seconds. Raises `ConfigError` for an invalid address."""
    import httpx2

    from ktx_cli import __version__

    headers = {"User-Agent": f"ktx/{__version__}", "Accept": "application/json", "Accept-Encoding": "gzip"}
    try:
        return httpx2.Client(
            base_url=_address(site),
            headers={**headers, **sendable(site.headers, site)},
            timeout=timeout,
            proxy=_proxy(site),
            follow_redirects=False,
        )
    except (httpx2.InvalidURL, ValueError) as error:
        message = f"`{site.where}` has an address or a proxy that is not a URL: {one_line(mask(str(error)), 200)}"
        raise ConfigError(message, hint=Hint("check `{}`", SettingPath(f"{site.where}.{site.address}"))) from None


def _address(site: Site) -> str:
    """Return the base URL without user information, which would appear in logs."""
    if has_password(site.base_url):
        raise ConfigError(
            f"`{site.where}.{site.address}` contains a password",
            hint=Hint("remove it, and set the credentials in `{}`", SettingPath(f"{site.where}.{site.credential}")),
        )
    if not urlsplit(site.base_url).hostname:
        raise ValueError("it has no host")
    return site.base_url.rstrip("/")


def _proxy(site: Site) -> str | None:
    if site.proxy in (None, ""):
        return None
    url = site.proxy.get("url") if isinstance(site.proxy, Mapping) else site.proxy
    if not isinstance(url, str) or "://" not in url:
        message = f"`{site.where}.network_proxy` is not the address of a proxy"
        raise ConfigError(message, hint="use the form `http://proxy.example.com:3128`")
    if has_password(url):
        remember_secret(url)
    return url


def sendable(headers: Mapping[str, str], site: Site) -> dict[str, str]:
    """Return headers with values stripped of blanks; an HTTP error would show an invalid value."""
    stripped = {name: value.strip() for name, value in headers.items()}
    if all(value.isascii() and value.isprintable() for value in stripped.values()):
        return stripped
    message = f"`{site.where}.{site.credential}` contains a character that is not allowed in an HTTP header"
    raise ConfigError(message, hint="set the credential again, without line breaks or blanks")
