-- No names, e-mail addresses or free text: reports do not need them.
select
  customer_id,
  segment,
  signed_up_on,
  referred_by_customer_id,
  newsletter
from {{ source('shop', 'customers') }}
