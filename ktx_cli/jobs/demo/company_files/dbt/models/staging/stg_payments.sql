-- Guest cards of the fairs are not customers.
select
  payment_id,
  order_id,
  case when customer_id < {{ var('guest_card_from') }} then customer_id end as customer_id,
  payment_date_key,
  method,
  status,
  amount
from {{ source('finance', 'payments') }}
