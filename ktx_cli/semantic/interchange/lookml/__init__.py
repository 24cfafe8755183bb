"""Views, explores and measures of LookML."""
