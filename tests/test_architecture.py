"""The rules of the source tree: dependency order, tables, sizes of files and functions.

Exceptions are in the files themselves: a header comment with a line "long: <reason>" permits a
longer file, or longer functions.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
LAYERS = tuple("core format trace kernels backend runtime api tools python testing".split())
PYTHON_LAYERS = (
    "_arrays _coreai _delegation _engines _entry_points _extras _files _flatbuffers _functions"
    " _input_files _input_sets _inputs _limited _log _modules _names _order _paths _processes"
    " _stages _streams _types _render examples plotting progress report",
    "inspect.dataflow inspect.device inspect.etdump inspect.etrecord inspect.events"
    " inspect.families inspect.payloads inspect.quantized inspect.reference inspect.scales"
    " inspect.structure inspect.where trace _trace_lines _trace_spans _trace_view",
    "rewrite",
    "compare noise",
    "_backends _bundled_write _eager_caches _openvino _operators _programs _python_backends"
    " bundled",
    "inspect",
    "debug",
    "check",
    "blame",
    "_snapshots _validate",
    "bench cut llm suite",
    "advice",
    "devtools portable_lib pytest_plugin testing _selective suite.one suite.server",
    "_commands cli __main__",
)
"""Modules and folders of executorch_c, from below; what a folder's row does not name is in that of
the folder."""
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_LINE, HEADER = 600, 50, 100, 40
MARKDOWN_COLUMNS = 120
SKIPPED = {"build", "dist", ".cache", "__pycache__", ".pytest_cache", ".mypy_cache"}
LIBC = set(
    (
        "assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h limits.h math.h "
        "stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h "
        "string.h tgmath.h time.h"
    ).split()
)


PUBLIC = {f"executorch_c/{name}.h" for name in ("arguments", "backend", "module", "operator")}
"""Headers that plug-ins may include, in addition to the C library."""

LINKERS = {"csrc/tools/plugins.c"} | {
    f"csrc/testing/{file}" for file in ("fuzz_openvino.c", "fuzz_run.c", "fuzz_target.c")
}
"""Files that link backends, or parts of them, into a program: they include their headers."""

BACKEND_HEADERS = {
    "openvino": {"dlfcn.h", "pthread.h", "unistd.h"},
    "xnnpack": set(
        (
            "format/fb.h format/fb_write.h format/schema.h core/checked.h core/half.h xnnpack.h "
            "pthread.h sys/mman.h unistd.h"
        ).split()
    ),
    "operators": {"core/half.h"},
    "interpreted": {
        "core/checked.h",
        "core/half.h",
        "format/fb.h",
        "format/fb_write.h",
        "format/fields.h",
        "format/schema.h",
    },
}
"""Additional headers of single backends: their libraries. Their READMEs have the details."""


def files(*patterns: str, under: Path = ROOT) -> list[Path]:
    """Return the files of the tree that match, without build and test artefacts."""
    top = [p for p in under.iterdir() if p.name not in SKIPPED and not p.name.startswith(".git")]
    top = [p for p in top if p.is_file() or not p.name.startswith(".") or p.name == ".ci"]
    names = set()
    for path in top:
        inner = [path] if path.is_file() else list(path.rglob("*"))
        for file in inner:
            parts = set(file.relative_to(under).parts)
            if file.is_file() and not parts & SKIPPED and not any("egg-info" in p for p in parts):
                names |= {file for pattern in patterns if file.match(pattern)}
    return sorted(names)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def includes(path: Path) -> list[tuple[str, str]]:
    """('"' or '<', file) of each #include, and of each template that a foreach header includes."""
    row = r'^\s*#\s*(?:include|define EC_TEMPLATE)\s+(["<])([^">]+)[">]'
    return re.findall(row, path.read_text(), re.M)


def has_reason(path: Path) -> bool:
    """Return True if the header comment has a reason for a long file or function."""
    head = path.read_text().splitlines()[:HEADER]
    return any(re.search(r"\blong: \S", line) for line in head)


def test_the_tree_is_found() -> None:
    assert len(files("*.c", "*.h", under=CSRC)) > 50
    assert len(files("*.py")) > 10


# ---- dependency order ------------------------------------------------------------------------


def is_python_header(header: str) -> bool:
    return header in {"Python.h", "structmember.h"} or header.startswith(("numpy/", "cpython/"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_includes_only_earlier_layers(layer: str) -> None:
    folder = CSRC / layer
    if not folder.is_dir():
        pytest.skip(f"csrc/{layer} has no files yet")
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    if LAYERS.index(layer) >= LAYERS.index("backend"):
        allowed.add("executorch_c")
    wrong = []
    for path in files("*.c", "*.h", "*.def", under=CSRC):
        if path.relative_to(CSRC).parts[0] != layer:
            continue
        for kind, header in includes(path):
            near = (path.parent / header).resolve()
            if near.is_file():
                header = near.relative_to(CSRC if CSRC in near.parents else ROOT).as_posix()
            if kind == '"' and header.split("/")[0] not in allowed and name(path) not in LINKERS:
                wrong.append(f"{name(path)}: {header}")
    assert not wrong


def module_of(path: Path, folder: Path) -> str:
    """The module of a file, relative to a folder: a/x.c, a/x.h and a/x.tmpl.h are module a/x."""
    is_table = path.suffix == ".def"
    module = path.name if is_table else path.name.split(".")[0].removesuffix("_internal")
    return (path.relative_to(folder).parent / module).as_posix()


def modules(folder: Path, pattern: str = "*") -> dict[str, set[str]]:
    """Return the modules of a folder that each one includes; those below it, too, for `**/*`."""
    table: dict[str, set[str]] = {}
    suffixes = (".c", ".h", ".def")
    for path in (p for suffix in suffixes for p in folder.glob(pattern + suffix)):
        places = (CSRC, CSRC / "include", *path.parents[:2])
        headers = {place / header for _, header in includes(path) for place in places}
        below = [h for h in headers if h.is_file() and folder in h.parents]
        inside = {module_of(h, folder) for h in below if pattern != "*" or h.parent == folder}
        module = module_of(path, folder)
        table.setdefault(module, set()).update(inside - {module})
    return table


LENT_FROM_ABOVE = {"ec_host_table", "ec_host_open_package"}
"""What backends get declared below its definition: see csrc/runtime/README.md."""


def used_modules(folder: Path, pattern: str = "*") -> dict[str, set[str]]:
    """The modules of a folder whose functions and tables each one uses, whatever declares them."""
    texts = [
        (module_of(p, folder), re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.DOTALL))
        for p in sorted({*folder.glob(pattern + ".c"), *folder.glob(pattern + ".tmpl.h")})
    ]
    defined = re.compile(
        r"^(?!static|typedef|extern)\w[\w *]*?\b(ec\w*)(?=[(\[]| =).*?[;{]", re.M | re.DOTALL
    )
    home = {
        match[1]: module
        for module, text in texts
        for match in defined.finditer(text)
        if match[0].endswith("{") and match[1] not in LENT_FROM_ABOVE
    }
    table: dict[str, set[str]] = {}
    for module, text in texts:
        used = {home[word] for word in set(re.findall(r"\w+", text)) & set(home)}
        table.setdefault(module, set()).update(used - {module})
    return table


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules that include one another in cycles, and those between such cycles."""
    left = dict(graph)
    while True:
        needed = set().union(*left.values()) if left else set()
        ends = {m for m, includes_ in left.items() if not includes_ & set(left) or m not in needed}
        if not ends:
            return sorted(left)
        left = {m: includes_ - ends for m, includes_ in left.items() if m not in ends}


def python_imports(path: Path) -> set[str]:
    """Return the names that a module or a function of it imports when it runs."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        waiting += ast.iter_child_nodes(node)
    return names


def python_modules() -> dict[str, set[str]]:
    """Return the modules that each module imports, without packages: they load names at their first
    use, or none."""
    folder = ROOT / "executorch_c"
    table = {p.relative_to(folder).with_suffix(""): p for p in files("*.py", under=folder)}
    paths = {".".join(at.parts): path for at, path in table.items() if at.stem != "__init__"}
    paths = {name: path for name, path in paths.items() if not name.startswith("docs.")}
    imports = {name: python_imports(path) for name, path in paths.items()}
    return {a: {b for b in paths if f"executorch_c.{b}" in imports[a]} - {a} for a in paths}


def python_layer(module: str) -> int:
    """Return the layer of a module: that of the longest beginning of its name in a row."""
    rows = {name: i for i, row in enumerate(PYTHON_LAYERS) for name in row.split()}
    name = module
    while name not in rows:
        assert name, f"{module} is in no row of PYTHON_LAYERS"
        name = name.rpartition(".")[0]
    return rows[name]


def test_python_modules_depend_one_way() -> None:
    """Imports inside functions count."""
    assert not circle(python_modules())


def test_a_python_module_imports_only_earlier_layers() -> None:
    imports = [(a, b) for a, result in python_modules().items() for b in result]
    assert not sorted(f"{a}: {b}" for a, b in imports if python_layer(b) > python_layer(a))


def source_folders() -> list[str]:
    folders = {p.parent for p in files("*.c", "*.h", under=CSRC)}
    folders |= {p.parent for p in files("*.c", "*.h", under=ROOT / "backends")}
    return sorted(name(folder) for folder in folders)


def test_circles_are_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_uses_are_seen() -> None:
    assert {"nested", "host_call"} <= used_modules(CSRC / "runtime")["host"]
    assert "cache" in used_modules(ROOT / "backends" / "xnnpack" / "run")["engine"]


@pytest.mark.parametrize("folder", source_folders())
def test_files_of_a_folder_depend_one_way(folder: str) -> None:
    """By includes and by uses together: a header of several files does not hide a circle."""
    pattern = "**/*" if folder == "csrc/runtime" else "*"
    includes_, uses = modules(ROOT / folder, pattern), used_modules(ROOT / folder, pattern)
    result = circle({m: includes_[m] | uses.get(m, set()) for m in includes_})
    assert not result


def test_runtime_follows_the_order_of_its_readme() -> None:
    """A file of csrc/runtime includes files of its own row of the table, or of rows above it."""
    readme = (CSRC / "runtime" / "README.md").read_text()
    table = readme.split("| files | purpose |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    rows = [{re.sub(r"\.[ch]$", "", m) for m in re.findall(r"`([^`]+)`", cell)} for cell in cells]
    row_of = {module: i for i, row in enumerate(rows) for module in row}
    graph = modules(CSRC / "runtime", "**/*")
    assert set(graph) == set(row_of)
    includes_ = {(a, b) for a, headers in graph.items() for b in headers}
    wrong = sorted(f"{a}: {b}" for a, b in includes_ if row_of[b] > row_of[a])
    assert not wrong


ADVICE = re.compile(r'"[^"\n]*(?:\.astype|\bdata_path\b|\bnumpy\.|\bnp\.|load_method|load_program)')


def test_messages_below_the_python_layer_have_no_python() -> None:
    """Messages of the C library do not advise Python calls."""
    assert ADVICE.search('"use x.astype(np.int64)"') and not ADVICE.search('"data file 0: no key"')
    wrong = []
    for path in [*files("*.c", "*.h", "*.def", under=CSRC), *files("*.c", under=ROOT / "backends")]:
        if path.relative_to(ROOT).parts[:2] not in {("csrc", "python"), ("csrc", "testing")}:
            wrong += [f"{name(path)}: {text}" for text in ADVICE.findall(path.read_text())]
    assert not wrong


def test_python_headers_only_in_the_python_layer() -> None:
    """csrc/python, csrc/testing and the module.c of a backend; everything else builds without
    Python."""
    wrong = []
    for path in files("*.c", "*.h", "*.def"):
        at = path.relative_to(ROOT).parts
        python = at[:2] in {("csrc", "python"), ("csrc", "testing")}
        python = python or (at[0] == "backends" and path.name == "module.c")
        for _, header in includes(path):
            if is_python_header(header) and not python:
                wrong.append(f"{name(path)}: {header}")
    assert not wrong


def test_public_headers_need_only_libc() -> None:
    for path in files("*.h", under=CSRC / "include"):
        assert {header for _, header in includes(path)} <= LIBC | PUBLIC, name(path)


def test_backends_need_only_the_public_headers() -> None:
    """Except for third_party: sources of other projects, with their headers."""
    wrong = []
    for path in files("*.c", "*.h", "*.def", under=ROOT / "backends"):
        if "third_party" in path.parts:
            continue
        folder = ROOT / "backends" / path.relative_to(ROOT / "backends").parts[0]
        for kind, header in includes(path):
            own = (path.parent / header).is_file() or (folder / header).is_file()
            own = own or header in BACKEND_HEADERS.get(folder.name, set())
            python = is_python_header(header) and path.name == "module.c"
            if kind == '"' and not own and header not in PUBLIC:
                wrong.append(f"{name(path)}: {header}")
            if kind == "<" and header not in LIBC and not own and not python:
                wrong.append(f"{name(path)}: {header}")
    assert not wrong


ROOMS = ("payload", "nodes", "delegate_at_load", "run")
"""The folders of backends/xnnpack, each of which includes only earlier ones."""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_xnnpack_includes_only_earlier_rooms(room: str) -> None:
    folder = ROOT / "backends" / "xnnpack"
    later = ROOMS[ROOMS.index(room) + 1 :]
    paths = files("*.c", "*.h", under=folder / room)
    wrong = [
        f"{name(path)}: {header}"
        for path in paths
        for kind, header in includes(path)
        if kind == '"' and header.endswith(".h") and header.split("/")[0] in later
    ]
    assert paths and not wrong


@pytest.mark.parametrize(
    "folder", ["csrc/python", "backends/xnnpack", *(f"backends/xnnpack/{room}" for room in ROOMS)]
)
def test_each_header_of_a_folder_declares_one_file(folder: str) -> None:
    """Except for headers without a file, which define types or inline functions only."""
    pattern = re.compile(r"^(?!static|typedef|extern|#| |/|\})[\w *]*?\b(\w+)\(", re.M)
    wrong = []
    for path in sorted((ROOT / folder).glob("*.h")):
        source = path.with_suffix(".c")
        text = source.read_text() if source.exists() else ""
        names = [n for n in pattern.findall(path.read_text()) if f"{n}(" not in text]
        wrong += [f"{name(path)}: {n}" for n in names]
    assert not wrong


# ---- tables ----------------------------------------------------------------------------------


def operator_rows() -> list[str]:
    """Return the names of ops.def in order."""
    text = (CSRC / "kernels" / "ops.def").read_text()
    rows = re.findall(r'^EC_OP\(\w+, "([^("]+)\(', text, re.M)
    assert len(rows) == len(re.findall(r"^EC_OP\(", text, re.M))
    return rows


def test_operator_rows_are_sorted_and_unique() -> None:
    rows = operator_rows()
    assert rows == sorted(set(rows))


def sampled_operators() -> set[str]:
    """Return the keys "aten::add.out" of all dictionaries in tests/kernels/samples_*.py."""
    names: set[str] = set()
    for path in (ROOT / "tests" / "kernels").glob("samples_*.py"):
        for value in vars(importlib.import_module(f"tests.kernels.{path.stem}")).values():
            if isinstance(value, dict):
                names |= {key for key in value if isinstance(key, str) and "::" in key}
    return names


def test_every_operator_has_samples() -> None:
    pytest.importorskip("torch")
    of_a_method = {"kvcache::update_and_attend.out"}  # with its cache: tests/llm/test_kv_cache.py
    assert sorted(set(operator_rows()) - sampled_operators()) == sorted(of_a_method)


def test_helpers_of_tests_are_imported_from_the_package() -> None:
    """`from tests.backends import recorded`, not `import recorded`."""
    helpers = {path.stem for path in files("*.py", under=ROOT / "tests")} - {"coverage"}
    wrong = []
    for path in files("*.py", under=ROOT / "tests"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_absolute = isinstance(node, ast.ImportFrom) and not node.level
            modules = [node.module] if is_absolute else []
            modules += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            wrong += [f"{name(path)}: {module}" for module in modules if module in helpers]
    assert not wrong


def test_ci_runs_the_tests_of_the_readme() -> None:
    commands = re.findall(r"&& \.venv/bin/(pytest[^`\n]*)", (ROOT / "README.md").read_text())
    assert len(commands) == 1
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith(f"\n{commands[0]}")


# ---- sizes -----------------------------------------------------------------------------------


def c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and number of lines of each function: from its first line to the } in column 0."""
    lines = path.read_text().splitlines()
    start = None
    for i, line in enumerate(lines):
        if start is None and re.match(r"[A-Za-z_].*[({,]$|[A-Za-z_][^;]*\{$", line):
            start = i
        elif start is not None and re.match(r".*;$", line) and "{" not in "".join(lines[start:i]):
            start = None  # a declaration over several lines
        elif line.startswith("}") and start is not None:
            text = " ".join(lines[start : i + 1])
            match = re.match(r"[^({=]*?([A-Za-z_]\w*)(?:\([a-z0-9_]+\))?\(", text)
            is_type = re.match(r"(typedef|enum|struct|union)\b[^(]*\{", text)
            if match and not is_type and "=" not in text.split("{")[0]:
                yield match[1], i - start + 1
            start = None


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_c_functions_are_seen() -> None:
    """The parser above finds these functions."""
    table = dict(c_functions(CSRC / "kernels" / "call.c"))
    text = (CSRC / "kernels" / "call.c").read_text()
    assert len(table) >= text.count("\n}") - text.count("\n};") - 2 > 3
    assert max(table.values()) > 5


def test_no_long_files() -> None:
    long = {}
    for path in files("*.c", "*.h", "*.py", "*.sh", "*.pyi"):
        count = len(path.read_text().splitlines())
        if count > LONGEST_FILE and not has_reason(path):
            long[name(path)] = count
    assert not long


def test_no_long_functions() -> None:
    long = {}
    for path in files("*.c", "*.h", "*.py"):
        functions = python_functions(path) if path.suffix == ".py" else c_functions(path)
        table = {f"{name(path)}:{f}": lines for f, lines in functions if lines > LONGEST_FUNCTION}
        if table and not has_reason(path):
            long |= table
    assert not long


def wide_lines(paths: list[Path], columns: int) -> list[str]:
    """Return the places of wider lines."""
    return [
        f"{name(path)}:{number} ({len(line)} columns)"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > columns and (path.suffix == ".md" or "http" not in line)
    ]


def test_no_long_lines() -> None:
    """Tables (.def) have rows, not lines: they may be wider, as pages that programs make."""
    paths = files("*.c", "*.h", "*.py", "*.pyi", "*.sh", "run", "wheels", "bare")
    assert not wide_lines(paths, LONGEST_LINE)
    generated = {"OPERATORS.md", "results.md"}
    pages = [p for p in files("*.md") if p.name not in generated and p.parent.name != "results"]
    assert not wide_lines(pages, MARKDOWN_COLUMNS)


# ---- documents and hygiene -------------------------------------------------------------------


def is_described(folder: Path) -> bool:
    """Return True if the README of a parent folder, up to csrc/, names it ("pool/",
    "kernels/pool")."""
    for parent in [p for p in folder.parents if p.is_relative_to(CSRC)]:
        inside = folder.relative_to(parent).as_posix()
        text = (parent / "README.md").read_text() if (parent / "README.md").exists() else ""
        if re.search(rf"(?<![\w/]){re.escape(inside)}(/|`)", text):
            return True
    return False


def test_every_folder_is_described() -> None:
    """Each folder has its own README, or is described in a parent's (a backend: in its own)."""
    missing = []
    for path in sorted({p.parent for p in files("*.c", "*.h", "*.def", under=CSRC)}):
        if path != CSRC and not (path / "README.md").exists() and not is_described(path):
            missing.append(name(path))
    for path in sorted((ROOT / "backends").iterdir()):
        if path.is_dir() and path.name not in SKIPPED and not (path / "README.md").exists():
            missing.append(name(path))
    assert not missing


def test_headers_have_a_purpose() -> None:
    """A C file begins with a comment, a Python file with a docstring."""
    wrong = [name(p) for p in files("*.c", "*.h") if not p.read_text().startswith("/* ")]
    for path in files("*.py"):
        text = path.read_text()
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            wrong.append(name(path))
    assert not wrong


def test_nothing_of_a_machine_is_in_the_tree() -> None:
    """No home or work directories, no addresses of package mirrors."""
    folders = [r"/(home|root|Users|work)/\w", r"/tmp/(wt|tv|land|build)"]
    hosts = [r"index-url", r"\b(10|127|172|192)(\.\d{1,3}){3}\b", r"://[^\s\"')]*(mirror|proxy)"]
    machine = re.compile("|".join(folders + hosts))
    wrong = []
    for path in files("*"):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # programs and arrays
        for number, line in enumerate(text.splitlines(), 1):
            if machine.search(line) and path != Path(__file__).resolve():
                wrong.append(f"{name(path)}:{number}: {line.strip()[:80]}")
    assert not wrong
