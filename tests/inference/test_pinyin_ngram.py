"""Converters of pinyin by n-grams: against all paths, against a bigram of their own; what is typed, and how."""

import itertools
import math
import random

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import CorpusError, FormatError, PinyinError, SettingError
from wenmai.inference.pinyin_input import Typing
from wenmai.inference.pinyin_lattice import Beam
from wenmai.inference.pinyin_ngram import CharacterScores, PinyinNgramModel
from wenmai.kernels.ngram_lookup import END
from wenmai.models.pinyin_ngram import INVENTORY, Lexicon, Reading

pytest.importorskip("pypinyin")

TEXT = [
    "我爱北京天安门。",
    "中国人民银行在北京。",
    "我在西安，你在哪儿？",
    "她先到西安了。",
    "他反感这个方案。",
    "我在银行工作。",
    "你好，我爱你。",
    "这个方案好！",
    "他行走在天安门。",
    "先生，女儿在这儿。",
] * 3
READINGS = {"ni": "你泥", "hao": "好号", "wo": "我窝", "ai": "爱矮", "xi": "西", "an": "安", "xian": "先县"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("pinyin"))


def trained(folder):
    text = folder / "text.txt"
    text.write_text("\n".join(TEXT))
    return wenmai.train("pinyin-ngram", text, out=folder / "run", listed=False, least=1, order=3)


@pytest.fixture
def model(run):
    return wenmai.load(run.path)


@pytest.fixture(scope="module")
def bigram(tmp_path_factory):
    """Any n-gram model of characters."""
    draw = random.Random(5)
    characters = "".join(READINGS.values())
    text = tmp_path_factory.mktemp("bigram") / "text.txt"
    text.write_text("".join("".join(draw.choices(characters, k=draw.randint(1, 6))) + "\n" for _ in range(80)))
    return wenmai.train("ngram", text, out=text.parent / "run", segment="characters", order=2).model.model


def best(model, text, **options):
    return model.convert([text], **options)[0][0].text


# --- equations ------------------------------------------------------------------------------------------------------


def test_a_bigram_converts_as_one_of_a_few_lines_does(bigram):
    """argmax Π P(c_t | c_{t-1}) P(</s> | c_T), over all characters of all syllables."""
    readings = [Reading(c, (s,), (1,), 0.0) for s, found in READINGS.items() for c in found]
    model = PinyinNgramModel.of_ngram(bigram, readings)
    number = {character: bigram.vocab.get(character) for found in READINGS.values() for character in found}
    rows = {}
    for character, one in {"": None, **number}.items():
        state = bigram.begin()
        if one is not None:
            bigram.advance(state, [one])
        rows[character] = bigram.distribution(state).astype(np.float64)

    def probability(text):
        steps = itertools.pairwise(["", *text])
        return sum(rows[before][number[after]] for before, after in steps) + rows[text[-1]][END]

    for syllables in itertools.chain.from_iterable(itertools.product(READINGS, repeat=size) for size in (1, 2, 3)):
        texts = ["".join(found) for found in itertools.product(*[READINGS[syllable] for syllable in syllables])]
        expected = max(texts, key=probability)
        found = model.convert([" ".join(syllables)], n_best=len(texts))[0]
        if len(syllables) == 1:  # one word by itself is not known to be spaced
            found = [one for one in found if len(one.text) == 1]
        assert probability(found[0].text) == pytest.approx(probability(expected), abs=1e-5)
        if len(syllables) > 1:
            total = sum(math.exp(probability(text)) for text in texts)
            assert {one.text for one in found} == {*texts}
            assert all(
                one.probability == pytest.approx(math.exp(probability(one.text)) / total, rel=1e-4) for one in found
            )


def test_the_worked_example():
    """P(你)=.9 P(泥)=.1 P(好|你)=.8 P(号|你)=.2 P(好|泥)=.1 P(号|泥)=.9: 你好 has .72, 泥号 .09."""
    shares = {"你好": 0.72, "你号": 0.18, "泥好": 0.01, "泥号": 0.09}
    readings = [Reading(text, ("ni", "hao"), (3, 3), math.log(share)) for text, share in shares.items()]
    lexicon = Lexicon.of(INVENTORY, readings)
    assert [lexicon.word(entry) for entry in range(4)] == ["你好", "你号", "泥号", "泥好"]
    assert np.exp(lexicon.weights) == pytest.approx([0.72, 0.18, 0.09, 0.01])


def paths(model, letters):
    """The best score of each text that the words of a model can make of letters."""
    lexicon, config = model.lexicon, model.config
    words = []
    for node in range(len(lexicon.syllables)):
        spelt, here = [], node
        while here:
            spelt.append(INVENTORY[lexicon.syllables[here]])
            here = int(np.searchsorted(lexicon.first, here, side="right")) - 1
        for entry in range(lexicon.entries[node], lexicon.entries[node + 1]):
            words.append(("".join(spelt[::-1]), lexicon.word(entry), float(lexicon.weights[entry])))

    def walk(rest):
        if not rest:
            yield ()
        for spelt, word, weight in words:
            if rest.startswith(spelt):
                yield from (((word, weight), *after) for after in walk(rest[len(spelt) :]))

    def score(ngrams, tokens):
        return float(ngrams.log_probs(np.array([*(ngrams.vocab.get(t) or 0 for t in tokens), END])).sum())

    found = {}
    for path in walk(letters):
        text = "".join(word for word, _ in path)
        value = sum(weight for _, weight in path)
        value += config.character_weight * score(model.characters, text)
        value += config.word_weight * score(model.words, [word for word, _ in path])
        found[text] = max(found.get(text, -math.inf), value)
    return found


@pytest.mark.parametrize("letters", ["fangan", "xian", "zaizher", "woaini"])
def test_it_finds_the_best_of_all_texts(run, letters):
    small = run.model
    kept = [
        Reading(small.lexicon.word(entry), *reading, float(small.lexicon.weights[entry]))
        for entry, reading in enumerate(spelt(small.lexicon))
        if small.lexicon.word(entry) in "".join(TEXT)
    ]
    model = PinyinNgramModel(small.config, small.text, small.characters, small.words, Lexicon.of(INVENTORY, kept))
    model.beam = Beam(size=2000, reach=1000.0)
    expected = sorted(paths(model, letters).items(), key=lambda one: -one[1])
    found = model.convert([letters], n_best=50)[0]
    assert [one.text for one in found[:5]] == [text for text, _ in expected[:5]]
    ratios = [math.log(one.probability / found[0].probability) for one in found]
    assert ratios == pytest.approx([score - expected[0][1] for _, score in expected[: len(found)]], abs=1e-4)


def spelt(lexicon):
    """The syllables and tones of each word."""
    for entry in range(len(lexicon)):
        node = int(np.searchsorted(lexicon.entries, entry, side="right")) - 1
        syllables = []
        while node:
            syllables.append(INVENTORY[lexicon.syllables[node]])
            node = int(np.searchsorted(lexicon.first, node, side="right")) - 1
        tones = int(lexicon.tones[entry])
        yield tuple(syllables[::-1]), tuple(tones >> 4 * place & 15 for place in range(len(syllables)))


# --- what is typed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("woaibeijingtiananmen", "我爱北京天安门"),
        ("wo3 ai4 bei3 jing1 tian1 an1 men2", "我爱北京天安门"),
        ("wo ai beijing", "我爱北京"),
        ("wǒ ài běi jīng。", "我爱北京。"),
        ("WoAiBeiJing", "我爱北京"),
        ("xi'an", "西安"),
        ("xi’an ‘wo’，‘’", "西安‘我’，‘’"),
        ("xian1sheng1", "先生"),
        ("xi1an1", "西安"),
        ("zher", "这儿"),
        ("zher4", "这儿"),
        ("nizainar？", "你在哪儿？"),
        ("nv3'er2", "女儿"),
        ("nü er", "女儿"),
        ("zgrmyh", "中国人民银行"),
        ("wozaiyinhanggongz", "我在银行工作"),
        ("xingzou", "行走"),
        ("zai4na3r", "在哪儿"),
        ("woaizho", "我爱中"),  # the last syllable is not complete
        ("woaizhon", "我爱中"),
        ("nǐ wo VIP", "你我VIP"),
        ("我zai银行gongzuo，2024", "我在银行工作，2024"),
        ("", ""),
        ("  ", ""),
        ("……7", "……7"),
    ],
)
def test_an_input_is_read(model, typed, expected):
    assert best(model, typed) == expected


def test_tones_count_unless_they_are_left_out(model):
    assert best(model, "xian1") == "西安"
    assert best(model, "wo3 xian1") == "我先"
    assert best(model, "hang2") == best(model, "hang2", toned=True) == "行"
    assert best(model, "xi1an1", toned=False) == best(model, "xi'an")
    assert best(model, "wo4 ai0 ni1") == "我爱你"  # tones that no character has only cost something
    assert best(model, "wo6").endswith("6")


def test_letters_that_form_no_syllable_stay(model):
    assert best(model, "vvv") == "vvv"
    assert best(model, "wovaini") == "我v爱你"
    assert best(model, "usb，VIP") == "usb，VIP"  # as they are typed


@pytest.mark.parametrize("word", ["iphone", "iPhone", "unity", "wifi", "ｉｏｓ"])
def test_a_word_of_another_language_stays_together(model, word):
    """Although syllables are in it: ph|o|ne, u|ni|ty."""
    assert best(model, word) == word
    assert best(model, f"woai{word}") == f"我爱{word}"
    assert best(model, f"{word}zaibeijing") == f"{word}在北京"


def test_the_end_of_a_foreign_word_is_no_likely_character(tmp_path):
    """Where the model knows 呢 and 而: ipho|ne, twitt|er."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join([*TEXT, "你在哪儿呢？", "我想先来而后走。"]))
    model = wenmai.train("pinyin-ngram", text, out=tmp_path / "run", listed=False, least=1, order=3).model
    assert best(model, "zainarne") == "在哪儿呢"
    assert best(model, "woaiiphone") == "我爱iphone"
    assert best(model, "woxiangtwitter") == "我想twitter"


def test_a_long_input_is_converted(model):
    text = best(model, "woaibeijing" * 300)
    assert text == "我爱北京" * 300
    assert len(best(model, "x" * 500)) == 500


def test_too_many_initials_are_characters_by_themselves(model):
    """So that 10,000 of them take a second, and not all words of all of them are tried."""

    def words(text):
        ((found, _, path),) = model.lattice(text, Typing(), begin=model.begin()).best(1)
        assert len(found) == len(text)
        return {entry for _, entry in path}

    assert best(model, "zgrmyh" * 50) == "中国人民银行" * 50
    assert {len(model.lexicon.word(entry)) for entry in words("zgrmyh" * 100)} == {1}
    assert best(model, "zgrmyh" * 100 + "zhongguorenmin").endswith("中国人民")  # what is complete has its words


def test_candidates_are_in_order(model):
    (found,) = model.convert(["fangan"], n_best=6)
    assert {one.text for one in found} >= {"方案", "反感"}
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert sum(one.probability for one in found) <= 1 + 1e-9
    assert len({one.text for one in found}) == 6
    assert model.convert(["fangan", "xian"]) == [model.convert([one])[0] for one in ("fangan", "xian")]


def test_the_text_before_counts(model):
    assert model.begin("我在") != model.begin("")
    assert model.begin("我在北京。") == model.begin("")
    alone, after = model.convert(["xian"])[0][0], model.convert(["xian"], context="我在")[0][0]
    assert alone != after
    with pytest.raises(CorpusError, match="lone surrogate"):
        model.convert(["xian"], context="\udcff")


def test_fuzzy_sounds_are_taken_for_each_other(model):
    assert best(model, "woai4bei3jin", fuzzy=["in/ing"]) == "我爱北京"
    assert best(model, "zongguorenmin", fuzzy=["zh/z"]) == "中国人民"
    with pytest.raises(SettingError, match="fuzzy pairs"):
        model.convert(["a"], fuzzy=["x/y"])


def test_wrong_calls_are_refused(model):
    with pytest.raises(SettingError, match="takes a list"):
        model.convert("woaini")
    with pytest.raises(CorpusError, match="texts from Python are strings; one is NoneType"):
        model.convert(["wo", None])
    with pytest.raises(SettingError, match="n_best=0"):
        model.convert(["wo"], n_best=0)


# --- words of the user ----------------------------------------------------------------------------------------------


def test_a_word_of_the_user_wins(model):
    assert best(model, "wenmai") != "文脉"
    model.add_word("文脉")
    assert best(model, "wozaiwenmaigongzuo") == "我在文脉工作"
    assert best(model, "wen2mai4") == "文脉"
    model.add_word("翁同龢", "weng tong he")
    assert best(model, "weng1tong2he2") == "翁同龢"
    assert [*model.user_words] == ["文脉", "翁同龢"]
    for reading in (None, "ying ge er", "ying1 ge1 r5"):
        model.add_word("莺歌儿", reading)
        assert [best(model, typed) for typed in ("yinggeer", "yingger", "ying1ge1r", "ying1ger1")] == ["莺歌儿"] * 4
        model.forget_word("莺歌儿")
    model.forget_word("文脉")
    model.forget_word("无")
    assert best(model, "wenmai") != "文脉"
    model.add_word("闻麦", weight=0.0)
    assert model.user_words["闻麦"][0].weight == 0
    with pytest.raises(PinyinError, match="one syllable a character"):
        model.add_word("文脉", "wen2")
    with pytest.raises(PinyinError):
        model.add_word("abc")
    with pytest.raises(PinyinError, match="17 characters; a word has at most 16"):
        model.add_word("文" * 17)


def test_characters_that_the_model_does_not_know_are_told_apart(model):
    for word in ("翀祎", "翀怡", "冲祎"):
        assert not {*word} & {*"".join(TEXT)}
        model.add_word(word, "chong yi")
    assert {one.text for one in model.convert(["chongyi"], n_best=3)[0]} == {"翀祎", "翀怡", "冲祎"}


# --- other models ---------------------------------------------------------------------------------------------------


def test_scores_of_another_model_are_added(model):
    columns = model.columns_of(lambda character: "爱艾哀".find(character) + 1)

    def others(text):
        scores = np.zeros((len(text), 4), np.float32)
        scores[2, 2] = 30.0  # 艾 where ai begins
        return CharacterScores(scores, weight=0.5)

    assert best(model, "woaini", others=others, columns=columns) == "我艾你"
    assert best(model, "waini", others=others, columns=columns) != "我艾你"


def test_a_model_of_words_converts(tmp_path):
    ngrams = wenmai.train("ngram", ["我 爱 北京", "你 爱 北京", "背景 好"], out=tmp_path / "run", order=2).model.model
    readings = [("我", "wo"), ("你", "ni"), ("爱", "ai"), ("北京", "bei jing"), ("背景", "bei jing"), ("好", "hao")]
    readings += [("他", "ta"), ("她", "ta")]
    model = PinyinNgramModel.of_ngram(
        ngrams, [Reading(word, (*spelt.split(),), (1,) * len(word), 0.0) for word, spelt in readings]
    )
    assert [best(model, typed) for typed in ("woaibeijing", "beijinghao")] == ["我爱北京", "背景好"]
    assert {one.text for one in model.convert(["taaibeijing"], n_best=2)[0]} == {"他爱北京", "她爱北京"}
    (tmp_path / "saved").mkdir()
    model.save(tmp_path / "saved")
    assert best(PinyinNgramModel.load(tmp_path / "saved"), "woaibeijing") == "我爱北京"
    loaded = PinyinNgramModel.of_ngram(wenmai.load(tmp_path / "run"))  # with the words of the list
    assert best(loaded, "woaibeijing") == "我爱北京"
    with pytest.raises(SettingError, match="of_ngram takes n-grams"):
        PinyinNgramModel.of_ngram(loaded)
    smoothed = wenmai.train("ngram", ["a b"], out=tmp_path / "k", smoothing="add-k", order=2).model.model
    with pytest.raises(SettingError, match="add-k"):
        PinyinNgramModel.of_ngram(smoothed, [])


def test_characters_that_the_model_lacks_are_still_candidates(bigram):
    model = PinyinNgramModel.of_ngram(bigram, [Reading("龘", ("da",), (2,), 0.0)])
    assert best(model, "da2") == "龘"
    assert best(model, "da2wo") == "龘wo"
    empty = PinyinNgramModel.of_ngram(bigram, [])
    assert best(empty, "woaini。") == "woaini。"


def test_a_model_of_characters_is_the_same_again(bigram, tmp_path):
    model = PinyinNgramModel.of_ngram(bigram, [Reading("你", ("ni",), (3,), 0.0)], word_weight=0.5)
    model.save(tmp_path)
    assert PinyinNgramModel.load(tmp_path).convert(["ni"]) == model.convert(["ni"])


def test_text_without_a_chinese_character_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="no Chinese character"):
        wenmai.train("pinyin-ngram", ["hello world", "how are you"], out=tmp_path / "run")


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_model_is_the_same_again(run, model, tmp_path):
    model.save(tmp_path)
    again = PinyinNgramModel.load(tmp_path)
    texts = ["woaibeijing", "zgrm", "xi'an"]
    assert again.convert(texts, n_best=3) == model.convert(texts, n_best=3) == run.model.convert(texts, n_best=3)
    assert repr(again) == repr(model)


@pytest.mark.parametrize("name", ["first", "syllables", "entries", "bounds", "codes"])
def test_numbers_that_lead_elsewhere_are_refused(model, tmp_path, name):
    model.save(tmp_path)
    path = tmp_path / "lexicon.safetensors"
    raw = bytearray(path.read_bytes())
    size = int.from_bytes(raw[:8], "little")
    begin = 8 + size + _offset(raw[8 : 8 + size], name)
    raw[begin + 8 : begin + 12] = b"\xff\xff\xff\x7f"
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"lexicon\.safetensors"):
        PinyinNgramModel.load(tmp_path)


def _offset(header, name):
    import json

    return json.loads(header)[name]["data_offsets"][0]
