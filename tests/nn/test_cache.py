"""Caches return what was written, in the order of the rows that were selected."""

import pytest
import torch

from wenmai.nn.cache import DecoderCache, DecoderState, KeyValue, RollingKeyValue


def test_a_cache_returns_all_that_was_appended():
    parts = [torch.randn(2, 3, 2, length, 4) for length in (1, 3, 2)]
    cache = KeyValue.empty(3, 2, 6, 4)
    for part in parts:
        key, value = cache.append(part)
    torch.testing.assert_close(torch.stack((key, value)), torch.cat(parts, dim=3))
    assert (cache.length, cache.capacity, cache.batch_size) == (6, 6, 3)
    with pytest.raises(ValueError, match="holds at most 6 positions; position 7 does not fit"):
        cache.append(parts[0])


def test_cropped_positions_are_written_again():
    cache = KeyValue.empty(1, 1, 3, 2)
    cache.append(torch.zeros(2, 1, 1, 3, 2))
    cache.crop(1)
    key, _ = cache.append(torch.ones(2, 1, 1, 1, 2))
    assert key[0, 0].tolist() == [[0, 0], [1, 1]]
    with pytest.raises(ValueError, match="holds 2 positions and cannot be cut to 3"):
        cache.crop(3)


def test_a_cache_becomes_what_it_is_given():
    written = torch.randn(2, 5, 2, 3, 4)
    cache = KeyValue.empty(3, 2, 6, 4)
    cache.load(written)
    assert (cache.length, cache.batch_size) == (3, 5)
    more = torch.randn(2, 5, 2, 2, 4)
    torch.testing.assert_close(torch.stack(cache.append(more)), torch.cat((written, more), dim=3))
    with pytest.raises(ValueError, match="holds at most 6 positions, not 7"):
        cache.load(torch.zeros(2, 3, 2, 7, 4))
    with pytest.raises(ValueError, match="do not fit this layer"):
        cache.load(torch.zeros(2, 3, 1, 2, 4))


def test_a_rolling_cache_keeps_the_last_positions_within_bounds():
    written = torch.randn(2, 1, 2, 900, 4)
    cache, seen = RollingKeyValue(written[:, :, :, :0], reach=7), 0
    for number in range(300):
        length = 1 + number % 5
        end = min(seen + length, 900)
        found = torch.stack(cache.append(written[:, :, :, seen:end]))
        assert torch.equal(found, written[:, :, :, max(0, seen - 7) : end])
        seen = end
        assert torch.equal(torch.stack(cache.filled()), written[:, :, :, max(0, seen - 7) : seen])
        assert cache.capacity < 90
    other = RollingKeyValue(written[:, :, :, :0], reach=7)
    other.load(torch.stack(cache.filled()))
    assert torch.equal(torch.stack(other.append(written[..., :1, :])), torch.stack(cache.append(written[..., :1, :])))


@pytest.mark.parametrize("rows", [[2, 0, 0], [1], [0, 0, 1, 1, 2, 2], []])
def test_selected_rows_take_their_history_along(rows):
    cache = KeyValue.empty(3, 1, 4, 2)
    written = torch.randn(2, 3, 1, 2, 2)
    cache.append(written)
    cache.select(torch.tensor(rows, dtype=torch.int64))
    torch.testing.assert_close(torch.stack(cache.filled()), written[:, rows])
    more = torch.randn(2, len(rows), 1, 1, 2)
    torch.testing.assert_close(torch.stack(cache.append(more)), torch.cat((written[:, rows], more), dim=3))


def test_hypotheses_share_the_memory_of_their_source_as_long_as_they_can():
    generator = torch.Generator().manual_seed(1)
    memory = torch.arange(3.0).view(1, 3, 1, 1, 1).expand(2, 3, 1, 1, 1).contiguous()
    own = KeyValue.empty(3, 1, 9, 1)
    own.append(memory)
    state = DecoderState(
        [DecoderCache(own=own, memory=KeyValue(memory, length=1))], memory_mask=torch.tensor([[1], [0], [1]]).bool()
    )

    def seen():
        each = state.batch_size // state.sources
        assert state.memory_mask.shape[0] == state.sources
        return state.caches[0].memory.filled()[0].flatten().repeat_interleave(each)

    expected = torch.arange(3.0)
    sizes = []
    for rows in (
        torch.arange(3).repeat_interleave(4),  # four hypotheses each
        torch.tensor([1, 0, 0, 3, 7, 7, 7, 4, 11, 8, 9, 9]),  # within their sources
        torch.tensor([8, 9, 10, 11, 0, 1, 2, 3]),  # a source has ended, the others changed places
        torch.tensor([0, 5, 6]),  # unequally many
        torch.randint(0, 3, (5,), generator=generator),
    ):
        state.select(rows)
        expected = expected[rows]
        assert seen().tolist() == expected.tolist()
        assert state.caches[0].own.filled()[0].flatten().tolist() == expected.tolist()
        sizes.append((state.batch_size, state.sources))
    assert sizes[:4] == [(12, 3), (12, 3), (8, 2), (3, 3)]
