"""A network and n-grams together: each path through the lattice has the scores of both.

    score = μ_c log P_characters + μ_w log P_words + λ Σ_t log P_network(c_t)

The n-grams' own weights are their settings; λ is tuned on sentences that neither model has seen.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import SettingError, require_list
from wenmai.inference.conversion import Candidate
from wenmai.inference.framing import portions
from wenmai.inference.pinyin_model import PinyinModel
from wenmai.inference.pinyin_ngram import CharacterScores, PinyinNgramModel
from wenmai.inference.pinyin_numbers import UNKNOWN
from wenmai.inference.user_words import MOST_WEIGHT
from wenmai.measures.conversion import edit_distance
from wenmai.text.pinyin.letters import fuzzy_pairs

if TYPE_CHECKING:
    from wenmai.inference.input_session import InputSession, Offer

__all__ = ["WEIGHTS", "JoinedConverter"]

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""The weights that :meth:`JoinedConverter.tune` tries."""

_AT_ONCE, _LETTERS = 64, 1 << 12  # texts, and about how many letters, whose scores of all characters are in memory


class JoinedConverter:
    """Converts pinyin by a network and n-grams.

    Args:
        network: An encoder of syllables.
        ngrams: The lattice and its models.
        weight: λ, what the log-probabilities of the network are multiplied with.

    Raises:
        SettingError: if the two are other models, or the weight makes no sense.
    """

    def __init__(self, network: Any, ngrams: Any, *, weight: float = 1.0) -> None:  # noqa: ANN401  checked here
        if not isinstance(network, PinyinModel) or not isinstance(ngrams, PinyinNgramModel):
            raise SettingError("a run of pinyin is joined with one of pinyin-ngram; name one of each")
        if not 0 <= weight <= MOST_WEIGHT:
            raise SettingError(f"weight={weight}: expected a number from 0 to {MOST_WEIGHT:g}")
        self.network, self.ngrams, self.weight = network, ngrams, weight

    @cached_property
    def _columns(self) -> npt.NDArray[np.uint32]:
        known = self.network.numbers.characters
        return self.ngrams.columns_of(lambda character: known.get(character, UNKNOWN))

    def convert(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        fuzzy: Collection[str] = (),
    ) -> list[list[Candidate]]:
        """Converts inputs, see :class:`wenmai.inference.conversion.Converter`.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        require_list(texts, "convert")
        fuzzy = fuzzy_pairs(fuzzy)
        found: list[list[Candidate]] = []
        for portion in portions(texts, _AT_ONCE, characters=_LETTERS):
            scores = self.network.place_scores(portion, toned=toned, context=context, fuzzy=fuzzy)
            found += self._rescored(
                portion, scores, self.weight, n_best=n_best, toned=toned, context=context, fuzzy=fuzzy
            )
        return found

    def _rescored(
        self,
        texts: Sequence[str],
        scores: Sequence[npt.NDArray[np.float32]],
        weight: float,
        **options: Any,  # noqa: ANN401
    ) -> list[list[Candidate]]:
        known = dict(zip(texts, scores, strict=True))
        return self.ngrams.convert(
            texts, others=lambda text: CharacterScores(known[text], weight), columns=self._columns, **options
        )

    def session(self, *, context: str = "", fuzzy: Collection[str] = ()) -> "InputSession":
        """Begins an input, key by key."""
        from wenmai.inference.input_session import InputSession

        pairs = fuzzy_pairs(fuzzy)
        return InputSession(lambda letters, before: self.offers(letters, context=before, fuzzy=pairs), context=context)

    def offers(self, letters: str, *, context: str = "", fuzzy: Collection[str] = ()) -> "list[Offer]":
        """Returns the candidates of an input that is not finished; see :meth:`PinyinNgramModel.offers`."""
        (scores,) = self.network.place_scores([letters], context=context, fuzzy=fuzzy)
        others = CharacterScores(scores, self.weight)
        return self.ngrams.offers(letters, context=context, fuzzy=fuzzy, others=others, columns=self._columns)

    def add_word(self, word: str, reading: str | None = None, *, weight: float | None = None) -> None:
        """Adds a word of the user to the lattice; see :meth:`PinyinNgramModel.add_word`."""
        self.ngrams.add_word(word, reading, weight=weight)

    def forget_word(self, word: str) -> None:
        """Takes a word of the user away again."""
        self.ngrams.forget_word(word)

    def tune(
        self, texts: Sequence[str], references: Sequence[str], *, weights: Sequence[float] = WEIGHTS
    ) -> dict[float, float]:
        """Sets the weight to that of the lowest character error rate.

        Args:
            texts: What was typed; sentences that are used for nothing else.
            references: What was meant.
            weights: Those that are tried.

        Returns:
            The character error rate of each weight.

        Raises:
            SettingError: if there are not as many references as texts, or none.
        """
        require_list(texts, "tune")
        if not 0 < len(texts) == len(references):
            raise SettingError(
                f"texts: {len(texts)}, references: {len(references)}; expected one reference for each text"
            )
        distances = dict.fromkeys(weights, 0)
        meant = iter(references)
        for portion in portions(texts, _AT_ONCE, characters=_LETTERS):
            right = [*islice(meant, len(portion))]
            scores = self.network.place_scores(portion)
            for weight in weights:
                found = self._rescored(portion, scores, weight)
                distances[weight] += sum(
                    edit_distance(one, other[0].text if other else "") for one, other in zip(right, found, strict=True)
                )
        total = max(1, sum(map(len, references)))
        self.weight = min(weights, key=lambda weight: distances[weight])
        return {weight: distance / total for weight, distance in distances.items()}
