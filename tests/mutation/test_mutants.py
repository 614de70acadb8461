"""Mutants of Python: what is changed, and that a running process takes the change."""

import ast
from types import CodeType, FunctionType

import pytest

from tests.mutation import mutate_py, patching
from tests.mutation.mutant import near

FILE = "executorch_c/toy.py"
SOURCE = '''"""Text 1."""
LIMIT = 3


def above(x: int = 1) -> bool:
    """Return 2 > 1."""
    if x is not None and x > LIMIT + 1:  # a > b
        return True
    count = f"{x > 1}"
    values = [y for y in [x] if not (y <
                                       x)]
    values.sort()
    return any(y > 9 for y in values)
'''


def changes(line: int) -> set[tuple[str, str, str]]:
    """Return kind, text and new text of the changes of a line."""
    found = mutate_py.mutants(FILE, SOURCE)
    return {(m.kind, m.text, " ".join(m.new.split())) for m in found if m.line == line}


def test_changes() -> None:
    """Only code of functions changes: no texts, default values, comments, module's constants."""
    test = "x is not None and x > LIMIT + 1"
    assert changes(7) == {
        *(("condition", test, "(True)"), ("condition", test, "(False)")),
        *(("operator", "is not", "is"), ("operator", "and", "or"), ("operator", "+", "-")),
        *(("operator", ">", ">="), ("operator", ">", "<=")),
        *(("constant", "1", "0"), ("constant", "1", "2")),
    }
    assert changes(8) == {("constant", "True", "False")}
    assert ("operator", "not", "") in changes(10)
    assert changes(12) == {("statement", "values.sort()", "pass")}
    assert ("operator", "any", "all") in changes(13)
    assert not any(changes(line) for line in (1, 2, 5, 6, 9))


def test_mutants_are_programs() -> None:
    """Each has the lines of the source where they were, and its own name."""
    found = mutate_py.mutants(FILE, SOURCE)
    assert len({mutant.name for mutant in found}) == len(found)
    for mutant in found:
        text = mutant.apply(SOURCE)
        ast.parse(text)
        assert text.count("\n") == SOURCE.count("\n")
        assert text.splitlines()[-1].startswith("    return a")


def function(codes: list[CodeType]) -> FunctionType:
    [code] = [code for code in codes if code.co_name == "above"]
    return FunctionType(code, {"LIMIT": 3})


def test_a_running_function_changes() -> None:
    before = function([*patching.compiled(SOURCE, FILE).values()])
    functions = {FILE: {patching.place(before.__code__): [before]}}
    assert before(5)
    text = SOURCE.replace("x > LIMIT + 1", "x > LIMIT + 3")
    assert patching.apply(functions, FILE, patching.changed(SOURCE, text, FILE)) == 1
    assert not before(5)
    with pytest.raises(SyntaxError):
        patching.changed(SOURCE, SOURCE + ")", FILE)


def test_the_same_code_is_no_change() -> None:
    text = SOURCE.replace("LIMIT + 1:", "(LIMIT + 1):")
    assert not patching.changed(SOURCE, text, FILE)


def test_tests_near_a_line() -> None:
    """A line in the middle of a statement has the tests of those around it."""
    lines = {3: ["a"], 5: ["b"], 9: ["c"]}
    assert [near(lines, line) for line in (3, 4, 12)] == [{"a"}, {"a", "b"}, {"c"}]
