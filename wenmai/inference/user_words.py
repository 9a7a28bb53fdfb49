"""Words of the user, which a converter of pinyin prefers from then on."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError, PinyinError, SettingError
from wenmai.text.pinyin.syllables import normal_syllable, split_tone

__all__ = ["MOST_WEIGHT", "OF_USER", "UserWord", "add_words", "word_reading"]

OF_USER = 15.0  # nats for each character of a user's word, which nothing else gains
MOST_WEIGHT = 1e6  # beyond it nothing else would count


class UserWord(NamedTuple):
    """A word with a reading.

    Attributes:
        word: Its characters.
        syllables: Without tones, one a character.
        tones: 1 to 5, or 0 where none is known.
        weight: What it adds to the score of a sentence, in nats.
    """

    word: str
    syllables: tuple[str, ...]
    tones: tuple[int, ...]
    weight: float


class _TakesWords(Protocol):
    def add_word(self, word: str, reading: str | None = None, *, weight: float | None = None) -> None: ...


def word_reading(word: str, reading: str | None = None, weight: float | None = None) -> UserWord:
    """Returns a word with its reading.

    Args:
        word: Its characters.
        reading: Its syllables with spaces between them, with tones or without; None: those of the dictionary.
        weight: In nats; None: more than any other word can have.

    Raises:
        PinyinError: if the reading has not one syllable a character.
        SettingError: if the weight is no number, or too large.
    """
    from wenmai.text.pinyin.readings import readings_of

    syllables = [normal_syllable(part) for part in (readings_of(word) if reading is None else reading.split())]
    if not word or len(syllables) != len(word):
        raise PinyinError(
            f"{word!r} has {len(word)} characters and the reading {' '.join(syllables)!r}; expected one syllable "
            "a character, such as 'wen2 mai4' for 文脉"
        )
    if weight is not None and not abs(weight) <= MOST_WEIGHT:
        raise SettingError(f"weight={weight} of {word!r}: expected a number from -{MOST_WEIGHT:g} to {MOST_WEIGHT:g}")
    letters, tones = zip(*map(split_tone, syllables), strict=True)
    return UserWord(word, letters, tones, OF_USER * len(word) if weight is None else weight)


def add_words(model: Any, path: str | Path) -> int:  # noqa: ANN401  a converter; checked here
    """Adds the words of a file to a converter.

    A line has a word, and after tabs its reading and its weight, both of which may be left out: ``文脉``,
    ``文脉 TAB wen2 mai4``, ``文脉 TAB wen2 mai4 TAB 20``. Empty lines and those that begin with # are skipped.

    Returns:
        How many there are.

    Raises:
        SettingError: if the model takes no words.
        CorpusError: if the file cannot be read, or a line is of another form.
    """
    if not hasattr(model, "add_word"):
        raise SettingError(
            "this model labels letters one by one and takes no words; use a run of pinyin or pinyin-ngram"
        )
    taking: _TakesWords = model
    path, count = Path(path), 0
    with reading(path, error=CorpusError) as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip()
                if not text or text.lstrip().startswith("#"):
                    continue
                word, spelt, weight, *more = [*map(str.strip, text.split("\t")), "", ""]
                if any(more):
                    raise SettingError(f"has {len(more) + 1} columns")
                taking.add_word(word, spelt or None, weight=float(weight) if weight else None)
            except UnicodeDecodeError:
                raise CorpusError(f"{path}, line {number}: is not UTF-8; convert the text first") from None
            except (PinyinError, SettingError, ValueError) as error:
                message = error if isinstance(error, PinyinError | SettingError) else f"{weight!r} is no number"
                raise CorpusError(
                    f"{path}, line {number}: {message}; expected a word, and after tabs its reading and its weight"
                ) from None
            count += 1
    return count
