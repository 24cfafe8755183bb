"""What every row of the table of sources is: a project's source with its own server or repository, that can fail."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ktx_cli.testing.servers import RecordingPostgresServer
from tests.sources.git_server import GitServer, Repository, serve
from tests.sources.web_site import Asked, Reply, WebSite


@dataclass(frozen=True)
class World:
    """What a row may use: the folder of the project, a web site, a Postgres server that keeps its statements.

    `stack`: closes what the row opened. `setenv`: sets a variable for the test.
    """

    folder: Path
    site: WebSite
    postgres: Callable[[], RecordingPostgresServer]
    stack: ExitStack
    setenv: Callable[[str, str], None]


class Row(ABC):
    """A source of a project.

    `kind`: its name in the registry of sources. `connection`: where the report has it. `files`, `units`: of the first
    run; `fetched`: files the first run counts as fetched, where that is not all. `always`: those that every run reads.
    `again`: the requests of a run when nothing changed, `one`: those that come on top for each change.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    connection: ClassVar[str] = "src"
    files: ClassVar[int]
    units: ClassVar[int]
    fetched: ClassVar[int | None] = None
    always: ClassVar[int] = 0
    again: ClassVar[Mapping[str, int]] = {}
    one: ClassVar[Mapping[str, int]] = {}
    is_complete: ClassVar[bool] = True
    troubles: ClassVar[tuple[str, ...]] = ("error", "cut")
    """How its fetch can fail."""
    projects: ClassVar[bool] = True
    """Whether something is written without a model."""

    def __init__(self, world: World) -> None:
        self.world, self.folder, self.site = world, world.folder, world.site
        self.edition = 0

    @abstractmethod
    def connections(self) -> dict[str, Any]:
        """Return what the row adds to the connections of `ktx.yaml`."""

    @abstractmethod
    def change(self) -> set[str]:
        """Change one thing, and return the raw files that are of it."""

    @abstractmethod
    def change_more(self) -> set[str]:
        """Change several things, so that a fetch can fail in the middle of them."""

    @abstractmethod
    def trouble(self, how: str | None) -> None:
        """Let what is asked for fail in the middle (`error`: 500, `cut`: the connection ends), or be well again."""

    def requests(self) -> Counter[str]:
        """Return the requests since the last call by what they ask, ids left out."""
        return Counter()

    def expected(self, changes: int) -> Counter[str]:
        """Return the requests of a run that finds so many things changed."""
        return Counter(self.again) + Counter({what: count * changes for what, count in self.one.items()})


class LocalRow(Row):
    """A folder on disk: it can only be there or not."""

    troubles = ("error",)
    place: ClassVar[str]

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            target = self.folder / self.place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def trouble(self, how: str | None) -> None:
        here, away = self.folder / self.place, self.folder / f"{self.place}-away"
        if how is not None and here.exists():
            here.rename(away)
        elif how is None and away.exists():
            away.rename(here)


class GitRow(Row):
    """A repository behind git's own HTTP server."""

    again: ClassVar[Mapping[str, int]] = {"GET info/refs": 1, "POST upload-pack": 1}
    one: ClassVar[Mapping[str, int]] = {"GET info/refs": 1, "POST upload-pack": 2}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        served = world.folder.parent / "served"
        self.repository = Repository(served / "team", "trunk")
        self.server: GitServer = world.stack.enter_context(serve(served))
        self.url = f"{self.server.url}/team/.git"
        self._seen = 0

    def trouble(self, how: str | None) -> None:
        self.server.trouble = how

    def expected(self, changes: int) -> Counter[str]:
        return super().expected(min(changes, 1))

    def requests(self) -> Counter[str]:
        new = self.server.requests[self._seen :]
        self._seen = len(self.server.requests)
        shown = (f"{method} {'info/refs' if 'info/refs' in path else 'upload-pack'}" for method, path, _ in new)
        return Counter(shown)


class WebRow(Row):
    """A service over HTTP. `content`: the paths whose second one fails in a fetch that has trouble."""

    content: ClassVar[str]
    shapes: ClassVar[Mapping[str, str]]
    """Regular expression of a path -> how the table calls it."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.site.forget()
        self._how: str | None = None
        self._good: str | None = None

    def serve(self, answer: Callable[[Asked], Any]) -> None:
        """Answer as a double says, with or without its troubles."""

        def answers(asked: Asked) -> Reply | None:
            found = answer(asked)
            reply = found if isinstance(found, Reply) or found is None else Reply(found)
            return self._troubled(asked, reply)

        self.site.answers = answers

    def _troubled(self, asked: Asked, reply: Reply | None) -> Reply | None:
        if self._how is None or not re.fullmatch(self.content, asked.path):
            return reply
        self._good = self._good or asked.path
        if asked.path == self._good:
            return reply
        return Reply({"message": "it is broken"}, 500) if self._how == "error" else Reply(b"x" * 500, cut=20)

    def trouble(self, how: str | None) -> None:
        self._how, self._good = how, None

    def requests(self) -> Counter[str]:
        asked = [*self.site.asked]
        self.site.asked.clear()
        return Counter(f"{each.method} {self._shape(each.path)}" for each in asked)

    def _shape(self, path: str) -> str:
        return next((shown for shape, shown in self.shapes.items() if re.fullmatch(shape, path)), path)
