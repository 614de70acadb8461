"""The package's example: a classifier of 8 x 8 pictures, its inputs and its outputs."""

from pathlib import Path

import numpy as np

import executorch_c

EXAMPLES = Path(executorch_c.__file__).parent / "examples"
DIGITS = EXAMPLES / "digits.pte"
with np.load(EXAMPLES / "digits.npz") as _data:
    IMAGES, EXPECTED, LABELS = (_data[name] for name in ("inputs", "expected", "labels"))
