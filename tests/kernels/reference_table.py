"""Write executorch_c/inspect/reference.tsv: `python -m tests.kernels.reference_table [FAMILY ...]`.

Runs each operator's samples in programs of one call, by eager, in the official runtime (in child
processes: it may crash) and here, over all dtypes, contiguous and in channels-last. Families are
run one by one; `build/reference/` keeps their results, so that an interrupted run goes on, and
`--fresh` forgets them. Families without results keep their rows.

A difference of this runtime from eager is printed: a bug here, or an exclusion of accuracy.py.
"""

import argparse
import json
import math
import os
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from executorch_c import Runtime
from executorch_c.inspect import reference
from executorch_c.inspect.reference import Behaviour, OperatorCall
from executorch_c.inspect.structure import View
from tests.judge import difference as difference_of, info, is_inexact, wide
from tests.kernels import reference_samples, rows
from tests.kernels.accuracy import replaced
from tests.kernels.eager import called, channels_last, in_order, to_torch
from tests.kernels.official_worker import Answer, Official
from tests.single_op import SingleOps, dim_order_of

COUNT, SIZE = 12, 2000
"""Contiguous samples of an operator and dtype, and the largest number of elements of an array."""
PARTS = (reference.CONTIGUOUS, reference.CHANNELS_LAST)
LAST_DTYPES = ("float32", "int64")
"""Dtypes of samples in channels-last, which kernels treat alike."""
MIN_SAMPLES = 3
"""Least number of samples from which all of a dtype or layout are concluded."""
LAYOUTS_DIFFER = "tensors of different layouts"
"""A condition that one sample shows: kernels check it."""
ROUNDING = 16
"""Largest difference of results that are rounded otherwise, in units of the dtype's epsilon and of
the largest magnitude."""
RESULTS = HERE.parents[1] / "build" / "reference"
MISSING = "error: 0x:14"
"""End of the message for an operator that the official runtime lacks."""
PLANNED_BY_EXPORTER = {"executorch_prim::et_view.default"}
"""Operators whose output gets memory from the exporter's plan, which these programs lack."""
MAX_EXAMPLE = 160
Run = Callable[[bytes, list[tuple[str, list[Any]]]], list[Answer]]
Result = tuple[OperatorCall, str, str]
"""A call, what the reference runtime does with it, and the arguments."""


# ---- samples -----------------------------------------------------------------------------------


def in_channels_last(args: list) -> list:
    """Return the arguments with arrays of four and five dimensions in channels-last."""

    def laid_out(a: Any) -> Any:
        if isinstance(a, list):
            return [laid_out(item) for item in a]
        if not isinstance(a, np.ndarray) or a.ndim not in (4, 5):
            return a
        return in_order(a, channels_last(a.ndim))

    return [laid_out(a) for a in args]


def is_exported(args: list) -> bool:
    """Return True for layouts that the exporter writes."""
    orders = ([dim_order_of(a), a.ndim] for a in rows.arrays(args))
    return all(o in (list(range(n)), list(channels_last(n))) for o, n in orders)


def picked(name: str, dtype: str, count: int, last: bool) -> list[list]:
    """Return contiguous samples; with `last`, those of four and five dimensions in
    channels-last."""
    entries = [args for args in rows.pick(name, dtype, count, SIZE) if is_exported(args)]
    if name in reference_samples.MORE:
        entries += reference_samples.MORE[name](np.random.default_rng(1), dtype)
    plain = [args for args in entries if rows.is_contiguous(args)]
    if not last:
        return plain
    arguments = [args for args in entries if not rows.is_contiguous(args)]
    return arguments + [
        in_channels_last(args)
        for args in plain
        if any(a.ndim in (4, 5) and a.size for a in rows.arrays(args))
    ]


def faked(mode: FakeTensorMode, value: Any) -> Any:
    if isinstance(value, list):
        return [faked(mode, item) for item in value]
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value


def planned(name: str, args: list, results: list[Any]) -> list[Any]:
    """Return tensors in the layouts that the exporter plans for the results: those of the operator
    on fake tensors; eager's own if it has no such kernel."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mode = FakeTensorMode()
        values = [faked(mode, to_torch(a)) for a in args]
        with mode:
            result = called(name, values)
        if [getattr(t, "ndim", None) for t in result] == [r.ndim for r in results]:
            return result
    return results


def outs_of(name: str, args: list, results: list[Any]) -> list[Any]:
    """Return outputs in the layouts that the exporter plans."""
    outs, layouts = rows.outs_of(results), planned(name, args, results)
    is_planned = is_last if any(is_last(a) for a in rows.arrays(args)) else is_moved
    return [
        replace(out, dim_order=tuple(dim_order_of(like)))
        if isinstance(r, np.ndarray) and is_planned(like)
        else out
        for r, like, out in zip(results, layouts, outs, strict=True)
    ]


def is_moved(a: Any) -> bool:
    """Return True for an array or tensor whose dimensions have another order in memory, as those of
    `nonzero`."""
    return a.ndim > 1 and list(dim_order_of(a)) != list(range(a.ndim))


def is_last(a: Any) -> bool:
    """Return True for an array or tensor in channels-last."""
    return a.ndim in (4, 5) and dim_order_of(a) == list(channels_last(a.ndim))


def is_written(args: list) -> bool:
    """Return False for a number that the official writer of files changes: -0.0, its default."""
    return not any(isinstance(a, float) and a == 0 and math.copysign(1, a) < 0 for a in args)


def is_consistent(name: str, args: list, results: list[Any], dtype: str) -> bool:
    """Return False if eager computes other numbers for contiguous arrays: some of its kernels
    ignore the layout of indices."""
    if rows.is_contiguous(args):
        return True
    plain = rows.wanted(name, replaced(args, np.copy, "fcVbiu", "C"), dtype)
    case = rows.MethodCase(name, dtype, args, results, "")
    return plain is not None and rows.agrees(case, plain)


def program(
    name: str, dtypes: Iterable[str], count: int, last: bool
) -> tuple[SingleOps, list[rows.MethodCase]]:
    """Return a program with a method for each sample of an operator that eager computes."""
    ops, cases = SingleOps(), []
    for dtype in dtypes:
        for args, results in rows.expected(name, picked(name, dtype, count, last), dtype):
            if (
                results is not None
                and is_written(args)
                and is_consistent(name, args, results, dtype)
            ):
                method = rows.add(ops, name, args, outs_of(name, args, results))
                cases.append(rows.MethodCase(name, dtype, args, results, method))
    return ops, cases


# ---- runs --------------------------------------------------------------------------------------


def did(case: rows.MethodCase, how: str, outputs: Any) -> str:
    """Return what the reference runtime did with a sample."""
    if how == "ran":
        return "agrees" if rows.agrees(case, outputs) else difference(case, outputs)
    if how == "refused":
        return "lacks" if outputs.endswith(MISSING) else "rejects"
    return "crashes"


def difference(case: rows.MethodCase, outputs: list[Any]) -> str:
    """Return "rounds" for results of the same shapes and dtypes that are close to eager's."""
    wanted = case.results or []
    close = len(outputs) == len(wanted) and all(map(is_rounding, outputs, wanted))
    return "rounds" if close else "differs"


def is_rounding(f: Any, w: Any) -> bool:
    if not isinstance(w, np.ndarray) or not is_inexact(w.dtype.name):
        return difference_of(f, w) is None
    if not isinstance(f, np.ndarray) or (f.shape, f.dtype) != (w.shape, w.dtype):
        return False
    finite = np.isfinite(wide(w))
    if not w.size or not np.array_equal(wide(f)[~finite], wide(w)[~finite], equal_nan=True):
        return not w.size
    most = np.max(np.abs(wide(w)), where=finite, initial=0.0)
    room = ROUNDING * float(info(w.dtype.name).eps) * most
    return bool(np.all(np.abs(wide(f) - wide(w)) <= room, where=finite))


def own(program: Any, case: rows.MethodCase, inputs: list[Any]) -> str:
    """Return the difference of this runtime from eager; empty without one."""
    try:
        outputs = program.load_method(case.method).execute(inputs)
        rows.check(case.operator, case.args, outputs, case.results or [])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""


def text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        shape = "x".join(map(str, value.shape)) or "0-d"
        few = value.size <= 4
        return f"{value.dtype.name}[{shape}]" + (f" {value.ravel().tolist()}" if few else "")
    return f"[{', '.join(map(text, value))}]" if isinstance(value, list) else repr(value)


def described(case: rows.MethodCase) -> str:
    """Return the arguments of a sample as a text without tabs and line ends."""
    line = ", ".join(map(text, case.args)).replace("\t", " ").replace("\n", " ")
    return line if len(line) <= MAX_EXAMPLE else line[: MAX_EXAMPLE - 3] + "..."


def runs(ops: SingleOps, cases: list[rows.MethodCase], official: Run) -> Iterator[tuple]:
    """Yield each case, the difference of this runtime from eager, the call, what the reference
    runtime did, and why it refused."""
    pte, inputs = ops.build(), [rows.inputs_of(ops, case) for case in cases]
    answers = official(pte, [(c.method, v) for c, v in zip(cases, inputs, strict=True)])
    loaded = Runtime.get().load_program(pte)
    for case, arrays, (how, outputs) in zip(cases, inputs, answers, strict=True):
        view = View(loaded, case.method)
        why = f" -> {outputs.partition(';')[0]}" if how == "refused" and ";" in outputs else ""
        call = reference.call_of(view, view.steps[0])
        yield case, own(loaded, case, arrays), call, did(case, how, outputs), why


def results(
    name: str, dtypes: Iterable[str], official: Run, count: int = COUNT, last: bool = False
) -> tuple[list[Result], list[str]]:
    """Return the results of an operator's samples, and differences of this runtime."""
    ops, cases = program(name, dtypes, count, last)
    entries, bugs = [], []
    for case, wrong, call, does, why in runs(ops, cases, official) if cases else ():
        if wrong:
            bugs.append(f"{name}({described(case)}): {wrong}")
        entries.append((call, does, described(case) + why))
    return entries, bugs


# ---- rows of results ---------------------------------------------------------------------------


def common(calls: list[Result], does: str) -> Iterator[tuple[str, list[Result]]]:
    """Yield features, or pairs of them, that only calls with this behaviour have, each with the
    calls that have it: in each step what the most of the rest have."""
    bad = [one for one in calls if one[1] == does]
    good = [one[0].features for one in calls if one[1] != does]
    for size in (1, 2):
        while bad:
            counts = Counter(f for one in bad for f in combinations(sorted(one[0].features), size))
            often = [
                f for f, n in counts.items() if n >= MIN_SAMPLES * size or f == (LAYOUTS_DIFFER,)
            ]
            pure = [f for f in often if not any(set(f) <= features for features in good)]
            if not pure:
                break
            most = max(counts[f] for f in pure)
            best = min(
                (f for f in pure if counts[f] == most), key=lambda f: (sum(map(preference, f)), f)
            )
            has = [one for one in bad if set(best) <= one[0].features]
            yield reference.AND.join(best), has
            bad = [one for one in bad if not set(best) <= one[0].features]


def preference(feature: str) -> int:
    """Return the rank of a feature as a reason: the likely ones first."""
    what = feature.rpartition(": ")[2]
    order = (
        *("empty tensors", "tensors of different shapes", "0-d tensors", "negative", "None"),
        *("True", "fraction", "no items"),
    )
    if what in order:
        return order.index(what)
    return len(order) + (2 if what.endswith(("-d", "items")) else 1)


def rows_of(name: str, outputs: list[Result]) -> Iterator[Behaviour]:
    """Yield the rows of an operator's results."""
    if all(does == "lacks" for _, does, _ in outputs):
        yield Behaviour(name, "lacks", samples=f"{len(outputs)}/{len(outputs)}")
        return
    outputs, groups = telling(outputs), defaultdict(list)
    for one in outputs:
        groups[one[0].dtype, one[0].layout].append(one)
    agree = [key for key, calls in groups.items() if any(does == "agrees" for _, does, _ in calls)]
    if agree:
        count = sum(does == "agrees" for _, does, _ in outputs)
        yield joined(name, "agrees", agree, "", f"{count}/{len(outputs)}", "")
    for does in ("rounds", "differs", "rejects", "crashes"):
        yield from rows_with(name, does, outputs, groups)


def whole(does: str, outputs: list[Result], part: int) -> list[str]:
    """Return the dtypes (part 0) or layouts (part 1) whose calls all behave like this, if they are
    enough and those of others do not."""
    by = defaultdict(list)
    for call, what, _ in outputs:
        by[(call.dtype, call.layout)[part]].append(what)
    same = [key for key, every in by.items() if set(every) == {does} and len(every) >= MIN_SAMPLES]
    return same if len(same) < len(by) or part == 0 else []


def rows_with(name: str, does: str, outputs: list[Result], groups: dict) -> Iterator[Behaviour]:
    """Yield rows of one behaviour: dtypes and layouts that all behave like this, those with an
    argument in common, and the rest."""
    left = {id(one): one for one in outputs if one[1] == does}
    orders, kinds = whole(does, outputs, 1), whole(does, outputs, 0)
    parts = [([k for k in groups if k[1] in orders], 1), ([k for k in groups if k[0] in kinds], 0)]
    for keys, part in parts:
        calls = [one for one in left.values() if (one[0].dtype, one[0].layout) in keys]
        if calls:
            row = joined(name, does, keys, "", f"{len(calls)}/{len(calls)}", example(calls))
            yield replace(
                row, dtypes=() if part else row.dtypes, layouts=row.layouts if part else ()
            )
            left = {key: one for key, one in left.items() if not any(one is c for c in calls)}
    refused = whole("rejects", outputs, 0)  # rows name dtypes: those that are refused tell nothing
    rest = [
        one
        for one in outputs
        if id(one) in left or (one[1] != does and one[0].dtype not in refused)
    ]
    for feature, calls in common(rest, does):
        every = [key for key in groups if any((c[0].dtype, c[0].layout) == key for c in calls)]
        yield joined(name, does, every, feature, f"{len(calls)}/{len(outputs)}", example(calls))
        left = {key: one for key, one in left.items() if not any(one is c for c in calls)}
    yield from rows_of_rest(name, does, groups, left)


def rows_of_rest(
    name: str, does: str, groups: dict, left: dict[int, Result]
) -> Iterator[Behaviour]:
    """Yield rows by dtype and layout of calls without an argument in common."""
    certain, open_ = list[Any](), list[Any]()
    for key, calls in groups.items():
        bad = [one for one in calls if id(one) in left]
        if bad:
            agree = any(one[1] in {"agrees", "rounds"} - {does} for one in calls)
            (open_ if agree else certain).append((key, bad, calls))
    if sum(len(bad) for _, bad, _ in certain) < MIN_SAMPLES:
        open_, certain = open_ + certain, []
    for condition, every in (("", certain), (reference.SOME, open_)):
        for layout in dict.fromkeys(key[1] for key, _, _ in every):
            parts = [part for part in every if part[0][1] == layout]
            bad = [one for _, some, _ in parts for one in some]
            of = sum(len(calls) for _, _, calls in parts)
            keys = [key for key, _, _ in parts]
            yield joined(name, does, keys, condition, f"{len(bad)}/{of}", example(bad))


def telling(outputs: list[Result]) -> list[Result]:
    """Return the results without empty tensors that agree, unless there are no others: nothing is
    computed, so that kernels accept them in any dtype."""
    empty = "empty tensors"
    full = [one for one in outputs if one[1] != "agrees" or empty not in one[0].features]
    return full or outputs


def example(calls: list[Result]) -> str:
    """Return the arguments of the first call, if possible of float32."""
    return min(calls, key=lambda one: one[0].dtype != "float32")[2]


def joined(name: str, does: Any, keys: list, when: str, samples: str, example: str) -> Behaviour:
    dtypes, layouts = ({key[i]: None for key in keys} for i in range(2))
    return Behaviour(name, does, tuple(sorted(dtypes)), tuple(layouts), when, samples, example)


# ---- the file ----------------------------------------------------------------------------------


def families() -> dict[str, list[str]]:
    """Return the operators by family."""
    entries = defaultdict(list)
    for name, (family, _) in sorted(rows.tables().items()):
        if name not in PLANNED_BY_EXPORTER:
            entries[family].append(name)
    return entries


@cache
def official_names() -> set[str]:
    """Return the operators of the official runtime, with its libraries of quantized ones and those
    of language models."""
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401
    import executorch.kernels.quantized  # noqa: F401
    from executorch.runtime import Runtime as OfficialRuntime

    return set(OfficialRuntime.get().operator_registry.operator_names)


def run_family(family: str, names: list[str], path: Path, count: int, last: bool) -> None:
    """Run the operators of a family, and write their results to a file when all have run."""
    official, lines, known = Official(), [], official_names()
    try:
        for name in names:
            start = time.time()
            if name not in known:
                lines.append({"operator": name, "results": None})
                continue
            dtypes = [d for d in rows.dtypes_of(name) if not last or d in LAST_DTYPES]
            entries, bugs = results(name, dtypes, official, count, last)
            for bug in bugs:
                print("HERE", bug, flush=True)
            stored_results = [
                [c.dtype, c.layout, sorted(c.features), does, example]
                for c, does, example in entries
            ]
            lines.append({"operator": name, "results": stored_results})
            counts = Counter(does for _, does, _ in entries)
            print(f"{family} {name} {dict(counts)} {time.time() - start:.1f} s", flush=True)
    finally:
        official.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.replace(part, path)


def written(behaviours: Iterable[Behaviour]) -> str:
    """Return the table as text."""
    out = [
        f"# What executorch {reference.VERSION} does with calls that eager computes; written by",
        "# `python -m tests.kernels.reference_table`",
        "\t".join(reference.COLUMNS),
    ]
    for row in behaviours:
        kinds = (row.operator, row.does, ",".join(row.dtypes), ",".join(row.layouts))
        out.append("\t".join([*kinds, row.when, row.samples, row.example]))
    return "\n".join(out) + "\n"


def stored(part: str, family: str) -> Iterator[tuple[str, list[Result] | None]]:
    """Yield the operators of a family with their results of one part; None: it lacks it."""
    path = RESULTS / part / f"{family}.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        one = json.loads(line)
        name, results_ = one["operator"], one["results"]
        [other] = (layout for layout in PARTS if layout != part)
        if results_ is None:
            yield name, None
            continue
        yield (
            name,
            [
                (OperatorCall(name, dtype, layout, frozenset(features)), does, example)
                for dtype, layout, features, does, example in results_
                if layout != other
            ],
        )


def assembled(names: dict[str, list[str]]) -> str:
    """Return the table of all results; rows of families without results stay."""
    kept = defaultdict(list)
    if reference.PATH.exists():
        for row in reference.read(reference.PATH.read_text()):
            kept[row.operator].append(row)
    for family in names:
        entries: dict[str, list[Result] | None] = {}
        for name, results_ in (pair for part in PARTS for pair in stored(part, family)):
            if results_ is None:
                entries[name] = None
            else:
                entries[name] = [*(entries.get(name) or ()), *results_]
        for name in set(names[family]) - official_names():
            entries[name] = None
        for name, calls in entries.items():
            kept[name] = [Behaviour(name, "lacks")] if calls is None else list(rows_of(name, calls))
    return written(row for name in sorted(kept) for row in kept[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--fresh", action="store_true", help="run families that have results again")
    parser.add_argument("--count", type=int, default=COUNT, help="contiguous samples of a dtype")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this layout")
    parser.add_argument("--assemble", action="store_true", help="run none: write what there is")
    args = parser.parse_args()
    every = families()
    for part in args.part or PARTS:
        for family in () if args.assemble else args.families or every:
            path = RESULTS / part / f"{family}.jsonl"
            if args.fresh or not path.exists():
                last = part == reference.CHANNELS_LAST
                run_family(family, every[family], path, args.count, last)
    reference.PATH.write_text(assembled(every))


if __name__ == "__main__":
    main()
