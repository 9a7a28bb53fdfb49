"""Scripts that are written without spaces between words, found in a sample of a text.

Split at white space, such a text has whole clauses or lines as its words, and nothing can be learnt from it.
"""

import re
from typing import NamedTuple

from wenmai.text.ranges import HAN
from wenmai.text.settings import Segmentation

__all__ = ["Unspaced", "find_unspaced"]

_KANA = "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_SOUTHERN = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan; Burmese; Khmer
_LETTER = re.compile(r"[^\W\d_]")

_FEWEST_LETTERS = 20  # of a sample, fewer say nothing
_SHARE = 0.2  # of all letters; a Chinese character says as much as three Latin letters
_KANA_SHARE = 0.05  # of Chinese and Japanese characters: Chinese texts have some の too
# Words have fewer letters, half of the letters counted: where spaces separate words, they do so at least as often.
_LONGEST_WORDS = {HAN + _KANA: 4, _SOUTHERN: 12}


class Unspaced(NamedTuple):
    """A script without spaces.

    Attributes:
        language: What it is called.
        share: Its fraction of the letters, 0 to 1.
        segment: The segmentation that fits it.
    """

    language: str
    share: float
    segment: Segmentation


def find_unspaced(sample: str, *, fewest_letters: int = _FEWEST_LETTERS) -> Unspaced | None:
    """Returns the script of a text whose words nothing separates.

    None for text that spaces separate, also Chinese that was segmented before, and for text with few letters of such
    scripts. An end of a line separates nothing: a line without white space may be a word or a short sentence.

    Args:
        sample: Some thousand characters of the text.
        fewest_letters: Of such a script; fewer say nothing.
    """
    letters = len(_LETTER.findall(sample))
    counts = {script: len(re.findall(f"[{script}]", sample)) for script in _LONGEST_WORDS}
    script = max(counts, key=lambda script: counts[script])
    found = counts[script]
    if found < fewest_letters or found < _SHARE * letters or _separated(script, sample) >= found / 2:
        return None
    share = min(1.0, found / letters)
    if script == _SOUTHERN:
        return Unspaced("Thai, Lao, Khmer, Burmese or Tibetan", share, "characters")
    if len(re.findall(f"[{_KANA}]", sample)) > _KANA_SHARE * found:
        return Unspaced("Japanese", share, "characters")
    return Unspaced("Chinese", share, "chinese")


def _separated(script: str, sample: str) -> int:
    """Returns how many letters of a script are in words that white space separates within a line."""
    letter = re.compile(f"[{script}]")
    words = [line.split() for line in sample.splitlines()]
    counts = [len(letter.findall(word)) for line in words if len(line) > 1 for word in line]
    return sum(count for count in counts if count <= _LONGEST_WORDS[script])
