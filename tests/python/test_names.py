"""Names: commands have the names of the corresponding functions, modules have unique names."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import executorch_c
from executorch_c import cli, devtools, llm, testing
from executorch_c.check.ladder import compare_steps

PACKAGE = Path(executorch_c.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

FUNCTIONS = {
    "check": "check_model",
    "compare": "compare_programs",
    "memory": "memory_plan",
    "operators": "operators",
    "dump": "dump",
    "graph": "graph",
    "explain": "explain",
    "check-nan": "check_nan",
    "quantization-error": "quantization_error",
}
"""Commands, with the corresponding public functions."""


@pytest.mark.parametrize("command", FUNCTIONS)
def test_a_command_is_called_as_its_function(command: str) -> None:
    function = FUNCTIONS[command]
    assert any(hasattr(place, function) for place in (devtools, testing, executorch_c))
    long = function.replace("_", "-")
    assert cli.ALIASES.get(long, long) == command
    assert command in map(cli.name_of, cli.COMMANDS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_function_is_called_as_its_module(path: Path) -> None:
    names = {path.stem} | {p.stem for p in path.parent.glob("*.py") if path.stem == "__init__"}
    body = ast.parse(path.read_text()).body
    definitions = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert not names & set(definitions)


MODEL_FIRST = (
    testing.check_model,
    devtools.explain,
    testing.assert_matches,
    llm.check_llm,
    llm.quantization_cost,
    compare_steps,
)


@pytest.mark.parametrize("function", MODEL_FIRST)
def test_the_program_is_last(function: Callable[..., object]) -> None:
    message = rf"`program` by its name: {function.__name__}\(\w+, \w+, program=program\)"
    with pytest.raises(TypeError, match=message):
        function("model.pte", abs, [1.0])
    if function is not testing.check_model:  # whose program may come from a flow
        with pytest.raises(TypeError, match=message):
            function("model.pte", abs)


@pytest.mark.parametrize("name", cli.ALIASES)
def test_names_of_functions_are_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    out, err = capsys.readouterr()
    assert stop.value.code == 0 and out.startswith(f"usage: executorch-c {cli.ALIASES[name]}")
    assert not err
