"""Fine-tuned models of multiple choice: each option is read after the text, and the options compete.

P(k) = softmax over k of v·c_k, c_k the vector of the text with option k (Devlin et al. 2019, section 4.4; Radford et
al. 2018, section 3.3).
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError, require_list
from wenmai.core.quantities import plural
from wenmai.data.typed import ChoiceExample
from wenmai.inference.finetuned import Floats, are_texts, parts_of
from wenmai.inference.finetuned_network import HeadShape, Item, Outputs
from wenmai.inference.finetuned_texts import OfTexts, Table
from wenmai.measures.classification import ChoiceResult, measure_choices
from wenmai.nn.heads import ChoiceHead, choice_log_probabilities
from wenmai.objectives.loss import Loss

__all__ = ["Choice", "Chosen"]


class Chosen(NamedTuple):
    """What was chosen.

    Attributes:
        number: Of the option, from 0.
        option: The option.
        probabilities: Of each option.
    """

    number: int
    option: str
    probabilities: list[float]


class Choice(OfTexts):
    """One of several texts."""

    task = "choice"
    kind = "finetuned-choice"
    verbs = ("choose", "embed")
    best_by = "accuracy"
    objective = "cross-entropy of the right option"
    takes = OfTexts.takes - {"both_orders"}
    labelled = False
    two = True

    @classmethod
    def compares(cls, example: Any) -> bool:  # noqa: ANN401
        """True: a text and an option."""
        return True

    @classmethod
    def head(cls, size: int, shape: HeadShape, labels: Sequence[str]) -> nn.Module:
        """Makes the head."""
        return ChoiceHead(size, dropout=shape.dropout, dense=shape.dense)

    def gold(self, example: ChoiceExample) -> tuple[str, str, Sequence[str]]:
        """Returns text, question and options."""
        return " ".join(example.turns), example.question, example.options

    def items(self, inputs: Sequence[Any]) -> list[Item]:
        """Puts each option with the text before it as a row; the question stands before the option."""
        backbone = self.backbone
        room = backbone.room(pair=True) - (backbone.max_length - self.length)
        texts = backbone.ids([text for text, _, _ in inputs])
        asked = [f"{question} {option}".strip() for _, question, options in inputs for option in options]
        ends = accumulate(len(options) for _, _, options in inputs)
        ids, found, self.cut = backbone.ids(asked), [], 0
        for text, (_, _, options), end in zip(texts, inputs, ends, strict=True):
            cut = self.cut
            rows = [row for one in ids[end - len(options) : end] for row in self.pair_rows(text, one, room)]
            self.cut = min(self.cut, cut + 1)  # a question counts once
            found.append(Item(tuple(rows)))
        return found

    def targets(self, examples: Sequence[ChoiceExample], items: Sequence[Item]) -> list[int]:
        """Returns the numbers of the right options."""
        return [example.answer for example in examples]

    def logits(self, vectors: Tensor, filled: Tensor, sizes: Sequence[int]) -> Outputs:
        """Returns (B, C), the log-probabilities of C options; -inf where there are fewer."""
        rows = 2 if self.shape.compares else 1
        options = [size // rows for size in sizes]
        scores = self.module.head(self.compared(vectors, rows))
        return Outputs(choice_log_probabilities(scores.float(), options), None, options)

    def loss(self, outputs: Outputs, targets: Sequence[int]) -> Loss:
        """Cross-entropy."""
        wanted = torch.tensor(targets, device=outputs.logits.device)[:, None]
        total = -outputs.logits.gather(1, wanted).double().sum()
        return Loss(total, total.detach(), len(targets))

    def split(self, outputs: Outputs) -> list[Floats]:
        """Returns (options,) of each question."""
        rows = outputs.logits.float().cpu().numpy()
        return [row[:size] for row, size in zip(rows, outputs.sizes, strict=True)]

    def tallies(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> Table:
        """Whether each choice is right."""
        right = [int(one.argmax()) == example.answer for one, example in zip(outputs, examples, strict=True)]
        return np.array(right, np.float64)[:, None]

    def metrics(self, tallies: Table) -> dict[str, float]:
        """Proportion of right choices."""
        return {"accuracy": float(tallies.mean())}

    def measured(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> ChoiceResult:
        """The proportion of right choices, with an interval."""
        return measure_choices(self.tallies(examples, items, outputs)[:, 0])

    def choose(self, questions: Iterable[tuple[str, str, Sequence[str]]]) -> list[Chosen]:
        """Chooses an option for each question.

        Args:
            questions: Text, question (or ``""``) and options of each.

        Raises:
            SettingError: if one is no such three, or has fewer than two options.
        """
        require_list(questions, "choose")
        given = []
        for one in questions:
            parts = parts_of(one)
            if len(parts) != 3 or not are_texts(parts[:2]) or not are_texts(parts[2]):
                raise SettingError(f"{str(one)[:60]!r}: choose takes a text, a question and a list of options each")
            given.append((parts[0], parts[1], [*parts[2]]))
        for _, question, options in given:
            if len(options) < 2:
                raise SettingError(
                    f"{question[:60]!r}: {plural(len(options), 'option')}; there must be at least 2 to choose from"
                )
        found = []
        for (_, _, options), output in zip(given, self.outputs(self.read(given)), strict=True):
            probabilities = np.exp(output.astype(np.float64))
            place = int(output.argmax())
            found.append(Chosen(place, options[place], probabilities.tolist()))
        return found
