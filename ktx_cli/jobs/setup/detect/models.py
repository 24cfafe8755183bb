"""Detects what can run models: local sessions of coding agents, keys, gateways, local servers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import Command, ConfigError, KtxError, NotReadyError, Placeholder, monotonic, one_line, shell_words
from ktx_cli.llm import (
    VERCEL_URL,
    BackendKind,
    backend_kinds,
    kind_of,
    llm_error,
    missing_client,
    missing_google_auth,
    resolved_keys,
    run_async,
)
from ktx_cli.project import KtxConfig, has_password
from ktx_cli.sources import bound
from ktx_cli.warehouses import is_installed, is_local

if TYPE_CHECKING:
    import httpx2


CONNECT_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 0.5
"""Time limit for a response, including the connection, in seconds."""

MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LocalGateway:
    """A program that runs models or passes requests on. `keys`: possible variables of its key.

    `has_openai_api`: it implements an API of OpenAI, and newer versions also that of Anthropic; else only the latter.
    """

    name: str
    port: int
    keys: tuple[str, ...] = ()
    has_openai_api: bool = True

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"


LOCAL_GATEWAYS: Final = (
    LocalGateway("LiteLLM", 4000, ("LITELLM_API_KEY", "LITELLM_MASTER_KEY"), has_openai_api=False),
    LocalGateway("Ollama", 11434, ("OLLAMA_API_KEY",)),
    LocalGateway("LM Studio", 1234, ("LM_API_TOKEN",)),
    LocalGateway("vLLM", 8000, ("VLLM_API_KEY",)),
)
"""The programs with their default ports."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A gateway that responds. `models`: those it lists. `asks_for_key`: it only lists them with a key."""

    models: tuple[str, ...] = ()
    asks_for_key: bool = False


def ask(url: str) -> Listening | None:
    """Return the response of a local address to `GET /v1/models`; None if no gateway responds in time."""
    response = get_json(url, "/v1/models")
    return None if response is None else _understood(*response)


def get_json(url: str, path: str) -> tuple[int, Any] | None:
    """Return the status and the JSON with which a local address responds; None if it does not in time."""
    if not _is_plain_loopback(url):
        return None
    import httpx2

    ends = monotonic() + ANSWER_SECONDS

    def left() -> float:
        if (seconds := ends - monotonic()) > 0:
            return seconds
        raise TimeoutError

    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    # Plain HTTP needs no certificates, which take 40 ms to read, and there is no proxy before loopback.
    with httpx2.Client(timeout=timeout, trust_env=False, verify=False) as client:
        bound(client, left)
        try:
            with client.stream("GET", f"{url.rstrip('/')}{path}") as response:
                return response.status_code, _content(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            return None


def _is_plain_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and is_local(parts.hostname or "")
    except ValueError:
        return False


def _content(response: httpx2.Response) -> Any:
    """Return the JSON in a response; raises `ValueError` for anything else, or if it is too long."""
    content = b""
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MAX_BYTES:
            raise ValueError("too long")
    return json.loads(content)


def _understood(status: int, value: Any) -> Listening | None:
    """Return the gateway behind a response; a web server that lists no models is not a gateway."""
    if not isinstance(value, dict):
        return None
    if status in (401, 403) and "error" in value:
        return Listening(asks_for_key=True)
    entries = value.get("data")
    if status != 200 or not isinstance(entries, list):
        return None
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return Listening(tuple(name for name in names if isinstance(name, str) and name.isprintable()))


COMPATIBLE: Final = "openai-compatible"
ANTHROPIC_HOST: Final = "api.anthropic.com"
OPENAI_HOST: Final = "api.openai.com"
ANY_GATEWAYS_KEY: Final = "GATEWAY_API_KEY"
"""The variable for a gateway key in ktx's own examples."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A backend that could run the models or compute the embeddings.

    `settings`: fields of the provider by the word of their flag; a required one that is missing has to be asked for, an
    empty one is not needed.
    `problem`: why it cannot be used now; for a missing session, `details["sign_in"]` is the command that signs in.
    `models`: those known to exist, () if unknown. `found`: the detected server or folder, which distinguishes it from
    other offers of the same backend; "" for the backend itself.
    """

    backend: str
    label: str
    settings: Mapping[str, str] = field(default_factory=dict)
    problem: KtxError | None = None
    models: tuple[str, ...] = ()
    found: str = ""

    @property
    def value(self) -> str:
        """The key of an offer; for a gateway, it includes the URL."""
        return f"{self.backend} {self.settings.get('base_url', '')}".strip()


def model_offers(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> list[ModelOffer]:
    """Return the backends that could run the models, in the order of the offers: `claude-code` is always first.

    Calls no model, and sends no request beyond this machine. Only raises `CancelledError`, for Ctrl-C.
    """
    return run_async(_model_offers(config, project_dir, environ))


async def _model_offers(config: KtxConfig, project_dir: Path, environ: Mapping[str, str]) -> list[ModelOffer]:
    named, compatible = _named_gateway(environ), _named_server(environ)
    local = [each for each in LOCAL_GATEWAYS if not any(url and _is_same(url, each) for url in (named, compatible))]
    urls = (named or "", *(each.url for each in local))
    asked = asyncio.gather(*(asyncio.to_thread(ask, url) for url in urls))
    await asyncio.sleep(0)  # start the threads now: finding the binary may block the loop
    kinds: dict[str, BackendKind] = {}
    for kind in backend_kinds():
        if kind.client == "session":
            kinds.setdefault(kind.block, kind)  # several backends may use the same session
    sessions = [await _session(kind, config, project_dir, environ) for kind in kinds.values()]
    listening, *answers = await asked
    offers = [
        *filter(None, sessions),
        *_anthropic(environ, project_dir),
        *_vertex(environ),
        *_bedrock(environ, project_dir),
        *_openai_api(environ, project_dir),
        *_gemini(environ, project_dir),
    ]
    offers += _vercel(environ, project_dir)
    offers += [] if named is None else [_of_environment(named, listening, environ, project_dir)]
    offers += [] if compatible is None else [_compatible(compatible, environ, project_dir)]
    return offers + [_on_this_machine(at, found, environ) for at, found in zip(local, answers, strict=True) if found]


async def _session(
    kind: BackendKind, config: KtxConfig, project_dir: Path, environ: Mapping[str, str]
) -> ModelOffer | None:
    """Return the offer of a local session; None if its program is not installed, unless it comes with ktx."""
    from ktx_cli.llm import local_session

    label = f"your local {kind.who} session"
    try:
        session = await local_session(kind.name, config, project_dir=project_dir, environ=environ)
    except KtxError as error:
        if error.details.get("installed") is False:
            return None
        return ModelOffer(kind.name, label, problem=_with_command(kind, error, config, project_dir, environ))
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder for `~`
        message = f"the `{kind.block}` binary does not respond: {one_line(str(error), 200)}"
        problem = llm_error("connection", backend=kind.name, message=message, hint=Command("doctor"))
        return ModelOffer(kind.name, label, problem=problem)
    return ModelOffer(kind.name, f"your {session.account}, {kind.who} {session.binary.version_text}")


def _with_command(
    kind: BackendKind, error: KtxError, config: KtxConfig, project_dir: Path, environ: Mapping[str, str]
) -> KtxError:
    """Add the sign-in command to the details of a missing session, with the path of the program if necessary."""
    program = kind.program
    if error.code == "auth" and program is not None:
        cli_path = getattr(config.llm.provider, kind.block).cli_path
        found = program.find(cli_path=cli_path, project_dir=project_dir, environ=environ)
        on_path = shutil.which(program.name, path=environ.get("PATH"))
        error.details["sign_in"] = Command(*program.sign_in, program=program.name if on_path else str(found[0][1]))
    return error


def _anthropic(environ: Mapping[str, str], project_dir: Path) -> Iterable[ModelOffer]:
    key = _set(environ, "ANTHROPIC_API_KEY")
    if key is None or not _is_anthropic(environ.get("ANTHROPIC_BASE_URL", "")):
        return ()
    settings = {"api_key": f"env:{key}"}
    problem = _unsendable("anthropic", settings, environ, project_dir)
    return (ModelOffer("anthropic", f"the Anthropic API, with the key in {key}", settings, problem),)


def _vertex(environ: Mapping[str, str]) -> Iterable[ModelOffer]:
    found = vertex_found(environ)
    if found is None:
        return ()
    place = ", ".join(filter(None, (found.project and f"project {found.project}", found.location)))
    label = "Claude on Google Vertex AI" + (f" ({one_line(place, 100)})" if place else "")
    settings = {"location": found.location, "project": found.project}
    return (ModelOffer("vertex", label, {key: value for key, value in settings.items() if value}, found.problem),)


def _bedrock(environ: Mapping[str, str], project_dir: Path) -> Iterable[ModelOffer]:
    """Yield Amazon Bedrock if a variable names credentials or a profile of AWS; files of AWS may be for anything."""
    key = _set(environ, "AWS_BEARER_TOKEN_BEDROCK")
    access = _set(environ, "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "CLAUDE_CODE_USE_BEDROCK")
    if key is None and access is None:
        return
    region = _set(environ, "AWS_REGION", "AWS_DEFAULT_REGION")
    settings = {"location": environ[region].strip()} if region else {}
    if key is not None:
        settings |= {"api_key": f"env:{key}", "profile": ""}
    elif access == "AWS_PROFILE":
        settings |= {"profile": environ[access].strip()}
    elif access == "AWS_ACCESS_KEY_ID":
        settings |= {"profile": ""}
    origin = f"the key in {key}" if key else f"the AWS credentials of {access}"
    origin = "this machine's AWS credentials" if access == "CLAUDE_CODE_USE_BEDROCK" and not key else origin
    problem = missing_client("bedrock") or _unsendable("bedrock", settings, environ, project_dir)
    yield ModelOffer("bedrock", f"Claude on Amazon Bedrock, with {origin}", settings, problem)


def _vercel(environ: Mapping[str, str], project_dir: Path) -> list[ModelOffer]:
    key = _set(environ, "AI_GATEWAY_API_KEY")
    if key is None:
        return []
    settings = {"base_url": VERCEL_URL, "api_key": f"env:{key}"}
    problem = _unsendable("gateway", settings, environ, project_dir)
    return [ModelOffer("gateway", f"the Vercel AI Gateway, with the key in {key}", settings, problem)]


def _openai_api(environ: Mapping[str, str], project_dir: Path) -> Iterable[ModelOffer]:
    key = _set(environ, "OPENAI_API_KEY")
    if key is None or _named_server(environ) is not None:
        return ()
    settings = {"api_key": f"env:{key}"}
    problem = missing_client("openai") or _unsendable("openai", settings, environ, project_dir)
    return (ModelOffer("openai", f"the OpenAI API, with the key in {key}", settings, problem),)


def _gemini(environ: Mapping[str, str], project_dir: Path) -> Iterable[ModelOffer]:
    key = _set(environ, "GEMINI_API_KEY", "GOOGLE_API_KEY")
    if key is None:
        return ()
    settings = {"api_key": f"env:{key}"}
    problem = missing_client("gemini") or _unsendable("gemini", settings, environ, project_dir)
    return (ModelOffer("gemini", f"the Gemini API, with the key in {key}", settings, problem),)


def _compatible(url: str, environ: Mapping[str, str], project_dir: Path) -> ModelOffer:
    """Return the server in `OPENAI_BASE_URL`, with its key if there is one."""
    label = f"the server {one_line(_without_user(url), 80)} in OPENAI_BASE_URL"
    if has_password(url):
        return ModelOffer(COMPATIBLE, label, problem=_with_password("OPENAI_BASE_URL", url))
    settings = {"base_url": url, **_key(environ, ("OPENAI_API_KEY",))}
    problem = missing_client(COMPATIBLE) or _unsendable(COMPATIBLE, settings, environ, project_dir)
    return ModelOffer(COMPATIBLE, label, settings, problem)


def _with_password(variable: str, url: str) -> KtxError:
    return ConfigError(
        f"{variable} contains a password, which would be written to ktx.yaml",
        hint=Command(Placeholder(f"{variable}={shell_words(_without_user(url))}"), program="export"),
    )


def _of_environment(url: str, listening: Listening | None, environ: Mapping[str, str], project_dir: Path) -> ModelOffer:
    """Return the gateway in `ANTHROPIC_BASE_URL`, with its key."""
    label = f"the gateway {one_line(_without_user(url), 80)} in ANTHROPIC_BASE_URL"
    if has_password(url):
        return ModelOffer("gateway", label, problem=_with_password("ANTHROPIC_BASE_URL", url))
    settings = {"base_url": url, **_key(environ, ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", ANY_GATEWAYS_KEY))}
    if settings.get("api_key") == "env:ANTHROPIC_AUTH_TOKEN":
        settings["auth"] = "bearer"
    problem = _unsendable("gateway", settings, environ, project_dir)
    return ModelOffer("gateway", label, settings, problem, listening.models if listening else ())


def _on_this_machine(gateway: LocalGateway, listening: Listening, environ: Mapping[str, str]) -> ModelOffer:
    """Return the offer of a local program; without the package of its own API, by the one that newer versions have."""
    label = f"{gateway.name} on this machine ({gateway.url})"
    if not gateway.has_openai_api or missing_client(COMPATIBLE) is not None:
        asks = "requires a key" if listening.asks_for_key else "accepts any key"
        settings = {"base_url": gateway.url, **_key(environ, (*gateway.keys, ANY_GATEWAYS_KEY))}
        return ModelOffer("gateway", f"{label}, {asks}", settings, None, listening.models)
    asks = ", requires a key" if listening.asks_for_key else ""
    key = _key(environ, gateway.keys) if listening.asks_for_key else {"api_key": ""}
    settings = {"base_url": f"{gateway.url}/v1", **key}
    return ModelOffer(COMPATIBLE, f"{label}{asks}", settings, None, listening.models)


def _named_server(environ: Mapping[str, str]) -> str | None:
    """Return the URL in `OPENAI_BASE_URL` unless it is OpenAI's."""
    url = environ.get("OPENAI_BASE_URL", "").strip().rstrip("/")
    host = _host(url)
    return None if not host or host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}") else url


def _named_gateway(environ: Mapping[str, str]) -> str | None:
    """Return the URL in `ANTHROPIC_BASE_URL` unless it is Anthropic's."""
    url = environ.get("ANTHROPIC_BASE_URL", "").strip().rstrip("/")
    return None if _is_anthropic(url) or not _host(url) else url


def _is_anthropic(url: str) -> bool:
    return not url.strip() or _host(url.strip()) == ANTHROPIC_HOST


def _is_same(url: str, gateway: LocalGateway) -> bool:
    try:
        return _host(url) in ("localhost", "127.0.0.1") and urlsplit(url).port == gateway.port
    except ValueError:
        return False


def _host(url: str) -> str:
    """Return the host of a URL, empty if it is invalid."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.scheme in ("http", "https") else ""


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _set(environ: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if environ.get(name, "").strip()), None)


def _key(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    name = _set(environ, *names)
    return {} if name is None else {"api_key": f"env:{name}"}


def _unsendable(
    backend: str, settings: Mapping[str, str], environ: Mapping[str, str], project_dir: Path
) -> KtxError | None:
    """Return why a key cannot be sent unchanged."""
    kind = kind_of(backend)
    provider: dict[str, Any] = {kind.keys.get(word, word): value for word, value in settings.items()}
    config = KtxConfig.model_validate({"llm": {"provider": {kind.block: provider}}})
    try:
        resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    except KtxError as error:
        return error
    return None


LOGIN: Final = Command("auth", "application-default", "login", program="gcloud")
FILE: Final = "application_default_credentials.json"

_LOCATIONS: Final = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
_PROJECTS: Final = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_MEANT: Final = ("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "CLAUDE_CODE_USE_VERTEX")
"""Variables that indicate Claude on Vertex AI; the others may belong to any Google product."""


@dataclass(frozen=True, slots=True)
class VertexFound:
    """A detected backend. `problem`: why it cannot be used now."""

    project: str = ""
    location: str = ""
    problem: KtxError | None = None


def vertex_found(environ: Mapping[str, str]) -> VertexFound | None:
    """Return the state of Vertex AI; None without credentials, unless a variable indicates it."""
    path = _credentials_file(environ)
    known = _read(path) if path is not None else None
    if (
        known is None
        and not any(environ.get(name) for name in _MEANT)
        and not environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    ):
        return None
    location = next(filter(None, map(environ.get, _LOCATIONS)), "")
    named = ((known or {}).get(key) for key in ("project_id", "quota_project_id"))
    project = next(filter(None, map(environ.get, _PROJECTS)), "") or next((x for x in named if isinstance(x, str)), "")
    return VertexFound(project, location, _problem(path, known))


def _problem(path: Path | None, known: Mapping[str, Any] | None) -> KtxError | None:
    if not is_installed("google.auth"):
        return missing_google_auth()
    if path is None:
        return NotReadyError("this machine has no Google credentials", hint=LOGIN)
    if known is None:
        return NotReadyError(f"{path} does not contain Google credentials", hint=LOGIN, details={"path": str(path)})
    return None


def _credentials_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file that Google's libraries use: the configured one, else that of `gcloud` if it exists."""
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(environ["GOOGLE_APPLICATION_CREDENTIALS"])
    named, base = environ.get("CLOUDSDK_CONFIG"), environ.get("APPDATA" if os.name == "nt" else "HOME")
    if not (named or base):
        return None
    folder = Path(named) if named else Path(base or "") / ("gcloud" if os.name == "nt" else ".config/gcloud")
    return folder / FILE if (folder / FILE).is_file() else None


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a credentials file; None for any other file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            value = json.loads(stream.read(MAX_BYTES))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None
