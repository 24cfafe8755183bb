"""What is taken for a gateway on this machine, and what is not."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ktx_cli.jobs.setup.detect import models as gateways
from ktx_cli.jobs.setup.detect.models import Listening, ask


@pytest.mark.table(
    ("status", "body", "found"),
    [
        (200, b'{"data": [{"id": "a"}, {"id": "b"}]}', Listening(("a", "b"))),
        (200, b'{"data": []}', Listening()),
        (200, b'{"data": [{"id": 7}, "b", {"id": "\\u001b[31m"}]}', Listening()),
        (401, b'{"error": {"message": "no key"}}', Listening(asks_for_key=True)),
        (403, b'{"error": "no"}', Listening(asks_for_key=True)),
        (401, b"<html>log in</html>", None),
        (200, b"<html>hello</html>", None),
        (200, b'{"name": "my app"}', None),
        (200, b"[]", None),
        (200, b"\xff\xfe", None),
        (404, b'{"error": "no such page"}', None),
        (302, b'{"data": []}', None),
        (500, b'{"data": []}', None),
        (200, b'{"data": ["' + b"x" * gateways.MAX_BYTES + b'"]}', None),
    ],
)
def test_what_an_answer_means(status: int, body: bytes, found: Listening | None, gateway: Any) -> None:
    gateway.status, gateway.body = status, body
    assert ask(gateway.url) == found
    assert gateway.paths[-1] == "/v1/models"


def test_no_key_is_sent(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GATEWAY_API_KEY"):
        monkeypatch.setenv(name, "sk-made-up")
    ask(gateway.url)
    assert {"authorization", "x-api-key"}.isdisjoint(gateway.headers[0])


def test_no_proxy_stands_before_loopback(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")  # the proxy of the tests answers nothing
    assert ask(gateway.url) is not None


def test_one_that_does_not_answer_in_time(silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "ANSWER_SECONDS", 0.05)
    assert ask(f"http://127.0.0.1:{silent_port}") is None


@pytest.mark.table(
    "url",
    [
        "", "no address", "http://[", "http://gateway.example.com", "https://127.0.0.1:4000", "http://10.0.0.1:4000",
        "http://127.0.0.1:9", "http://127.0.0.1:99999",
    ],
)  # fmt: skip
def test_what_is_not_asked_or_not_there(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda at, *more, **rest: (asked.append(at), connect(at, *more, **rest))[1]
    )
    assert ask(url) is None
    assert all(host == "127.0.0.1" for host, _ in asked)
