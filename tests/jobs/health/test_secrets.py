"""Secret references in `status` (nobody is asked) and `doctor` (everything is)."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from ktx_cli.jobs.health.doctor import diagnose
from ktx_cli.jobs.health.model import Level
from ktx_cli.jobs.health.status import StatusReport, project_status

CANARY = "canary-pw"
POSTGRES = "connections:\n  pg:\n    driver: postgres\n    host: localhost\n    password: {}\n"


def status_of(project: Path, reference: str, environ: dict[str, str]) -> StatusReport:
    (project / "ktx.yaml").write_text(POSTGRES.format(reference))
    return project_status(project, environ)


class _Keyring(types.ModuleType):
    """A keyring that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.errors = types.ModuleType("keyring.errors")
        self.errors.NoKeyringError = type("NoKeyringError", (Exception,), {})  # type: ignore[attr-defined]
        self.asked = 0

    def get_password(self, service: str, name: str) -> str:
        self.asked += 1
        return CANARY


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> _Keyring:
    fake = _Keyring()
    monkeypatch.setitem(sys.modules, "keyring", fake)
    monkeypatch.setitem(sys.modules, "keyring.errors", fake.errors)
    return fake


@pytest.mark.parametrize(
    ("reference", "environ", "level", "state", "named"),
    [
        ("env:PG_PASSWORD", {}, "fail", "unresolved", "export PG_PASSWORD=..."),
        ("env:PG_PASSWORD", {"PG_PASSWORD": " "}, "fail", "unresolved", "export PG_PASSWORD=..."),
        ("env:PG_PASSWORD", {"PG_PASSWORD": CANARY}, "ok", "ok", None),
        ("env:PG_PASSWORD", {"PG_PASSWORD": f"keyring:{CANARY}/x"}, "ok", "ok", None),
        ("file:missing.txt", {}, "fail", "unresolved", "missing.txt"),
        ("file:there.txt", {}, "ok", "ok", None),
        ("keyring:ktx/pg", {}, "skip", "unverified", "ktx doctor --only secrets"),
        ("plain", {}, "ok", "ok", None),
    ],
)
def test_status(
    tmp_path: Path,
    keyring: _Keyring,
    reference: str,
    environ: dict[str, str],
    level: str,
    state: str,
    named: str | None,
) -> None:
    secret = tmp_path / "there.txt"
    secret.write_text(CANARY)
    secret.chmod(0o600)
    status = status_of(tmp_path, reference, environ)
    (finding,) = [f for f in status.findings if f.check == "secrets"]
    assert finding.level == level
    assert named is None or named in str(finding.hint)
    assert [c.to_json()["secrets"] for c in status.connections] == [state]
    assert keyring.asked == 0
    assert CANARY not in str(status.to_json())
    error = status.error()
    assert error is not None  # nothing is ingested
    assert error.exit_code == 3
    assert ("secret reference" in error.message) is (level == "fail")


def test_a_reference_that_does_not_resolve_is_named_before_missing_context(tmp_path: Path) -> None:
    assert status_of(tmp_path, "env:PG_PASSWORD", {}).next_command == "export PG_PASSWORD=..."


def test_doctor_asks_the_keyring(tmp_path: Path, keyring: _Keyring) -> None:
    (tmp_path / "ktx.yaml").write_text(POSTGRES.format("keyring:ktx/pg"))
    (finding,) = diagnose(tmp_path, {}, only=["secrets"])
    assert (finding.level, keyring.asked) == (Level.OK, 1)


def test_the_secret_of_a_source_has_to_resolve_too(tmp_path: Path) -> None:
    (tmp_path / "ktx.yaml").write_text(
        "connections:\n  n:\n    driver: notion\n    crawl_mode: all_accessible\n"
        "    auth_token_ref: env:NOT_SET_ANYWHERE\n"
    )
    status = project_status(tmp_path, {})
    assert [f.level for f in status.findings if f.check == "secrets"] == [Level.FAIL]
    assert [c.to_json()["secrets"] for c in status.connections] == ["unresolved"]
