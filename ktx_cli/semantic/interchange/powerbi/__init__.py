"""Import Power BI models: tables, relationships and DAX measures."""
