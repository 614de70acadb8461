"""A pytest plugin that prints each test as it starts and ends: run in the other environment.

A line has "start", or the test's outcome, a tab and the test's id. pytest's own lines come at the
end of a file or a folder, which a process that is killed does not reach.
"""

import os

OUT = os.dup(1)
"""The standard output, before pytest takes it."""


def say(word, nodeid):
    os.write(OUT, f"\n{word}\t{nodeid}\n".encode())


def pytest_runtest_logstart(nodeid, location):
    say("start", nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        failed = "failed" if report.when == "call" else "error"
        say(failed if report.failed else report.outcome, report.nodeid)
