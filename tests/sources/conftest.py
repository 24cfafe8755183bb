"""The scripted web site, and the context of a fetch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.port import FetchContext
from tests.sources.web_site import Reply, WebSite, serve_site


@pytest.fixture(scope="session")
def _one_web_site() -> Iterator[WebSite]:
    with serve_site() as site:
        yield site


@pytest.fixture
def web_site(_one_web_site: WebSite) -> WebSite:
    """A scripted web site, its script and its requests forgotten before each test."""
    _one_web_site.forget()
    return _one_web_site


@pytest.fixture
def reply() -> type[Reply]:
    """The answers of the scripted web site."""
    return Reply


@pytest.fixture
def fetch_context(tmp_path: Path) -> Callable[..., FetchContext]:
    """Return a function that makes the context of a fetch for a project in `project/`."""

    def make(**fields: Any) -> FetchContext:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        common = {"connection": "notes", "environ": {"TOKEN": "tok-secret-value"}, "raw": RawStore(root / ".ktx/raw")}
        return FetchContext(layout=Layout(root), **{**common, **fields})

    return make
