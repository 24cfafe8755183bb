"""The statements that look whether rows are as a semantic layer says; policies are left out of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import Build, column, identifier, join
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.expressions.names import Expression, Name, placeholder
from ktx_cli.context.semantic.expressions.resolving import Names
from ktx_cli.context.semantic.graph import Graph
from ktx_cli.context.semantic.model import Condition, Join, Model, Relationship, Source
from ktx_cli.context.semantic.planning.parameters import parameter_values
from ktx_cli.context.semantic.planning.plan import Plan
from ktx_cli.context.semantic.query import Query


class Statements:
    """Writes the statements of one model, in its dialect; parameters have their defaults."""

    def __init__(self, model: Model) -> None:
        sources = {name: replace(source, policies=()) for name, source in model.sources.items()}
        self._model = replace(model, sources=sources)
        values, _ = parameter_values(self._model, {}, {})
        self._names = Names(self._model, Graph(self._model), values)

    def columns(self, source: Source) -> str:
        """Return the statement whose columns are those the rows of a source have; it gives no row."""
        build = self._build()
        query = exp.select("*").from_(build.relation(self._own(source), "source_rows"), copy=False)
        return self._text(build, query.limit(0, copy=False))

    def repeated(
        self, source: Source, names: Sequence[str], conditions: Iterable[Condition] = (), *, nulls: bool
    ) -> str:
        """Return the statement that counts values which several rows have, and these rows.

        `nulls`: NULL is a value like any other; else rows without one are left out.
        """
        build = self._build()
        rows = Rows(build, source.name, alias="source_rows")
        keys = [self._value(rows, name) for name in names]
        query = self._kept(rows, rows.select([_as(_count(), "n")]), keys if not nulls else [], conditions)
        several = exp.GT(this=_count(), expression=exp.Literal.number(1))
        query = query.group_by(*(key.copy() for key in keys), copy=False).having(several, copy=False)
        counted = [_as(_count(), "repeated_values"), _as(exp.Sum(this=column("n", "repeated")), "their_rows")]
        return self._text(build, exp.select(*counted, copy=False).from_(_inner(query, "repeated"), copy=False))

    def unmatched(self, source: Source, declared: Join) -> str:
        """Return the statement that counts the rows of a join's many side, those without a key, and those whose key
        the other side does not have."""
        build = self._build()
        target = self._model.sources[declared.to]
        near, far, own = source, target, True
        if declared.relationship is Relationship.ONE_TO_MANY:
            near, far, own = target, source, False
        pairs = [pair if own else pair[::-1] for pair in declared.pairs]
        near_rows, far_rows = Rows(build, near.name, alias="near_rows"), Rows(build, far.name, alias="far_rows")
        near_keys = [self._value(near_rows, name) for name, _ in pairs]
        far_keys = [self._value(far_rows, name) for _, name in pairs]
        near_query = self._kept(
            near_rows, near_rows.select(_numbered(near_keys)), (), _of(declared.conditions, own=own)
        )
        far_query = self._kept(
            far_rows, far_rows.select(_numbered(far_keys)), far_keys, _of(declared.conditions, own=not own)
        )
        places = [f"k{number}" for number in range(len(pairs))]
        missing = exp.or_(*(_is_null(column(place, "near_side")) for place in places))
        nowhere = exp.and_(exp.not_(exp.paren(missing.copy())), _is_null(column(places[0], "far_side")))
        counted = [_as(_count(), "all_rows"), _as(_count_if(missing), "null_keys"), _as(_count_if(nowhere), "dangling")]
        query = exp.select(*counted, copy=False).from_(_inner(near_query, "near_side"), copy=False)
        equal = [exp.EQ(this=column(place, "near_side"), expression=column(place, "far_side")) for place in places]
        join(query, _inner(far_query.distinct(copy=False), "far_side"), exp.and_(*equal), "LEFT")
        return self._text(build, query)

    def _build(self) -> Build:
        return Build(self._names, Plan(Query(), (), (), ()))

    def _own(self, source: Source) -> Source:
        return self._model.sources[source.name]

    def _text(self, build: Build, query: exp.Select) -> str:
        return build.with_queries(query).sql(self._model.dialect)

    def _value(self, rows: Rows, name: str) -> exp.Expr:
        found = rows.fact.column(name)
        of = Name((), name if found is None else found.name)
        return rows.bind(Expression(placeholder(0), (of,), rows.fact.name, name))

    def _kept(
        self, rows: Rows, query: exp.Select, there: Iterable[exp.Expr], conditions: Iterable[Condition]
    ) -> exp.Select:
        """Return the query of rows that have values there and meet a join's constants."""
        for key in there:
            query = query.where(exp.Not(this=_is_null(key.copy())), copy=False)
        for each in conditions:
            term = exp.EQ(this=self._value(rows, each.column), expression=exp.convert(each.value))
            query = query.where(term, copy=False)
        return query


def _of(conditions: Iterable[Condition], *, own: bool) -> list[Condition]:
    return [each for each in conditions if each.own is own]


def _numbered(keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    return [_as(key.copy(), f"k{number}") for number, key in enumerate(keys)]


def _inner(query: exp.Expr, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(name)))


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.null())


def _count() -> exp.Count:
    return exp.Count(this=exp.Star(), big_int=True)


def _count_if(condition: exp.Expr) -> exp.Count:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))]), big_int=True)


def _as(value: Any, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=identifier(name))
