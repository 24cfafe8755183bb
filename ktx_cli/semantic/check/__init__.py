"""Checks a loaded model: names, expressions, joins."""
