"""Construction of a graph from the writers of each instruction's inputs, inside delegates too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from executorch_c._render import text as _text
from executorch_c.inspect import families, structure
from executorch_c._render.page.model import DataPlace, Node, Sources
from executorch_c.inspect.structure import Instruction, View
from executorch_c.inspect.where import Where

if TYPE_CHECKING:
    from executorch_c._types import DelegateInside, InnerValue

State: TypeAlias = "dict[int, Sources]"
"""Writers of each value."""

KEY = re.compile(r"(\bscales in )?\bnamed data ([^,]+)")
"""The keys in the note of a delegate's constant: that of its scales, and its own."""
MAX_VALUE_CHARACTERS = 1000
"""Maximum number of characters of a string or name among the attributes of a node."""
LOOP_PASSES = 3
"""Number of passes over the instructions, so that values computed in a loop reach its start."""


def nodes_of(view: View) -> dict[str, Node]:
    """Return the nodes of a method by id, in order of the instructions, then its outputs."""
    nodes: dict[str, Node] = {}
    builder = Builder(view, nodes)
    for number, sources in enumerate(builder.run(None)):
        title, index = f"output {number}", view.structure["outputs"][number]
        node = builder.node(title, title, "output", {"value": f"%{index}"})
        node.read(sources, "")
    return nodes


class Builder:
    """Walk through the instructions of a method, with the writers of each value."""

    def __init__(
        self,
        view: View,
        nodes: dict[str, Node],
        prefix: str = "",
        groups: tuple[str, ...] = (),
        calls: tuple[str, ...] = (),
        delegate: int | None = None,
    ):
        self.view, self.nodes, self.prefix = view, nodes, prefix
        self.groups, self.calls, self.delegate = groups, calls, delegate
        self.waiting: dict[tuple[int, int], State] = {}  # writers of values at each jump target
        self.inside: dict[int, DelegateInside | None] = {}
        self.nested: dict[int, View | None] = {}

    def node(self, id: str, label: str, family: str, attributes: dict[str, str]) -> Node:
        """Return the node of an id; create it at the first call."""
        id = self.prefix + id
        node = Node(id, label, family, self.groups, attributes, calls=self.calls)
        node.delegate = self.delegate
        return self.nodes.setdefault(id, node)

    def source(self, node: Node, index: int, text: str) -> Sources:
        """Return an output of a node."""
        while len(node.outputs) <= index:
            node.outputs.append("")
        node.outputs[index] = text
        return frozenset({(node.id, index)})

    def text(self, index: int) -> str:
        value = self.view.values[index]
        return structure.tensor(value) if value["kind"] == "Tensor" else value["kind"]

    def run(self, arguments: list[Sources] | None) -> list[Sources]:
        """Create all nodes and return the sources of the outputs. `arguments` are the sources of
        the inputs, for a program in a payload."""
        state: State = {}
        for number, index in enumerate(self.view.structure["inputs"]):
            if arguments is not None:
                state[index] = arguments[number] if number < len(arguments) else frozenset()
                continue
            node = self.node(f"input {number}", f"input {number}", "input", {"value": f"%{index}"})
            state[index] = self.source(node, 0, self.text(index))
        end: State = {}
        for _ in range(LOOP_PASSES if self._has_loops() else 1):
            end = self._pass(dict(state))
        return [self.find(end, index) for index in self.view.structure["outputs"]]

    def _has_loops(self) -> bool:
        return any(
            (step.row["destination"] or step.number + 1) <= step.number
            for step in self.view.steps
            if step.row["kind"] == "jump"
        )

    def _pass(self, state: State) -> State:
        chain, alive = 0, True
        self.view.budget.take(len(self.view.steps))
        for step in self.view.steps:
            if step.chain != chain:  # a jump may go past the last instruction
                chain, alive = step.chain, True
            arriving = self.waiting.get((step.chain, step.number))
            if arriving is not None:
                state = _merged(state, arriving) if alive else dict(arriving)
                alive = True
            self._step(step, state)
            target = step.row["destination"]
            if target is not None:
                key = (step.chain, target)
                self.waiting[key] = _merged(self.waiting.get(key, {}), state)
                alive = self.view.goes_on(step)
        ends = [s for (_, number), s in self.waiting.items() if number >= len(self.view.steps)]
        for arriving in ends:
            state = _merged(state, arriving) if alive else dict(arriving)
            alive = True
        return state

    def find(self, state: State, index: int) -> Sources:
        """Return the writers of a value; state has none before the first instruction."""
        if index in state:
            return state[index]
        if index in self.view.bases:
            return self.find(state, self.view.bases[index])
        value = self.view.values[index]
        if value["kind"] != "Tensor" or value["where"] not in ("planned", "state"):
            return frozenset()
        label = f"state {value['name'] or f'%{index}'}"
        node = self.node(f"state {index}", label, "state", {"value": f"%{index}"})
        return self.source(node, 0, self.text(index))

    def _step(self, step: Instruction, state: State) -> None:
        kind = step.row["kind"]
        if kind == "free" or (kind == "jump" and not self.view.goes_on(step)):
            return
        if kind == "delegate" and self._open(step, state):
            return
        family = "delegate" if kind == "delegate" else families.family(step.title)
        label = families.short(step.title) if kind == "kernel" else step.title
        if kind == "jump":
            label = f"if false: to {step.row['destination']}"
        node = self.node(f"{step.chain}:{step.number}", label, family, self._attributes(step))
        node.place = self._place(step)
        node.data = dict(self._data(step))
        if kind == "delegate" and node.delegate is None:
            node.delegate = step.row["delegate"]
        for index, name, role in step.row["args"]:
            if role in ("in", "inout"):
                for item in self.view.items(index):
                    node.read(self.find(state, item), name or "")
        for number, index in enumerate(step.writes):
            state[index] = self.source(node, number, self.text(index))

    def _place(self, step: Instruction) -> str:
        return step.place(self.view.depth)

    def _attributes(self, step: Instruction) -> dict[str, str]:
        """Return numbers and weights: values that no other instruction writes."""
        attributes = {"instruction": f"{step.chain}:{step.number}", "name": step.title}
        for index, name, role in step.row["args"]:
            value = self.view.values[index]
            if role != "in" or index in self.view.computed or not name:
                continue
            if value["kind"] == "Tensor":
                if value["where"] in ("constant", "external"):
                    name_ = _text.shortened(value["name"] or "", MAX_VALUE_CHARACTERS)
                    named = f" {name_}" if name_ else ""
                    attributes[name] = f"{structure.tensor(value)}{named}"
            elif value["kind"] in structure.LISTS:
                items = [self.view.values[i] for i in self.view.items(index)]
                if not any(item["kind"] == "Tensor" for item in items):
                    attributes[name] = str([item["value"] for item in items])
            else:
                attributes[name] = _text.shortened(str(value["value"]), MAX_VALUE_CHARACTERS)
        if step.row["destination"] is not None:
            attributes["to"] = str(step.row["destination"])
        if step.row["stack"]:
            file, line, function, _ = structure.frame(step)
            attributes["source"] = f"{file}:{line} in {function}"
        return attributes

    def _data(self, step: Instruction) -> Iterator[tuple[str, DataPlace]]:
        """Yield the places of the weights that an instruction of the program reads, by name."""
        for index, name, role in step.row["args"]:
            value = self.view.values[index]
            if role != "in" or not name or value["kind"] != "Tensor" or self.view.depth:
                continue
            if value["where"] == "external" and value["name"]:
                yield name, value["name"]
            elif value["where"] == "constant" and value["at"] is not None:
                yield name, (value["at"], value["nbytes"])

    # ---- delegates ----

    def _open(self, step: Instruction, state: State) -> bool:
        """Add the nodes inside a delegate. Return False if its payload cannot be described."""
        number = step.row["delegate"]
        assert number is not None
        group = (*self.groups, f"{step.row['name']} {number}")
        calls = (*self.calls, self._place(step))
        prefix = f"{self.prefix}{step.chain}:{step.number}/"
        outermost = number if self.delegate is None else self.delegate
        arguments = [self.find(state, index) for index, _, role in step.row["args"] if role == "in"]
        if number not in self.inside:
            inside = self.view.inside(number)
            self.inside[number] = None if isinstance(inside, str) else inside
            views = [v for v in self.view.nested(number) if v.method == "forward"]
            self.nested[number] = views[0] if views else None
        nested, inside = self.nested[number], self.inside[number]
        if nested is not None:
            results = Builder(nested, self.nodes, prefix, group, calls, outermost).run(arguments)
            for index, source in zip(step.writes, results):
                state[index] = source
            return True
        if not inside or not inside["nodes"]:
            return False
        builder = Builder(self.view, self.nodes, prefix, group, calls, outermost)
        self._wire(step, state, inside, builder)
        return True

    def _wire(
        self, step: Instruction, state: State, inside: DelegateInside, builder: Builder
    ) -> None:
        """Add the nodes of a delegate by a builder with its prefix and groups."""
        values = {value["id"]: value for value in inside["values"]}
        outer = [index for index, _, _ in step.row["args"]]
        known: dict[int, Sources] = {}
        self.view.budget.take(len(values) + len(inside["nodes"]))
        for value in inside["values"]:
            at = value["argument"]
            if at is not None and at < len(outer) and step.row["args"][at][2] == "in":
                known[value["id"]] = self.find(state, outer[at])
        run = 0
        for number, row in enumerate(inside["nodes"]):
            attributes = _inner_attributes(row["note"], row["debug_handle"])
            family = families.INNER.get(row["name"] or "", "delegate")
            node = builder.node(str(number), row["name"] or "?", family, attributes)
            if structure.DEAD not in (row["note"] or "") and not self.view.depth:
                node.place = str(Where(None, step.row["delegate"], run, step.chain))
                run += 1
            for at, index in enumerate(row["inputs"]):
                operand = values.get(index)
                if operand is not None and operand["constant"]:
                    node.attributes[f"input {at}"] = _inner_tensor(operand)
                    for what, key in KEY.findall(operand["note"] or ""):
                        node.data[f"{'scales of ' if what else ''}input {at}"] = key
                node.read(known.get(index, frozenset()), f"input {at}")
            for at, index in enumerate(row["outputs"]):
                text = _inner_tensor(values[index]) if index in values else ""
                known[index] = self.source(node, at, text)
        for value in inside["values"]:
            at = value["argument"]
            if at is not None and at < len(outer) and step.row["args"][at][2] == "out":
                state[outer[at]] = known.get(value["id"], frozenset())


def _inner_attributes(note: str | None, handle: int | None) -> dict[str, str]:
    attributes = {"parameters": note} if note else {}
    return {**attributes, **({} if handle is None else {"debug handle": str(handle)})}


def _inner_tensor(value: InnerValue) -> str:
    note = f", {value['note']}" if value["note"] and not value["constant"] else ""
    return f"{value['dtype'] or '?'} {structure.shape(value['shape'])}{note}"


def _merged(a: State, b: State) -> State:
    return {index: a.get(index, frozenset()) | b.get(index, frozenset()) for index in {**a, **b}}
