select
  order_id,
  customer_id,
  order_date_key,
  due_date_key,
  ship_date_key,
  shipping_address_id,
  channel,
  status,
  ship_date_key > due_date_key as is_late
from {{ source('shop', 'orders') }}
