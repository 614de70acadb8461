"""A .pte as tables that can be changed, and its segments: read, changed, written.

Only what a change needs is read; all other tables are written as they were. The program is trusted:
`Program` has verified it.
"""

from __future__ import annotations

import struct
from typing import Any

from executorch_c import _core, _flatbuffers

READ = (
    "Program",
    "ExecutionPlan",
    "EValue",
    "Tensor",
    "AllocationDetails",
    "Chain",
    "Instruction",
    "KernelCall",
    "DelegateCall",
    "MoveCall",
    "JumpFalseCall",
    "FreeCall",
    "BackendDelegate",
    "BackendDelegateDataReference",
    "DataSegment",
    "SubsegmentOffsets",
    "NamedData",
    "BackendDelegateInlineData",
)
"""Tables of a program that are read."""
INLINE, SEGMENT = 0, 1
"""Places of a payload."""
HEADER = b"eh00"
HEADER_AT, HEADER_BYTES = 8, 32
SEGMENT_ALIGNMENT = 128


class ProgramTables:
    """The tables of a .pte: `plan` is that of the only method that is written."""

    def __init__(self, data: bytes, method: str) -> None:
        """Read the bytes of a .pte.

        Raises NotSupportedError for a program with fields that this version does not know.
        """
        self.data = data
        self.has_header = data[HEADER_AT : HEADER_AT + 4] == HEADER
        size, self.base = len(data), 0
        if self.has_header:
            size, self.base = struct.unpack_from("<QQ", data, HEADER_AT + 8)
        self.flat = data[:size]
        every = _core._file_tables("pte")
        self.schema = {name: every[name] for name in READ}
        try:
            self.root = _flatbuffers.read(self.flat, self.schema, "Program", is_complete=True)
        except ValueError as error:
            raise _core.NotSupportedError(f"the program cannot be rewritten: {error}") from None
        plans = [p for p in self.root["execution_plan"] if p["name"] == method]
        self.root["execution_plan"] = plans
        self.plan: dict[str, Any] = plans[0]
        self._segments: list[bytes] = [self._segment(row) for row in self.root.get("segments", [])]

    def _segment(self, row: dict[str, int]) -> bytes:
        start: int = self.base + row.get("offset", 0)
        return self.data[start : start + row.get("size", 0)]

    def payload(self, delegate: int) -> bytes:
        """Return the bytes of a delegate's payload."""
        place = self.plan["delegates"][delegate]["processed"]
        index: int = place.get("index", 0)
        if place.get("location", INLINE) == SEGMENT:
            return self._segments[index]
        data: bytes = self.root["backend_delegate_data"][index].get("data", b"")
        return data

    def set_payload(self, delegate: int, payload: bytes) -> None:
        """Give a delegate another payload."""
        row = self.plan["delegates"][delegate]
        if row["processed"].get("location", INLINE) == SEGMENT:
            self._segments.append(payload)
            self.root["segments"].append({})
            row["processed"] = {"location": SEGMENT, "index": len(self._segments) - 1}
        else:
            self.root["backend_delegate_data"].append({"data": payload})
            index = len(self.root["backend_delegate_data"]) - 1
            row["processed"] = {"location": INLINE, "index": index}

    def keep_delegates(self, used: set[int]) -> None:
        """Empty the payloads that only other delegates have."""
        kept = [d["processed"] for i, d in enumerate(self.plan.get("delegates", [])) if i in used]
        inline = {p.get("index", 0) for p in kept if p.get("location", INLINE) == INLINE}
        for index, row in enumerate(self.root.get("backend_delegate_data", [])):
            if index not in inline:
                row["data"] = b""

    def _used_segments(self) -> set[int]:
        root = self.root
        tables = [root["constant_segment"]] if "constant_segment" in root else []
        tables += root.get("mutable_data_segments", [])
        used = {table.get("segment_index", 0) for table in tables}
        used |= {row.get("segment_index", 0) for row in root.get("named_data", [])}
        places = [d["processed"] for d in self.plan.get("delegates", [])]
        return used | {p.get("index", 0) for p in places if p.get("location", INLINE) == SEGMENT}

    def write(self) -> bytes:
        """Return the bytes of the .pte, without segments that nothing refers to."""
        used, body = self._used_segments(), bytearray()
        for index, data in enumerate(self._segments):
            body += bytes(-len(body) % SEGMENT_ALIGNMENT)
            data = data if index in used else b""
            self.root["segments"][index] = {"offset": len(body), "size": len(data)}
            body += data
        flat = _flatbuffers.write(
            self.root,
            self.schema,
            "Program",
            "programs",
            identifier=b"ET12",
            kept=self.flat,
            header=bytes(HEADER_BYTES) if self.has_header else b"",
            size=len(self.flat) + 4096,
        )
        if not self.has_header:
            return flat
        base = -(-len(flat) // SEGMENT_ALIGNMENT) * SEGMENT_ALIGNMENT
        sizes = (HEADER_BYTES, len(flat), base if self._segments else 0, len(body))
        header = HEADER + struct.pack("<IQQQ", *sizes)
        flat = flat[:HEADER_AT] + header + flat[HEADER_AT + len(header) :]
        return flat + bytes(base - len(flat)) + bytes(body) if self._segments else flat
