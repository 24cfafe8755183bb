"""The backend `codex`: every call is one `codex app-server` process of the local session, isolated and monitored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Command
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Conversation, ModelTurn, Outcome, Repair, Retried, run_own_loop
from ktx_cli.llm.backends.claude.binary import private_folder, run, secret_names
from ktx_cli.llm.backends.codex.binary import (
    FOLDER_PREFIX,
    NAME,
    CodexBinary,
    codex_environment,
    dropped_names,
    find_codex,
)
from ktx_cli.llm.backends.codex.conversation import CodexConversation, turn_error
from ktx_cli.llm.backends.codex.home import Login, prepare_home, read_login, write_back
from ktx_cli.llm.backends.codex.isolation import check_account, check_process
from ktx_cli.llm.backends.codex.rehearsal import rehearse
from ktx_cli.llm.backends.codex.server import AppServer, RequestFailed
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.governor import RateSignal
from ktx_cli.project import KtxConfig

if TYPE_CHECKING:
    from ktx_cli.llm.agent_loop import Backend, Shared

STATUS_SECONDS = 30.0


@dataclass(frozen=True)
class CodexHost:
    """State that all processes of one runtime share. `environ`: the user's environment, from which little is kept."""

    binary: CodexBinary
    environ: Mapping[str, str] = field(repr=False)
    secret_names: frozenset[str]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the whole environment of a process with this home folder."""
        return codex_environment(self.environ, folder, secret_names=self.secret_names)

    @property
    def dropped(self) -> list[str]:
        """The names of the variables that no process receives."""
        return dropped_names(self.environ, secret_names=self.secret_names)


def codex_host(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> CodexHost:
    """Return the host for a project; raises `LlmError` if there is no usable binary."""
    binary = find_codex(cli_path=config.llm.provider.codex.cli_path, project_dir=project_dir, environ=environ)
    return CodexHost(binary, environ, secret_names(config))


@dataclass(frozen=True, slots=True)
class Session:
    """A running, checked process. `work`: its empty working folder; `facts`: what the checks found."""

    server: AppServer
    work: Path
    login: Login
    account: str
    facts: Mapping[str, Any]


class CodexBackend:
    """Runs calls on the local session."""

    name = NAME

    def __init__(
        self, host: CodexHost, *, retried: Retried, repair: Repair, observe: Callable[[RateSignal], None]
    ) -> None:
        self.host = host
        self._retried = retried
        self._repair = repair
        self._observe = observe
        self._refreshing = asyncio.Lock()
        self._rehearsing = asyncio.Lock()

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Run one call in a separate process."""
        async with CodexCall(self, spec, self._observe) as call:
            asked = self._repair if spec.role != "repair" else None

            async def repair(question: str) -> str:
                # Codex answers a call whose arguments are not JSON itself: running it would contradict that answer.
                return "" if asked is None or call.answers_itself else await asked(question)

            outcome = await run_own_loop(call, spec, record, retried=self._retried, repair=asked and repair)
            record.isolation.update(call.facts)
            return outcome

    @contextlib.asynccontextmanager
    async def session(self, model: str) -> AsyncIterator[Session]:
        """Run a process for one model; raises `LlmError`. A login that Codex renewed is written back at the end.

        Without a model, the process can say which account it would use, but not ask a model.
        """
        read_login(self.host.environ)
        if model:
            async with self._rehearsing:
                await rehearse(self.host.binary, self.host.environment, model)
        with private_folder(FOLDER_PREFIX) as folder:
            async with self._refreshing if read_login(self.host.environ).needs_refresh() else contextlib.nullcontext():
                login = read_login(self.host.environ)
                work = prepare_home(folder, login, model=model, features=self.host.binary.features)
                program, environment = self.host.binary.path, self.host.environment(folder)
                server = await AppServer.start(program, environment=environment, work=work)
                try:
                    facts = await check_process(server, folder)
                    account = check_account(await _account(server))
                    login = _renewed(login, folder, self.host.environ)
                except BaseException:
                    await server.kill()
                    raise
            try:
                yield Session(server, work, login, account, facts)
            except BaseException:
                await server.kill()
                raise
            finally:
                await server.close()
                _renewed(login, folder, self.host.environ)

    async def account(self) -> str:
        """Return which login is used, as a process reports it."""
        async with self.session("") as session:
            return session.account

    def versions(self) -> Mapping[str, str]:
        """Return the binary and where it was found."""
        binary = self.host.binary
        return {"codex": binary.version_text, "path": str(binary.path), "origin": binary.origin}

    async def aclose(self) -> None:
        """Do nothing: every process ends with its call."""


class CodexCall:
    """The process of a call, started by its first turn, in the slot of that turn, and again if it has ended."""

    def __init__(self, backend: CodexBackend, spec: CallSpec, observe: Callable[[RateSignal], None]) -> None:
        self.facts: dict[str, Any] = {}
        self._backend = backend
        self._spec = spec
        self._observe = observe
        self._open = contextlib.AsyncExitStack()
        self._conversation: CodexConversation | None = None
        self._login: Login | None = None

    async def __aenter__(self) -> CodexCall:
        return self

    async def __aexit__(self, *failure: Any) -> bool | None:
        return await self._open.__aexit__(*failure)

    @property
    def answers_itself(self) -> bool:
        """Whether Codex itself answers one of the calls of the last turn."""
        return self._conversation is not None and self._conversation.unparsed

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Return the model's next turn; raises `LlmError`.

        If the login was rejected, but the user's file contains another one by now, for example because another process
        has renewed it, the turn is asked for once more with that login.
        """
        try:
            return await self._turn(spec, conversation, record)
        except LlmError as error:
            if error.code != "auth" or self._login is None or read_login(self._backend.host.environ) == self._login:
                raise
        self._conversation = None
        return await self._turn(spec, conversation, record)

    async def _turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        if self._conversation is None or not self._conversation.server.alive:
            await self._open.aclose()
            session = await self._open.enter_async_context(self._backend.session(spec.model))
            self._conversation = CodexConversation(session.server, session.work, spec, self._observe)
            self._login = session.login
            dropped = self._backend.host.dropped
            self.facts = {"tools": sorted(spec.tools), **session.facts, "dropped": dropped}
        return await self._conversation.turn(spec, conversation, record)


async def _account(server: AppServer) -> dict[str, Any]:
    try:
        return await server.request("account/read", {})
    except RequestFailed as error:
        spec = CallSpec("probe", NAME, "default", "", "")
        raise turn_error({"message": error.message}, spec) from error


def _renewed(login: Login, folder: Path, environ: Mapping[str, str]) -> Login:
    """Write back a renewed login, and return the login that the user's file then contains."""
    return read_login(environ) if write_back(login, folder) else login


@dataclass(frozen=True, slots=True)
class CodexSession:
    """An existing session; only a call shows whether it still works. `account` says where it comes from."""

    account: str
    binary: CodexBinary


async def local_session(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> CodexSession:
    """Return the local session according to `codex login status`; raises `LlmError` if there is none, or no binary."""
    del backend
    host = codex_host(config, project_dir=project_dir, environ=environ)
    login = read_login(environ)
    with private_folder(FOLDER_PREFIX) as folder:
        work = prepare_home(folder, login, model="", features=host.binary.features)
        command = [str(host.binary.path), "login", "status"]
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                answer = await run(command, environment=host.environment(folder), folder=work, prompt="", backend=NAME)
        except TimeoutError as error:
            message = "`codex login status` did not answer"
            raise llm_error("connection", backend=NAME, message=message, hint=Command("doctor")) from error
    if answer.code != 0:
        raise llm_error("auth", backend=NAME, detail=answer.err or answer.out)
    kind = "API key" if login.is_api_key else "ChatGPT"
    return CodexSession(f"local Codex session ({kind})", host.binary)


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    host = codex_host(shared.config, project_dir=shared.project_dir, environ=shared.environ)
    return CodexBackend(host, retried=shared.retried, repair=shared.repair, observe=shared.governor.observe)
