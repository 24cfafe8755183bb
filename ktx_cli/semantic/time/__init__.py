"""Calendars, periods, time zones, and time as SQL."""
