"""The model backends: facts about each that are known without loading its client.

A backend is a `BackendKind` in the `__init__` of its folder, `ktx_cli/llm/backends/<folder>/`. Everything that differs
between backends and needs no client is in it: what messages call the provider, its settings and setup questions, its
prices, and how usage and spans name it. Adding a backend means adding a folder, an entry in `_KINDS`, and the settings
in `ktx_cli/project/config/blocks.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, Protocol

from ktx_cli.core import Command, ConfigError, Hint, SettingPath
from ktx_cli.project import KtxConfig, imported

Client = Literal["requests", "session"]
"""`requests`: ktx's own requests to an API; `session`: a coding agent's program on this machine, signed in by its user.
"""


@dataclass(frozen=True, slots=True)
class ProviderQuestion:
    """One field of a provider. `optional`: it may be empty. `secret`: typed unseen."""

    field: str
    question: str
    default: str = ""
    optional: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class SessionProgram:
    """The program of a local session. `name`: its command. `sign_in`: the words after it that sign a user in.

    `session`: `package.module:coroutine` that finds the session; `candidates`: the same for a function that takes the
    keywords `cli_path`, `project_dir` and `environ` and returns the possible programs, best first, with their origins.
    """

    name: str
    sign_in: tuple[str, ...]
    session: str
    candidates: str

    def find(
        self, *, cli_path: str | None, project_dir: Path, environ: Mapping[str, str]
    ) -> Sequence[tuple[str, Path]]:
        """Return the possible programs, best first, each with its origin."""
        found: Sequence[tuple[str, Path]] = imported(self.candidates)(
            cli_path=cli_path, project_dir=project_dir, environ=environ
        )
        return found


def no_effort(model: str) -> bool:
    """Return False: the effort of no model can be set."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """A model backend.

    `who`: the provider in messages. `label`: how setup offers it. `maker`: `package.module:function` that takes the
    name and the runtime's shared state, and returns the `Backend`. `block`: its settings below `llm.provider`. `keys`:
    the settings that a flag can set, as name in a request -> key. `secrets`: the settings with credentials. `models`:
    suggested by role, a cheap one for the roles that sort and select; {}: the user has to name them. `by_hand`: can be
    set up even if nothing on the machine indicates it.
    """

    name: str
    who: str
    label: str
    maker: str
    block: str = ""
    client: Client = "requests"
    keys: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    questions: tuple[ProviderQuestion, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    by_hand: bool = True
    default_model: str = ""
    """The model that runs without `llm.models.default`; empty: the user has to name one."""

    own_loop: bool = True
    """Whether ktx runs the agent loop, so that single turns take slots and retries; otherwise a call is one unit."""

    free_ids: bool = False
    """Whether a model id may contain a colon, as in `qwen3:8b`."""

    is_effort_settable: Callable[[str], bool] = no_effort
    """Returns whether the effort of a model can be set."""

    caches_by_itself: bool = False
    """Whether the provider decides what it caches, whatever `llm.promptCaching` says."""

    charges_list_prices: bool = False
    source: str
    """The system that counts tokens, in usage facts."""

    executor_type: str
    """What runs a unit of work, in usage facts."""

    telemetry: str
    """The provider's name in spans (`gen_ai.provider.name`)."""

    no_credentials: str = ""
    """The message for missing or rejected credentials, if it is not the usual one."""

    credentials: str = ""
    """What to do about missing or rejected credentials; empty: check the secret's setting."""

    program: SessionProgram | None = None
    """The program of a backend whose client is a local session."""

    package: str = ""
    """The extra of `ktx-cli` that contains the client; empty: the client is always installed."""

    module: str = ""
    """The package in the extra without which the backend cannot run at all."""

    @property
    def credentials_hint(self) -> str:
        """What to do about missing or rejected credentials."""
        if self.credentials:
            return self.credentials
        settings = [SettingPath(f"llm.provider.{self.block}.{key}") for key in self.secrets]
        return Hint(f"check {' and '.join('{}' for _ in settings)}", *settings)


_BACKENDS: Final = "ktx_cli.llm.backends"
_KINDS: Final[Mapping[str, str]] = {
    "claude-code": f"{_BACKENDS}.claude_code:CLAUDE_CODE",
    "claude-cli": f"{_BACKENDS}.claude_code:CLAUDE_CLI",
    "codex": f"{_BACKENDS}.codex:CODEX",
    "anthropic": f"{_BACKENDS}.anthropic_api:ANTHROPIC",
    "vertex": f"{_BACKENDS}.anthropic_api:VERTEX",
    "bedrock": f"{_BACKENDS}.anthropic_api:BEDROCK",
    "gateway": f"{_BACKENDS}.anthropic_api:GATEWAY",
    "openai": f"{_BACKENDS}.openai_api:OPENAI",
    "openai-compatible": f"{_BACKENDS}.openai_api:OPENAI_COMPATIBLE",
    "gemini": f"{_BACKENDS}.gemini_api:GEMINI",
}
"""The backends, in the order in which setup offers them."""


def kind_of(name: str) -> BackendKind:
    """Return the backend with this name; raises `KeyError` if there is none."""
    found: BackendKind = imported(_KINDS[name])
    return found


def find_kind(name: str) -> BackendKind | None:
    """Return the backend with this name, None if there is none."""
    return kind_of(name) if name in _KINDS else None


def backend_kinds() -> Iterator[BackendKind]:
    """Yield every backend, in the order in which setup offers them."""
    return map(kind_of, _KINDS)


def missing_client(backend: str) -> ConfigError | None:
    """Return the error for the missing package of a backend, None if it is installed or none is needed."""
    kind = kind_of(backend)
    if not kind.module or _is_installed(kind.module):
        return None
    message = f"the backend `{backend}` requires the package {kind.module.replace('.', '-')}"
    return ConfigError(message, hint=Command("install", f"ktx-cli[{kind.package}]", program="pip"))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that would contain it
        return False


def sessions() -> tuple[str, ...]:
    """Return the names of the backends that use a session on this machine."""
    return tuple(kind.name for kind in backend_kinds() if kind.client == "session")


class SessionBinary(Protocol):
    """The program of a local session; as text, with its version and origin."""

    @property
    def version_text(self) -> str:
        """Its version, such as `2.1.329`."""
        ...


class LocalSession(Protocol):
    """An existing session; only a call shows whether it still works. `account` says where it comes from."""

    @property
    def account(self) -> str:
        """Who is signed in, in a few words, without any secret."""
        ...

    @property
    def binary(self) -> SessionBinary:
        """The program that runs it."""
        ...


async def local_session(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> LocalSession:
    """Return the local session of a backend; raises `LlmError` if there is no session or no program for it."""
    program = kind_of(backend).program
    if program is None:
        raise ValueError(f"the backend {backend!r} uses no local session")
    find: Callable[..., Awaitable[LocalSession]] = imported(program.session)
    return await find(backend, config, project_dir=project_dir, environ=environ)
