"""Ways back in a graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.semantic.check import cycles

GRAPHS = st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=4), max_size=7)


def reached(uses: dict[int, list[int]], start: int) -> set[int]:
    seen: set[int] = set()
    open_nodes = list(uses.get(start, []))
    while open_nodes:
        node = open_nodes.pop()
        if node not in seen:
            seen.add(node)
            open_nodes += uses.get(node, [])
    return seen


@given(GRAPHS)
def test_cycles_are_found_where_there_are_some(uses: dict[int, list[int]]) -> None:
    found = cycles(uses)
    for cycle in found:
        assert all(after in uses[node] for node, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        assert len(set(cycle)) == len(cycle)
    on_a_cycle = {node for node in uses if node in reached(uses, node)}
    assert {node for cycle in found for node in cycle} <= on_a_cycle
    assert bool(found) == bool(on_a_cycle)
    for node in on_a_cycle:
        component = {other for other in reached(uses, node) if node in reached(uses, other)}
        assert any(component.issuperset(cycle) for cycle in found)


def test_a_deep_chain_is_no_problem() -> None:
    assert cycles({number: [number + 1] for number in range(5_000)}) == []
