"""`executorch-c explain`: the first node of a program that differs from its PyTorch model."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c import _functions
from executorch_c._commands import _arguments, _devices, _models, _next
from executorch_c._commands._calls import cases_of, inputs_or_set
from executorch_c._input_sets import names_many
from executorch_c._render import json as _json
from executorch_c.check import named

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile
    from executorch_c.cut.report import Cut
    from executorch_c.debug.report import ErrorReport

HELP = (
    """\
Find the first node of a program that differs from its PyTorch model, with its layer and the source
line in the model. Nodes inside delegates are compared, too. Needs torch and executorch.

    executorch-c explain model.pte --model model.py:make
    executorch-c explain model.pte --etrecord etrecord.bin
    executorch-c explain model.py:make --flow xnnpack

The model is an ETRecord (generate_etrecord=True in the export flow, then get_etrecord().save), or
the result of a function without arguments, as for `check`. The function returns the model in eval
mode, or the model and its example inputs. With --flow, the program is what the flow makes of the
model, of a quantised flow compared with the quantised graph. With --device or --etdump, the runs
of a device are compared, too, as by `blame`.

"""
    + _arguments.EXIT_TEXT
)


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "explain", main, "find the first node that differs from the PyTorch model", HELP
    )
    about = "program, a .pte, .ptn or .bpte; with --flow alone: function that returns the model"
    add_reference(parser, about, is_required=False)
    _models.add_flow(parser)
    parser.add_argument(
        "--save-pte",
        metavar="M.pte",
        type=_arguments.output_file(),
        help="write the program of --flow",
    )
    parser.add_argument(
        "--cut",
        metavar="DIR",
        type=_arguments.new_folder,
        help="write the smallest part of the program that shows the fault into a new folder: "
        "cut.pte, module.py, inputs.npz, and repro.py for a report; --flow names the flow that "
        "made a program, where its delegates do not tell",
    )
    _arguments.add(parser, "--rtol", "--atol", "--ladder")
    _devices.add(parser)


def add_reference(
    parser: argparse.ArgumentParser, text: str = _arguments.PROGRAM, is_required: bool = True
) -> None:
    """Add the arguments of a program and its model, for `opened`."""
    _arguments.add_model(parser, text)
    reference = parser.add_mutually_exclusive_group(required=is_required)
    reference.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _models.add_model_function(reference)
    _arguments.add_input_sets(parser, "the model's example, or random")
    _arguments.add_method(parser)
    _arguments.add_rows(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    _arguments.add_results(parser, picture=True)


def opened(args: argparse.Namespace) -> tuple[ProgramFile, object, Any]:
    """Return the program, the model (or the path of an ETRecord) and the inputs of a call, or of
    many: from --inputs, else the model's example, else random."""
    if args.etrecord and not os.path.isfile(args.etrecord):
        raise FileNotFoundError(2, "No such file or directory", args.etrecord)
    program = _arguments.open_program(args)
    inputs = inputs_or_set(program.program, args)
    reference: object = args.etrecord
    if args.make:
        reference, example, _ = named.model_and_inputs(args.make)
        inputs = list(example) if example is not None and not args.inputs else inputs
    return program, reference, inputs


def _refuse_with_device(args: argparse.Namespace) -> None:
    """Refuse options that runs of a device have no use for."""
    names = ("rtol", "atol", "ladder", "checks_delegated")
    options = ("--rtol", "--atol", "--ladder", "--delegate-at-load")
    given = [option for name, option in zip(names, options) if getattr(args, name)]
    given += ["--kernels"] if args.kernels != "default" else []
    if given:
        args.parser.error(f"--device and --etdump measure their limits: without {given[0]}")


@dataclass(frozen=True)
class _Subject:
    """The operands of explain."""

    program: ProgramFile
    reference: object
    """The model, the path of an ETRecord, or the ExportedProgram that a flow lowered."""
    inputs: Any
    """Those of a call, or an `InputSet`."""
    model: object
    """The float model, or the path of an ETRecord."""
    source: object = None
    quantized: object = None
    """Of a program that a flow made: what it lowered, and its quantised graph."""
    is_made: bool = False
    """True if --flow made the program."""


def _made(args: argparse.Namespace) -> _Subject:
    """Return what --flow makes of the model."""
    from executorch_c.check.cases import as_call, leaves, real_cases, targets_of
    from executorch_c.check import by_flow
    from executorch_c.check.reference import array

    model, example, options = named.model_and_inputs(args.model)
    given = None
    if args.inputs:
        targets = targets_of(leaves(((example,), {})))
        given = next(iter(cases_of(args))).for_model(model, targets)
    known = {name: options[name] for name in ("dynamic_shapes", "real_inputs") if name in options}
    args.method = args.method or options.get("method", "forward")
    example = tuple(given) if example is None and given is not None else example
    if args.inputs:  # what is wrong with the last file, before the export
        real_cases(cases_of(args), as_call(example), model)
    result = by_flow.make(model, example, args.flow, method=args.method, **known)
    subject, program = result.subject, result.subject.opened
    assert program is not None
    inputs: Any = [array(leaf) for leaf in leaves(result.example)] if given is None else [*given]
    if args.inputs and names_many(args.inputs):
        inputs = cases_of(args)
    return _Subject(
        program, result.reference, inputs, model, subject.source, subject.quantized, True
    )


def _subject(args: argparse.Namespace) -> _Subject:
    if _is_exported(args):
        return _made(args)
    program, reference, inputs = opened(args)
    return _Subject(program, reference, inputs, reference)


def _is_exported(args: argparse.Namespace) -> bool:
    """Return True if --flow exports the program."""
    return bool(args.flow) and not args.make and not args.etrecord


def _check_options(args: argparse.Namespace) -> None:
    """Report wrong combinations as usage errors."""
    if args.ladder and args.etrecord:
        args.parser.error("--ladder begins with the model: --model M.py:F")
    if args.ladder and args.inputs and names_many(args.inputs):
        args.parser.error("--ladder is about one case: --inputs X.npz")
    if not (args.flow or args.make or args.etrecord):
        args.parser.error("one of the arguments --etrecord --model --flow is required")
    _models.check_flow(args)
    if not _is_exported(args):
        if args.save_pte:
            args.parser.error("--save-pte writes the program of --flow")
        if args.flow and not args.cut:
            args.parser.error("--flow exports a model: beside a program it is for --cut")
        return
    if args.data:
        args.parser.error("--data is for a program: --flow exports one")
    try:
        _functions.parts_of(args.model)
    except ValueError as error:
        args.parser.error(str(error))


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c explain`."""
    from executorch_c.cut.run import flow_of, of_report as cut
    from executorch_c.devtools import explain

    _check_options(args)
    subject = _subject(args)
    if args.save_pte:
        from executorch_c.check.keeping import write_program

        write_program(subject.program, args.save_pte)
    if args.device or args.etdump:
        _refuse_with_device(args)
        return _devices.judge(args, subject.program, subject.reference, subject.inputs)
    flow = args.flow or (flow_of(subject.program) if args.cut else None)
    report = explain(
        subject.reference,
        subject.inputs,
        program=subject.program,
        method=args.method,
        rtol=args.rtol,
        atol=args.atol,
        kernels=args.kernels,
        delegate_at_load=args.checks_delegated,
        title=os.path.basename(args.model) + (f" ({args.flow})" if args.flow else ""),
    )
    part = None
    if args.cut and report.verdict == "differ":
        part = cut(report, args.cut, subject.program, flow=flow, is_made=subject.is_made)
    _show(report, part, args)
    if args.ladder and not args.json:
        _show_ladder(subject, args)
    if report.verdict == "differ" and not args.cut and not args.json:
        _show_cut(report, subject.program, args)
    return _arguments.EXIT_CODES[report.verdict]


def _show_cut(report: ErrorReport, program: ProgramFile, args: argparse.Namespace) -> None:
    """Print the call that cuts the program, where a part of it may show the fault."""
    from executorch_c.cut.run import flow_of, may_have_part

    if not may_have_part(report):
        return
    words, about = ["explain", *args.words, "--cut", "cut"], ""
    try:
        flow_of(program)
    except ValueError:
        if not args.flow:
            words += ["--flow", "FLOW"]
            about = "FLOW: the flow that made the program, as for `check`"
    _next.show(_next.command_line(*words), about)


def _show(report: ErrorReport, part: Cut | None, args: argparse.Namespace) -> None:
    """Write the requested files, and print the report and the part that was cut, or their JSON."""
    if part is None:
        _arguments.show(report, args, report.text(args.top, args.sort))
        return
    _arguments.write_results(report, args)
    if args.json:
        print(_json.dumps(report.as_dict() | {"cut": part.as_dict()}))
    else:
        print(report.text(args.top, args.sort), part, sep="\n\n")


def _show_ladder(subject: _Subject, args: argparse.Namespace) -> None:
    from executorch_c.check.ladder import compare_steps
    from executorch_c.debug._graphs.run import as_tensors

    call = as_tensors(subject.inputs), dict[str, object]()
    ladder = compare_steps(
        subject.model,
        [call],
        program=subject.program,
        method=args.method,
        quantized=subject.quantized,
        source=subject.source,
        title=os.path.basename(args.model),
    )
    print(ladder)
