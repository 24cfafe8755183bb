with latest as (
  select max(order_date) as last_day
  from {{ ref('order_revenue') }} as every_order
),

totals as (
  select
    customer_id,
    min(order_date) as first_order_date,
    max(order_date) as last_order_date,
    count(*) as order_count,
    sum(net_revenue) as net_revenue
  from {{ ref('order_revenue') }} as order_revenue
  group by customer_id
)

select
  customers.customer_id,
  customers.segment,
  totals.first_order_date,
  totals.last_order_date,
  coalesce(totals.order_count, 0) as order_count,
  coalesce(totals.net_revenue, 0) as net_revenue,
  coalesce(totals.last_order_date > latest.last_day - {{ var('active_days') }}, false) as is_active
from {{ ref('stg_customers') }} as customers
cross join latest
left join totals on totals.customer_id = customers.customer_id
