"""The table of schemes by flow in the documentation is what the wheels and this runtime do."""

import pytest

from tests.backends import schemes

FLOWS = ("portable", "xnnpack")


TABLE = schemes.Page.read().letters
CELLS = [
    (scheme, model_name, index)
    for scheme in schemes.SCHEMES
    for index, model_name in enumerate(schemes.MODELS)
    if scheme.name in TABLE and TABLE[scheme.name]["portable"][index] != "-"
]


@pytest.mark.sweep(60)
@pytest.mark.parametrize(
    ("scheme", "model_name", "index"), CELLS, ids=[f"{s.name}-{name}" for s, name, _ in CELLS]
)
def test_cells_are_as_documented(
    scheme: schemes.Scheme, model_name: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QNN_SDK_ROOT", "")  # downloads no SDK
    results = {
        (scheme.name, model_name, step): result
        for step, result in schemes.cells(scheme, model_name, FLOWS)
    }
    for flow in FLOWS:
        expected = TABLE[scheme.name][flow][index]
        assert schemes.letters(results, scheme.name, flow)[index] == expected, results


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
