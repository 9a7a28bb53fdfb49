"""Quantities as people read them."""

import math

from wenmai.core.wording import say

__all__ = ["counted", "duration", "plural", "size", "to_scale", "words_a_second"]


def words_a_second(speed: float) -> str:
    """Returns a speed, in millions if it is large."""
    return f"{speed / 1e6:.2f} M" if speed >= 1e5 else f"{speed:,.0f}"


def duration(seconds: float) -> str:
    """Returns a time."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def plural(number: int, name: str) -> str:
    """Returns a number of things."""
    return say("{number} " + (name if number == 1 else f"{name}s"), number=f"{number:,}")


def counted(*reasons: tuple[int, str, str]) -> list[str]:
    """Returns a sentence for each number above 0: the first for one, the second with its ``{count}`` for several."""
    return [one if count == 1 else several.format(count=f"{count:,}") for count, one, several in reasons if count]


def to_scale(value: float, scale: float, digits: int) -> str:
    """Returns a number with as many digits as show differences of a scale with so many of them."""
    share = abs(value) / scale if scale > 0 else 0.0
    more = math.log10(share) if 1 < share < math.inf else 0.0
    return f"{value:.{min(17, digits + math.floor(more))}g}"


def size(size_bytes: int) -> str:
    """Returns the size of a file."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"
