"""Fine-tuned models that answer questions by a part of a text.

| what | source |
|---|---|
| P(begin = i) = softmax over i of S·h_i, P(end = j) = softmax over j of E·h_j | Devlin et al. 2019, section 4.2 |
| a long text is read in windows; the score of an answer is S·h_i + E·h_j in the window where i has most context | the same |
| no answer: begin and end are the text's own token; there is none if s_null > best + τ, τ chosen on validation data | section 4.3 |

The softmax is over the tokens of the text and the token that stands for none. Answers are the exact characters of the
text, by the offsets of the tokenizer; none begins or ends with white space.
"""  # noqa: E501  a table

import logging
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.core.errors import CorpusError, SettingError, require_list
from wenmai.core.quantities import plural
from wenmai.data.typed import SpanExample
from wenmai.inference.backbones import Pieces
from wenmai.inference.finetuned import FineTuned, Floats, are_texts, parts_of
from wenmai.inference.finetuned_network import HeadShape, Item, Outputs
from wenmai.measures.questions import (
    QuestionResult,
    answer_scores,
    fitting_rules,
    measure_questions,
    threshold_behind,
)
from wenmai.nn.heads import SpanHead
from wenmai.objectives.loss import Loss

__all__ = ["Answered", "Span"]

_log = logging.getLogger(__name__)

Table = npt.NDArray[np.float64]

_QUESTION = 64  # pieces, of which the rest is left out
_THRESHOLD = "null_threshold"
_SOUND_MARKS = "\uff9e\uff9f"  # of half-width kana, which NFKC joins to them
_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")  # vowels and finals of Hangul, which NFC joins to what they follow
_MOST_KNOWN = 1 << 12  # texts whose pieces are remembered: several questions have one text


class Answered(NamedTuple):
    """An answer.

    Attributes:
        text: The part of the text; empty: there is no answer.
        start: Its first character; None: there is no answer.
        end: The character behind it; None likewise.
        probability: Among the answers that were considered.
        score: The sum of the logits of begin and end.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    score: float


class _Text(NamedTuple):
    """A text in pieces.

    Attributes:
        context: The text.
        ids: The pieces.
        offsets: Where each begins and ends in the text, in characters, without white space before it.
        seen: (pieces,) which of them are more than white space, so that an answer can begin and end there.
    """

    context: str
    ids: list[Any]
    offsets: list[tuple[int, int]]
    seen: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, context: str, pieces: Pieces) -> Self:
        """Looks up where the pieces of a text begin and end."""
        offsets = []
        for (low, high), (following, _) in pairwise([*pieces.offsets, (len(context), len(context))]):
            if context[low : low + 1].isspace():
                low = high - len(context[low:high].lstrip())
            while high < following and _is_joined(context[high]):
                high += 1  # an accent or the like, which the piece has in its letter, or has lost
            offsets.append((low, high))
        return cls(context, pieces.ids, offsets, np.array([low < high for low, high in offsets], np.bool_))

    def part(self, first: int, last: int) -> tuple[str, int, int]:
        """Returns what some pieces in a row stand for, its first character and the character behind it."""
        start, end = self.offsets[first][0], self.offsets[last][1]
        return self.context[start:end], start, end


def _is_joined(character: str) -> bool:
    """Whether normalisation may join a character to the one before it."""
    marks = unicodedata.category(character)[0] == "M" or character in _SOUND_MARKS
    return marks or _JAMO.fullmatch(character) is not None


class _Read(NamedTuple):
    """A text in windows.

    Attributes:
        text: The text.
        begins: The first piece of each window.
        widths: How many pieces each has.
    """

    text: _Text
    begins: list[int]
    widths: list[int]

    def fullest(self, window: int) -> npt.NDArray[np.bool_]:
        """Which pieces of a window have most context there: most on the lesser side, in the longer of equal windows.

        Of several such windows the first counts.
        """
        begins, widths = np.array(self.begins), np.array(self.widths)
        places = self.begins[window] + np.arange(self.widths[window])
        left, right = places[:, None] - begins, begins + widths - 1 - places[:, None]
        scores = np.where((left >= 0) & (right >= 0), np.minimum(left, right) + 0.01 * widths, -np.inf)
        fullest: npt.NDArray[np.bool_] = scores.argmax(1) == window
        return fullest


class Span(FineTuned):
    """Answers that are parts of texts."""

    task = "span"
    kind = "finetuned-span"
    verbs = ("answer", "embed")
    best_by = "f1"
    objective = "cross-entropy of begin and end of the answer"
    takes = frozenset({"max_length", "stride", "answer_length", "n_best"})
    over_tokens = True
    labelled = False
    perhaps = frozenset({_THRESHOLD})
    _known: dict[str, _Text] | None = None

    @classmethod
    def head(cls, size: int, shape: HeadShape, labels: Sequence[str]) -> nn.Module:
        """Makes the head."""
        return SpanHead(size, dropout=shape.dropout)

    @classmethod
    def require(cls, examples: Sequence[SpanExample]) -> None:
        """Makes sure that a question has an answer.

        Raises:
            CorpusError: if none has.
        """
        if not any(example.answers for example in examples):
            raise CorpusError(f"none of the {len(examples)} questions has an answer; at least 1 must have one")

    def learn(self, examples: Sequence[SpanExample]) -> None:
        """Notes whether some questions have no answer."""
        self.numbers = {_THRESHOLD: 0.0} if any(not example.answers for example in examples) else {}

    def gold(self, example: SpanExample) -> tuple[str, str]:
        """Returns question and text."""
        return example.question, example.context

    def items(self, inputs: Sequence[tuple[str, str]]) -> list[Item]:
        """Puts each question before each window of its text."""
        backbone = self.backbone
        room = backbone.room(pair=True) - (backbone.max_length - self.length)
        stride = self.reading.stride or max(1, self.length // 3)
        questions, most = backbone.ids([question for question, _ in inputs]), max(1, min(_QUESTION, room // 2))
        if longer := sum(len(ids) > most for ids in questions):
            _log.warning("%s", f"{plural(longer, 'question')} longer than the {most} pieces that are read of one: cut")
        found, self.cut = [], 0
        for ids, (_, context) in zip(questions, inputs, strict=True):
            asked = ids[:most]
            text, width = self._pieces(context), room - len(asked)
            size = len(text.ids)
            self.cut += size > width
            begins = [0]
            while begins[-1] + width < size:
                begins.append(begins[-1] + min(width, stride))
            rows = []
            for begin in begins:
                window = text.ids[begin : begin + width]
                row = backbone.framed(asked, window)
                first = backbone.begins(row)[1]
                rows.append(row._replace(places=range(first, first + len(window))))
            found.append(Item(tuple(rows), _Read(text, begins, [len(row.places) for row in rows])))
        return found

    def _pieces(self, context: str) -> _Text:
        """The pieces of a text."""
        if self._known is None or len(self._known) > _MOST_KNOWN:
            self._known = {}
        if context not in self._known:
            self._known[context] = _Text.of(context, self.backbone.pieces(context))
        return self._known[context]

    def targets(self, examples: Sequence[SpanExample], items: Sequence[Item]) -> list[list[tuple[int, int]]]:
        """Returns begin and end in each window, 0 where the answer is not in it."""
        found = []
        for example, item in zip(examples, items, strict=True):
            read: _Read = item.info
            first, last = 0, -1  # pieces of the answer
            answer = next((one for one in example.answers if one.start >= 0), None)  # others their text does not have
            if answer is not None:
                end = answer.start + len(answer.text)
                offsets = enumerate(read.text.offsets)
                inside = [n for n, (low, high) in offsets if low < end and high > answer.start and low < high]
                first, last = (inside[0], inside[-1]) if inside else (0, -1)
            windows = zip(read.begins, read.widths, strict=True)
            found.append(
                [
                    (1 + first - begin, 1 + last - begin) if begin <= first <= last < begin + width else (0, 0)
                    for begin, width in windows
                ]
            )
        return found

    def count(self, targets: Sequence[Sequence[Any]]) -> int:
        """Returns how many windows there are."""
        return sum(map(len, targets))

    def logits(self, vectors: Tensor, filled: Tensor, sizes: Sequence[int]) -> Outputs:
        """Returns (R, K, 2) of all windows, begin and end; the first place stands for no answer."""
        found = self.module.head(vectors, filled)
        return Outputs(torch.stack(found, -1), filled, sizes)

    def loss(self, outputs: Outputs, targets: Sequence[Sequence[tuple[int, int]]]) -> Loss:
        """The mean of the cross-entropies of begin and end."""
        wanted = torch.tensor([pair for one in targets for pair in one], device=outputs.logits.device)
        parts = (F.cross_entropy(outputs.logits[..., k].float(), wanted[:, k], reduction="sum") for k in (0, 1))
        total = 0.5 * sum(parts, torch.zeros((), device=wanted.device)).double()
        return Loss(total, total.detach(), len(wanted))

    def split(self, outputs: Outputs) -> list[Floats]:
        """Returns the (K, 2) of the windows of each question, one after the other."""
        assert outputs.filled is not None
        rows = outputs.logits.float().cpu().numpy()
        kept = [row[:size] for row, size in zip(rows, outputs.filled.sum(1).tolist(), strict=True)]
        ends = np.cumsum(outputs.sizes).tolist()
        return [np.concatenate(kept[end - size : end]) for end, size in zip(ends, outputs.sizes, strict=True)]

    def ranked(self, item: Item, output: Floats) -> tuple[list[tuple[float, int, int]], float]:
        """Returns the best answers as (score, first piece, last piece), and the score of none."""
        read: _Read = item.info
        found: list[tuple[float, int, int]] = []
        null, place, most = np.inf, 0, self.reading.n_best
        for window, (begin, width) in enumerate(zip(read.begins, read.widths, strict=True)):
            starts, ends = output[place : place + 1 + width].astype(np.float64).T
            place += 1 + width
            null = min(null, float(starts[0] + ends[0]))
            seen = read.text.seen[begin : begin + width]
            allowed, places = np.flatnonzero(read.fullest(window) & seen), np.flatnonzero(seen)
            firsts = allowed[np.argsort(-starts[1 + allowed], kind="stable")[:most]]
            lasts = places[np.argsort(-ends[1 + places], kind="stable")[:most]]
            for first in firsts.tolist():
                for last in lasts.tolist():
                    if first <= last < first + self.reading.answer_length:
                        found.append((float(starts[1 + first] + ends[1 + last]), begin + first, begin + last))
        return sorted(found, key=lambda one: -one[0])[:most], null

    @property
    def tunes(self) -> bool:
        """Whether some questions have no answer."""
        return _THRESHOLD in self.numbers

    def tune(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> None:
        """Chooses the threshold that makes F1 highest, where some questions have no answer."""
        if self.tunes:
            scores, gaps = self._scored(examples, items, outputs)
            self.numbers[_THRESHOLD] = tuned_threshold(gaps, scores[:, 0, 1], scores[:, 1, 1])

    def tallies(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> Table:
        """Exact match and F1 of each answer."""
        scores, gaps = self._scored(examples, items, outputs)
        none = gaps > self.numbers.get(_THRESHOLD, np.inf)
        found: Table = scores[np.arange(len(scores)), none.astype(np.int64)]
        return found

    def metrics(self, tallies: Table) -> dict[str, float]:
        """Mean F1, and proportion of exact matches."""
        exact, f1 = tallies.mean(0).tolist()
        return {"f1": f1, "exact": exact}

    def measured(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> QuestionResult:
        """Exact match and F1 as the official scripts compute them, with intervals."""
        best, gaps = self._best(items, outputs)
        threshold = self.numbers.get(_THRESHOLD, np.inf)
        gold = [[answer.text for answer in example.answers] for example in examples]
        knows_none = not all(gold) or _THRESHOLD in self.numbers
        return measure_questions(
            gold,
            ["" if gap > threshold else text for text, gap in zip(best, gaps, strict=True)],
            rules=fitting_rules(gold),
            best=best if knows_none else None,
            gaps=gaps if knows_none else None,
        )

    def _best(self, items: Sequence[Item], outputs: Sequence[Floats]) -> tuple[list[str], list[float]]:
        """Returns the best answer of each, and how much better none is."""
        texts, gaps = [], []
        for item, output in zip(items, outputs, strict=True):
            best, null = self.ranked(item, output)
            texts.append(item.info.text.part(*best[0][1:])[0] if best else "")
            gaps.append(null - best[0][0] if best else np.inf)
        return texts, gaps

    def _scored(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> tuple[Table, Table]:
        """Returns (N, S, 2): exact match and F1 of the best answer, and of none; and how much better none is, (N,).

        S is 1 where there is always an answer.
        """
        best, gaps = self._best(items, outputs)
        gold = [[answer.text for answer in example.answers] for example in examples]
        rules, given = fitting_rules(gold), [best, [""] * len(best)][: 2 if _THRESHOLD in self.numbers else 1]
        scores = [
            [answer_scores(right, text, rules) for right, text in zip(gold, texts, strict=True)] for texts in given
        ]
        return np.array(scores).swapaxes(0, 1), np.array(gaps)

    # --- verbs --------------------------------------------------------------------------------------------------

    def answer(
        self, questions: Iterable[Sequence[str]], k: int = 1, threshold: float | None = None
    ) -> list[list[Answered]]:
        """Answers questions by parts of texts.

        Args:
            questions: A question and a text each.
            k: Most answers of a question.
            threshold: There is no answer if the score of none is higher than that of the best one by more than this;
                None: what training chose, if some of its questions had no answer; else there always is one.

        Returns:
            The best answers of each question, the best first; an empty one says that the text has none.

        Raises:
            SettingError: if a question is not given with its text, or the threshold is no number.
        """
        if threshold is not None and math.isnan(threshold):
            raise SettingError("threshold=nan: expected a number")
        require_list(questions, "answer")
        given = []
        for one in questions:
            if len(parts_of(one)) != 2 or not are_texts(one):
                raise SettingError(f"{str(one)[:60]!r}: answer takes pairs of a question and a text")
            given.append((one[0], one[1]))
        items = self.read(given)
        return [self.answers(*one, k, threshold) for one in zip(items, self.outputs(items), strict=True)]

    def answers(self, item: Item, output: Floats, k: int, threshold: float | None = None) -> list[Answered]:
        """Returns the ``k`` best answers to a question that was put as an item, as :meth:`answer` does."""
        read: _Read = item.info
        best, null = self.ranked(item, output)
        threshold = self.numbers.get(_THRESHOLD) if threshold is None else threshold
        nothing = threshold is not None or len(best) == 0
        scores = np.array([score for score, _, _ in best] + ([null] if nothing else []))
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        found = [
            Answered(*read.text.part(first, last), float(share), score)
            for (score, first, last), share in zip(best, shares, strict=False)
        ]
        if nothing:
            none = Answered("", None, None, float(shares[-1]), null)
            leads = len(best) == 0 or null - best[0][0] > (threshold or 0.0)
            found.insert(0 if leads else sum(one.score >= null for one in found[1:]) + 1, none)
        return found[: None if k < 0 else k]


def tuned_threshold(gaps: Table, answered: Table, unanswered: Table) -> float:
    """Returns the τ above which no answer is given, so that the sum of scores is highest.

    Args:
        gaps: (N,) how much the score of no answer is above that of the best one.
        answered: (N,) how good the answer is, if it is given.
        unanswered: (N,) how good it is to give none.
    """
    gained = np.concatenate([[0.0], np.cumsum((answered - unanswered)[np.argsort(gaps, kind="stable")])])
    return threshold_behind(gaps.tolist(), int(gained.argmax()))  # the first so many are answered
