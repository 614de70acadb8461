"""Every quantiser and config of the wheels has a row of schemes, or a reason to have none."""

import re
from pathlib import Path

import executorch
import pytest
import torchao

from executorch_c.check import flows, vendor_flows
from tests.backends import scheme_rows

TRAINING = "training, or its fake quantisation; the result is another row's"
CALIBRATES = "chooses other weights, then quantises with another row's config"
PARTS = "a part or a base of other rows' quantisers"
WITHOUT_ROW = {
    **dict.fromkeys(
        "AOBaseConfig FqnToConfig Quantizer CadenceQuantizer CadenceAtenQuantizer "
        "CadenceDefaultQuantizer PatternQuantizer SharedQspecQuantizer _TOSAQuantizerV1 "
        "_TOSAQuantizerV2 NeutronAtenQuantizer ComposableQuantizer".split(),
        PARTS,
    ),
    **dict.fromkeys("AWQConfig GPTQConfig SmoothQuantConfig".split(), CALIBRATES),
    **dict.fromkeys(
        "BitNetTrainingConfig Float8BlockwiseLinearConfig Float8TrainingOpConfig "
        "Int8MixedPrecisionTrainingConfig Int8WeightOnlyQuantizedTrainingConfig "
        "MXFP8TrainingOpConfig NVFP4TrainingConfig TrainingOpBaseConfig QATConfig "
        "FromIntXQuantizationAwareTrainingConfig IntXQuantizationAwareTrainingConfig "
        "from_intx_quantization_aware_training intx_quantization_aware_training "
        "AsymUnifQuantizer Int4UnifTorchaoQuantizer LSBQuantizer MaxUnifQuantizer "
        "StretchedUnifTorchaoQuantizer TernaryUnifQuantizer UnifQuantizer "
        "UnifTorchaoQuantizer".split(),
        TRAINING,
    ),
    **dict.fromkeys(("BlockSparseWeightConfig", "SemiSparseWeightConfig"), "sparsity"),
    **dict.fromkeys(("EthosUQuantizer", "VgfQuantizer"), "TOSAQuantizer for other targets"),
    "XPUInductorQuantizer": "Intel's GPUs",
    "NeuropilotQuantizer": "needs MediaTek's SDK",
    "NeutronQuantizer": "needs NXP's SDK",
}
CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.M)


def subclasses(base: str) -> set[str]:
    """Return the names of the wheels' classes below a base, from their sources."""
    parents: dict[str, set[str]] = {}
    for package in (executorch, torchao):
        for path in Path(next(iter(package.__path__))).rglob("*.py"):
            if not {"test", "tests"} & set(path.parts):
                for name, bases in CLASS.findall(path.read_text(errors="ignore")):
                    words = {word.split("[")[0].strip() for word in bases.split(",")}
                    parents.setdefault(name, set()).update(w.split(".")[-1] for w in words)
    names = {base}
    while more := {name for name, bases in parents.items() if bases & names} - names:
        names |= more
    return names


@pytest.mark.parametrize("base", ["AOBaseConfig", "Quantizer"])
def test_every_class_has_a_row(base: str) -> None:
    modules = (scheme_rows, flows, vendor_flows)
    text = "".join(Path(module.__file__).read_text() for module in modules)
    named = set(re.findall(r"\w+", text)) | set(WITHOUT_ROW)
    named |= {f"Cadence{kind}Quantizer" for kind in re.findall(r'": "(\w+)"', text)}
    assert subclasses(base) <= named


def test_reasons_are_about_classes_of_the_wheels() -> None:
    assert set(WITHOUT_ROW) <= subclasses("AOBaseConfig") | subclasses("Quantizer")
