"""check_all: checks in an executor, and results put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_c import _extras
from executorch_c.progress import Progress
from executorch_c.suite import baseline, checks, file, worker
from executorch_c.suite.checks import CheckTask, Reader
from executorch_c.suite.result import CheckRow, SuiteInterrupt, SuiteResult, read

if TYPE_CHECKING:
    from executorch_c._types import FilePath


def tasks_of(source: FilePath | Mapping[str, Any]) -> tuple[str, list[CheckTask]]:
    """Return the title and the checks of a TOML file, or of its contents as a mapping. Raises
    ValueError and OSError."""
    if isinstance(source, Mapping):
        return "checks", Reader(source, os.getcwd(), lambda keys: "checks").checks()
    return str(os.fspath(source)), file.read(source)


def selected(
    tasks: Sequence[CheckTask],
    *,
    only: str | Sequence[str] = (),
    seconds: float | None = None,
    pages: FilePath | None = None,
) -> list[CheckTask]:
    """Return the checks that patterns match, with a time limit and the paths of pages. Raises
    ValueError."""
    kept = checks.only(tasks, [only] if isinstance(only, str) else only)
    if seconds is not None:
        kept = [replace(task, seconds=seconds) for task in kept]
    if pages is not None:
        folder = os.path.abspath(pages)
        kept = [replace(task, page=os.path.join(folder, _page(task.name))) for task in kept]
    return kept


def _page(name: str) -> str:
    """Return the name of a check's page."""
    return "".join(one if one.isalnum() or one in "-._" else "_" for one in name) + ".html"


def check_all(
    source: FilePath | Mapping[str, Any],
    *,
    jobs: int,
    executor: Executor | None,
    only: str | Sequence[str],
    shard: str | None,
    seconds: float | None,
    baseline: FilePath | SuiteResult | None,
    allowances: Mapping[str, float] | None,
    pages: FilePath | None,
    done: Callable[[CheckRow], object] | None,
    progress: bool | None,
) -> SuiteResult:
    """Run executorch_c.testing.check_all, whose docstring has the arguments."""
    if jobs < 1:
        raise ValueError(f"`jobs` is {jobs}, expected 1 or more")
    title, tasks = tasks_of(source)
    tasks = selected(tasks, only=only, seconds=seconds, pages=pages)
    chosen = tasks if shard is None else checks.part(tasks, checks.shard_of(shard))
    old = read(baseline) if isinstance(baseline, (str, os.PathLike)) else baseline
    if pages is not None:
        Path(pages).mkdir(parents=True, exist_ok=True)
    if executor is None:
        _extras.require("check_all", "torch", "executorch")
    rows: dict[str, CheckRow] = {}
    interrupt: KeyboardInterrupt | None = None
    try:
        with Progress("check-all", progress) as say:
            _run(rows, chosen, executor, jobs, done, say)
    except KeyboardInterrupt as error:
        interrupt = error
    ordered = tuple(rows[task.name] for task in chosen if task.name in rows)
    names = tuple(task.name for task in tasks)
    result = SuiteResult(title, ordered, names, shard or "", interrupted=interrupt is not None)
    if old is not None:
        result = against(result, old, allowances)
        result = replace(result, gone=()) if only else result
    if interrupt is not None:
        raise SuiteInterrupt(result) from interrupt
    return result


def _run(
    rows: dict[str, CheckRow],
    tasks: Sequence[CheckTask],
    executor: Executor | None,
    jobs: int,
    done: Callable[[CheckRow], object] | None,
    say: Callable[[str], None],
) -> None:
    """Run checks, and add their rows as they end."""
    with _executor(executor, jobs) as (submit, run):
        say(f"0 of {len(tasks)}")
        futures = {submit(run, task): task for task in tasks}
        for future in _completed(futures):
            task = futures[future]
            rows[task.name] = _row(task, future)
            say(f"{len(rows)} of {len(tasks)}, {task.name} {rows[task.name].verdict}")
            if done is not None:
                done(rows[task.name])


@contextmanager
def _executor(given: Executor | None, jobs: int) -> Iterator[tuple[Any, Any]]:
    """Yield a function that submits a call, and the function to call with a check: those of an
    executor, or of threads that wait for the process of `worker`, which stays for later checks."""
    if given is not None:
        yield given.submit, worker.run
        return
    threads = max(len(os.sched_getaffinity(0)) // jobs, 1)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield pool.submit, partial(worker.run, threads=threads)
        except BaseException:  # an interrupt: nobody waits for the checks that run
            pool.shutdown(wait=False, cancel_futures=True)
            worker.close()
            raise


def _completed(futures: Mapping[Future[Any], CheckTask]) -> Iterable[Future[Any]]:
    """Return futures as they end; those of another library's class in their order."""
    if all(isinstance(one, Future) for one in futures):
        return as_completed(futures)
    return futures


def _row(task: CheckTask, future: Future[dict[str, Any]]) -> CheckRow:
    """Return the row of a check; an error if the executor lost it."""
    about = {"name": task.name, "model": task.model, "flow": task.flow, "line": task.line}
    try:
        return CheckRow.of({**about, **future.result()})
    except Exception as error:
        text = f"the executor lost the check: {type(error).__name__}: {error}"
        return CheckRow.of({**about, "verdict": "error", "about": " ".join(text.split())})


def against(
    result: SuiteResult, old: SuiteResult, allowances: Mapping[str, float] | None = None
) -> SuiteResult:
    """Return a result with what got worse since an old one. Raises ValueError for an unknown
    allowance."""
    worse, new = baseline.changes(result.rows, old.rows, baseline.allowances_of(allowances))
    gone = [row.name for row in old.rows if row.name not in result.names]
    return replace(result, worse=worse, new=tuple(new), gone=tuple(gone))


def merged(results: Sequence[tuple[str, SuiteResult]]) -> SuiteResult:
    """Return results of parts as one, in the order of the file of checks.

    Args:
        results: Names of files, and their results.

    Raises ValueError for parts of other checks, a part that is missing, and a check that is there
    twice.
    """
    first_name, first = results[0]
    rows: dict[str, CheckRow] = {}
    homes: dict[str, str] = {}
    for name, result in results:
        if result.names != first.names:
            raise ValueError(f"{name}: other checks than those of {first_name}")
        for row in result:
            if row.name in rows:
                raise ValueError(f"{name}: '{row.name}' is in {homes[row.name]}, too")
            rows[row.name], homes[row.name] = row, name
    missing = [name for name in first.names if name not in rows]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(first.names)} checks are in none of the files, '{missing[0]}' "
            "is the first"
        )
    return replace(
        first, rows=tuple(rows[name] for name in first.names), shard="", interrupted=False
    )
