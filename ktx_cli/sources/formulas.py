"""Metrics that a document states as formulas, such as `Gross margin = (revenue - cost) / revenue`, without a model.

A formula becomes a proposed measure only if all its names are measures or additive columns of one source of one
database, and no document states a different formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from ktx_cli.core import listing
from ktx_cli.documents import Snapshot, outside_fences, without_comments
from ktx_cli.faces import exp
from ktx_cli.scan import additive, name_in_expr
from ktx_cli.semantic import PROPOSED_MEASURES, Measure, Model, Place, Report, SemanticError, Source, Visibility, parse
from ktx_cli.sources.deliveries import text_of
from ktx_cli.sources.table_texts import Wanted, Written, proposed_measures, write
from ktx_cli.warehouses import Column, Dialect, SemanticType, dialect_named
from ktx_cli.wiki import screened, screened_line

if TYPE_CHECKING:
    from ktx_cli.semantic import Column as LayerColumn
    from ktx_cli.semantic import Fidelity
    from ktx_cli.sources.port import ProjectContext

_READ: Final = (".md", ".markdown", ".txt")
_LONGEST_LINE: Final = 300
_MOST_WORDS: Final = 6
"""The maximum number of words in the name of a metric or column; a longer text is a sentence."""

_START: Final = re.compile(r"^(?:[\s>]|[-*+]\s|\d+[.)]\s|#+\s)*")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKS: Final = re.compile(r"\*\*|__|[*`]")
_OPERATORS: Final = (
    (re.compile(r"\s(?:[-−–]|minus)\s", re.IGNORECASE), " - "),
    (re.compile(r"\s*\+\s*|\splus\s", re.IGNORECASE), " + "),
    (re.compile(r"\s*[/÷]\s*|\sdivided by\s", re.IGNORECASE), " / "),
    (re.compile(r"\s*×\s*|\stimes\s", re.IGNORECASE), " * "),
)
_PIECE: Final = re.compile(r"\s+([-+*/])\s+|([()])")
_NAME: Final = re.compile(r"[^\W\d][\w -]*")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W_]+")

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in a document. `pieces`: its operators, parentheses and numbers unchanged, its names as words."""

    name: Words
    pieces: tuple[str | Words, ...]
    raw: str
    line: int
    text: str
    problem: str = ""
    """Why the formula cannot be a measure, whatever its names refer to, or an empty string."""

    @property
    def slug(self) -> str:
        """The measure's name."""
        return "_".join(self.name)

    @property
    def operands(self) -> frozenset[Words]:
        """The names that the formula is computed from."""
        return frozenset(each for each in self.pieces if isinstance(each, tuple))


def formulas_in(raw: str, text: str) -> Iterator[Formula]:
    """Yield the formulas in a document: single lines outside code."""
    for number, line in outside_fences(without_comments(text)):
        if line.count("=") == 1 and len(line) <= _LONGEST_LINE and "|" not in line:
            found = _formula(raw, number + 1, line)
            if found is not None:
                yield found


def _formula(raw: str, number: int, line: str) -> Formula | None:
    plain = _MARKS.sub("", _LINK.sub(r"\1", _START.sub("", line))) if " * " not in line else _START.sub("", line)
    name, _, right = plain.strip().rstrip(".;").partition("=")
    for operator, sign in _OPERATORS:
        right = operator.sub(sign, right)
    pieces: list[str | Words] = []
    for piece in filter(None, map(str.strip, filter(None, _PIECE.split(f" {right} ")))):
        if piece in "-+*/()" or _NUMBER.fullmatch(piece):
            pieces.append(piece)
        elif (words := _words(piece)) is not None:
            pieces.append(words)
        else:
            return None
    named = _words(name.strip())
    if named is None or not all(word.isascii() for word in named):
        return None
    text = f"{name.strip()} = {' '.join(right.split())}"
    if screened(text) != text or screened_line(raw, "path") != raw or not _ORDER_WORDS.isdisjoint(named):
        return Formula((), (), raw, number, "", "its text may not be shown: it contains instructions or private data")
    formula = Formula(named, tuple(pieces), raw, number, text)
    if len(formula.operands) < 2 or named in formula.operands or not _adds_up(formula):
        return None
    return replace(formula, problem=_problem(formula))


_ORDER_WORDS: Final = frozenset((
    "disregard", "ignore", "instruction", "instructions", "please", "prompt", "prompts", "you", "your",
))  # fmt: skip
"""Words for instructions to agents, which do not appear in metric names."""


def _problem(formula: Formula) -> str:
    """Return the problem with the numbers in a formula: a division by zero, or an amount plus a constant."""
    tree = _tree(formula, {words: f"n{place}" for place, words in enumerate(sorted(formula.operands))})
    assert tree is not None  # `_adds_up` read it.
    if any(_is_zero(each.expression) for each in tree.find_all(exp.Div)):
        return "it divides by zero"
    return "" if _degree(tree) is not None else "it adds amounts and constants, or amounts and ratios"


def _is_zero(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Mul):
        return _is_zero(node.this) or _is_zero(node.expression)
    return isinstance(node, exp.Literal) and float(node.name) == 0


def _degree(node: exp.Expr) -> int | None:
    """Return 1 for an amount, 0 for a ratio or a number, or None for a sum of both."""
    if isinstance(node, exp.Paren):
        return _degree(node.this)
    if not isinstance(node, exp.Binary):
        return int(isinstance(node, exp.Column))
    left, right = _degree(node.this), _degree(node.expression)
    if left is None or right is None:
        return None
    if isinstance(node, exp.Mul):
        return left + right
    return left - right if isinstance(node, exp.Div) else left if left == right else None


def _words(name: str) -> Words | None:
    """Return the lower-case words of a name, or None for a text that is not a name."""
    if not _NAME.fullmatch(name):
        return None
    words = tuple(word.casefold() for word in _WORD.findall(name))
    words = words[1:] if words[0] == "the" else words
    return words if 0 < len(words) <= _MOST_WORDS else None


def _adds_up(formula: Formula) -> bool:
    """Return whether a formula is valid for sums as well as for rows: only sums, differences, quotients, and products
    with a number.
    """
    tree = _tree(formula, {words: f"n{place}" for place, words in enumerate(sorted(formula.operands))})
    allowed = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Paren, exp.Column, exp.Identifier, exp.Literal)
    if tree is None or any(not isinstance(node, allowed) for node in tree.walk()):
        return False
    return all(
        isinstance(each.this, exp.Literal) or isinstance(each.expression, exp.Literal)
        for each in tree.find_all(exp.Mul)
    )


def _tree(formula: Formula, names: Mapping[Words, str]) -> exp.Expr | None:
    try:
        return parse(_expr(formula, names), "", what="a formula")
    except SemanticError:
        return None


def _expr(formula: Formula, names: Mapping[Words, str]) -> str:
    text = " ".join(each if isinstance(each, str) else names[each] for each in formula.pieces)
    return text.replace("( ", "(").replace(" )", ")")


def write_formulas(snapshot: Snapshot, context: ProjectContext) -> tuple[Written, tuple[Fidelity, ...]]:
    """Propose measures for the formulas of documents in the manifest, and remove those that are no longer in any
    document.

    Returns what was written, and the outcome for each formula.
    """
    wanted, report = Wanted(), Report()
    stated: dict[Words, list[Formula]] = {}
    for path, file in snapshot.files.items():
        if PurePosixPath(path).suffix.lower() in _READ:
            for formula in formulas_in(path, file.text()):
                stated.setdefault(formula.name, []).append(formula)
    for formulas in stated.values():
        formula = formulas[0]
        what, place = f"formula of `{' '.join(formula.name)}`", Place(formula.raw, formula.line)
        if not formula.name:
            for each in formulas:
                report.dropped("a formula", each.problem, Place(each.raw, each.line))
            continue
        why = next((each.problem for each in formulas if each.problem), "")
        why = why or _place(formulas, context, wanted, report)
        if why:
            report.dropped(what, why, place)
    return write(wanted, context, "ktx"), report.sorted()


def _place(formulas: list[Formula], context: ProjectContext, wanted: Wanted, report: Report) -> str:
    """Add the measure for a formula, or return why there is none; an empty string means that it was added."""
    formula = formulas[0]
    if len({each.pieces for each in formulas}) > 1:
        return "documents state different formulas for it"
    found = [
        (connection, source, names)
        for connection, model in sorted(context.models.items())
        for source, names in _sources(model, formula)
    ]
    if len(found) != 1:
        return "several sources have all of its names" if found else _missing(formula, context.models.values())
    ((connection, source, names),) = found
    known = source.measures.get(formula.slug)
    if formula.slug in source.columns or (known is not None and not known.is_proposed):
        return f"`{source.name}` already has a definition with that name"
    assert source.place is not None
    path, steps = source.place.path, ("tables", source.name, PROPOSED_MEASURES, formula.slug)
    is_ours = text_of(steps) in context.owned.get(path, {})
    if not is_ours and formula.slug in proposed_measures(context, path, source.name):
        return f"a scan already proposes `{formula.slug}` for `{source.name}`"
    value = {
        "name": formula.slug, "expr": _expr(formula, names), "status": "proposed",
        "reason": f"Formula in `{context.connection}/{formula.raw}`, line {formula.line}.",
        "descriptions": {"ktx": f"Formula in the document: {formula.text}"},
    }  # fmt: skip
    wanted.add(path, steps, value, formula.raw)
    report.kept(
        f"formula of `{' '.join(formula.name)}`", Place(formula.raw, formula.line), f"{connection}/{source.name}"
    )
    return ""


def _missing(formula: Formula, models: Iterable[Model]) -> str:
    """Return why no source has all names in a formula as measures or amounts."""
    for model in models:
        dialect = dialect_named(model.dialect)
        for source in _candidates(model):
            columns = {words: _columns(source, words) for words in formula.operands}
            unfit = [words for words in sorted(columns) if _operand(source, words, dialect) is None]
            if unfit and all(columns[words] for words in unfit):
                names = listing(f"`{source.name}.{columns[words][0].name}`" for words in unfit)
                are = "is not an amount" if len(unfit) == 1 else "are not amounts"
                return f"{names} {are} that can be summed over rows, unlike levels, rates and ids"
    return "no single source has all of its names"


def _sources(model: Model, formula: Formula) -> Iterable[tuple[Source, Mapping[Words, str]]]:
    """Yield the sources of the manifest that have all names in a formula, with the expression for each name."""
    dialect = dialect_named(model.dialect)
    for source in _candidates(model):
        names = {words: _operand(source, words, dialect) for words in formula.operands}
        known = {words: name for words, name in names.items() if name is not None}
        if len(known) == len(names):
            yield source, known


def _candidates(model: Model) -> Iterator[Source]:
    """Yield the manifest's sources that are visible to everyone."""
    for source in model.sources.values():
        if source.generated and source.place is not None and source.visibility is Visibility.PUBLIC:
            yield source


def _columns(source: Source, words: Words) -> list[LayerColumn]:
    """Return the columns with a given name that are visible to everyone."""
    return [
        each
        for each in source.columns.values()
        if _words(each.name.replace("_", " ")) == words and each.visibility in (None, Visibility.PUBLIC)
    ]


def _operand(source: Source, words: Words, dialect: Dialect) -> str | None:
    """Return the expression for a name: a measure, or the sum of an additive column. None if there is neither."""
    measures = [each for each in source.measures.values() if _is_called(each, words)]
    reviewed = [each for each in measures if not each.is_proposed]
    measures = reviewed or measures
    if measures:
        return name_in_expr(measures[0].name, dialect) if len(measures) == 1 else None
    columns = [each for each in _columns(source, words) if each.type is SemanticType.NUMBER]
    if len(columns) != 1 or additive(Column(columns[0].name, "", SemanticType.NUMBER), None) is None:
        return None
    return f"sum({name_in_expr(columns[0].name, dialect)})"


def _is_called(measure: Measure, words: Words) -> bool:
    if measure.visibility is not Visibility.PUBLIC:
        return False
    return words in [_words(name.replace("_", " ")) for name in (measure.name, *measure.synonyms)]
