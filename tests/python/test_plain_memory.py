"""Calls without torch, as pytorch/executorch #22971 proposes them: inputs are whatever lends its
memory, results lend theirs; the names are those of the official modules."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from executorch_c import InvalidArgumentError
from tests.python import small_programs

SAMPLE = """
import sys
sys.modules["torch"] = None
import array
from pathlib import Path
import numpy as np
from {package} import Runtime, Verification
from {bindings} import _load_for_executorch, _load_for_executorch_from_buffer


class Lender:  # a library of arrays that knows DLPack only
    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


numbers = array.array("f", range(6))
shaped = memoryview(numbers).cast("B").cast("f", [2, 3])
forms = [np.asarray(shaped), shaped, Lender(np.asarray(shaped)), np.asfortranarray(shaped)]
expected = 2 * np.arange(6, dtype=np.float32).reshape(2, 3)

method = Runtime.get().load_program("add.pte").load_method("forward")
module = _load_for_executorch("add.pte")
data = Path("add.pte").read_bytes()
same = Runtime.get().load_program(data, verification=Verification.Minimal).load_method("forward")
for x in forms:
    for y in forms:
        for call in (method.execute, same.execute, module.forward, module):
            [result] = call([x, y])
            assert tuple(result.shape) == (2, 3), result.shape
            view = memoryview(result)
            assert (view.format, view.shape) == ("f", (2, 3))
            assert view.tolist() == expected.tolist()
            assert (np.asarray(result) == expected).all()
            assert (np.from_dlpack(result) == expected).all()
first, second = method.execute([shaped, shaped])[0], method.execute([shaped, shaped])[0]
numbers[0] = 5  # results own their memory
assert memoryview(first).tolist() == memoryview(second).tolist() == expected.tolist()
assert module.run_method("forward", [shaped, shaped])[0][0, 0] == 10

# A buffer where a list is expected is one input, not one for each row.
for name, buffer in (("flat.pte", numbers), ("square.pte", np.eye(2, dtype=np.float32))):
    method = Runtime.get().load_program(name).load_method("forward")
    module = _load_for_executorch_from_buffer(Path(name).read_bytes())
    for call in (method.execute, module.forward, module):
        for one in (buffer, [buffer], memoryview(buffer), Lender(np.asarray(buffer))):
            assert memoryview(call(one)[0]).tolist() == memoryview(buffer).tolist()

# bfloat16 has no format: flat bytes that fill the input.
method = Runtime.get().load_program("halves.pte").load_method("forward")
halves = np.array([0x3F80, 0xC000, 0, 0x7F80], np.uint16)
flat = np.frombuffer(halves.tobytes(), np.uint8)
for raw in (halves.tobytes(), bytearray(halves), memoryview(halves).cast("B"), flat,
            array.array("B", halves.tobytes()), array.array("b", halves.tobytes())):
    [result] = method.execute([raw])
    assert tuple(result.shape) == (2, 2) and result.itemsize == 2
    assert result.tobytes() == halves.tobytes()
for wrong in (flat[:-1], flat[::2], np.repeat(flat, 2)[::2], flat.reshape(2, 4)):
    try:
        method.execute([wrong])
    except RuntimeError as error:
        assert "bfloat16" in str(error), error
    else:
        raise AssertionError(wrong)
assert not [name for name in sys.modules if name.startswith("torch.")]
"""


def test_the_sample_with_the_names_of_this_package(tmp_path: Path) -> None:
    (tmp_path / "add.pte").write_bytes(small_programs.add_pte((2, 3)))
    (tmp_path / "flat.pte").write_bytes(small_programs.clone_pte((6,), "float32"))
    (tmp_path / "square.pte").write_bytes(small_programs.clone_pte((2, 2), "float32"))
    (tmp_path / "halves.pte").write_bytes(small_programs.clone_pte((2, 2), "bfloat16"))
    code = SAMPLE.format(package="executorch_c", bindings="executorch_c.portable_lib")
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", [6, 24])
def test_bytes_are_no_floats(size: int) -> None:
    """Only for dtypes without a format: an image in bytes is not read as floats."""
    method = small_programs.load(small_programs.clone_pte((6,), "float32"), "forward")
    with pytest.raises(InvalidArgumentError, match="dtype uint8, expected float32"):
        method.execute([np.zeros(size, np.uint8)])
