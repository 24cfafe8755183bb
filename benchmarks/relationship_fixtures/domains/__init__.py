"""The domains the generator knows, all written for it; none is the schema of a known database."""

from __future__ import annotations

from functools import cache

from benchmarks.relationship_fixtures.concepts import Domain, parse_domain
from benchmarks.relationship_fixtures.domains import applications, commerce, industry, people, places, services


@cache
def application_domains() -> tuple[Domain, ...]:
    """Return the domains in the manner of large applications, sorted by name."""
    return tuple(parse_domain(name, text) for name, text in sorted(applications.DOMAINS.items()))


@cache
def all_domains() -> tuple[Domain, ...]:
    """Return the domains of businesses, sorted by name."""
    texts = commerce.DOMAINS | industry.DOMAINS | people.DOMAINS | places.DOMAINS | services.DOMAINS
    return tuple(parse_domain(name, text) for name, text in sorted(texts.items()))
