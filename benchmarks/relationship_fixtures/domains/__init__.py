"""The domains the generator knows, all written for it; none is the schema of a known database."""

from __future__ import annotations

from functools import cache

from benchmarks.relationship_fixtures.concepts import Domain, parse_domain
from benchmarks.relationship_fixtures.domains import applications, commerce, industry, people, places, services


@cache
def all_domains() -> tuple[Domain, ...]:
    """Return every domain, sorted by name."""
    texts = applications.DOMAINS | commerce.DOMAINS | industry.DOMAINS | people.DOMAINS | places.DOMAINS | services.DOMAINS
    return tuple(parse_domain(name, text) for name, text in sorted(texts.items()))
