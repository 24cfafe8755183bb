from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.project import secrets
from ktx_cli.sources.git_cache import parse_address


@pytest.mark.parametrize(
    ("text", "url", "host"),
    [
        ("https://github.com/acme/dbt.git", "https://github.com/acme/dbt.git", "github.com"),
        ("https://u:p%40ss@git.example.com:8443/a/b.git", "https://git.example.com:8443/a/b.git", "git.example.com"),
        ("https://ghp_abcdef@github.com/a/b", "https://github.com/a/b", "github.com"),
        ("ssh://git@git.example.com:2222/a/b.git", "ssh://git@git.example.com:2222/a/b.git", "git.example.com"),
        ("ssh://git:word@git.example.com/a", "ssh://git@git.example.com/a", "git.example.com"),
        ("git@host.example:org/repo.git", "git@host.example:org/repo.git", "host.example"),
        ("host.example:org/repo.git", "host.example:org/repo.git", "host.example"),
        ("git@[::1]:repo.git", "git@[::1]:repo.git", "::1"),
        ("http://[::1]:80/a.git", "http://[::1]:80/a.git", "::1"),
    ],
)
def test_addresses(text: str, url: str, host: str, tmp_path: Path) -> None:
    found = parse_address(text, base=tmp_path, where="here")
    assert (found.url, found.host, found.path) == (url, host, None)


@pytest.mark.parametrize("form", ["{path}", "file://{path}", "repo", "./repo", "repo/../repo"])
def test_local_repositories(form: str, tmp_path: Path) -> None:
    path = tmp_path / "repo"
    path.mkdir()
    found = parse_address(form.format(path=path), base=tmp_path, where="here")
    assert found.path == path.resolve() and found.url == path.resolve().as_uri()


def test_a_file_with_a_colon_is_a_path_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    assert parse_address("a:b", base=tmp_path, where="here").path == tmp_path / "a:b"


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "ext::sh -c touch% /tmp/x", "fd::17", "-u", "--upload-pack=x", "git://host/a.git", "ftp://host/a",
        "https://", "https:///a", "ssh://-oProxyCommand=x/a", "https://host:notaport/a", "a\nb", "transport::https://x",
    ],
)  # fmt: skip
def test_what_is_no_address(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="here"):
        parse_address(text, base=tmp_path, where="here")


@pytest.mark.parametrize(
    ("url", "token", "pair"),
    [
        ("https://github.com/a/b", "secret-token", "x-access-token:secret-token"),
        ("https://gitlab.com/a/b", "secret-token", "oauth2:secret-token"),
        ("https://bitbucket.org/a/b", "secret-token", "x-token-auth:secret-token"),
        ("https://git.example.com/a/b", " secret-token\n", "token:secret-token"),
        ("https://git.example.com/a/b", "me:secret-token", "me:secret-token"),
        ("https://me:other-word@git.example.com/a/b", None, "me:other-word"),
        ("https://me@git.example.com/a/b", "secret-token", "me:secret-token"),
        ("https://lonely-token@git.example.com/a/b", None, "lonely-token:"),
        ("https://git.example.com/a/b", None, None),
        ("ssh://git@git.example.com/a/b", "secret-token", None),
    ],
)
def test_how_a_token_is_shown(url: str, token: str | None, pair: str | None, tmp_path: Path) -> None:
    header = parse_address(url, base=tmp_path, where="here").header(token)
    if pair is None:
        assert header is None
        return
    assert header is not None
    assert base64.b64decode(header.rpartition(" ")[2]).decode() == pair
    assert header.rpartition(" ")[2] not in secrets.mask(f"said: {header}")


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [("http://git.example.com/a", True), ("http://127.0.0.1:80/a", False), ("https://git.example.com/a", False)],
)
def test_what_can_be_read_on_the_way(url: str, is_plain: bool, tmp_path: Path) -> None:
    assert parse_address(url, base=tmp_path, where="here").is_plain is is_plain
