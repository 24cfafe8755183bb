"""The HTTP client of the sources: tries, waits, limits, redirects, and no secret in what it says."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.clock import now
from ktx_cli.core.errors import CancelledError, ConfigError, KtxError, SourceError
from ktx_cli.core.events import Waiting
from ktx_cli.project import secrets
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpStatusError, RetryPolicy, Site, error_text, retry_after

TOKEN = "tok-7f3a-very-secret"
Make = Callable[..., HttpClient]


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def client(web_site: Any, slept: list[float], request: pytest.FixtureRequest) -> Make:
    secrets.remember(TOKEN)

    def make(base: str = "", **options: Any) -> HttpClient:
        site = Site("Example", "connections.notes", base or web_site.url, {"Authorization": f"Bearer {TOKEN}"})
        given = {"sleep": slept.append, "uniform": lambda low, high: high, **options}
        made = HttpClient(site, **given)
        request.addfinalizer(made.close)
        return made

    return make


def test_a_request_carries_the_headers_and_the_parameters_that_have_a_value(
    client: Make, web_site: Any, reply: Any
) -> None:
    web_site.answers = lambda asked: reply({"ok": True})
    assert client(f"{web_site.url}/base/").get("/items", {"a": 1, "b": None}) == {"ok": True}
    (asked,) = web_site.asked
    assert (asked.method, asked.path, asked.query) == ("GET", "/base/items", {"a": "1"})
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["user-agent"].startswith("ktx/")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_error_is_tried_again_with_growing_delays(
    client: Make, web_site: Any, reply: Any, slept: list[float], status: int
) -> None:
    web_site.answers = lambda asked: reply([1])
    web_site.fail("/x", reply(status=status), reply(status=status))
    assert client(policy=RetryPolicy(base=0.1)).get("/x") == [1]
    assert sum(slept) == pytest.approx(0.2 + 0.4)


def test_the_tries_are_bounded(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"message": f"boom {TOKEN}"}, 500)
    with pytest.raises(HttpStatusError) as error:
        client(policy=RetryPolicy(tries=3)).post("/x", {"a": 1})
    assert len(web_site.asked) == 3
    assert error.value.message == "Example returned status 500 for POST /x: boom ***"
    assert (error.value.status, error.value.exit_code) == (500, 4)


def test_retry_after_in_seconds_is_waited_for_and_told(
    client: Make, web_site: Any, reply: Any, slept: list[float]
) -> None:
    told: list[Any] = []
    web_site.answers = lambda asked: reply({})
    web_site.fail("/x", reply(status=429, headers={"Retry-After": "7"}))
    client(emit=told.append).get("/x")
    assert sum(slept) == pytest.approx(7)
    assert told == [Waiting("Example is not ready", 7.0)]


def test_retry_after_longer_than_a_run_waits_ends_it(
    client: Make, web_site: Any, reply: Any, slept: list[float]
) -> None:
    web_site.fail("/x", reply(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(HttpStatusError) as error:
        client().get("/x")
    assert (slept, len(web_site.asked)) == ([], 1)
    assert error.value.hint == "Example asks to wait 3,600 seconds; retry after that"


@pytest.mark.table(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("1e400", None),
        ("99999999999999", None),
        ("0", 0.0),
        (" 1.5 ", 1.5),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("Thu, 99 Jan 1970 00:00:01 GMT", None),
    ],
)
def test_retry_after_is_read(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, 10.0) == seconds


@given(st.text(max_size=40), st.floats(0, 4e9))
def test_any_retry_after_is_nothing_or_a_time(value: str, at: float) -> None:
    seconds = retry_after(value, at)
    assert seconds is None or 0 <= seconds < 1e12


def test_retry_after_as_a_date_is_counted_from_now(client: Make, web_site: Any, reply: Any, slept: list[float]) -> None:
    moment = now()
    web_site.answers = lambda asked: reply({})
    web_site.fail("/x", reply(status=503, headers={"Retry-After": format_datetime(moment)}))
    client(clock=lambda: int(moment.timestamp()) - 20.0).get("/x")
    assert sum(slept) == pytest.approx(20, abs=0.01)


def test_a_cut_connection_is_tried_again(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"whole": True})
    web_site.fail("/x", reply({"whole": "x" * 100}, cut=20), reply({}, cut=0))
    assert client().get("/x") == {"whole": True}
    assert len(web_site.asked) == 3


def test_a_site_that_is_not_there_is_unreachable_and_named(client: Make) -> None:
    with pytest.raises(SourceError, match=r"cannot reach 127\.0\.0\.1 \(Example\) for GET /x") as error:
        client("http://127.0.0.1:9", policy=RetryPolicy(tries=2)).get("/x?token=hidden")
    assert error.value.exit_code == 4
    assert "hidden" not in error.value.message
    assert error.value.hint == "check `connections.notes.base_url` and the network"


def test_a_name_that_does_not_resolve_is_not_tried_again(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unknown(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SourceError, match=r"cannot reach no\.example\.com \(Example\) for GET /x"):
        client("http://no.example.com").get("/x")
    assert len(asked) == 1


@pytest.mark.parametrize(("status", "words"), [(401, "rejected the credentials"), (403, "refuses GET /x")])
def test_refused_credentials_are_not_tried_again(
    client: Make, web_site: Any, reply: Any, status: int, words: str
) -> None:
    web_site.answers = lambda asked: reply({"message": "no"}, status)
    with pytest.raises(HttpAuthError) as error:
        client().get("/x")
    assert error.value.message == f"Example {words} ({status}): no"
    assert (error.value.status, error.value.exit_code, len(web_site.asked)) == (status, 3, 1)


def test_another_error_is_not_tried_again(client: Make, web_site: Any) -> None:
    with pytest.raises(HttpStatusError, match=r"returned status 404 for GET /gone: nothing here") as error:
        client().get("/gone")
    assert (error.value.status, len(web_site.asked)) == (404, 1)


def test_a_redirect_inside_the_site_is_followed(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"at": asked.path, **asked.query})
    web_site.fail("/old", reply(status=301, headers={"Location": "/new?b=2"}))
    assert client().get("/old", {"a": 1}) == {"at": "/new", "b": "2"}


def test_a_redirect_to_another_host_is_not(client: Make, web_site: Any, reply: Any) -> None:
    web_site.fail("/x", reply(status=302, headers={"Location": web_site.url.replace("127.0.0.1", "localhost") + "/y"}))
    with pytest.raises(SourceError, match=r"redirects GET /x to http://localhost, where ktx does not send credentials"):
        client().get("/x")
    assert web_site.paths() == ["/x"]


def test_redirects_in_circles_end(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply(status=302, headers={"Location": "/x"})
    with pytest.raises(SourceError, match="in a loop"):
        client().get("/x")
    assert len(web_site.asked) == 6


def test_a_post_does_not_become_a_get(client: Make, web_site: Any, reply: Any) -> None:
    web_site.fail("/x", reply(status=302, headers={"Location": "/y"}))
    with pytest.raises(SourceError, match="in a loop"):
        client().post("/x", {})
    assert web_site.paths() == ["/x"]


def test_an_answer_has_a_largest_size_also_when_it_is_packed(client: Make, web_site: Any, reply: Any) -> None:
    packed = gzip.compress(b" " * 3_000_000)
    web_site.answers = lambda asked: reply(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(SourceError, match=r"the response from Example to GET /x is larger than 1,000,000 bytes"):
        client(max_bytes=1_000_000).get("/x")
    assert len(packed) < 10_000


def test_the_time_of_a_request_counts_from_its_first_byte(client: Make, web_site: Any, reply: Any) -> None:
    """A site that sends a byte of its headers now and then keeps to every timeout of a single read."""
    minutes = itertools.count(step=20.0)
    web_site.answers = lambda asked: reply(drips=True)
    with pytest.raises(SourceError, match=r"Example did not finish its response to GET /x within 300 seconds"):
        client(monotonic=lambda: next(minutes)).get("/x")
    assert len(web_site.asked) == 1


def test_a_run_that_is_asked_to_end_does_not_wait_for_headers(client: Make, web_site: Any, reply: Any) -> None:
    looks = itertools.count()
    web_site.answers = lambda asked: reply(drips=True)
    with pytest.raises(CancelledError):
        client(stopped=lambda: next(looks) > 5).get("/x")


def test_the_time_of_a_request_holds_through_a_proxy(web_site: Any, reply: Any) -> None:
    minutes = itertools.count(step=20.0)
    web_site.answers = lambda asked: reply(drips=True)
    site = Site("Example", "connections.notes", "http://nowhere.example", proxy=web_site.url)
    with HttpClient(site, monotonic=lambda: next(minutes)) as through, pytest.raises(SourceError, match="300 seconds"):
        through.get("/x")


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 100_000])
def test_what_is_no_json_is_an_error_of_the_site(client: Make, web_site: Any, reply: Any, body: bytes) -> None:
    web_site.answers = lambda asked: reply(body)
    with pytest.raises(SourceError, match=r"returned invalid JSON for GET /x"):
        client().get("/x")


def test_a_run_that_is_asked_to_end_does_not_wait(client: Make, web_site: Any, reply: Any, slept: list[float]) -> None:
    web_site.fail("/x", reply(status=429, headers={"Retry-After": "60"}))
    with pytest.raises(CancelledError):
        client(stopped=lambda: len(slept) >= 3).get("/x")
    assert slept == [0.25] * 3


def test_headers_can_be_changed_after_a_login(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"access_token": "second"})
    with client() as open_client:
        token = json.loads(open_client.send("POST", "/login", form={"client_id": "a b"}).content)["access_token"]
        open_client.use_headers({"Authorization": f"Bearer {token}"})
        open_client.get("/x")
    assert web_site.asked[0].body == "client_id=a+b"
    assert web_site.asked[1].headers["authorization"] == "Bearer second"


@pytest.mark.table(
    "site",
    [
        Site("Example", "connections.notes", "https://user:password-9@example.com"),
        Site("Example", "connections.notes", "https://example.com", {"X-Key": "password-9\nX-Other: 1"}),
        Site("Example", "connections.notes", "https://example.com", {"X-Key": "password-9é"}),
        Site("Example", "connections.notes", "https://[password-9", {}),
        Site("Example", "connections.notes", "https://example.com", proxy={"host": "password-9"}),
        Site("Example", "connections.notes", "https://example.com", proxy="password-9:80"),
    ],
)
def test_a_wrong_setting_is_named_without_its_value(site: Site) -> None:
    secrets.remember("password-9")
    with pytest.raises(ConfigError, match=r"connections\.notes") as error:
        HttpClient(site)
    assert "password-9" not in f"{error.value.message}{error.value.hint}{site!r}"


def test_the_connection_s_proxy_is_asked(client: Make, web_site: Any, reply: Any) -> None:
    web_site.answers = lambda asked: reply({"via": asked.headers["host"]})
    site = Site("Example", "connections.notes", "http://nowhere.example", proxy=web_site.url)
    with HttpClient(site) as through:
        assert through.get("/x") == {"via": "nowhere.example"}


@pytest.mark.table(
    ("body", "said"),
    [
        (b"", ""),
        (b"<html>long page</html>", ""),
        (b"plain\n words", "plain words"),
        (b'{"message": "m", "error": "e"}', "m"),
        (b'{"error": {"message": "inner"}}', "inner"),
        (b'{"errors": [{"title": "first"}, {"title": "second"}]}', "first"),
        (b'{"other": 1}', ""),
        (b"[]", ""),
        (b"x" * 1000, "x" * 199 + "…"),
    ],
)
def test_what_an_error_says(body: bytes, said: str) -> None:
    assert error_text(body) == said


def test_every_error_is_one_of_ours_and_has_a_hint(client: Make, web_site: Any, reply: Any) -> None:
    for status in (400, 401, 403, 404, 409, 418, 429, 500, 599):
        web_site.answers = lambda asked, status=status: reply({}, status)
        with pytest.raises(KtxError) as error:
            client(policy=RetryPolicy(tries=1)).get("/x")
        assert error.value.hint


def test_a_token_of_a_login_is_a_secret(client: Make, web_site: Any, reply: Any) -> None:
    """A site may say what it was sent."""
    given = "session-token-5150"
    web_site.answers = lambda asked: reply({"message": f"you sent {asked.headers['authorization']}"}, 400)
    open_client = client()
    open_client.use_headers({"Authorization": f"token {given}"})
    with pytest.raises(HttpStatusError) as caught:
        open_client.get("/items")
    assert given not in str(caught.value)
    assert "you sent" in str(caught.value)
