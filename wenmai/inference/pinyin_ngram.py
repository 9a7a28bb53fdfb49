"""A converter of pinyin that is made of counts: its files, and its verb."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError, PinyinError, SettingError, require_list
from wenmai.core.showing import Shown
from wenmai.inference.conversion import Candidate
from wenmai.inference.pinyin_input import Typing, read_typed
from wenmai.inference.pinyin_lattice import Beam, Lattice, Scorer, Words
from wenmai.inference.user_words import word_reading
from wenmai.kernels.pinyin_words import MAX_SYLLABLES
from wenmai.models.folder import CONFIG, read_config, read_settings, write_config
from wenmai.models.ngram import Ngram
from wenmai.models.pinyin_ngram import ERHUA, INVENTORY, Lexicon, PinyinNgramConfig, Reading, weighed_readings
from wenmai.text.normalise import normaliser
from wenmai.text.pinyin.letters import fuzzy_pairs, normal_letters, typed_places
from wenmai.text.segment import segmenter
from wenmai.text.settings import TextConfig
from wenmai.training.passes import available_cores

if TYPE_CHECKING:
    from wenmai.inference.input_session import InputSession, Offer

__all__ = ["CharacterScores", "PinyinNgramModel"]

_FACTS: Mapping[str, type] = {"text": dict, "inventory": list}
_CHARACTERS, _WORDS = "characters", "words"


class CharacterScores(NamedTuple):
    """What another model says of each character at each place of an input.

    Attributes:
        scores: (places of the input, or fewer; columns) float32, log-probabilities; a character has that of the place
            where its syllable begins.
        weight: What they are multiplied with.
    """

    scores: npt.NDArray[np.float32]
    weight: float = 1.0


def _with_erhua(reading: Reading) -> list[Reading]:
    """The word as it is typed with erhua, if 儿 stands behind another character of it."""
    pairs = [*zip(reading.word, reading.syllables, strict=True)]
    joined = [place > 0 and pair == ("儿", "er") for place, pair in enumerate(pairs)]
    syllables = [ERHUA if erhua else syllable for erhua, (_, syllable) in zip(joined, pairs, strict=True)]
    return [reading._replace(syllables=(*syllables,))] if any(joined) else []


class PinyinNgramModel(Shown):
    """Turns pinyin into characters.

    Args:
        config: The settings.
        text: How the text was made into words.
        characters: The n-grams of characters; None: words alone.
        words: The n-grams of words; None: characters alone.
        lexicon: The words with their readings.
    """

    def __init__(
        self,
        config: PinyinNgramConfig,
        text: TextConfig,
        characters: Ngram | None,
        words: Ngram | None,
        lexicon: Lexicon,
    ) -> None:
        for model in (characters, words):
            if model is not None and model.config.smoothing == "add-k":
                raise SettingError(
                    "an n-gram model with smoothing=add-k gives all unseen words one probability, and cannot convert; "
                    "train one with modified-kneser-ney"
                )
        self.config, self.text, self.lexicon = config, text, lexicon
        self.characters, self.words = characters, words
        self.beam = Beam()
        self._scorer = Scorer(characters, words, config.character_weight, config.word_weight)
        self._words = Words(lexicon, characters, words)
        self._user: dict[str, list[Reading]] = {}
        self._normalise = normaliser(text)

    def _facts(self) -> dict[str, Any]:
        ngrams = sum(sum(model.ngrams) for model in (self.characters, self.words) if model is not None)
        return {"order": self.config.order, "words": len(self.lexicon), "ngrams": ngrams}

    # --- converting -----------------------------------------------------------------------------------------------

    def convert(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        fuzzy: Collection[str] = (),
        threads: int | None = None,
        others: Callable[[str], CharacterScores | None] | None = None,
        columns: npt.NDArray[np.uint32] | None = None,
    ) -> list[list[Candidate]]:
        """Converts inputs.

        Args:
            texts: Pinyin: letters with or without spaces, apostrophes and tones; everything else is kept.
            n_best: Candidates of each input, the most likely first.
            toned: Whether tones count; None: where there are some.
            context: The text before.
            fuzzy: Pairs of sounds that are taken for each other, of
                :data:`~wenmai.text.pinyin.letters.FUZZY_PAIRS`.
            threads: Most threads; None: one for each processor core.
            others: Scores of another model for an input, which are added; see :meth:`columns_of`.
            columns: The columns of those scores.

        Raises:
            SettingError: if ``texts`` is one string, or an option makes no sense.
            FormatError: if the model is damaged.
        """
        require_list(texts, "convert")
        if n_best < 1:
            raise SettingError(f"n_best={n_best}: expected 1 or more")
        typing = Typing(toned=toned is not False, fuzzy=fuzzy_pairs(fuzzy))
        begin = self.begin(context)

        def one(text: str) -> list[Candidate]:
            lattice = self.lattice(
                text, typing, begin=begin, best=n_best, others=others and others(text), columns=columns
            )
            return [Candidate(found, exp(score)) for found, score, _ in lattice.best(n_best)]

        workers = min(threads or available_cores(), len(texts))
        if workers <= 1:
            return [one(text) for text in texts]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, texts))

    def lattice(
        self,
        text: str,
        typing: Typing,
        *,
        begin: tuple[int, int],
        best: int = 1,
        others: CharacterScores | None = None,
        columns: npt.NDArray[np.uint32] | None = None,
    ) -> Lattice:
        """Searches the lattice of an input; see :class:`~wenmai.inference.pinyin_lattice.Lattice`."""
        words = [self._words] if self._user_words is None else [self._words, self._user_words]
        beam = self.beam if best == 1 else self.beam.wider(best)
        graph = read_typed(text, self.lexicon, typing)
        added = None
        if others is not None and columns is not None:
            added = self.lexicon.bounds, columns, others.scores, others.weight
        return Lattice(self._scorer, words, graph, beam, best=best, begin=begin, added=added)

    def columns_of(self, number_of: Callable[[str], int]) -> npt.NDArray[np.uint32]:
        """The column of another model's scores for each character of the lexicon, for :meth:`convert`."""
        return self.lexicon.characters_numbered(number_of)

    def begin(self, context: str = "") -> tuple[int, int]:
        """The contexts of both models after a text."""
        return self._scorer.begin(self._normalise(context), segmenter(self.text.segment).tokens)

    def session(self, *, context: str = "", fuzzy: Collection[str] = ()) -> "InputSession":
        """Begins an input, key by key."""
        from wenmai.inference.input_session import InputSession

        pairs = fuzzy_pairs(fuzzy)
        return InputSession(lambda letters, before: self.offers(letters, context=before, fuzzy=pairs), context=context)

    def offers(
        self,
        letters: str,
        *,
        context: str = "",
        fuzzy: Collection[str] = (),
        others: CharacterScores | None = None,
        columns: npt.NDArray[np.uint32] | None = None,
    ) -> "list[Offer]":
        """Returns the candidates of an input that is not finished: for all of it, and words that it may begin with.

        Args:
            letters: What is typed.
            context: The text before.
            fuzzy: Pairs of sounds that are taken for each other.
            others: Scores of another model, see :meth:`convert`.
            columns: The columns of those scores.
        """
        from wenmai.inference.input_session import MOST, SENTENCES, Offer, first_offers

        typing, begin = Typing(fuzzy=frozenset(fuzzy), incomplete=True), self.begin(context)
        lattice = self.lattice(letters, typing, begin=begin, best=SENTENCES, others=others, columns=columns)
        found = lattice.best(SENTENCES, close=False)
        whole = [Offer(text, exp(score), len(letters)) for text, score, _ in found if text]
        places = typed_places(letters, normal_letters(letters))
        return first_offers(whole, [Offer(text, None, places[end]) for text, end in lattice.first_words(MOST)])

    # --- the user's words -----------------------------------------------------------------------------------------

    def add_word(self, word: str, reading: str | None = None, *, weight: float | None = None) -> None:
        """Adds a word of the user, which wins from then on wherever its syllables are typed.

        Args:
            word: Its characters.
            reading: Its syllables with spaces between them, with tones or without; None: those of the dictionary.
            weight: What it adds to the score of a sentence, in nats; None: more than any other word can.

        Raises:
            PinyinError: if the reading has not one syllable a character, or the word is too long for the lattice.
        """
        added = word_reading(word, reading, weight)
        if len(word) > MAX_SYLLABLES:
            raise PinyinError(f"{word!r} has {len(word)} characters; a word has at most {MAX_SYLLABLES}")
        self._user.setdefault(word, [])
        self._user[word] = [one for one in self._user[word] if one.syllables != added.syllables]
        self._user[word].append(Reading(*added))
        self.__dict__.pop("_user_words", None)

    def forget_word(self, word: str) -> None:
        """Takes a word of the user away again; one that is not there is none."""
        self._user.pop(word, None)
        self.__dict__.pop("_user_words", None)

    @property
    def user_words(self) -> dict[str, list[Reading]]:
        """The words of the user with their readings."""
        return {word: list(readings) for word, readings in self._user.items()}

    @cached_property
    def _user_words(self) -> Words | None:
        """The words of the user as the lattice reads them, made when it does."""
        readings = [one for word in self._user.values() for reading in word for one in (reading, *_with_erhua(reading))]
        return Words(Lexicon.of(self.lexicon.inventory, readings), self.characters, self.words) if readings else None

    # --- files ----------------------------------------------------------------------------------------------------

    @classmethod
    def of_ngram(
        cls,
        model: Any,  # noqa: ANN401  checked here
        readings: Iterable[Reading] | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Self:
        """Makes a converter of any n-gram model of characters or of words.

        Args:
            model: The n-grams, or what :func:`wenmai.load` makes of a run of ``ngram``; with ``segment=characters``
                they are of characters, else of words.
            readings: The words with their readings, see :func:`~wenmai.models.pinyin_ngram.weighed_readings`; None:
                those of the word list.
            **settings: Of :class:`~wenmai.models.pinyin_ngram.PinyinNgramConfig`; the weight of the model that there
                is not is 0.

        Raises:
            SettingError: if it is another model, or the dictionary of readings or the word list is not installed.
        """
        model = getattr(model, "model", model)
        if not isinstance(model, Ngram):
            raise SettingError("of_ngram takes n-grams: a run of ngram, as wenmai.load gives it")
        by_character = model.text.segment == "characters"
        names = ["character_weight", "word_weight"]
        own, other = names if by_character else reversed(names)
        config = PinyinNgramConfig(**{own: 1.0} | settings | {other: 0.0})
        if readings is None:
            from wenmai.text.pinyin.words import word_list

            readings = weighed_readings({}, word_list(), config)
        lexicon = Lexicon.of(INVENTORY, readings)
        return cls(config, model.text, model if by_character else None, None if by_character else model, lexicon)

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, the words, and the models into an existing folder."""
        write_config(folder, self.config, text=asdict(self.text), inventory=list(self.lexicon.inventory))
        self.lexicon.save(folder)
        for name, model in ((_CHARACTERS, self.characters), (_WORDS, self.words)):
            if model is not None:
                (folder / name).mkdir()
                model.save(folder / name)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Reads what :meth:`save` wrote; the n-grams are mapped.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        folder = Path(folder)
        config, facts = read_config(folder, PinyinNgramConfig, "pinyin-ngram", _FACTS)
        text = read_settings(folder / CONFIG, TextConfig, facts["text"], "text")
        inventory = facts["inventory"]
        if not inventory or not all(isinstance(one, str) for one in inventory) or inventory != sorted({*inventory}):
            raise FormatError(f"{folder / CONFIG}: its inventory is no sorted list of syllables")
        words = Ngram.load(folder / _WORDS) if config.counts_words else None
        of_words = not config.character_weight and not (folder / _CHARACTERS).exists()
        characters = None if of_words else Ngram.load(folder / _CHARACTERS)
        return cls(config, text, characters, words, Lexicon.load(folder, inventory))
