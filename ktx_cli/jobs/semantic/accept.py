"""`ktx sl accept`: accepts or certifies definitions in one commit in the person's name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    BusyError,
    Command,
    Emit,
    Hint,
    NotReadyError,
    Placeholder,
    Record,
    ResultWarning,
    UsageError,
    ignore_events,
    listing,
    nearest_name,
    new_run_id,
    now,
    one_line,
    plural,
)
from ktx_cli.jobs.decide.draft import own_definition
from ktx_cli.jobs.semantic.layers import selected_layers
from ktx_cli.jobs.semantic.statuses import drift_of, refresh_statuses
from ktx_cli.project import (
    DECIDED_BY,
    OWNERS_NAME,
    SCHEMA_NAME,
    KtxConfig,
    Layout,
    Repository,
    append_value,
    delete_value,
    hold_run_lock,
    require_whole,
    set_value,
)
from ktx_cli.scan import AuthoredSources, empty_overlay
from ktx_cli.semantic import (
    MOST_COMMITS,
    Accepted,
    Definition,
    DefinitionKind,
    DefinitionStatus,
    Moves,
    SemanticError,
    Status,
    Statuses,
    Used,
    accepted_in,
    compile_query,
    declared_definitions,
    definition_text,
    is_weaker,
    items_in,
    last_accepted,
    load_layer,
    owners_in,
    recorded_tests,
    used_definitions,
)

if TYPE_CHECKING:
    from ktx_cli.project import FileCommit, RunLock, TreeView
    from ktx_cli.semantic import Model, Owners, RecordedTest

COMMAND: Final = Command("sl", "accept")
_LISTS: Final = {DefinitionKind.MEASURE: "measures", DefinitionKind.SEGMENT: "segments", DefinitionKind.JOIN: "joins"}
"""The overlay lists to which manifest definitions are copied."""


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """The definitions to accept: `SOURCE` (all its definitions), `SOURCE.NAME` or `SOURCE -> JOIN`.

    `certify` certifies them, optionally until `review_by`. `owner` is recorded as their owner.
    """

    layout: Layout
    config: KtxConfig
    names: Sequence[str]
    connection: str | None = None
    certify: bool = False
    owner: str | None = None
    review_by: date | None = None
    wait_seconds: float = 0.0
    emit: Emit = ignore_events

    @property
    def level(self) -> Status:
        """The new status of the definitions."""
        return Status.CERTIFIED if self.certify else Status.ACCEPTED


@dataclass(frozen=True, slots=True)
class WaitingDefinition(Record):
    """A definition that nobody has accepted in its current form."""

    connection: str
    path: str | None
    state: DefinitionStatus

    json_keys = ("connection", "definition=state.name", "kind=state.definition.kind", "path", "why=state.why")


def waiting_definitions(layout: Layout, config: KtxConfig, connection: str | None) -> list[WaitingDefinition]:
    """Return the definitions that can be accepted, according to the last run that read the git history."""
    found = []
    for each in selected_layers(layout, config, connection):
        model = load_layer(layout, config, each)
        statuses = Statuses(layout, model.connection, model.dialect)
        for source in model.sources.values():
            states = ((used, statuses.of(used)) for used in declared_definitions(source) if used.path is not None)
            found += [
                WaitingDefinition(model.connection, used.path, state)
                for used, state in states
                if state.status is Status.PROPOSED
            ]
    return found


@dataclass(frozen=True, slots=True)
class Acceptance(Record):
    """A definition to accept, with the facts for the decision.

    `path` is the file of the definition, and `state` its status before. `diff` compares it with its last accepted form,
    in the commit `since`, or contains the whole definition. `weaker` are definitions that it uses and whose status is
    below `level`.
    """

    connection: str
    definition: Definition
    path: str
    level: Status
    state: DefinitionStatus
    diff: tuple[str, ...] = ()
    since: FileCommit | None = None
    weaker: tuple[DefinitionStatus, ...] = ()
    tests: tuple[RecordedTest, ...] = ()
    is_changed: bool = True
    """False if the definition already has the status, so that nothing is written."""

    @property
    def name(self) -> str:
        """The name of the definition in messages."""
        return str(self.definition)

    @property
    def accepted_before(self) -> str | None:
        """The commit that last accepted another form of the definition."""
        return None if self.since is None else self.since.commit

    json_keys = (
        *("connection", "definition=name", "kind=definition.kind", "path", "status=level", "before=state.status"),
        *("why=state.why", "diff", "accepted_before", "weaker", "tests", "changed=is_changed"),
    )


@dataclass(slots=True)
class AcceptPlan:
    """The plan for an acceptance. `changes` maps paths to new contents on top of the commit `base`."""

    person: tuple[str, str]
    base: str
    items: list[Acceptance] = field(default_factory=list)
    changes: dict[str, bytes] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The person in git format."""
        return f"{self.person[0]} <{self.person[1]}>"

    @property
    def accepted(self) -> list[Acceptance]:
        """The definitions whose status changes."""
        return [each for each in self.items if each.is_changed]


@dataclass(slots=True)
class AcceptReport:
    """The result of an acceptance. `after` are the new statuses. `commit` is None if nothing was committed."""

    plan: AcceptPlan
    commit: str | None = None
    files: tuple[str, ...] = ()
    after: list[DefinitionStatus] = field(default_factory=list)
    warnings: list[ResultWarning] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "person": self.plan.signature,
            "definitions": [each.to_json() for each in self.plan.items],
            "files": list(self.files),
            "commit": self.commit,
            "after": [each.to_json() for each in self.after],
        }


@dataclass(frozen=True, slots=True)
class _Chosen:
    model: Model
    used: Used


def plan_acceptance(request: AcceptRequest) -> AcceptPlan:
    """Plan the acceptance of the named definitions, without writing anything.

    Raises `NotReadyError` without a repository or a commit, and `UsageError` if a name matches no or several
    definitions, if the person may not accept it or if the definition cannot be accepted. See `docs/concepts/status.md`.
    """
    repository = Repository.discover(request.layout.root)
    base = None if repository is None else repository.head().commit
    if repository is None or base is None:
        raise NotReadyError(
            "the repository has no commits yet, and ktx records in git who accepts a definition",
            hint="make a first commit, then run the command again",
        )
    repository.check_writable()
    return _Planner(request, repository, base).plan()


def accept(request: AcceptRequest, plan: AcceptPlan) -> AcceptReport:
    """Commit a plan. Other edits of the person and the index do not change.

    Raises `BusyError` if the branch has moved since the plan, and `PartialError` if a file has edits.
    """
    report = AcceptReport(plan)
    if not plan.accepted:
        return report
    repository = Repository.discover(request.layout.root)
    assert repository is not None, "a plan has one"
    with hold_run_lock(
        request.layout,
        run_id=new_run_id(),
        command=COMMAND,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=report.warnings.append,
    ) as (lock, _):
        repository.recover()
        result = repository.commit(
            plan.changes,
            message=_message(plan),
            base=plan.base,
            before_publish=lambda: _require_same(repository, plan, lock),
            adjust=lambda held: {},
        )
        require_whole(result, request.layout.root, "nothing was accepted")
        report.commit, report.files = result.commit, (*result.committed, *result.ignored)
        report.warnings += refresh_statuses(request.layout, request.config)
    report.after = list(_after(request, plan))
    return report


def _require_same(repository: Repository, plan: AcceptPlan, lock: RunLock) -> None:
    """Raise `BusyError` if the plan that the person saw was for another commit."""
    lock.check()
    if repository.head().commit != plan.base:
        raise BusyError("the branch has a new commit since you were prompted", hint="run the same command again")


def _message(plan: AcceptPlan) -> str:
    done = plan.accepted
    verb = "certify" if done[0].level is Status.CERTIFIED else "accept"
    what = done[0].name if len(done) == 1 else plural(len(done), "definition")
    lines = [one_line(f"{each.connection}: {verb} {each.definition.kind.value} {each.name}", 400) for each in done]
    trailer = f"{DECIDED_BY}: {one_line(plan.signature, 400)}"
    return "\n".join([one_line(f"{COMMAND}: {verb} {what}", 72), "", *lines, "", trailer, ""])


def _after(request: AcceptRequest, plan: AcceptPlan) -> Iterator[DefinitionStatus]:
    for connection in dict.fromkeys(each.connection for each in plan.accepted):
        model = load_layer(request.layout, request.config, connection)
        statuses = Statuses(request.layout, connection, model.dialect)
        wanted = {each.definition for each in plan.accepted if each.connection == connection}
        declared = (used for source in model.sources.values() for used in declared_definitions(source))
        yield from (statuses.of(used) for used in declared if used.definition in wanted)


class _Planner:
    """Builds the plan for a request."""

    def __init__(self, request: AcceptRequest, repository: Repository, base: str) -> None:
        self._request, self._repository = request, repository
        self._tree: TreeView = repository.tree(base)
        self._history = repository.history()
        self._owners: Owners = owners_in(self._tree.read(OWNERS_NAME))
        self._plan = AcceptPlan(self._person(), base)
        self._authored: dict[str, AuthoredSources] = {}
        self._commits: dict[str, tuple[list[FileCommit], dict[Definition, Accepted]]] = {}

    def plan(self) -> AcceptPlan:
        """Return the plan for a request."""
        request = self._request
        if request.review_by is not None and request.review_by <= now().date():
            raise UsageError(
                f"--review-by {request.review_by.isoformat()} is not in the future", hint="use a later date"
            )
        chosen = self._chosen()
        self._require_committed(chosen)
        for each in chosen:
            self._require_owner(each.used.definition.source)
        for each in chosen:
            self._plan.items.append(self._item(each, chosen))
        return self._plan

    def _person(self) -> tuple[str, str]:
        person = self._repository.author()
        if person is None:
            set_up = Command("config", "user.email", Placeholder("YOU@EXAMPLE.COM"), program="git")
            message = "git has no name and email address for you, and ktx records who accepts a definition"
            raise UsageError(message, hint=Hint("set user.name and user.email, for example: {}", set_up))
        return " ".join(person[0].split()), person[1]

    def _chosen(self) -> list[_Chosen]:
        """Return the named definitions without duplicates."""
        request = self._request
        connections = selected_layers(request.layout, request.config, request.connection)
        models = [load_layer(request.layout, request.config, each) for each in connections]
        known = [
            _Chosen(model, used)
            for model in models
            for source in model.sources.values()
            for used in declared_definitions(source)
        ]
        sources = {source for model in models for source in model.sources}
        found: dict[tuple[str, Definition], _Chosen] = {}
        for word in request.names:
            for each in self._named(word, known, sources):
                found.setdefault((each.model.connection, each.used.definition), each)
        return list(found.values())

    def _named(self, word: str, known: Sequence[_Chosen], sources: Iterable[str]) -> list[_Chosen]:
        exact = [each for each in known if _plain(str(each.used.definition)) == _plain(word)]
        whole = [each for each in known if each.used.definition.source == word and each.used.is_own]
        found = whole if word in sources else exact
        if not found and word in sources:
            raise UsageError(
                f"the source `{word}` has no definitions that can be accepted", hint=Command("sl", "read", word)
            )
        if not found:
            shown = one_line(word, 120)
            near = nearest_name(word, [*sources, *(str(each.used.definition) for each in known)])
            hint = COMMAND if near is None else COMMAND.with_words(near)
            raise UsageError(f"the semantic layer has no definition `{shown}`", hint=hint)
        connections = list(dict.fromkeys(each.model.connection for each in found))
        if len(connections) > 1:
            hint = COMMAND.with_words(word, "-c", connections[0])
            raise UsageError(f"`{word}` is in {len(connections)} connections: {listing(connections)}", hint=hint)
        for each in found:
            _require_acceptable(each.used, self._request.level)
        return found

    def _require_committed(self, chosen: Sequence[_Chosen]) -> None:
        """Refuse definitions in files with edits, because the commit would contain more than the person accepts."""
        paths = list(dict.fromkeys(each.used.path for each in chosen if each.used.path is not None))
        edited = self._repository.changes(paths).uncommitted if paths else ()
        if edited:
            message = f"{listing(edited)} {'has' if len(edited) == 1 else 'have'} uncommitted changes"
            hint = "commit them yourself, which accepts your changes, or discard them; then run the command again"
            raise UsageError(message, hint=hint, details={"paths": list(edited)})

    def _require_owner(self, source: str) -> None:
        """Refuse a person whose commit cannot set the status."""
        (name, email), level = self._plan.person, self._request.level
        if self._owners.has(email, source) or not (self._owners.stated or level is Status.CERTIFIED):
            return
        who = f"{name} <{email}>"
        if self._owners.stated and not self._owners.people:
            message = f"{OWNERS_NAME} lists no owners, so only signed commits count, and ktx does not sign commits"
            raise UsageError(
                message, hint="write `status: accepted` or `status: certified` yourself, then run `git commit -S`"
            )
        verb = "certify" if level is Status.CERTIFIED else "accept"
        message = f"{who} is not an owner of `{source}` in {OWNERS_NAME}, and only an owner can {verb} its definitions"
        hint = f"ask an owner, or get your email address added to {OWNERS_NAME}"
        if not self._owners.stated:
            message = f"only an owner can certify, and the project has no {OWNERS_NAME}"
            hint = f"create {OWNERS_NAME} with `owners: [{email}]` and commit it"
        raise UsageError(message, hint=hint)

    def _item(self, each: _Chosen, chosen: Sequence[_Chosen]) -> Acceptance:
        definition, connection, level = each.used.definition, each.model.connection, self._request.level
        if each.used.path is None or not each.used.is_own:
            state = DefinitionStatus(definition, each.used.claimed or Status.ACCEPTED, each.used.why)
            return Acceptance(connection, definition, each.used.path or "", level, state, is_changed=False)
        tests = tuple(recorded_tests(self._request.layout, connection).get(str(definition), ()))
        failed = [test.name for test in tests if not test.passed]
        if failed:
            message = f"the test `{failed[0]}` of `{definition}` failed, so it stays proposed regardless of its file"
            raise UsageError(message, hint=Hint("fix the definition or the test, then run {}", Command("sl", "test")))
        commits, accepted = self._history_of(each.used.path, each.model.dialect)
        state = self._state(each, accepted.get(definition))
        item = self._item_of(each)
        path = self._write(each, item, state)
        since = last_accepted(commits, each.used.path, each.model.dialect, self._owners, self._history, definition)
        others = {other.used.definition for other in chosen if other.model is each.model}
        return Acceptance(
            connection,
            definition,
            path or each.used.path,
            level,
            state,
            _diff(definition, item, since, each.used.path),
            since,
            tuple(self._weaker(each, others)),
            tests,
            path is not None,
        )

    def _history_of(self, path: str, dialect: str) -> tuple[list[FileCommit], dict[Definition, Accepted]]:
        if path not in self._commits:
            commits = self._history.of_file(path, MOST_COMMITS)
            moves = Moves(self._history, dialect)
            self._commits[path] = commits, accepted_in(commits, path, self._owners, self._history, moves)
        return self._commits[path]

    def _state(self, each: _Chosen, accepted: Accepted | None) -> DefinitionStatus:
        """Return the current status of a definition according to git."""
        definition = each.used.definition
        if each.used.claimed is not None or accepted is None:
            return DefinitionStatus(definition, each.used.claimed or Status.PROPOSED, each.used.why or "it is new")
        if accepted.commit is not None and accepted.status is not Status.PROPOSED:
            then = self._repository.tree(accepted.commit)
            drift = drift_of(each.model, definition, then, self._tree)
            if drift is not None:
                return DefinitionStatus(definition, Status.PROPOSED, drift)
        return DefinitionStatus(definition, accepted.status, accepted.why)

    def _item_of(self, each: _Chosen) -> Mapping[Any, Any]:
        """Return the definition in the committed file."""
        path, definition = each.used.path or "", each.used.definition
        for found, _, item in items_in(self._tree.read(path) or b"", path):
            if found == definition:
                return item
        raise UsageError(
            f"`{definition}` is not in the committed {path}", hint="commit the file, then run the command again"
        )

    def _write(self, each: _Chosen, item: Mapping[Any, Any], state: DefinitionStatus) -> str | None:
        """Put the status into the file of a definition; returns None if the file already contains it."""
        request = self._request
        more = {"owner": request.owner, "review_by": request.review_by and request.review_by.isoformat()}
        wanted = {key: value for key, value in more.items() if value is not None}
        says_it = all(str(item.get(key)) == value for key, value in wanted.items())
        if state.status is request.level and says_it:
            return None
        path = each.used.path or ""
        if f"/{SCHEMA_NAME}/" in path:
            return self._copy(each, {**item, **wanted})
        content = self._plan.changes.get(path, self._tree.read(path) or b"")
        steps = next(steps for found, steps, _ in items_in(content, path) if found == each.used.definition)
        if item.get("status") != request.level.value:
            content = set_value(content, (*steps, "status"), request.level.value, where=path)
        elif says_it and request.level is Status.ACCEPTED:  # git only shows an acceptance as a change; without the key,
            content = delete_value(content, (*steps, "status"), where=path)  # the file still claims `accepted`
        elif says_it:
            message = (
                f"the file of `{each.used.definition}` already sets `status: certified`, so there is nothing to commit"
            )
            raise UsageError(message, hint="add --review-by with the date of the next review")
        for key, value in wanted.items():
            content = set_value(content, (*steps, key), value, where=path)
        self._plan.changes[path] = content
        return path

    def _copy(self, each: _Chosen, item: Mapping[Any, Any]) -> str:
        """Copy a manifest definition into the overlay of its source, which scans do not change."""
        connection, definition = each.model.connection, each.used.definition
        authored = self._authored.get(connection) or AuthoredSources.read(self._tree, connection)
        self._authored[connection] = authored
        path, content = authored.overlay_file(definition.source)
        edited = self._repository.changes([path]).uncommitted
        if edited:
            raise UsageError(
                f"{path} has uncommitted changes", hint="commit or discard them, then run the command again"
            )
        text = self._plan.changes.get(path, empty_overlay(definition.source) if content is None else content)
        own = own_definition(item, self._request.level)
        self._plan.changes[path] = append_value(text, (_LISTS[definition.kind],), own, where=path)
        return path

    def _weaker(self, each: _Chosen, others: set[Definition]) -> Iterator[DefinitionStatus]:
        """Yield the definitions that a definition uses and whose status is below its new one."""
        query = _query_of(each)
        if query is None:
            return
        try:
            used = used_definitions(compile_query(each.model, query))
        except SemanticError:  # it cannot be queried alone; the receipt of an answer lists what it uses
            return
        statuses = Statuses(self._request.layout, each.model.connection, each.model.dialect)
        for one in used:
            if one.definition not in others and is_weaker((found := statuses.of(one)).status, self._request.level):
                yield found


def _plain(word: str) -> str:
    return "".join(word.split())


def _require_acceptable(used: Used, level: Status) -> None:
    """Refuse a definition that is not in a user-written file, unless it already has the status."""
    if used.is_own:
        return
    definition = used.definition
    if used.claimed is Status.PROPOSED:
        hint = Command("scan", "relationships", "--table", definition.source)
        raise UsageError(f"`{definition}` is an inferred join, which is accepted by another command", hint=hint)
    if level is Status.CERTIFIED:
        message = f"`{definition}` cannot be certified: {used.why or 'it comes from the scan of the database'}"
        raise UsageError(message, hint="define it in a file that you maintain, and certify that definition")


def _query_of(each: _Chosen) -> dict[str, Any] | None:
    """Return a query that only uses this definition."""
    definition = each.used.definition
    name = f"{definition.source}.{definition.name}"
    if definition.kind is DefinitionKind.MEASURE:
        return {"measures": [name]}
    if definition.kind is DefinitionKind.COLUMN:
        return {"dimensions": [name]}
    if definition.kind is DefinitionKind.SEGMENT:
        column = next(iter(each.model.sources[definition.source].columns), None)
        return None if column is None else {"dimensions": [f"{definition.source}.{column}"], "segments": [name]}
    return None


def _diff(definition: Definition, item: Mapping[Any, Any], since: FileCommit | None, path: str) -> tuple[str, ...]:
    """Return the diff of a definition against its accepted form, or all its lines if it was never accepted."""
    after = definition_text(definition, item).splitlines()
    if since is None or since.content is None:
        return tuple(f"  {line}" for line in after)
    before = next((each for found, _, each in items_in(since.content, path) if found == definition), {})
    lines = difflib.ndiff(definition_text(definition, before).splitlines(), after)
    return tuple(line for line in lines if not line.startswith("?"))
