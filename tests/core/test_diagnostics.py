"""Hints keep their commands as data; severities are ordered; locations read as `path:line`."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from ktx_cli.core import (
    AgentStep,
    Command,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    Placeholder,
    ResultWarning,
    SettingPath,
    Severity,
    severity_counts,
)

SCAN = Command("scan", "shop")
LOG = Command("log", "--", "a b", program="git")


@pytest.mark.table(
    ("hint", "text"),
    [
        (Hint("look at it"), "look at it"),
        (Hint("braces {} stay"), "braces {} stay"),
        (Hint(SCAN), "ktx scan shop"),
        (Hint("run `{}` again", SCAN), "run `ktx scan shop` again"),
        (Hint("{} of {}: {}", 3, "{}", LOG), "3 of {}: git log -- 'a b'"),
        (Hint("set {}", SettingPath("connections.shop.url")), "set connections.shop.url"),
        (Hint("{}, or wait", Hint("run {}", SCAN)), "run ktx scan shop, or wait"),
        (Hint.steps(SCAN, LOG), "ktx scan shop; then: git log -- 'a b'"),
        (Hint(Command("config", "set", "a.b", Placeholder('"TEXT"'))), 'ktx config set a.b "TEXT"'),
        ("first: " + Hint(SCAN) + ", then wait", "first: ktx scan shop, then wait"),
    ],
)
def test_a_hint_is_its_plain_text(hint: Hint, text: str) -> None:
    assert hint == text and json.dumps(hint) == json.dumps(text) and isinstance(hint, Hint)


@pytest.mark.table("again", [copy.copy, copy.deepcopy, lambda hint: pickle.loads(pickle.dumps(hint))])
def test_a_copy_keeps_the_commands(again: object) -> None:
    step = AgentStep("find names", typed=Hint("run {}", SCAN))
    hint = Hint("run `{}` again; {}", LOG, step)
    made = again(hint)  # type: ignore[operator]
    assert made == hint and made.parts == hint.parts and made.commands == (LOG,)
    assert made.parts[-1].typed.commands == (SCAN,)
    assert made.commands[0].program == "git" and made.commands[0].words == LOG.words


def test_a_hint_with_too_few_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="2 placeholders got 1 parts"):
        Hint("{} and {}", SCAN)


def test_what_is_rewritten_is_the_command_and_not_the_text() -> None:
    hint = Hint("ktx scan shop, that is {}", SCAN)
    shown = hint.rewrite(lambda part: part.with_words("--json", after=1) if isinstance(part, Command) else part)
    assert shown == "ktx scan shop, that is ktx scan --json shop"


def test_what_is_rewritten_can_depend_on_its_quotes() -> None:
    hint = Hint("check `{}`, or set {} to `{}`", SettingPath("a"), SettingPath("b"), "c")
    shown = hint.rewrite_quoted(lambda part, quoted: f"{part}` in `f" if part in ("a", "b", "c") and quoted else part)
    assert shown == "check `a` in `f`, or set b to `c` in `f`"


@pytest.mark.table(("hint", "command"), [(Hint(SCAN), SCAN), (Hint("{} again", SCAN), None), (Hint("x"), None)])
def test_a_hint_that_is_one_command(hint: Hint, command: Command | None) -> None:
    assert hint.command == command


def test_errors_and_warnings_make_hints_of_texts_and_commands() -> None:
    error, warning = KtxError("x", hint=SCAN), ResultWarning("code", "x", hint="look at it")
    assert error.hint is not None and error.hint.command == SCAN and error.to_json()["hint"] == "ktx scan shop"
    error.hint = "look"
    assert isinstance(error.hint, Hint) and isinstance(warning.hint, Hint) and KtxError("x").hint is None


def test_an_error_knows_what_is_wrong_apart_from_where() -> None:
    error = KtxError("the file is empty", where="a.yaml:1")
    assert (str(error), error.message, error.problem) == ("a.yaml:1: the file is empty",) * 2 + ("the file is empty",)
    assert KtxError("gone").problem == "gone"
    assert ResultWarning("code", "it is old; it was read anew", problem="it is old").problem == "it is old"


def test_severities_compare_by_weight() -> None:
    assert sorted(Severity, reverse=True) == [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert Severity.ERROR > Severity.INFO and Severity.WARNING >= "warning" and not Severity.INFO > Severity.INFO


@pytest.mark.table(
    ("location", "text"),
    [
        (Location("a.yaml", 3, "orders"), "a.yaml:3"),
        (Location("a.yaml"), "a.yaml"),
        (Location(object="x"), "x"),
        (Location(), ""),
    ],
)
def test_locations_read_as_editors_take_them(location: Location, text: str) -> None:
    assert str(location) == text


def test_a_location_is_shown_as_far_as_it_is_known() -> None:
    shown = [
        Location("a.yaml", 3),
        Location("a.yaml"),
        Location(object="shop.orders"),
        Location(),
        Location("\udcff.md"),
    ]
    assert [str(each) for each in shown] == ["a.yaml:3", "a.yaml", "shop.orders", "", "\\xff.md"]
    place = Location("a.yaml", 3, object="orders")
    assert place.within(connection="shop") == Location("a.yaml", 3, "orders", "shop")
    assert place.within(object="lines").object == "lines"


def test_a_diagnostic_gives_the_fields_a_command_names() -> None:
    found = Diagnostic("gone", Severity.ERROR, "it is gone", Location("a.yaml", 3, "orders"), "restore it")
    keys = {"level": "severity", "path": "path", "source": "object", "hint": "hint", "code": "code"}
    selected = {"level": "error", "path": "a.yaml", "source": "orders", "hint": "restore it", "code": "gone"}
    assert list(found.select(keys).items()) == list(selected.items())
    assert (str(found), found.path, found.line) == ("a.yaml:3: it is gone", "a.yaml", 3)
    assert isinstance(found.hint, Hint)
    assert Diagnostic("gone", Severity.INFO, "it is gone").path == ""


def test_diagnostics_are_counted_worst_first() -> None:
    found = [Diagnostic("a", severity, "x") for severity in (Severity.INFO, Severity.ERROR, Severity.INFO)]
    assert list(severity_counts(found).items()) == [("error", 1), ("warning", 0), ("info", 2)]


def test_a_warning_of_a_command_is_a_diagnostic_with_details() -> None:
    found = Diagnostic("gone", Severity.ERROR, "it is gone", Location("a.yaml", 3), "restore it")
    warning = ResultWarning.of(found, "wiki_problems", path=found.path)
    assert (warning.severity, isinstance(warning, Diagnostic)) == (Severity.WARNING, True)
    facts = {"code": "wiki_problems", "message": "it is gone", "hint": "restore it", "path": "a.yaml"}
    assert warning.to_json() == facts
    assert copy.deepcopy(warning) == warning
    warning.suggest("look at it")
    assert warning.hint == "look at it"
