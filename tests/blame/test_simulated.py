"""A sample of `python -m tests.blame`: faults of each kind, and ten healthy devices."""

import pytest

from tests.blame import faults, held_out, judged, planted
from tests.blame.units import SCHEMES, recorded

UNITS = recorded()
NARROW = [unit for unit in UNITS if SCHEMES[unit.scheme] != ("float32",)]


def assert_found(kind: str, number: int) -> None:
    """Plant a fault in the first program, from a number on, whose outputs can show one."""
    cases = (planted.planted(unit, kind, number) for unit in [*UNITS[number:], *UNITS[:number]])
    case = next((case for case in cases if case is not None), None)
    assert case is not None, f"no fault of kind '{kind}' shows in the outputs"
    alone, located = judged.ask(case, False), judged.ask(case, True)
    assert alone.is_right(case), f"{case.title}: {alone.finding}"
    assert located.is_near(), f"{case.title}: {located.finding}"


@pytest.mark.parametrize("number", range(10))
def test_a_fault_is_found(number: int) -> None:
    assert_found(faults.KINDS[number % len(faults.KINDS)], number)


@pytest.mark.parametrize("kind", faults.OTHER_KINDS)
def test_other_faults_are_found(kind: str) -> None:
    assert_found(kind, faults.OTHER_KINDS.index(kind) % len(UNITS))


@pytest.mark.parametrize("number", range(10))
def test_a_healthy_device_is_not_accused(number: int) -> None:
    case = planted.healthy(NARROW[number % len(NARROW)], number)
    for with_values in (False, True):
        answer = judged.ask(case, with_values)
        assert answer.is_right(case), answer.finding


@pytest.mark.parametrize("kind", held_out.RESULTS)
def test_faults_that_nothing_was_fitted_on(kind: str) -> None:
    number = [*held_out.RESULTS].index(kind)
    cases = (held_out.result_fault(unit, kind, 1) for unit in [*UNITS[number:], *UNITS[:number]])
    case = next(case for case in cases if case is not None)
    alone, located = judged.ask(case, False), judged.ask(case, True)
    assert alone.is_right(case), f"{case.title}: {alone.finding}"
    assert located.is_near(), f"{case.title}: {located.finding}"


@pytest.mark.parametrize("habit", held_out.HEALTHY)
def test_habits_of_healthy_devices(habit: str) -> None:
    for unit in UNITS:
        case = held_out.healthy_run(unit, habit, 1)
        assert case is not None
        for with_values in (False, True):
            answer = judged.ask(case, with_values)
            assert answer.is_right(case), f"{case.title}: {answer.finding}"
