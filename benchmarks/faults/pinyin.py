"""Files of pinyin: gold sentences, tables of candidates, lists of words, vocabularies, and numbers of models."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.faults.damage import Damage, Sample, bombs
from benchmarks.faults.subjects import Subject
from wenmai.core.errors import SettingError
from wenmai.data.transliteration import read_gold
from wenmai.inference.pinyin_numbers import Numbers, number_characters, number_symbols
from wenmai.inference.user_words import add_words
from wenmai.text.pinyin.readings import CandidateTable
from wenmai.text.pinyin.syllables import normal_syllable
from wenmai.text.pinyin.vocab import PinyinVocab
from wenmai.text.pinyin.words import word_list

__all__ = ["subjects"]

_GOLD = "a/1.wav\tlv4 shi4 zher4 de\t绿是这儿的\nb\tni3 hao3\t你 好\n".encode()
_LETTERS = "NUM,PINYIN,EXPECTED\n1,zainarbanli？,在哪儿办理？\n2,nihao。,你好。\n".encode()
_TABLE = "zhong1\t中终钟\nzhong4\t重种\nlü4 绿 律\nde\t的\n".encode()
_WORDS = "中国 129470 ns\n我们 98740 r\n一会儿 50\n".encode()
_OWN_WORDS = "# names\n文脉\n文脉\twen2 mai4\n张三\tzhang1 san1\t20\n".encode()


def subjects() -> list[Subject]:
    """Returns a subject for each reader."""
    return [
        _subject("sentences with their pinyin", "gold.txt", [_GOLD, _LETTERS], _gold),
        _subject("tables of candidates", "table.txt", [_TABLE], _table),
        _subject("lists of Chinese words", "words.txt", [_WORDS], _words),
        _subject("words of a user", "words.txt", [_OWN_WORDS], _own_words),
        Subject(name="vocabularies of pinyin", make=_vocabularies, check=_vocabulary, share=1),
        Subject(name="numbers of models of pinyin", make=_numbers, check=_numbered, share=1),
    ]


def _subject(name: str, file: str, contents: list[bytes], check: Callable[[Path], str | None]) -> Subject:
    def made() -> Damage:
        samples: list[Sample] = [{file: content} for content in contents]
        return Damage(samples, partial(bombs, samples[:1]))

    return Subject(name=name, make=made, check=lambda folder: check(folder / file), share=2)


def _gold(path: Path) -> str | None:
    """Reads all sentences; each must have an item a character, a syllable or the character itself."""
    for example in read_gold(path):
        if len(example.syllables) != len(example.characters):
            return f"{len(example.syllables)} syllables of {len(example.characters)} characters"
        for item, character in zip(example.syllables, example.characters, strict=True):
            if item != character and item != normal_syllable(item):
                return f"the syllable {item!r}"
    return None


def _table(path: Path) -> str | None:
    table = CandidateTable.from_file(path)
    for syllable in table.syllables:
        if syllable != normal_syllable(syllable) or any(len(one) != 1 for one in table.characters_of(syllable)):
            return f"{table.characters_of(syllable)!r:.100} of {syllable!r}"
    return None


def _words(path: Path) -> str | None:
    return next((f"{word!r} {count} times" for word, count in word_list(path).items() if count < 0 or not word), None)


class _Taking:
    """Takes words as a converter does."""

    def add_word(self, word: str, spelt: str | None = None, *, weight: float | None = None) -> None:
        if not word or (weight is not None and not weight > 0):
            raise SettingError(f"add_word({word!r}, weight={weight})")
        if spelt is not None:
            [normal_syllable(one) for one in spelt.split()]


def _own_words(path: Path) -> str | None:
    return None if add_words(_Taking(), path) >= 0 else "a negative number of words"


def _vocabularies() -> Damage:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        PinyinVocab("的了在", "。，").save(Path(folder, "vocab.json"))
        return Damage([{"vocab.json": Path(folder, "vocab.json").read_bytes()}])


def _vocabulary(folder: Path) -> str | None:
    vocab = PinyinVocab.load(folder / "vocab.json")
    return None if len(vocab.symbol_ids) == vocab.num_symbols - 2 else f"{len(vocab.symbol_ids)} symbols"


def _numbers() -> Damage:
    from tempfile import TemporaryDirectory

    symbols = number_symbols(("de", "de5", "zai4"), {"de": 3, "zai4": 1})
    characters = number_characters("的了在", (5, 3, 2))
    with TemporaryDirectory() as folder:
        Numbers(symbols, characters, {"de": "的", "de5": "的", "zai4": "在"}).save(Path(folder))
        stored = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return Damage([stored])


def _numbered(folder: Path) -> str | None:
    """Reads what a network reads and writes; all numbers must be within its vocabularies."""
    numbers = Numbers.load(folder)
    for syllable, found in numbers.choices.items():
        if not found.size or found.min() < 0 or found.max() >= len(numbers.characters):
            return f"the candidates {found} of {syllable!r}"
        if not 0 <= numbers.symbol(syllable) < numbers.vocab_size:
            return f"the number {numbers.symbol(syllable)} of {syllable!r}"
    return None
