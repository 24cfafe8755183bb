"""Import the data sources of Tableau files."""
