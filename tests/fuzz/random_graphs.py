"""Random graphs of MLX that the schema allows: nodes of all types on tensors of all dtypes."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.backends import mlx_nodes
from tests.backends.mlx_nodes import MLX, UNION, integer
from tests.backends.payloads import BACKENDS, Graph, filled, roomy
from tests.dtypes import dtype_id
from tests.fuzz.random_tables import WILD, Tables

DTYPES = (0, 1, 2, 3, 4, 5, 6, 7, 11, 15, 27, 28, 29, 99)
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))
KINDS = {
    (table, field): kind
    for table, field, kind in re.findall(
        r"^EC_FB_FIELD\((\w+), \d+, (\w+), \w+, (TID|VID|F32|F64)\)",
        (BACKENDS / "mlx" / "schema.def").read_text(),
        re.M,
    )
}
"""Fields that are tensors, values or floats."""
SHAPES = ((), (1,), (4,), (3, 4), (4, 4), (2, 3, 4), (1, 4, 3, 4), (2, 1, 1), (0, 4), (4, 8))
NAMES = "float32 float32 float16 int32 int64 uint8 bool uint32 int8 uint16".split()
INPUTS, TEMPORARIES, VALUES = 4, 4, 3
GRAPHS_PER_HOST = 200
"""Graphs in one program: writing another one costs more than its graph."""


class Writer(Tables):
    """Random nodes for inputs that a program has; tensor INPUTS is the output, one element of a
    ScalarType, and temporaries follow."""

    texts = ("", "affine", "nvfp4", "mxfp4", "mxfp8", "tanh", "none", "constant", "edge", "x" * 300)

    def __init__(self, seed: int, output: int) -> None:
        super().__init__(MLX.tables, seed)
        self.output = output
        self.written = list(range(INPUTS))

    def tensor(self) -> int:
        return self.random.choice(self.written) if self.random.random() < 0.98 else 99

    def scalar(self, table: str, field: str, width: str) -> int | float:
        """Return a tensor, a value, a float or another number."""
        kind = KINDS.get((table, field), "")
        if kind == "VID":
            return self.random.randrange(VALUES + (self.random.random() < 0.05))
        if kind == "TID":
            return self.tensor()
        if kind:
            return self.random.choice(FLOATS)
        if field in ("is_vid", "kind"):
            return int(self.random.random() < 0.1) * self.random.choice((1, 1, 2, 3))
        if field.endswith("_type") and self.random.random() < 0.9:
            return self.random.choice(DTYPES)
        return self.number(width, (*WILD, *DTYPES))

    def node(self) -> Graph:
        """Return a node that writes a temporary."""
        name = self.random.choice(UNION)
        fields = self.table(name)
        if "out" in fields and KINDS[name, "out"] == "TID":
            fields["out"] = INPUTS + 1 + self.random.randrange(TEMPORARIES)
            self.written.append(fields["out"])
        return {"op": [name, fields]}

    def chains(self) -> list[Graph]:
        """Return the main chain and those of choices and loops."""
        one = {"a": integer(1)}
        values = [{"op": ["AddInt", {**one, "b": integer(i), "out": i}]} for i in range(VALUES)]
        chains = []
        for length in (self.random.choice((1, 1, 2, 4, 8)), 1, 0):
            chains.append({"instructions": [self.node() for _ in range(length)]})
        at = INPUTS + 1
        first = {"axis": integer(0), "start": integer(0), "stop": integer(1)}
        result = [
            {"op": ["Reshape", {"x": self.tensor(), "shape": [integer(-1)], "out": at}]},
            {"op": ["Slice", {"x": at, **first, "out": at}]},
            {"op": ["AsType", {"x": at, "scalar_type": self.output, "out": INPUTS}]},
        ]
        chains[0]["instructions"] = [*values, *chains[0]["instructions"], *result]
        return chains


def programs(count: int, seed: int) -> Iterator[bytes]:
    """Yield programs with random graphs."""
    for number in range(count):
        if number % GRAPHS_PER_HOST == 0:
            pick = np.random.default_rng(seed + number)
            names = [NAMES[pick.integers(len(NAMES))] for _ in range(INPUTS + 1)]
            shapes = [SHAPES[pick.integers(len(SHAPES))] for _ in range(INPUTS)]
            inputs = [np.zeros(shape, name) for shape, name in zip(shapes, names)]
            outputs = [np.zeros(1, names[-1])]
            base = mlx_nodes.graph([[]], inputs, outputs, TEMPORARIES, VALUES)
            pte, at, _ = roomy(mlx_nodes.program(base, inputs, outputs))
        writer = Writer(seed + number, dtype_id(outputs[0].dtype.name))
        yield filled(pte, at, MLX.write({**base, "instruction_chains": writer.chains()}))


def write(folder: Path, count: int, seed: int = 0) -> None:
    """Write programs with random graphs to a folder."""
    for number, program in enumerate(programs(count, seed)):
        (folder / f"graph_{seed + number}.pte").write_bytes(program)
