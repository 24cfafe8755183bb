"""Claude on Amazon Bedrock: its client, the form of its requests, its prices and its errors.

Requests go to `InvokeModelWithResponseStream` of the `bedrock-runtime` endpoint, signed with Signature Version 4.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, Hint
from ktx_cli.llm.backends.anthropic_api import version_of
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import retry_after
from ktx_cli.llm.settings import ApiAddress
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import cost_of

if TYPE_CHECKING:
    import anthropic

PREMIUM_SINCE: Final = (4, 5)
"""The first version of Claude for which a regional endpoint costs more than the global one."""

REGIONAL_PREMIUM: Final = 1.1
"""The price on a regional endpoint, as a multiple of that on the global one. As of 2026-11."""

_CLAUDE_ID: Final = re.compile(r"(?:^|[./])anthropic\.(claude-.+)$")
_GLOBAL: Final = re.compile(r"(?:^|/)global\.")


def bedrock_client(
    keys: Mapping[str, str], place: ApiAddress, options: Mapping[str, Any]
) -> anthropic.AsyncAnthropicBedrock:
    """Return the client; raises `ConfigError` for half an access key.

    `keys`: the resolved secrets by the last part of their setting. The client signs by itself, because the SDK lets the
    environment interfere: AWS_BEARER_TOKEN_BEDROCK replaces a configured key, and AWS_PROFILE has to exist.
    """
    import anthropic

    key_id, secret = keys.get("access_key_id"), keys.get("secret_access_key")
    if bool(key_id) != bool(secret):
        missing = "secret_access_key" if key_id else "access_key_id"
        where = f"llm.provider.bedrock.{missing}"
        hint = Command("config", "set", where, f"env:AWS_{missing.upper()}")
        raise ConfigError(f"the access key of the backend `bedrock` requires `{where}` too", hint=hint)
    signature = Signature(
        place.location,
        api_key=keys.get("api_key"),
        access_key=(key_id, secret, keys.get("session_token")) if key_id and secret else None,
        profile=place.profile,
    )

    class Client(anthropic.AsyncAnthropicBedrock):
        """The SDK's client with the configured signature."""

        own_signature = signature

        async def _prepare_request(self, request: Any) -> None:
            request.headers.update(await asyncio.to_thread(signature.headers, request))

    client = Client(
        api_key="",
        aws_region=place.location,
        base_url=place.base_url or f"https://bedrock-runtime.{place.location}.amazonaws.com",
        **options,
    )
    client._custom_headers = {}
    return client


class Signature:
    """Signs requests with the first of these: an API key, an access key, a profile, what botocore finds by itself.

    `access_key`: its id, its secret, and its session token if it is temporary.
    """

    def __init__(
        self,
        region: str,
        *,
        api_key: str | None = None,
        access_key: tuple[str, str, str | None] | None = None,
        profile: str | None = None,
    ) -> None:
        self._region = region
        self._api_key = api_key
        self._access_key = access_key
        self._profile = profile
        self._found: Any = None

    def headers(self, request: Any) -> dict[str, str]:
        """Return the headers that sign a request; may ask for new credentials, over the network too.

        Raises errors of botocore, one of them if there are no credentials.
        """
        if self._api_key is not None:
            return {"Authorization": f"Bearer {self._api_key}"}
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        kept = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        made = AWSRequest(method=request.method, url=str(request.url), headers=kept, data=request.read())
        SigV4Auth(self._credentials(), "bedrock", self._region).add_auth(made)
        return {name: str(made.headers[name]) for name in made.headers if name.lower() in _SIGNATURE}

    def account(self) -> str:
        """Return where the credentials come from; raises as `headers` does."""
        if self._api_key is not None:
            return "Bedrock API key"
        if self._access_key is not None:
            return "AWS access key"
        origin = f"profile {self._profile}" if self._profile else str(self._credentials().method)
        return f"AWS credentials ({origin})"

    def _credentials(self) -> Any:
        """Return the credentials, which renew themselves if they are temporary and not configured."""
        if self._found is None and self._access_key is not None:
            from botocore.credentials import Credentials

            self._found = Credentials(*self._access_key)
        if self._found is None:
            import boto3

            self._found = boto3.Session(profile_name=self._profile).get_credentials()
        if self._found is None:
            from botocore.exceptions import NoCredentialsError

            raise NoCredentialsError
        return self._found


_SIGNATURE: Final = frozenset({"authorization", "x-amz-date", "x-amz-security-token"})


async def bedrock_account(signature: Signature, names: CallNames) -> str:
    """Return where the credentials come from; raises `LlmError` if there are none."""
    try:
        return await asyncio.to_thread(signature.account)
    except Exception as error:
        if is_missing(error):
            raise no_credentials(error, names) from error
        raise


def is_missing(error: Exception) -> bool:
    """Return whether there are no credentials, or botocore cannot use them."""
    return type(error).__module__.startswith("botocore")


def no_credentials(error: Exception, names: CallNames) -> LlmError:
    """Return the error for missing credentials."""
    message = "there are no usable AWS credentials on this machine"
    return llm_error("auth", **names, message=message, detail=f"{type(error).__name__}: {error}")


def bedrock_cost(model: str, usage: Usage, long_writes: int) -> Cost:
    """Return the cost of one request by the Bedrock id of its model."""
    found = _CLAUDE_ID.search(model)
    if found is None:
        return Cost()
    cost = cost_of("bedrock", found[1], usage, long_writes=long_writes)
    version = version_of(model)
    if cost.usd is None or _GLOBAL.search(model) or version is None or version < PREMIUM_SINCE:
        return cost
    return replace(cost, usd=cost.usd * REGIONAL_PREMIUM)


_BY_TYPE: Final[Mapping[str, str]] = {
    "throttlingexception": "rate_limit", "toomanyrequestsexception": "rate_limit",
    "servicequotaexceededexception": "rate_limit",
    "serviceunavailableexception": "overloaded", "internalserverexception": "overloaded",
    "modelnotreadyexception": "overloaded", "modeltimeoutexception": "overloaded",
    "modelerrorexception": "overloaded", "modelstreamerrorexception": "overloaded",
    "accessdeniedexception": "auth", "unrecognizedclientexception": "auth", "expiredtokenexception": "auth",
    "invalidsignatureexception": "auth", "incompletesignatureexception": "auth",
    "missingauthenticationtokenexception": "auth", "resourcenotfoundexception": "model",
}  # fmt: skip
_NO_MODEL: Final = re.compile(
    r"model identifier is invalid|access to the model|end of its life|marked by provider as legacy"
    r"|inference profile .*(?:not found|not exist)|could not resolve the foundation model"
)
_NO_CREDIT: Final = re.compile(r"payment.instrument|marketplace subscription")
_NEEDS_PROFILE: Final = re.compile(r"on-demand throughput isn.t supported")


def bedrock_error(error: Any, facts: Mapping[str, Any]) -> LlmError | None:
    """Return the error for an error of Bedrock itself, None for one of the model's own API.

    `error`: an `APIStatusError`; its status is below 400 if the error came in the middle of an answer.
    """
    words, kind = str(error).lower(), _type(error)
    facts = {**facts, "retry_after": retry_after(error.response.headers)}
    if _NEEDS_PROFILE.search(words):
        model, role = facts["model"], facts["role"]
        message = f"Amazon Bedrock runs the model `{model}` only by the id of an inference profile"
        profile = Command("config", "set", f"llm.models.{role}", f"global.{model}")
        return llm_error("model", **facts, message=message, hint=Hint("use the global or a regional one: {}", profile))
    if _NO_CREDIT.search(words):
        return llm_error("billing", **facts)
    if _NO_MODEL.search(words):
        return llm_error("model", **facts)
    code = _BY_TYPE.get(kind)
    return None if code is None else llm_error(code, **facts)


def _type(error: Any) -> str:
    """Return the type of an error in lower case: from the header of a response, or from a frame of a stream."""
    kind = str(error.response.headers.get("x-amzn-errortype") or "").partition(":")[0]
    body = error.body
    inside = body.get("error") if isinstance(body, dict) else None
    return (kind or str((inside if isinstance(inside, dict) else {}).get("type") or "")).lower()
