"""Companies that the tests of the package share; each is written once."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from ktx_cli.jobs.proof.company.company import Company, write_company


@pytest.fixture(scope="session")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Company]:
    """Return a function that writes the company of a seed."""
    return functools.cache(lambda seed: write_company(tmp_path_factory.mktemp("company"), seed))


@pytest.fixture(params=(1, 2, 3))
def company(request: pytest.FixtureRequest, companies: Callable[[int], Company]) -> Company:
    return companies(request.param)
