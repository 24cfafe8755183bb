"""Companies that the tests of the package share; each is written once, whichever worker wants it first."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.jobs.proof.company.company import Company, write_company


@pytest.fixture(scope="session")
def companies(built_once: Callable[[str, Callable[[Path], None]], Path]) -> Callable[[int], Company]:
    """Return a function that writes the company of a seed."""

    def company(seed: int) -> Company:
        def build(folder: Path) -> None:
            folder.with_suffix(".pickle").write_bytes(pickle.dumps(write_company(folder, seed)))

        folder = built_once(f"company-{seed}", build)
        made = pickle.loads(folder.with_suffix(".pickle").read_bytes())
        assert isinstance(made, Company)
        return made

    return functools.cache(company)


@pytest.fixture(params=(1, 2, 3))
def company(request: pytest.FixtureRequest, companies: Callable[[int], Company]) -> Company:
    return companies(request.param)
