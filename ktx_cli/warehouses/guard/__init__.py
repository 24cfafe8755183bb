"""Lets through statements that only read: parts and functions from lists, written anew from their tree."""
