"""A sample of `python -m tests.blame`: ten faults and ten healthy devices."""

import pytest

from tests.blame import faults, judged, planted
from tests.blame.units import SCHEMES, recorded

UNITS = recorded()
NARROW = [unit for unit in UNITS if SCHEMES[unit.scheme] != ("float32",)]


@pytest.mark.parametrize("number", range(10))
def test_a_fault_is_found(number: int) -> None:
    kind = faults.KINDS[number % len(faults.KINDS)]
    unit = UNITS[number]
    case = planted.planted(unit, kind, number)
    assert case is not None, f"no fault of kind '{kind}' shows in the outputs"
    alone, located = judged.ask(case, False), judged.ask(case, True)
    assert alone.is_right(case), alone.finding
    assert located.is_near(), f"{case.title}: {located.finding}"


@pytest.mark.parametrize("number", range(10))
def test_a_healthy_device_is_not_accused(number: int) -> None:
    case = planted.healthy(NARROW[number % len(NARROW)], number)
    for with_values in (False, True):
        answer = judged.ask(case, with_values)
        assert answer.is_right(case), answer.finding
