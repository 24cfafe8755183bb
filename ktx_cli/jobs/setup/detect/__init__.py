"""Finds what a project could use on this machine."""
