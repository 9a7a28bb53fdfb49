"""Marks of tokens: capital letters, phrases, entities."""

import dataclasses
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.spans import entity_spans
from wenmai.core.errors import CorpusError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import EncodedText, LinesConfig, encode_text
from wenmai.data.sequences import SentenceStream
from wenmai.data.token_marks import CAPITAL, ENTITY, INSIDE, PHRASE, Marker, unit_begins
from wenmai.text.names import NameMatcher
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.segment import segmenter
from wenmai.text.tokenizer import Tokenizer

ENGLISH = "Ada Lovelace wrote notes on the Analytical Engine in London , and O'Brien's IBM did not . unbelievable"
CHINESE = "哈尔滨是黑龙江的省会，我爱北京天安门。"


def tokenizer(kind: str, text: str) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab_size=400, **({"lowercase": True} if kind == "wordpiece" else {}))
    return Tokenizer.train([text] * 3, config, roles=("cls", "sep", "mask"))


def marked(cutter: Tokenizer, text: str, **settings) -> tuple[list[str], np.ndarray]:
    marker = Marker(**settings)
    ((row, offsets),) = cutter.encode_batch_placed([marker.plain(text)])
    (marks,) = marker.marks([text], [offsets])
    assert len(marks) == len(row)
    return [cutter.token(number) for number in row], marks


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte-bpe", "unigram", "characters"])
def test_capital_letters_of_words_are_those_of_all_their_tokens(kind):
    cutter = tokenizer(kind, ENGLISH)
    offsets = cutter.encode_batch_placed([ENGLISH])[0][1]
    _, marks = marked(cutter, ENGLISH, bits=CAPITAL)
    words = {}
    for (low, high), mark in zip(offsets, marks.tolist(), strict=True):
        if letters := [place for place in range(low, high) if ENGLISH[place].isalpha()]:
            first = letters[0]
            while first and ENGLISH[first - 1].isalnum():
                first -= 1
            words.setdefault(first, set()).add(bool(mark & CAPITAL))
    assert all(flags == {ENGLISH[first].isupper()} for first, flags in words.items())
    assert any(ENGLISH[first].isupper() for first in words)


def test_phrases_and_entities_of_chinese():
    cutter = tokenizer("wordpiece", CHINESE)
    tokens, marks = marked(cutter, CHINESE, bits=PHRASE | ENTITY, segment="chinese", names=NameMatcher(["北京天安门"]))
    begins = unit_begins(marks, entities=False)
    cuts = [*np.flatnonzero(begins).tolist(), len(tokens)]
    words = ["".join(tokens[low:high]) for low, high in pairwise(cuts)]
    assert words == ["哈尔滨", "是", "黑龙江", "的", "省会", "，", "我", "爱", "北京", "天安门", "。"]
    assert [tokens[low:high] for low, high in entity_spans(marks)] == [list("北京天安门")]
    assert marks[-6:].tolist() == [PHRASE | ENTITY, INSIDE, PHRASE | INSIDE, INSIDE, INSIDE, PHRASE]


def test_an_entity_cuts_the_phrase_that_it_ends_in():
    tokens, marks = marked(tokenizer("wordpiece", CHINESE), CHINESE, bits=PHRASE | ENTITY, segment="chinese",
                           names=NameMatcher(["龙江的省"]))  # fmt: skip
    assert [tokens[low:high] for low, high in entity_spans(marks)] == [list("龙江的省")]
    place = tokens.index("黑")
    assert marks[place : place + 6].tolist() == [
        PHRASE, PHRASE | ENTITY, INSIDE, PHRASE | INSIDE, PHRASE | INSIDE, PHRASE,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte-bpe", "unigram"])
def test_phrases_of_english_words(kind):
    text = "they live in New  York now, i.e. in new york. newyork"
    cutter = tokenizer(kind, text)
    offsets = cutter.encode_batch_placed([text])[0][1]
    _, marks = marked(cutter, text, bits=PHRASE, phrases=NameMatcher(["new york"], fold=True))
    begins = [offsets[place][0] for place in np.flatnonzero(unit_begins(marks, entities=False))]
    starts = {low + len(text[low:]) - len(text[low:].lstrip()) for low in begins}
    assert {0, *map(text.index, ["live", "in New", "New", "York", "now", "in new", "new york", "newyork"])} <= starts
    assert text.index("york.") not in starts  # but York behind two spaces is


def test_inline_marks_are_taken_out():
    text = "[[Ada Lovelace]] was in [[London]]; [[]] [[a\tb]] [x]"
    cutter = tokenizer("wordpiece", text)
    marker = Marker(bits=ENTITY, inline=True)
    assert marker.plain(text) == "Ada Lovelace was in London; [[]] a\tb [x]"
    tokens, marks = marked(cutter, text, bits=ENTITY, inline=True)
    spelled = ["".join(token.removeprefix("##") for token in tokens[low:high]) for low, high in entity_spans(marks)]
    assert spelled == ["adalovelace", "london", "ab"]


def test_inline_marks_may_have_spaces_inside():
    text = "born in [[ London ]], not [[ ]], nor [[ ]]in [[New York ]]"
    tokens, marks = marked(tokenizer("wordpiece", text), text, bits=ENTITY, inline=True)
    spelled = ["".join(token.removeprefix("##") for token in tokens[low:high]) for low, high in entity_spans(marks)]
    assert spelled == ["london", "newyork"]


def test_no_sentence_ends_inside_of_an_inline_mark(tmp_path):
    plain = [
        "We like Yahoo! Inc. a lot.",
        "Hi [[ !",
        "He saw What? Who! Why? in Rome.",
        "他看《你好！李焕英》。",
        "很好。",
    ]
    names = ["Yahoo! Inc.", "What? Who! Why?", "Rome", "你好！李焕英"]
    text = " ".join(plain)
    for name in names:
        text = text.replace(name, f"[[{name}]]")
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    cutter = tokenizer("characters", "".join(plain))
    encoded = encode_text(Corpus.of_paths([path]), cutter, LinesConfig(sentences="split"),
                          marker=Marker(bits=ENTITY, inline=True))  # fmt: skip
    ends = encoded.ends[:, 0].tolist()
    found = [cutter.decode(encoded.tokens[low : high - 1].tolist()) for low, high in pairwise([0, *ends])]
    assert found == plain
    spans = entity_spans(np.asarray(encoded.marks))
    assert [cutter.decode(encoded.tokens[low:high].tolist()).strip() for low, high in spans] == names


def test_what_finds_entities_comes_before_the_list_and_behind_inline_marks():
    def finder(texts):
        return [[(0, 3), (4, 9)] for _ in texts]

    text = "aaa [[bb cc]] dd ee ff"
    cutter = tokenizer("words", text)
    tokens, marks = marked(cutter, text, bits=ENTITY, inline=True, finder=finder,
                           names=NameMatcher(["dd", "aaa bb"]))  # fmt: skip
    assert [tokens[low:high] for low, high in entity_spans(marks)] == [["aaa"], ["bb", "cc"], ["dd"]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_spans_against_a_naive_twin(seed):
    draw = random.Random(seed)
    marks, spans, place = [], [], 0
    for _ in range(draw.randint(1, 8)):  # a text of entities and phrases, as the marks say
        size = draw.randint(1, 4)
        entity = draw.random() < 0.4
        for step in range(size):
            first = step == 0
            begins = first or draw.random() < 0.3 if entity else first
            marks.append((PHRASE if begins else 0) | (ENTITY if entity and first else 0) | (0 if first else INSIDE))
        if entity:
            spans.append([place, place + size])
        place += size
    array = np.array(marks, np.uint8)
    assert entity_spans(array).tolist() == spans
    begins = unit_begins(array, entities=True)
    inside = {token for low, high in spans for token in range(low + 1, high)}
    assert [bool(one) for one in begins] == [
        place not in inside and bool(mark & (PHRASE | ENTITY)) for place, mark in enumerate(marks)
    ]


def naive_marks(text, offsets, marker):
    """The marks of one text, character by character and token by token."""
    begins, place = set(), 0
    for word in segmenter(marker.segment).tokens(text):
        place = text.index(word, place)
        begins.add(place)
        place += len(word)
    for low, high in marker.phrases.spans(text).tolist():
        behind = next((at for at in range(high, len(text)) if not text[at].isspace()), len(text))
        if low in begins and (behind > high or behind in begins or behind == len(text)):
            begins -= set(range(low + 1, high))
    starts = []
    for low, _ in offsets:
        visible = next((at for at in range(low, len(text)) if not text[at].isspace()), len(text))
        starts.append(max([visible, *starts[-1:]]))

    def holding(at):
        held = [token for token, start in enumerate(starts) if start <= at]
        if not held or offsets[held[-1]][1] <= at:
            return None
        return starts.index(starts[held[-1]])

    phrase = {0} | {holding(at) for at in begins}
    found, last = [0] * len(starts), -1
    for low, high in marker.names.spans(text).tolist():
        first = holding(low)
        if first is None:
            continue
        end = max(token for token, start in enumerate(starts) if start <= high - 1)
        if first > last:
            found[first] |= ENTITY
            for token in range(first + 1, end + 1):
                found[token] |= INSIDE
            phrase |= {first, end + 1}
        last = max(last, end)
    for token, start in enumerate(starts):
        found[token] |= PHRASE if token in phrase else INSIDE
        word = start
        while 0 < word < len(text) and text[word - 1].isalnum() and not "\u4e00" <= text[word - 1] <= "\u9fff":
            word -= 1
        if start < len(text) and text[start].isascii() and text[start].isalnum() and text[word].isupper():
            found[token] |= CAPITAL
    return found


CUTTERS = {
    kind: tokenizer(kind, "Ab ab, a b ABc abc 中国 北京 在北京 a中b国") for kind in ("wordpiece", "byte-bpe", "unigram")
}


@pytest.mark.parametrize("kind", CUTTERS)
@pytest.mark.parametrize("segment", ["words", "chinese"])
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("aabbAB, 中国北京", max_size=25), min_size=1, max_size=5),
    names=st.lists(st.text("abA 中国北京", min_size=1, max_size=4), max_size=5),
    phrases=st.lists(st.text("ab 中国北京", min_size=2, max_size=5), max_size=5),
)
def test_marks_against_a_naive_twin(kind, segment, texts, names, phrases):
    marker = Marker(
        bits=CAPITAL | PHRASE | ENTITY,
        segment=segment,
        names=NameMatcher(names),
        phrases=NameMatcher(phrases, fold=True),
    )
    offsets = [places for _, places in CUTTERS[kind].encode_batch_placed(texts)]
    wanted = [naive_marks(text, places.tolist(), marker) for text, places in zip(texts, offsets, strict=True)]
    assert [marks.tolist() for marks in marker.marks(texts, offsets)] == wanted


def test_a_line_of_megabytes_has_its_marks(tmp_path):
    line = "我爱北京天安门， " * 120_000
    marker = Marker(bits=PHRASE | ENTITY, segment="chinese", names=NameMatcher(["北京"]))
    text, _ = encoded(tmp_path, ["", line, ""], marker, tokenizer("wordpiece", CHINESE))
    assert len(text.marks) == len(text) == 8 * 120_000 + 1
    assert text.stats.lines == 1
    assert text.marked.entities == 120_000  # it is cut at spaces


def encoded(folder, lines, marker=None, cutter=None) -> tuple[EncodedText, Tokenizer]:
    path = folder / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    cutter = cutter or tokenizer("wordpiece", " ".join(lines))
    return encode_text(Corpus.of_paths([path]), cutter, LinesConfig(), marker=marker, cache=folder), cutter


def test_a_text_has_its_marks_beside_its_tokens(tmp_path):
    lines = [ENGLISH, "", CHINESE, "The End", "  ", "of It"]
    marker = Marker(bits=CAPITAL | PHRASE | ENTITY, segment="chinese", names=NameMatcher(["黑龙江", "The End"]))
    text, cutter = encoded(tmp_path, lines, marker)
    plain, _ = encoded(tmp_path, lines, cutter=cutter)
    assert plain.marks is None
    assert plain.fingerprint != text.fingerprint
    assert plain.tokens.tolist() == text.tokens.tolist()
    assert text.marked.entities == 2
    assert text.verify() == []
    wanted = []
    for line in (ENGLISH, CHINESE, "The End", "of It"):
        wanted += [*marked(cutter, line, **vars(marker))[1].tolist(), 0]
    assert text.marks.tolist() == wanted
    stream = SentenceStream(text, 0, len(text), separator=cutter.sep_id)
    kept = [mark for mark, token in zip(text.marks, text.tokens, strict=True) if token != cutter.eos_id]
    got = stream.read_marks(0, len(stream))
    tokens = stream.read(0, len(stream))
    assert got[tokens != cutter.sep_id].tolist() == kept
    assert not got[tokens == cutter.sep_id].any()
    for low, high in ((0, 3), (5, 30), (len(stream) - 4, len(stream)), (4, 4)):
        assert stream.read_marks(low, high).tolist() == got[low:high].tolist()


def test_without_marks_a_text_is_as_it_was(tmp_path):
    text, cutter = encoded(tmp_path, [ENGLISH])
    assert sorted(path.name for path in text.folder.iterdir() if path.suffix == ".bin") == [
        "documents.bin", "lines.bin", "tokens.bin",
    ]  # fmt: skip
    assert '"marks"' not in (text.folder / "text.json").read_text()
    stream = SentenceStream(text, 0, len(text), separator=cutter.sep_id)
    with pytest.raises(CorpusError, match=r"text\.txt: was encoded without marks"):
        stream.read_marks(0, 2)


def test_marks_have_a_fingerprint_of_all_they_depend_on(tmp_path):
    first = Marker(bits=PHRASE | ENTITY, names=NameMatcher(["a b"]))
    others = [
        dataclasses.replace(first, bits=PHRASE), dataclasses.replace(first, segment="chinese"),
        dataclasses.replace(first, names=NameMatcher(["a"])), dataclasses.replace(first, inline=True),
        dataclasses.replace(first, found_by="x"), dataclasses.replace(first, phrases=NameMatcher(["a b"])),
    ]  # fmt: skip
    found = {str(marker.identity()) for marker in [first, *others]}
    assert len(found) == 7
    assert str(Marker(bits=PHRASE | ENTITY, names=NameMatcher(["a  b ", ""])).identity()) in found


def test_a_damaged_file_of_marks_is_made_again(tmp_path):
    marker = Marker(bits=CAPITAL)
    text, cutter = encoded(tmp_path, [ENGLISH], marker)
    wanted = text.marks.tolist()
    (text.folder / "marks.bin").write_bytes(b"\0")
    again, _ = encoded(tmp_path, [ENGLISH], marker, cutter)
    assert again.marks.tolist() == wanted
