"""OpenvinoBackend in forked processes: the engine opened by another thread, objects of the parent.

The engine is a library of this file that stops where the test wants it, so that the fork is there.
"""

import importlib.util
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT, process
from tests.backends.openvino_blob import cases, pte

installed = importlib.util.find_spec("openvino") is not None

LIBRARY = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long reach(const char *name) {
  static int stopped;
  if (strcmp(name, getenv("STOP_AT")) != 0 || stopped++) return -1;
  write(atoi(getenv("REACHED")), "x", 1);
  char byte;
  read(atoi(getenv("GO_ON")), &byte, 1);
  return -1;
}

__attribute__((constructor)) static void load(void) { reach("dlopen"); }

long ov_get_openvino_version(const char **build) {
  reach("get_openvino_version");
  *build = "2025.0";
  return 0;
}

const char *ov_get_last_err_msg(void) { return NULL; }
"""

BESIDE = """
import os, signal, sys, threading
import executorch_c

def load():
    try:
        executorch_c.load(sys.argv[1]).load_method("forward")
    except executorch_c.Error as error:
        return f"{type(error).__name__}: {error}"

(reached, told), (waits, go_on) = os.pipe(), os.pipe()
os.environ.update(REACHED=str(told), GO_ON=str(waits))
said = []
thread = threading.Thread(target=lambda: said.append(load()))
thread.start()
os.read(reached, 1)
pid = os.fork()
if not pid:
    signal.alarm(20)
    print(load(), flush=True)
    print(load(), flush=True)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
os.write(go_on, b"x")
thread.join()
print(said[0])
print(load())
print(status)
"""


def fake_engine(folder: Path) -> Path:
    """Compile a library with all functions of symbols.def, of which no core can be had."""
    symbols = (ROOT / "backends/openvino/symbols.def").read_text()
    names = re.findall(r"^EC_OV\([^,]+, (\w+)", symbols, re.MULTILINE)
    assert len(names) > 20
    source, library = folder / "engine.c", folder / "libfake.so"
    own = [name for name in names if f"ov_{name}(" not in LIBRARY]
    rest = "\n".join(f'long ov_{name}(void) {{ return reach("{name}"); }}' for name in own)
    source.write_text(LIBRARY + rest)
    compiler = os.environ.get("CC", "gcc")
    process.run(compiler, "-w", "-shared", "-fPIC", source, "-o", library)
    return library


def run(code: str, folder: Path, **env: str) -> list[str]:
    """Run code with a program in another process; return the lines that it prints."""
    (folder / "mlp.pte").write_bytes(pte("mlp"))
    done = process.python(
        "-c", code, folder / "mlp.pte", cwd=folder, env={**os.environ, **env}, timeout=60
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "gcc")), reason="compiles a library")
@pytest.mark.parametrize(
    ("stop_at", "state"),
    [
        ("dlopen", "being opened"),
        ("get_openvino_version", "being opened"),
        ("core_create", "in use"),
    ],
)
def test_another_thread_opens_the_engine(stop_at: str, state: str, tmp_path: Path) -> None:
    """The child is refused, does not wait for a thread that it lacks; the parent goes on."""
    library = fake_engine(tmp_path)
    lines = run(BESIDE, tmp_path, OPENVINO_LIB_PATH=str(library), STOP_AT=stop_at)
    *child, thread, parent, status = lines
    refused = f"OpenVINO was {state} when this process was forked, and its threads are lost"
    assert status == "0", lines
    assert len(child) == 2 and all(
        line.startswith("InvalidStateError:") and refused in line for line in child
    ), lines
    assert thread == parent and "no core: OpenVINO 2025.0: no message" in thread, lines


FREED = """
import gc, os, signal, sys
import numpy as np
import executorch_c

method = executorch_c.load(sys.argv[1]).load_method("forward")
inputs = list(np.load("x.npz").values())
with method.tracing(values=True):
    method.execute(inputs)
pid = os.fork()
if not pid:
    signal.alarm(20)
    del method
    gc.collect()
    print("freed", flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
method.execute(inputs)
"""


@pytest.mark.skipif(not installed, reason="the extra openvino is not installed")
def test_a_forked_process_drops_a_method_and_ends(tmp_path: Path) -> None:
    """Freeing an object of the engine waits for its threads."""
    np.savez(tmp_path / "x.npz", *cases("mlp")[0])
    assert run(FREED, tmp_path) == ["freed", "7"]
