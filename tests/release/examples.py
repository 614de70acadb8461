"""Flows and examples of a release on this runtime: run by the python of its environment.

    PYTHON tests/release/examples.py TREE [NAME...]

TREE is a tree of this repository that is built in place for the same Python. Each row runs in a
forked process with limits: "flow NAME" checks a small network by `check_model`, "example NAME"
exports a model of `executorch.examples.models` for the flows portable and xnnpack. A model that
opens a connection (for its weights) gets an error. A line of output has the name, a tab, and "ok"
or the fault.
"""

import argparse
import importlib
import os
import signal
import socket
import sys
import warnings

PROCESSOR_SECONDS = 240
SECONDS = 800
"""Less than the silence after which this script is ended."""


def network():
    """Return a network and its inputs."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    return nn.Sequential(*layers).eval().requires_grad_(False), (torch.randn(1, 3, 8, 8),)


def judged(model, inputs, flow):
    """Return "ok", or the finding of check_model, without the API of the official runtime."""
    from executorch_c.testing import check_model

    result = check_model(model, inputs, flow=flow, engines=("here",))
    return "ok" if result.ok else " ".join(str(result.summary()).split())


def flow(name):
    return judged(*network(), name)


def offered():
    """Return the module and class of each model of the wheel, by the class's name."""
    try:
        from executorch.examples.models import MODEL_NAME_TO_MODEL, toy_model
    except ImportError:
        return {}
    toys = [("toy_model", name) for name, v in vars(toy_model).items() if isinstance(v, type)]
    return {name: (module, name) for module, name in [*toys, *MODEL_NAME_TO_MODEL.values()]}


def refuse(*args):
    raise OSError("no connections: the model needs a download")


def example(module, name):
    """Return what a model of the wheel gives."""
    socket.socket.connect = socket.getaddrinfo = refuse
    made = getattr(importlib.import_module(f"executorch.examples.models.{module}"), name)()
    model, inputs = made.get_eager_model().eval(), made.get_example_inputs()
    results = {judged(model, inputs, flow) for flow in ("portable", "xnnpack")}
    return "ok" if results == {"ok"} else "; ".join(sorted(results - {"ok"}))


def rows():
    """Return the functions of all rows."""
    from executorch_c.check.flows import FLOWS

    flows = {f"flow {name}": lambda name=name: flow(name) for name in FLOWS}
    return flows | {
        f"example {name}": lambda place=place: example(*place) for name, place in offered().items()
    }


def child(name, run, out):
    """Run a row in this process, which ends after it."""
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    signal.alarm(SECONDS)
    try:
        result = run()
    except BaseException as error:
        result = " ".join(f"{type(error).__name__}: {error}".split())
    os.write(out, f"{name}\t{result[:300]}\n".encode())
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", help="a built tree of this repository")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="rows, where there are such; default: all"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path.append(args.tree)
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    import executorch.exir  # noqa: F401  once, for all children

    out = os.dup(1)
    os.dup2(2, 1)  # what flows print
    table = rows()
    for name in filter(table.__contains__, args.names or table):
        if (process := os.fork()) == 0:
            child(name, table[name], out)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code < 0:
            os.write(out, f"{name}\tended by signal {-code}\n".encode())


if __name__ == "__main__":
    main()
