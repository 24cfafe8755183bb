"""Data sources of Tableau files: their tables and joins of every form, published ones, and what cannot be kept."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.semantic.interchange.report import Imported, Kind
from ktx_cli.semantic.interchange.tableau.calculations import number_format
from ktx_cli.semantic.interchange.tableau.importer import DISPLAY, import_tableau
from ktx_cli.semantic.interchange.tableau.tables import TABLEAU_UNKNOWN, slug
from ktx_cli.semantic.interchange.tableau.workbook import FILE_DATA, NOT_PUBLISHED, VIEWS
from ktx_cli.semantic.model import Model
from tests.semantic.interchange.conftest import errors
from tests.semantic.interchange.tableau.conftest import Answers, Load, Rows
from tests.semantic.interchange.tableau.shop_workbook import workbook


def source(relation: str, inner: str = "", *, name: str = "Shop", driver: str = "postgres", cols: str = "") -> str:
    """Return an embedded data source."""
    return (
        f"<datasource caption='{name}' name='federated.{name}'><connection class='federated'><named-connections>"
        f"<named-connection name='c'><connection class='{driver}' dbname='shop' /></named-connection>"
        f"</named-connections>{relation}<cols>{cols}</cols></connection>{inner}</datasource>"
    )


def table(name: str, of: str = "") -> str:
    return f"<relation connection='c' name='{name}' table='[main].[{of or name}]' type='table' />"


def joined(left: str, right: str, *pairs: tuple[str, str], kind: str = "left") -> str:
    equal = [f"<expression op='='><expression op='{a}' /><expression op='{b}' /></expression>" for a, b in pairs]
    clause = equal[0] if len(equal) == 1 else f"<expression op='AND'>{''.join(equal)}</expression>"
    return f"<relation join='{kind}' type='join'><clause type='join'>{clause}</clause>{left}{right}</relation>"


def cols(**fields: str) -> str:
    return "".join(f"<map key='[{name}]' value='{value}' />" for name, value in fields.items())


def field(caption: str, formula: str, datatype: str = "real", name: str = "", role: str = "measure") -> str:
    return (
        f"<column caption='{caption}' datatype='{datatype}' name='[{name or caption}]' role='{role}'>"
        f'<calculation class="tableau" formula="{formula}" /></column>'
    )


def run(sources: str, model: Model | None = None, **more: Any) -> Imported:
    return import_tableau({"a.twb": workbook(sources)}, model, **more)


def outcomes(found: Imported, kind: Kind) -> dict[str, str]:
    return {each.what: each.why for each in found.report if each.kind is kind and each.why != VIEWS}


ORDERS_OF = joined(table("orders"), table("customers"), ("[orders].[customer_id]", "[customers].[id]"))
ORDER_COLS = cols(amount="[orders].[amount]", credit="[customers].[credit]", region="[customers].[region]")


def test_joins_of_tables(manifest: Model, load: Load, answers: Answers, rows: Rows) -> None:
    inner = field("Sales", "SUM([amount])") + field("Credit", "SUM([credit])")
    inner += field("Place", "IFNULL([region], 'none')", "string", role="dimension")
    found = run(source(ORDERS_OF, inner, cols=ORDER_COLS), manifest)
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert outcomes(found, Kind.APPROXIMATED) == {}
    model = load(found.files)
    assert errors(model) == []
    by_region = {"measures": ["orders.sales"], "dimensions": ["customers.region"], "include_empty": False}
    assert answers(model, **by_region) == rows(
        "SELECT region, sum(amount) FROM orders LEFT JOIN customers c ON c.id = customer_id GROUP BY 1"
    )
    by_place = {"measures": ["orders.credit"], "dimensions": ["orders.place"]}
    assert answers(model, **by_place) == rows(
        "SELECT coalesce(region, 'none'), sum(credit) FROM orders LEFT JOIN customers c ON c.id = customer_id"
        " GROUP BY 1"
    )


@pytest.mark.table(
    ("relation", "why"),
    [
        (joined(table("orders"), table("customers"), ("[orders].[customer_id]", "[customers].[id]"), kind="inner"),
         "its type is inner; ktx keeps the rows of `orders` without a match, and no others"),
        (joined(table("customers"), table("orders"), ("[orders].[customer_id]", "[customers].[id]")),
         "its type is left; ktx keeps the rows of `orders` without a match, and no others"),
        (joined(table("orders"), table("customers"), ("[orders].[status]", "[customers].[name]")),
         "Tableau does not say which side is unique; ktx assumes one row of `customers` and checks it in each query"),
    ],
)  # fmt: skip
def test_joins_that_are_not_quite_the_same(relation: str, why: str, manifest: Model) -> None:
    assert list(outcomes(run(source(relation), manifest), Kind.APPROXIMATED).values()) == [why]


@pytest.mark.table(
    ("relation", "why"),
    [
        (joined(table("orders"), table("customers"), ("[orders].[customer_id]", "1")),
         "its condition is not an equality of columns"),
        (joined(table("orders"), table("nothing"), ("[orders].[customer_id]", "[nothing].[id]")), TABLEAU_UNKNOWN),
        (joined(table("orders"), table("customers"), ("[orders].[customer_id]", "[customers].[nope]")),
         "`customers` has no column `nope`"),
        (joined(joined(table("orders"), table("items"), ("[items].[order_id]", "[orders].[id]")), table("customers"),
                ("[orders].[customer_id]", "[customers].[id]"), ("[items].[line]", "[customers].[id]")),
         "its condition compares columns of more than two tables"),
        ("<relation type='union' name='u' />",
         "ktx does not support relations of type union; define a source with `sql:`"),
        ("<relation type='text' name='q'>SELECT &lt;[Parameters].[P]&gt;</relation>", "its query uses a parameter"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined(relation: str, why: str, manifest: Model) -> None:
    assert why in outcomes(run(source(relation), manifest, known_only=True), Kind.DROPPED).values()


def test_a_table_in_two_roles_has_aliases(manifest: Model, load: Load, answers: Answers, rows: Rows) -> None:
    first = joined(table("orders"), table("buyers", "customers"), ("[orders].[customer_id]", "[buyers].[id]"))
    both = joined(first, table("payers", "customers"), ("[orders].[quantity]", "[payers].[id]"))
    fields = cols(amount="[orders].[amount]", region="[buyers].[region]", **{"region (payers)": "[payers].[region]"})
    inner = field("Of North", "SUM(IF [region (payers)] = 'north' THEN [amount] END)")
    model = load(run(source(both, inner, cols=fields), manifest).files)
    assert errors(model) == []
    assert [each.alias for each in model.sources["orders"].joins] == ["buyers", "payers"]
    assert answers(model, measures=["orders.of_north"]) == rows(
        "SELECT sum(amount) FILTER (region = 'north') FROM orders LEFT JOIN customers c ON c.id = quantity"
    )


def test_a_relationship_says_which_side_is_unique() -> None:
    graph = (
        "<object-graph><objects>"
        + "".join(
            f"<object caption='{name}' id='{name}_1'><properties context=''>{table(name)}</properties></object>"
            for name in ("customers", "orders")
        )
        + "</objects><relationships><relationship><expression op='='><expression op='[customer_id]' />"
        "<expression op='[id]' /></expression><first-end-point object-id='customers_1' unique-key='true' />"
        "<second-end-point object-id='orders_1' /></relationship></relationships></object-graph>"
    )
    relation = f"<relation type='collection'>{table('customers')}{table('orders')}</relation>"
    fields = cols(id="[customers].[id]", customer_id="[orders].[customer_id]", amount="[orders].[amount]")
    found = run(source(relation, graph + field("Sales", "SUM([amount])"), cols=fields))
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert set(outcomes(found, Kind.APPROXIMATED)) == {
        "types of columns of `customers`",
        "types of columns of `orders`",
    }
    assert outcomes(found, Kind.DROPPED) == {}


PROXY = (
    "<datasource caption='My Orders' name='sqlproxy.1'><repository-location id='Orders' path='/datasources' />"
    "<connection class='sqlproxy' dbname='Orders' server='tableau'><relation name='sqlproxy' table='[sqlproxy]' />"
    "</connection><column caption='Status' datatype='string' name='[status]' role='dimension' />"
    + field("Share", "SUM([amount]) / [Total]")
    + "</datasource>"
)
PUBLISHED = source(table("orders"), field("Total", "SUM([amount])")).replace(
    "<datasource caption='Shop' name='federated.Shop'>", "<datasource formatted-name='Orders'>"
)


def test_a_published_data_source_is_read_from_its_own_file(manifest: Model) -> None:
    found = import_tableau({"a.twb": workbook(PROXY), "x/Orders.tds": PUBLISHED}, manifest)
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert {each["name"]: each["expr"] for each in orders["measures"]} == {
        "total": "SUM(amount)", "share": "NULLIF(SUM(amount), NULL) / total"
    }  # fmt: skip
    assert orders["column_overrides"] == [{"name": "status", "label": "Status"}]
    alone = import_tableau({"a.twb": workbook(PROXY)}, manifest)
    assert not alone.files and outcomes(alone, Kind.DROPPED) == {
        "data source `My Orders`, published as `Orders`": NOT_PUBLISHED
    }


def test_data_of_files_and_unknown_tables_leave_nothing(manifest: Model) -> None:
    sheet = source(table("Orders$"), field("A", "SUM([b])"), driver="excel-direct")
    assert outcomes(run(sheet, manifest), Kind.DROPPED) == {"data source `Shop`": FILE_DATA}
    unknown = run(source(table("visits"), field("A", "SUM([b])")), manifest, known_only=True)
    assert outcomes(unknown, Kind.DROPPED) == {
        "table `visits` of `Shop`": TABLEAU_UNKNOWN, "data source `Shop` with 1 calculated field": TABLEAU_UNKNOWN
    }  # fmt: skip
    assert not unknown.files


def test_a_query_is_a_source(load: Load, answers: Answers, rows: Rows) -> None:
    query = "SELECT status, amount FROM orders WHERE id &lt;&lt; 5;"
    relation = f"<relation type='text' name='Custom SQL Query'>{query}</relation>"
    fields = cols(status="[Custom SQL Query].[status]", amount="[Custom SQL Query].[amount]")
    found = run(source(relation, field("Sales", "SUM([amount])"), cols=fields))
    model = load(found.files, manifest=False)
    assert errors(model) == []
    assert answers(model, measures=["custom_sql_query.sales"]) == rows("SELECT sum(amount) FROM orders WHERE id < 5")


def test_fields_of_the_same_name_in_two_data_sources(manifest: Model) -> None:
    one = source(table("orders"), field("Sales", "SUM([amount])"), name="One")
    two = source(table("orders"), field("Sales", "SUM([cost])") + field("Sold", "[Sales] + 1"), name="Two")
    same = source(table("orders"), field("Sales", "SUM([amount])"), name="Three")
    found = run(one + two + same, manifest)
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert {each["name"]: each["expr"] for each in orders["measures"]} == {
        "sales": "SUM(amount)", "sales_2": "SUM(cost)", "sold": "NULLIF(sales_2, NULL) + 1"
    }  # fmt: skip
    assert outcomes(found, Kind.APPROXIMATED) == {
        "the name of calculated field `Sales` of `Two`": "another field with this name has a different formula"
    }


@pytest.mark.table(
    ("fields", "what", "why"),
    [
        (field("A", "[B] + 1") + field("B", "[A] + 1"), "B", "it uses `A`, which was not imported"),
        (field("A", "[Other].[x] + 1"), "A", "it uses a field of another data source, `Other`"),
        (field("A", "[nope]"), "A", "`orders` has no column `nope`"),
        (field("A", "[Parameters].[nope]"), "A", "it uses the parameter `nope`, which is not in the file"),
        (field("A", "SUM(SUM([amount]))"), "A", "it aggregates an aggregate"),
        (field("A", "[status] + 1"), "A", "ktx cannot apply `+` to values of the types string and integer"),
        (field("A", "[status] * 2"), "A", "it applies `*` to a value of type string"),
        (field("A", "IF [amount] > 1 THEN 1 ELSE 'x' END"), "A", "its branches have different types: integer, string"),
        (field("A", "ROUND(1, 2, 3)"), "A", "`ROUND` has 3 arguments"),
        (field("A", "STR([amount])"), "A", "the text of a value of type real depends on its display in Tableau"),
        (field("A", "#yesterday# = [ordered_at]"), "A", "ktx does not know the form of the date `yesterday`"),
        (field("A", "{FIXED [status] : [amount]}"), "A", "its FIXED expression is not an aggregate for columns"),
        (field("A", "AVG({INCLUDE [status] : [amount]})"), "A",
         "its INCLUDE expression is not an aggregate for dimensions"),
        (field("A", "{INCLUDE [status] : SUM([amount])}"), "A",
         "its INCLUDE expression depends on the dimensions of a view; aggregate it directly"),
    ],
)  # fmt: skip
def test_reasons(fields: str, what: str, why: str, manifest: Model) -> None:
    columns = "".join(
        f"<column datatype='{kind}' name='[{name}]' role='dimension' />"
        for name, kind in {"status": "string", "amount": "real", "ordered_at": "datetime"}.items()
    )
    dropped = outcomes(run(source(table("orders"), columns + fields), manifest), Kind.DROPPED)
    assert dropped[f"calculated field `{what}` of `Shop`"].startswith(f"{why}. Formula: ")


def test_a_fixed_expression_over_joined_tables(manifest: Model, load: Load, answers: Answers, rows: Rows) -> None:
    inner = field("Regional", "{FIXED [region] : SUM([amount])}") + field("Rows", "SUM([amount])")
    found = run(source(ORDERS_OF, inner, cols=ORDER_COLS), manifest)
    made = yaml.load(found.files["orders_by_region.yaml"], where="orders_by_region.yaml")
    assert made["sql"] == (
        "SELECT customers.region AS region, SUM(orders.amount) AS sum_amount FROM main.orders AS orders"
        " LEFT JOIN main.customers AS customers ON orders.customer_id = customers.id"
        " WHERE customers.region IS NOT NULL GROUP BY customers.region"
    )
    model = load(found.files)
    assert errors(model) == []
    asked = {"measures": ["orders.rows"], "dimensions": ["orders_by_region.regional"], "include_empty": False}
    assert answers(model, **asked) == rows(
        "SELECT total, sum(amount) FROM orders LEFT JOIN customers c ON c.id = customer_id LEFT JOIN (SELECT region,"
        " sum(amount) AS total FROM orders JOIN customers c ON c.id = customer_id GROUP BY 1) t USING (region)"
        " GROUP BY 1"
    )


def test_a_fixed_expression_never_reads_what_people_restricted(manifest: Model, load: Load) -> None:
    hidden = "name: orders\ncolumn_overrides: [{name: cost, visibility: hidden}]\n"
    model = load({"orders.yaml": hidden})
    inner = field("Per Customer", "{FIXED [customer_id] : SUM([amount])}")
    (why,) = outcomes(run(source(table("orders"), inner), model), Kind.DROPPED).values()
    assert why.startswith("its FIXED expression reads a table with restricted rows or columns. Formula: ")


FACTS = cols(price="[items].[price]", amount="[orders].[amount]", credit="[customers].[credit]")
RATIO = field("Ratio", "SUM([price]) / SUM([amount]) + SUM([credit])")


def test_aggregates_of_joined_tables_count_the_joined_rows(
    manifest: Model, load: Load, answers: Answers, rows: Rows
) -> None:
    tables = joined(table("items"), table("orders"), ("[items].[order_id]", "[orders].[id]"))
    tables = joined(tables, table("customers"), ("[orders].[customer_id]", "[customers].[id]"))
    model = load(run(source(tables, RATIO, cols=FACTS), manifest).files)
    assert errors(model) == []
    assert answers(model, measures=["items.ratio"]) == rows(
        "SELECT sum(price)::DOUBLE / sum(amount) + sum(credit) FROM items LEFT JOIN orders o ON o.id = order_id"
        " LEFT JOIN customers c ON c.id = customer_id"
    )


def test_aggregates_of_related_tables_count_the_rows_of_each(
    manifest: Model, load: Load, answers: Answers, rows: Rows
) -> None:
    names = ("items", "orders", "customers")
    objects = "".join(
        f"<object id='{name}'><properties context=''>{table(name)}</properties></object>" for name in names
    )
    pairs = [("order_id", "id", "items", "orders"), ("customer_id", "id (customers)", "orders", "customers")]
    related = "".join(
        f"<relationship><expression op='='><expression op='[{a}]' /><expression op='[{b}]' /></expression>"
        f"<first-end-point object-id='{one}' /><second-end-point object-id='{two}' /></relationship>"
        for a, b, one, two in pairs
    )
    graph = f"<object-graph><objects>{objects}</objects><relationships>{related}</relationships></object-graph>"
    keys = {"order_id": "[items].[order_id]", "id": "[orders].[id]", "customer_id": "[orders].[customer_id]"}
    fields = FACTS + cols(**keys, **{"id (customers)": "[customers].[id]"})
    relation = f"<relation type='collection'>{''.join(map(table, names))}</relation>"
    model = load(run(source(relation, graph + RATIO, cols=fields), manifest).files)
    assert errors(model) == []
    assert answers(model, measures=["items.ratio"]) == rows(
        "SELECT (SELECT sum(price) FROM items)::DOUBLE / (SELECT sum(amount) FROM orders)"
        " + (SELECT sum(credit) FROM customers)"
    )


def test_aliases_and_descriptions(manifest: Model) -> None:
    column = (
        "<column caption='State' datatype='string' name='[status]' role='dimension'><desc><formatted-text>"
        "<run>Where it stands.</run></formatted-text></desc><aliases><alias key='a' value='b' /></aliases></column>"
    )
    found = run(source(table("orders"), column), manifest)
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert orders["column_overrides"] == [
        {"name": "status", "label": "State", "descriptions": {"tableau": "Where it stands."}}
    ]
    assert outcomes(found, Kind.DROPPED) == {"aliases of field `State` of `Shop`": DISPLAY}


def test_long_chains_of_fields_end(manifest: Model) -> None:
    chain = field("F0", "[amount]") + "".join(field(f"F{at}", f"[F{at - 1}] + 1") for at in range(1, 60))
    forward = run(source(table("orders"), chain), manifest)
    assert not outcomes(forward, Kind.DROPPED)
    backward = "".join(field(f"F{at}", f"[F{at + 1}] + 1") for at in range(500)) + field("F500", "[amount]")
    assert "calculated field `F0` of `Shop`" in outcomes(run(source(table("orders"), backward), manifest), Kind.DROPPED)


@pytest.mark.table(
    ("text", "name"),
    [("Profit Ratio", "profit_ratio"), ("% of Sales", "percent_of_sales"), ("2024 Sales", "field_2024_sales"),
     ("Order", "order_field"), ("???", "field"), ("Größe", "grösse")],
)  # fmt: skip
def test_names(text: str, name: str) -> None:
    assert slug(text) == name


@pytest.mark.table(
    ("text", "pattern"),
    [("p0.0%", "0.0%"), ('c"$"#,##0.00;("$"#,##0.00)', "#,##0.00"), ("n#,##0", "#,##0"), ("*yyyy", None), ("", None)],
)
def test_formats(text: str, pattern: str | None) -> None:
    assert number_format(text) == pattern
