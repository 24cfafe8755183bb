with lines as (
  select order_id, sum(line_revenue) as gross_revenue
  from {{ ref('stg_order_lines') }} as order_lines
  group by order_id
),

refunds as (
  select order_id, sum(amount) as refunded_amount
  from {{ ref('stg_refunds') }} as all_refunds
  group by order_id
)

select
  orders.order_id,
  orders.customer_id,
  orders.order_date_key,
  calendar.full_date as order_date,
  addresses.region_code,
  orders.channel,
  orders.status,
  lines.gross_revenue,
  coalesce(refunds.refunded_amount, 0) as refunded_amount,
  lines.gross_revenue - coalesce(refunds.refunded_amount, 0) as net_revenue
from {{ ref('stg_orders') }} as orders
join lines on lines.order_id = orders.order_id
join {{ ref('stg_calendar') }} as calendar on calendar.date_key = orders.order_date_key
join {{ ref('stg_addresses') }} as addresses on addresses.address_id = orders.shipping_address_id
left join refunds on refunds.order_id = orders.order_id
where orders.status <> 'cancelled'
