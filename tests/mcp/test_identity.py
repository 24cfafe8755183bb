"""Access tokens: which are accepted, what their claims become, and what the server asks of their issuer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest

from ktx_cli.core import UsageError
from ktx_cli.jobs.serve.audit import audit_lines
from ktx_cli.jobs.serve.state import ServedFolder, ServerSettings, required_token
from ktx_cli.mcp import identity
from ktx_cli.mcp.http import Load, Served, Sessions
from ktx_cli.mcp.identity import InvalidTokenError, KeysUnavailableError, SigningKeys, TokenVerifier, attributes_of
from ktx_cli.mcp.server import AT_ONCE, AT_ONCE_OF_ONE
from ktx_cli.mcp.tool import LOGGED, Call
from ktx_cli.mcp.tools.query import sl_query
from ktx_cli.project import Identity
from ktx_cli.project.layout import Layout
from tests.cli.mcp_agents import stdio
from tests.mcp.conftest import CONFIG
from tests.mcp.issuer import RESOURCE, Issuer, Key, issuing, settings
from tests.mcp.test_http import serving
from tests.mcp.wire import Wire, ktx, made, started

NOTES = {"measures": ["staff.people"], "dimensions": ["staff.note"]}
OTHER = Key.rsa("first")
STRONG = "the-static-token-of-this-server"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@contextmanager
def protected(
    folder: Path, issuer: Issuer, more: str = "", agents: str = "", token: str | None = None
) -> Iterator[Wire]:
    """Serve the small company to whoever has a token of the issuer."""
    text = CONFIG + settings(issuer, more, agents)
    with serving(folder, Load(), config=text, token=token) as wire:
        yield wire


def as_(wire: Wire, token: str | None) -> Wire:
    """Return a client with a token."""
    return Wire(wire.port, token=token)


def opened(wire: Wire, token: str) -> Wire:
    """Return a client with a token and a session."""
    client = as_(wire, token)
    assert client.initialize().status == 200
    return client


def rows(client: Wire, query: dict[str, Any] = NOTES) -> Any:
    status, error, text = client.call("sl_query", query)
    return json.loads(text)["rows"] if status == 200 and error is None else error


def part(data: Any) -> str:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def unsigned(issuer: Issuer) -> str:
    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': 'first'})}.{part(issuer.claims())}."


def signed_with_public_key(issuer: Issuer, secret: bytes | None = None) -> str:
    body = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'first'})}.{part(issuer.claims())}"
    return f"{body}.{part(hmac.new(secret or issuer.keys[0].pem, body.encode(), hashlib.sha256).digest())}"


def swapped(issuer: Issuer) -> str:
    """Return a token whose claims were changed after it was signed."""
    head, _, signature = issuer.token().split(".")
    return f"{head}.{part(issuer.claims(region='US'))}.{signature}"


Make = Callable[[Issuer], str]

REFUSED: dict[str, Make] = {
    "expired": lambda it: it.token(exp=int(time.time()) - 60),
    "not yet valid": lambda it: it.token(nbf=int(time.time()) + 600),
    "issued in the future": lambda it: it.token(iat=int(time.time()) + 600),
    "without expiry": lambda it: it.token(exp=None),
    "expiry is text": lambda it: it.token(exp="tomorrow"),
    "expiry is infinite": lambda it: it.token(exp=float("inf")),
    "wrong audience": lambda it: it.token(aud="https://other.example.com/mcp"),
    "part of the audience": lambda it: it.token(aud=RESOURCE[:-1]),
    "no audience": lambda it: it.token(aud=None),
    "empty audience": lambda it: it.token(aud=[]),
    "wrong issuer": lambda it: it.token(iss="https://login.example.com"),
    "issuer with a slash more": lambda it: it.token(iss=f"{it.url}/"),
    "no subject": lambda it: it.token(sub=None),
    "empty subject": lambda it: it.token(sub=""),
    "subject too long": lambda it: it.token(sub="x" * 400),
    "client is a list": lambda it: it.token(azp=["desktop"]),
    "client is empty": lambda it: it.token(client_id="", azp="desktop"),
    "claims that name two clients": lambda it: it.token(client_id="limited", azp="desktop"),
    "claims of another product that name two clients": lambda it: it.token(azp=None, cid="desktop", appid="limited"),
    "actor without a name": lambda it: it.token(act={"name": "desktop"}),
    "actor is text": lambda it: it.token(act="desktop"),
    "unsigned": unsigned,
    "HS256 with the public key": signed_with_public_key,
    "HS256 with nothing": lambda it: signed_with_public_key(it, b"x"),
    "key of somebody else": lambda it: it.token(OTHER),
    "unknown key": lambda it: it.token(headers={"kid": "second"}),
    "key id is a path": lambda it: it.token(headers={"kid": "../../keys"}),
    "key id is a URL": lambda it: it.token(headers={"kid": "http://127.0.0.1:1/keys"}),
    "key id is SQL": lambda it: it.token(headers={"kid": "first' OR '1'='1"}),
    "key in the header": lambda it: it.token(OTHER, {"jwk": OTHER.jwk, "kid": "x"}),
    "key set in the header": lambda it: it.token(OTHER, {"jku": "http://127.0.0.1:1/keys", "kid": "x"}),
    "critical header": lambda it: it.token(headers={"crit": ["exp"]}),
    "another type": lambda it: it.token(headers={"typ": "dpop+jwt"}),
    "an ID token's logout": lambda it: it.token(headers={"typ": "logout+jwt"}),
    "an ID token": lambda it: it.token(headers={"typ": "JWT"}, scope=None),
    "an ID token with a nonce": lambda it: it.token(headers={"typ": "JWT"}, nonce="n"),
    "an ID token with a hash": lambda it: it.token(headers={"typ": None}, at_hash="h"),
    "an ID token of Keycloak": lambda it: it.token(headers={"typ": "JWT"}, typ="ID"),
    "a refresh token of Keycloak": lambda it: it.token(headers={"typ": "JWT"}, typ="Refresh"),
    "an ID token of Cognito": lambda it: it.token(headers={"typ": "JWT"}, token_use="id"),
    "claims changed": swapped,
    "truncated": lambda it: it.token()[:-10],
    "without a signature": lambda it: it.token().rpartition(".")[0] + ".",
    "two parts": lambda it: it.token().rpartition(".")[0],
    "five parts": lambda it: it.token() + ".x.y",
    "claims are a list": lambda it: jwt.PyJWS().encode(b"[]", it.keys[0].private, "RS256", {"kid": "first"}),
    "nested without end": lambda it: jwt.PyJWS().encode(b"[" * 9000, it.keys[0].private, "RS256", {"kid": "first"}),
    "not a token": lambda it: "abc",
    "a word": lambda it: "null",
    "too long": lambda it: it.token(note="x" * 9_000),
    "several values of an attribute": lambda it: it.token(region=["EU", "US"]),
    "attribute is an object": lambda it: it.token(region={"$ne": None}),
}


@pytest.fixture(scope="module")
def server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with protected(tmp_path_factory.mktemp("company"), issuer, token=STRONG) as wire:
        yield wire


@pytest.mark.table("name", list(REFUSED))
def test_a_token_that_is_not_right_is_refused(server: Wire, issuer: Issuer, name: str) -> None:
    got = as_(server, REFUSED[name](issuer)).initialize()
    assert got.status == 401, (name, got.body)
    challenge = got.headers["www-authenticate"]
    assert 'error="invalid_token"' in challenge
    assert 'resource_metadata="https://ktx.example.com/.well-known/oauth-protected-resource/mcp"' in challenge
    assert b"ada" not in got.body


def test_a_right_token_says_who_asks(server: Wire, issuer: Issuer) -> None:
    assert rows(opened(server, issuer.token())) == [["quiet", 1]]
    assert rows(opened(server, issuer.token(sub="bo", region="US"))) == [["loud", 1]]
    assert rows(opened(server, issuer.token(region=["US"]))) == [["loud", 1]], "one value in a list"
    lacking = rows(opened(server, issuer.token(region=None)))
    assert lacking["code"] == "policy" and "serving.identity.attributes.region" in lacking["hint"]
    assert rows(opened(server, issuer.token(scope=None, scp=["ktx:read"]))) == [["quiet", 1]]
    assert rows(opened(server, issuer.token(aud=["https://x.example", RESOURCE]))) == [["quiet", 1]]


ACCESS_TOKENS: dict[str, dict[str, Any]] = {
    "RFC 9068": {"headers": {"typ": "application/at+jwt"}, "scope": None, "client_id": "desktop", "nonce": "n"},
    "Entra ID, of a person": {"scope": None, "scp": "ktx:read", "azpacr": "1", "ver": "2.0", "roles": ["Reader"]},
    "Entra ID, of an application": {"scope": None, "azpacr": "1", "ver": "2.0", "roles": ["Reader"]},
    "Entra ID, version 1": {"scope": None, "azp": None, "appid": "desktop", "appidacr": "1"},
    "Okta": {"scope": None, "azp": None, "cid": "desktop", "scp": ["ktx:read"]},
    "Auth0": {"scope": "ktx:read", "gty": "client-credentials"},
    "Auth0 with roles": {"scope": None, "permissions": ["ktx:read"]},
    "Keycloak": {"typ": "Bearer", "scope": "", "sid": "1"},
    "an old Keycloak": {"typ": "Bearer", "scope": "ktx:read", "nonce": "n"},
    "Cognito": {"scope": None, "azp": None, "token_use": "access", "client_id": "desktop"},
}


@pytest.mark.table("product", list(ACCESS_TOKENS))
def test_access_tokens_of_many_products_are_accepted(issuer: Issuer, product: str) -> None:
    verifier = TokenVerifier(Identity(issuer=issuer.url, resource=RESOURCE))
    assert checked(verifier, issuer.token(**{"headers": {"typ": "JWT"}, **ACCESS_TOKENS[product]})) == "ok"


def test_keys_of_each_kind(issuer: Issuer, server: Wire) -> None:
    for key in (Key.elliptic(), Key.edwards()):
        verifier = TokenVerifier(Identity(issuer=issuer.url, resource=RESOURCE))
        issuer.keys.append(key)
        try:
            token = anyio.run(verifier.checked, issuer.token(key))
        finally:
            issuer.keys.remove(key)
        assert token.subject == "ada" and token.token == ""


@pytest.mark.table(
    "hostile",
    ["EU' OR '1'='1", "EU'; DROP TABLE staff; --", "{{ user.id }}", "EU\x00", "' UNION SELECT note FROM staff --", "%"],
)
def test_a_claim_is_a_value_and_never_sql(server: Wire, issuer: Issuer, hostile: str) -> None:
    client = opened(server, issuer.token(region=hostile))
    assert rows(client) == [] or rows(client)["code"] != "internal"
    assert "loud" not in client.call("sl_query", NOTES)[2] and "quiet" not in client.call("sl_query", NOTES)[2]
    assert rows(opened(server, issuer.token())) == [["quiet", 1]]


@pytest.mark.table(
    "scopes",
    [
        {"ktx:read": True},
        "ktx:readx xktx:read",
        "KTX:READ",
        "x\u00a0ktx:read",
        "x\tktx:read",
        ["x ktx:read"],
        [["ktx:read"]],
    ],
)
def test_a_scope_is_a_whole_word_between_spaces(server: Wire, issuer: Issuer, scopes: Any) -> None:
    """Nobody gets a scope by a name that they could register for another one."""
    assert as_(server, issuer.token(scope=scopes)).initialize().status == 403


ODD: dict[str, dict[str, Any]] = {
    "number of the key": {"kid": 1},
    "object as the key": {"kid": {"first": 1}},
    "list of algorithms": {"alg": ["RS256"]},
    "algorithm in lower case": {"alg": "rs256"},
    "algorithm of a curve": {"alg": "ES256"},
    "algorithm of Edwards": {"alg": "EdDSA"},
    "another padding": {"alg": "PS256"},
    "none in capitals": {"alg": "NONE"},
}


@pytest.mark.table("name", list(ODD))
def test_a_header_never_chooses_how_a_signature_is_checked(server: Wire, issuer: Issuer, name: str) -> None:
    """Signatures of zeros are valid where ECDSA is checked carelessly."""
    head = part({"alg": "RS256", "typ": "at+jwt", "kid": "first", **ODD[name]})
    for signature in (bytes(64), bytes(256), issuer.token().rpartition(".")[2].encode()):
        token = f"{head}.{part(issuer.claims())}.{part(signature)}"
        assert as_(server, token).initialize().status == 401


def test_a_session_belongs_to_the_one_who_opened_it(server: Wire, issuer: Issuer) -> None:
    ada = opened(server, issuer.token())
    for changed in ({"sub": "bo", "region": "US"}, {"azp": "other"}, {"act": {"sub": "desktop"}}):
        thief = Wire(server.port, token=issuer.token(**changed), session=ada.session)
        assert thief.ask("tools/list", {}).status == 404
        assert thief.send("DELETE").status == thief.send("GET").status == 404
        assert thief.send("GET", headers={"Last-Event-ID": "1"}).status == 404
    static = Wire(server.port, token=STRONG, session=ada.session)
    assert static.ask("tools/list", {}).status == 404
    assert ada.ask("tools/list", {}).status == 200
    local = opened(server, STRONG)
    assert Wire(server.port, token=issuer.token(), session=local.session).ask("tools/list", {}).status == 404


def test_one_caller_cannot_end_the_sessions_of_another(tmp_path: Path, issuer: Issuer) -> None:
    def few(served: Served) -> None:
        served.sessions = Sessions(served.project.server, most=4)

    with serving(tmp_path, Load(), few, config=CONFIG + settings(issuer)) as wire:
        ada = opened(wire, issuer.token())
        flood = [opened(wire, issuer.token(sub="bo")) for _ in range(8)]
        assert ada.ask("tools/list", {}).status == 200
        assert [each.ask("tools/list", {}).status for each in flood] == [404] * 5 + [200] * 3


def test_one_caller_cannot_take_the_places_of_another(tmp_path: Path, issuer: Issuer) -> None:
    """Whatever agents they use, and as soon as a request ends, there is a place again."""
    with serving(tmp_path, Load(most=5, most_of_one=3), config=CONFIG + settings(issuer)) as wire, ExitStack() as stack:
        flood = []
        for agent in ("a", "b", "c"):
            token = issuer.token(sub="bo", azp=agent)
            head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            flood.append(stack.enter_context(socket.create_connection(("127.0.0.1", wire.port))))
            flood[-1].sendall(f"{head}Content-Length: 9\r\n\r\n".encode())
        bo = as_(wire, issuer.token(sub="bo"))
        until = time.monotonic() + 30
        while (got := bo.initialize()).status == 200 and time.monotonic() < until:
            bo.session = None
        assert (got.status, got.reason) == (503, "load")
        assert opened(wire, issuer.token()).ask("tools/list", {}).status == 200
        for each in flood:
            each.close()
        while bo.initialize().status == 503 and time.monotonic() < until:
            time.sleep(0.05)
        assert bo.ask("tools/list", {}).status == 200


def test_slow_calls_of_one_person_leave_turns_to_others(tmp_path: Path, issuer: Issuer) -> None:
    """Whatever agents they use, and all of them are answered in the end."""
    finish, running = threading.Event(), threading.Semaphore(0)

    def slow(call: Call, value: Any) -> Any:
        if call.identity.subject == "bo":
            running.release()
            assert finish.wait(30)
        return sl_query.run(call, value)

    def change(served: Served) -> None:
        served.project._tools = {"sl_query": replace(sl_query, run=slow)}

    with serving(tmp_path, Load(), change, config=CONFIG + settings(issuer)) as wire, ThreadPoolExecutor(20) as pool:
        clients = [opened(wire, issuer.token(sub="bo", azp=agent)) for agent in ("a", "b") * AT_ONCE]
        try:
            answers = [pool.submit(rows, client) for client in clients]
            for _ in range(AT_ONCE_OF_ONE):
                assert running.acquire(timeout=30)
            ada = pool.submit(rows, opened(wire, issuer.token(sub="ada")))
            assert ada.result(timeout=20) == [["quiet", 1]]
            assert not running.acquire(timeout=0.2), "no more calls of the same person run"
        finally:
            finish.set()
        assert [each.result(timeout=30) for each in answers] == [[["quiet", 1]]] * len(clients)


def test_each_request_is_answered_by_its_own_token(server: Wire, issuer: Issuer) -> None:
    """A refreshed token replaces the attributes at once, and an expired one ends the session's answers."""
    client = opened(server, issuer.token(region="EU"))
    assert rows(client) == [["quiet", 1]]
    client.token = issuer.token(region="US")
    assert rows(client) == [["loud", 1]]
    client.token = issuer.token(exp=int(time.time()) - 60)
    assert client.ask("tools/list", {}).status == 401


def test_requests_without_a_session(server: Wire, issuer: Issuer) -> None:
    """The protocol of 2026-07-28 has no sessions: each request is its caller's."""
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    for region, expected in (("EU", [["quiet", 1]]), ("US", [["loud", 1]])):
        params = {"name": "sl_query", "arguments": NOTES, "_meta": meta}
        got = as_(server, issuer.token(region=region)).send(
            body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers={"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "sl_query"},
        )
        assert got.status == 200, got.body
        assert json.loads(got.message["result"]["content"][0]["text"])["rows"] == expected
    memory = {"name": "memory_ingest", "arguments": {"content": "x"}, "_meta": meta}
    got = as_(server, issuer.token(scope="ktx:read")).send(
        body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": memory},
        headers={"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "sl_query"},
    )
    assert got.status == 403


def test_where_a_token_may_stand(server: Wire, issuer: Issuer) -> None:
    token = issuer.token()
    assert as_(server, None).initialize().status == 401
    assert "error=" not in as_(server, None).initialize().headers["www-authenticate"]
    for path in (f"/mcp?access_token={token}", f"/mcp?token={token}"):
        assert as_(server, None).send("POST", path, body={}).status == 401
    for value in (token, f"Basic {token}", f"Bearer  {token} x", "Bearer", f"Bearer {token}, Bearer {token}"):
        assert as_(server, None).initialize(Authorization=value).status == 401, value
    assert twice(server.port, token, issuer.token(sub="bo")) == 401
    assert twice(server.port, token, token) == 401
    assert as_(server, None).initialize(Authorization=f"bearer {token}").status == 200


def twice(port: int, first: str, second: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("POST", "/mcp")
    for token in (first, second):
        connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Length", "2")
    connection.endheaders(b"{}")
    status = connection.getresponse().status
    connection.close()
    return status


def test_scopes(server: Wire, issuer: Issuer) -> None:
    got = as_(server, issuer.token(scope="other")).initialize()
    assert got.status == 403 and got.reason == "scope"
    assert 'error="insufficient_scope", scope="ktx:read"' in got.headers["www-authenticate"]
    reader = opened(server, issuer.token(scope="ktx:read"))
    memory = {"name": "memory_ingest", "arguments": {"content": "Refunds are money."}}
    got = reader.ask("tools/call", memory)
    assert got.status == 403 and 'scope="ktx:read ktx:write"' in got.headers["www-authenticate"]
    assert rows(reader) == [["quiet", 1]], "other calls are served"
    assert reader.ask("tools/call", {"name": "context_status", "arguments": {}}).status == 200
    writer = opened(server, issuer.token())
    assert writer.call("memory_ingest", memory["arguments"])[1]["code"] == "no_backend"  # type: ignore[index]


def test_a_body_that_does_not_arrive_from_a_caller_who_may_not_write(tmp_path: Path, issuer: Issuer) -> None:
    token = issuer.token(scope="ktx:read")
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\n{{"
    config = CONFIG + settings(issuer)
    with (
        serving(tmp_path, Load(body_seconds=0.1), config=config) as wire,
        socket.create_connection(("127.0.0.1", wire.port)) as slow,
    ):
        slow.sendall(head.encode())
        slow.settimeout(30)
        assert slow.makefile("rb").read().startswith(b"HTTP/1.1 408 ")
    (line,) = audit_lines(Layout(tmp_path))
    assert (line["refused"], line["subject"]) == ("slow", "ada")


def test_the_metadata_names_the_issuer(server: Wire, issuer: Issuer) -> None:
    got = Wire(server.port).send("GET", "/.well-known/oauth-protected-resource/mcp")
    found = json.loads(got.body)
    assert got.status == 200 and found["resource"] == RESOURCE
    assert found["authorization_servers"] == [issuer.url]
    assert found["scopes_supported"] == ["ktx:read", "ktx:write"] and found["bearer_methods_supported"] == ["header"]


def test_each_project_of_a_server_has_its_own_audience(tmp_path: Path, issuer: Issuer) -> None:
    for name, resource in (("sales", RESOURCE), ("hr", "https://ktx.example.com/mcp/hr")):
        made(tmp_path / name).write("ktx.yaml", CONFIG + settings(issuer).replace(RESOURCE, resource))
    sales, hr = str(tmp_path / "sales"), str(tmp_path / "hr")
    with started(tmp_path / "sales", "--projects", sales, hr) as wire:
        for audience, statuses in ((RESOURCE, [200, 401]), ("https://ktx.example.com/mcp/hr", [401, 200])):
            token = issuer.token(aud=audience)
            found = [Wire(wire.port, path, token).initialize().status for path in ("/mcp/sales", "/mcp/hr")]
            assert found == statuses
        names = ("", "/mcp", "/mcp/hr", "/mcp/sales")
        found = [wire.send("GET", f"/.well-known/oauth-protected-resource{name}").status for name in names]
        assert found == [200] * 4


def test_the_static_token_is_for_this_machine(tmp_path: Path, issuer: Issuer, server: Wire) -> None:
    local = opened(server, STRONG)
    assert rows(local)["code"] == "policy", "nobody said who asks"
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer), token=STRONG, host="0.0.0.0") as wire:
        assert as_(wire, STRONG).initialize().status == 401
        assert as_(wire, issuer.token()).initialize().status == 200


def test_options_and_ktx_yaml_add_nothing_to_a_token(tmp_path: Path, issuer: Issuer) -> None:
    text = CONFIG + settings(issuer) + "mcp: {user_attributes: {region: US, id: bo}}\n"
    with serving(tmp_path, Load(), config=text, token=STRONG, attributes={"region": "US"}) as wire:
        assert rows(opened(wire, STRONG)) == [["loud", 1]]
        assert rows(opened(wire, issuer.token())) == [["quiet", 1]]
        assert rows(opened(wire, issuer.token(region=None)))["code"] == "policy"
        ada, bo = {"key": "refunds", "user": "ada"}, {"key": "refunds", "user": "bo"}
        client = opened(wire, issuer.token())
        assert client.call("wiki_read", ada)[1] is None and client.call("wiki_read", bo)[1] is not None


def test_without_an_id_no_user_is_named(tmp_path: Path, issuer: Issuer) -> None:
    text = CONFIG + settings(issuer).replace("id: sub, ", "")
    with serving(tmp_path, Load(), config=text) as wire:
        error = opened(wire, issuer.token()).call("wiki_read", {"key": "refunds", "user": "ada"})[1]
        assert error is not None and error["code"] == "usage"


def test_settings_change_while_the_server_runs(tmp_path: Path, issuer: Issuer) -> None:
    config = tmp_path / "ktx.yaml"
    with protected(tmp_path, issuer) as wire:
        assert as_(wire, issuer.token()).initialize().status == 200
        config.write_text(CONFIG + settings(issuer, 'audience: "api://ktx"'))
        assert as_(wire, issuer.token()).initialize().status == 401
        assert as_(wire, issuer.token(aud="api://ktx")).initialize().status == 200
        config.write_text(CONFIG + settings(issuer).replace(issuer.url, "https://login.example.com/data"))
        metadata = "/.well-known/oauth-protected-resource"
        for path in (metadata, f"{metadata}/mcp"):
            found = json.loads(as_(wire, None).send("GET", path).body)
            assert found["authorization_servers"] == ["https://login.example.com/data"]
        config.write_text(CONFIG)
        got = as_(wire, issuer.token()).initialize()
        assert (got.status, got.reason) == (503, "config"), "it never becomes open"
        assert as_(wire, None).initialize().status == 503
        config.write_text("connections: [")
        assert [as_(wire, issuer.token()).initialize().status for _ in range(3)] == [503] * 3


@pytest.mark.parametrize("broken", ["settings", "keys"])
def test_the_log_says_why_nobody_is_let_in_and_is_not_filled(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGED._at.clear()
    with issuing() as issuer, protected(tmp_path, issuer) as wire:
        if broken == "settings":
            assert as_(wire, issuer.token()).initialize().status == 200
            (tmp_path / "ktx.yaml").write_text("connections: [")
        else:
            issuer.status = 500
        assert {as_(wire, issuer.token()).initialize().status for _ in range(9)} == {503}
    said = {"settings": "the settings cannot be read", "keys": "access tokens cannot be checked"}[broken]
    assert 1 <= len([each for each in caplog.messages if said in each]) <= 2


# -- the issuer's keys ---------------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def keys_of(issuer: Issuer, **more: Any) -> SigningKeys:
    jwks = {"jwks_url": f"http://127.0.0.1:{issuer.port}/keys", **more}
    return SigningKeys(Identity(issuer=issuer.url, resource=RESOURCE, **jwks))


def checked(verifier: TokenVerifier, token: str) -> str:
    """Return the reason why a token is refused, or `ok`."""
    try:
        anyio.run(verifier.checked, token)
    except (InvalidTokenError, KeysUnavailableError) as error:
        return getattr(error, "reason", "unavailable")
    return "ok"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def verifier_of(issuer: Issuer) -> tuple[TokenVerifier, Clock]:
    clock = Clock()
    verifier = TokenVerifier(Identity(issuer=issuer.url, resource=RESOURCE))
    verifier.keys.clock = clock
    return verifier, clock


def test_a_replaced_key_stops_working(fresh: Issuer) -> None:
    verifier, clock = verifier_of(fresh)
    old = fresh.token()
    assert checked(verifier, old) == "ok"
    second = Key.rsa("second")
    fresh.keys = [second]
    clock.now += identity.AGAIN_SECONDS
    assert checked(verifier, fresh.token()) == "ok", "its key is fetched"
    assert checked(verifier, old) == "unknown_key"
    same = Key.rsa("second")
    fresh.keys = [same]
    clock.now += identity.AGAIN_SECONDS
    assert checked(verifier, fresh.token()) == "ok", "another key under the same id"
    assert checked(verifier, fresh.token(second)) == "signature"


SHORT = Key.rsa("same", bits=1024)
SHARED_ID = {
    "two of one kind": lambda: [Key.rsa("same"), Key.rsa("same")],
    "of different kinds": lambda: [Key.elliptic("same"), Key.rsa("same"), Key.edwards("same")],
    "one is too short": lambda: [SHORT, Key.rsa("same")],
}


@pytest.mark.parametrize("name", SHARED_ID)
def test_keys_that_share_an_id_are_all_tried(fresh: Issuer, name: str) -> None:
    verifier, _ = verifier_of(fresh)
    fresh.keys = SHARED_ID[name]()
    fresh.more = [
        {**OTHER.jwk, "kid": "same", "alg": "PS256"},
        {"kty": "RSA", "kid": "same", "n": "!", "e": "AQAB"},
        {**OTHER.jwk, "kid": "same", "use": "enc"},
    ]
    for key in fresh.keys:
        if key is not SHORT:
            assert checked(verifier, fresh.token(key)) == "ok"
    expired = fresh.token(fresh.keys[-1], exp=int(time.time()) - 600)
    asked = len(fresh.asked)
    assert checked(verifier, expired) == "expired" and len(fresh.asked) == asked, "its signature is right"
    assert checked(verifier, fresh.token(OTHER, {"kid": "same"})) == "signature", "it is listed for another algorithm"


def test_a_key_of_another_kind_under_a_known_id_is_fetched(fresh: Issuer) -> None:
    verifier, clock = verifier_of(fresh)
    fresh.keys = [Key.rsa("same")]
    assert checked(verifier, fresh.token()) == "ok"
    elliptic = Key.elliptic("same")
    for keys in ([*fresh.keys, elliptic], [Key.edwards("same")]):
        asked = len(fresh.asked)
        fresh.keys = keys
        assert checked(verifier, fresh.token(keys[-1])) == "malformed" and len(fresh.asked) == asked, "fetched just now"
        clock.now += identity.AGAIN_SECONDS
        assert checked(verifier, fresh.token(keys[-1])) == "ok"
    assert checked(verifier, fresh.token(elliptic)) == "malformed"


def test_a_key_whose_algorithm_is_null_fits_those_of_its_kind(fresh: Issuer) -> None:
    verifier, _ = verifier_of(fresh)
    known = Key.elliptic("known")
    fresh.more = [{**known.jwk, "alg": None}]
    assert checked(verifier, fresh.token(known)) == "ok"


def test_a_replaced_key_stops_working_even_if_nobody_uses_the_new_one(fresh: Issuer) -> None:
    verifier, clock = verifier_of(fresh)
    old = fresh.token()
    assert checked(verifier, old) == "ok"
    fresh.keys = [Key.rsa("second")]
    clock.now += identity.KEYS_SECONDS
    assert checked(verifier, old) == "unknown_key"


def test_tokens_of_unknown_keys_cause_few_fetches(fresh: Issuer) -> None:
    verifier, clock = verifier_of(fresh)
    assert checked(verifier, fresh.token()) == "ok"
    before = len(fresh.asked)
    for number in range(200):
        assert checked(verifier, fresh.token(headers={"kid": f"unknown-{number}"})) == "unknown_key"
        assert checked(verifier, fresh.token(OTHER)) == "signature"
    assert len(fresh.asked) == before
    clock.now += identity.AGAIN_SECONDS
    for _ in range(50):
        assert checked(verifier, fresh.token(headers={"kid": "unknown"})) == "unknown_key"
    assert fresh.asked[before:].count("/keys") == 1


def test_requests_without_a_valid_token_cause_one_fetch(fresh: Issuer, tmp_path: Path) -> None:
    """Of a server that has no keys yet, however many tokens somebody makes up; none for what cannot be a token."""
    never = ("unsigned", "HS256 with the public key", "critical header", "another type", "not a token", "too long")
    with protected(tmp_path, fresh) as wire, ThreadPoolExecutor(8) as pool:

        def statuses(tokens: list[str | None]) -> set[int]:
            return set(pool.map(lambda token: as_(wire, token).initialize().status, tokens))

        assert statuses([None, *(REFUSED[name](fresh) for name in never)]) == {401}
        assert fresh.asked == []
        unknown = [fresh.token(headers={"kid": f"made-up-{number}"}) for number in range(40)]
        assert statuses([*unknown, *(make(fresh) for make in REFUSED.values())]) == {401}
        assert fresh.asked.count("/keys") == 1 and len(fresh.asked) == 2, fresh.asked
        assert as_(wire, fresh.token()).initialize().status == 200


@pytest.mark.table(
    "change",
    [
        {"status": 500},
        {"status": 302, "location": "http://127.0.0.1:1/keys"},
        {"body": b" " * 10_000_000},
        {"body": b"{"},
        {"body": b"[]"},
        {"body": b'{"keys": []}'},
        {"body": b'{"keys": "first"}'},
        {"body": b"[" * 200_000},
        {"drip_seconds": 0.05},
    ],
)
def test_keys_that_cannot_be_had_let_nobody_in(
    fresh: Issuer, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "FETCH_SECONDS", 0.3 if "drip_seconds" in change else 5.0)
    verifier, clock = verifier_of(fresh)
    good = fresh.token()
    assert checked(verifier, good) == "ok" or "drip_seconds" in change
    for name, value in change.items():
        setattr(fresh, name, value)
    clock.now += identity.KEYS_SECONDS
    before = len(fresh.asked)
    started = time.monotonic()
    assert [checked(verifier, good) for _ in range(20)] == ["unavailable"] * 20
    assert time.monotonic() - started < 3.0
    assert fresh.asked[before:].count("/keys") <= 1, "no attempt for each request"
    fresh.status, fresh.body, fresh.location, fresh.drip_seconds = 200, None, None, 0.0
    clock.now += identity.FAILED_SECONDS
    assert checked(verifier, good) == "ok"


def test_secret_and_foreign_keys_in_a_set_are_not_used(fresh: Issuer) -> None:
    verifier, _ = verifier_of(fresh)
    secret = b"0123456789abcdef0123456789abcdef"
    fresh.more = [
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(secret).decode()},
        {**OTHER.jwk, "kid": "encryption", "use": "enc"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kid": "nothing"},
        Key.rsa("short", bits=1024).jwk,
    ]
    assert checked(verifier, fresh.token()) == "ok"
    hmac_token = jwt.encode(fresh.claims(), secret, algorithm="HS256", headers={"kid": "shared"})
    assert checked(verifier, hmac_token) == "algorithm"
    assert checked(verifier, fresh.token(OTHER, {"kid": "encryption"})) == "unknown_key"
    assert checked(verifier, fresh.token(headers={"kid": "broken"})) == "malformed"
    assert checked(verifier, fresh.token(headers={"kid": "nothing"})) == "unknown_key"


def test_the_metadata_of_the_issuer(fresh: Issuer) -> None:
    verifier, _ = verifier_of(fresh)
    fresh.openid_only = True
    assert checked(verifier, fresh.token()) == "ok"
    for metadata in (
        {"issuer": "https://elsewhere.example.com", "jwks_uri": f"http://127.0.0.1:{fresh.port}/keys"},
        {"issuer": fresh.url, "jwks_uri": "http://keys.example.com/keys"},
        {"issuer": fresh.url, "jwks_uri": "file:///etc/passwd"},
        {"issuer": fresh.url},
    ):
        fresh.metadata = metadata
        assert checked(verifier_of(fresh)[0], fresh.token()) == "unavailable", metadata


def test_a_slow_issuer_does_not_hold_up_others(fresh: Issuer, tmp_path: Path) -> None:
    with protected(tmp_path, fresh, token=STRONG) as wire:
        fresh.drip_seconds = 0.02
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(lambda: as_(wire, fresh.token()).initialize().status) for _ in range(6)]
            time.sleep(0.3)
            started = time.monotonic()
            assert as_(wire, STRONG).initialize().status == 200
            assert Wire(wire.port).send("GET", "/health").status == 200
            assert time.monotonic() - started < 2.0
            assert not any(each.done() for each in waiting)
            assert {each.result() for each in waiting} <= {200, 503}
        fresh.drip_seconds = 0.0


def test_attributes_by_dotted_claims() -> None:
    claims = {"sub": "ada", "department": {"region": "EU"}, "https://x.example/level": 3, "a.b": "c", "on": True}
    chosen = {"region": "department.region", "level": "https://x.example/level", "word": "a.b", "on": "on", "no": "x.y"}
    mapped = Identity(issuer="https://a.example", resource=RESOURCE, attributes=chosen)
    assert attributes_of(mapped, claims) == {"region": "EU", "level": 3, "word": "c", "on": True}


def test_the_audit_log_says_who_asked_and_never_the_token(tmp_path: Path, issuer: Issuer) -> None:
    with protected(tmp_path, issuer, agents="desktop: {}\nrobot: {}") as wire:
        token, broken = issuer.token(), issuer.token(exp=1)
        rows(opened(wire, token))
        rows(opened(wire, issuer.token(act={"sub": "robot"})))
        assert as_(wire, broken).initialize().status == 401
        assert as_(wire, issuer.token(azp="stranger")).initialize().status == 403
    lines = [json.loads(each) for each in (tmp_path / ".ktx/logs/mcp-audit.jsonl").read_text().splitlines()]
    asked = [each for each in lines if each.get("tool") == "sl_query"]
    assert [(each["issuer"], each["subject"], each["agent"]) for each in asked] == [
        (issuer.url, "ada", "desktop"),
        (issuer.url, "ada", "robot"),
    ]
    refused = [(each["refused"], each.get("subject"), each.get("agent")) for each in lines if "refused" in each]
    assert refused == [("expired", None, None), ("agent", "ada", "stranger")]
    text = (tmp_path / ".ktx/logs/mcp-audit.jsonl").read_text()
    assert not any(each in text for each in token.split(".")) and broken.rpartition(".")[2] not in text


# -- the server as a process ----------------------------------------------------------------------------------------


def test_a_server_that_was_started_in_the_background(tmp_path: Path, issuer: Issuer) -> None:
    made(tmp_path).write("ktx.yaml", CONFIG + settings(issuer, agents="limited: {limits: {queries_per_hour: 2}}"))
    for expected in ([["quiet", 1]], "rate_limit"):
        with started(tmp_path) as wire:
            assert as_(wire, None).initialize().status == 401
            assert as_(wire, REFUSED["HS256 with the public key"](issuer)).initialize().status == 401
            assert json.loads(ktx("mcp", "status", "--json", folder=tmp_path).stdout)["data"]["token_required"]
            client = opened(wire, issuer.token(azp="limited"))
            found = [rows(client), rows(client)]
            assert [each["code"] if isinstance(each, dict) else each for each in found] == [expected] * 2
            thief = Wire(wire.port, token=issuer.token(azp="limited", sub="bo"), session=client.session)
            assert thief.ask("tools/list", {}).status == 404
    assert json.loads(ktx("mcp", "logs", "--audit", "--verify", "--json", folder=tmp_path).stdout)["ok"]


def test_other_machines_need_a_token_or_an_issuer() -> None:
    settings = ServerSettings((ServedFolder("", "/x"),), host="0.0.0.0")
    with pytest.raises(UsageError, match="needs a token"):
        required_token(settings, {})
    assert required_token(settings, {}, issuers=True) == (None, [])


def test_the_agent_of_a_server_over_stdio(tmp_path: Path) -> None:
    desk = "serving: {agents: {desk: {attributes: {region: EU}, limits: {queries_per_hour: 1}}}}\n"
    made(tmp_path).write("ktx.yaml", CONFIG + desk)
    for expected in ([], "rate_limit"):
        with stdio(tmp_path, "--user-attribute", "region=US", "--agent", "desk") as server:
            found = server.call("sl_query", **NOTES)
            assert found["rows"] == expected if isinstance(expected, list) else found["error"]["code"] == expected
            assert server.end() == 0
    for words in (("mcp", "stdio"), ("mcp", "start"), ("agents", "install", "--target", "cursor")):
        done = ktx(*words, "--agent", "dusk", folder=tmp_path)
        assert done.returncode == 2 and "did you mean `desk`?" in done.stderr, (words, done.stderr)
