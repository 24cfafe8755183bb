select
  refund_id,
  order_id,
  line_number,
  refund_date_key,
  reason,
  amount
from {{ source('finance', 'refunds') }}
