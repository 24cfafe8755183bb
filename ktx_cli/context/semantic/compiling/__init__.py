"""A plan as one statement: rows of each fact grouped, the facts put together, formulas over them."""
