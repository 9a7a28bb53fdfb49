"""The words of a converter, with their readings and how likely they are by themselves."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from wenmai.models.pinyin_ngram.config import PinyinNgramConfig
from wenmai.models.pinyin_ngram.lexicon import Reading
from wenmai.text.pinyin.readings import CandidateTable, readings_of
from wenmai.text.pinyin.syllables import TONELESS, split_tone
from wenmai.text.ranges import HANZI

__all__ = ["ERHUA", "INVENTORY", "weighed_readings"]

ERHUA = "r"
"""The syllable of 儿 in erhua: ``nar`` is ``na`` and ``r``."""
INVENTORY: tuple[str, ...] = tuple(sorted((*TONELESS, ERHUA)))

_CHINESE = re.compile(f"[{HANZI}]+")
_LEAST = 1e-9  # the probability of a word that was never seen
_LEAST_READING = 1e-3  # of a character's readings, one that is in no word; the usual one has as much more
_UNSEEN = -5.0  # of a character that the text lacks: all of these share the probability of the unknown one
_ERHUA = math.log(0.5)  # that 儿 at the end of a word is erhua, and no syllable
_SUFFIX = 1e-4  # the probability of 儿 as erhua of any word


def weighed_readings(
    counts: Mapping[str, int], listed: Mapping[str, int], config: PinyinNgramConfig
) -> Iterator[Reading]:
    """Yields the words with all their readings.

    A word of several characters has the reading of the phrase dictionary; a character has all its readings, each as
    likely as it is in the words that the character occurs in.

    Args:
        counts: The words of the text, and how often they occur.
        listed: Those of the word list.
        config: The settings.

    Raises:
        SettingError: if the dictionary of readings is not installed.
    """
    in_text = {word: count for word, count in counts.items() if _CHINESE.fullmatch(word)}
    in_list = {word: count for word, count in listed.items() if count and _CHINESE.fullmatch(word)}
    shares = {"text": 1 - config.list_share, "list": config.list_share}
    if not in_list or not in_text:  # the other has all
        shares = {"text": float(bool(in_text)), "list": float(bool(in_list))}
    of_text, of_list = (shares["text"] / max(1, sum(in_text.values())), shares["list"] / max(1, sum(in_list.values())))

    def share(word: str) -> float:
        return in_text.get(word, 0) * of_text + in_list.get(word, 0) * of_list

    read: dict[tuple[str, str], float] = defaultdict(float)
    words: list[tuple[str, tuple[str, ...], tuple[int, ...], float]] = []
    for word in sorted({*in_text, *in_list}):
        syllables, found = readings_of(word), share(word)
        for pair in zip(word, syllables, strict=True):
            read[pair] += found
        known = 1 < len(word) <= config.longest and (word in in_list or in_text[word] >= config.least)
        if known and min(map(len, syllables)) > 1:
            letters, tones = zip(*map(split_tone, syllables), strict=True)
            words.append((word, letters, tones, config.list_weight * math.log(found + _LEAST)))
    for word, letters, tones, weight in words:
        yield Reading(word, letters, tones, weight)
        if word[-1] == "儿" and letters[-1] == "er":
            yield Reading(word, (*letters[:-1], ERHUA), tones, weight + config.reading_weight * _ERHUA)
    yield from _characters(read, {*"".join(counts)}, share, config)


def _characters(
    read: Mapping[tuple[str, str], float],
    seen: Collection[str],
    share: Callable[[str], float],
    config: PinyinNgramConfig,
) -> Iterator[Reading]:
    """Yields the characters with their readings."""
    counted = Counter({pair: 1 for pair in read if len(pair[1]) > 1})
    table = CandidateTable.from_dictionary(counted)
    for character in sorted(table.characters):
        syllables = [syllable for syllable in table.syllables_of(character) if split_tone(syllable)[1]]
        weight = config.list_weight * math.log(share(character) + _LEAST) + (0.0 if character in seen else _UNSEEN)
        for syllable, likely in zip(syllables, _shares(character, syllables, read), strict=True):
            letters, tone = split_tone(syllable)
            yield Reading(character, (letters,), (tone,), weight + config.reading_weight * math.log(likely))
    yield Reading("儿", (ERHUA,), (5,), config.list_weight * math.log(_SUFFIX))


def _shares(character: str, syllables: Sequence[str], read: Mapping[tuple[str, str], float]) -> list[float]:
    """How likely each reading of a character is."""
    seen = [read.get((character, syllable), 0.0) for syllable in syllables]
    usual = readings_of(character)[0]
    total = sum(seen) or 1.0
    weights = [
        one / total + _LEAST_READING * (1 + 3 * (one_reading == usual))
        for one, one_reading in zip(seen, syllables, strict=True)
    ]
    return [weight / sum(weights) for weight in weights]
