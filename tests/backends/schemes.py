"""Every quantiser and torchao config of the installed wheels over three models, in each flow.

`python -m tests.backends.schemes WORD...` prints the result of each cell of the schemes whose name
has a word, of all without one; `--table FILE...` writes printed
results into `executorch_c/docs/reference/schemes.md`, whose other rows stay.
"""

import copy
import logging
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from executorch_c import Runtime
from executorch_c.check import flows
from executorch_c.testing import check_model
from tests import ROOT
from tests.backends.scheme_faults import FAULTS, in_payloads
from tests.backends.scheme_rows import MODELS, SCHEMES, Scheme

CALLS = 2
MAX_SENTENCE = 160
"""Characters of an error."""
FLOAT_LIMIT = 1e-5
"""Relative difference of sums of floats in another order."""
TIE_LIMIT = 0.5
"""Relative differences above this one are no ties of quantised activations."""
OPERATOR_MISSING = "0x:14"
"""The end of the official runtime's message."""
NOTHING = "quantises no layer of this kind"
FLOWS = ("portable", "xnnpack", "vulkan", "coreml", "native")
PAGE = ROOT / "executorch_c" / "docs" / "reference" / "schemes.md"


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:MAX_SENTENCE]


def _is_quantized(module: Any) -> bool:
    if isinstance(module, torch.fx.GraphModule):
        words = "quant", "decompress"
        return any(word in str(node.target) for node in module.graph.nodes for word in words)
    tensors = [*module.parameters(), *module.buffers()]
    kinds = {type(layer).__name__ for layer in module.modules()}
    return any(type(t).__name__ not in ("Parameter", "Tensor") for t in tensors) or any(
        word in kind for kind in kinds for word in ("Quant", "Intx", "arametriz", "MXFP")
    )


def cells(
    scheme: Scheme, model_name: str, names: tuple[str, ...] = FLOWS
) -> Iterator[tuple[str, str]]:
    """Yield the result of each flow, or of a step before them for all."""
    torch.manual_seed(0)
    make, draw = MODELS[model_name]
    model, inputs = make().eval(), [draw() for _ in range(4)]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if scheme.is_bfloat16:
        model = model.bfloat16()
        inputs = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
    try:
        quantized = scheme.quantize(model, inputs)
    except Exception as error:
        yield "quantiser", _sentence(error)
        return
    if not _is_quantized(quantized):
        yield "quantiser", NOTHING
        return
    try:
        with torch.no_grad():
            quantized(inputs[0])
    except Exception as error:
        yield "eager", _sentence(error)
        return
    try:
        flows.export(quantized, ((inputs[0],), {}), None)
    except Exception as error:
        yield "torch.export", _sentence(error)
        return
    for name in names:
        yield name, cell(quantized, inputs, name)


def cell(quantized: Any, inputs: list[Tensor], name: str) -> str:
    """Return the result of a flow: lowered, run and compared with eager."""
    import executorch.kernels.quantized  # noqa: F401  out variants

    row = flows.FLOWS[name]
    if not row.is_installed:
        return f"needs {', '.join(row.packages)}"
    exported = flows.export(quantized, ((inputs[0],), {}), None)
    try:
        program = flows._lower(exported, row, "forward")
        pte = bytes(program.buffer)
    except Exception as error:
        return f"refused: {_sentence(error)}"
    try:
        method = Runtime.get().load_program(pte).load_method("forward")
        actual = [method.execute([x])[0] for x in inputs[:CALLS]]
    except Exception as error:
        return failure(error, program, quantized, inputs, name)
    eager = _eager(quantized, inputs)
    if _agrees(quantized, inputs, pte, actual, eager):
        return "runs"
    fault = _fault(quantized, inputs, pte, actual, eager, name)
    return fault or _judged_by_official(pte, inputs, actual, eager)


def _eager(quantized: Any, inputs: list[Tensor]) -> list[Any]:
    with torch.no_grad():
        return [quantized(x).float().numpy() for x in inputs[:CALLS]]


def _agrees(quantized: Any, inputs: list[Tensor], pte: bytes, actual: Any, eager: Any) -> bool:
    """Return True if the results are eager's, but for ties of quantised activations."""
    worst = max(map(_difference, actual, eager))
    if worst <= FLOAT_LIMIT or not worst <= TIE_LIMIT:
        return worst <= FLOAT_LIMIT
    options: Any = dict(n_random=1, engines="here", progress=False)
    return check_model(quantized, (inputs[0],), program=pte, **options).ok


def _fault(
    quantized: Any, inputs: list[Tensor], pte: bytes, actual: Any, eager: Any, name: str
) -> str:
    """Return the known fault of a flow if it explains the results, else nothing."""
    worst = max(map(_difference, actual, eager))
    for fault in FAULTS.get(name, ()):
        changed = fault.change(copy.deepcopy(quantized), pte)
        if _agrees(changed, inputs, pte, actual, _eager(changed, inputs)):
            return f"mislowered: differs by {worst:.1e}, as eager does if {fault.sentence}"
    return ""


def _difference(actual: Any, eager: Any) -> float:
    return float(abs(np.asarray(actual, np.float32) - eager).max() / abs(eager).max())


def _official(pte: bytes, inputs: list[Tensor]) -> list[Any]:
    from executorch.runtime import Runtime as Official

    program = Official.get().load_program(pte)  # is read as long as the method runs
    method = program.load_method("forward")
    return [method.execute([x])[0].float().numpy() for x in inputs[:CALLS]]


def failure(error: Exception, program: Any, quantized: Any, inputs: list[Tensor], name: str) -> str:
    """Return whose failure it is: the flow's if the official runtime, which has the operators,
    fails, too, or computes wrong results, or if a payload of Vulkan is wrong."""
    fault = in_payloads(program) if name == "vulkan" else ""
    if fault:
        return f"mislowered: {fault}: {_sentence(error)}"
    if name not in ("portable", "xnnpack"):
        return f"fails: {_sentence(error)}"
    try:
        official = _official(bytes(program.buffer), inputs)
    except Exception as theirs:
        if str(theirs).endswith(OPERATOR_MISSING):
            return f"fails: {_sentence(error)} (the official runtime lacks an operator)"
        return f"mislowered: fails, in the official runtime, too: {_sentence(error)}"
    worst = max(map(_difference, official, _eager(quantized, inputs)))
    if worst > TIE_LIMIT:
        return (
            f"mislowered: the official runtime's results differ by {worst:.1e}: {_sentence(error)}"
        )
    return f"fails: {_sentence(error)} (the official runtime runs it)"


def _judged_by_official(pte: bytes, inputs: list[Tensor], actual: Any, eager: Any) -> str:
    """Return whose difference it is: the flow's if the official runtime has the same results."""
    worst = max(map(_difference, actual, eager))
    try:
        official = _official(pte, inputs)
    except Exception:
        return f"differs by {worst:.1e}"
    if max(map(_difference, actual, official)) <= FLOAT_LIMIT:
        return f"mislowered: differs by {worst:.1e}, as the official runtime does"
    return f"differs by {worst:.1e} from eager and from the official runtime"


def letter(step: str, result: str) -> str:
    """Return a cell's letter in the table."""
    if result == NOTHING:
        return "-"
    if step not in flows.FLOWS:
        return "n"
    return {"runs": "R", "refused": "r", "mislowered": "m"}.get(result.partition(":")[0], "f")


LEGEND = """\
# Schemes of the wheels, by flow

<!-- Written by `python -m tests.backends.schemes --table FILE...`. -->

Quantisers of executorch 1.5.1 and configs of torchao 0.18 over three models: a linear layer, a
convolution, and a transformer with an embedding. A cell has a letter for each of them, in this
order:

* `R`: runs, and equals eager of the quantised module;
* `r`: refused by the flow;
* `m`: mislowered: the results differ from eager's as those of the official runtime do, or as
  eager's own do after the flow's fault; or the program fails in the official runtime, too, or its
  payload lacks an argument of its call, or passes integers that the operator is not for;
* `f`: the flow writes a program that fails or differs here;
* `n`: not to be had on this processor: the quantiser, eager or `torch.export` refuses;
* `-`: the scheme quantises no layer of this kind.

The sentences of all letters but `R` are below the table, which has every row of
`tests/backends/scheme_rows.py`.
"""

Results = dict[tuple[str, str, str], str]
"""Results by scheme, model and flow, or step before the flows."""


@dataclass
class Page:
    """The table's letters, by scheme and flow, and the sentences with their steps and schemes."""

    letters: dict[str, dict[str, str]]
    reasons: dict[str, tuple[list[str], list[str]]]

    @classmethod
    def read(cls) -> "Page":
        text = PAGE.read_text()
        rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
        cells = [[cell.strip().strip("`") for cell in row] for row in rows]
        table = {row[0]: dict(zip(FLOWS, row[1:], strict=True)) for row in cells[2:]}
        reasons = {}
        for item in re.split(r"\n\* ", text.partition("## Sentences\n")[2])[1:]:
            sentence, _, rest = " ".join(item.split())[1:].rpartition("`; ")
            steps, _, schemes = rest.rpartition(": ")
            reasons[sentence] = (steps.split(", "), schemes.split(", "))
        return cls(table, reasons)

    def merge(self, results: Results) -> None:
        """Replace the cells and sentences of the schemes of results."""
        names = {name for name, _, _ in results}
        for _, schemes in self.reasons.values():
            schemes[:] = [name for name in schemes if name not in names]
        for name in names:
            self.letters[name] = {flow: letters(results, name, flow) for flow in FLOWS}
        for (name, _, step), result in results.items():
            if result not in ("runs", NOTHING):
                for known, new in zip(
                    self.reasons.setdefault(_general(result), ([], [])), (step, name), strict=True
                ):
                    known += [new] if new not in known else []

    def lines(self) -> Iterator[str]:
        names = [scheme.name for scheme in SCHEMES if scheme.name in self.letters]
        yield f"| scheme | {' | '.join(FLOWS)} |"
        yield "|---" * (len(FLOWS) + 1) + "|"
        for name in names:
            yield f"| `{name}` | {' | '.join(self.letters[name][flow] for flow in FLOWS)} |"
        yield from ("", "## Sentences", "")
        for sentence, (steps, schemes) in sorted(self.reasons.items()):
            text = f"* `{sentence}`; {', '.join(steps)}: {', '.join(schemes)}"
            if schemes:
                yield from textwrap.wrap(text, 118, subsequent_indent="  ", break_on_hyphens=False)


def _general(result: str) -> str:
    """Return a result without what depends on the model."""
    result = re.sub(r"\d\.\de[+-]\d+", "...", result.replace("`", "'"))
    result = re.sub(r"(value|instruction|argument) \d+", r"\1 N", result)
    return re.sub(r"tensor [\w.]*lifted_tensor_\d+", "tensor lifted_tensor_N", result)


def letters(results: Results, scheme: str, flow: str) -> str:
    """Return a scheme's cell of a flow: a letter for each model."""
    cell_letters = []
    for model_name in MODELS:
        mine = {
            step: r for (name, m, step), r in results.items() if (name, m) == (scheme, model_name)
        }
        step = flow if flow in mine else next(iter(mine), flow)
        cell_letters.append(letter(step, mine.get(step, "not measured")))
    return "".join(cell_letters)


def _is_measured(results: Results, scheme: str) -> bool:
    """Return True if a scheme has a result in each flow, or before them, for each model."""
    for model_name in MODELS:
        steps = {step for name, model, step in results if (name, model) == (scheme, model_name)}
        if not steps >= set(FLOWS) and not steps - set(FLOWS):
            return False
    return True


def write_table(paths: list[str]) -> None:
    """Write printed results into the page; later ones replace earlier ones of the same scheme."""
    results: Results = {}
    for path in paths:
        rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
        rows = [row for row in rows if len(row) == 4]
        for name in {row[0] for row in rows}:
            results = {key: value for key, value in results.items() if key[0] != name}
        results |= {(row[0], row[1], row[2]): row[3] for row in rows}
    results = {key: value for key, value in results.items() if _is_measured(results, key[0])}
    page = Page.read()
    page.merge(results)
    PAGE.write_text(LEGEND + "\n" + "\n".join(page.lines()) + "\n")


def main(words: list[str]) -> None:
    if words[:1] == ["--table"]:
        write_table(words[1:])
        return
    logging.disable(logging.WARNING)
    os.environ.setdefault("QNN_SDK_ROOT", "")  # downloads no SDK
    for scheme in SCHEMES:
        if words and not any(re.search(word, scheme.name) for word in words):
            continue
        for model_name in MODELS:
            for name, result in cells(scheme, model_name):
                print(f"{scheme.name}\t{model_name}\t{name}\t{result}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
