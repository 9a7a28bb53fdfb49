"""Join runs that convert pinyin."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.pinyin_joined import JoinedConverter

__all__ = ["joined"]


def joined(model: Any, ngram: str | Path | Run, weight: float = 1.0) -> "JoinedConverter":  # noqa: ANN401  checked there
    """Returns a network of pinyin joined with the n-grams of another run.

    Args:
        model: The network, as :func:`wenmai.load` gives it.
        ngram: A finished run of ``pinyin-ngram``.
        weight: What the log-probabilities of the network are multiplied with.

    Raises:
        RunError: if the run is not finished, or does not convert.
        SettingError: if the two are other models.
    """
    from wenmai.inference.pinyin_joined import JoinedConverter

    return JoinedConverter(model, Run.of(ngram).model_for("convert"), weight=weight)
