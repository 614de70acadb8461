"""Places of tensors in planned memory: tensors are moved to places of their own, so that their
values last until the method's end."""

from __future__ import annotations

from typing import Any

from executorch_c.inspect.structure import View

ALIGNMENT = 64
LOW_BITS = 32


class Places:
    """The planned memory of a method."""

    def __init__(self, plan: dict[str, Any], view: View) -> None:
        """`plan` is the table that is changed, `view` the method as it is in the file."""
        self.plan = plan
        self.view = view
        self.spans = {
            index: (value["arena"], value["offset"], value["offset"] + value["nbytes"])
            for index, value in enumerate(view.values)
            if value["kind"] == "Tensor" and value["arena"] and value["nbytes"]
        }
        self.written: dict[int, list[int]] = {}
        """Instructions that write a value."""
        self.times = self._lifetimes()
        self._follow_views()

    def _lifetimes(self) -> dict[int, tuple[int, int]]:
        """Return the first and last instruction that has a value, by value."""
        first, last = -1, len(self.view.steps)
        times: dict[int, set[int]] = {index: set() for index in self.spans}
        for index in self.view.structure["inputs"]:
            times.get(index, set()).add(first)
        for index in self.view.structure["outputs"]:
            for item in self.view.items(index):
                times.get(item, set()).add(last)
        for index in self.spans:
            if self.view.values[index]["where"] == "state":
                times[index] |= {first, last}
        for step in self.view.steps:
            for index in (*step.reads, *step.writes):
                times.get(index, set()).add(step.at)
            for index in step.writes:
                self.written.setdefault(index, []).append(step.at)
        spans = {index: (min(at), max(at)) for index, at in times.items() if at}
        return self._over_loops(spans)

    def _over_loops(self, times: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return lifetimes, in which a value that a loop has lives as long as the loop."""
        starts = {(step.chain, step.number): step.at for step in self.view.steps}
        for step in self.view.steps:
            target = step.row["destination"]
            begin = starts.get((step.chain, -1 if target is None else target), step.at)
            if begin >= step.at:
                continue
            for index, (first, last) in times.items():
                if first <= step.at and last >= begin:
                    times[index] = (min(first, begin), max(last, step.at))
        return times

    def _follow_views(self) -> None:
        """Let tensors and their views, which no instruction writes, live together."""
        for index, base in self.view.bases.items():
            if index in self.times and base in self.times:
                both = [*self.times[index], *self.times[base]]
                self.times[index] = self.times[base] = (min(both), max(both))

    def _overlap(self, a: int, b: int) -> bool:
        """Return True if two tensors share bytes."""
        (arena, begin, end), (other, start, stop) = self.spans[a], self.spans[b]
        return arena == other and begin < stop and start < end

    def group(self, index: int) -> set[int]:
        """Return the tensors that have to be moved together with one: those that share memory with
        it, or with one of them, at the same time."""
        group, left = {index}, [index]
        while left:
            one = left.pop()
            first, last = self.times[one]
            for other, (begin, end) in self.times.items():
                if other in group or begin > last or first > end or not self._overlap(one, other):
                    continue
                group.add(other)
                left.append(other)
        return group

    def overwriter(self, index: int, at: int) -> str:
        """Return what else writes to the memory of a tensor during its life, once instruction `at`
        has written it or at that instruction; empty: nothing. If something does, the value cannot
        be an output of the method."""
        if index not in self.times:
            group = {index}
        else:
            group = {one for one in self.group(index) if self._overlap(one, index)}
        if any(time > at for one in group for time in self.written.get(one, ())):
            return "a later instruction writes to its memory"
        if any(at in self.written.get(one, ()) for one in group - {index}):
            return "another result of its instruction has its memory"
        return ""

    def keep(self, index: int) -> None:
        """Move a tensor and its group to memory that nothing else has."""
        if index not in self.times:
            return
        group = self.group(index)
        arena = self.spans[index][0]
        low = min(self.spans[one][1] for one in group)
        high = max(self.spans[one][2] for one in group)
        shift = self.reserve(high - low, arena) - low
        for one in group:
            _, begin, end = self.spans[one]
            self.spans[one] = (arena, begin + shift, end + shift)
            self.times[one] = (-1, len(self.view.steps))
            tensor = self.plan["values"][one]["val"][1]
            tensor["allocation_info"] = self.allocation(arena, begin + shift)

    def reserve(self, nbytes: int, arena: int = 1) -> int:
        """Return the offset of new bytes at the end of an arena."""
        sizes = self.plan["non_const_buffer_sizes"]
        while len(sizes) <= arena:
            sizes.append(0)
        offset: int = -(-sizes[arena] // ALIGNMENT) * ALIGNMENT
        sizes[arena] = offset + max(nbytes, 1)
        return offset

    @staticmethod
    def allocation(arena: int, offset: int) -> dict[str, int]:
        """Return the table of a place."""
        low = offset & 0xFFFFFFFF
        signed = low - (1 << LOW_BITS) if low >> (LOW_BITS - 1) else low
        return {
            "memory_id": arena,
            "memory_offset_low": signed,
            "memory_offset_high": offset >> LOW_BITS,
        }
