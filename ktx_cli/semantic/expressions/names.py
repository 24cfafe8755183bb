"""Resolve the names in an expression: columns become numbered placeholders with the names they refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.expressions.fragments import parse
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.masks import masked_for
from ktx_cli.semantic.model import (
    Column,
    Mask,
    Model,
    Policy,
    SemanticError,
    Source,
    Visibility,
    ambiguous,
    spelled,
    unknown,
)
from ktx_cli.warehouses import SemanticType, dialect_named

_NAME: Final = re.compile(r"\w+")

METRIC_TIME: Final = "metric_time"
"""The name for each fact's own time column."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column: the joins that lead to it, and its verbatim name. Without hops, it belongs to the starting source.

    `via`: the joins that the query requires on the path to it.
    """

    hops: tuple[str, ...]
    column: str
    via: tuple[str, ...] = ()

    @property
    def is_metric_time(self) -> bool:
        """Whether this is the name for each fact's own time column."""
        return not self.hops and self.column == METRIC_TIME

    def __str__(self) -> str:
        return ".".join((*self.hops, self.column))


@dataclass(frozen=True, slots=True)
class Expression:
    """A tree whose placeholders `0`, `1`, ... refer to `names`, which are resolved from `home`.

    `home` is None for names in a query, which are resolved from each fact. `text`: the expression as written. `via`:
    the joins that the paths of all names must use, instead of the `via` of each name.
    """

    tree: exp.Expr
    names: tuple[Name, ...]
    home: str | None
    text: str
    via: tuple[str, ...] = ()

    def bound(self, column: Callable[[Name], exp.Expr]) -> exp.Expr:
        """Return a copy of the tree with each name replaced by the result of `column`."""
        return filled(self.tree, lambda number: column(self.names[number]))

    def via_to(self, name: Name) -> tuple[str, ...]:
        """Return the joins that the path to a name must use."""
        return self.via or name.via

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which expressions are compared."""
        return self.tree, self.names, self.home, self.via


def filled(tree: exp.Expr, value: Callable[[int], exp.Expr]) -> exp.Expr:
    """Return a copy of a tree with every numbered placeholder replaced."""
    if isinstance(tree, exp.Placeholder):
        return value(int(tree.name))
    copy = tree.copy()
    for node in list(placeholders(copy)):
        node.replace(value(int(node.name)))
    return copy


def placeholders(tree: exp.Expr) -> Iterator[exp.Placeholder]:
    """Yield the numbered placeholders in a tree."""
    for node in tree.walk():
        if isinstance(node, exp.Placeholder):
            yield node


def placeholder(number: int) -> exp.Placeholder:
    """Return the placeholder with a number."""
    return exp.Placeholder(this=str(number))


def column_parts(column: exp.Column) -> tuple[str, ...]:
    """Return the parts of a column name as written, outermost first."""
    return tuple(part.name for part in column.parts)


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that a condition combines with AND at the top level."""
    result: list[exp.Expr] = []
    ahead = [tree]
    while ahead:
        node = ahead.pop().unnest()
        if isinstance(node, exp.And):
            ahead += (node.expression, node.this)
        else:
            result.append(node)
    return result


def with_names(
    tree: exp.Expr, home: str | None, text: str, find: Callable[[exp.Column], Name], via: Sequence[str] = ()
) -> Expression:
    """Return the expression for a tree, with each of its columns resolved by `find`."""
    names: list[Name] = []
    copy = tree.copy()
    for column in [node for node in copy.walk() if isinstance(node, exp.Column)]:
        name = find(column)
        if name not in names:
            names.append(name)
        place = placeholder(names.index(name))
        if column is copy:
            copy = place
        else:
            column.replace(place)
    return Expression(copy, tuple(names), home, text, tuple(via))


class Names:
    """Resolves columns: those in definitions from their source, those in a query from anywhere.

    `parameters`: the template values, besides those of the caller. `facts`: the sources whose measures are queried,
    where bare columns are looked up first. `via`: the joins that a query requires on the paths to its sources.
    `required`: those that apply to a name, each by the hops to it, with the key in `via` or None for a name's own.
    `reached`: the hops of all names, as text.
    """

    def __init__(self, model: Model, graph: Graph, parameters: Mapping[str, Any], caller: Caller = NOBODY) -> None:
        self.model = model
        self.graph = graph
        self.caller = caller
        self.values = {**parameters, **caller.templates()}
        self._of_each = [{**self.values, **each} for each in caller.templates_of_each()]
        self._masks: dict[str, Mapping[str, Mask]] = {}
        self.facts: tuple[str, ...] = ()
        self.via: Mapping[str, tuple[str, ...]] = {}
        self.required: dict[tuple[tuple[str, ...], tuple[str, ...]], str | None] = {}
        self.reached: dict[str, None] = {}
        self._defined: dict[tuple[str, str], Expression] = {}

    def source(self, name: str) -> Source:
        """Return the source with a name, in any case if only one matches."""
        source = self.find_source(name)
        if source is None:
            raise unknown("source", name, self.offered(self.model.sources))
        return source

    def find_source(self, name: str) -> Source | None:
        """Return the source with a name, or None."""
        return spelled(self.model.sources, name)

    def parse(self, text: str, what: str) -> exp.Expr:
        """Return the tree for a fragment, with its templates filled in."""
        return parse(text, self.model.dialect, what=what, values=self.values)

    def parse_asked(self, text: str, what: str) -> exp.Expr:
        """Return the tree for a fragment of a query; one that is invalid is an error of the query."""
        try:
            return self.parse(text, what)
        except SemanticError as error:
            if error.code == "definition":
                error.code = SemanticError.code
            raise

    def defined(self, source: Source, text: str, what: str) -> Expression:
        """Return the expression for a definition in a source."""
        key = (source.name, text)
        if key not in self._defined:
            self._defined[key] = self.in_source(source, self.parse(text, what), text, what)
        return self._defined[key]

    def masks(self, source: Source) -> Mapping[str, Mask]:
        """Return the columns of a source that are masked for the caller by folded name, each with its mask."""
        if source.name not in self._masks:
            self._masks[source.name] = masked_for(self.model, source, self.caller)
        return self._masks[source.name]

    def policy(self, source: Source, policy: Policy, what: str) -> list[Expression]:
        """Return the condition of a row policy for each principal, without repetitions."""
        trees = (parse(policy.filter, self.model.dialect, what=what, values=values) for values in self._of_each)
        return [self.in_source(source, tree, policy.filter, what) for tree in dict.fromkeys(trees)]

    def in_source(self, source: Source, tree: exp.Expr, text: str, what: str) -> Expression:
        """Return the expression for a definition's tree, with its names resolved."""
        expression = with_names(tree, source.name, text, lambda column: self._defined_name(source, column, what))
        self._require_no_subtracted_times(expression)
        return expression

    def computed(self, source: Source, column: Column) -> Expression:
        """Return the expression for a computed column."""
        return self.defined(source, column.expr or "", f"the column `{source.name}.{column.name}`")

    def visibility(self, source: Source, column: Column, seen: frozenset[str] = frozenset()) -> Visibility:
        """Return a column's visibility: its own, or else the strictest of the columns and sources that it reads."""
        if column.visibility is not None or column.expr is None:
            return column.visibility or Visibility.PUBLIC
        if column.name in seen:
            message = f"the column `{source.name}.{column.name}` refers to itself"
            raise SemanticError(
                message, hint=f"change the `expr` of {column.name} in {column.place}", code="definition"
            )
        strictest = Visibility.PUBLIC
        for name in self.computed(source, column).names:
            path = self.graph.path(source.name, name.hops)
            other = self.model.sources[path.end] if path else source
            read = other.column(name.column)
            if read is not None:
                inherited = self.visibility(other, read, seen | {column.name} if other is source else seen)
                of_source = Visibility.PUBLIC if other is source else other.visibility
                strictest = max(strictest, inherited, of_source, key=list(Visibility).index)
        return strictest

    def asked(self, tree: exp.Expr, text: str, via: Sequence[str] = (), *, grouped: bool = False) -> Expression:
        """Return the expression for a query's tree, with its names resolved; `grouped`: for grouping."""
        expression = with_names(
            tree, None, text, lambda column: self.asked_name(column_parts(column), grouped=grouped), via
        )
        self.require(expression)
        self._require_no_subtracted_times(expression)
        return expression

    def require(self, expression: Expression) -> None:
        """Record the joins that an expression of the query requires itself."""
        if expression.via:
            self.required |= {(name.hops, expression.via): None for name in expression.names}

    def example_count(self) -> str | None:
        """Return a count that a query may use: of a fact's rows, else of any source with a key, or None without one."""
        sources = [self.model.sources[fact] for fact in self.facts]
        for source in (*sources, *self.model.sources.values()):
            key = source.column(source.grain[0]) if source.grain else None
            public = source.visibility is Visibility.PUBLIC
            if public and key is not None and self.visibility(source, key) is Visibility.PUBLIC:
                is_plain = _NAME.fullmatch(source.name) is not None and not self._owners(source.name)
                return f"count({source.name})" if is_plain else f"count({source.name}.{key.name})"
        return None

    def _require_no_subtracted_times(self, expression: Expression) -> None:
        """Raise `SemanticError` if times are subtracted in a database that would subtract their leading digits."""
        difference = dialect_named(self.model.dialect).time_difference
        if not difference:
            return
        for node in expression.tree.find_all(exp.Sub):
            sides = node.this.unnest(), node.expression.unnest()
            if not all(isinstance(side, exp.Placeholder) for side in sides):
                continue
            first, second = (expression.names[int(side.name)] for side in sides)
            if self._is_time(first, expression.home) and self._is_time(second, expression.home):
                message = f"`{first} - {second}` subtracts times, which {self.model.dialect} treats as numbers"
                hint = f"write {difference.format(first, second)} to get days"
                raise SemanticError(message, hint=hint, code="definition")

    def _is_time(self, name: Name, home: str | None) -> bool:
        if name.is_metric_time:
            return True
        column = self.column_of(name, home)
        return column is not None and column.type is SemanticType.TIME

    def column_of(self, name: Name, home: str | None) -> Column | None:
        """Return the column for an expression's name, resolved from its home, or None for metric_time."""
        if name.is_metric_time:
            return None
        path = self.graph.path(home, name.hops) if home is not None else None
        return self.model.sources[self.target_of(name.hops) if path is None else path.end].column(name.column)

    def asked_name(self, parts: Sequence[str], *, grouped: bool = False) -> Name:
        """Return the column that a query names; raises `SemanticError` if it is missing, ambiguous or hidden."""
        if len(parts) == 1:
            if parts[0].casefold() == METRIC_TIME and not self._owners(parts[0]):
                return Name((), METRIC_TIME)
            hops: tuple[str, ...] = (self._owner(parts[0]).name,)
        else:
            hops = self._hops(parts[:-1])
        source = self.model.sources[self.target_of(hops)]
        column = self._column(source, parts[-1], hops)
        self._require_visible(source, column, grouped=grouped)
        return Name(hops, column.name, self._via_to(parts, hops))

    def _via_to(self, parts: Sequence[str], hops: Sequence[str]) -> tuple[str, ...]:
        """Return the joins that `via` requires for a column: those for its name as written, or for its source."""
        written = {".".join(each).casefold() for each in (parts, hops)}
        self.reached[".".join(hops)] = None
        named = [
            target for target in self.via if any(f"{name}.".startswith(f"{target.casefold()}.") for name in written)
        ]
        if not named:
            return ()
        target = max(named, key=len)
        self.required[tuple(hops), self.via[target]] = target
        return self.via[target]

    def _hops(self, hops: Sequence[str]) -> tuple[str, ...]:
        """Return the hops with sources spelled as in their files."""
        fixed = []
        for hop in hops:
            source = None if hop in self.graph.aliases else self.find_source(hop)
            fixed.append(hop if source is None else source.name)
        return tuple(fixed)

    def target_of(self, hops: Sequence[str]) -> str:
        """Return the source at the end of hops; raises `SemanticError` if it is neither a source nor an alias."""
        last = hops[-1]
        if last in self.model.sources:
            return last
        targets = self.graph.aliases.get(last, frozenset())
        if len(targets) == 1:
            return next(iter(targets))
        paths = [self.graph.path(fact, hops) for fact in self.facts]
        ends = {path.end for path in paths if path is not None}
        if len(ends) == 1:
            return ends.pop()
        if targets:
            raise ambiguous("the alias", last, (f"{last} ({target})" for target in self.offered(targets)))
        raise unknown("source or alias", last, self.offered((*self.model.sources, *self.graph.aliases)))

    def offered(self, names: Iterable[str]) -> list[str]:
        """Return the names that an error about a query may suggest, without hidden ones."""
        return [each for each in names if not any(map(self._is_hidden, _NAME.findall(each)))]

    def _is_hidden(self, name: str) -> bool:
        """Whether everything with a name is hidden: a source, the target of a join alias, or a column."""
        targets = {name} if name in self.model.sources else self.graph.aliases.get(name, frozenset())
        if targets:
            return all(self.model.sources[each].visibility is Visibility.HIDDEN for each in targets)
        owners = [self.model.sources[each] for each in self._owners(name)]
        return bool(owners) and not any(name.casefold() in map(str.casefold, self._listed(each)) for each in owners)

    def _owners(self, column: str) -> Sequence[str]:
        return lookup_of(self.model).with_column(column)

    def _owner(self, column: str) -> Source:
        """Return the source of a bare column in a query; the fact's own columns take precedence."""
        owners = self._owners(column)
        own = [source for source in owners if source in self.facts]
        if len(self.facts) == 1 and own:
            return self.model.sources[own[0]]
        if len(owners) == 1:
            return self.model.sources[owners[0]]
        if not owners:
            named = self.find_source(column)
            if named is not None and named.visibility is Visibility.PUBLIC:
                message = f"`{named.name}` is a source, not a column"
                hint = f"count its rows with `count({named.name})`, or use a column of it: {named.name}.COLUMN"
                raise SemanticError(message, hint=hint, code="unknown_name", details={"candidates": []})
            known = (name for source in self.model.sources.values() for name in self._listed(source))
            raise unknown("column", column, known)
        raise ambiguous("the column", column, (f"{source}.{column}" for source in self.offered(owners)))

    def _column(self, source: Source, name: str, hops: Sequence[str]) -> Column:
        """Return the column of a source; `hops` are what is written before its name."""
        column = source.column(name)
        if column is None:
            prefix, where = "".join(f"{hop}." for hop in hops), f" in `{source.name}`"
            raise unknown("column", name, self._listed(source), where, source=source.name, prefix=prefix)
        return column

    def _listed(self, source: Source) -> Iterable[str]:
        if source.visibility is Visibility.HIDDEN:
            return ()
        visible = (
            column for column in source.columns.values() if self.visibility(source, column) is not Visibility.HIDDEN
        )
        return (column.name for column in visible)

    def _require_visible(self, source: Source, column: Column, *, grouped: bool) -> None:
        visibility = max(self.visibility(source, column), source.visibility, key=list(Visibility).index)
        if visibility is Visibility.HIDDEN or (grouped and visibility is Visibility.INTERNAL):
            use = "queried" if visibility is Visibility.HIDDEN else "grouped by"
            message = f"`{source.name}.{column.name}` cannot be {use}: it is {visibility.value}"
            hint = (
                f"measures and segments of {source.name} can still use it; change its `visibility` in the "
                f"definition of `{source.name}`"
            )
            details = {"source": source.name, "column": column.name}
            raise SemanticError(message, hint=hint, code="hidden", details=details)

    def _defined_name(self, source: Source, column: exp.Column, what: str) -> Name:
        parts = column_parts(column)
        if len(parts) == 1:
            return self._bare(source, parts[0], what)
        hops = self._hops(parts[:-1])
        if hops == (source.name,):
            hops = ()
        path = self.graph.defined_path(source.name, hops, f" (for {what})") if hops else None
        if hops and path is None:
            known = (edge.name for edge in self.graph.edges(source.name))
            raise unknown(f"join from `{source.name}` in {what} to", ".".join(hops), known)
        other = source if path is None else self.model.sources[path.end]
        return Name(hops, self._column(other, parts[-1], parts[:-1]).name)

    def _bare(self, source: Source, name: str, what: str) -> Name:
        own = source.column(name)
        if own is not None:
            return Name((), own.name)
        reached = self.graph.reached(source.name)
        owners = [owner for owner in self._owners(name) if owner in reached]
        if len(owners) == 1:
            self.graph.defined_path(source.name, owners, f" (for {what})")  # raises if there are several
            far = self.model.sources[owners[0]].column(name)
            return Name((owners[0],), name if far is None else far.name)
        if owners:
            raise ambiguous(f"in {what}, the column", name, (f"{owner}.{name}" for owner in owners))
        raise unknown("column", name, source.columns, f" in `{source.name}` (for {what})", source=source.name)
