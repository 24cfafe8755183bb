"""Exports of data catalogs such as DataHub and OpenMetadata: their entities in one form, and what becomes of them."""

from __future__ import annotations
