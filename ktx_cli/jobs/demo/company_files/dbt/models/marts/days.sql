select
  full_date as date_day,
  month_start,
  fiscal_year,
  fiscal_quarter
from {{ ref('stg_calendar') }} as calendar
