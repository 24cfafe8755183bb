"""A parser of its own for the part of SQL that definitions and questions of the cases use."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from functools import cache

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.lexing import Token, tokens
from tests.semantic_oracle.oracle.nodes import Call, Case, Lit, Node, Op, Ref, Slot

_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "is",
        "null",
        "in",
        "between",
        "like",
        "case",
        "when",
        "then",
        "else",
        "end",
        "true",
        "false",
        "as",
    ]
)


@cache
def parse(text: str) -> Node:
    """Return the expression; raises `OracleError` (query) for what is none."""
    parser = _Parser(tokens(text), text)
    node = parser.condition()
    parser.end()
    return node


class _Parser:
    def __init__(self, tokens: list[Token], text: str):
        self.tokens = tokens
        self.text = text
        self.at = 0

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise self._refusal()

    def condition(self) -> Node:
        parts = [self._conjunction()]
        while self._word("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Op("or", tuple(parts))

    def _conjunction(self) -> Node:
        parts = [self._negation()]
        while self._word("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Op("and", tuple(parts))

    def _negation(self) -> Node:
        return Op("not", (self._negation(),)) if self._word("not") else self._comparison()

    def _comparison(self) -> Node:
        left = self._sum()
        kind, text = self._peek()
        if kind == "sign" and text in _COMPARISONS:
            self.at += 1
            return Op(_COMPARISONS[text], (left, self._sum()))
        if self._word("is"):
            negated = self._word("not")
            self._expect_word("null")
            return self._maybe_not(Op("null", (left,)), negated)
        return self._set_test(left)

    def _set_test(self, left: Node) -> Node:
        negated = self._word("not")
        if self._word("in"):
            return self._maybe_not(Op("in", (left, *self._arguments())), negated)
        if self._word("between"):
            low = self._sum()
            self._expect_word("and")
            return self._maybe_not(Op("between", (left, low, self._sum())), negated)
        if self._word("like"):
            return self._maybe_not(Op("like", (left, self._sum())), negated)
        if negated:
            raise self._refusal()
        return left

    @staticmethod
    def _maybe_not(node: Node, negated: bool) -> Node:
        return Op("not", (node,)) if negated else node

    def _sum(self) -> Node:
        node = self._product()
        while (sign := self._sign("+", "-", "||")) is not None:
            node = Op(sign, (node, self._product()))
        return node

    def _product(self) -> Node:
        node = self._unary()
        while (sign := self._sign("*", "/", "%")) is not None:
            node = Op(sign, (node, self._unary()))
        return node

    def _unary(self) -> Node:
        return Op("neg", (self._unary(),)) if self._sign("-") else self._primary()

    def _primary(self) -> Node:
        kind, text = self._peek()
        self.at += 1
        if kind == "number":
            return Lit(Fraction(text) if "." in text else int(text))
        if kind == "text":
            return Lit(text[1:-1].replace("''", "'"))
        if kind == "slot":
            head, name = text.strip("{} ").split(".")
            return Slot(head, name)
        if kind == "sign" and text == "(":
            node = self.condition()
            self._expect_sign(")")
            return node
        if kind in ("word", "quoted"):
            return self._named(kind, text)
        raise self._refusal()

    def _named(self, kind: str, text: str) -> Node:
        word = text.lower() if kind == "word" else ""
        if word in ("true", "false", "null"):
            return Lit({"true": True, "false": False}.get(word))
        if word == "case":
            return self._case()
        if word in ("date", "timestamp") and self._peek()[0] == "text":
            return self._moment(word)
        if word and self._peek() == ("sign", "("):
            return self._call(word)
        if word in _WORDS:
            raise self._refusal()
        return Ref(self._rest(_plain(kind, text)))

    def _rest(self, first: str) -> tuple[str, ...]:
        parts = [first]
        while self._sign("."):
            kind, text = self._peek()
            if kind not in ("word", "quoted"):
                raise self._refusal()
            self.at += 1
            parts.append(_plain(kind, text))
        return tuple(parts)

    def _moment(self, word: str) -> Node:
        text = self._peek()[1][1:-1]
        self.at += 1
        return Lit(date.fromisoformat(text) if word == "date" else datetime.fromisoformat(text))

    def _case(self) -> Node:
        whens = []
        while self._word("when"):
            condition = self.condition()
            self._expect_word("then")
            whens.append((condition, self.condition()))
        default = self.condition() if self._word("else") else Lit(None)
        self._expect_word("end")
        return Case(tuple(whens), default)

    def _call(self, name: str) -> Node:
        if name == "cast":
            return self._cast()
        if self.tokens[self.at : self.at + 3] == [("sign", "("), ("sign", "*"), ("sign", ")")]:
            self.at += 3
            return Call(name, (), star=True, where=self._where())
        distinct = self.tokens[self.at + 1 : self.at + 2] != [] and self.tokens[self.at + 1][1].lower() == "distinct"
        if distinct:
            del self.tokens[self.at + 1]
        args = self._arguments()
        if name == "count_distinct":
            name, distinct = "count", True
        return Call(name, args, distinct, where=self._where())

    def _where(self) -> Node | None:
        if not (self._peek()[1].lower() == "filter" and self.tokens[self.at + 1 : self.at + 2] == [("sign", "(")]):
            return None
        self.at += 2
        self._expect_word("where")
        condition = self.condition()
        self._expect_sign(")")
        return condition

    def _cast(self) -> Node:
        self._expect_sign("(")
        value = self.condition()
        self._expect_word("as")
        target = self._peek()[1].lower()
        self.at += 1
        self._expect_sign(")")
        return Call("cast", (value, Lit(target)))

    def _arguments(self) -> tuple[Node, ...]:
        self._expect_sign("(")
        if self._sign(")"):
            return ()
        found = [self.condition()]
        while self._sign(","):
            found.append(self.condition())
        self._expect_sign(")")
        return tuple(found)

    def _peek(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def _word(self, word: str) -> bool:
        kind, text = self._peek()
        if kind != "word" or text.lower() != word:
            return False
        self.at += 1
        return True

    def _sign(self, *signs: str) -> str | None:
        kind, text = self._peek()
        if kind != "sign" or text not in signs:
            return None
        self.at += 1
        return text

    def _expect_word(self, word: str) -> None:
        if not self._word(word):
            raise self._refusal()

    def _expect_sign(self, sign: str) -> None:
        if not self._sign(sign):
            raise self._refusal()

    def _refusal(self) -> OracleError:
        return OracleError("query", f"cannot read `{self.text}` at `{self._peek()[1]}`")


def _plain(kind: str, text: str) -> str:
    if kind == "word":
        return text
    mark = text[0]
    return text[1:-1].replace(mark * 2, mark)
