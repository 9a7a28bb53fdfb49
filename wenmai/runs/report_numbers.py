"""Numbers and facts of a report in words."""

from wenmai.core.wording import say

__all__ = ["decimal", "duration", "fact_name", "fact_text", "percent", "short_bytes", "short_number"]


def decimal(value: float) -> str:
    """Returns a number with three decimals, from ten on with one."""
    return f"{value:z.{3 if abs(value) < 10 else 1}f}".replace("-", "−")


def percent(value: float) -> str:
    """Returns a share as a percentage, without its sign."""
    return f"{100 * value:.1f}"


def short_number(value: float) -> str:
    """Returns three digits of a number, with k, M, G or T."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * 0.9995:
            return f"{value / unit:.3g}\N{NO-BREAK SPACE}{name}"
    return f"{value:.3g}"


def short_bytes(value: float) -> str:
    """Returns a size in memory or on disk."""
    return f"{short_number(value)}B" if value >= 999.5 else f"{short_number(value)}\N{NO-BREAK SPACE}B"


def duration(seconds: float) -> str:
    """Returns seconds, or minutes and seconds, or hours and minutes."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if seconds < 99.5:
        text = f"{seconds:.3g} s"
    else:
        text = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def fact_name(name: str) -> str:
    """Returns the name of a fact for people."""
    return say(name.removesuffix("_bytes").replace("_", " "))


def fact_text(value: str | int | float | bool | None, name: str = "") -> str:
    """Returns the value of a fact; of a size in bytes its name ends with ``_bytes``."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    if isinstance(value, int):
        return short_bytes(value) if name.endswith("_bytes") else f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)
