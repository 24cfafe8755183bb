"""The server of one project: what it offers over the protocol, on any transport."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ktx_cli import __version__
from ktx_cli.core import CancelledError, KtxError, UsageError, internal_error
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.caller import Account, CallerIdentity, Meter, with_agent
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp import prompts
from ktx_cli.mcp.tool import Call, Options, ServerTool, ToolAnswer, call_tool, error_data, for_caller
from ktx_cli.telemetry import is_exporting, know, operation

AT_ONCE: Final = 8
"""Maximum number of concurrent calls; others wait for their turn."""
AT_ONCE_OF_ONE: Final = 6
"""Maximum number of concurrent calls with access tokens of one person, so that others have a turn, too."""

Context = ServerRequestContext[Any, Any]
Read = TypeVar("Read")
Person = tuple[str | None, str | None]
"""The issuer and the subject of an access token."""

_PROTOCOL: Final[Mapping[str, int]] = {"storage": types.INTERNAL_ERROR, "config": types.INTERNAL_ERROR}
"""Error code -> protocol code; all other codes are about the request itself."""

log = logging.getLogger(__name__)

ACCOUNTS: Final[ContextVar[list[Account]]] = ContextVar("ktx_accounts")
"""The accounts of the request in progress."""


class KnownUser(AuthenticatedUser):
    """The user of an access token, as the SDK ties sessions to it, and who that is for ktx."""

    def __init__(self, token: AccessToken, known_as: CallerIdentity) -> None:
        super().__init__(token)
        self.known_as = known_as


@dataclass(slots=True)
class ProjectServer:
    """Serves one project. `server` is what a transport runs, with any number of concurrent sessions."""

    project: ServedProject
    options: Options
    meter: Meter | None = None
    """Counts what agents take; by default, in the state of the project."""
    is_remote: bool = False
    """Whether requests arrive over HTTP, where each says who sends it."""
    server: Server[Any] = field(init=False)
    _limit: anyio.CapacityLimiter | None = None
    _limits: MutableMapping[Person, anyio.CapacityLimiter] = field(default_factory=WeakValueDictionary)
    """The limits of persons with calls."""
    _tools: Mapping[str, ServerTool] | None = None

    def __post_init__(self) -> None:
        self.server = Server(
            "ktx",
            version=__version__,
            title="ktx",
            instructions=prompts.instructions(self.options),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        # instead of the SDK's middleware, whose spans contain names that clients choose and messages of errors
        self.server.middleware[:] = [measure_request]

    def serve(self, project: ServedProject) -> None:
        """Answer from another project from now on; calls in progress keep theirs."""
        self.project = project

    def resume(self) -> None:
        """Resume captures that are still waiting, if this server may write."""
        if not self.options.read_only:
            self.project.memories.resume()

    def account(self, caller: CallerIdentity) -> Account:
        """Return an account of what one call takes, which its line in the audit log states."""
        if self.meter is None:
            self.meter = Meter(self.project.layout)
        account = Account(self.meter, caller)
        ACCOUNTS.get([]).append(account)
        return account

    async def tools(self) -> Mapping[str, ServerTool]:
        """Return the tools of this server by name, loaded on first use, after the first handshake."""
        if self._tools is None:
            self._tools = await anyio.to_thread.run_sync(offered, self.options)
            know("gen_ai.tool.name", self._tools)
        return self._tools

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        whole = self.options.profile is Profile.ADMIN
        tools = await self.tools()

        def run(call: Call) -> dict[str, ServerTool]:
            return listed(self.options, _open_to(call.identity, tools), call.project)

        found = await self._read(context, run)
        return types.ListToolsResult(tools=[_definition(each, answers=whole) for each in found.values()])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = await self.tools()
        try:
            with self._project_in_use() as project:
                call = await self._call(context, project)
                return _result(await self._answer(context, params, call, _open_to(call.identity, tools)))
        except KtxError as error:
            return _result(ToolAnswer(error=self._shown(error)))
        except Exception as problem:  # the SDK would send its message, which may contain anything; the log has it
            log.exception("could not answer a call")
            return _result(ToolAnswer(error=internal_error(problem)))

    async def _answer(
        self, context: Context, params: types.CallToolRequestParams, call: Call, tools: Mapping[str, ServerTool]
    ) -> ToolAnswer:
        answer = ToolAnswer(error=CancelledError("the client disconnected"))
        account = self.account(call.identity)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, context, tasks.cancel_scope)
                async with self._slots_of(context):
                    answer = await call_tool(tools, params.name, params.arguments or {}, call, self._slots(), account)
                tasks.cancel_scope.cancel()
        finally:
            call.stopped.set()
        return answer

    @contextlib.contextmanager
    def _project_in_use(self) -> Iterator[ServedProject]:
        """Yield the project that is served now, which stays open for the block."""
        while True:
            project = self.project
            with project.calls.use() as granted:
                if granted:
                    yield project
                    return
            if project is self.project:
                raise CancelledError("the server is stopping", hint="try again in a few seconds")

    async def _call(self, context: Context, served: ServedProject) -> Call:
        """Return a call by whoever sends a request, with the part of the project that is open to them."""
        user = user_of(context)
        if self.is_remote and context.request is None:
            raise KtxError("the request does not identify the caller", code="internal")

        def made() -> Call:
            caller = CallerIdentity(self.options.attributes) if user is None else user.known_as
            if user is None and self.options.agent is not None:
                caller = with_agent(caller, served.config(), self.options.agent)
            project = served.within(caller.connections)
            return Call(project, self.options, _progress(context), asked_by=caller, is_remote=self.is_remote)

        reads_files = self.options.agent is not None if user is None else user.known_as.connections is not None
        if not reads_files:
            return made()
        return await anyio.to_thread.run_sync(made)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor

        def run(call: Call) -> types.ListResourcesResult:
            account = self.account(call.identity)
            account.admit()
            found = prompts.resource_page(_readable(call).project, cursor)
            account.settle(size=len(found.model_dump_json(by_alias=True, exclude_none=True).encode()))
            return found

        return await self._read(context, run)

    async def _list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(prompts.TEMPLATES))

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, privacy = str(params.uri), self.options.privacy

        def run(call: Call) -> types.ReadResourceResult:
            account = self.account(call.identity)
            account.admit()
            found = prompts.resource_text(_readable(call), uri, privacy=privacy)
            account.settle(size=size_of(found))
            return found

        return await self._read(context, run)

    async def _list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=list(prompts.PROMPTS))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._read(context, lambda call: prompts.filled(params.name, params.arguments or {}))

    async def _read(self, context: Context, run: Callable[[Call], Read]) -> Read:
        """Return the result of `run` in a thread; raises its error in the protocol's form, with code and hint in
        `data`.
        """
        try:
            with self._project_in_use() as project:
                call = await self._call(context, project)
                kept = call.keeping_project(lambda: run(call))
                async with self._slots_of(context):
                    return await anyio.to_thread.run_sync(kept, abandon_on_cancel=True, limiter=self._slots())
        except KtxError as error:
            data = error_data(self._shown(error))
            raise MCPError(_PROTOCOL.get(error.code, types.INVALID_PARAMS), data["message"], data) from None
        except Exception as problem:  # its message may contain anything; the log has it
            log.exception("could not read a resource or prompt")
            raise MCPError(types.INTERNAL_ERROR, f"failed unexpectedly: {type(problem).__name__}") from None

    def _shown(self, error: KtxError) -> KtxError:
        return for_caller(error, self.project) if self.is_remote else error

    def _slots(self) -> anyio.CapacityLimiter:
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        return self._limit

    def _slots_of(self, context: Context) -> contextlib.AbstractAsyncContextManager[Any]:
        """Return what lets a person wait for their own calls first, whatever agents ask for them."""
        user = user_of(context)
        if user is None:
            return contextlib.nullcontext()
        person = user.known_as.issuer, user.known_as.subject
        return self._limits.setdefault(person, anyio.CapacityLimiter(AT_ONCE_OF_ONE))


def user_of(context: Context) -> KnownUser | None:
    """Return the user of the access token with which a request was sent, if any."""
    scope = getattr(context.request, "scope", None)
    user = scope.get("user") if isinstance(scope, Mapping) else None
    return user if isinstance(user, KnownUser) else None


async def measure_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Export each request as a span and a duration: its method, the tool, and the code of an error.

    A client may send the `traceparent` of its own span in `_meta`; otherwise, each request is a trace of its own.
    """
    if ctx.request_id is None or not is_exporting():
        return await call_next(ctx)
    attributes = {"mcp.method.name": ctx.method}
    if ctx.method == "tools/call":
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str((ctx.params or {}).get("name"))}
    parent = (ctx.meta or {}).get("traceparent")
    with operation(
        "mcp",
        kind="server",
        metric="mcp.server.operation.duration",
        attributes=attributes,
        parent=parent if isinstance(parent, str) else None,
    ) as current:
        result = await call_next(ctx)
        if ctx.method == "tools/call" and (code := outcome_of(result)) != "ok":
            current.fail(code)
        return result


CLIENT_GONE: Final = "ktx.client_gone"
"""The key in the scope of an HTTP request for the event that its client has disconnected."""


async def _cancel_when_gone(context: Context, call: anyio.CancelScope) -> None:
    """Cancel a call whose HTTP client disconnects: nobody can receive its answer, because no answers are stored."""
    scope = getattr(context.request, "scope", None)
    gone = scope.get(CLIENT_GONE) if isinstance(scope, Mapping) else None
    if isinstance(gone, anyio.Event):
        await gone.wait()
        call.cancel()


def _open_to(caller: CallerIdentity, tools: Mapping[str, ServerTool]) -> Mapping[str, ServerTool]:
    """Return the tools that a caller may call."""
    return {name: tool for name, tool in tools.items() if caller.may_call(name, writes=tool.writes)}


def _readable(call: Call) -> Call:
    """Return a call that may read resources: they contain what `context_read` returns."""
    if not call.identity.may_call("context_read"):
        raise UsageError("there are no resources", hint="use the tools of this server")
    return call


def offered(options: Options) -> dict[str, ServerTool]:
    """Return the tools of a server by name, whether or not it lists them."""
    from ktx_cli.mcp.tools import TOOLS

    return {each.name: each for each in TOOLS if not (options.read_only and each.writes)}


def listed(
    options: Options, tools: Mapping[str, ServerTool], project: ServedProject | None = None
) -> dict[str, ServerTool]:
    """Return the tools that the profile of a server lists, in its order, without those that no connection needs."""
    from ktx_cli.mcp.tools import PROFILES

    known = (tools[name] for name in PROFILES[options.profile] if name in tools)
    return {
        each.name: each for each in known if not each.pipelines or (project is not None and project.runs_pipelines())
    }


def _definition(tool: ServerTool, *, answers: bool) -> types.Tool:
    """Return a tool as a client lists it; `answers` adds the schema of its answer, which no model needs."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema() if answers else None,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=False if tool.writes else None,
            idempotent_hint=tool.idempotent if tool.writes else None,
            open_world_hint=tool.open_world,
        ),
    )


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=None if answer.data is None else dict(answer.data),
        is_error=answer.error is not None,
    )


def _progress(context: Context) -> Callable[[float, str], None]:
    """Return the function with which a tool's thread reports progress to the client."""

    def report(progress: float, message: str) -> None:
        with contextlib.suppress(anyio.RunFinishedError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            anyio.from_thread.run(context.session.report_progress, progress, 1.0, message)  # unless nobody receives it

    return report


def outcome_of(result: Any) -> str:
    """Return `ok`, or the code of the error in an answer."""
    if isinstance(result, types.CallToolResult) and not result.is_error:
        return "ok"
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    if not data.get("isError"):
        return "ok"
    try:
        return str(json.loads(data["content"][0]["text"])["error"]["code"])
    except (LookupError, TypeError, ValueError):
        return "error"


def size_of(result: Any) -> int:
    """Return the bytes of the texts in an answer."""
    data = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True)
    parts = [*(data.get("content") or ()), *(data.get("contents") or ())]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))
