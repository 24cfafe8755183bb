"""Keys in databases of several tenants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktx_cli.scan.relationships.columns import Candidate, DatabaseFacts, NameMatch
from ktx_cli.scan.relationships.keys import with_tenants
from ktx_cli.scan.relationships.record import KeyChoice

Gathered = Callable[..., DatabaseFacts]


@pytest.mark.parametrize(
    ("wide", "declared", "expected"),
    [(3, False, ("tenant_id", "voucher_id")), (2, False, ("voucher_id",)), (3, True, ("voucher_id",))],
)
def test_a_key_beside_the_tenant_s_takes_it_in_where_most_do(
    gathered: Gathered, wide: int, declared: bool, expected: tuple[str, ...]
) -> None:
    names = [f"t{number}" for number in range(wide)]
    own = {name: {"tenant_id": [1, 1, 2], "nr_id": [1, 2, 1]} for name in names}
    facts = gathered({"tenants": {"id": [1, 2]}, **own, "vouchers": {"tenant_id": [1, 2, 2], "voucher_id": [1, 2, 3]}})
    tables = {table.table.ref.name: table for table in facts.tables}
    key = tables["tenants"].column("id")
    chosen = {tables[name]: KeyChoice(("tenant_id", "nr_id"), False) for name in names}
    chosen[tables["vouchers"]] = KeyChoice(("voucher_id",), declared)
    refers = {
        table: {column: Candidate(column, key, NameMatch(1.0, 0.0))}
        for table in chosen
        for column in table.columns
        if column.name == "tenant_id"
    }
    assert with_tenants(chosen, refers)[tables["vouchers"]].primary == expected
