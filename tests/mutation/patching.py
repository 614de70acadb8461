"""Patches of a running process: functions get the code of a changed file."""

import gc
import importlib
import pkgutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests import ROOT

PACKAGE = "executorch_c"
Place = tuple[str, int]
"""A function's qualified name, and its first line."""
Functions = dict[str, dict[Place, list[FunctionType]]]
"""By file, from the root of the tree, and place: functions of this process."""


def load(folders: tuple[str, ...]) -> Functions:
    """Import all modules of folders; return their functions."""
    for folder in folders:
        package = importlib.import_module(f"{PACKAGE}.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    result: Functions = defaultdict(lambda: defaultdict(list))
    gc.unfreeze()  # which tests/conftest.py does with what the tests import
    objects = gc.get_objects()
    gc.freeze()
    for one in objects:
        if type(one) is FunctionType:
            path = Path(one.__code__.co_filename)
            if path.is_relative_to(ROOT / PACKAGE):
                file = path.relative_to(ROOT).as_posix()
                result[file][place(one.__code__)].append(one)
    return result


def place(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and those in its constants, at all depths."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def compiled(text: str, file: str) -> dict[tuple[Place, int], CodeType]:
    """Return the codes of a file by place, and by number of those at the same place."""
    seen: Counter[Place] = Counter()
    result = {}
    for code in codes(compile(text, str(ROOT / file), "exec", dont_inherit=True)):
        result[place(code), seen[place(code)]] = code
        seen[place(code)] += 1
    return result


def meaning(code: CodeType) -> tuple[object, ...]:
    """Return what a code does: all but its places in the text."""
    values = (meaning(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, names, tuple(values), code.co_exceptiontable


def changed(source: str, text: str, file: str) -> list[CodeType]:
    """Return the codes of a changed text that differ from those of the source.

    Raises:
        SyntaxError: The text is no program.
    """
    old = compiled(source, file)
    return [
        code
        for where, code in compiled(text, file).items()
        if where in old and meaning(code) != meaning(old[where])
    ]


def apply(functions: Functions, file: str, new: list[CodeType]) -> int:
    """Give functions their new code; return the number of them.

    Raises:
        ValueError: A function has other variables of its scope than before.
    """
    count = 0
    for code in new:
        for function in functions[file].get(place(code), ()):
            function.__code__ = code
            count += 1
    return count
