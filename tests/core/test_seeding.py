"""One seed from several numbers."""

from wenmai.core.seeding import mixed_seed


def test_one_part_gives_the_published_stream_of_splitmix64():
    assert mixed_seed(0) == 0xE220A8397B1DCDAF  # the first output of SplitMix64 seeded with 0
    assert mixed_seed(1234567) == 6457827717110365317  # the first one of seed 1234567, as Rosetta Code lists it


def test_order_and_number_of_the_parts_matter():
    seeds = {mixed_seed(*parts) for parts in [(1,), (1, 0), (0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**64 - 1, 5)]}
    assert len(seeds) == 7
    assert all(0 <= seed < 2**64 for seed in seeds)
