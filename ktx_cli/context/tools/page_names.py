"""What a page names of databases and the semantic layer: it must have been looked up, and must be there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ktx_cli.context.semantic.loading.names import table_parts
from ktx_cli.context.semantic.model import Model, Source
from ktx_cli.context.tools.layer_names import member_need, source_need
from ktx_cli.context.tools.ledger import Need, sources_of
from ktx_cli.context.tools.sql_names import column_need, names_in, needs_of, table_need
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, references
from ktx_cli.context.wiki.resolving import Resolver
from ktx_cli.core.errors import ConfigError

_SQL_BLOCK: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*sql\b[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


def page_needs(page: Page, models: Mapping[str, Model]) -> dict[str, Need]:
    """Return what a page names that must have been looked up, by how it is told."""
    found: dict[str, Need] = {}
    for need in _needs(page, list(models.values())):
        known = found.get(need.shown)
        found[need.shown] = need if known is None else Need(need.shown, known.ids | need.ids, known.tool)
    return found


def dangling(page: Page, models: Mapping[str, Model], known: Iterable[Reference] = ()) -> list[str]:
    """Return why references of a page to the semantic layer lead nowhere; those in `known` are not looked at."""
    resolver = Resolver(models)
    before = {(each.kind, each.written, each.field) for each in known}
    told = []
    for each in references(page):
        if (each.kind, each.written, each.field) not in before:
            missing = resolver.missing(each)
            if missing is not None:
                told.append(missing.message + ("" if missing.hint.startswith("ktx ") else f" ({missing.hint})"))
    return list(dict.fromkeys(told))


def missing_references(names: Iterable[str], models: Mapping[str, Model]) -> list[str]:
    """Return why names of the semantic layer (`[connection/]source[.entity]`) lead nowhere."""
    page = Page("it", fields={"sl_refs": list(names)})
    return dangling(page, models)


def missing_pages(page: Page, keys: Iterable[str]) -> list[str]:
    """Return the keys of pages a page refers to that are not among `keys`."""
    there = {*keys, page.key}
    found = (each.name for each in references(page) if each.kind is Kind.PAGE and each.binding)
    return sorted({name for name in found if name not in there})


def _needs(page: Page, models: list[Model]) -> Iterator[Need]:
    for reference in references(page):
        among = [each for each in models if reference.connection in (None, each.connection)]
        yield from _named(reference, among)
    for table in page.texts("tables"):
        yield from _table(table, models)
    statements = [found[2] for found in _SQL_BLOCK.finditer(page.body)]
    for sql in (*page.texts("representative_sql"), *statements):
        yield from _statement(sql, models)


def _named(reference: Reference, models: list[Model]) -> Iterator[Need]:
    """Yield the needs of one reference; of what leads nowhere only those of tables, which a database may have."""
    if reference.kind is Kind.PAGE:
        return
    found = [need for model in models for need in _in_layer(model, reference.name)]
    if found:
        yield from found
    elif reference.kind is Kind.TABLE or any(_is_table(model, reference.name) for model in models):
        yield from _table(reference.name, models)


def _in_layer(model: Model, name: str) -> Iterator[Need]:
    if name in model.sources:
        yield source_need(model, model.sources[name])
        return
    outer, _, member = name.rpartition(".")
    source = model.sources.get(outer)
    if source is not None and (entity := _entity(source, member)) is not None:
        yield member_need(model, source, entity)


def _entity(source: Source, name: str) -> str | None:
    column = source.column(name)
    if column is not None:
        return column.name
    return name if name in source.measures or name in source.segments else None


def _is_table(model: Model, name: str) -> bool:
    parts = _parts(name)
    return bool(parts) and bool(sources_of(model, parts))


def _table(name: str, models: list[Model]) -> Iterator[Need]:
    """Yield the need of a table, in whichever of the databases it is; `shop.orders.amount` may be a column of one."""
    parts = _parts(name)
    if not parts:
        return
    for model in models:
        direct = list(_in_layer(model, name))
        if direct:
            yield from direct
        elif not sources_of(model, parts) and len(parts) > 1 and sources_of(model, parts[:-1]):
            yield column_need(model, parts[:-1], parts[-1])
        else:
            yield table_need(model, parts)


def _parts(name: str) -> tuple[str, ...]:
    try:
        return table_parts(name)
    except ConfigError:
        return ()


def _statement(sql: str, models: list[Model]) -> Iterator[Need]:
    """Yield what a statement names; a statement no database of these could read names nothing."""
    for model in models:
        named = names_in(sql, model.dialect, tags=True)
        if named is not None:
            yield from needs_of(named, model)
