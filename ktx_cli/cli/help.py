"""Help and hints: which arguments a command line accepts, and what to type next.

Help is plain text, options grouped by panel: drawing it with rich would take a third of the start-up time. A group may
be a command itself: `ktx scan shop` scans, `ktx scan diagram` is a command of the group; the first word after the
group's name decides. Hints work in the current folder: on the project of this command line, with the running `ktx`.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ktx_cli.cli.blocks import wrapped
from ktx_cli.cli.settings import PANEL, read_ourselves
from ktx_cli.core import AgentStep, Argument, Command, Hint, did_you_mean, one_line, one_line_typed, shell_words

_RANGE: Final = re.compile(r"(?:(?P<low>-?[\d.]+)<=)?x(?:>=(?P<least>-?[\d.]+))?(?:<=(?P<high>-?[\d.]+))?")
"""typer's notation for a number's limits: `x>=1`, `0<=x<=100`."""

_LONGEST_CHOICE: Final = 32
"""Maximum length of choices shown next to the option; longer lists follow its text."""

EXAMPLES: Final = "Examples:"
"""The line of a command's docstring after which every line is an example command."""


def format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments, then the options by panel, then the examples.

    The common options are listed by `ktx --help`; below each command one line says so.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        panel = getattr(parameter, "rich_help_panel", None)
        if record is None or (panel == PANEL and ctx.parent is not None):
            continue
        default = "Arguments" if parameter.param_type_name == "argument" else "Options"
        sections.setdefault(panel or default, []).append(_readable(parameter, *record))
    for title in sorted(sections, key=lambda title: (title == PANEL, title != "Arguments")):
        with formatter.section(title):
            _write_rows(formatter, sections[title])
    if examples := examples_of(command):
        with formatter.section(EXAMPLES.rstrip(":")):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
    if ctx.parent is not None:
        formatter.write_paragraph()
        formatter.write_text("Run `ktx --help` for common options such as --json, --quiet and --project-dir.")


_WIDEST_NAME: Final = 30
"""Maximum width of the column of names; the text of longer ones begins on the next line."""


def _write_rows(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Write names, each with its text. Unlike click, it never breaks a name such as `claude-code` at its hyphen."""
    margin = " " * formatter.current_indent
    start = min(max((len(name) for name, _ in rows), default=0), _WIDEST_NAME) + 2
    for name, text in rows:
        lines = wrapped(text, max(formatter.width - start - 2, 10))
        head = margin + name
        if len(name) + 2 <= start:
            head += " " * (start - len(name)) + lines.pop(0)
        formatter.write(
            "".join(f"{line.rstrip()}\n" for line in (head, *(f"{margin}{'':{start}}{each}" for each in lines)))
        )


def _readable(parameter: Any, names: str, text: str) -> tuple[str, str]:
    """Return a parameter's names and help text, with words in place of types and symbols."""
    word = "N" if "<int" in names or "<float" in names else str(parameter.name).rpartition("_")[2].upper()
    if parameter.param_type_name == "argument":
        names = re.sub(r" <[^>]*>", "", names).upper()
    else:
        names = re.sub(r"<list\[(.*)\]>", r"<\1>", names)
        choices = re.search(r"<([^>]*\|[^>]*)>", names)
        short = choices is not None and len(choices[1]) <= _LONGEST_CHOICE
        names = re.sub(r"<([^>]*)>", lambda found: found[1] if short else word, names)
        if choices is not None and not short:
            text = f"{text}  [{choices[1].replace('|', ', ')}]" if text[-1:] != "]" else text
    body, bracket, extra = text.rpartition("  [") if text.endswith("]") else (text, "", "")
    if not bracket:
        return names, text
    parts = [_limits(part) for part in extra[:-1].split("; ")]
    return names, f"{body} [{'; '.join(parts)}]"


def _limits(part: str) -> str:
    found = _RANGE.fullmatch(part)
    if found is None:
        return re.sub(r"(?<=\d)\.0$", "", part)
    low, high = found["low"] or found["least"], found["high"]
    if low is None or high is None:
        return f"at least {low}" if high is None else f"at most {int(high):,}"
    return f"{low} to {int(high):,}"


def examples_of(command: Any) -> list[str]:
    """Return the command lines below `Examples:` in a command's help."""
    below = inspect.cleandoc(command.help or "").partition(f"\n{EXAMPLES}\n")[2]
    return [line.strip() for line in below.splitlines() if line.strip()]


def _first_sentence(text: str) -> str:
    first = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s", first, maxsplit=1)[0]


def format_help_text(command: Any, ctx: Any, formatter: Any) -> None:
    """Write what a command does, without its examples."""
    text = inspect.cleandoc(command.help or "").partition(f"\n{EXAMPLES}\n")[0].strip()
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)


class HelpCommand(TyperCommand):
    """A command with grouped help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, including `--help`, which parse values as ktx does."""
        return read_ourselves(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: `RUN` or `[FOLDER]` for an argument, as in its list of arguments."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [re.sub(r"[{}]", "", piece).upper() for piece in pieces]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does; its examples follow the options."""
        format_help_text(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by panel."""
        format_options(self, ctx, formatter)


class HelpGroup(TyperGroup):
    """A group with grouped help, its commands first."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, including `--help`, with ktx's parsing of values."""
        return read_ourselves(super().get_params(ctx))

    sections: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Heading -> the commands under it; without headings, all commands are under one."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options by panel."""
        self.format_commands(ctx, formatter)
        format_options(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section, each with the first sentence of its help, unabridged."""
        names = self.list_commands(ctx)
        commands = {name: self.get_command(ctx, name) for name in names}
        shown = {name: _first_sentence(each.help or "") for name, each in commands.items() if each and not each.hidden}
        width = max((len(name) for name in shown), default=0)
        for title, wanted in (self.sections or {"Commands": names}).items():
            rows = [(f"{name:<{width}}", shown[name]) for name in wanted if name in shown]
            if rows:
                with formatter.section(title):
                    _write_rows(formatter, rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command for the first word; raises `WordError`, with the closest one, if there is none."""
        word = args[0]
        if self.get_command(ctx, word) is None and not ctx.resilient_parsing and not word.startswith("-"):
            near = did_you_mean(word, self.list_commands(ctx))
            raise WordError(f"No such command {word!r}.", hint=command_of(ctx, near or "--help"), ctx=ctx)
        return super().resolve_command(ctx, args)


class WordError(typer.BadParameter):
    """A word that is not valid in its position; `hint` says what to type."""

    def __init__(self, message: str, *, hint: str, ctx: Any) -> None:
        super().__init__(message, ctx=ctx)
        self.hint = hint

    def format_message(self) -> str:
        """Return only the message."""
        return self.message


def command_of(ctx: Any, *words: str) -> Command:
    """Return a context's command, with further words."""
    return Command(*ctx.command_path.split()[1:], *words)


OWN = "(own)"
"""The name under which the group's own command is registered; users cannot type this name."""


class OwnCommand(HelpCommand):
    """A group's own command. Its words may be free text: only the first can mean a subcommand."""

    group: HelpGroup
    takes_ids = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; raises `WordError` if one of them is a subcommand after options."""
        rest = super().parse_args(ctx, list(args))
        if not ctx.resilient_parsing:
            self._refuse_names(ctx, free="--" in args and not self.takes_ids)
        return rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage without a subcommand, then with one."""
        super().format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, self.group.subcommand_metavar, prefix="       ")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the subcommands, then arguments and options."""
        self.group.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def _refuse_names(self, ctx: Any, *, free: bool) -> None:
        words = list(self._words(ctx))
        for word in words if self.takes_ids else words[: 0 if free else 1]:
            if word in self.group.commands:
                raise self._taken(ctx, word)

    def _words(self, ctx: Any) -> Iterator[str]:
        for parameter in self.params:
            value = ctx.params.get(parameter.name) if parameter.param_type_name == "argument" else None
            yield from (value if isinstance(value, list | tuple) else [] if value is None else [str(value)])

    def _taken(self, ctx: Any, word: str) -> WordError:
        what = "it cannot be the id of a connection" if self.takes_ids else "as a subcommand, it must come first"
        message = f"`{one_line(word, 60)}` is a subcommand of `{ctx.command_path}`: {what}"
        hint: Hint = command_of(ctx, word)
        if not self.takes_ids:
            hint = Hint("{}, or to search for the word: {}", hint, command_of(ctx, "--", word))
        return WordError(message, hint=hint, ctx=ctx)


class OwnCommandOfIds(OwnCommand):
    """A group's own command that takes connection ids, none of which may be the name of a subcommand."""

    takes_ids = True


class OwnGroup(HelpGroup):
    """A group with its own command, `own`, which is not among `commands`."""

    own: OwnCommand

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        own = self.commands.pop(OWN)
        if not isinstance(own, OwnCommand):
            raise TypeError(f"the own command of {self.name} is not one")
        own.group, self.own = self, own
        self.help = own.help

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the group if a subcommand is given, or else of its own command."""
        named = args[0] in self.commands if args else bool(extra.get("resilient_parsing"))
        responsible: Any = super() if named else self.own
        word = args[0] if args else ""
        try:
            return responsible.make_context(info_name, args, parent=parent, **extra)
        except typer.TyperException as error:
            near = None if named else did_you_mean(word, self.commands)
            if type(error).__name__ != "NoSuchOption" or near is None:
                raise
            ctx = error.ctx  # type: ignore[attr-defined]
            raise WordError(f"No such command {word!r}.", hint=command_of(ctx, near), ctx=ctx) from error

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the completions of the first word: subcommands, and the arguments of the group's own command."""
        subcommands = [item for item in super().shell_complete(ctx, incomplete) if item.value in self.commands]
        own = self.own.make_context(ctx.info_name, [], parent=ctx.parent, resilient_parsing=True)
        first = next((each for each in self.own.params if each.param_type_name == "argument"), None)
        taker = self.own if incomplete.startswith("-") or first is None else first
        return subcommands + [item for item in taker.shell_complete(own, incomplete) if item.value not in self.commands]


def group(help: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(cls=HelpGroup, help=help, no_args_is_help=True, rich_markup_mode=None)


def own_group() -> typer.Typer:
    """Return a group with its own command, whose help it uses."""
    return typer.Typer(cls=OwnGroup, rich_markup_mode=None)


ELSEWHERE: Final = frozenset({"demo", "completion"})
"""Commands that do not work on a project, or take it as an argument."""

ANYWHERE: Final = frozenset({"-C", "config", "ls-remote"})
"""First words of git commands that work in any folder."""


def with_program(hint: str, argv: Sequence[str], environ: Mapping[str, str]) -> Hint:
    """Return commands that can be run as is: `ktx` becomes the path of the running ktx if that one is not on PATH.

    `argv`: the words that started this process. A ktx that was not started as a program of its own stays `ktx`.
    """
    from ktx_cli.project import found_program

    running = Path(argv[0]) if argv else Path()
    if running.name not in ("ktx", "ktx-cli") or not running.is_file():
        return Hint(hint)
    found = found_program(environ)
    if found is not None and found.samefile(running):
        return Hint(hint)
    program = os.path.abspath(running)  # noqa: PTH100 - resolve() would follow links

    def by_path(part: str) -> str:
        is_ktx = isinstance(part, Command) and part.program == "ktx"
        return Command(*part.words, program=program) if is_ktx else part  # type: ignore[attr-defined]

    return Hint(hint).rewrite(by_path)


def runnable(hint: str) -> str:
    """Return a hint or a next step as one line, with the path of this `ktx` if it is not on PATH."""
    return one_line_typed(with_program(hint, sys.argv, os.environ))


_trees: list[Callable[[str], Any]] = []


def know_commands(tree_of: Callable[[str], Any]) -> None:
    """Register the function that returns the app with one command, or None for an unknown name."""
    _trees.append(tree_of)


def _naming(words: Sequence[str]) -> int:
    """Return how many of the words name a command; 0 if the command takes no project."""
    if not words or words[0] in ELSEWHERE:
        return 0
    group, count = _tree(words[0]), 0
    for word in words:
        known = getattr(group, "commands", {})
        if word not in known:
            break
        group, count = known[word], count + 1
    return count


@functools.cache
def _tree(name: str) -> Any:
    """Return click's command tree; a command line needs another command's tree only for a hint."""
    import typer.main

    app = _trees[-1](name)
    return None if app is None else typer.main.get_command(app)


_OF_TIME_RANGES: Final = {"start": "--from", "end": "--to", "last": "--last", "field": "--time-field"}
_OPTIONS: Final[Mapping[str, Callable[[Any], Sequence[str]]]] = {
    "comparison": lambda span: ("--compare", span),
    "connection": lambda name: ("-c", name),
    "explain": lambda _: ("--format", "sql"),
    "min_status": lambda status: ("--min-status", status),
    "parameters": lambda values: [word for name, each in values.items() for word in ("--parameter", f"{name}={each}")],
    "seconds": lambda seconds: ("--budget", str(seconds)),
    "time_range": lambda keys: [word for key, each in keys.items() for word in (_OF_TIME_RANGES[key], each)],
    "via": lambda paths: [word for target, each in paths.items() for word in ("--via", f"{target}={each}")],
}
"""Arguments of queries that hints name, with their options on the command line."""


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """The project of a command line: as typed (None if not given), and the folder for git commands (None for the
    current one).
    """

    typed: str | None
    folder: Path | None

    def command(self, hint: str) -> Hint:
        """Return a hint or a next step with commands that work on this project when typed in the same folder.

        Arguments of queries become options, and steps of agents those of people.
        """
        return Hint(hint).rewrite(self._placed)

    def _placed(self, part: str) -> str:
        if isinstance(part, Argument):
            return shell_words(*_OPTIONS[part.name](part.value))
        if isinstance(part, AgentStep):
            return self.command(part.typed)
        if not isinstance(part, Command):
            return part
        if part.program == "git" and self.folder is not None and part.words[0] not in ANYWHERE:
            return part.with_words("-C", self.typed or self.folder, after=0)
        if part.program == "ktx" and self.typed is not None and "--project-dir" not in part.words:
            count = _naming(part.words)
            return part.with_words("--project-dir", self.typed, after=count) if count else part
        return part

    def data(self, value: Any) -> Any:
        """Return an answer with its hints and next steps adapted in the same way; other texts are unchanged."""
        if isinstance(value, Hint):
            return self.command(value)
        if isinstance(value, Mapping):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return [self.data(item) for item in value]
        return value
