select
  date_key,
  full_date,
  calendar_year,
  month_start,
  fiscal_year,
  fiscal_quarter,
  fiscal_month
from {{ source('finance', 'calendar') }}
