"""A trained labeller of letters: characters of pinyin without spaces, without cutting it before."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import SettingError, require_list
from wenmai.core.tensors import require_numbers
from wenmai.data.batches import pad, plan_batches
from wenmai.inference.conversion import Candidate
from wenmai.inference.pinyin_labelling import LabellingModel
from wenmai.inference.pinyin_numbers import BLANK
from wenmai.inference.pinyin_typing import score_of_letters, typed_edges
from wenmai.text.encodable import require_text
from wenmai.text.pinyin.letters import Edge, completions, is_break, normal_letters, typed_places, without_breaks
from wenmai.text.pinyin.syllables import without_tone

if TYPE_CHECKING:
    from wenmai.inference.input_session import InputSession, Offer

__all__ = ["PinyinLettersModel"]

_CHUNK = 256  # texts that are sorted by length and read together
_BATCH_LETTERS = 2048
_MORE = 8  # letters, behind those that the network reads, in which a syllable with its tone ends
_KEPT = ("letters", "other")  # kinds of edges that are no syllables
_NO_SYLLABLE, _INCOMPLETE = -30.0, -4.0  # log-probabilities beside those of the network

Ints = npt.NDArray[np.int64]


class _Step(NamedTuple):
    """A syllable, or a mark, from one place of the input to another.

    Attributes:
        begin: Where it begins.
        end: Where it ends.
        syllable: Which; a mark has none.
        text: What a mark stands for.
        score: Of the step itself.
    """

    begin: int
    end: int
    syllable: str | None
    text: str
    score: float


class _Letters(NamedTuple):
    """An input as the network reads it.

    Attributes:
        symbols: Letters and marks.
        steps: By the place where they end.
    """

    symbols: list[int]
    steps: list[list[_Step]]


class PinyinLettersModel(LabellingModel):
    """Turns pinyin without spaces into characters.

    Args:
        module: The network.
        numbers: What it reads and writes.
    """

    def convert(
        self, texts: Iterable[str], *, n_best: int = 1, toned: bool | None = None, context: str = ""
    ) -> list[list[Candidate]]:
        """Converts inputs, see :class:`wenmai.inference.conversion.Converter`.

        Of all ways to cut the letters into syllables and to choose a character of each, the likeliest are found: the
        first letter of a syllable is labelled with the character, the others with a blank. Probabilities are among all
        of these ways.

        Args:
            texts: What was typed.
            n_best: Most candidates of each.
            toned: False: tones are left out; otherwise they count where there are some.
            context: Not read by these networks.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        return [*self.stream(texts, n_best=n_best, toned=toned, context=context)]

    def stream(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        chunk: int = _CHUNK,
    ) -> Iterator[list[Candidate]]:
        """Yields the candidates of each text, reading ``chunk`` texts at a time; see :meth:`convert`."""
        require_list(texts, "convert")
        if n_best < 1:
            raise SettingError(f"n_best={n_best}: expected 1 or more")
        lines = iter(texts)
        while portion := list(islice(lines, chunk)):
            yield from self._convert(portion, n_best, toned)

    def session(self, *, context: str = "") -> "InputSession":
        """Begins an input, key by key; the text before it makes no difference to this model."""
        from wenmai.inference.input_session import InputSession

        return InputSession(lambda letters, _: self.offers(letters), context=context)

    def offers(self, letters: str) -> "list[Offer]":
        """Returns the candidates of an input that is not finished: for all of it, and for its first syllable."""
        from wenmai.inference.input_session import MOST, SENTENCES, Offer, first_offers

        read, normal = [*self._read(letters, None)], normal_letters(letters)
        if len(read) != 1:
            (found,) = self._convert([letters], SENTENCES, None)
            return [Offer(one.text, one.probability, len(letters)) for one in found if one.text]
        (one,) = read
        ((_, blank, scored),) = self._read_all([one], MOST)
        paths = heapq.nlargest(SENTENCES, _best_paths(one.steps, blank, scored, SENTENCES), key=lambda path: path[1])
        whole = [Offer(text, float(np.exp(min(0.0, score))), len(letters)) for text, score in paths if text]
        places = typed_places(letters, normal)
        kept = [places[place] for place, one in enumerate(normal) if not is_break(one)]
        ends = [*kept, len(letters)]  # behind each symbol, and the breaks that follow it
        likely: dict[tuple[str, int], float] = {}
        sums = np.concatenate([[0.0], np.cumsum(blank, dtype=np.float64)])
        for step in (step for steps in one.steps for step in steps if step.begin == 0 and step.syllable):
            inner = step.score + float(sums[step.end] - sums[1])
            for text, score in scored[0, str(step.syllable)][0]:
                key = text, step.end
                likely[key] = max(likely.get(key, -np.inf), score + inner)
        order = heapq.nlargest(MOST, likely, key=lambda key: likely[key])
        first = [Offer(text, None, ends[end]) for text, end in order if end < len(one.symbols)]
        return first_offers(whole, first)

    def _convert(self, texts: Sequence[str], n_best: int, toned: bool | None) -> list[list[Candidate]]:
        read = [[*self._read(text, toned)] for text in texts]
        inputs = [one for parts in read for one in parts]
        found = self._decoded(inputs, n_best)
        results, place = [], 0
        for parts in read:
            best = [("", 0.0)]
            for _ in parts:
                longer = [(text + one, total + score) for text, total in best for one, score in found[place]]
                best = heapq.nlargest(n_best, longer, key=lambda item: item[1])
                place += 1
            results.append([Candidate(text, float(np.exp(min(0.0, score)))) for text, score in best])
        return results

    # --- what the network reads ---------------------------------------------------------------------------------

    def _read(self, text: str, toned: bool | None) -> Iterator[_Letters]:
        """Yields an input in parts that are not too long for the network, none if there is nothing in it."""
        require_text(text)
        letters = normal_letters(text)
        places, start = typed_places(text, letters), 0
        for portion in self._portions(letters):
            edges = typed_edges(portion, abbreviated=False)
            kept = [not is_break(one) for one in portion]
            if toned is False:
                for place in {place for edge in edges if edge.kind not in _KEPT for place in range(*edge[:2])}:
                    kept[place] &= not portion[place].isdigit()
                edges = _toneless(edges)
            if edges:
                begins = places[start : start + len(portion) + 1]
                typed = [without_breaks(text[begins[edge.begin] : begins[edge.end]]) or edge.syllable for edge in edges]
                yield self._letters(portion, kept, edges, typed)
            start += len(portion)

    def _portions(self, letters: str) -> Iterator[str]:
        """Yields letters in parts, cut behind a mark or a space if there is one, else before a syllable."""
        start, longest = 0, self.module.max_length
        while len(letters) - start > longest:
            marks = (place for place in range(longest, longest // 2, -1) if not letters[start + place - 1].isalnum())
            end = next(marks, 0)
            if not end:
                (way,) = self.cutter.read(letters[start : start + longest + _MORE], placed=True)
                end = max(begin for begin in way.begins if begin <= longest) or longest
            yield letters[start : start + end]
            start += end
        yield letters[start:]

    def _letters(self, letters: str, kept: Sequence[bool], edges: Sequence[Edge], typed: Sequence[str]) -> _Letters:
        """The symbols of letters, those that are ``kept``, and the steps of edges, which were ``typed`` so."""
        at = np.concatenate([[0], np.cumsum(kept)]).tolist()
        symbols = [self.numbers.symbol(one) for one, there in zip(letters, kept, strict=True) if there]
        steps: list[list[_Step]] = [[] for _ in range(len(symbols) + 1)]
        for edge, written in zip(edges, typed, strict=True):
            begin, end = at[edge.begin], at[edge.end]
            if edge.kind in _KEPT:
                score = score_of_letters(edge.syllable) if edge.kind == "letters" else 0.0
                steps[end].append(_Step(begin, end, None, written, score))
                continue
            score = 0.0 if edge.kind in ("full", "erhua") else _INCOMPLETE
            whole = ("er5" if edge.kind == "erhua" else edge.syllable,)  # an r behind a syllable is 儿 alone
            meant = completions(edge.syllable) if edge.kind == "incomplete" else whole
            found = [one for one in meant if self._choices(one) is not None]
            steps[end] += [_Step(begin, end, one, "", score) for one in found]
            if not found:  # the model knows no character of it
                steps[end].append(_Step(begin, end, None, written, _NO_SYLLABLE))
        return _Letters(symbols, steps)

    def _choices(self, syllable: str) -> Ints | None:
        """The characters of a syllable; with a tone that none has, those without tones; None: there are none."""
        choices = self.numbers.choices
        return choices.get(syllable, choices.get(without_tone(syllable)))

    # --- the likeliest labels -----------------------------------------------------------------------------------

    def _decoded(self, inputs: Sequence[_Letters], n_best: int) -> list[list[tuple[str, float]]]:
        """Returns the likeliest texts of each input, with their log-probabilities."""
        found: list[list[tuple[str, float]]] = [[] for _ in inputs]
        for number, blank, scored in self._read_all(inputs, n_best):
            found[number] = _best_paths(inputs[number].steps, blank, scored, n_best)
        return found

    def _read_all(
        self, inputs: Sequence[_Letters], most: int
    ) -> Iterator[tuple[int, npt.NDArray[np.float32], dict[tuple[int, str], tuple[list[tuple[str, float]], float]]]]:
        """Yields the number of each input, log P(blank) of its symbols, and what :meth:`_scored` returns of it."""
        if self.module.training:
            self.module.eval()
        lengths = np.array([len(one.symbols) for one in inputs], np.int64)
        head: Any = self.module.heads["characters"]
        for batch in plan_batches(lengths, max_tokens=_BATCH_LETTERS, seed=0, epoch=0) if len(inputs) else ():
            numbers = batch.tolist()
            tokens, real = pad([inputs[number].symbols for number in numbers], 0)
            with torch.inference_mode():
                states = self.module(*(torch.from_numpy(one).to(self.device) for one in (tokens, real)))
                log_probs = head.log_probs(states.flatten(0, 1))
                blank = log_probs[:, BLANK].cpu().numpy().reshape(tokens.shape)
                require_numbers(bool(np.isfinite(blank[real]).all()))
                scored = self._scored(inputs, numbers, log_probs, tokens.shape[1], most)
            for row, number in enumerate(numbers):
                yield number, blank[row], scored[row]

    def _scored(
        self, inputs: Sequence[_Letters], numbers: Sequence[int], log_probs: Tensor, width: int, most: int
    ) -> list[dict[tuple[int, str], tuple[list[tuple[str, float]], float]]]:
        """The likeliest characters of each syllable at each place, and the logarithm of the sum of all."""
        wanted: dict[str, list[tuple[int, int]]] = {}
        for row, number in enumerate(numbers):
            for steps in inputs[number].steps:
                for step in steps:
                    if step.syllable is not None:
                        wanted.setdefault(step.syllable, []).append((row, step.begin))
        found: list[dict[tuple[int, str], tuple[list[tuple[str, float]], float]]] = [{} for _ in numbers]
        tokens = self.numbers.characters.tokens
        for syllable, places in wanted.items():
            ids = self._choices(syllable)
            if ids is None:
                continue
            rows = torch.tensor([row * width + begin for row, begin in places], device=log_probs.device)
            scores = log_probs[rows][:, torch.from_numpy(ids).to(log_probs.device)]
            best = scores.topk(min(most, len(ids)), dim=1)
            values, indices, sums = best.values.tolist(), best.indices.tolist(), scores.logsumexp(1).tolist()
            for (row, begin), value, index, total in zip(places, values, indices, sums, strict=True):
                options = [(tokens[ids[place]], score) for place, score in zip(index, value, strict=True)]
                found[row][begin, syllable] = options, total
        return found


def _toneless(edges: Sequence[Edge]) -> list[Edge]:
    """Edges whose syllables have no tones, each once; an r behind a syllable is 儿 alone."""
    spared = (*_KEPT, "erhua")
    plain = (one if one.kind in spared else one._replace(syllable=without_tone(one.syllable)) for one in edges)
    return [*dict.fromkeys(plain)]


def _best_paths(
    steps: Sequence[Sequence[_Step]],
    blank: npt.NDArray[np.float32],
    scored: dict[tuple[int, str], tuple[list[tuple[str, float]], float]],
    most: int,
) -> list[tuple[str, float]]:
    """The likeliest texts of an input, with their log-probabilities among all of its paths."""
    sums = np.concatenate([[0.0], np.cumsum(blank[: len(steps) - 1], dtype=np.float64)]).tolist()
    best: list[dict[str, float]] = [{"": 0.0}]
    mass = [0.0]
    for ending in steps[1:]:
        ways: dict[str, float] = {}
        parts: list[float] = []
        for step in ending:
            before = mass[step.begin]
            if before == -np.inf:
                continue
            if step.syllable is None:
                options, total, inner = [(step.text, 0.0)], 0.0, step.score
            else:
                options, total = scored.get((step.begin, step.syllable), ([], -np.inf))
                inner = step.score + sums[step.end] - sums[step.begin + 1]
            parts.append(before + total + inner)
            for text, one in best[step.begin].items():
                for character, score in options:
                    longer, value = text + character, one + score + inner
                    if value > ways.get(longer, -np.inf):
                        ways[longer] = value
        kept = heapq.nlargest(most, ways.items(), key=lambda item: item[1])
        best.append(dict(kept))
        mass.append(float(np.logaddexp.reduce(parts)) if parts else -np.inf)
    return [(text, score - mass[-1]) for text, score in best[-1].items()]
