"""Detects what a project could use on this machine."""
