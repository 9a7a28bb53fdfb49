"""Fine-tuned models of texts: classes of one text or of two, and numbers.

| task | equation | source |
|---|---|---|
| classification, pair | P = softmax(W dropout(c) + b), c the vector of the text | Devlin et al. 2019, section 4.1 |
| regression | y = w·dropout(c) + b, of the numbers less their mean, divided by their deviation | the same, STS-B |

Two texts that an encoder reads one by one, with the vectors u and v, have the vector [u; v; |u - v|; u * v] (Conneau
et al. 2017, https://aclanthology.org/D17-1070, figure 1). Read in both orders, they have the sum of two vectors
(Radford et al. 2018, section 3.3).
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.core.errors import CorpusError, FormatError, SettingError, require_label_count, require_list
from wenmai.core.quantities import to_scale
from wenmai.core.task_names import TaskName
from wenmai.data.typed import PairExample, ScoredExample, TextExample, weight_of
from wenmai.inference.finetuned import FineTuned, Floats, parts_of
from wenmai.inference.finetuned_network import HeadShape, Item, Outputs, fitted
from wenmai.measures.classification import classification_metrics
from wenmai.measures.regression import RegressionResult, correlations, measure_regression
from wenmai.nn.heads import ClassificationHead
from wenmai.objectives.loss import Loss

__all__ = ["Classification", "OfTexts", "Pair", "Regression", "one_text", "two_texts"]

Texts = str | tuple[str, str]
Table = npt.NDArray[np.float64]


class OfTexts(FineTuned):
    """What models of one text and of two share.

    Attributes:
        two: Whether they take two.
    """

    two: bool = False
    perhaps = frozenset({"either"})  # of an imported model: it takes single texts or pairs, as they come

    takes = frozenset({"max_length", "keep", "pooling", "both_orders", "dense_head"})

    @classmethod
    def compares(cls, example: TextExample | PairExample | ScoredExample) -> bool:
        """Whether an example has two texts."""
        return isinstance(example, PairExample) or getattr(example, "second", None) is not None

    @classmethod
    def head(cls, size: int, shape: HeadShape, labels: Sequence[str]) -> nn.Module:
        """Makes the head."""
        return ClassificationHead(size, len(labels) or 1, dropout=shape.dropout, dense=shape.dense)

    def items(self, inputs: Sequence[Texts]) -> list[Item]:
        """Puts each text, or pair of texts, as one row; a pair as two, where the encoder reads one text at once."""
        backbone, pair = self.backbone, isinstance(next(iter(inputs), ""), tuple)
        room = backbone.room(pair=pair) - (backbone.max_length - self.length)
        if not pair:
            rows = backbone.ids([str(text) for text in inputs])
            self.cut = sum(len(ids) > room for ids in rows)
            fit = (fitted([ids], room, self.reading.keep)[0] for ids in rows)
            return [Item((backbone.framed(ids),)) for ids in fit]
        sides = [backbone.ids([text[side] for text in inputs]) for side in (0, 1)]
        self.cut = 0
        return [
            Item(self.pair_rows(one, other, room), number)
            for number, (one, other) in enumerate(zip(*sides, strict=True))
        ]

    def pair_rows(self, one: Sequence[Any], other: Sequence[Any], room: int) -> tuple[Any, ...]:
        """Returns the rows of two texts that are compared."""
        backbone, keep = self.backbone, self.reading.keep
        if not backbone.paired:
            self.cut += max(len(one), len(other)) > room
            return tuple(backbone.framed(fitted([ids], room, keep)[0]) for ids in (one, other))
        self.cut += len(one) + len(other) > room
        first, second = fitted([one, other], room, keep)
        row = backbone.framed(first, second)
        return (row, backbone.framed(second, first)) if self.reading.both_orders else (row,)

    def given(self, texts: Iterable[Any]) -> list[Texts]:
        """Returns texts, or pairs of them, as the model takes them.

        Raises:
            SettingError: if one is not what the model was trained on.
        """
        texts, two = list(texts), self.two
        if self.numbers.get("either"):
            pairs = [not isinstance(text, str) or "\t" in text for text in texts]
            two = any(pairs)
            if not all(pairs) and two:
                raise SettingError(
                    f"{str(texts[pairs.index(False)])[:60]!r} is one text, others are two, FIRST<TAB>SECOND; give the "
                    "model either single texts or pairs"
                )
        return [two_texts(text) if two else one_text(text) for text in texts]

    def check(self, path: Path) -> None:
        """Makes sure that a model which was read can be used.

        Raises:
            FormatError: if it cannot.
        """
        super().check(path)
        if self.shape.compares != (self.two and not self.backbone.paired):
            raise FormatError(f"{path}: is damaged: what it makes of two texts does not fit its encoder")

    def compared(self, vectors: Tensor, rows: int) -> Tensor:
        """Returns one vector of each text or pair, of those of its ``rows`` rows."""
        if rows == 1:
            return vectors
        one, other = vectors.view(-1, 2, vectors.shape[1]).unbind(1)
        if not self.shape.compares:
            return one + other
        return torch.cat((one, other, (one - other).abs(), one * other), -1)

    def logits(self, vectors: Tensor, filled: Tensor, sizes: Sequence[int]) -> Outputs:
        """Returns (B, C)."""
        return Outputs(self.module.head(self.compared(vectors, sizes[0])))

    def split(self, outputs: Outputs) -> list[Floats]:
        """Returns (C,) of each item."""
        return list(outputs.logits.float().cpu().numpy())


class Classification(OfTexts):
    """Classes of texts."""

    task: ClassVar[TaskName] = "classification"
    kind = "finetuned-classification"
    verbs = ("classify", "embed")
    best_by = "accuracy"
    objective = "cross-entropy of the label"
    takes = OfTexts.takes - {"both_orders"} | {"class_weight"}
    weights: Tensor | None = None  # of the labels, while training

    def gold(self, example: TextExample | PairExample) -> Texts:
        """Returns the text, or both."""
        return example.text if isinstance(example, TextExample) else (example.first, example.second)

    @classmethod
    def require(cls, examples: Sequence[TextExample | PairExample]) -> None:
        """Makes sure that there are two labels.

        Raises:
            CorpusError: if there is one.
        """
        if len({example.label for example in examples}) < 2:
            label = examples[0].label
            raise CorpusError(f"all {len(examples)} examples have the label {label!r}; at least 2 labels are needed")

    def weigh(self, examples: Sequence[TextExample | PairExample]) -> None:
        """w_c = N / (C N_c): all labels count as if they were equally frequent; N is the sum of examples' weights."""
        counted = dict.fromkeys(self.labels, 0.0)
        for example in examples:
            counted[example.label] += weight_of(example)
        total, present = sum(counted.values()), sum(count > 0 for count in counted.values())
        weights = [total / (present * (counted[label] or 1)) for label in self.labels]
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def targets(self, examples: Sequence[TextExample | PairExample], items: Sequence[Item]) -> list[int]:
        """Returns the number of each label."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        for place, example in enumerate(examples, start=1):
            if example.label not in numbers:
                raise CorpusError(
                    f"example {place} has the label {example.label!r}, which the model does not know; it knows "
                    f"{', '.join(self.labels[:8])}"
                )
        return [numbers[example.label] for example in examples]

    def loss(self, outputs: Outputs, targets: Sequence[int], shares: Sequence[float] | None = None) -> Loss:
        """Cross-entropy; rare labels may count more, and examples by their ``shares``."""
        wanted = torch.tensor(targets, device=outputs.logits.device)
        nll = F.cross_entropy(outputs.logits.float(), wanted, reduction="none").double()
        weights = torch.ones_like(nll) if self.weights is None else self.weights.to(wanted.device)[wanted]
        if shares is not None:
            weights = weights * torch.tensor(shares, dtype=torch.float64, device=wanted.device)
        return Loss((nll * weights).sum(), nll.detach().sum(), len(targets))

    def tallies(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> Table:
        """The numbers of the right and of the predicted label."""
        found = [output.argmax() for output in outputs]
        return np.array([self.targets(examples, items), found], np.float64).T

    def metrics(self, tallies: Table) -> dict[str, float]:
        """Accuracy, macro-averaged F1 and Matthews' coefficient."""
        gold, found = tallies.T.astype(np.int64)
        return classification_metrics(gold, found, len(self.labels))

    def probabilities(self, texts: Iterable[Any]) -> npt.NDArray[np.float64]:
        """Returns the probabilities of all labels, float64 (N, C), of texts or pairs of texts.

        Raises:
            SettingError: if ``texts`` is one string, or a text is not what the model was trained on.
        """
        require_list(texts, "predict")
        given = self.given(texts)
        outputs = np.array(self.outputs(self.read(given)), np.float64).reshape(len(given), len(self.labels))
        shares = np.exp(outputs - outputs.max(1, keepdims=True, initial=-np.inf))
        found: npt.NDArray[np.float64] = shares / shares.sum(1, keepdims=True)
        return found

    def predict(self, texts: Iterable[Any], k: int = 1, threshold: float = 0.0) -> list[list[tuple[str, float]]]:
        """Returns the ``k`` most probable labels of each text with their probabilities, best first; -1 for all.

        Args:
            texts: Texts; of a model of pairs tuples of two, or texts with a tab between them.
            k: Most labels of a text; -1 for all.
            threshold: Less probable labels are left out.

        Raises:
            SettingError: if ``k`` is out of range, or a text is not what the model was trained on.
        """
        require_label_count(k)
        found = []
        for row in self.probabilities(texts):
            order = np.argsort(-row, kind="stable")[: None if k < 0 else k]
            found.append([(self.labels[n], float(row[n])) for n in order.tolist() if row[n] >= threshold])
        return found


class Pair(Classification):
    """Classes of two texts."""

    task = "pair"
    kind = "finetuned-pair"
    takes = OfTexts.takes | {"class_weight"}
    two = True

    @classmethod
    def same_task(cls, other: object) -> bool:
        """Whether another model has learned classes of pairs; an imported classifier may have."""
        return isinstance(other, cls) or (isinstance(other, Classification) and bool(other.numbers.get("either")))


class Regression(OfTexts):
    """Numbers of texts, or of two texts."""

    task = "regression"
    kind = "finetuned-regression"
    verbs = ("rate", "embed")
    best_by = "spearman"
    objective = "squared error, in variances of the numbers"
    labelled = False
    known = frozenset({"mean", "deviation", "two"})

    @property
    def two(self) -> bool:  # type: ignore[override]  # it depends on the examples
        """Whether it takes two texts."""
        return bool(self.numbers.get("two"))

    def gold(self, example: ScoredExample) -> Texts:
        """Returns the text, or both.

        Raises:
            CorpusError: if there are two, and the model was trained on one, or the reverse.
        """
        if (example.second is not None) != self.two and not self.numbers.get("either"):
            if self.two:
                raise CorpusError(f"{example.first[:40]!r} is alone, but the model takes two texts")
            raise CorpusError(f"{example.first[:40]!r} comes with another text, but the model takes one")
        return example.first if example.second is None else (example.first, example.second)

    def learn(self, examples: Sequence[ScoredExample]) -> None:
        """Notes what the numbers are like: their mean and deviation, and whether there are two texts.

        Raises:
            CorpusError: if all are equal.
        """
        values = np.array([example.score for example in examples])
        least, most = float(values.min()), float(values.max())
        if least == most:  # their deviation is seldom exactly 0
            raise CorpusError(f"all {len(values)} examples have the number {least:g}; nothing can be learnt")
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = float(values.mean()), float(values.std())
        if not math.isfinite(deviation) or not deviation:
            raise CorpusError(f"the numbers are from {least:g} to {most:g}, which is too far or too near; scale them")
        self.numbers = {
            "mean": mean,
            "deviation": deviation,
            "two": float(examples[0].second is not None),
        }

    def take_head(self, other: FineTuned) -> None:
        """Takes over a head, whose output is in deviations from the mean of other numbers."""
        super().take_head(other)
        head = self.module.head
        assert isinstance(head, ClassificationHead)
        ratio = other.numbers["deviation"] / self.numbers["deviation"]
        shift = (other.numbers["mean"] - self.numbers["mean"]) / self.numbers["deviation"]
        with torch.no_grad():
            head.output.weight.mul_(ratio)
            head.output.bias.mul_(ratio).add_(shift)

    def targets(self, examples: Sequence[ScoredExample], items: Sequence[Item]) -> list[float]:
        """Returns the numbers as deviations from the mean."""
        mean, deviation = self.numbers["mean"], self.numbers["deviation"]
        return [(example.score - mean) / deviation for example in examples]

    def loss(self, outputs: Outputs, targets: Sequence[float]) -> Loss:
        """Squared errors."""
        wanted = torch.tensor(targets, device=outputs.logits.device, dtype=torch.float64)
        total = (outputs.logits[:, 0].double() - wanted).square().sum()
        return Loss(total, total.detach(), len(targets))

    def tallies(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> Table:
        """The right and the predicted number."""
        mean, deviation = self.numbers["mean"], self.numbers["deviation"]
        found = [mean + deviation * float(output[0]) for output in outputs]
        return np.array([[example.score for example in examples], found], np.float64).T

    def metrics(self, tallies: Table) -> dict[str, float]:
        """Spearman's and Pearson's coefficients, and the mean squared error."""
        gold, found = tallies.T
        return correlations(gold, found) | {"squared_error": float(np.square(gold - found).mean())}

    def measured(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> RegressionResult:
        """Correlations and squared error, with intervals."""
        gold, found = self.tallies(examples, items, outputs).T
        return measure_regression(gold, found)

    def written(self, value: float) -> str:
        """Returns a number with as many digits as tell texts apart."""
        return to_scale(value, self.numbers["deviation"], 6)

    def rate(self, texts: Iterable[Any]) -> list[float]:
        """Returns the number of each text, or of each pair of texts.

        Raises:
            SettingError: if ``texts`` is one string, or a text is not what the model was trained on.
        """
        require_list(texts, "rate")
        given = self.given(texts)
        mean, deviation = self.numbers["mean"], self.numbers["deviation"]
        return [mean + deviation * float(output[0]) for output in self.outputs(self.read(given))]


def one_text(text: Any) -> str:  # noqa: ANN401  whatever a user gives
    """Returns a text.

    Raises:
        SettingError: if it is something else.
    """
    if not isinstance(text, str):
        raise SettingError(f"{str(text)[:60]!r}: the model takes single texts, strings")
    return text


def two_texts(text: Any) -> tuple[str, str]:  # noqa: ANN401
    """Returns two texts, of a pair or of a text with a tab within.

    Raises:
        SettingError: if there are not two.
    """
    parts = tuple(text.split("\t")) if isinstance(text, str) else parts_of(text)
    if len(parts) == 2 and not all(isinstance(part, str) for part in parts):
        raise SettingError(f"{str(text)[:60]!r}: one of the two is no text (give '' where there is none)")
    if len(parts) != 2:
        if parts == ("",):
            return "", ""
        raise SettingError(f"{str(text)[:60]!r}: the model takes two texts, FIRST<TAB>SECOND; there are {len(parts)}")
    return parts[0], parts[1]
