"""Files of checks: what they mean, and what is wrong in them."""

import inspect
import pickle
from pathlib import Path

import pytest

from executorch_c import testing
from executorch_c.suite import checks, file, options, run

PLAIN = """\
[defaults]
flows = ["portable", "xnnpack"]
n_random = 1
seconds = 30

[models.net]
model = "nets/net.py:make"
atol = {logits = 1e-3}
data_path = "net.ptd"

[models.net.flow.xnnpack]
n_random = 5

[models."big net"]
flows = ["xnnpack-int8"] # of its own
model = "package.net:make"

[models.old]
model = "nets/net.py:make"
program = "old.pte"
"""
OBJECTS = {"inputs", "dynamic_shapes", "real_inputs", "metrics"}
"""Arguments of check_model that are objects of Python."""
OF_THE_CALL = {"model", "flow", "program", "progress"}
WRONG = {
    '[models.n]\nmodel = "net.py:f"\nn_randm = 2': "3: models.n: unknown key 'n_randm', did you "
    "mean 'n_random'?",
    '[models.n]\nmodle = "net.py:f"': "2: models.n: unknown key 'modle', did you mean 'model'?",
    "[models.n]\nseed = 1": "1: models.n: model is missing: expected a function",
    '[models.n]\nmodel = "net.py"': "2: models.n.model: 'net.py' is not module:function: add the",
    '[models.n]\nmodel = "no.py:f"': "/no.py does not exist",
    '[models.n]\nmodel = "net.py:f"\n\nflows = ["xnpack"]': "4: models.n.flows: flow 'xnpack', did "
    "you mean 'xnnpack'?",
    '[models.n]\nmodel = "net.py:f"\nflows = "xnnpack"': "expected a list of names of flows",
    '[models.n]\nmodel = "net.py:f"\nflows = ["native", "native"]': "'native' is there twice",
    '[models.n]\nmodel = "net.py:f"\nflows = ["native"]\nprogram = "a.pte"': "3: models.n.flows: ",
    '[models.n]\nmodel = "net.py:f"\nn_random = "two"': "3: models.n.n_random: n_random is 'two', "
    "expected a number of 0 or more",
    '[models.n]\nmodel = "net.py:f"\nseed = true': "seed is True, expected a number",
    '[models.n]\nmodel = "net.py:f"\nmin_sqnr_db = "20dB"': "expected a number of dB",
    '[models.n]\nmodel = "net.py:f"\natol = {y = -1}': "expected a number of 0 or more, or a table",
    '[models.n]\nmodel = "net.py:f"\n[models.n.flow.xnnpack]\natol = 1': "3: models.n.flow: "
    "unknown key 'xnnpack', expected one of portable",
    '[models.n]\nmodel = "net.py:f"\nprogram = 3': "3: models.n.program: found 3, expected a path",
    "[models]\nn = 3": "2: models.n: found 3, expected a table",
    "[default]\nseed = 1": "1: unknown key 'default', did you mean 'defaults'?",
    "[defaults]\nflow = 1": "2: defaults: unknown key 'flow', did you mean 'flows'?",
    "": "no models",
    "[models.n": "not TOML: Expected ']'",
    '[models.n]\nmodel = "net.py:f"\nmodel = "net.py:f"': "not TOML: Cannot overwrite a value",
    "a = " + "[" * 50_000: "not TOML: arrays or tables are nested too deeply",
    f"a = {'9' * 5000}": "not TOML: Exceeds the limit",
    f'[models.n]\nmodel = "net.py:f"\nseed = {1 << 63}': "seed is 9223372036854775808, expected",
    f'[models.n]\nmodel = "net.py:f"\nn_random = 1{"0" * 400}': "n_random is a huge integer, exp",
    f'[models.n]\nmodel = "net.py:f"\nseconds = 1{"0" * 400}': "expected a number of seconds",
    '[models.n]\nmodel = "net.py:f"\nseconds = inf': "seconds is inf, expected a number of seconds",
    '[models.n]\nmodel = "net.py:f"\nmin_sqnr_db = nan': "min_sqnr_db is nan, expected a number",
}


def written(folder: Path, text: str) -> Path:
    path = folder / "checks.toml"
    path.write_text(text)
    (folder / "net.py").write_text("")
    (folder / "nets").mkdir()
    (folder / "nets" / "net.py").write_text("")
    return path


@pytest.fixture
def tasks(tmp_path: Path) -> list[checks.CheckTask]:
    return file.read(written(tmp_path, PLAIN))


def test_matrix(tasks: list[checks.CheckTask], tmp_path: Path) -> None:
    names = ["net:portable", "net:xnnpack", "big net:xnnpack-int8", "old:program"]
    assert [task.name for task in tasks] == names
    assert [task.line for task in tasks] == [6, 6, 14, 18]
    assert [task.options["n_random"] for task in tasks] == [1, 5, 1, 1]
    assert {task.seconds for task in tasks} == {30.0}
    net, big, old = tasks[0], tasks[2], tasks[3]
    assert net.make == f"{tmp_path}/nets/net.py:make" and big.make == "package.net:make"
    assert net.options["data_path"] == str(tmp_path / "net.ptd")
    assert net.options["atol"] == {"logits": 1e-3}
    assert old.program == str(tmp_path / "old.pte") and old.flow is None
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def test_a_mapping_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    (task,) = run.tasks_of({"models": {"n": {"model": "net.py:f", "seed": 3}}})[1]
    assert (task.name, task.make, task.options) == (
        "n:portable",
        f"{tmp_path}/net.py:f",
        {"seed": 3},
    )
    with pytest.raises(ValueError, match=r"checks: models.n: unknown key 'sed', did you mean"):
        run.tasks_of({"models": {"n": {"model": "net.py:f", "sed": 3}}})


@pytest.mark.parametrize("text", WRONG)
def test_wrong_files(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError) as raised:
        file.read(path)
    assert str(raised.value).startswith(str(path)) and WRONG[text] in str(raised.value)


def test_not_utf8(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    path.write_bytes(b"[models.\xff]")
    with pytest.raises(ValueError, match="not UTF-8"):
        file.read(path)


def test_every_argument_of_check_model_is_known() -> None:
    """A new one is an option, or an object that the function of the model returns."""
    arguments = set(inspect.signature(testing.check_model).parameters)
    assert arguments - OBJECTS - OF_THE_CALL == set(options.OPTIONS)


def test_only(tasks: list[checks.CheckTask]) -> None:
    def names(*patterns: str) -> list[str]:
        return [task.name for task in checks.only(tasks, patterns)]

    assert names("net") == ["net:portable", "net:xnnpack"]
    assert names("xnnpack*") == ["net:xnnpack", "big net:xnnpack-int8"]
    assert names("program", "net:p*") == ["net:portable", "old:program"]
    assert len(names()) == 4
    with pytest.raises(ValueError, match="no check matches 'nett', did you mean 'net'?"):
        names("net", "nett")


def test_parts_have_as_many_checks_of_each_flow() -> None:
    """Checks of a quantised flow take three times as long."""
    names = [f"m{i}:{flow}" for i in range(20) for flow in ("xnnpack", "xnnpack-int8")]
    for count in (2, 3, 4):
        parts = [checks.names_of_part(names, (i, count)) for i in range(1, count + 1)]
        assert sorted(name for part in parts for name in part) == sorted(names)
        slow = [sum(name.endswith("int8") for name in part) for part in parts]
        assert max(slow) - min(slow) <= 1 and max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_have_each_check_once(tasks: list[checks.CheckTask], count: int) -> None:
    parts = [checks.part(tasks, (i, count)) for i in range(1, count + 1)]
    together = [task.name for part in parts for task in part]
    assert sorted(together) == sorted(task.name for task in tasks)


@pytest.mark.parametrize("text", ["", "2", "0/2", "3/2", "a/2", "1/0", "-1/2", "1/2/3"])
def test_wrong_part(text: str) -> None:
    with pytest.raises(ValueError, match="shard is "):
        checks.shard_of(text)
