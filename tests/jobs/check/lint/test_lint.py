"""Every code the checks can say has a rule of its own, and rules are chosen by code."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from ktx_cli import privacy, wiki
from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.check.lint.lint import LAYER, WIKI, Selection, all_rules, defined_rules
from ktx_cli.semantic import check, load

_WORD = re.compile(r"[a-z][a-z_]+")
_PLACES = {
    "error": 0,
    "warn": 0,
    "_problem": 0,
    "add": 1,
    "layer_diagnostic": 1,
    "page_diagnostic": 2,
    "Spot": 1,
    "Missing": 0,
}
"""Where each call that says what is wrong has its code among the arguments without names."""


def _calls(package: ModuleType) -> Iterator[ast.Call]:
    inner = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
    for name in (package.__name__, *(each.name for each in inner)):
        tree = ast.parse(inspect.getsource(import_module(name)))
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _words(package: ModuleType) -> set[str]:
    """Return every code a package's calls name as a literal."""
    said = set()
    for call in _calls(package):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        arguments = [*call.args[_PLACES[name] : _PLACES[name] + 1]] if name in _PLACES else []
        arguments += [each.value for each in call.keywords if each.arg == "code" and name != "KtxError"]
        said |= {each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return {each for each in said if _WORD.fullmatch(each)}


@pytest.mark.parametrize(
    ("group", "packages", "some"),
    [
        (WIKI, (wiki, privacy), {"missing_summary", "secret", "dangling_entity", "html_comment", "place"}),
        (LAYER, (load, check), {"no_grain", "disconnected", "duplicate", "definition", "broken_shard"}),
    ],
)
def test_every_code_of_a_check_has_a_rule(group: str, packages: tuple[ModuleType, ...], some: set[str]) -> None:
    said = set().union(*map(_words, packages))
    assert some <= said
    assert said - {rule.alias for rule in all_rules().values() if rule.group == group} == set()


def test_codes_and_words_are_there_once() -> None:
    rules = defined_rules()
    assert len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules) == len(all_rules())
    aliases = [(rule.group, rule.alias) for rule in rules if rule.alias]
    assert len(set(aliases)) == len(aliases)
    assert list(all_rules()) == sorted(all_rules())


@pytest.mark.table(
    ("select", "ignore", "code", "wanted"),
    [
        ((), (), "KTX101", True),
        (("KTX2",), (), "KTX101", False),
        (("ktx2,KTX101",), (), "KTX101", True),
        ((), ("KTX1",), "KTX101", False),
        (("KTX1",), ("KTX102",), "KTX101", True),
        (("KTX1",), ("KTX102",), "KTX102", False),
    ],
)
def test_rules_are_chosen_by_what_their_codes_begin_with(
    select: tuple[str, ...], ignore: tuple[str, ...], code: str, wanted: bool
) -> None:
    assert (code in Selection.of(select, ignore)) is wanted


def test_a_code_no_rule_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        Selection.of((), ["KTX1O1"])
    assert refused.value.hint == "ktx lint --ignore KTX101"
