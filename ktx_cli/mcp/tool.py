"""A tool of the server: its input and output schemas, and the function that runs it."""

from __future__ import annotations

import functools
import json
import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar, get_args, get_type_hints

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ktx_cli.agent_tools import visible
from ktx_cli.core import (
    CancelledError,
    Command,
    Hint,
    KtxError,
    ResultWarning,
    SettingPath,
    UsageError,
    did_you_mean,
    listing,
    monotonic,
)
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.ask import Stop, Watch
from ktx_cli.jobs.serve.caller import Account, CallerIdentity
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.project import connection_of

if TYPE_CHECKING:
    from ktx_cli.project import Mount, Mounts
    from ktx_cli.semantic import Caller

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="`next_offset` of the previous page.")]
Connection = Annotated[str, Field(max_length=200, description="Connection id, from context_status.")]
User = Annotated[str, Field(max_length=200, description="User id: include this user's own pages, before shared ones.")]


class Input(BaseModel):
    """The arguments of a tool. An unknown argument is an error that the agent reads."""

    model_config = ConfigDict(extra="forbid")


class Output(BaseModel):
    """The answer from a tool."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

    verbatim: ClassVar[frozenset[str]] = frozenset()
    """Fields that contain row values, returned unchanged. In all other fields, hidden characters are made visible."""

    warnings: list[str] = Field(default_factory=list, description="Read these before you use the answer.")


class Paged(Output):
    """An answer that is split into pages. `part` is the name of the list or text that is cut."""

    part: ClassVar[str]

    truncated: bool = Field(False, description="True if the answer was cut and more is available.")
    next_offset: int | None = Field(None, description="`offset` of the next page; null on the last page.")


@dataclass(frozen=True, slots=True)
class Options:
    """The options a server was started with.

    `read_only`: offer no tools that write. `privacy`: never return row values. `attributes`: the attributes of the
    caller, used by row policies and masks. `profile`: the set of tools that is listed. `agent`: the agent in
    `serving.agents` that asks. An access token replaces `attributes` and `agent`.
    """

    read_only: bool = False
    privacy: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile = Profile.DEFAULT
    agent: str | None = None


@dataclass(slots=True)
class Call:
    """One tool call in progress. `report` is called with the progress from 0 to 1 and a message.

    `asked_by`: the caller; None for the one that the options of the server describe. `mounts`: the mounted projects,
    for a tool that covers all of them. `mount`: the mount that this project is, if any. `is_remote`: the caller has no
    access to the machine of the server.
    """

    project: ServedProject
    options: Options
    report: Callable[[float, str], None] = lambda progress, message: None
    stopped: Stop = field(default_factory=Stop)
    mounts: Mounts | None = None
    mount: Mount | None = None
    asked_by: CallerIdentity | None = None
    is_remote: bool = False

    def within(self, mount: Mount | None) -> Call:
        """Return this call for one of its projects, or for the root alone if None."""
        project = self.project if mount is None else self.project.mounted(mount)
        return replace(self, project=project, mounts=None, mount=mount)

    def each(self) -> list[Call]:
        """Return this call for each of its projects, the root first."""
        return [self] if self.mounts is None else [self.within(mount) for mount, _, _ in self.mounts.projects()]

    def split(self, name: str) -> tuple[Mount | None, str]:
        """Return the mounted project (None for the root) that a page or connection belongs to, and its name there."""
        if self.mount is not None:
            return self.mount, name.removeprefix(self.mount.qualified(""))
        return (None, name) if self.mounts is None else self.mounts.split_page(name)

    def named(self, name: str) -> str:
        """Return the agent's name for one of the project's connections or pages."""
        return name if self.mount is None or not name else self.mount.qualified(name)

    @property
    def identity(self) -> CallerIdentity:
        """The caller, from an access token or from the options of the server."""
        return self.asked_by or CallerIdentity(self.options.attributes)

    @property
    def caller(self) -> Caller:
        """The person for whom the call is answered, and the agent that makes it; policies must hold for both."""
        return self.identity.caller(self.project.config())

    def user(self, asked: str | None) -> str | None:
        """Return the user that a call names; raises `UsageError` if it is not the user of this server.

        The attribute `id` of the caller identifies that user. Without it, a call may name any user, unless an access
        token identifies the caller.
        """
        own = self.caller.values_of("id")
        if asked is not None and not own and self.identity.has_token:
            hint = (
                "omit `user`; to allow it, whoever runs this server maps a claim to `id` in serving.identity.attributes"
            )
            raise UsageError("this server does not know whose pages you may read", hint=hint)
        if asked is not None and own and {str(each) for each in own} != {asked}:
            hint = f"omit `user`, or use {own[0]}" if len(own) == 1 else "omit `user`"
            raise UsageError("this server provides only the pages of its own user", hint=hint)
        return asked

    def keeping_project(self, run: Callable[[], Result]) -> Callable[[], Result]:
        """Return a function that keeps the project open while it runs, also after its call was cancelled."""

        def running() -> Result:
            with self.project.calls.use() as granted:
                if not granted:
                    raise CancelledError("the project was closed before the call began")
                return run()

        return running

    def shown_error(self, error: KtxError) -> KtxError:
        """Return an error as the caller may see it; see `for_caller`."""
        return for_caller(error, self.project) if self.is_remote else error

    def shown_hint(self, hint: str | None, *, is_of_server: bool = False) -> str | None:
        """Return a hint that the caller can follow. `is_of_server`: only whoever runs the server can follow it."""
        if not self.is_remote or not hint:
            return hint
        return ASK if is_of_server else hint_for_caller(hint)

    def shown_note(self, note: str) -> str:
        """Return a note as the caller may see it: without what only whoever runs the server can do."""
        kept, is_whole = _kept_clauses(note)
        return "; ".join(kept) if self.is_remote and not is_whole else str(note)

    def shown_text(self, text: str) -> str:
        """Return a text about the server as the caller may see it: without the paths of its files."""
        return _PATH.sub(_last_name, text) if self.is_remote else text

    @property
    def watch(self) -> Watch:
        """Watches this call: reports progress and stops the work when the client has cancelled the call."""
        return Watch(self.stopped, self.report)


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool. `run` is called in a thread with an instance of the input model and returns one of the output model.

    `writes`: the tool changes the project, or starts a run that does. A paged tool has an argument `offset`. `takes`:
    the name of a tool with the same arguments, so that they are not listed a second time. `pipelines`: the tool is only
    listed if a connection runs aggregation pipelines. `queries`: a call counts as a query. `reach`: what the tool
    covers at a root with mounts: the root's own project, the project of one layer or database, or all projects
    together.
    """

    name: str
    title: str
    description: str
    input_model: type[Input]
    output_model: type[Output]
    run: Callable[[Call, Any], Output]
    writes: bool = False
    idempotent: bool = True
    open_world: bool = False
    takes: str | None = None
    pipelines: bool = False
    queries: bool = False
    reach: Literal["own", "layer", "database", "all"] = "own"

    def answer(self, call: Call, value: Any) -> Output:
        """Return the answer to a call, from the mounted project that the arguments name, if any."""
        mounts = call.project.mounts()
        if mounts is None:
            return self.run(call, value)
        call.user(getattr(value, "user", None))  # whom the root refuses to name, no mount names
        output = self._reaching(replace(call, mounts=mounts), mounts, value)
        output.warnings += warning_texts(call, mounts.warnings(), are_of_server=True)
        return output

    def _reaching(self, call: Call, mounts: Mounts, value: Any) -> Output:
        connection = getattr(value, "connection", None)
        if self.reach == "own":
            for named in filter(None, (connection, *(getattr(value, "connections", None) or ()))):
                if mounts.split(named)[0] is not None:
                    connection_of(mounts.config, named)  # refuses it
            return self.run(call.within(None), value)
        if self.reach == "all":
            mount, own = (None, None) if connection is None else mounts.split(connection)
        else:
            from ktx_cli.jobs.semantic.layers import choose_mounted

            mount, own = choose_mounted(mounts, connection, databases=self.reach == "database")
        if mount is None and own is None:
            return self.run(call, value)
        try:
            return self.run(call.within(mount), value.model_copy(update={"connection": own or None}))
        except KtxError as error:
            if mount is not None:
                error.message = f"mount `{mount.name}`: {error.message}"
                error.details["mount"] = mount.name
            raise

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, kept short because a client's model reads it in every session.

        Length limits are not part of it; a call that exceeds one fails with an error that states the limit.
        """
        if self.takes is not None:
            return {"type": "object", "description": f"The arguments of {self.takes}.", "properties": {}}
        return _arguments_schema(self.input_model)

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the answer."""
        return _answer_schema(self.output_model)


def tool(title: str, **traits: Any) -> Callable[[Callable[[Call, Any], Output]], ServerTool]:
    """Turn a function into a tool, from its name, its docstring (which the model reads) and its type annotations."""

    def made(run: Callable[[Call, Any], Output]) -> ServerTool:
        types = get_type_hints(run)
        description = " ".join((run.__doc__ or "").split())
        return ServerTool(run.__name__, title, description, types["value"], types["return"], run, **traits)

    return made


def warning_texts(call: Call, warnings: Iterable[ResultWarning], *, are_of_server: bool = False) -> list[str]:
    """Return the text of warnings for an answer, without duplicates.

    A caller over HTTP gets them without what only whoever runs the server can do, which is logged. `are_of_server`:
    their messages name files of its machine.
    """
    found: dict[str, None] = {}
    for each in warnings:
        hint = call.shown_hint(each.hint)
        if hint != each.hint:
            LOGGED.warning(log, f"{each.code}: {each.message} (hint: {each.hint})")
        message = each.message
        if call.is_remote and each.cause is not None:
            message = message.replace(each.cause.message, call.shown_error(each.cause).message)
        message = call.shown_text(message) if are_of_server else message
        text = visible(message + (f" ({hint})" if hint else ""))
        found[_without_folders(text, call.project) if call.is_remote else text] = None
    return list(found)


def reveal_hidden(value: Any) -> Any:
    """Return data with the hidden characters in all its strings made visible. Applying it twice changes nothing."""
    return _with_texts(value, visible)


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _with_texts(each, change) for key, each in value.items()}
    return [_with_texts(each, change) for each in value] if isinstance(value, list | tuple) else value


def page_of(part: str, items: Sequence[Any], offset: int, limit: int | None = None) -> dict[str, Any]:
    """Return a page of a list as the fields of a `Paged` answer; without a limit, everything from `offset` on."""
    end = len(items) if limit is None else offset + limit
    more = end < len(items)
    return {part: list(items[offset:end]), "truncated": more, "next_offset": end if more else None}


@functools.cache
def _arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(mode="validation")
    short: dict[str, Any] = _shortened({key: each for key, each in schema.items() if key != "$defs"}, schema)
    return {key: each for key, each in short.items() if key != "description"}


_LENGTHS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})


def _shortened(schema: Any, whole: Mapping[str, Any]) -> Any:
    """Return a schema of arguments without titles, lengths, references, null or meaningless defaults."""
    if isinstance(schema, list):
        return [_shortened(each, whole) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return _shortened({**whole["$defs"][schema["$ref"].rpartition("/")[2]], **_without(schema, {"$ref"})}, whole)
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        return _shortened({**kinds[0], **_without(schema, {"anyOf"})}, whole)
    kept = _without(schema, {"title", *_LENGTHS} | ({"default"} if not schema.get("default") else set()))
    if kinds:
        kept["anyOf"] = kinds
    return {
        key: {name: _shortened(field, whole) for name, field in each.items()}
        if key == "properties"
        else each
        if key == "default"
        else _shortened(each, whole)
        for key, each in kept.items()
    }


def _without(schema: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key not in keys}


@functools.cache
def _answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(model.model_json_schema(mode="serialization"))
    return schema


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic derives from names, which add nothing."""
    if isinstance(schema, Mapping):
        return {
            key: {name: _without_titles(each) for name, each in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema


LONGEST: Final = 24_000
"""Maximum number of characters of an answer as JSON: about 7,000 tokens."""

_LINE_WARNINGS: Final = 2_000


def fit_answer(output: Output, offset: int = 0) -> dict[str, Any]:
    """Return an answer as JSON, cut to the budget; `offset` is the start of its page.

    Raises `KtxError` if the part that cannot be cut is too long.
    """
    dumps = output.model_dump(mode="json", by_alias=True)
    data = {name: each if name in output.verbatim else reveal_hidden(each) for name, each in dumps.items()}
    data["warnings"] = _short(data["warnings"])
    over = len(compact_json(data)) - LONGEST
    if over <= 0:
        return data
    if not isinstance(output, Paged):
        raise _too_long(len(compact_json(data)))
    whole = data[output.part]
    kept = _most(data, output.part, whole)
    if kept == 0:
        raise _too_long(len(compact_json(data)))
    data[output.part] = whole[:kept]
    data["truncated"], data["next_offset"] = True, offset + kept
    return data


def compact_json(data: Any) -> str:
    """Return an answer as the compact JSON text that an agent reads."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _most(data: dict[str, Any], part: str, whole: Any) -> int:
    """Return how many items (or characters) from the beginning fit."""
    room = LONGEST - len(compact_json({**data, part: whole[:0]})) - 40
    if isinstance(whole, str):
        return _most_text(whole, room)
    kept = 0
    for item in whole:
        room -= len(compact_json(item)) + 1
        if room < 0:
            break
        kept += 1
    return kept


def _most_text(whole: str, room: int) -> int:
    """Return how many characters fit as JSON, up to the end of a line if there is one."""
    kept = min(len(whole), max(room, 0))
    while kept and len(compact_json(whole[:kept])) > room + 2:
        kept = min(kept - 1, int(kept * (room + 2) / len(compact_json(whole[:kept]))))
    line = whole.rfind("\n", 0, kept) + 1
    return line if line > kept // 2 else kept


def _short(warnings: list[str]) -> list[str]:
    room = _LINE_WARNINGS
    for place, each in enumerate(warnings):
        room -= len(each)
        if room < 0:
            return [*warnings[:place], f"and {len(warnings) - place} more warnings"]
    return warnings


def _too_long(length: int) -> KtxError:
    message = f"the answer has {length:,} characters; the limit is {LONGEST:,}"
    return KtxError(message, hint="request less at once: fewer columns, names or values", code="context")


ASK: Final = "ask whoever runs this server"
_LATER: Final = dict.fromkeys(("busy", "overloaded"), "try again in a few minutes")

_OF_THE_SERVER: Final[Mapping[str, str | None]] = {
    "auth": "a model backend rejected the credentials of this server",
    "billing": "a model backend rejected the account of this server",
    "busy": "another process is using what this call needs",
    "config": "the settings of this server are invalid",
    "connection": "a database or service that this server needs cannot be reached",
    "git": "the git repository of this server cannot be used",
    "git_missing": "this server has no git",
    "isolation": "this server cannot run its model backend in isolation",
    "model": "the model of this server is not available",
    "no_backend": None,
    "no_project": "this server has no project",
    "not_ready": "this server is not ready",
    "not_supported": None,
    "overloaded": "a model backend is overloaded",
    "secret": "a secret of this server cannot be resolved",
    "storage": "the files or the state of this server cannot be read or written",
}
"""Codes of errors that no caller can fix: about the files, settings, secrets and connections of the server.

The message for callers does not name its hosts, users, folders and settings; None for errors whose message does not.
"""

_PATH: Final = re.compile(r"(?<![\w.:/~<-])(?:/[\w.@+~-]+){2,}/?")


def for_caller(error: KtxError, project: ServedProject) -> KtxError:
    """Return an error as somebody without access to the server may see it.

    Such callers get neither the commands and settings of whoever runs the server, nor paths, hosts and users of its
    machine and databases. An error that only that person can fix is logged as it was; others, about what a caller
    asked, can contain values.
    """
    is_of_server = error.code in _OF_THE_SERVER
    message = _message_for_caller(error)
    message = _PATH.sub(_last_name, message) if is_of_server else _without_folders(message, project)
    kept, is_whole = _kept_clauses(error.hint)
    hint: str | None = error.hint if is_whole else "; ".join([*kept, ASK])
    if error.code == "connection":  # a statement may also be too much for it
        hint = "; ".join([*kept, ASK])
    elif is_of_server:
        hint = _LATER.get(error.code, ASK)
    details = {} if is_of_server else _with_texts(error.details, lambda text: _without_folders(text, project))
    if is_of_server or not is_whole:
        LOGGED.warning(log, f"{error.code}: {error.message}" + (f" (hint: {error.hint})" if error.hint else ""))
    return KtxError(message, hint=hint, details=details, code=error.code)


def _message_for_caller(error: KtxError) -> str:
    """Return the message of an error: of a connection its name and not its place, and of the server only the kind."""
    message, connection = _OF_THE_SERVER.get(error.code), error.details.get("connection")
    if message is None:
        return error.message.replace(error.where, error.where.partition(" (")[0]) if error.where else error.message
    if error.code == "connection" and connection is not None:
        message = f"the database of connection `{connection}` cannot be reached"
    mount = error.details.get("mount")
    return message if mount is None else f"mount `{mount}`: {message}"


def hint_for_caller(hint: str | None) -> str | None:
    """Return a hint without what only whoever runs the server can do: its clauses with a command or a setting."""
    kept, is_whole = _kept_clauses(hint)
    return hint if is_whole else "; ".join([*kept, ASK])


def _kept_clauses(hint: str | None) -> tuple[list[str], bool]:
    """Return the clauses of a hint that a caller can follow, and whether these are all."""
    clauses: list[list[str]] = [[]]
    for part in () if hint is None else Hint(hint).parts:
        first, *more = [part] if isinstance(part, Command | SettingPath) else part.split(";")
        clauses[-1].append(first)
        clauses += [[each] for each in more]
    kept = [each for each in clauses if not any(isinstance(part, Command | SettingPath) for part in each)]
    return [text for each in kept if (text := "".join(each).strip(" :,"))], len(kept) == len(clauses)


def _last_name(path: re.Match[str]) -> str:
    return path[0].rstrip("/").rpartition("/")[2]


def _without_folders(text: str, project: ServedProject) -> str:
    """Return a text with paths below the folders of a project as they are within it."""
    for folder in sorted(map(str, project.folders()), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.:/~-]){re.escape(folder)}(?![\w.-])/?", "", text)
    return text


@dataclass(slots=True)
class LimitedLog:
    """Logs what requests cause: each line at most once in `seconds`, and few lines, so that no caller fills the log."""

    seconds: float = 60.0
    most: int = 20
    _at: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def warning(self, log: logging.Logger, text: str) -> None:
        """Log a warning, unless it was logged a moment ago."""
        moment = monotonic()
        with self._lock:
            self._at = {each: at for each, at in self._at.items() if moment - at < self.seconds}
            if text in self._at or len(self._at) >= self.most:
                return
            self._at[text] = moment
        log.warning("%s", text)


LOGGED: Final = LimitedLog()

_LONGEST_TEXT: Final = 3_000
_LONGEST_DETAILS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call: `data` in the form of the output schema, or the error."""

    data: Mapping[str, Any] | None = None
    error: KtxError | None = None

    @property
    def text(self) -> str:
        """The answer as text for the agent."""
        return compact_json(self.data if self.error is None else {"error": error_data(self.error)})


def error_data(error: KtxError) -> dict[str, Any]:
    """Return an error as JSON, with hidden characters made visible; details that are too long are omitted."""
    data: dict[str, Any] = reveal_hidden(error.to_json())
    data |= {key: data[key] and data[key][:_LONGEST_TEXT] for key in ("message", "hint")}
    if len(compact_json(data["details"])) > _LONGEST_DETAILS:
        data["details"] = {}
    return data


async def call_tool(
    tools: Mapping[str, ServerTool],
    name: str,
    arguments: Mapping[str, Any],
    call: Call,
    limit: anyio.CapacityLimiter,
    account: Account,
) -> ToolAnswer:
    """Return the answer to a call; a failure is also returned as an answer. Cancelling returns immediately.

    The text of every answer counts, also that of an error, which may contain values: with an error, a query counts as
    one row.
    """
    tool = tools.get(name)
    is_query = tool is not None and tool.queries

    def run() -> ToolAnswer:
        try:
            account.admit(queries=int(is_query))
            answer, has_run = _answered(tools, name, arguments, call)
            if not call.stopped.is_set():  # otherwise, nobody receives it
                rows = _rows_in(answer.data or {}) if answer.error is None else int(has_run)
                size = len(answer.text.encode("utf-8", "surrogatepass"))
                account.settle(rows=rows if is_query else 0, size=size)
        except KtxError as error:
            return ToolAnswer(error=call.shown_error(error))
        return answer

    return await anyio.to_thread.run_sync(call.keeping_project(run), abandon_on_cancel=True, limiter=limit)


def _rows_in(data: Mapping[str, Any]) -> int:
    """Return how many rows of values an answer contains: the grand total is one, whether or not rows are included."""
    return len(data.get("rows") or ()) + bool(data.get("totals"))


def _no_tool(name: str, tools: Mapping[str, ServerTool], options: Options) -> UsageError:
    from ktx_cli.mcp.tools import TOOLS

    near = did_you_mean(name[:100], tools)
    hint = f"did you mean `{near}`?" if near else f"available tools: {listing(tools, 30)}"
    if options.read_only and any(each.name == name and each.writes for each in TOOLS):
        hint = "this server is read-only; ask whoever runs it where you can change the context"
    return UsageError(f"there is no tool `{name[:100]}`", hint=hint)


def _answered(
    tools: Mapping[str, ServerTool], name: str, arguments: Mapping[str, Any], call: Call
) -> tuple[ToolAnswer, bool]:
    """Return the answer to a call, and whether its tool has run."""
    has_run = False
    try:
        tool = tools.get(name)
        if tool is None:
            raise _no_tool(name, tools, call.options)
        if tool.writes and not call.identity.may_write:
            hint = "ask for a token with the scopes in serving.identity.write_scopes"
            raise KtxError(f"the access token does not allow {name}", hint=hint, code="permission")
        value = _checked(tool, arguments)
        has_run = True
        return ToolAnswer(fit_answer(tool.answer(call, value), getattr(value, "offset", 0))), True
    except KtxError as error:
        missing = error.details.get("attribute") if error.code == "policy" else None
        if missing is not None and call.identity.has_token:
            error.hint = (
                "the access token does not contain it; whoever runs this server can map a claim to it in "
                f"serving.identity.attributes.{missing}"
            )
        return ToolAnswer(error=call.shown_error(error)), has_run
    except Exception as problem:  # a bug must not end the session of the agent
        log.exception("the tool %s failed", name)
        internal = KtxError(f"{name} failed unexpectedly: {type(problem).__name__}", code="internal")
        return ToolAnswer(error=internal), has_run


def _checked(tool: ServerTool, arguments: Mapping[str, Any]) -> Any:
    try:
        return tool.input_model.model_validate(dict(arguments))
    except ValidationError as error:
        places = ((_place_of(each["loc"], arguments), _INSTANCE.sub("", each["msg"])) for each in error.errors())
        found = [f"{place}: {what}"[:300] for place, what in places]
        message = f"invalid arguments for {tool.name}: {'; '.join(found[:10])}"
        raise UsageError(message, hint=_hint(tool, error, arguments), details={"issues": found[:50]}) from None


def _hint(tool: ServerTool, error: ValidationError, arguments: Mapping[str, Any]) -> str:
    """Return the argument that was probably meant, what a wrong one takes, the keys of an object, or all arguments."""
    extra = [each["loc"] for each in error.errors() if each["type"] == "extra_forbidden"]
    below = next((loc for loc in extra if len(loc) > 1), None)
    known = () if below is None else _keys_of(tool.input_model, below[:-1])
    if below is not None and known and all(loc[:-1] == below[:-1] for loc in extra):
        return f"`{_place_of(below[:-1], arguments)}` takes: {listing(known, 40)}"
    unknown = [str(loc[-1]) for loc in extra]
    near = [(each, found) for each in unknown if (found := did_you_mean(each[:100], tool.input_model.model_fields))]
    if near:
        return "; ".join(f"instead of `{each[:100]}`, did you mean `{found}`?" for each, found in near[:5])
    fields = tool.input_model.model_fields
    wrong = [each["loc"][0] for each in error.errors() if each["loc"] and each["loc"][0] in fields]
    described = [(key, fields[str(key)].description) for key in dict.fromkeys(wrong)]
    if described and not extra and all(text for _, text in described):
        return "; ".join(f"`{key}`: {text}" for key, text in described[:3])
    return f"arguments: {listing(fields, 40) or 'none'}"


_INSTANCE: Final = re.compile(r" or instance of \w+")
_TYPE: Final = re.compile(r"[A-Z]\w*|.*[-\[].*|str|int|float|bool")
"""The name of a type in the place of an error: `AskedRange`, `constrained-str`, `list[...]`, `int`."""


def _place_of(loc: Sequence[str | int], arguments: Mapping[str, Any]) -> str:
    """Return a place in the arguments, without the names of types."""
    kept: list[str] = []
    value: Any = arguments
    for step in loc:
        known = value if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
        if step in known:
            value = value[step]
        elif kept and _TYPE.fullmatch(str(step)):
            continue
        kept.append(str(step))
    return ".".join(kept) or "arguments"


def _keys_of(model: type[BaseModel], loc: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys of an object in the arguments, or none if it has no fixed keys."""
    found: type[BaseModel] = model
    for step in loc:
        field = found.model_fields.get(str(step))
        if field is None:  # the position in a list, or the name of one of several models
            continue
        below = [each for each in _models_in(field.annotation) if each.__name__ in loc] or _models_in(field.annotation)
        if len(below) != 1:
            return ()
        found = below[0]
    return () if found is model else tuple(found.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for each in get_args(annotation) for model in _models_in(each)]
