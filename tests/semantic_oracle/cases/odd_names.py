"""Names that need quotes: blanks, dots, case, quotes, other alphabets, reserved words."""

from tests.semantic_oracle.cases.base import Case, World, many, source, table

ODD = World(
    "odd",
    {
        "Order Details": table(
            '"Order ID" INTEGER, "Unit Price" DOUBLE, CamelCase VARCHAR, camelcase_2 VARCHAR, select INTEGER,'
            ' "it\'s" INTEGER, Größe INTEGER, "say ""hi""" INTEGER, "owner key" INTEGER',
            (1, 2.5, "A", "x", 1, 10, 100, 1000, 1),
            (2, 4.0, "a", "x", 2, 20, 200, 2000, 2),
            (3, 1.5, "A", "y", 3, 30, 300, 3000, None),
        ),
        "group": table("order INTEGER, from VARCHAR, Größe VARCHAR", (1, "left", "klein"), (2, "right", "groß")),
    },
    [
        source("group", "order number, from string, Größe string", "order", m=['table = count("order")']),
        source(
            "Order Details",
            "Order ID number, Unit Price number, CamelCase string, camelcase_2 string, select number, it's number,"
            ' Größe number, say "hi" number, owner key number',
            "Order ID",
            joins=[many("group", '"owner key" = "group"."order"')],
            m=[
                'money = sum("Unit Price")',
                'Größe total = sum("Größe")',
                'limit = sum("it\'s")',
                'quoted = sum("say ""hi""")',
                'count = count("Order ID")',
                'double select = sum("select" * 2)',
            ],
            segments=[{"name": "dear", "expr": '"Unit Price" > 2'}],
        ),
    ],
)
D = '"Order Details"'

CASES = [
    Case("odd-blanks", ODD, {"measures": [f"{D}.money"]}, [(8,)], "a table and a column with a blank"),
    Case(
        "odd-case-matters-in-values",
        ODD,
        {"measures": [f"{D}.money"], "dimensions": [f'{D}."CamelCase"']},
        [("A", 4), ("a", 4)],
        "a column of mixed case; values differ by case",
    ),
    Case(
        "odd-quote-in-a-name", ODD, {"measures": [f"{D}.quoted", f'{D}."limit"']}, [(6000, 60)], "quotes within names"
    ),
    Case(
        "odd-letters",
        ODD,
        {"measures": [f'{D}."Größe total"'], "filters": [f'{D}."Größe" >= 200']},
        [(500,)],
        "letters beyond ASCII, a measure with a blank",
    ),
    Case(
        "odd-reserved-column",
        ODD,
        {"measures": [f"{D}.money"], "dimensions": [f'{D}."select"']},
        [(1, 2.5), (2, 4), (3, 1.5)],
        "a column called select",
    ),
    Case(
        "odd-reserved-source-and-column",
        ODD,
        {"measures": [f"{D}.money"], "dimensions": ['"group"."from"'], "include_empty": False},
        [("left", 2.5), ("right", 4), (None, 1.5)],
        "a source called group, a column called from",
    ),
    Case(
        "odd-reserved-measures",
        ODD,
        {"measures": ['"group"."table"', f'{D}."count"'], "dimensions": ['"group"."Größe"']},
        [("klein", 1, 1), ("groß", 1, 1), (None, 0, 1)],
        "measures called table and count",
    ),
    Case(
        "odd-ad-hoc",
        ODD,
        {"measures": [{"expr": f'sum({D}."Unit Price" * {D}."select")', "name": "total: 100 %"}]},
        [(15,)],
        "a column of the answer with a colon and a percent sign",
    ),
    Case(
        "odd-named-dimension",
        ODD,
        {"measures": [f"{D}.money"], "dimensions": [{"field": f'{D}."camelcase_2"', "name": "order by"}]},
        [("x", 6.5), ("y", 1.5)],
        "a name that is two reserved words",
    ),
    Case(
        "odd-order-by",
        ODD,
        {
            "measures": [f"{D}.money"],
            "dimensions": [f'{D}."Order ID"'],
            "order_by": [{"field": f"{D}.money", "direction": "desc"}],
        },
        [(2, 4), (1, 2.5), (3, 1.5)],
        "ordered by a quoted reference",
    ),
    Case(
        "odd-having",
        ODD,
        {"measures": [f"{D}.money"], "dimensions": [f'{D}."CamelCase"'], "having": [f'{D}."count" > 1']},
        [("A", 4)],
        "a condition on a measure called count",
    ),
    Case(
        "odd-segment",
        ODD,
        {"measures": [f'{D}."double select"'], "segments": ["Order Details.dear"]},
        [(6,)],
        "rows 1 and 2, doubled",
    ),
    Case(
        "odd-value-with-quote",
        ODD,
        {"measures": [f"{D}.money"], "filters": [f"{D}.\"CamelCase\" <> 'it''s; drop table x --'"]},
        [(8,)],
        "a quote in a text stays in the text",
    ),
]
