"""A group that does something by itself: `ktx scan shop` beside `ktx scan diagram`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from ktx_cli.cli.blocks import Lines
from ktx_cli.cli.contract import ContractGroup, Result, Session, command, own_command
from ktx_cli.cli.help import own_group

Run = Callable[..., Any]


def made(*, ids: bool) -> typer.Typer:
    """Return a program with a group `find`, whose own command takes words, and a command `list` in it."""
    app = typer.Typer(cls=ContractGroup, add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)
    commands = own_group()
    app.add_typer(commands, name="find")

    @own_command(commands, schema="find", ids=ids)
    def find(
        session: Session,
        words: Annotated[list[str] | None, typer.Argument()] = None,
        most: Annotated[int, typer.Option("--most")] = 10,
    ) -> Result:
        """Find things."""
        return Result({"words": words, "most": most}, [Lines((f"found {words} {most}",))])

    @command(commands, "list", schema="find-list")
    def list_(session: Session) -> Result:
        """List things."""
        return Result({}, [Lines(("listed",))])

    return app


def said(ids: bool, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(made(ids=ids), ["find", *words], prog_name="ktx")
    return result.exit_code, result.stdout.strip(), result.stderr.strip()


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize(
    ("words", "out"),
    [
        ((), "found None 10"),
        (("shop",), "found ['shop'] 10"),
        (("--most", "3"), "found None 3"),
        (("--most", "3", "shop", "mart"), "found ['shop', 'mart'] 3"),
        (("shop", "--most", "3"), "found ['shop'] 3"),
        (("lists",), "found ['lists'] 10"),
        (("list",), "listed"),
        (("--most=3", "--", "--most"), "found ['--most'] 3"),
        (("(own)",), "found ['(own)'] 10"),
        (("",), "found [''] 10"),
    ],
)
def test_the_first_word_decides(ids: bool, words: tuple[str, ...], out: str) -> None:
    assert said(ids, *words) == (0, out, "")


@pytest.mark.parametrize(
    ("ids", "words", "hint"),
    [
        (True, ("--most", "3", "list"), "hint: ktx find list"),
        (True, ("shop", "list"), "hint: ktx find list"),
        (True, ("--", "list"), "hint: ktx find list"),
        (False, ("--most", "3", "list"), "hint: ktx find list, or to search for the word: ktx find -- list"),
    ],
)
def test_a_subcommand_that_does_not_stand_first_is_refused(ids: bool, words: tuple[str, ...], hint: str) -> None:
    code, out, err = said(ids, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: `list` is a subcommand of `ktx find`")
    assert err.endswith(hint)


@pytest.mark.parametrize(
    ("words", "out"), [(("--", "list"), "['list']"), (("how", "to", "list"), "['how', 'to', 'list']")]
)
def test_free_text_may_hold_the_name_of_a_subcommand(words: tuple[str, ...], out: str) -> None:
    assert said(False, *words) == (0, f"found {out} 10", "")


def test_help_shows_both_ways_to_use_it(ktx: Run) -> None:
    text = ktx("scan", "--help").out
    assert text.startswith("Usage: ktx scan [OPTIONS] ")
    assert "\n       ktx scan COMMAND [ARGS]..." in text
    commands, arguments, depth = (text.index(word) for word in ("Commands:\n  diagram", "Arguments:", "--depth"))
    assert commands < arguments < depth
    assert text.count("-h, --help") == 1
    assert ktx("scan", "shop", "--help").out == text
    assert ktx("scan", "diagram", "--help").out.startswith("Usage: ktx scan diagram [OPTIONS]")
    assert "scan         Scan databases and commit the result." in ktx("--help").out


@pytest.mark.parametrize(
    ("words", "schema", "message"),
    [
        (("scan", "--nonsense"), "scan", "no such option: --nonsense"),
        (("scan", "diagram", "--nonsense"), "scan-diagram", "no such option: --nonsense"),
        (("scan", "--json", "diagram"), "scan",
         "`diagram` is a subcommand of `ktx scan`: it cannot be the id of a connection"),
        (("scan", "digram"), "scan", "there is no connection `digram` in ktx.yaml"),
        (("scan", "diagram", "nowhere"), "scan-diagram", "there is no connection `nowhere` in ktx.yaml"),
    ],
)  # fmt: skip
def test_errors_keep_the_contract(ktx: Run, project: Path, words: tuple[str, ...], schema: str, message: str) -> None:
    answer = ktx(*words, *(() if "--json" in words else ("--json",)))
    assert answer.code == 2
    document = answer.envelope
    assert (document["schema"], document["error"]["code"]) == (f"ktx/{schema}/v1", "usage")
    assert document["error"]["message"] == message
    assert document["error"]["hint"]


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("sl", "qurey"), 0, "did you mean `ktx sl query`?"),
        (("sl", "exlpain", "revenue"), 0, "did you mean `ktx sl explain`?"),
        (("wiki", "contradiction"), 0, "did you mean `ktx wiki contradictions`?"),
        (("sl", "qurey", "-m", "orders.revenue"), 2, "ktx sl query"),
        (("wiki", "raed", "--nope"), 2, "ktx wiki read"),
        (("scan", "relationship"), 2, "did you mean `ktx scan relationships`?"),
        (("scan", "diagrams", "shop"), 2, "did you mean `ktx scan diagram`?"),
    ],
)
def test_a_misspelled_subcommand_that_finds_nothing_is_suggested(
    ktx: Run, ingested: Path, words: tuple[str, ...], code: int, hint: str
) -> None:
    answer = ktx(*words, "--json")
    envelope = answer.envelope
    hints = [each.get("hint") for each in envelope["warnings"]] + [(envelope["error"] or {}).get("hint")]
    assert (answer.code, hints.count(hint)) == (code, 1), envelope


@pytest.mark.parametrize("words", [("sl", "orders"), ("sl", "zebra"), ("scan", "warehouze"), ("scan", "zebra")])
def test_no_subcommand_is_suggested_for_another_word(ktx: Run, ingested: Path, words: tuple[str, ...]) -> None:
    assert "mean `ktx" not in ktx(*words, "--json").out


def test_options_of_the_root_reach_both(ktx: Run, project: Path) -> None:
    assert ktx("--json", "scan", "warehouse").envelope["schema"] == "ktx/scan/v1"
    assert ktx("--json", "scan", "diagram").envelope["schema"] == "ktx/scan-diagram/v1"


def test_hints_name_the_project_that_was_named(ktx: Run, project: Path, tmp_path: Path) -> None:
    answer = ktx("scan", "diagram", "--project-dir", str(project))
    assert answer.err.endswith(f"hint: ktx scan --project-dir {project}\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ktx sca", ["scan"]),
        ("ktx scan ", ["diagram", "relationships", "warehouse"]),
        ("ktx scan dia", ["diagram"]),
        ("ktx scan ware", ["warehouse"]),
        ("ktx scan --dep", ["--depth"]),
        ("ktx scan --depth str", ["structural"]),
        ("ktx scan warehouse --no-l", ["--no-llm"]),
        ("ktx scan diagram ", ["warehouse"]),
        ("ktx scan diagram --keys", ["--keys-only"]),
        ("ktx scan diagram --format s", ["svg"]),
    ],
)
def test_completes(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]) -> None:
    from ktx_cli.cli.app import app

    environ = {"_KTX_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    answer = CliRunner().invoke(app, [], prog_name="ktx", env=environ)
    assert answer.stdout.split() == found
