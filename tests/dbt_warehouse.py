"""Writes a dbt project of 13 models and the warehouse that it builds: `python -m tests.dbt_warehouse FOLDER`.

The warehouse is a DuckDB file with the schemas `raw` (sources), `staging`, `marts` and `snapshots`. All tables of a
layer have the keys of the layers below, as in every dbt project, so that names and values alone would join all layers.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Final

RAW: Final = ("customers", "orders", "items", "products", "stores", "supplies")
MODELS: Final = (
    *("stg_customers", "stg_orders", "stg_order_items", "stg_products", "stg_stores", "stg_supplies"),
    *("int_order_totals", "customers", "orders", "order_items", "products", "stores"),
    "orders_snapshot",
)

_SQL: Final = {
    "models/staging/stg_customers.sql": "select id as customer_id, name as customer_name"
    " from {{ source('raw', 'raw_customers') }}",
    "models/staging/stg_orders.sql": "select id as order_id, customer as customer_id, store_id, ordered_at"
    " from {{ source('raw', 'raw_orders') }}",
    "models/staging/stg_order_items.sql": "select id as order_item_id, order_id, sku as product_id"
    " from {{ source('raw', 'raw_items') }}",
    "models/staging/stg_products.sql": "select sku as product_id, name as product_name, price"
    " from {{ source('raw', 'raw_products') }}",
    "models/staging/stg_stores.sql": "select id as store_id, name as store_name, opened_at"
    " from {{ source('raw', 'raw_stores') }}",
    "models/staging/stg_supplies.sql": "select id as supply_id, sku as product_id, name as supply_name, cost"
    " from {{ source('raw', 'raw_supplies') }}",
    "models/intermediate/int_order_totals.sql": "select i.order_id, sum(p.price) as order_total, count(*) as items"
    " from {{ ref('stg_order_items') }} as i join {{ ref('stg_products') }} as p using (product_id)"
    " group by i.order_id",
    "models/marts/customers.sql": "select c.customer_id, c.customer_name, count(o.order_id) as orders_placed"
    " from {{ ref('stg_customers') }} as c left join {{ ref('stg_orders') }} as o using (customer_id)"
    " group by c.customer_id, c.customer_name",
    "models/marts/orders.sql": "select o.order_id, o.customer_id, o.store_id, o.ordered_at, t.order_total"
    " from {{ ref('stg_orders') }} as o left join {{ ref('int_order_totals') }} as t using (order_id)",
    "models/marts/order_items.sql": "select i.order_item_id, i.order_id, i.product_id, p.price"
    " from {{ ref('stg_order_items') }} as i left join {{ ref('stg_products') }} as p using (product_id)",
    "models/marts/products.sql": "select product_id, product_name, price from {{ ref('stg_products') }}",
    "models/marts/stores.sql": "select store_id, store_name, opened_at from {{ ref('stg_stores') }}",
}

_SNAPSHOT: Final = """\
{% snapshot orders_snapshot %}
{{ config(target_schema='snapshots', unique_key='order_id', strategy='timestamp', updated_at='ordered_at') }}
select * from {{ ref('stg_orders') }}
{% endsnapshot %}
"""

_PROJECT: Final = """\
name: shop
version: '1.0'
config-version: 2
profile: shop
models:
  shop:
    +materialized: table
    staging:
      +schema: staging
    intermediate:
      +schema: staging
    marts:
      +schema: marts
"""

_SOURCES: Final = """\
version: 2
sources:
  - name: raw
    schema: raw
    tables:
"""

KEYS: Final = {
    "stg_customers": "customer_id",
    "stg_orders": "order_id",
    "stg_order_items": "order_item_id",
    "stg_products": "product_id",
    "stg_stores": "store_id",
    "stg_supplies": "supply_id",
    "int_order_totals": "order_id",
    "customers": "customer_id",
    "orders": "order_id",
    "order_items": "order_item_id",
    "products": "product_id",
    "stores": "store_id",
}
"""Model -> the column that tests declare `unique` and `not_null`."""

REFERENCES: Final = (
    ("stg_orders", "customer_id", "stg_customers"),
    ("stg_order_items", "order_id", "stg_orders"),
    ("stg_supplies", "product_id", "stg_products"),
    ("orders", "customer_id", "customers"),
    ("orders", "store_id", "stores"),
    ("order_items", "order_id", "orders"),
    ("order_items", "product_id", "products"),
)
"""The `relationships` tests: model, column, and the model whose key it refers to under the same name."""


def write(folder: Path) -> tuple[Path, Path]:
    """Write the project and the warehouse. Returns the folder of the project, and the file of the warehouse."""
    project, warehouse = folder / "dbt", folder / "warehouse.duckdb"
    for name, text in _files().items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    _build(warehouse)
    return project, warehouse


def _files() -> dict[str, str]:
    sources = _SOURCES + "".join(f"      - name: raw_{name}\n" for name in RAW)
    return {
        "dbt_project.yml": _PROJECT,
        "models/staging/sources.yml": sources,
        "models/schema.yml": _tests(),
        "snapshots/orders_snapshot.sql": _SNAPSHOT,
        **{path: f"{sql}\n" for path, sql in _SQL.items()},
    }


def _tests() -> str:
    lines = ["version: 2", "models:"]
    for model, key in KEYS.items():
        lines += [
            f"  - name: {model}",
            "    columns:",
            f"      - name: {key}",
            "        data_tests: [unique, not_null]",
        ]
        for child, column, parent in REFERENCES:
            if child == model:
                lines += [
                    f"      - name: {column}",
                    "        data_tests:",
                    "          - relationships:",
                    f"              to: ref('{parent}')",
                    f"              field: {column}",
                ]
    return "\n".join(lines) + "\n"


_RAW_ROWS: Final = """\
create schema raw; create schema staging; create schema marts; create schema snapshots;
create table raw.raw_customers as
  select 'c' || lpad(i::text, 4, '0') as id, 'Customer ' || i as name from range(1, 91) t(i);
create table raw.raw_stores as
  select i as id, 'Store ' || i as name, date '2019-01-01' + (i * 91)::int as opened_at from range(1, 7) t(i);
create table raw.raw_products as
  select 'JAF-' || lpad(i::text, 3, '0') as sku, 'Product ' || i as name, 300 + 50 * i as price from range(1, 11) t(i);
create table raw.raw_supplies as
  select 'SUP-' || lpad(i::text, 3, '0') as id, 'Supply ' || i as name, 5 + 7 * i as cost,
    'JAF-' || lpad((1 + i % 10)::text, 3, '0') as sku from range(1, 31) t(i);
create table raw.raw_orders as
  select i as id, 'c' || lpad((1 + (i * 17) % 90)::text, 4, '0') as customer, 1 + (i * 7) % 6 as store_id,
    timestamp '2023-01-01' + interval (i * 5) hour as ordered_at from range(1, 601) t(i);
create table raw.raw_items as
  select i as id, 1 + (i * 11) % 600 as order_id, 'JAF-' || lpad((1 + (i * 3) % 10)::text, 3, '0') as sku
  from range(1, 1201) t(i);
"""


def _build(warehouse: Path) -> None:
    import duckdb

    with duckdb.connect(str(warehouse)) as database:
        database.execute(_RAW_ROWS)
        built: dict[str, str] = {}
        for path, sql in _SQL.items():
            name, layer = Path(path).stem, Path(path).parts[1]
            schema = "marts" if layer == "marts" else "staging"
            for raw in RAW:
                sql = sql.replace(f"{{{{ source('raw', 'raw_{raw}') }}}}", f"raw.raw_{raw}")
            for model, place in built.items():
                sql = sql.replace(f"{{{{ ref('{model}') }}}}", place)
            built[name] = f"{schema}.{name}"
            database.execute(f"create table {built[name]} as {sql}")
        database.execute(
            textwrap.dedent("""\
                create table snapshots.orders_snapshot as
                select *, md5(order_id::text || ordered_at::text) as dbt_scd_id, ordered_at as dbt_updated_at,
                  ordered_at as dbt_valid_from, null::timestamp as dbt_valid_to
                from staging.stg_orders""")
        )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
