"""Sentences with their pinyin: gold files, plain text, and the encoded corpus."""

import lzma
from importlib import metadata

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, RunError, VocabError
from wenmai.data.corpus import Corpus, CorpusStats
from wenmai.data.encoded_transliteration import (
    EncodedTransliteration,
    TransliterationData,
    encode_transliteration,
    read_transliteration_data,
)
from wenmai.data.transliteration import (
    ChineseOfGold,
    TransliterationConfig,
    TransliterationStats,
    examples_of,
    read_gold,
)
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import TONED, TONELESS
from wenmai.text.pinyin.vocab import FIRST_OTHER, PAD_ID, UNKNOWN_ID, PinyinVocab

GOLD = "a/1.wav\tlv4 shi4 zher4 de\t绿是这儿的\nb\tni3 hao3 ｔ\t你 好 Ｔ\n"
CSV = "NUM,PINYIN,EXPECTED\n1,zainarbanli？,在哪儿办理？\n2,chongqingdenver，ok。,重庆的女儿，ok。\n"
TEXT = "银行在重庆。行走的人！ok then\n\n体育新闻标题\t3\n女儿３岁，会说abc。"


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))


def file_of(folder, content, name="text.txt"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def test_gold_files_are_read_as_they_are(tmp_path):
    first, second = read_gold(file_of(tmp_path, lzma.compress(GOLD.encode()), "gold.xz"))
    assert first.id == "a/1.wav"
    assert first.characters == "绿是这儿的"
    assert first.syllables == ("lv4", "shi4", "zhe4", "er5", "de5")
    assert first.erhua == (3,)
    assert first.typed == "lv4 shi4 zher4 de"
    assert second.characters == "你好Ｔ"
    assert second.syllables == ("ni3", "hao3", "Ｔ")


def test_toneless_gold_stays_toneless(tmp_path):
    (example,) = read_gold(file_of(tmp_path, "1\two de ma\t我的妈\n"))
    assert example.syllables == ("wo", "de", "ma")


def test_letters_without_spaces_are_aligned_with_the_characters(tmp_path):
    first, second = read_gold(file_of(tmp_path, CSV))
    assert first.syllables == ("zai", "na", "er", "ban", "li", "？")
    assert first.erhua == (2,)
    assert first.typed == "zainarbanli？"
    assert second.syllables == ("chong", "qing", "de", "nv", "er", "，", "o", "k", "。")
    assert second.erhua == ()
    assert second.id == "2"


def test_letters_without_dots_are_aligned_too(tmp_path):
    (example,) = read_gold(file_of(tmp_path, "NUM,PINYIN,EXPECTED\n1,lushihuilu,律师汇率\n"))
    assert example.syllables == ("lv", "shi", "hui", "lv")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has no sentence"),
        ("1\tni3\t你好\n", "line 1: has 1 syllables for 2 characters"),
        (GOLD + "c\tni6\t你\n", "line 3: 'ni6': there is no tone 6"),
        ("c\txyz\t你\n", "line 1: 'xyz' is no syllable"),
        (b"c\tni3\t\xff\n", "line 1: "),
        ("c\tni3\t你\0\n", "line 1: it has a NUL"),
    ],
)
def test_bad_lines_of_gold_files(tmp_path, content, says):
    with pytest.raises(CorpusError, match=says):
        list(read_gold(file_of(tmp_path, content)))


def test_plain_text_becomes_sentences_with_readings():
    stats = TransliterationStats()
    found = list(examples_of(TEXT.split("\n"), TransliterationConfig(), stats))
    assert [example.characters for example in found] == [
        "银行在重庆。",
        "行走的人！",
        "体育新闻标题",
        "女儿３岁，会说abc。",
    ]
    assert all(list(example.syllables) == readings_of(example.characters) for example in found)
    assert (stats.examples, stats.gold, stats.not_chinese) == (4, 0, 1)
    assert stats.characters == sum(len(example.characters) for example in found)


def test_bad_lines_and_repetitions_of_gold_are_counted():
    stats = TransliterationStats()
    lines = [*GOLD.split("\n"), "x\tni3\t你好", *GOLD.split("\n")]
    assert len(list(examples_of(lines, TransliterationConfig(), stats))) == 2
    assert (stats.gold, stats.malformed, stats.repeated) == (2, 1, 2)


def test_equal_pieces_of_one_gold_sentence_are_no_repetition():
    stats = TransliterationStats()
    line = f"1\t{'ni3 hao3 ， ' * 3}\t{'你好，' * 3}"
    found = list(examples_of([line, line], TransliterationConfig(longest=4), stats))
    assert "".join(example.characters for example in found) == "你好，" * 3
    assert (stats.gold, stats.repeated) == (3, 3)


def test_lines_of_gold_are_their_chinese_whatever_is_read_at_once():
    text = f"{CSV}# of others\n\n3,nihao,你好\n{GOLD}1\tni3\t你好\n词\t12\n{GOLD}plain\ttext\twith\ttabs 的\r\n"
    whole = (
        "在哪儿办理？\n重庆的女儿，ok。\n# of others\n\n你好\n绿是这儿的\n你好Ｔ\n词\nplain\ttext\twith\ttabs 的\r\n"
    )
    for size in (1, 3, 100):
        stats = CorpusStats()
        read = ChineseOfGold(stats)
        lines = text.splitlines(keepends=True)
        parts = ["".join(lines[place : place + size]) for place in range(0, len(lines), size)]
        assert "".join(map(read, parts)) == whole
        assert (stats.repeated, stats.malformed) == (2, 1)


def test_traditional_characters_become_simplified_ones():
    (found,) = examples_of(["漢語"], TransliterationConfig(script="simplified"), TransliterationStats())
    assert (found.characters, found.syllables) == ("汉语", ("han4", "yu3"))


@pytest.mark.parametrize("longest", [2, 5, 9, 40])
def test_pieces_are_the_sentence_again_and_have_its_number(longest):
    sentence = "今天天气很好，我们去公园散步，然后回家吃饭、晚上看书。"
    stats = TransliterationStats()
    (whole,) = examples_of([sentence], TransliterationConfig(longest=1000), stats)
    pieces = list(examples_of([sentence], TransliterationConfig(longest=longest), stats))
    assert "".join(piece.characters for piece in pieces) == sentence
    assert sum((piece.syllables for piece in pieces), ()) == whole.syllables
    assert max(len(piece.characters) for piece in pieces) <= longest
    assert {piece.sentence for piece in pieces} == {whole.sentence}
    if longest == 9:
        assert pieces[0].characters == "今天天气很好，"


def test_a_vocabulary_is_written_and_read(tmp_path):
    vocab = PinyinVocab("的了", "。a")
    assert vocab.num_symbols == 2 + len(TONELESS) + len(TONED) + 2 == FIRST_OTHER + 2
    assert vocab.encode_characters("了x的") == [3, UNKNOWN_ID, 2]
    assert vocab.character(3) == "了"
    assert vocab.character(PAD_ID) == vocab.character(UNKNOWN_ID) == ""
    ids = vocab.encode_reading(["zhong1", "zhong", "ben2", "ben", "。", "?"])
    assert ids[2] == ids[3]  # no word has this tone
    assert ids[4:] == [FIRST_OTHER, UNKNOWN_ID]
    assert vocab.toneless[ids[0]] == vocab.toneless[ids[1]] == ids[1]
    assert len(set(ids[:3])) == 3
    assert vocab.symbol_ids["a"] != vocab.symbol_ids["a1"]
    vocab.save(tmp_path / "vocab.json")
    again = PinyinVocab.load(tmp_path / "vocab.json")
    assert again == vocab
    assert again.fingerprint == vocab.fingerprint
    for damage in ("{}", '{"characters": [1], "others": ""}', '{"characters": "啊啊", "others": ""}'):
        (tmp_path / "vocab.json").write_text(damage, "utf-8")
        with pytest.raises(VocabError):
            PinyinVocab.load(tmp_path / "vocab.json")


def test_an_encoded_text_is_the_text(tmp_path):
    path = file_of(tmp_path, GOLD + CSV + TEXT)
    data = encode_transliteration(Corpus.of_paths([path]), TransliterationConfig(min_count=1))
    lines = path.read_text("utf-8").split("\n")
    examples = list(examples_of(lines, TransliterationConfig(), TransliterationStats()))
    assert len(data) == len(examples) == 8
    for number, example in enumerate(examples):
        symbols, characters = data.example(number)
        assert "".join(map(data.vocab.character, characters)) == example.characters
        assert symbols.tolist() == data.vocab.encode_reading(example.syllables)
        assert UNKNOWN_ID not in symbols
        assert data.sentences[number] == example.sentence
    assert set(data.vocab.characters[:2]) == set("的儿")
    assert data.verify() == []
    with pytest.raises(IndexError):
        data.example(8)
    again = encode_transliteration(Corpus.of_paths([path]), TransliterationConfig(min_count=1))
    assert again.folder == data.folder
    memory = encode_transliteration(Corpus.of_texts(lines), TransliterationConfig(min_count=1))
    assert memory.vocab == data.vocab
    assert np.array_equal(memory.symbols, data.symbols)


@pytest.mark.parametrize("library", ["pypinyin", "opencc"])
def test_a_text_is_read_again_with_another_version_of_what_reads_it(tmp_path, monkeypatch, library):
    corpus, config = Corpus.of_paths([file_of(tmp_path, TEXT)]), TransliterationConfig(script="simplified")
    before, known = encode_transliteration(corpus, config), metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "999" if name == library else known(name))
    after = encode_transliteration(corpus, config)
    assert after.fingerprint != before.fingerprint


def test_rare_characters_are_unknown(tmp_path):
    data = encode_transliteration(Corpus.of_texts(["的的的一"]), TransliterationConfig(min_count=2))
    assert data.vocab.characters == ("的",)
    assert data.characters.tolist() == [2, 2, 2, UNKNOWN_ID]


def test_all_pieces_of_a_sentence_are_on_one_side(tmp_path):
    sentences = [f"{one}天天气很好，我们去{two}园散步。" for one in "今明昨后前春夏秋冬雨" for two in "公花果校田庄"]
    path = file_of(tmp_path, "\n".join(sentences))
    data = read_transliteration_data(Corpus.of_paths([path]), TransliterationConfig(longest=7))
    train = set(data.train.sentences[data.train_numbers].tolist())
    valid_text, numbers = data.validated
    valid = set(valid_text.sentences[numbers].tolist())
    assert len(valid) == 1
    assert not train & valid
    assert len(train | valid) == len(sentences)
    assert len(numbers) > 1
    half = read_transliteration_data(Corpus.of_paths([path]), TransliterationConfig(longest=7, share=0.5))
    chosen = set(half.train.sentences[half.train_numbers].tolist())
    assert chosen < train
    assert 15 < len(chosen) < 45
    assert half.validated[1].tolist() == numbers.tolist()
    again = TransliterationData.reopen(half.fingerprint)
    assert again is not None
    assert again.train_numbers.tolist() == half.train_numbers.tolist()
    assert again.describe() == half.describe()


def test_a_text_to_validate_on_has_the_same_ids(tmp_path):
    valid = file_of(tmp_path, GOLD, "valid.txt")
    corpus = Corpus.of_paths([file_of(tmp_path, TEXT)])
    data = read_transliteration_data(corpus, TransliterationConfig(valid=str(valid), min_count=1))
    assert data.validated[0].vocab == data.vocab
    assert len(data.validated[1]) == 2
    assert len(data.train_numbers) == 4
    assert TransliterationData.reopen(data.fingerprint) is not None


@pytest.mark.parametrize("content", ["hello\n", "x\tni3\t你好\n"])
def test_text_without_chinese_is_refused(tmp_path, content):
    with pytest.raises(CorpusError, match="has no Chinese sentence"):
        encode_transliteration(Corpus.of_paths([file_of(tmp_path, content)]), TransliterationConfig())
    with pytest.raises(CorpusError, match="no sentence is left to train on"):
        read_transliteration_data(Corpus.of_texts(["你好"]), TransliterationConfig())


def test_characters_that_are_all_too_rare_are_said():
    with pytest.raises(VocabError, match="no character occurs min_count=9 times"):
        read_transliteration_data(Corpus.of_texts(["你好。", "我爱你。"] * 2), TransliterationConfig(min_count=9))


def test_a_damaged_folder_is_said(tmp_path):
    data = encode_transliteration(Corpus.of_texts(["你好，你好。"]), TransliterationConfig())
    for name in ("symbols.bin", "starts.bin", "vocab.json", "transliteration.json"):
        content = (data.folder / name).read_bytes()
        (data.folder / name).write_bytes(content[:-1])
        with pytest.raises(RunError):
            EncodedTransliteration.open(data.folder)
        (data.folder / name).write_bytes(content)
    assert EncodedTransliteration.open(data.folder).fingerprint == data.fingerprint
