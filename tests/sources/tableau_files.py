"""Small Tableau files: data sources about tables of the test databases, and workbooks that contain them."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import quoteattr


def measure(caption: str, formula: str, datatype: str = "real") -> str:
    """Return a calculated field."""
    return (
        f"<column caption={quoteattr(caption)} datatype='{datatype}' name={quoteattr(f'[{caption}]')} role='measure'>"
        f"<calculation class='tableau' formula={quoteattr(formula)} /></column>\n"
    )


def table(name: str, schema: str = "") -> str:
    """Return a table of a data source."""
    prefix = f"[{schema}]." if schema else ""
    return f"<relation connection='c' name='{name}' table='{prefix}[{name}]' type='table' />"


def joined(left: str, right: str, one: str, two: str, kind: str = "left") -> str:
    """Return two tables that are joined on a column of each."""
    return (
        f"<relation join='{kind}' type='join'><clause type='join'><expression op='='><expression op='{one}' />"
        f"<expression op='{two}' /></expression></clause>{left}{right}</relation>"
    )


def data_source(
    relation: str,
    *,
    name: str = "Sales",
    measures: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
    user: str = "",
    inner: str = "",
) -> str:
    """Return a data source with a table, or with a tree of relations. `fields` maps names to columns of tables."""
    tree = relation if relation.startswith("<") else table(relation)
    cols = "".join(f"<map key='[{key}]' value='{value}' />" for key, value in (fields or {}).items())
    columns = "".join(measure(caption, formula) for caption, formula in (measures or {}).items())
    return (
        f"<datasource caption='{name}' name='federated.{name}' version='18.1'>\n<connection class='federated'>"
        f"<named-connections><named-connection name='c'><connection class='postgres' dbname='shop' server='db'"
        f" username='{user}' /></named-connection></named-connections>\n{tree}<cols>{cols}</cols></connection>\n"
        f"{columns}{inner}</datasource>\n"
    )


def workbook(sources: str = "", views: int = 0) -> str:
    """Return a workbook with data sources and a number of worksheets."""
    sheets = "".join(f"<worksheet name='Sheet {number}' />" for number in range(views))
    return (
        f"<?xml version='1.0' encoding='utf-8' ?>\n<workbook version='18.1'>\n<datasources>\n{sources}</datasources>\n"
        f"<worksheets>{sheets}</worksheets></workbook>\n"
    )
