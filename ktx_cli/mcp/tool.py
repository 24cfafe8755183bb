"""What a tool of the server is: its place in the contract, and the one function below it that it calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.serving.attributes import attributes_of_caller
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.jobs.serving.watching import Stop, Watch

Item = TypeVar("Item")

Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="Where to begin: `next_offset` of the page before.")]
Connection = Annotated[str, Field(max_length=200, description="Id of a connection, as connection_list has it.")]
User = Annotated[
    str,
    Field(max_length=200, description="Id of a user whose own pages count too; they come before everybody's."),
]


class Input(BaseModel):
    """The arguments of a tool; one it does not have is an error, which the agent reads."""

    model_config = ConfigDict(extra="forbid")


class Output(BaseModel):
    """The answer of a tool."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

    verbatim: ClassVar[frozenset[str]] = frozenset()
    """Fields whose texts are values of rows, and given as they are: in all others hidden characters are shown."""

    warnings: list[str] = Field(default_factory=list, description="What to know before the answer is used.")


class Paged(Output):
    """An answer that comes in pages; `part` names the list or the text that is cut."""

    part: ClassVar[str]

    truncated: bool = Field(False, description="There is more than this answer holds.")
    next_offset: int | None = Field(None, description="`offset` of the next page; null: this was the last.")


@dataclass(frozen=True, slots=True)
class Options:
    """How a server was started.

    `read_only`: without the tools that write. `privacy`: values of rows stay here. `attributes`: of the caller, for row
    policies.
    """

    read_only: bool = False
    privacy: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Call:
    """One call of a tool, while it lasts. `said`: how far it is, from 0 to 1, and doing what."""

    project: ServedProject
    options: Options
    said: Callable[[float, str], None] = lambda progress, message: None
    stopped: Stop = field(default_factory=Stop)

    def check(self) -> None:
        """Raise `CancelledError` where the client does not wait any more."""
        self.watch.check()

    @property
    def attributes(self) -> dict[str, Any]:
        """On whose behalf this call asks: as the server was started and `ktx.yaml` has it now."""
        config = self.project.config()
        return attributes_of_caller(config.mcp.user_attributes, self.options.attributes)

    @property
    def watch(self) -> Watch:
        """What a long question of the floors below tells, and asks."""
        return Watch(self.stopped, self.said)


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool. `run` is called in a thread, with an instance of the input; it returns one of the output.

    `writes`: it changes the project, or lets something run that does. `offset` of a paged answer is an argument of that
    name.
    """

    name: str
    title: str
    description: str
    input_model: type[Input]
    output_model: type[Output]
    run: Callable[[Call, Any], Output]
    writes: bool = False
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return _schema(self.input_model, "validation")

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the answer."""
        return _schema(self.output_model, "serialization")


def told(warnings: Iterable[ResultWarning]) -> list[str]:
    """Return warnings as an answer carries them, each once."""
    return list(dict.fromkeys(visible(each.message + (f" ({each.hint})" if each.hint else "")) for each in warnings))


def shown(value: Any) -> Any:
    """Return data with the hidden characters of all its texts shown; the same again when it is done twice."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): shown(each) for key, each in value.items()}
    return [shown(each) for each in value] if isinstance(value, list | tuple) else value


def page_of(items: Sequence[Item], offset: int, limit: int) -> dict[str, Any]:
    """Return a page of a list, as the fields `items`, `truncated` and `next_offset`."""
    more = offset + limit < len(items)
    kept = list(items[offset : offset + limit])
    return {"items": kept, "truncated": more, "next_offset": offset + limit if more else None}


@functools.cache
def _schema(model: type[BaseModel], mode: Any) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(model.model_json_schema(mode=mode))
    return schema


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles pydantic makes of names: they say nothing new."""
    if isinstance(schema, Mapping):
        return {
            key: {name: _without_titles(each) for name, each in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema
