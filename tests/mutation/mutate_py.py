"""Mutants of Python code by its syntax tree: operators, constants, conditions, removed statements.

Only code in functions is changed: it can be replaced in a running process (`patching.py`). Texts,
annotations, default values and decorators are left alone.
"""

import ast
import re


from tests.mutation.mutant import Mutant, named

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/",)),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("*",)),
    ast.Mod: ("%", ("*",)),
    ast.Pow: ("**", ("*",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.BitXor: ("^", ("|",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
}
"""By operator: its text, and those that stand instead of it."""
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum"}
CALLS["maximum"] = "minimum"
Change = tuple[str, int, int, str]
"""Kind, offsets of the replaced text, new text."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Changes(ast.NodeVisitor):
    """The changes of the functions of a file.

    Attributes:
        source: Text of the file.
        found: Changes, in no order.
    """

    def __init__(self, source: str) -> None:
        self.source, self.depth = source, 0
        self.found: list[Change] = []
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = source.splitlines()

    def offset(self, line: int, column: int) -> int:
        """Return the offset in the text of a place in bytes of a line."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def add(self, kind: str, span: tuple[int, int], new: str) -> None:
        if self.depth:
            self.found.append((kind, *span, new))

    def between(self, left: ast.expr, right: ast.expr, text: str, others: tuple[str, ...]) -> None:
        """Add the changes of an operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        pattern = r"\s+".join(map(re.escape, text.split()))
        pattern = rf"\b{pattern}\b" if text[0].isalpha() else pattern
        match = re.search(pattern, re.sub(r"#[^\n]*", blank, self.source[start:end]))
        for new in others if match else ():
            assert match
            self.add("operator", (start + match.start(), start + match.end()), new)

    def condition(self, test: ast.expr) -> None:
        start, end = self.span(test)
        lines = "\n" * self.source.count("\n", start, end)
        for new in ("True", "False"):
            self.add("condition", (start, end), f"({new}{lines})")

    def inside(self, node: Function) -> None:
        """Visit the body of a function: not its decorators, annotations and default values."""
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.depth += 1
        for child in body:
            self.visit(child)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = inside  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone: before Python 3.12, their nodes have no places."""

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self.between(left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, text, (new,))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not is_number(node.left)
        if type(node.op) in ARITHMETIC and not is_text:
            self.between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, _ = self.span(node)
            self.add("operator", (start, start + len("not")), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if value is True or value is False:
            self.add("constant", self.span(node), str(not value))
        elif is_number(node):
            others = {0: (1,), 1: (0, 2)}.get(value, (value + 1, 0))
            for other in others:
                self.add("constant", self.span(node), repr(type(value)(other)))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in CALLS:
            _, end = self.span(node.func)
            self.add("operator", (end - len(name), end), CALLS[name])
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self.condition(node.test)
        self.generic_visit(node)

    visit_IfExp = visit_If  # type: ignore[assignment] # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        start, end = self.span(node.test)
        lines = "\n" * self.source.count("\n", start, end)
        self.add("condition", (start, end), f"(False{lines})")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.condition(test)
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt) and removable(node):
            self.add("statement", self.span(node), "pass")
        super().generic_visit(node)


def blank(match: re.Match[str]) -> str:
    """Return spaces instead of a comment."""
    return " " * len(match[0])


def is_number(node: ast.expr) -> bool:
    """Return True for a literal number."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def removable(node: ast.stmt) -> bool:
    """Return True for a statement that a program can do without: a call, a jump, an assignment to
    what there is already."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.AugAssign | ast.Break | ast.Continue | ast.Raise | ast.Delete)


def mutants(file: str, source: str) -> list[Mutant]:
    """Return the mutants of the functions of a Python file."""
    changes = Changes(source)
    changes.visit(ast.parse(source))
    rows = []
    for kind, start, end, new in sorted(set(changes.found), key=lambda row: row[1:]):
        line = source.count("\n", 0, start) + 1
        rows.append(Mutant(file, line, (start, end), kind, source[start:end], new))
    return named(source, rows)
