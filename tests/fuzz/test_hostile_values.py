"""Well-formed programs with hostile values: each is rejected with a message that names the
reason."""

import re

import pytest

from tests.fuzz.hostile import CASES, hostile
from tests.fuzz.make_programs import BASE
from tests.models.zoo import load

executorch_c = pytest.importorskip("executorch_c")


def run(pte: bytes, inputs: list, verification: object) -> None:
    runtime = executorch_c.Runtime.get()
    program = runtime.load_program(pte, verification=verification)
    program.load_method("forward").execute(inputs)


@pytest.mark.parametrize("level", ["Minimal", "InternalConsistency"])
@pytest.mark.parametrize("name", CASES)
def test_hostile(name: str, level: str) -> None:
    change, says = CASES[name]
    base = load(BASE)
    inputs = base.calls["forward"][0].inputs
    verification = getattr(executorch_c.Verification, level)
    run(base.pte, inputs, verification)
    with pytest.raises(executorch_c.Error) as caught:
        run(hostile(base.pte, change), inputs, verification)
    assert re.search(says, str(caught.value)), str(caught.value)
