"""A process with all tests collected, which forks a child for each mutant.

    python -m tests.mutation.server READ WRITE FOLDERS FILES...

READ and WRITE are descriptors of pipes: a request and an answer are a line of JSON each. A request
has `tests`, ids, and `seconds` of processor time, after which no other test begins; with `trace`,
the answer has the lines of `executorch_c` that each of them runs; with `file` and `text`, the child
has the code of that text. A child has limits of processor time and of time; torch is loaded, and
has one thread, because threads do not survive a fork.
"""

import json
import os
import resource
import select
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, TextIO

import pytest

from tests import ROOT
from tests.mutation import patching

Request = dict[str, Any]
Answer = dict[str, Any]
SLACK = 20.0
"""Seconds of processor time that each child has, beyond those of its request."""
WAITING = 10.0
"""Seconds of time for a second of processor time: the machine may be busy."""


class Tracer:
    """The lines of `executorch_c` that run."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.prefix = str(ROOT / "executorch_c") + os.sep

    def call(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        return self.line if file.startswith(self.prefix) else None

    def line(self, frame: FrameType, event: str, argument: object) -> Any:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    def start(self) -> None:
        self.lines = set()
        threading.settrace(self.call)
        sys.settrace(self.call)

    def stop(self) -> dict[str, list[int]]:
        """Return the lines by file, from the root of the tree."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        result: dict[str, list[int]] = {}
        for file, line in sorted(self.lines):
            result.setdefault(os.path.relpath(file, ROOT), []).append(line)
        return result


class Server:
    """A plugin of pytest, which answers requests instead of running the collected tests."""

    def __init__(self, requests: TextIO, answers: TextIO, folders: tuple[str, ...]) -> None:
        self.requests, self.answers, self.folders = requests, answers, folders
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = report.outcome if before == "passed" else before

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.functions = patching.load(self.folders)
        self.items = {item.nodeid: item for item in session.items}
        self.answer({"tests": list(self.items)})
        for line in self.requests:
            self.answer(self.forked(json.loads(line)))
        return True

    def answer(self, answer: Answer) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()

    def forked(self, request: Request) -> Answer:
        """Return the answer of a child, or how it ends."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                answer = self.run(request)
                with os.fdopen(write, "w") as file:
                    file.write(json.dumps(answer) + "\n")
            finally:
                os._exit(0)
        os.close(write)
        text = read_line(read, WAITING * (SLACK + request["seconds"]))
        try:
            os.killpg(child, signal.SIGKILL)  # its children, too
        except ProcessLookupError:
            pass
        _, status = os.waitpid(child, 0)
        if text:
            return json.loads(text)
        ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
        return {"ended": "endless" if ended in ("SIGXCPU", "SIGKILL") else ended}

    def run(self, request: Request) -> Answer:
        """Run tests until one fails."""
        os.setpgrp()
        seconds = int(SLACK + request["seconds"])
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        if "file" in request:
            source = (ROOT / request["file"]).read_text()
            try:
                new = patching.changed(source, request["text"], request["file"])
                found = patching.apply(self.functions, request["file"], new)
            except (SyntaxError, ValueError):
                return {"no mutant": "compiler"}
            if not found:
                return {"no mutant": "no function" if new else "same code"}
        return self.run_items([self.items[name] for name in request["tests"]], request)

    def run_items(self, items: list[pytest.Item], request: Request) -> Answer:
        tracer, lines, seconds = Tracer(), {}, {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            start = time.process_time()
            if request.get("trace"):
                tracer.start()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds[item.nodeid] = time.process_time() - start
            if request.get("trace"):
                lines[item.nodeid] = tracer.stop()
            elif self.outcomes.get(item.nodeid) == "failed":
                return {"failed": item.nodeid}
            if time.process_time() > request["seconds"]:
                break
        return {"outcomes": self.outcomes, "seconds": seconds, "lines": lines}


def read_line(descriptor: int, seconds: float) -> str:
    """Return the line that is written to a pipe, or "" if it is closed or the time is over."""
    parts, until = [], time.monotonic() + seconds
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while select.select([file], [], [], max(until - time.monotonic(), 0))[0]:
            part = file.read(1 << 16)
            if not part:
                break
            parts.append(part)
            if part.endswith(b"\n"):
                return b"".join(parts).decode()
    return ""


def main() -> None:
    read, write, folders, *files = sys.argv[1:]
    import torch

    torch.set_num_threads(1)
    with os.fdopen(int(read)) as requests, os.fdopen(int(write), "w") as answers:
        server = Server(requests, answers, tuple(folders.split(",")))
        pytest.main(["-q", "-p", "no:cacheprovider", "-s", *files], plugins=[server])


if __name__ == "__main__":
    main()
