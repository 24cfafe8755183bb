"""Conditions where a dialect has no booleans: T-SQL takes a condition in some places, and a bit everywhere else."""

from __future__ import annotations

from sqlglot import exp

_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)
_TAKES_CONDITION = (exp.Where, exp.Having, exp.Connector, exp.Not)


def without_booleans(tree: exp.Expr) -> exp.Expr:
    """Return the statement (changed in place) with a bit for each condition that is a value, and back."""
    for node in reversed(list(tree.walk())):
        if isinstance(node, exp.Paren | exp.Alias) or not isinstance(node, exp.Condition):
            continue
        is_condition, is_wanted = isinstance(node, _CONDITIONS), _stands_for_a_condition(node)
        if is_condition and not is_wanted:
            _replace(node, _as_bit(node))
        elif is_wanted and not is_condition and not isinstance(node, exp.Boolean):
            _replace(node, exp.EQ(this=node.copy(), expression=exp.Literal.number(1)))
    return tree


def _stands_for_a_condition(node: exp.Expr) -> bool:
    child, around = node, node.parent
    while isinstance(around, exp.Paren):
        child, around = around, around.parent
    if isinstance(around, exp.If):
        return child.arg_key == "this" and not (isinstance(around.parent, exp.Case) and around.parent.this)
    if isinstance(around, exp.CountIf):
        return True
    if isinstance(around, exp.Join):
        return child.arg_key == "on"
    return isinstance(around, _TAKES_CONDITION)


def _as_bit(condition: exp.Expr) -> exp.Expr:
    """Return 1, 0 or nothing, of a condition that holds, does not, or is not known."""
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    no = exp.Not(this=exp.paren(condition.copy(), copy=False))
    cases = [exp.If(this=condition.copy(), true=one), exp.If(this=no, true=zero)]
    return exp.Case(ifs=cases)


def _replace(node: exp.Expr, by: exp.Expr) -> None:
    node.replace(by)
