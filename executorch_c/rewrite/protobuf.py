"""Messages of protobuf as lists of fields, of which some are changed: the others stay bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}

Content: TypeAlias = "int | bytes | Message"


def varint(value: int) -> bytes:
    """Return a number of at least 0 in groups of seven bits."""
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where the next field begins."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


@dataclass
class Message:
    """A message: numbers, wire types and contents of its fields, in order."""

    fields: list[tuple[int, int, Content]] = field(default_factory=list)

    @staticmethod
    def parse(data: bytes) -> Message:
        """Read a message. Raises IndexError for one that ends early."""
        fields: list[tuple[int, int, Content]] = []
        at = 0
        while at < len(data):
            tag, at = read_varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == VARINT:
                value, at = read_varint(data, at)
                fields.append((number, wire, value))
                continue
            size, at = read_varint(data, at) if wire == BYTES else (FIXED_BYTES[wire], at)
            fields.append((number, wire, data[at : at + size]))
            at += size
        return Message(fields)

    def pack(self) -> bytes:
        """Return the bytes of the message."""
        data = bytearray()
        for number, wire, content in self.fields:
            data += varint(number << 3 | wire)
            if isinstance(content, int):
                data += varint(content)
                continue
            inside = content.pack() if isinstance(content, Message) else content
            data += (varint(len(inside)) if wire == BYTES else b"") + inside
        return bytes(data)

    def messages(self, number: int) -> Iterator[Message]:
        """Yield the messages of a field; changes of them are changes of this message."""
        for at, (one, wire, content) in enumerate(self.fields):
            if one != number:
                continue
            if isinstance(content, bytes):
                content = Message.parse(content)
                self.fields[at] = (one, wire, content)
            assert isinstance(content, Message)
            yield content

    def first(self, *path: int) -> Message | None:
        """Return the first message of a field, of a field of that, ...; None without one."""
        message: Message | None = self
        for number in path:
            message = next(message.messages(number), None) if message is not None else None
        return message

    def numbers(self, number: int) -> list[int]:
        """Return the numbers of a field, packed or not."""
        values = []
        for one, _, content in self.fields:
            if one == number and isinstance(content, bytes):
                at = 0
                while at < len(content):
                    value, at = read_varint(content, at)
                    values.append(value)
            elif one == number and isinstance(content, int):
                values.append(content)
        return values

    def texts(self, number: int) -> list[str]:
        """Return the texts of a field."""
        return [c.decode() for n, _, c in self.fields if n == number and isinstance(c, bytes)]

    def replace(self, number: int, contents: Sequence[Content]) -> None:
        """Give a field other contents, behind all other fields."""
        self.fields = [row for row in self.fields if row[0] != number]
        for content in contents:
            self.fields.append((number, VARINT if isinstance(content, int) else BYTES, content))
