"""An issuer of access tokens on 127.0.0.1 that does what a test tells it to, and tokens that it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

RESOURCE = "https://ktx.example.com/mcp"
PATH = "/realms/data"


@dataclass
class Key:
    """A key pair with its id."""

    kid: str
    private: Any
    algorithm: str

    @classmethod
    def rsa(cls, kid: str = "first", bits: int = 2048) -> Key:
        """Make an RSA key."""
        return cls(kid, rsa.generate_private_key(public_exponent=65537, key_size=bits), "RS256")

    @classmethod
    def elliptic(cls, kid: str = "curve") -> Key:
        """Make a key on P-256."""
        return cls(kid, ec.generate_private_key(ec.SECP256R1()), "ES256")

    @classmethod
    def edwards(cls, kid: str = "edwards") -> Key:
        """Make an Ed25519 key."""
        return cls(kid, ed25519.Ed25519PrivateKey.generate(), "EdDSA")

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as a JWK."""
        kinds: dict[str, Any] = {
            "RS256": jwt.algorithms.RSAAlgorithm,
            "ES256": jwt.algorithms.ECAlgorithm,
            "EdDSA": jwt.algorithms.OKPAlgorithm,
        }
        found: dict[str, Any] = json.loads(kinds[self.algorithm].to_jwk(self.private.public_key()))
        return {**found, "kid": self.kid, "use": "sig"}

    @property
    def pem(self) -> bytes:
        """The public key as PEM."""
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


@dataclass
class Issuer:
    """The issuer. `keys`: what its key set has. `asked`: the paths that were requested."""

    port: int = 0
    keys: list[Key] = field(default_factory=lambda: [Key.rsa()])
    asked: list[str] = field(default_factory=list)
    more: list[dict[str, Any]] = field(default_factory=list)
    """Further entries of the key set."""
    body: bytes | None = None
    """Sent in place of the key set."""
    status: int = 200
    location: str | None = None
    drip_seconds: float = 0.0
    """Pause between the bytes of an answer."""
    metadata: dict[str, Any] | None = None
    openid_only: bool = False

    @property
    def url(self) -> str:
        """The issuer as tokens name it."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of a good token; None removes one."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": RESOURCE,
            "sub": "ada",
            "azp": "desktop",
            "iat": now,
            "exp": now + 600,
            "scope": "ktx:read ktx:write",
            "region": "EU",
        }
        return {name: value for name, value in {**claims, **changed}.items() if value is not None}

    def token(self, key: Key | None = None, headers: Mapping[str, Any] | None = None, **changed: Any) -> str:
        """Return a signed token."""
        signer = key or self.keys[0]
        head = {"kid": signer.kid, "typ": "at+jwt", **(headers or {})}
        return jwt.encode(self.claims(**changed), signer.private, algorithm=signer.algorithm, headers=head)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return what is served at a path."""
        self.asked.append(path)
        if path == "/keys":
            keys = [*(each.jwk for each in self.keys), *self.more]
            return self.status, self.body if self.body is not None else json.dumps({"keys": keys}).encode()
        oauth, openid = f"/.well-known/oauth-authorization-server{PATH}", f"{PATH}/.well-known/openid-configuration"
        if path == openid or (path == oauth and not self.openid_only):
            found = {"issuer": self.url, "jwks_uri": f"http://127.0.0.1:{self.port}/keys"}
            return 200, json.dumps(found if self.metadata is None else self.metadata).encode()
        return 404, b"{}"


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer for a block."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            if issuer.location is not None:
                self.send_header("Location", issuer.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                if issuer.drip_seconds:
                    for place in range(len(body)):
                        self.wfile.write(body[place : place + 1])
                        time.sleep(issuer.drip_seconds)
                else:
                    self.wfile.write(body)
            except OSError:  # the server had enough
                pass

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings(issuer: Issuer, more: str = "", agents: str = "") -> str:
    """Return the `serving` block of a `ktx.yaml` that accepts the issuer's tokens."""
    lines = [
        "serving:",
        "  identity:",
        f"    issuer: {issuer.url}",
        f"    resource: {RESOURCE}",
        "    scopes: [ktx:read]",
        "    attributes: {id: sub, region: region}",
        *(f"    {each}" for each in more.splitlines()),
        *(["  agents:", *(f"    {each}" for each in agents.splitlines())] if agents else []),
    ]
    return "\n".join(lines) + "\n"
