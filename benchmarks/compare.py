"""`python -m benchmarks compare`: every architecture on every runtime, processes in turn."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import select
import subprocess
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import ROOT, compare_report
from benchmarks.common import environment
from benchmarks.rivals import RIVALS, Job, Rival, command

RESULTS = Path(__file__).parent / "results"
Record = dict[str, Any]

SLOW = 60.0  # seconds of imports, loading and the first call, after which a process is ended
COMPILING = 300.0  # the same, for rivals without a file, which compile
PAUSE = 0.05  # seconds between turns: pools of threads spin after a call
WRONG = 1e-3  # relative error in float32


class Process:
    """A process that has loaded a rival's file, and waits for its turns."""

    def __init__(self, rival: Rival, path: Path, job: Job, limit: float) -> None:
        environ = os.environ | {"PYTHONWARNINGS": "ignore"}
        self.log = path.with_suffix(f".{rival.name}.log").open("w+")
        self.process = subprocess.Popen(
            command(rival, path, job),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env=environ,
        )
        try:
            self.loaded = self.answer(limit)
        except RuntimeError:
            self.close()
            raise
        self.turns: list[Record] = []
        self.why = ""  # the reason why it takes no more turns

    def answer(self, limit: float) -> Record:
        """Return the next line of the process that is a report."""
        out, until = self.process.stdout, time.monotonic() + limit
        assert out is not None
        while select.select([out], [], [], max(0.0, until - time.monotonic()))[0]:
            line = out.readline()
            if not line:
                self.log.seek(0)
                lines = self.log.read().strip().splitlines()
                raise RuntimeError(lines[-1][:200] if lines else "the process ended")
            if line.startswith("{"):
                record: Record = json.loads(line)
                return record
        raise RuntimeError(f"more than {limit:g} s")

    def turn(self, budget: float) -> None:
        if self.why or (self.turns and self.turns[-1]["best"] > 10 * budget):
            return  # a slow call has little noise, and would take all the time
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{budget}\n")
            self.process.stdin.flush()
            self.turns.append(self.answer(SLOW))
        except (RuntimeError, OSError) as problem:
            self.why = str(problem)
        time.sleep(PAUSE)

    def result(self) -> Record:
        best = min(turn["best"] for turn in self.turns)
        middle = sorted(turn["median"] for turn in self.turns)[len(self.turns) // 2]
        return {"best": best, "median": middle, **self.loaded}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.log):
            assert pipe is not None
            pipe.close()


def start(rival: Rival, job: Job) -> Process | str:
    """Return a process that waits for its turns, or the reason why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()):  # converters have much to say
                path = rival.file(job)
    except Exception as problem:  # exporters raise anything
        return f"export: {type(problem).__name__}: {problem}".splitlines()[0][:200]
    try:
        return Process(rival, path, job, COMPILING if path == job.io() else SLOW)
    except RuntimeError as problem:
        return str(problem)


def measure(job: Job, rivals: Sequence[Rival], rounds: int, budget: float) -> list[Record]:
    """Return a record for each rival; all take turns."""
    records: list[Record] = []
    running: list[tuple[Rival, Process]] = []
    try:
        for rival in rivals:
            why = rival.missing()
            if not why and job.scheme not in rival.schemes:
                why = f"not measured in {job.scheme}"
            side = why or start(rival, job)
            if isinstance(side, str):
                records.append({**asdict(job), "rival": rival.name, "why": side})
            else:
                running.append((rival, side))
        for _ in range(rounds):
            for _, process in running:
                process.turn(budget)
        for rival, process in running:
            result: Record = {"why": process.why} if process.why else process.result()
            if "best" in result and job.scheme == "fp32" and not result["error"] < WRONG:
                result = {"why": f"wrong: relative error {result['error']:.2g}"}
            records.append({**asdict(job), "rival": rival.name, **result})
    finally:
        for _, process in running:
            process.close()
    return records


def jobs(args: argparse.Namespace) -> list[Job]:
    from benchmarks.networks import NETWORKS

    jobs = []
    for name in args.models or NETWORKS:
        if name not in NETWORKS:
            raise SystemExit(f"no network {name}: there are {', '.join(NETWORKS)}")
        network = NETWORKS[name]
        for size in args.sizes:
            number = {"small": network.small, "usual": network.usual}.get(size) or int(size)
            jobs += [
                Job(name, scheme, number, batch, threads)
                for scheme in args.schemes
                for batch in args.batch
                for threads in args.threads
            ]
    return jobs


def same(record: Record, job: Job, rival: Rival) -> bool:
    return record["rival"] == rival.name and all(record[k] == v for k, v in asdict(job).items())


def show(job: Job, records: Sequence[Record]) -> None:
    print(f"{job.title}, {job.threads} threads", flush=True)
    for record in records:
        figure = f"{1e3 * record['best']:9.3f} ms" if "best" in record else record["why"]
        print(f"    {RIVALS[record['rival']].title:34} {figure}", flush=True)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks compare", description=__doc__)
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default: all of networks/")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--schemes", nargs="+", choices=("fp32", "int8"), default=["fp32", "int8"])
    parser.add_argument("--sizes", nargs="+", default=["usual"], help="small, usual, or numbers")
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a turn")
    parser.add_argument("--quick", action="store_true", help="two short rounds, to try it out")
    parser.add_argument("--save", type=Path, help="write results here, as results/compare.json")
    parser.add_argument("--saved", type=Path, help="results to keep; the others are measured")
    parser.add_argument("--report", action="store_true", help="write the pages of results/")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    args = parse(argv)
    logging.disable(logging.WARNING)  # exporters have much to say
    if args.report:
        for path in [args.saved] if args.saved else sorted(RESULTS.glob("compare*.json")):
            compare_report.write(path)
        return
    results: dict[str, Any] = {"machine": environment(), "records": []}
    if args.saved:
        results = json.loads(args.saved.read_text())
    records = results["records"]
    rounds, budget = (2, 0.05) if args.quick else (args.rounds, args.budget)
    measured = []
    for job in jobs(args):
        missing = [
            RIVALS[name]
            for name in args.rivals
            if not any(same(record, job, RIVALS[name]) for record in records)
        ]
        if missing:
            new = measure(job, missing, rounds, budget)
            records += new
            measured += new
            show(job, new)
        if args.save:
            args.save.write_text(json.dumps(results, indent=1) + "\n")
    print(compare_report.summary(measured or records))
