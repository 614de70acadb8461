"""The table of schemes by flow in the documentation is what the wheels and this runtime do."""

import pytest

from tests.backends import schemes

FLOWS = (("portable", "xnnpack"), ("vulkan", "coreml", "native"))
TABLE = schemes.Page.read().letters
CELLS = [
    (scheme, model_name, index, names)
    for scheme in schemes.SCHEMES
    for index, model_name in enumerate(schemes.MODELS)
    if scheme.name in TABLE and TABLE[scheme.name]["portable"][index] != "-"
    for names in FLOWS
]


@pytest.mark.sweep(121)
@pytest.mark.parametrize(
    ("scheme", "model_name", "index", "names"),
    CELLS,
    ids=[f"{scheme.name}-{name}-{names[0]}" for scheme, name, _, names in CELLS],
)
def test_cells_are_as_documented(
    scheme: schemes.Scheme,
    model_name: str,
    index: int,
    names: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QNN_SDK_ROOT", "")  # downloads no SDK
    results = {
        (scheme.name, model_name, step): result
        for step, result in schemes.cells(scheme, model_name, names)
    }
    [first, *_] = results.values()
    if first.startswith("ModuleNotFoundError") and TABLE[scheme.name][names[0]][index] != "n":
        pytest.skip(first)
    for flow in names:
        expected = TABLE[scheme.name][flow][index]
        assert schemes.letters(results, scheme.name, flow)[index] == expected, results


def test_every_scheme_is_in_the_table() -> None:
    assert list(TABLE) == [scheme.name for scheme in schemes.SCHEMES]


def test_a_result_has_a_letter() -> None:
    for result, expected in {
        "runs": "R",
        "refused: ValueError: no": "r",
        "mislowered: differs": "m",
        "fails: Error": "f",
        "differs by 1.0e+00": "f",
        schemes.NOTHING: "-",
    }.items():
        assert schemes.letter("portable", result) == expected
    assert schemes.letter("eager", "AssertionError: ") == "n"
