"""Random streams that are a function of the position in the work, so that no generator state has to be saved."""

__all__ = ["mixed_seed"]


def mixed_seed(*parts: int) -> int:
    """Returns one 64-bit number from several, such as seed, epoch and index, by SplitMix64's mixing.

    Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 18.
    """
    state = 0
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state
