"""One change of a source file, and its name, which stays when other lines change."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One replacement of text in a file.

    Attributes:
        file: Path from the root of the tree.
        line: Number of its first line.
        span: Offsets of the replaced text in the file.
        kind: "operator", "constant", "condition" or "statement".
        text: Replaced text.
        new: Text instead of it.
        name: Ten hexadecimal digits of file, line's text and replacement.
    """

    file: str
    line: int
    span: tuple[int, int]
    kind: str
    text: str
    new: str
    name: str = ""

    def apply(self, source: str) -> str:
        """Return the source with the replacement."""
        start, end = self.span
        assert source[start:end] == self.text
        kept = "\n" * (self.text.count("\n") - self.new.count("\n"))  # lines keep their numbers
        return source[:start] + self.new + kept + source[end:]

    @property
    def title(self) -> str:
        """The place and the change, in one line."""
        texts = (" ".join(text.split()) or "nothing" for text in (self.text, self.new))
        return f"{self.file}:{self.line}: {' -> '.join(texts)}"


def digest(*parts: object) -> str:
    """Return ten hexadecimal digits of the text of parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:10]


def named(source: str, mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants of a file with their names."""
    lines, seen, result = source.splitlines(), Counter[str](), []
    for m in mutants:
        line = lines[m.line - 1].strip()
        name = digest(m.file, line, m.kind, m.text, m.new)
        seen[name] += 1
        if seen[name] > 1:
            name = digest(name, seen[name])
        result.append(Mutant(m.file, m.line, m.span, m.kind, m.text, m.new, name))
    return result


def sample(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in an order that depends on seed and names only: a change of the code
    leaves the others where they are."""
    return sorted(mutants, key=lambda m: digest(seed, m.name))


def near(lines: Mapping[int, Iterable[str]], line: int) -> set[str]:
    """Return the tests that run a line. Of one without code, in the middle of a statement, those of
    the lines with code around it."""
    above = max((other for other in lines if other <= line), default=0)
    below = min((other for other in lines if other >= line), default=0)
    return {*lines.get(above, ()), *lines.get(below, ())}
