"""Amazon Redshift."""
