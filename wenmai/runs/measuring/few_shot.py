"""The evaluation of language models that choose answers after a prompt; see :mod:`wenmai.runs.fewshot`."""

from dataclasses import dataclass
from typing import Any

from wenmai.measures.options import FewShotResult
from wenmai.runs.measuring.measurer import Evaluation

__all__ = ["FewShotEvaluation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FewShotEvaluation(Evaluation):
    """The few-shot evaluation of a language model on a data set."""

    result: FewShotResult

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        return {"run": self.run, **self.result.as_dict()}

    def __str__(self) -> str:
        return str(self.result)

    @property
    def notes(self) -> list[str]:
        """What the model could not read."""
        found = self.result
        counted = (
            (
                found.shortened,
                f"prompts lack {found.left_out:,} solved examples, which did not fit",
            ),
            (found.cut, "examples were longer than the model can read, and were cut at their beginning"),
            (found.unknown_options, f"of {found.options:,} different options have unknown words"),
        )
        return [f"{count:,} {what}" for count, what in counted if count]
