import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from wenmai.decode.largest import first_largest, largest


def naive(row, count):
    order = sorted(range(len(row)), key=lambda place: (-row[place], place))[:count]
    return [row[place] for place in order], order


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(1, 14))
def test_equal_values_come_in_the_order_of_their_places(numbers, count):
    values, places = largest(torch.tensor([[float(n) for n in numbers]]), count)
    assert (values[0].tolist(), places[0].tolist()) == naive([float(n) for n in numbers], count)


@pytest.mark.parametrize("width", [1023, 1024, 3000, 4160])
@pytest.mark.parametrize("levels", [3, 40, 10**6])
def test_wide_rows_agree_with_a_sort(width, levels):
    generator = torch.Generator().manual_seed(width)
    values = torch.randint(levels, (4, width), generator=generator).float()
    values[0, :] = 0
    values[1, width - 5 :] += levels
    best, places = largest(values, 7)
    for row in range(4):
        assert (best[row].tolist(), places[row].tolist()) == naive(values[row].tolist(), 7)


def test_minus_infinity_comes_last_whatever_its_place():
    values = torch.tensor([[-torch.inf, 1.0, -torch.inf, 1.0, -torch.inf]])
    best, places = largest(values, 3)
    assert best[0, :2].tolist() == [1, 1]
    assert places[0, :2].tolist() == [1, 3]
    assert best[0, 2] == -torch.inf


@pytest.mark.parametrize("width", [5, 1023, 1024, 3000, 4160])
@pytest.mark.parametrize("levels", [3, 10**6])
@pytest.mark.parametrize("rows", [1, 9])
def test_of_equally_large_values_the_first_is_found(width, levels, rows):
    generator = torch.Generator().manual_seed(width)
    values = torch.randint(levels, (rows, width), generator=generator).float()
    values[0] = -torch.inf
    values[-1, width - 5 :] = levels + 1
    assert first_largest(values).tolist() == [naive(row, 1)[1][0] for row in values.tolist()]
