"""The contract of every command: data on stdout, the rest on stderr, one JSON envelope, one table of exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.cli.help import OWN, OwnCommand, OwnCommandOfIds

if TYPE_CHECKING:
    from ktx_cli.core import Emit, Event
    from ktx_cli.project import KtxConfig, Layout, Mount, Mounts

import contextlib
import functools
import inspect
import itertools
import json
import logging
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import typer
from typer.core import TyperGroup

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Lines, render_plain, render_pretty, wrapped
from ktx_cli.cli.help import HelpCommand, HelpGroup, ProjectPlace, command_of, runnable
from ktx_cli.cli.settings import COMMON_OPTIONS, ProgressMode, Settings, current_folder, use_colour
from ktx_cli.core import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_READER_GONE,
    CancelledError,
    Command,
    Hint,
    KtxError,
    ResultWarning,
    Severity,
    UsageError,
    did_you_mean,
    internal_error,
    listing,
    one_line,
    shell_words,
)
from ktx_cli.project import mask

_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Control characters and line separators that JSON does not require to be escaped."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(slots=True)
class Result:
    """The result of a command function.

    `data` is the JSON answer; `blocks` is its human-readable form, or `text` unchanged (CSV, YAML); `notes` are lines
    about it for stderr. `error` accompanies data if the command found a problem (doctor) or finished only in part;
    `next_steps` are useful next commands. `is_report`: the blocks report what was done or checked, and `--quiet` prints
    nothing if all is well.
    """

    data: Any = None
    blocks: Sequence[Block] = ()
    error: KtxError | None = None
    next_steps: Sequence[str] = ()
    text: str | None = None
    notes: Sequence[str] = ()
    is_report: bool = False


@dataclass(slots=True)
class Session:
    """One invocation of a command: its settings, warnings and event listeners.

    `ending`: what is done after it. `listeners` receive its events too; `concluding` receive its answer before it is
    printed, and may still warn. `mount`: the project it runs on, if the one of the command line mounts it.
    """

    name: str
    settings: Settings
    warnings: list[ResultWarning] = field(default_factory=list)
    project: Path | None = None
    ending: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    listeners: list[Emit] = field(default_factory=list)
    concluding: list[Callable[[Result], None]] = field(default_factory=list)
    mount: Mount | None = None
    _mounts: Mounts | None = None

    @property
    def place(self) -> ProjectPlace:
        """Makes the commands in hints work on the project of this invocation."""
        typed, folder = self.settings.project_dir, None
        if typed is not None:
            folder = Path(typed)
        elif self.project is not None and self.project != current_folder():
            folder = self.project
        return ProjectPlace(typed, folder)

    def warn(self, *warnings: ResultWarning) -> None:
        """Add warnings to the answer; they are printed at the end of the command."""
        self.warnings.extend(warning for warning in warnings if warning not in self.warnings)

    def emitter(self) -> Emit:
        """Return the function that shows events in the `--progress` format until the command ends."""
        from ktx_cli.cli.progress import drawing

        shown = drawing(self.settings)
        self.ending.callback(shown.close)
        if not self.listeners:
            return shown.emit

        def observe(event: Event) -> None:
            for emit in (shown.emit, *self.listeners):
                emit(event)

        return observe

    def find_project(self) -> Path | None:
        """Return the project folder, or None if there is none."""
        from ktx_cli.project import find_project

        return find_project(self.settings.project_dir, os.environ, current_folder())

    def require_project(self) -> Path:
        """Return the project folder; raises `NoProjectError` if there is none."""
        from ktx_cli.project import require_project

        self.project = require_project(self.settings.project_dir, os.environ, current_folder())
        return self.project

    def load_project(self, *, with_mounts: bool = False) -> tuple[Layout, KtxConfig]:
        """Return the paths and the configuration of the project, whose warnings become the command's.

        `with_mounts`: the command reads mounted projects too; otherwise a note says that it does not.
        """
        from ktx_cli.project import Layout, load_config

        layout = Layout(self.require_project())
        loaded = load_config(layout.config)
        self.warn(*loaded.notices())
        if loaded.config.mounts and not (with_mounts or self.mount):
            self._warn_of_mounts(loaded.config)
        return layout, loaded.config

    def require_own_project(self) -> Path:
        """Return the project folder; if it has mounts, add a note that the command ignores them."""
        from ktx_cli.project import Layout

        folder = self.require_project()
        config = self._config_with_mounts(Layout(folder))
        if config is not None:
            self._warn_of_mounts(config)
        return folder

    def _warn_of_mounts(self, config: KtxConfig) -> None:
        from ktx_cli.project import mount_folder

        first = next(iter(config.mounts.values()))
        folder = self._shown_folder(mount_folder(self.project or self.require_project(), first))
        message = f"this command only works on this project, not on its mounts: {listing(config.mounts)}"
        hint = Hint("add --project-dir {} to run it on one of them", shell_words(folder))
        self.warn(ResultWarning("mounts_left_out", message, hint=hint))

    def _config_with_mounts(self, layout: Layout) -> KtxConfig | None:
        """Return the settings of a project with mounts, or None for any other, and for a mounted one.

        For most projects, this only reads the text of `ktx.yaml`.
        """
        from ktx_cli.project import read_bytes

        text = None if self.mount else read_bytes(layout.config)
        if text is None or b"mounts" not in text:
            return None
        from ktx_cli.project import load_config

        config = load_config(layout.config, text).config
        return config if config.mounts else None

    def mounts(self) -> Mounts | None:
        """Return the mounts of the project, with a warning for each that cannot be read, or None if there are none.

        A mounted project counts as one without mounts: its own mounts are not followed.
        """
        from ktx_cli.project import Layout

        if self._mounts is not None:
            return self._mounts
        folder = self.find_project()
        config = None if folder is None else self._config_with_mounts(Layout(folder))
        if folder is None or config is None:
            return None
        from ktx_cli.project import load_mounts

        found = load_mounts(Layout(folder), config)
        self.warn(*found.warnings())
        typed = {name: replace(each, typed=self._shown_folder(each.layout.root)) for name, each in found.usable.items()}
        self._mounts = replace(found, usable=typed)
        return self._mounts

    def qualified(self, name: str) -> str:
        """Return the command line's name for an id or a key of the current project."""
        return name if self.mount is None else self.mount.qualified(name)

    def shown_path(self, path: str) -> str:
        """Return a project file's path relative to the folder of the command line's project."""
        return path if self.mount is None else self.mount.shown_path(path)

    def run_in(self, mount: Mount, run: Callable[[Session], Result]) -> Result:
        """Return the answer of a command that runs on a mounted project.

        Commands in its hints, warnings and errors work on that project, from the folder of this command line.
        """
        settings = replace(self.settings, project_dir=mount.typed)
        inner = Session(self.name, settings, ending=self.ending, listeners=self.listeners, mount=mount)
        try:
            result = _placed(inner, run(inner))
            if result.error is not None:
                result.error.message = f"mount `{mount.name}`: {result.error.message}"
            return result
        except KtxError as error:
            error.message = f"mount `{mount.name}`: {error.message}"
            error.hint = inner.place.command(error.hint) if error.hint else None
            raise
        finally:
            for each in inner.warnings:
                each.suggest(inner.place.command(each.hint) if each.hint else None)
                self.warn(mount.warning(each))

    def run_at(
        self,
        connection: str | None,
        run: Callable[[Session, str | None], Result],
        *,
        asks: Literal["layer", "database", "project"] = "layer",
    ) -> Result:
        """Return the answer of a command about one connection, run on the project that contains it.

        `asks`: the default without an id: the only semantic layer, the only database, or all of the named project.
        """
        mounts = self.mounts()
        if mounts is None:
            return run(self, connection)
        if asks == "project":
            mount, own = (None, None) if connection is None else mounts.split(connection)
        else:
            from ktx_cli.jobs.semantic.layers import choose_mounted

            mount, own = choose_mounted(mounts, connection, databases=asks == "database")
        return run(self, own) if mount is None else self.run_in(mount, lambda inner: run(inner, own or None))

    def run_all(
        self, connection: str | None, run: Callable[[Session, str | None], Result]
    ) -> list[tuple[Mount | None, Result]]:
        """Return the answers of the project (None) and of all its mounts, or only of the one that contains the
        connection.
        """
        mounts = self.mounts()
        if mounts is None:
            return [(None, run(self, connection))]
        mount, own = (None, None) if connection is None else mounts.split(connection)
        chosen: list[Mount | None] = [mount] if connection is not None else [None, *mounts.usable.values()]
        return [
            (each, run(self, own) if each is None else self.run_in(each, lambda inner: run(inner, own or None)))
            for each in chosen
        ]

    def run_each(self, connection: str | None, run: Callable[[Session, str | None], Result]) -> Result:
        """Return the answer of a project report, with one report for each of its mounts.

        `data` is that of the project, with `mounts`: name -> `data` and `error` of each. If `connection` belongs to a
        mount, the answer is only of that project.
        """
        mounts = self.mounts()
        if mounts is None or connection is not None:
            return self.run_at(connection, run, asks="project")
        own = run(self, None)
        found: dict[str, dict[str, Any]] = {}
        blocks, errors, steps = [*own.blocks], [own.error], [*own.next_steps]
        for name in mounts.config.mounts:
            try:
                result = self.run_in(mounts.find(name), lambda inner: run(inner, None))
            except KtxError as error:
                result = Result(error=error)
            found[name] = {"data": result.data, "error": result.error and result.error.to_json()}
            blocks += [Lines(("", f"{name}: {mounts.config.mounts[name]}")), *result.blocks]
            errors.append(result.error)
            steps += result.next_steps
        data = {**own.data, "mounts": found}
        failure = combined([each for each in errors if each is not None])
        return Result(data, blocks, failure, steps, notes=own.notes, is_report=own.is_report)

    @staticmethod
    def _shown_folder(folder: Path) -> str:
        """Return a folder as a user would type it: relative if it is inside the current folder."""
        here = current_folder()
        return str(folder.relative_to(here)) if folder.is_relative_to(here) and folder != here else str(folder)

    def confirm(self, question: str) -> None:
        """Return if the user confirms (with `--yes` or at the prompt); otherwise raise `CancelledError`."""
        if self.settings.yes:
            return
        if not self.settings.interactive:
            raise UsageError(f"confirmation required: {question}", hint="add --yes")
        if not typer.confirm(question, err=True):
            raise CancelledError("not confirmed, so nothing was changed")


def combined(errors: Sequence[KtxError]) -> KtxError | None:
    """Return the failures of several parts of a command as one error, or None if there are none."""
    if len(errors) < 2:
        return errors[0] if errors else None
    same = {error.code for error in errors}
    code = same.pop() if len(same) == 1 else "failed"
    return KtxError(listing((error.message for error in errors), 3), hint=errors[0].hint, code=code)


def _close_stores(session: Session) -> None:
    """Close the stores of semantic layers that the command read, if any."""
    if "ktx_cli.semantic.store.reader" in sys.modules:
        from ktx_cli.semantic import close_stores

        session.warn(*close_stores())


def envelope(name: str, result: Result, warnings: Sequence[ResultWarning]) -> dict[str, Any]:
    """Return the JSON envelope of a command's answer."""
    return {
        "schema": f"ktx/{name}/v1",
        "ok": result.error is None,
        "data": result.data,
        "warnings": [warning.to_json() for warning in warnings],
        "error": None if result.error is None else result.error.to_json(),
    }


def command(
    app: typer.Typer, name: str, *, schema: str | None = None, hidden: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Register a function `(session, ...options) -> Result` as a command that follows the contract.

    `schema` names the envelope if the command is in a group (`connection-list`).
    """

    def register(function: Callable[..., Result]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            given = Settings(**{option: values.pop(option) for option in COMMON_OPTIONS})
            base = ctx.find_root().obj
            settings = given.over(base) if isinstance(base, Settings) else given
            session = Session(schema or name, settings)
            code = execute(session, functools.partial(function, **values))
            if code != EXIT_OK:
                raise typer.Exit(code)

        run.__signature__ = _signature(function)  # type: ignore[attr-defined]
        app.command(name, cls=HelpCommand, hidden=hidden)(run)
        return run

    return register


def _signature(function: Callable[..., Result]) -> inspect.Signature:
    own = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
    parameters += [p.replace(kind=keyword) for p in list(own.parameters.values())[1:]]
    parameters += [
        inspect.Parameter(name, keyword, annotation=annotation, default=default)
        for name, (annotation, default) in COMMON_OPTIONS.items()
    ]
    return own.replace(parameters=parameters, return_annotation=None)


def execute(session: Session, function: Callable[[Session], Result]) -> int:
    """Run a command function, print its answer, return the exit code.

    Exports telemetry if the environment names a collector.
    """
    from ktx_cli.telemetry import is_requested

    if not is_requested(os.environ):
        return _execute(session, function)
    from ktx_cli.telemetry import StepSpans, begin_command, end_command, start

    session.warn(*start(os.environ))
    begin_command(session.name)
    steps, errors, code = StepSpans(), [], EXIT_FAILED
    session.listeners.append(steps)
    session.concluding.append(lambda result: errors.append(result.error.code) if result.error is not None else None)
    try:
        code = _execute(session, function)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else EXIT_OK
        raise
    finally:
        steps.close()
        problem = end_command(code, errors[0] if errors else None)
        if problem is not None and not (session.settings.quiet or session.settings.json):
            with contextlib.suppress(streams.ReaderGoneError):
                _note("warning", problem, "check that the collector accepts OTLP over HTTP")
    return code


def _execute(session: Session, function: Callable[[Session], Result]) -> int:
    if session.settings.json and session.settings.plain:
        return finish(
            session, Result(error=UsageError("--json and --plain are mutually exclusive", hint="remove one of them"))
        )
    try:
        with shown_log() if session.settings.debug else contextlib.nullcontext(), session.ending:
            session.ending.callback(_close_stores, session)
            with _waited_for(session):
                result = function(session)
    except streams.ReaderGoneError:
        return EXIT_READER_GONE
    except KtxError as error:
        _debug(session)
        if error.details.get("mount"):  # it says of that mount what the warning says of any
            session.warnings = [each for each in session.warnings if each.code != "mounts_left_out"]
        result = Result(error=error)
    except KeyboardInterrupt:
        _debug(session)
        result = Result(error=CancelledError("interrupted", hint="run the same command again"))
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug still keeps the contract
        _debug(session)
        hint = "run the command again with --debug to see the traceback"
        result = Result(error=internal_error(error, hint=hint))
    return finish(session, result)


_WAITED_FOR: Final = frozenset(
    {
        *("connection-list", "connection-test", "diff", "doctor", "index", "lint", "pack", "search", "sl-list"),
        *("sl-query", "sl-read", "sl-test", "sl-validate", "sql", "status", "usage", "wiki-lint"),
    }
)
"""Commands that neither prompt nor show progress until they are done."""

_PATIENCE, _REDRAWN = 2.0, 0.25
"""Seconds until a terminal shows that a command is working, and between two updates."""


@contextlib.contextmanager
def _waited_for(session: Session) -> Iterator[None]:
    """Show an animated line on a terminal while a command takes noticeably long."""
    settings = session.settings
    silent = settings.quiet or settings.json or settings.plain or settings.progress not in (None, ProgressMode.AUTO)
    if session.name not in _WAITED_FOR or silent or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    import threading

    done = threading.Event()

    def draw() -> None:
        started = time.monotonic()
        if done.wait(_PATIENCE):
            return
        for sign in itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"):
            seconds = int(time.monotonic() - started)
            streams.write_err(f"\r\x1b[K{sign} ktx {session.name.replace('-', ' ')} · {seconds} s")
            if done.wait(_REDRAWN):
                break
        streams.write_err("\r\x1b[K")

    drawer = threading.Thread(target=draw, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        done.set()
        drawer.join()


def finish(session: Session, result: Result) -> int:
    """Print the answer in the requested format and return the exit code."""
    result = _placed(session, result)
    for conclude in session.concluding:
        conclude(result)
    try:
        _print_data(session, result)
    except streams.ReaderGoneError:
        return EXIT_READER_GONE
    except streams.OutputError as error:
        return _output_lost(error)
    _print_notes(session, result)
    return result.error.exit_code if result.error is not None else EXIT_OK


def _placed(session: Session, result: Result) -> Result:
    """Return the answer with hints and next steps that work in the current folder; warnings are changed in place."""
    place = session.place
    for warning in session.warnings:
        warning.suggest(place.command(warning.hint) if warning.hint else None)
    if result.error is not None and result.error.hint:
        result.error.hint = place.command(result.error.hint)
    if place.typed is None and place.folder is None:
        return result
    steps = [place.command(step) for step in result.next_steps]
    return replace(result, data=place.data(result.data), next_steps=steps, notes=place.data(result.notes))


def _output_lost(error: streams.OutputError) -> int:
    _note("error", error.message, error.hint)
    return error.exit_code


def _print_data(session: Session, result: Result) -> None:
    settings = session.settings
    if settings.json:
        document = envelope(session.name, result, session.warnings)
        streams.write_out(json_line(document))
    elif settings.quiet and result.is_report and result.error is None:
        return
    elif result.text is not None:
        streams.write_out(_obeyed_by_no_terminal(result.text) if sys.stdout.isatty() else result.text)
    elif result.blocks and settings.pretty:
        streams.write_out(render_pretty(result.blocks, colour=use_colour(sys.stdout)))
    elif result.blocks:
        streams.write_out(render_plain(result.blocks))


def json_line(value: Any) -> str:
    """Return a value as one line of JSON that no terminal obeys."""
    text = json.dumps(value, ensure_ascii=not streams.stdout_speaks_utf8(), default=str)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _obeyed_by_no_terminal(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def _print_notes(session: Session, result: Result) -> None:
    settings = session.settings
    if not settings.quiet and not settings.json:
        if result.notes:
            lines = ("".join(c if c.isprintable() else " " for c in note) for note in result.notes)
            shown = [part for line in lines for part in _below_itself(line)]
            streams.write_err(render_plain([Lines(tuple(shown))]))
        for warning in session.warnings:
            if not _says(result.error, warning):
                kind = "note" if warning.severity is Severity.INFO else "warning"
                _note(kind, warning.message, warning.hint)
    if result.error is not None:
        if not settings.json:
            _note("error", result.error.message, result.error.hint)
    elif result.next_steps and not settings.quiet and not settings.json:
        for step in result.next_steps:
            streams.write_err(f"next: {runnable(step)}\n")


def _says(error: KtxError | None, warning: ResultWarning) -> bool:
    """Return whether the error printed next has the same message and hint as a warning."""
    return error is not None and warning.message in error.message and (warning.hint or "") in (error.hint or "")


def _note(kind: str, message: str, hint: str | None) -> None:
    label = f"{kind}:"
    first, *more = _fitted(f"{label} {one_line(message, 2000)}")
    if use_colour(sys.stderr):
        first = f"\x1b[1;{31 if kind == 'error' else 33}m{label}\x1b[0m{first.removeprefix(label)}"
    streams.write_err("".join(f"{line}\n" for line in (first, *more)))
    if hint:
        text = runnable(hint)
        lines = [f"hint: {text}"] if isinstance(hint, Command) else _fitted(f"hint: {text}")
        streams.write_err("".join(f"{line}\n" for line in lines))


def _fitted(text: str, indent: int = 0) -> list[str]:
    """Return the lines of a note: one, or as many as the terminal needs, indented by `indent` columns.

    No command in it is broken.
    """
    if not sys.stderr.isatty():
        return [text]
    return wrapped(text, shutil.get_terminal_size((100, 24)).columns - indent, indent="  ", commands=True)


def _below_itself(note: str) -> list[str]:
    """Return the lines of a note; continuation lines align with the start of its text."""
    text = note.lstrip(" ")
    start = " " * (len(note) - len(text))
    lines = _fitted(text, len(start))
    return [start + line for line in lines]


def _debug(session: Session) -> None:
    if session.settings.debug:
        streams.write_err(shown(traceback.format_exc()))


class ContractGroup(HelpGroup):
    """The root group: turns usage errors, closed pipes and interrupts into the contract's errors."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit with the contract's code."""
        argv = _with_wait_values(list(args) if args is not None else sys.argv[1:])
        name = prog_name or "ktx"
        if f"_{name.upper()}_COMPLETE" in os.environ:
            from ktx_cli.cli.commands.completion import prepare

            prepare()
        self._main_shell_completion(extra, name, complete_var)
        sys.exit(self._run(argv, name, extra))

    def _run(self, argv: list[str], name: str, extra: dict[str, Any]) -> int:
        options = argv[: argv.index("--")] if "--" in argv else argv
        session = Session("cli", Settings(json="--json" in options, debug="--debug" in options))
        try:
            if sys.flags.optimize > 1:
                message = "Python is running without docstrings, which are the help of commands and of agent tools"
                raise UsageError(message, hint="run Python without `-OO`, and unset PYTHONOPTIMIZE")
            return self._dispatch(session, argv, name, extra)
        except (BrokenPipeError, streams.ReaderGoneError):
            streams.silence_stdout()
            return EXIT_READER_GONE
        except streams.OutputError as error:
            return _output_lost(error)
        except KtxError as error:
            return finish(session, Result(error=error))
        except OSError as error:  # typer writes the text of --help itself
            return _output_lost(streams.output_error(error))

    def _dispatch(self, session: Session, argv: list[str], name: str, extra: dict[str, Any]) -> int:
        code = EXIT_OK
        try:
            with self.make_context(name, list(argv), **extra) as ctx:
                self.invoke(ctx)
        except typer.Exit as stop:
            code = stop.exit_code
        except typer.TyperException as error:
            if type(error).__name__ != "NoArgsIsHelpError":
                return finish(Session(_schema_of(error), session.settings), Result(error=_usage_error(error)))
            show_group(error.ctx, as_json=session.settings.json)  # type: ignore[attr-defined]
        except (typer.Abort, KeyboardInterrupt):
            return finish(session, Result(error=CancelledError("interrupted")))
        streams.write_out("")
        return code


def show_group(ctx: typer.Context, *, as_json: bool) -> None:
    """Print the help of a group without a command; raises `UsageError` if JSON was requested."""
    if as_json:
        raise UsageError("a command is missing", hint=_help_hint(ctx))
    streams.write_out(ctx.get_help().rstrip() + "\n")


def _with_wait_values(argv: list[str]) -> list[str]:
    """Return the arguments with a value for every `--wait`: the number after it, or else `inf`.

    In typer, an option always has a value or never.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    return [
        "--wait=inf"
        if word == "--wait" and place < end and not _NUMBER.fullmatch("".join(argv[place + 1 : place + 2]))
        else word
        for place, word in enumerate(argv)
    ]


def _schema_of(error: typer.TyperException) -> str:
    """Return a name such as `connection-list` for an error inside a command, or `cli` before a command is known."""
    ctx = getattr(error, "ctx", None)
    if ctx is None or isinstance(ctx.command, TyperGroup):
        return "cli"
    return "-".join(ctx.command_path.split()[1:]) or "cli"


def _usage_error(error: typer.TyperException) -> UsageError:
    ctx = getattr(error, "ctx", None)
    # for an unknown option, typer's own message lists options by name, not by similarity
    option = getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None
    message = f"no such option: {one_line(option, 60)}" if option else error.format_message().strip().rstrip(".")
    message = " ".join(message.split())
    hint = getattr(error, "hint", None) or _help_hint(ctx)
    if ctx is not None and option:
        near = _near_option(option, _options_of(ctx))
        hint = f"did you mean `{near}`?" if near else hint
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _help_hint(ctx: Any) -> Command:
    return Command("--help") if ctx is None else command_of(ctx, "--help")


def _near_option(option: str, known: Sequence[str]) -> str | None:
    """Return the option that was probably meant: the one with that name elsewhere, or the most similar one."""
    namesake = _OPTIONS_ELSEWHERE.get(option)
    if namesake in known:
        return namesake
    near = did_you_mean(option.lstrip("-"), [each.lstrip("-") for each in known])
    return None if near is None else f"--{near}"


_OPTIONS_ELSEWHERE: Final = {
    "--where": "--filter",
    "--metric": "--measure",
    "--metrics": "--measure",
    "--measures": "--measure",
    "--group-by": "--dimension",
    "--dimensions": "--dimension",
    "--order": "--order-by",
    "--sort": "--order-by",
    "--start-time": "--from",
    "--end-time": "--to",
}
"""Options for the same in SQL and in the command lines of semantic layers, such as `mf query` and `dbt sl query`."""


def _options_of(ctx: Any) -> list[str]:
    return [name for parameter in ctx.command.get_params(ctx) for name in parameter.opts if name.startswith("--")]


class _StandardError(logging.Handler):
    """Writes records to stderr, with secrets masked and control characters made harmless."""

    def emit(self, record: logging.LogRecord) -> None:
        streams.write_err(shown(self.format(record)) + "\n")


def shown(text: str) -> str:
    """Return printable text: without resolved secrets and terminal control characters."""
    return harmless(mask(text))


def harmless(text: str) -> str:
    """Return text in which no character can control a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in text)


@contextlib.contextmanager
def shown_log() -> Iterator[None]:
    """Show ktx's log messages, from the given level up, while a command runs."""
    logger, handler = logging.getLogger("ktx_cli"), _StandardError()
    handler.setFormatter(logging.Formatter("debug: %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def own_command(
    commands: typer.Typer, *, schema: str, ids: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Register a function as the group's own command, as `contract.command` does.

    `schema` names the envelope. `ids`: its words are ids of connections, not free text.
    """

    def register(function: Callable[..., Result]) -> Callable[..., None]:
        run = command(commands, OWN, schema=schema)(function)
        commands.registered_commands[-1].cls = OwnCommandOfIds if ids else OwnCommand
        return run

    return register
