"""Stores loaded semantic layers in one file each, from which sources can be read individually."""
