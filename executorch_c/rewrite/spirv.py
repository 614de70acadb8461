"""SPIR-V modules with one graph: instructions, and the graph's interface written anew.

Opcodes and operands: SPIR-V with the extensions SPV_ARM_tensors and SPV_ARM_graph.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Instruction: TypeAlias = "list[int]"
"""Opcode and operands."""

HEADER, BOUND = 5, 3
"""Words of the header, and the one that is larger than all ids."""
NAME, EXT_INST, TYPE_INT, POINTER, CONSTANT, VARIABLE, DECORATE = 5, 12, 21, 32, 43, 59, 71
ENTRY, GRAPH, INPUT, SET_OUTPUT, END, GRAPH_TYPE = 4182, 4183, 4184, 4185, 4186, 4190
UNIFORM_CONSTANT, BINDING, SET = 0, 33, 34
TYPES = range(19, 40)
"""Opcodes of types, which follow all decorations."""
RESULTS = {TYPE_INT: 1, POINTER: 1, CONSTANT: 2, EXT_INST: 2, INPUT: 2}
"""Operand that is the result, of instructions that are found or made."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    id: int
    type: int


class Module:
    """A module's instructions."""

    def __init__(self, words: Sequence[int]) -> None:
        self.header = [word & 0xFFFFFFFF for word in words[:HEADER]]
        self.rows: list[Instruction] = []
        at = HEADER
        while at < len(words):
            first = words[at] & 0xFFFFFFFF
            count = first >> 16
            if not count or count > len(words) - at:
                raise ValueError(f"SPIR-V: word {at} is no instruction")
            self.rows.append(
                [first & 0xFFFF, *(word & 0xFFFFFFFF for word in words[at + 1 : at + count])]
            )
            at += count

    def words(self) -> list[int]:
        """Return the words, as signed numbers."""
        out = [*self.header]
        for row in self.rows:
            out += [len(row) << 16 | row[0], *row[1:]]
        return [*struct.unpack(f"<{len(out)}i", struct.pack(f"<{len(out)}I", *out))]

    def of(self, opcode: int) -> Iterator[Instruction]:
        """Yield the instructions with an opcode."""
        return (row for row in self.rows if row[0] == opcode)

    @property
    def inputs(self) -> list[Value]:
        """Inputs of the graph, in order."""
        return [Value(row[2], row[1]) for row in self.of(INPUT)]

    @property
    def outputs(self) -> list[Value]:
        """Outputs of the graph, in order."""
        types = {value.id: value.type for value in [*self.inputs, *self.results]}
        return [Value(row[1], types[row[1]]) for row in self.of(SET_OUTPUT)]

    @property
    def results(self) -> list[Value]:
        """Results of the graph's operators, in order."""
        graph = next(i for i, row in enumerate(self.rows) if row[0] == GRAPH)
        return [Value(row[2], row[1]) for row in self.rows[graph:] if row[0] == EXT_INST]

    # ---- changes ---------------------------------------------------------------------------

    def set_interface(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Give the graph other inputs and outputs: bindings of set 0, inputs first. Results that
        become inputs are not computed."""
        entry = next(self.of(ENTRY))
        end = next(i for i, word in enumerate(entry[2:], 2) if not word >> 24)
        self._forget({*entry[end + 1 :]})
        computed = {value.id for value in inputs}
        self.rows = [
            row
            for row in self.rows
            if row[0] not in (INPUT, SET_OUTPUT) and not (row[0] == EXT_INST and row[2] in computed)
        ]
        variables = [self._variable(value, at) for at, value in enumerate([*inputs, *outputs])]
        entry[end + 1 :] = variables
        graph = next(self.of(GRAPH))
        kind = next(row for row in self.of(GRAPH_TYPE) if row[1] == graph[1])
        kind[2:] = [len(inputs), *(value.type for value in [*inputs, *outputs])]
        self._move_last(kind)  # behind the types that it has
        given_rows = [[INPUT, v.type, v.id, self._number(i)] for i, v in enumerate(inputs)]
        set_rows = [[SET_OUTPUT, v.id, self._number(i)] for i, v in enumerate(outputs)]
        at = self.rows.index(graph) + 1
        self.rows[at:at] = given_rows
        at = next(i for i, row in enumerate(self.rows) if row[0] == END)
        self.rows[at:at] = set_rows

    def keep_needed(self) -> None:
        """Remove operators that no output depends on."""
        wanted = {value.id for value in self.outputs}
        graph = next(i for i, row in enumerate(self.rows) if row[0] == GRAPH)
        kept: list[Instruction] = []
        for row in reversed(self.rows[graph:]):
            if row[0] == EXT_INST:
                if row[2] not in wanted:
                    continue
                wanted.update(row[5:])
            kept.append(row)
        self.rows[graph:] = kept[::-1]

    def _forget(self, ids: set[int]) -> None:
        """Remove variables, their names and decorations."""
        subjects = {NAME: 1, DECORATE: 1, VARIABLE: 2}
        self.rows = [
            row for row in self.rows if row[0] not in subjects or row[subjects[row[0]]] not in ids
        ]

    def _new(self) -> int:
        self.header[BOUND] += 1
        return self.header[BOUND] - 1

    def _declare(self, row: Instruction) -> None:
        """Add a declaration: the entry point follows all of them."""
        self.rows.insert(next(i for i, one in enumerate(self.rows) if one[0] == ENTRY), row)

    def _move_last(self, row: Instruction) -> None:
        self.rows.remove(row)
        self._declare(row)

    def _found(self, opcode: int, *operands: int) -> int:
        """Return the id of a declaration with these operands but its result; it is added if the
        module does not have it."""
        at = RESULTS[opcode] - 1
        for row in self.of(opcode):
            if [*row[1 : 1 + at], *row[2 + at :]] == [*operands]:
                return row[1 + at]
        new = self._new()
        self._declare([opcode, *operands[:at], new, *operands[at:]])
        return new

    def _number(self, number: int) -> int:
        return self._found(CONSTANT, self._found(TYPE_INT, 32, 0), number)

    def _variable(self, value: Value, binding: int) -> int:
        pointer = self._found(POINTER, UNIFORM_CONSTANT, value.type)
        variable = self._new()
        self._declare([VARIABLE, pointer, variable, UNIFORM_CONSTANT])
        at = next(i for i, row in enumerate(self.rows) if row[0] in TYPES)
        self.rows[at:at] = [[DECORATE, variable, BINDING, binding], [DECORATE, variable, SET, 0]]
        return variable
