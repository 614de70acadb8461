"""Run functions in threads and propagate their exceptions to the test."""

import threading
import time
from collections.abc import Callable
from functools import partial


def run_all(*functions: Callable[[], object], seconds: float = 60) -> None:
    """Run functions concurrently and raise the first exception."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[one], daemon=True) for one in functions]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"a thread runs after {seconds} s"


def run_each(count: int, run: Callable[[int], object], seconds: float = 60) -> None:
    """Run a function with each of the first integers concurrently; raise like `run_all`."""
    run_all(*(partial(run, index) for index in range(count)), seconds=seconds)
