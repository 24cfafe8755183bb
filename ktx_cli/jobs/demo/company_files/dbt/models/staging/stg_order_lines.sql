select
  order_id,
  line_number,
  product_id,
  quantity,
  quantity * unit_price - discount_amount as line_revenue
from {{ source('shop', 'order_lines') }}
