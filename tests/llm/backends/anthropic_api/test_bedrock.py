"""Claude on Bedrock: what is signed with which credentials, what a request contains, what it costs, how it fails."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.backends.anthropic_api import is_effort_settable
from ktx_cli.llm.backends.anthropic_api.backend import translate
from ktx_cli.llm.backends.anthropic_api.bedrock import bedrock_cost
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.types import Usage
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.model_script import Failure, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.wire_bedrock import chunk_frame, exception_frame

MODEL = "global.anthropic.claude-sonnet-4-6-v1:0"
OLD = "anthropic.claude-3-7-sonnet-20250219-v1:0"
CANARY = "of-the-environment"
ENVIRON = {"ID": "AKIACONFIGURED", "SECRET": "secret-of-the-config", "TOKEN": "token-of-the-config"}
ACCESS = {"access_key_id": "env:ID", "secret_access_key": "env:SECRET"}
Make = Callable[..., RoutedRuntime]


class City(BaseModel):
    name: str


@pytest.fixture
def bedrock(tmp_path: Path, model_server: ModelServer) -> Make:
    """Make a runtime on the server; keywords replace settings of the backend, `model` and `caching` those of `llm`."""

    def make(*, model: str = MODEL, caching: dict[str, Any] | None = None, **settings: Any) -> RoutedRuntime:
        own = {"region": "eu-central-1", "base_url": model_server.url, **(settings or ACCESS)}
        llm = {"provider": {"backend": "bedrock", "bedrock": own}, "models": {"default": model}}
        config = KtxConfig.model_validate(
            {"llm": {**llm, "promptCaching": caching or {}}, "ingest": {"rateLimit": {"retry": {"maxAttempts": 1}}}}
        )
        return create_runtime(config, tmp_path, ENVIRON)

    return make


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let botocore find nothing of this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def ask(runtime: RoutedRuntime) -> Any:
    async def work() -> Any:
        async with runtime:
            return await runtime.generate_text("hello", system="Keep.")

    return asyncio.run(work())


def failed(runtime: RoutedRuntime) -> LlmError:
    with pytest.raises(LlmError) as caught:
        ask(runtime)
    return caught.value


def trapped(monkeypatch: pytest.MonkeyPatch, trap: ModelServer) -> None:
    """Set every variable that could lead the SDK, or botocore, elsewhere."""
    named = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION", "BEARER_TOKEN_BEDROCK")
    named = (*named, "ACCOUNT_ID", "SECURITY_TOKEN", "DEFAULT_PROFILE", "PROFILE")
    for name in named:
        monkeypatch.setenv(f"AWS_{name}", CANARY)
    for name in ("ANTHROPIC_BEDROCK_BASE_URL", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        monkeypatch.setenv(name, trap.url)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"x-{CANARY}: yes\nAuthorization: Bearer {CANARY}")


SIGNED = "AWS4-HMAC-SHA256 Credential={}/"


@pytest.mark.parametrize(
    ("settings", "begins", "token"),
    [
        (ACCESS, SIGNED.format("AKIACONFIGURED"), None),
        ({**ACCESS, "session_token": "env:TOKEN"}, SIGNED.format("AKIACONFIGURED"), "token-of-the-config"),
        ({"profile": "work"}, SIGNED.format("AKIAWORK"), None),
        ({**ACCESS, "profile": "work"}, SIGNED.format("AKIACONFIGURED"), None),
        ({"api_key": "env:TOKEN"}, "Bearer token-of-the-config", None),
        ({"api_key": "env:TOKEN", **ACCESS}, "Bearer token-of-the-config", None),
    ],
    ids=["access key", "temporary", "profile", "key before profile", "API key", "API key before access key"],
)
def test_configured_credentials_sign_whatever_the_environment_has(
    settings: dict[str, str],
    begins: str,
    token: str | None,
    bedrock: Make,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    work = "[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = s\n"
    default = f"[default]\naws_access_key_id = {CANARY}\naws_secret_access_key = {CANARY}\n"
    (tmp_path / "credentials").write_text(default + work)
    with ModelServer([says("from the trap")]) as trap:
        trapped(monkeypatch, trap)
        model_server.play([says("from the server")])
        assert ask(bedrock(**settings)).text == "from the server"
        assert trap.requests == []
    (request,) = model_server.requests
    assert CANARY not in f"{request.path} {request.headers} {json.dumps(request.sent)}"
    authorization = request.headers["authorization"]
    assert authorization.startswith(begins)
    assert request.headers.get("x-amz-security-token") == token
    if begins.startswith("AWS4"):
        assert "/eu-central-1/bedrock/aws4_request, SignedHeaders=" in authorization
        assert "host;" in authorization and "x-amz-date" in authorization


@pytest.mark.parametrize(
    ("settings", "variables", "account"),
    [
        (ACCESS, {}, "AWS access key"),
        ({"api_key": "env:TOKEN"}, {}, "Bedrock API key"),
        ({"profile": "work"}, {}, "AWS credentials (profile work)"),
        (
            {"session_token": None},
            {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s"},
            "AWS credentials (env)",
        ),
    ],
)
def test_the_probe_says_which_credentials_it_used(
    settings: dict[str, Any],
    variables: dict[str, str],
    account: str,
    bedrock: Make,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = s\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model_server.play([says("ok")])

    async def probe() -> Any:
        async with bedrock(**settings) as port:
            return await port.probe()

    report = asyncio.run(probe())
    assert report.account == account
    assert report.resolved_model == MODEL


@pytest.mark.parametrize("settings", [{"session_token": None}, {"profile": "absent"}], ids=["none", "absent profile"])
def test_without_credentials_a_call_fails_before_any_request(
    settings: dict[str, Any], bedrock: Make, model_server: ModelServer
) -> None:
    error = failed(bedrock(**settings))
    assert (error.code, model_server.requests) == ("auth", [])
    assert "aws sts get-caller-identity" in str(error.hint)


@pytest.mark.parametrize("key", ["access_key_id", "secret_access_key"])
def test_half_an_access_key_is_an_error(key: str, bedrock: Make) -> None:
    error = failed(bedrock(**{key: "env:ID"}))
    missing = "secret_access_key" if key == "access_key_id" else "access_key_id"
    assert error.hint == f"ktx config set llm.provider.bedrock.{missing} env:AWS_{missing.upper()}"


def test_a_missing_package_is_an_error_with_the_command(bedrock: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    error = failed(bedrock())
    assert (error.message, error.hint) == (
        "the backend `bedrock` requires the package boto3",
        "pip install 'ktx-cli[bedrock]'",
    )


def test_what_a_request_contains(bedrock: Make, model_server: ModelServer) -> None:
    model_server.play([says("hello")])
    ask(bedrock())
    (request,) = model_server.requests
    assert request.path == f"/model/{MODEL}/invoke-with-response-stream"
    assert request.sent == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "system": [{"type": "text", "text": "Keep.", "cache_control": {"type": "ephemeral"}}],
        "output_config": {"effort": "medium"},
        "thinking": {"type": "adaptive"},
    }


@pytest.mark.parametrize(
    ("model", "caching", "mark"),
    [
        (MODEL, {"systemTtl": "1h"}, {"type": "ephemeral", "ttl": "1h"}),
        (OLD, {"systemTtl": "1h"}, {"type": "ephemeral"}),
        (MODEL, {"enabled": False}, None),
        ("arn:aws:bedrock:eu-central-1:1:application-inference-profile/x", {}, None),
    ],
)
def test_cache_marks_are_those_that_the_model_accepts(
    model: str, caching: dict[str, Any], mark: Any, bedrock: Make, model_server: ModelServer
) -> None:
    model_server.play([says("hello")])
    ask(bedrock(model=model, caching=caching))
    (request,) = model_server.requests
    assert request.sent["system"][0].get("cache_control") == mark
    assert request.body["model"] == model


@pytest.mark.parametrize(("model", "tools"), [(MODEL, []), (OLD, ["give_answer"])])
def test_an_object_is_asked_for_as_the_model_supports_it(
    model: str, tools: list[str], bedrock: Make, model_server: ModelServer
) -> None:
    model_server.play([gives({"name": "Ulm"})])

    async def give() -> Any:
        async with bedrock(model=model) as port:
            return (await port.generate_object("Which city?", City)).value

    assert asyncio.run(give()).name == "Ulm"
    (request,) = model_server.requests
    assert request.tool_names == tools
    assert ("format" in request.sent.get("output_config", {})) is not bool(tools)


@pytest.mark.table(
    ("model", "dollars"),
    [
        ("global.anthropic.claude-sonnet-4-6-v1:0", 3.0),
        ("global.anthropic.claude-sonnet-4-6", 3.0),
        ("eu.anthropic.claude-sonnet-4-6", 3.3),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 3.0),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-6", 3.3),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-sonnet-4-6", 3.0),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", None),
        ("amazon.nova-pro-v1:0", None),
    ],
)
def test_costs_go_by_the_name_in_the_id(model: str, dollars: float | None) -> None:
    cost = bedrock_cost(model, Usage(1_000_000), 0).usd
    assert cost == (None if dollars is None else pytest.approx(dollars))


@pytest.mark.table(
    ("model", "settable"), [(MODEL, True), (OLD, False), ("us.anthropic.claude-opus-4-5-20251101-v1:0", False)]
)
def test_which_models_have_an_effort(model: str, settable: bool) -> None:
    assert is_effort_settable(model) is settable


def throttled(kind: str, status: int = 400, message: str = "no") -> Failure:
    return Failure(status, "", message, {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/"})


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (throttled("ThrottlingException", 429), "rate_limit"),
        (throttled("ServiceQuotaExceededException"), "rate_limit"),
        (throttled("ModelNotReadyException", 429), "overloaded"),
        (throttled("ModelTimeoutException", 408), "overloaded"),
        (throttled("ModelErrorException", 424), "overloaded"),
        (throttled("InternalServerException", 500), "overloaded"),
        (throttled("AccessDeniedException", 403, "User x is not authorized to perform y"), "auth"),
        (throttled("AccessDeniedException", 403, "You don't have access to the model with this id."), "model"),
        (throttled("ExpiredTokenException", 403), "auth"),
        (throttled("InvalidSignatureException", 403), "auth"),
        (throttled("ResourceNotFoundException", 404, "This model version has reached the end of its life."), "model"),
        (throttled("ResourceNotFoundException", 404), "model"),
        (throttled("ValidationException", 400, "Input is too long for requested model."), "context"),
        (throttled("ValidationException", 400, "messages: at least one message is required"), "execution"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.headers["x-amzn-errortype"].partition(":")[0],
)
def test_the_errors_of_bedrock(failure: Failure, code: str, bedrock: Make, model_server: ModelServer) -> None:
    model_server.play([failure])
    assert failed(bedrock()).code == code


def test_a_model_without_on_demand_throughput_is_named_with_its_profile(
    bedrock: Make, model_server: ModelServer
) -> None:
    message = "Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile."
    model_server.play([throttled("ValidationException", 400, message)])
    error = failed(bedrock(model="anthropic.claude-sonnet-4-6"))
    assert error.code == "model"
    assert "ktx config set llm.models.default global.anthropic.claude-sonnet-4-6" in str(error.hint)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("throttlingException", "rate_limit"),
        ("modelStreamErrorException", "overloaded"),
        ("serviceUnavailableException", "overloaded"),
        ("validationException", "execution"),
    ],
)
def test_an_error_in_the_middle_of_an_answer(kind: str, code: str) -> None:
    """The SDK's own decoder reads the frames, with their checksums."""
    import anthropic
    import httpx2
    from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder

    sent = chunk_frame({"type": "ping"}) + exception_frame(kind, "later")
    first, second = AWSEventStreamDecoder().iter_bytes(iter([sent[:20], sent[20:]]))
    assert (first.event, second.event) == ("ping", "error")
    response = httpx2.Response(200, request=httpx2.Request("POST", "http://127.0.0.1/"))
    error = anthropic.APIStatusError(second.data, response=response, body=json.loads(second.data))
    assert translate(error, backend="bedrock", model=MODEL, role="default").code == code
