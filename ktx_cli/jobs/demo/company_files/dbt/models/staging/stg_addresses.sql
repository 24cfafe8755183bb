select
  address_id,
  customer_id,
  town,
  region_code
from {{ source('shop', 'addresses') }}
