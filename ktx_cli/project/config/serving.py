"""The `serving` block of `ktx.yaml`: who may ask the MCP server, and which agents act for people."""

from __future__ import annotations

import ipaddress
import re
from math import isfinite
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainValidator, WithJsonSchema, model_validator

from ktx_cli.core import did_you_mean, listing
from ktx_cli.project.config.base import REQUIRED, Block, checked, setting, settings_of, wrong


def _attribute(value: Any) -> Any:
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise wrong("must be a text, a number or a boolean", of_value=True)


Attribute = Annotated[
    str | int | float | bool, PlainValidator(_attribute), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
"""The value of an attribute of the caller, as row policies use it."""


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a host; names other than `localhost` may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_trusted_url(text: str) -> bool:
    """Return whether a URL is HTTPS, or HTTP on this machine, without a user, a fragment or a blank."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not re.fullmatch(r"[\x21-\x7e]+", text):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


Url = Annotated[str, checked(is_trusted_url, "must be an https:// URL (http:// only on this machine)", of_value=True)]

_NAME: Final = r"[A-Za-z_]\w*"
_CLAIM: Final = re.compile(r"[^.\s]+(\.[^.\s]+)*")


def _attribute_claims(value: dict[str, str]) -> dict[str, str]:
    for name, claim in value.items():
        if not re.fullmatch(_NAME, name) or not _CLAIM.fullmatch(claim):
            raise wrong(f"maps `{name}` to `{claim}`", hint="map a name to a claim: region: department.region")
    return value


class StrictBlock(Block):
    """A block that decides on rights: an unknown key is an error, because a misspelled limit would not limit."""

    @model_validator(mode="after")
    def _known_keys(self) -> StrictBlock:
        for key in self.model_extra or {}:
            known = settings_of(type(self))
            near = did_you_mean(str(key), known)
            hint = f"did you mean `{near}`?" if near else f"settings: {listing(known)}"
            raise wrong("is not a setting", hint=hint, key=str(key))
        return self


Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip


class Identity(StrictBlock):
    """The issuer of the access tokens that the MCP server accepts over HTTP."""

    issuer: Url = setting(
        REQUIRED,
        "Issuer of the access tokens, exactly as in their claim `iss`.",
        example="https://login.example.com/realms/data",
    )
    resource: Url = setting(
        REQUIRED,
        "URL at which clients reach this MCP server. Tokens must be issued for it (claim `aud`).",
        example="https://ktx.example.com/mcp",
    )
    audience: str | None = setting(
        None,
        "Expected claim `aud`, for issuers that do not use the URL of the server. Defaults to `resource`.",
        min_length=1,
        example="api://ktx",
    )
    jwks_url: Url | None = setting(
        None,
        "URL of the issuer's public keys. Defaults to the one in the issuer's metadata.",
        example="https://login.example.com/realms/data/protocol/openid-connect/certs",
    )
    algorithms: Annotated[list[Algorithm], checked(bool, "must name an algorithm", hint="remove it")] = setting(
        ["RS256", "PS256", "ES256", "EdDSA"],
        "Signature algorithms to accept. Only algorithms with a public key are possible.",
    )
    scopes: list[str] = setting([], "Scopes that every token needs.", example=["ktx:read"])
    write_scopes: list[str] = setting(["ktx:write"], "Scopes that a token needs for tools that write.")
    attributes: Annotated[dict[str, str], AfterValidator(_attribute_claims)] = setting(
        {"id": "sub"},
        "Attributes of the caller, used by row policies: NAME -> claim of the token. A dot leads to a claim inside "
        "another one. `id` determines whose wiki pages the caller may read.",
        example={"id": "sub", "region": "department.region"},
    )
    leeway_seconds: int = setting(30, "Tolerated difference between the clocks, in seconds.", ge=0, le=300)
    unknown_agents: Literal["allow", "refuse"] | None = setting(
        None,
        "What happens to tokens of clients that `serving.agents` does not list: `allow` gives them the rights of "
        "the person. Defaults to `refuse` if `serving.agents` lists a client.",
        example="refuse",
    )


class AgentLimits(StrictBlock):
    """What an agent may take in an hour, for each person."""

    queries_per_hour: int | None = setting(None, "Maximum number of queries in an hour, for each person.", ge=0)
    rows_per_hour: int | None = setting(None, "Maximum number of rows in an hour, for each person.", ge=0)
    megabytes_per_hour: float | None = setting(
        None, "Maximum size of answers in an hour, in megabytes, for each person.", ge=0
    )


class AgentClient(StrictBlock):
    """An agent that acts for people, with rights of its own."""

    connections: list[str] | None = setting(
        None, "Connections that the agent may use; of mounts as NAME/ID. Defaults to all.", example=["warehouse"]
    )
    tools: list[str] | None = setting(
        None,
        "Tools that the agent may call. Defaults to all; with `connections`, to all that do not write.",
        example=["sl_query", "discover_data"],
    )
    attributes: dict[str, Attribute] | None = setting(
        None,
        "Attributes of the agent itself. Row policies then apply to the agent and to the person; by default, only to "
        "the person.",
        example={"region": "EU"},
    )
    limits: AgentLimits = setting(AgentLimits, "Limits per hour and person.")


class Serving(StrictBlock):
    """Who may use the MCP server."""

    identity: Identity | None = setting(None, "Access tokens for HTTP clients. Without it, all clients use one token.")
    agents: dict[str, AgentClient] = setting(
        {},
        "Agents that act for people, by the client ID in their tokens (`act.sub`, `azp` or `client_id`), or by the "
        "name passed with `--agent`. Each has `connections`, `tools`, `attributes` and `limits` "
        "(`queries_per_hour`, `rows_per_hour`, `megabytes_per_hour`), which restrict the rights of the person.",
        example={"claude-code": {"connections": ["warehouse"], "limits": {"queries_per_hour": 200}}},
    )
