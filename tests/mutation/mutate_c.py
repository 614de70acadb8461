"""Mutants of C code, token by token: operators, constants, conditions, removed statements.

Preprocessor lines are left alone. Replacements that do not compile are no mutants: the compiler
knows types, this module does not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutation.mutant import Mutant, named

TOKEN = re.compile(
    r"""(?P<skip>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\.)*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>\.\.\.|<<=|>>=|->|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|.)""",
    re.X | re.S | re.M,
)
SWAPS = {
    **{"==": ["!="], "!=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"]},
    **{">": [">=", "<="], ">=": [">", "<"], "&&": ["||"], "||": ["&&"]},
    **{"+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["*"], "&": ["|"], "|": ["&"]},
    **{"<<": [">>"], ">>": ["<<"], "^": ["|"], "++": ["--"], "--": ["++"], "!": [""]},
    **{"+=": ["-="], "-=": ["+="], "*=": ["+="], "/=": ["*="], "&=": ["|="], "|=": ["&="]},
}
"""By operator: what stands instead of it."""
BINARY = set("+-*/%&|^<>")
"""Operators that need an operand on their left: others are signs, pointers, addresses."""
ENDS = set(";{}:")
"""Marks after which a statement begins."""
STARTS = {"(", "=", "->", ".", "[", "++", "--", "+=", "-=", "*=", "/=", "&=", "|=", "<<=", ">>="}
"""Marks after the first word of a statement that is no declaration."""
WORDS = {"if", "for", "while", "switch", "return", "sizeof", "case", "do", "else", "goto"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def tokens(source: str) -> list[Token]:
    """Return the tokens of a file without comments and preprocessor lines."""
    found = TOKEN.finditer(source)
    return [Token(str(m.lastgroup), m[0], m.start()) for m in found if m.lastgroup != "skip"]


def closing(row: list[Token], at: int) -> int:
    """Return the place of the bracket that closes the one at a place."""
    depth = 0
    for place in range(at, len(row)):
        depth += row[place].text in "([{"
        depth -= row[place].text in ")]}"
        if depth == 0:
            return place
    return len(row) - 1


def numbers(text: str) -> list[str]:
    """Return other numbers than this one."""
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
    if not match:
        return ["0.0"] if float_value(text) else ["1.0"]
    value = int(match[1], 16 if match[1][:2] in ("0x", "0X") else 10)
    return [f"{other}{match[2]}" for other in {0: (1,), 1: (0, 2)}.get(value, (value + 1, 0))]


def float_value(text: str) -> float:
    try:
        return float(text.rstrip("fFlL"))
    except ValueError:
        return 1.0  # hexadecimal


def operand_ends(token: Token) -> bool:
    """Return True if an expression can end with this token."""
    return (
        token.kind in ("number", "string")
        or token.text in (")", "]")
        or (token.kind == "word" and token.text not in WORDS)
    )


def swaps(row: list[Token], at: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield the changes of one token: kind, first and last token, new text."""
    token = row[at]
    if token.kind == "number":
        for new in numbers(token.text):
            yield "constant", at, at, new
    if token.kind == "mark" and token.text in SWAPS:
        left = at > 0 and operand_ends(row[at - 1])
        if left or token.text not in BINARY:
            for new in SWAPS[token.text]:
                yield "operator", at, at, new
    if token.text in ("if", "while") and row[at + 1].text == "(":
        end = closing(row, at + 1)
        for new in ("(0)", "(1)") if token.text == "if" else ("(0)",):
            yield "condition", at + 1, end, new
    if token.text == "?":
        yield "condition", at, at, "&& 0 ?"
        yield "condition", at, at, "|| 1 ?"


def statement(row: list[Token], at: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield the removal of the statement that begins with a token, if one does."""
    before, token = row[at - 1], row[at]
    begins = before.text in ENDS or before.text == "else" or follows_condition(row, at)
    if not begins or token.text in WORDS:
        return
    jump = token.text in ("break", "continue")
    assigns = token.kind == "word" and row[at + 1].text in STARTS
    if not jump and not assigns and token.text != "*":
        return
    end = at
    while end < len(row) and row[end].text != ";":
        if row[end].text in "([{":
            end = closing(row, end)
        elif row[end].text == "}":
            return
        end += 1
    if end < len(row):
        yield "statement", at, end, ";"


def follows_condition(row: list[Token], at: int) -> bool:
    """Return True if the token stands after `if (...)`, `for (...)` or `while (...)`."""
    if row[at - 1].text != ")":
        return False
    depth, place = 0, at - 1
    while place > 0:
        depth += (row[place].text == ")") - (row[place].text == "(")
        if depth == 0:
            return row[place - 1].text in ("if", "for", "while")
        place -= 1
    return False


def mutants(file: str, source: str) -> list[Mutant]:
    """Return the mutants of the functions and tables of a C file."""
    row, depth, found = tokens(source), 0, []
    for at, token in enumerate(row[:-1]):
        depth += (token.text == "{") - (token.text == "}")
        if depth == 0 or token.kind == "string":
            continue
        for kind, first, last, new in (*swaps(row, at), *statement(row, at)):
            start, end = row[first].at, row[last].end
            line = source.count("\n", 0, start) + 1
            found.append(Mutant(file, line, (start, end), kind, source[start:end], new))
    return named(source, found)
