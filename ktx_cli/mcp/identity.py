"""Access tokens of HTTP clients: the issuer's public keys, and the checks that a token must pass.

Signatures and claims are checked by PyJWT; the results have the types of the MCP SDK, which ties sessions to them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
from jwt.exceptions import InvalidSignatureError, PyJWTError
from mcp.server.auth.provider import AccessToken

from ktx_cli.core import monotonic
from ktx_cli.project import Identity, is_trusted_url

LONGEST_TOKEN: Final = 12_000
LONGEST_SUBJECT: Final = 300
LARGEST_DOCUMENT: Final = 256 * 1024
"""Maximum size of a key set or of the issuer's metadata, in bytes."""
MOST_KEYS: Final = 64

KEYS_SECONDS: Final = 300.0
"""How long keys are used before they are fetched again; after that, a replaced key no longer works."""
AGAIN_SECONDS: Final = 30.0
"""Minimum time between two fetches because of a token that no known key has signed."""
FAILED_SECONDS: Final = 5.0
"""Minimum time between two fetches after one that failed."""
FETCH_SECONDS: Final = 5.0

_KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})
_ACCESS_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_TYPES: Final = frozenset({"jwt", *_ACCESS_TYPES})
_ACCESS_KINDS: Final = frozenset({"bearer", "access"})
_OF_ACCESS: Final = ("scope", "scp", "permissions", "client_id", "cid", "appid", "azpacr")
_CLIENTS: Final = ("client_id", "azp", "cid", "appid")
_OF_ID: Final = ("nonce", "at_hash", "c_hash", "s_hash")
_REQUIRED: Final = ("exp", "iss", "aud", "sub")
_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class KeysUnavailableError(Exception):
    """The issuer's keys cannot be fetched; nobody can be let in until they can."""


class InvalidTokenError(Exception):
    """A token that is not accepted. `reason` is a word for the audit log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class SigningKeys:
    """The public keys of an issuer, fetched when they are needed.

    Keys that are too old are never used: if they cannot be fetched again, `KeysUnavailableError` is raised. A token
    with an unknown key, or with a wrong signature, causes at most one fetch every `AGAIN_SECONDS`.
    """

    identity: Identity
    clock: Callable[[], float] = monotonic
    _keys: tuple[Mapping[str, Any], ...] = ()
    _fetched: float | None = None
    _tried: float | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def find(self, kid: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        """Return the keys with a key ID, or for None the only key of the issuer, that fit an algorithm.

        Different keys may share an ID, although they should not (RFC 7517, section 4.5). Raises `InvalidTokenError`
        if there is no such key, and `KeysUnavailableError`.
        """
        if self._is_old():
            await self._refresh(FAILED_SECONDS)
        keys = _usable_for(algorithm, self._known(kid))
        if not keys and await self.renew():
            keys = _usable_for(algorithm, self._known(kid))
        if not keys:
            raise InvalidTokenError("malformed" if self._known(kid) else "unknown_key")
        return keys

    async def renew(self) -> bool:
        """Fetch the keys again unless that was done a moment ago, and return whether they were fetched."""
        before = self._fetched
        try:
            await self._refresh(AGAIN_SECONDS)
        except KeysUnavailableError:  # the keys that are known are not too old yet
            return False
        return self._fetched != before

    def _is_old(self) -> bool:
        return self._fetched is None or self.clock() - self._fetched >= KEYS_SECONDS

    def _known(self, kid: str | None) -> Sequence[Mapping[str, Any]]:
        if kid is None:
            return self._keys if len(self._keys) == 1 else ()
        return [each for each in self._keys if each.get("kid") == kid]

    async def _refresh(self, pause: float) -> None:
        """Fetch the keys, unless somebody tried within `pause` seconds."""
        async with self._lock:  # whoever waited here finds the result of the fetch that it waited for
            if self._tried is None or self.clock() - self._tried >= pause:
                try:
                    with anyio.CancelScope(shield=True):  # a client that goes away must not keep the others out
                        self._keys = await self._fetch()
                    self._fetched = self.clock()
                finally:
                    self._tried = self.clock()
            elif self._is_old():
                raise KeysUnavailableError("the last attempt to fetch the keys failed")

    async def _fetch(self) -> tuple[Mapping[str, Any], ...]:
        try:
            with anyio.fail_after(FETCH_SECONDS):
                async with httpx2.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client:
                    document = await _document(client, await self._url(client))
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise KeysUnavailableError(f"the keys cannot be fetched: {type(error).__name__}") from None
        keys = tuple(_usable(document.get("keys")))
        if not keys:
            raise KeysUnavailableError("the key set contains no usable key")
        return keys

    async def _url(self, client: httpx2.AsyncClient) -> str:
        """Return the URL of the keys, from `ktx.yaml` or from the issuer's metadata."""
        if self.identity.jwks_url is not None:
            return self.identity.jwks_url
        issuer = self.identity.issuer
        parts = urlsplit(issuer)
        path = parts.path.rstrip("/")
        oauth, openid = _METADATA
        for url in (f"{parts.scheme}://{parts.netloc}{oauth}{path}", f"{parts.scheme}://{parts.netloc}{path}{openid}"):
            try:
                found = await _document(client, url)
            except KeysUnavailableError:  # the issuer may have the other document only
                continue
            place = found.get("jwks_uri")
            if found.get("issuer") == issuer and isinstance(place, str) and is_trusted_url(place):
                return place
        raise KeysUnavailableError("the issuer has no metadata that names its keys")


async def _document(client: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    """Return a JSON object of limited size; redirects are not followed."""
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != 200:
            raise KeysUnavailableError(f"the issuer answered with status {response.status_code}")
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LARGEST_DOCUMENT:
                raise KeysUnavailableError("the document of the issuer is too large")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise KeysUnavailableError("the document of the issuer is not JSON") from None
    if not isinstance(document, dict):
        raise KeysUnavailableError("the document of the issuer is not a JSON object")
    return document


def _usable(keys: Any) -> list[Mapping[str, Any]]:
    """Return the public keys for signatures in a key set; secret keys and keys of unknown types are skipped."""
    known = [each for each in keys[:MOST_KEYS] if isinstance(each, dict)] if isinstance(keys, list) else []
    return [each for each in known if each.get("kty") in _KEY_TYPES and each.get("use", "sig") == "sig"]


def _usable_for(algorithm: str, keys: Sequence[Mapping[str, Any]]) -> list[jwt.PyJWK]:
    """Return the keys that can check signatures of an algorithm; one that is not what it says it is cannot."""
    usable = []
    for each in keys:
        if (each.get("alg") or algorithm) == algorithm:
            with contextlib.suppress(PyJWTError, ValueError, TypeError, KeyError, OverflowError):
                usable.append(jwt.PyJWK.from_dict(dict(each), algorithm=algorithm))
    return usable


_JWT: Final = jwt.PyJWT({"enforce_minimum_key_length": True})


@dataclass(slots=True)
class TokenVerifier:
    """Checks access tokens."""

    identity: Identity
    keys: SigningKeys = field(init=False)

    def __post_init__(self) -> None:
        self.keys = SigningKeys(self.identity)

    async def checked(self, token: str) -> AccessToken:
        """Return what a token says; raises `InvalidTokenError`, `KeysUnavailableError`."""
        if len(token) > LONGEST_TOKEN:
            raise InvalidTokenError("too_long")
        header = _header(token, self.identity.algorithms)
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise InvalidTokenError("malformed")
        keys = await self.keys.find(kid, header["alg"])
        try:
            return self._access(header, self._signed(token, keys))
        except InvalidSignatureError:
            pass
        if not await self.keys.renew():  # the issuer may have replaced the key under the same id
            raise InvalidTokenError("signature")
        try:
            return self._access(header, self._signed(token, await self.keys.find(kid, header["alg"])))
        except InvalidSignatureError:
            raise InvalidTokenError("signature") from None

    def _signed(self, token: str, keys: Sequence[jwt.PyJWK]) -> dict[str, Any]:
        """Return the claims that one of the keys has signed; raises `InvalidSignatureError`, `InvalidTokenError`."""
        failures: list[Exception] = []
        for key in keys:
            try:
                return self._claims(token, key)
            except InvalidSignatureError as error:
                failures.append(error)
            except InvalidTokenError as error:
                if error.reason != "malformed":  # the signature is right
                    raise
                failures.append(error)  # such as for a key that is too short
        raise next((each for each in failures if isinstance(each, InvalidSignatureError)), failures[0])

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        identity = self.identity
        try:
            claims: dict[str, Any] = _JWT.decode(
                token,
                key,
                algorithms=identity.algorithms,
                audience=identity.audience or identity.resource,
                issuer=identity.issuer,
                leeway=identity.leeway_seconds,
                options={"require": list(_REQUIRED)},
            )
        except InvalidSignatureError:
            raise
        except (PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InvalidTokenError(_reason(error)) from None
        return claims

    def _access(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> AccessToken:
        if not _is_access_token(header, claims):
            raise InvalidTokenError("type")
        subject, actor, client = claims["sub"], _actor(claims), _client(claims)
        if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
            raise InvalidTokenError("subject")
        return AccessToken(
            token="",  # nothing behind this point needs it
            client_id=json.dumps([client, actor]),
            scopes=_scopes(claims),
            expires_at=None,
            resource=self.identity.resource,
            subject=subject,
            claims=dict(claims),
        )


def _header(token: str, algorithms: Sequence[str]) -> dict[str, Any]:
    """Return the header of a token, before its signature is checked."""
    try:
        header: dict[str, Any] = jwt.get_unverified_header(token)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise InvalidTokenError("malformed") from None
    if header.get("alg") not in algorithms:
        raise InvalidTokenError("algorithm")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES or "crit" in header or "b64" in header:
        raise InvalidTokenError("type")
    return header


def _is_access_token(header: Mapping[str, Any], claims: Mapping[str, Any]) -> bool:
    """Return whether a token is not an ID token, which is signed with the same keys, and often for the same audience.

    The header says so (RFC 9068), or a claim (Keycloak, Cognito). Otherwise, the token must have a claim of access
    tokens alone (a scope; the client in Okta and Entra ID), and none of ID tokens alone.
    """
    if str(header.get("typ")).lower() in _ACCESS_TYPES:
        return True
    kinds = [claims[name] for name in ("typ", "token_use") if claims.get(name) is not None]
    if kinds:
        return all(str(each).lower() in _ACCESS_KINDS for each in kinds)
    return any(claims.get(name) for name in _OF_ACCESS) and all(claims.get(name) is None for name in _OF_ID)


def _reason(error: Exception) -> str:
    name = type(error).__name__.removesuffix("Error").removesuffix("Signature")
    return {
        "Expired": "expired",
        "ImmatureSignature": "not_yet_valid",
        "Immature": "not_yet_valid",
        "InvalidAudience": "audience",
        "InvalidIssuer": "issuer",
        "MissingRequiredClaim": "claims",
    }.get(name, "malformed")


def _client(claims: Mapping[str, Any]) -> str | None:
    """Return the client that a token was issued to.

    Access tokens name it in `client_id` (RFC 9068), some issuers in another claim, such as `azp`, which is defined for
    ID tokens. A token whose claims name different clients is refused: one of them may have more rights.
    """
    names = [claims[name] for name in _CLIENTS if claims.get(name) is not None]
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST_SUBJECT and each == names[0] for each in names):
        raise InvalidTokenError("client")
    return names[0] if names else None


def _actor(claims: Mapping[str, Any]) -> str | None:
    """Return the party that acts for the subject of a token (RFC 8693), or None."""
    acting = claims.get("act")
    if acting is None:
        return None
    found = acting.get("sub") if isinstance(acting, Mapping) else None
    if not isinstance(found, str) or not 0 < len(found) <= LONGEST_SUBJECT:
        raise InvalidTokenError("actor")
    return found


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name in ("scope", "scp"):
        value = claims.get(name)
        given = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else ()
        found += [each for each in given if isinstance(each, str)]
    return found


def agent_of(claims: Mapping[str, Any], listed: Collection[str] = ()) -> str | None:
    """Return the name under which `serving.agents` may list the agent that a token was issued to.

    `listed`: the agents that are listed, if others are allowed. A listed client stays that agent if it names an actor
    that is not listed, which would have no restrictions and limits.
    """
    actor, client = _actor(claims), _client(claims)
    if actor is not None and client is not None and actor not in listed and client in listed:
        return client
    return actor or client


def attributes_of(identity: Identity, claims: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the attributes of the caller that a token states; raises `InvalidTokenError`.

    A policy compares with one value, so a claim with several is refused. A missing claim sets no attribute.
    """
    found: dict[str, str | int | float | bool] = {}
    for name, path in identity.attributes.items():
        value = _at(claims, path)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None or value == []:
            continue
        if not isinstance(value, str | int | float):
            raise InvalidTokenError("several_values" if isinstance(value, list) else "claims")
        found[name] = value
    return found


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim with a name, or else the one that a dotted path leads to."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
