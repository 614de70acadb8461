"""Random ETRecords: JSON of the right form with wrong values in places, in zips of all kinds, and
bytes of them damaged."""

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

METHODS = ("forward", "forward", "encode", "", "a/b", "\ud800", "\x1b[2J")
NAMES = ("add", "conv", "a:add_1:OpId_7 (cycles)", "3", "", "\ud800", "x" * 300, "\x1b[31m\n")
TARGETS = (
    "torch.ops.aten.add.Tensor",
    "executorch.exir.dialects.edge.ops.aten.mul.Tensor",
    "torch.ops.higher_order.cond",
    "",
    7,
)
STACKS = ("", "L,conv,torch.nn.Conv2d", "L,a(1, [2),X;M,b", ";;,", ",", "[" * 50, None)
WILD: tuple[Any, ...] = (
    *(None, True, [], {}, "", "x", [[]], {"": None}, "\ud800", "9" * 5000),
    *(-1, 2**31, 2**63, -(2**70), 10**400, 0.5, 1e308, float("inf"), float("nan")),
)
COMPRESSIONS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
COMMENTS = (*[b""] * 20, b"PK\x05\x06" * 6)
EXTRAS = (*[b""] * 50, b"\x01\x00\x04\x00abcd")
EDGE = "edge_dialect_exported_program"


@cache
def tensors() -> bytes:
    """Return tensors as torch.save writes them."""
    out = io.BytesIO()
    torch.save([torch.ones(2, 3)], out)
    return out.getvalue()


class Records:
    """Random ETRecords of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def handles(self) -> int | list[int]:
        number = self.random.randrange
        return number(6) if self.random.random() < 0.5 else [number(6) for _ in range(number(4))]

    def table(self, make: Callable[[], Any]) -> dict[str, dict[str, Any]]:
        """Return a map of methods and instructions."""
        choice, number = self.random.choice, self.random.randrange
        return {
            choice(METHODS): {str(number(5)): make() for _ in range(number(4))}
            for _ in range(number(3))
        }

    def delegate(self) -> dict[str, Any]:
        names = [self.random.choice(NAMES) for _ in range(self.random.randrange(4))]
        table = {name: self.random.choice((self.handles(), None)) for name in names}
        return {"name": self.random.choice(NAMES), "delegate_map": table}

    def graph(self, depth: int = 0) -> dict[str, Any]:
        nodes = [self.node(depth) for _ in range(self.random.randrange(4))]
        return {"nodes": nodes}

    def node(self, depth: int) -> dict[str, Any]:
        choice = self.random.choice
        metadata = {
            "nn_module_stack": choice(STACKS),
            "debug_handle": choice(("0", "1", "4", None)),
        }
        metadata["stack_trace"] = choice(NAMES)
        arguments = [{"arg": choice((None, {"as_int": 1}))}]
        if depth < 3 and self.random.random() < 0.3:
            arguments.append({"arg": {"as_graph": {"graph": self.graph(depth + 1)}}})
        return {
            "name": choice(NAMES),
            "target": choice(TARGETS),
            "metadata": {key: value for key, value in metadata.items() if value is not None},
            "inputs": arguments,
        }

    def entries(self) -> dict[str, Any]:
        """Return the entries of a record, most of which are right."""
        program = EDGE if self.random.random() < 0.2 else f"{EDGE}/{self.random.choice(METHODS)}"
        result = {
            "ETRECORD_V0": "",
            "debug_handle_map": self.table(self.handles),
            "delegate_map": self.table(self.delegate),
            "instruction_id_to_num_outs_map": self.table(lambda: self.random.randrange(3)),
            program: {"graph_module": {"graph": self.graph()}},
        }
        if self.random.random() < 0.2:
            result["representative_inputs"] = self.random.choice((b"", b"\x80\x04}q.", tensors()))
        for name in [*result]:
            if self.random.random() < 0.02:
                del result[name]
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 4))):
            name = self.random.choice([*result])
            result[name] = self.changed(result[name])
        return result

    def changed(self, value: Any) -> Any:
        """Return a value with a wild one in a random place."""
        if not isinstance(value, (dict, list)) or not value or self.random.random() < 0.15:
            return self.random.choice(WILD)
        if isinstance(value, list):
            at = self.random.randrange(len(value))
            return [*value[:at], self.changed(value[at]), *value[at + 1 :]]
        key = self.random.choice([*value])
        other = self.random.choice(NAMES) if self.random.random() < 0.1 else key
        return {**value, other: self.changed(value[key])}

    def content(self, value: Any) -> bytes:
        """Return an entry's bytes."""
        if self.random.random() < 0.002:
            return b"[" * 100_000
        text = json.dumps(value) if isinstance(value, (dict, list)) else value
        return text if isinstance(text, bytes) else str(text).encode(errors="surrogatepass")

    def archive(self) -> bytes:
        """Return a record."""
        out = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
            warnings.simplefilter("ignore")  # duplicate names
            for name, value in self.entries().items():
                data = self.content(value)
                info = zipfile.ZipInfo(name.encode(errors="replace").decode())
                if self.random.random() < 0.05:
                    info.compress_type = self.random.choice(COMPRESSIONS)
                info.extra = self.random.choice(EXTRAS)
                for _ in range(1 + (self.random.random() < 0.02)):
                    archive.writestr(info, data)
            archive.comment = self.random.choice(COMMENTS)
        return out.getvalue()
