"""Places in a method: instructions, nodes of delegates, and their results.

i3, "instruction 3"                        instruction 3, outside of delegates
c1.i3, "chain 1, instruction 3"            of chain 1, where a method has several
d0.5, "delegate 0, node 5"                 node 5 of delegate 0, in order of execution
d0.5:1, "delegate 0, node 5, result 1"     its second result
d0.5@2                                     the third time (from 0) that it runs in a call: loops
in.i3, "inside, instruction 3"             of a program inside a payload
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ID = re.compile(
    r"(?P<depth>(?:in\.)*)(?:(?:c(?P<chain>\d+)\.)?i(?P<instruction>\d+)|d(?P<delegate>\d+)\."
    r"(?P<node>\d+))(?::(?P<result>\d+))?(?:@(?P<times>\d+))?"
)
WORDS = re.compile(
    r"(?:chain (?P<chain>\d+), )?(?P<depth>(?:inside, )*)(?:instruction (?P<instruction>\d+)|"
    r"delegate (?P<delegate>\d+), node (?P<node>\d+))(?:, result (?P<result>\d+))?(?P<times>)"
)


@dataclass(frozen=True)
class Where:
    """A place in a method."""

    instruction: int | None = None
    """Number in its chain; None for nodes."""
    delegate: int | None = None
    node: int | None = None
    chain: int = 0
    result: int = 0
    times: int = 0
    """Earlier runs of the same place in a call."""
    depth: int = 0
    """Depth of the programs in payloads around it."""

    @classmethod
    def parse(cls, text: str) -> Where | None:
        """Return the place of an id or of words; None for any other text."""
        found = ID.fullmatch(text) or WORDS.fullmatch(text)
        if found is None:
            return None
        texts = {key: value for key, value in found.groupdict("").items() if value.isdigit()}
        return cls(depth=found["depth"].count("in"), **{key: int(texts[key]) for key in texts})

    @property
    def id(self) -> str:
        """Return "i3", "d0.5:1"."""
        if self.node is not None:
            text = f"d{self.delegate}.{self.node}"
        else:
            chain = f"c{self.chain}." if self.chain else ""
            text = f"{'in.' * self.depth}{chain}i{self.instruction}"
        text += f":{self.result}" if self.result else ""
        return f"{text}@{self.times}" if self.times else text

    def __str__(self) -> str:
        """Return "instruction 3", "delegate 0, node 5, result 1"."""
        chain = f"chain {self.chain}, " if self.chain else ""
        if self.node is not None:
            text = f"{chain}delegate {self.delegate}, node {self.node}"
        else:
            text = f"{chain}{'inside, ' * self.depth}instruction {self.instruction}"
        return f"{text}, result {self.result}" if self.result else text


def id_of(text: str) -> str:
    """Return the id of a place in words or as an id, and both ids of a pair of places of two
    programs ("d0.0 / d0.1"); another text as it is."""
    found = [Where.parse(part) for part in text.split(" / ")]
    return " / ".join(one.id for one in found if one) if all(found) else text
