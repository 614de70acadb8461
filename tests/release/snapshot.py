"""The contents of a release of executorch, as JSON: run by the python of its environment.

    PYTHON tests/release/snapshot.py [NAMES] > snapshot.json

The script needs nothing but that environment. Each part is a mapping of names to what they are:
schemas (FlatBuffers), operators (of the wheel's libraries, tables and runtime), backends, passes,
dialects (and namespaces of operators), api (signatures), tests (the official suites). What cannot
be imported or read is in `errors`. NAMES is a file of lines "module:name"; `uses` has those that
the release has.
"""

import argparse
import ast
import contextlib
import dataclasses
import enum
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import pkgutil
import re
import sys
import warnings
from pathlib import Path

API = (
    "executorch.runtime",
    "executorch.exir",
    "executorch.devtools",
    "executorch.extension.pybindings.portable_lib",
    "executorch.extension.flat_tensor.serialize.serialize",
    "executorch.extension.llm.cache",
)
"""Public modules; those below `executorch.devtools` and `executorch.exir` count, too."""
DEEP = ("executorch.devtools", "executorch.exir.backend", "executorch.exir.capture")
"""Packages whose modules are public."""
LIBRARIES = (
    "executorch.exir.dialects.edge._ops",
    "executorch.exir.memory",
    "executorch.kernels.quantized",
    "executorch.extension.llm.custom_ops.custom_ops",
    "executorch.extension.llm.cache",
    "executorch.extension.kernel_util",
    "executorch.exir.passes._quant_patterns_and_replacements",
    "executorch.exir.passes.dim_order_ops_registry",
    "executorch.exir.dialects._ops",
    "executorch.backends.vulkan.custom_ops_lib",
    "executorch.backends.mlx.custom_ops",
    "executorch.backends.cortex_m.ops.operators",
    "executorch.backends.cadence.aot.ops_registrations",
)
"""Modules that register operators."""
PASS_BASES = {
    "ExportPass",
    "PassBase",
    "ExportedProgramPassBase",
    "RemovePermutesAroundElementwiseOps",
}
SKIPPED = re.compile(r"/(third[-_]party|tests?|scripts)/|/test_|_test\.py$")
ADDRESS = re.compile(r" at 0x[0-9a-f]+|object at [^>]*")


def package() -> Path:
    """Return the folder of the installed package."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("executorch is not installed in this environment")
    return Path(next(iter(spec.submodule_search_locations)))


def sources(root: Path) -> dict:
    """Return the parsed modules of the package by their paths, without tests."""
    trees = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not SKIPPED.search(f"/{name}"):
            with contextlib.suppress(SyntaxError, UnicodeDecodeError):
                trees[name] = ast.parse(path.read_text())
    return trees


# ---- formats ---------------------------------------------------------------------------------


def schemas(root: Path) -> dict:
    """Return the declarations of each schema by the path of its file: "table T" or "enum E" with
    fields, or members, in order."""
    result = {}
    for path in sorted(root.rglob("*.fbs")):
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        entry = {}
        for kind, name, _, body in re.findall(
            r"\b(table|struct|enum|union)\s+(\w+)([^{;]*)\{(.*?)\}", text, re.DOTALL
        ):
            separator = ";" if kind in ("table", "struct") else ","
            rows = [" ".join(row.split()) for row in body.split(separator)]
            entry[f"{kind} {name}"] = [row for row in rows if row]
        for kind, value in re.findall(r"(root_type|file_identifier)\s+([^;]+);", text):
            entry[kind] = [value.strip('"')]
        result[path.relative_to(root).as_posix()] = entry
    return result


# ---- operators -------------------------------------------------------------------------------


def torch_schemas() -> set:
    """Return the schemas of all operators that torch knows now."""
    import torch

    return {str(schema) for schema in torch._C._jit_get_all_schemas()}


def yaml_operators(root: Path) -> dict:
    """Return the operators of the wheel's tables of kernels."""
    names = {}
    for path in sorted(root.rglob("*.yaml")):
        if "/test/" in path.as_posix():
            continue
        for kind, text in re.findall(r"^- (op|func): (.+)$", path.read_text(), re.M):
            name = text.split("(")[0] if kind == "func" else f"aten::{text.strip()}"
            names[f"kernel {name}"] = text if kind == "func" else ""
    return names


def operators(root: Path, errors: dict) -> dict:
    """Return schemas that the wheel registers, kernels of its tables, and of its runtime."""
    import torch  # noqa: F401

    before, result = torch_schemas(), {}
    for name in LIBRARIES:
        attempt(errors, name, lambda name=name: importlib.import_module(name))
    for schema in torch_schemas() - before:
        result[schema.split("(")[0]] = schema
    result |= yaml_operators(root)

    def registered() -> None:
        from executorch.runtime import Runtime

        names = Runtime.get().operator_registry.operator_names
        result.update({f"runtime {name}": "" for name in names})

    attempt(errors, "operators of the runtime", registered)
    return result


# ---- names in sources ------------------------------------------------------------------------


def classes(trees: dict, is_base) -> dict:
    """Return the classes by name, with their modules, whose direct base satisfies a condition."""
    result = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
                if any(map(is_base, bases)):
                    result[node.name] = path
    return result


def backends(trees: dict, errors: dict) -> dict:
    """Return ids of backends: those that preprocess, and those of the runtime."""
    result = classes(trees, lambda base: base == "BackendDetails")

    def registered() -> None:
        from executorch.runtime import Runtime

        registry = Runtime.get().backend_registry
        result.update({f"runtime {name}": "" for name in registry.registered_backend_names})

    attempt(errors, "backends of the runtime", registered)
    return result


def passes(trees: dict) -> dict:
    """Return the names of passes with their modules."""

    def is_pass(base: str) -> bool:
        return base in PASS_BASES or base.endswith("Pass")

    return classes(trees, is_pass)


def dialects(trees: dict) -> dict:
    """Return dialects of verifiers, and namespaces of operators, with their modules."""
    result = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                if ast.unparse(node.targets[0]) == "dialect":
                    result[f"dialect {node.value.value}"] = path
            if isinstance(node, ast.Call) and node.args:
                name, first = ast.unparse(node.func).split(".")[-1], node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    if name in ("Library", "custom_op", "register_fake"):
                        result[f"namespace {first.value.split('::')[0]}"] = path
    return result


# ---- Python ----------------------------------------------------------------------------------


def signature(value) -> str:
    """Return the parameters of a function or class with their defaults, without annotations, whose
    text depends on where types live."""
    try:
        whole = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in whole.parameters.values()]
    return ADDRESS.sub("", str(inspect.Signature(bare)))


def members(name: str, value) -> dict:
    """Return the signatures of a class or function, and of the class's public methods."""
    if inspect.isclass(value):
        entry = {name: signature(value)}
        if issubclass(value, enum.Enum):
            entry[name] = ", ".join(f"{m.name}={m.value!r}" for m in value)
        fields = (
            [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        )
        entry |= {f"{name}.{field}": "field" for field in fields}
        for key, member in vars(value).items():
            if key.startswith("_"):
                continue
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if isinstance(member, property):
                entry[f"{name}.{key}"] = "property"
            elif callable(member):
                entry[f"{name}.{key}"] = signature(member)
        return entry
    return {name: signature(value)} if callable(value) else {}


def public(module) -> dict:
    """Return the members of a module's public names that are executorch's own."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    result = {}
    for name in names:
        value = getattr(module, name, None)
        home = getattr(value, "__module__", "") or ""
        if home.startswith(("executorch", "_portable_lib")) and not inspect.ismodule(value):
            result |= members(f"{module.__name__}.{name}", value)
    return result


def api(errors: dict) -> dict:
    """Return the signatures of the public modules."""
    names = list(API)
    for parent in DEEP:
        spec = importlib.util.find_spec(parent)
        places = list(spec.submodule_search_locations or []) if spec else []
        found = pkgutil.walk_packages(places, parent + ".", onerror=lambda _: None)
        names += [m.name for m in found if not SKIPPED.search("/" + m.name.replace(".", "/") + "/")]
    result = {}
    for name in dict.fromkeys(names):
        attempt(errors, name, lambda: result.update(public(importlib.import_module(name))))
    return result


def uses(names: list) -> dict:
    """Return the names, "module:name", that can be imported."""
    result, errors = {}, {}

    def use(name: str) -> None:
        module, _, value = name.partition(":")
        if value and not hasattr(importlib.import_module(module), value):
            importlib.import_module(f"{module}.{value}")
        importlib.import_module(module)
        result[name] = ""

    for name in names:
        attempt(errors, name, lambda: use(name))
    return result


def suites(root: Path) -> dict:
    """Return the files of the wheel's tests, with their numbers of tests."""
    result = {}
    for path in [*root.rglob("test_*.py"), *root.rglob("*_test.py")]:
        tests = re.findall(r"^\s*def test_\w+", path.read_text(), re.M)
        result[path.relative_to(root).as_posix()] = str(len(tests))
    return dict(sorted(result.items()))


# ---- all -------------------------------------------------------------------------------------


def attempt(errors: dict, name: str, action) -> None:
    """Run an action; what it raises is an entry of `errors`."""
    try:
        action()
    except BaseException as error:  # also SystemExit of scripts
        errors[name] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"


def versions() -> dict:
    names = ("executorch", "torch", "torchao", "numpy")
    result = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            result[name] = importlib.metadata.version(name)
    return result


def snapshot(names: list) -> dict:
    """Return everything."""
    root, errors = package(), {}
    trees = sources(root)
    return {
        "versions": versions(),
        "schemas": schemas(root),
        "operators": operators(root, errors),
        "backends": backends(trees, errors),
        "passes": passes(trees),
        "dialects": dialects(trees),
        "api": api(errors),
        "uses": uses(names),
        "tests": suites(root),
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="?", type=Path, help="a file of lines module:name")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        result = snapshot(args.names.read_text().split() if args.names else [])
    json.dump(result, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
