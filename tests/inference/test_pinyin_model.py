"""Converters that are networks: constraints, n-best lists, probabilities, and whatever people type."""

import math
from itertools import product

import pytest
import torch

from wenmai.core.errors import CorpusError, PinyinError, SettingError
from wenmai.inference.pinyin_labelling import build
from wenmai.inference.pinyin_letters_model import PinyinLettersModel
from wenmai.inference.pinyin_model import PinyinModel
from wenmai.inference.pinyin_numbers import BLANK, Numbers, number_characters, number_symbols
from wenmai.inference.pinyin_typing import Cutter
from wenmai.models.pinyin import Pinyin, PinyinConfig
from wenmai.models.pinyin_letters import PinyinLetters, PinyinLettersConfig

CHARACTERS = "我你泥好号西安先现爱行航银长，。"
CANDIDATES = {
    "wo3": "我",
    "ni3": "你",
    "ni2": "泥",
    "hao3": "好",
    "hao4": "号好",
    "xi1": "西",
    "an1": "安",
    "xian1": "先",
    "xian4": "现",
    "ai4": "爱",
    "xing2": "行",
    "hang2": "行航",
    "yin2": "银",
    "chang2": "长",
    "zhang3": "长",
}
for _syllable, _characters in list(CANDIDATES.items()):
    _bare = _syllable[:-1]
    CANDIDATES[_bare] = "".join(dict.fromkeys(CANDIDATES.get(_bare, "") + _characters))
COUNTS = {syllable: 3 for syllable in CANDIDATES if syllable.isalpha()}


def numbers(symbols):
    return Numbers(number_symbols(symbols, COUNTS), number_characters(CHARACTERS, [1] * len(CHARACTERS)), CANDIDATES)


def syllables(seed=1, readings=True, **settings):
    torch.manual_seed(seed)
    known = numbers(CANDIDATES)
    config = PinyinConfig(**{"hidden_size": 12, "num_layers": 1, "num_heads": 3} | settings)
    sizes = {"readings": len(known.symbols)} if readings else {}
    model = PinyinModel(build(Pinyin, config, known, **sizes), known)
    sharpened(model)
    return model


def letters(seed=1, **settings):
    torch.manual_seed(seed)
    known = numbers("abcdefghijklmnopqrstuvwxyz12345")
    config = PinyinLettersConfig(**{"hidden_size": 12, "num_layers": 1, "num_heads": 2} | settings)
    model = PinyinLettersModel(build(PinyinLetters, config, known), known)
    sharpened(model)
    return model


def sharpened(model):
    for head in model.module.heads.values():
        head.matrix.data.mul_(40)  # so that the differences are seen
    model.module.eval()


@pytest.mark.parametrize("make", [syllables, letters])
class TestConverters:
    def test_any_white_space_separates_syllables(self, make):
        (plain, *others) = make().convert([f"wo{space}ai" for space in " \u00a0\u2003\u3000\x1f\u2028\u0085"])
        assert all(one == plain for one in others)

    def test_every_character_has_the_reading_that_was_typed(self, make):
        model = make()
        for typed in ("wo ai ni hao", "wo3 ai4 ni3 hao4", "wǒ ài nǐ hǎo", "ni hao xi an"):
            (found,) = model.convert([typed], n_best=5)
            for one in found:
                parts = typed.split()
                assert len(one.text) == len(parts)
                for syllable, character in zip(parts, one.text, strict=True):
                    readings = {key for key, written in CANDIDATES.items() if character in written}
                    plain = {"wǒ": "wo3", "ài": "ai4", "nǐ": "ni3", "hǎo": "hao3"}.get(syllable, syllable)
                    assert plain in readings

    def test_a_text_is_converted_as_it_is_alone(self, make):
        model = make()
        texts = ["wo", "ni hao", "wo ai ni，hao", "", "xianhang", "yin hang chang", "wo" * 9]
        for text, found in zip(texts, model.convert(texts, n_best=3), strict=True):
            (alone,) = model.convert([text], n_best=3)
            assert [one.text for one in alone] == [one.text for one in found]
            assert [one.probability for one in alone] == pytest.approx([one.probability for one in found], rel=1e-4)

    def test_probabilities_of_all_candidates_sum_to_one(self, make):
        for text in ("nihao", "xian", "xi'an", "hao4 hang2", "nihao，xian"):
            (found,) = make().convert([text], n_best=500)
            assert sum(one.probability for one in found) == pytest.approx(1, abs=1e-4)
            assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
            assert len({one.text for one in found}) == len(found)

    def test_the_best_of_many_is_the_best_of_one(self, make):
        for seed in range(3):
            model = make(seed)
            for text in ("nihaohao", "ni hao hang"):
                ((one,),) = model.convert([text])
                assert model.convert([text], n_best=9)[0][0].text == one.text

    def test_an_apostrophe_is_a_hard_break(self, make):
        for typed in ("xi'an", "xi’an"):
            assert {one.text for one in make().convert([typed], n_best=99)[0]} == {"西安"}
        assert {one.text for one in make().convert(["xian"], n_best=3)[0]} == {"西安", "先", "现"}

    def test_tones_are_heard_unless_they_are_left_out(self, make):
        assert {one.text for one in make().convert(["hao4ni2"], n_best=2)[0]} == {"号泥", "好泥"}
        found = make().convert(["hao4 ni2"], n_best=4, toned=False)
        assert found == make().convert(["hao ni"], n_best=4)
        assert {one.text for one in found[0]} == {"号泥", "好泥", "号你", "好你"}

    def test_what_is_no_pinyin_is_kept(self, make):
        model = make()
        assert [found[0].text for found in model.convert(["，", "3。", "wo，3", "", "   ", "Wo"])] == [
            "，",
            "3。",
            "我，3",
            "",
            "",
            "我",
        ]
        assert model.convert(["我ai"])[0][0].text == "我爱"
        assert model.convert(["‘wo’，‘’"])[0][0].text == "‘我’，‘’"
        assert model.convert(["vvv"])[0][0].text == "vvv"
        assert model.convert(["wo6"])[0][0].text == "我6"

    def test_long_inputs_are_read_in_parts(self, make):
        model = make(max_length=8)
        ((found,),) = model.convert(["wo ai ni hao，" * 20])
        assert len(found.text) == 100
        assert found.text.count("，") == 20
        ((found,),) = model.convert(["ai" * 5000])
        assert found.text == "爱" * 5000
        assert 0 <= found.probability <= 1

    def test_long_inputs_without_a_mark_are_not_cut_within_a_syllable(self, make):
        ((found,),) = make(max_length=10).convert(["zhang3yinhang" * 20])
        assert {found.text[place : place + 3] for place in range(0, 60, 3)} <= {"长银行", "长银航"}
        assert len(found.text) == 60

    def test_one_string_is_refused(self, make):
        with pytest.raises(SettingError, match="in brackets"):
            make().convert("wo")
        with pytest.raises(SettingError, match="n_best=0"):
            make().convert(["wo"], n_best=0)

    def test_what_is_no_text_is_refused(self, make):
        with pytest.raises(CorpusError, match="texts from Python are strings; one is NoneType"):
            make().convert(["wo", None])

    def test_a_stored_model_converts_alike(self, make, tmp_path):
        model = make()
        model.save(tmp_path)
        again = type(model).load(tmp_path)
        assert again.convert(["nihao，wo3"], n_best=4) == model.convert(["nihao，wo3"], n_best=4)


def test_probabilities_are_those_of_the_candidates():
    model = syllables()
    known = model.numbers
    ids = [known.symbol(one) for one in ("ni", "hao")]
    logits = model.module.logits(torch.tensor([ids]))[0].detach().double()
    expected = {}
    for one, other in product("你泥", "好号"):
        parts = []
        for row, character, written in zip(logits, (one, other), ("你泥", "好号"), strict=True):
            among = torch.stack([row[known.characters.index(each)] for each in written])
            parts.append(float(row[known.characters.index(character)] - among.logsumexp(0)))
        expected[one + other] = math.exp(sum(parts))
    found = {one.text: one.probability for one in model.convert(["ni hao"], n_best=9)[0]}
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_best_way_to_cut_is_found_without_reading_all():
    """The ways that the network leaves out could not win: many candidates come from all ways."""
    typed = ["xian", "xianxian", "woxianhao", "xianhangxian", "haoxian，xian", "nihaoxianxian", "woainihao"]
    for seed in range(8):
        model = syllables(seed)
        for text, one in zip(typed, model.convert(typed), strict=True):
            best = model.convert([text], n_best=2)[0][0]
            assert one[0].text == best.text
            assert one[0].probability == pytest.approx(best.probability, rel=1e-3)


def test_an_unknown_syllable_may_be_any_character():
    ((found,),) = syllables().convert(["guo2"])
    assert found.text in CHARACTERS
    (found,) = syllables().convert(["wo ni"], n_best=300, constrained=False)
    assert len(found) == min(300, len(CHARACTERS) ** 2)


def test_the_text_before_is_read():
    model = syllables()
    before = model.convert(["hao hang"], n_best=9)[0]
    after = model.convert(["hao hang"], n_best=9, context="我你好")[0]
    assert {one.text for one in before} == {one.text for one in after}
    assert [one.probability for one in before] != pytest.approx([one.probability for one in after])


def test_incomplete_syllables_are_completed():
    texts = {one.text for one in syllables().convert(["nih"], n_best=99)[0]}
    assert {"你好", "泥航"} <= texts


def test_digits_stay_where_tones_are_left_out():
    ((found,),) = letters().convert(["wo3 2025 ai4 3 3.14"], toned=False)
    assert [one for one in found.text if one.isdigit() or one == "."] == [*"202533.14"]
    toneless = letters().convert(["wo 2025 ai 3 3.14"])
    assert toneless == [[found]]


def test_tones_that_are_left_out_still_end_syllables():
    (found,) = letters().convert(["xi1an1"], n_best=99, toned=False)
    assert {one.text for one in found} == {"西安"}
    assert found == letters().convert(["xi'an"], n_best=99)[0]


def test_an_initial_behind_spaces_is_an_incomplete_syllable():
    (way,) = Cutter(numbers(CANDIDATES)).read("wo ai n")
    assert [len(piece.syllables) > 1 for piece in way.pieces] == [False, False, True]


@pytest.mark.parametrize("toned", [None, False])
def test_an_r_behind_a_syllable_is_erhua_without_a_tone_too(toned):
    (way,) = Cutter(numbers([*CANDIDATES, "er", "er5"])).read("wor", toned=toned)
    assert [piece.syllables for piece in way.pieces] == [("wo",), ("er5",)]


def test_the_labels_of_letters_are_searched_exactly():
    """All consistent labellings of the letters, one by one."""
    model = letters()
    known = model.numbers
    typed = "xianhao"
    log_probs = (
        model.module.logits(torch.tensor([[known.symbol(one) for one in typed]])).log_softmax(-1)[0].detach().double()
    )

    def labellings(place):
        if place == len(typed):
            yield "", 0.0
        for end in range(place + 1, len(typed) + 1):
            for character in CANDIDATES.get(typed[place:end], ""):
                score = float(log_probs[place, known.characters.index(character)])
                score += float(log_probs[place + 1 : end, BLANK].sum())
                for rest, other in labellings(end):
                    yield character + rest, score + other

    every = dict(labellings(0))
    total = torch.tensor(list(every.values()), dtype=torch.float64).logsumexp(0)
    expected = {text: math.exp(score - total) for text, score in every.items()}
    found = {one.text: one.probability for one in model.convert([typed], n_best=99)[0]}
    assert found.keys() >= expected.keys()
    assert {text: found[text] for text in expected} == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_readings_are_chosen_among_those_of_the_character():
    model = syllables()
    found = model.annotate(["银行，长3", "", "龘"])
    assert found[0][0] == "yin2"
    assert found[0][1] in ("xing2", "hang2")
    assert found[0][3] in ("chang2", "zhang3")
    assert [found[0][2], found[0][4]] == ["，", "3"]
    assert found[1:] == [[], ["da2"]]
    with pytest.raises(SettingError, match="reversed_share"):
        syllables(readings=False).annotate(["银行"])
    with pytest.raises(CorpusError, match="texts from Python are strings; one is NoneType"):
        syllables().annotate(["银行", None])


def test_a_word_of_another_language_is_one_part():
    (one,) = Cutter(numbers(CANDIDATES)).read("woaiiPhoneni")
    assert [piece.text for piece in one.pieces] == ["wo", "ai", "iPhone", "ni"]
    assert one.pieces[2].syllables == ()


TEN_THOUSAND = "woainihao" * 1112  # letters without a break


@pytest.mark.parametrize("make", [syllables, letters])
class TestWhatPeopleType:
    @pytest.mark.parametrize(
        ("typed", "expected"),
        [
            ("wo0", "我"),  # 0 is the neutral tone, as 5 is
            ("wo6", "我6"),  # 6 is no tone
            ("WO Ai", "我爱"),
            ("Ｗｏ", "我"),
            ("我ai你", "我爱你"),
            ("龘wo", "龘我"),
            ("wo2026", "我2026"),
            ("vvv", "vvv"),
            ("wo，iPhone", "我，iPhone"),
            ("ＶＶ wo", "ＶＶ我"),
            ("3.14", "3.14"),
            ("\x00wo", "\x00我"),
            ("🙂wo", "🙂我"),
        ],
    )
    def test_it_is_converted_or_kept(self, make, typed, expected):
        assert make().convert([typed])[0][0].text == expected

    def test_ten_thousand_letters_without_a_break(self, make):
        ((found,),) = make().convert([TEN_THOUSAND])
        assert 0 <= found.probability <= 1
        assert 4 * 1100 <= len(found.text) <= 6 * 1112  # hao may be ha and o

    def test_ten_thousand_letters_that_are_no_syllables(self, make):
        assert make().convert(["v" * 10_000])[0][0].text == "v" * 10_000

    def test_an_empty_dictionary(self, make):
        model = make()
        model.numbers.candidates.clear()
        model.numbers.__dict__.pop("choices", None)
        found = model.convert(["wo", "wo3 ni", "，"])
        if make is letters:
            assert [one[0].text for one in found] == ["wo", "wo3ni", "，"]
        else:  # any character
            assert [len(one[0].text) for one in found] == [1, 2, 1]


@pytest.mark.parametrize("typed", ["guo", "woguo", "wo guo2 ni", "guo'wo", "q"])
def test_letters_of_which_no_character_is_known_stay_as_they_are(typed):
    ((found,),) = letters().convert([typed])
    expected = {"guo": "guo", "woguo": "我guo", "guo'wo": "guo我", "q": "q"}
    if typed == "wo guo2 ni":
        assert found.text in ("我guo2你", "我guo2泥")
    else:
        assert found.text == expected[typed]


class TestFuzzyPairs:
    def test_sounds_are_taken_for_each_other(self):
        model = syllables()
        assert {one.text for one in model.convert(["zan hao"], n_best=99, fuzzy=["zh/z", "an/ang"])[0]} & {"长好"}
        assert {one.text for one in model.convert(["xin"], n_best=99, fuzzy="all")[0]} >= {"行"}
        assert model.convert(["xin"], n_best=9, fuzzy="in/ing") == model.convert(["xin"], n_best=9, fuzzy=["in/ing"])

    def test_a_pair_that_is_none_is_refused(self):
        with pytest.raises(SettingError, match="not one of the fuzzy pairs"):
            syllables().convert(["xin"], fuzzy="x/y")
        with pytest.raises(SettingError, match="not one of the fuzzy pairs"):
            syllables().session(fuzzy=["x/y"])


class TestWordsOfTheUser:
    def test_they_win_until_they_are_forgotten(self):
        for seed in range(3):
            model = syllables(seed)
            before = model.convert(["wonihao", "xian"], n_best=3)
            model.add_word("泥号", "ni hao")
            model.add_word("溪庵", "xi an")  # of characters that the model does not know
            assert [one[0].text for one in model.convert(["wonihao", "xian", "xi'an"])] == ["我泥号", "溪庵", "溪庵"]
            assert model.session().type("wonihao")[0].text == "我泥号"
            (found,) = model.convert(["wonihao"], n_best=5)
            assert sum(one.probability for one in found) <= 1 + 1e-6
            model.forget_word("泥号")
            model.forget_word("溪庵")
            assert model.convert(["wonihao", "xian"], n_best=3) == before

    def test_those_that_sound_alike_are_all_offered_and_so_is_what_there_was_before(self):
        for seed in range(3):
            model = syllables(seed)
            before = {one.text for one in model.convert(["ni hao"], n_best=99)[0]}
            for word in ("泥号", "妮郝"):
                model.add_word(word, "ni hao")
            (found,) = model.convert(["ni hao"], n_best=99)
            assert {one.text for one in found[:2]} == {"泥号", "妮郝"}
            assert {one.text for one in found} == before | {"妮郝"}
            assert sum(one.probability for one in found) == pytest.approx(1, abs=1e-3)
            assert {one.text for one in model.session().type("ni hao")[:2]} == {"泥号", "妮郝"}

    def test_tones_that_are_typed_must_be_theirs(self):
        model = syllables()
        model.add_word("泥号", "ni2 hao4")
        assert model.convert(["ni2 hao4"])[0][0].text == "泥号"
        assert model.convert(["ni3 hao3"])[0][0].text == "你好"

    def test_a_small_weight_does_not_win(self):
        model = syllables()
        best = model.convert(["nihao"])[0][0].text
        other = "泥号" if best == "你好" else "你好"
        model.add_word(other, "ni hao", weight=-50)
        assert model.convert(["nihao"])[0][0].text == best

    def test_a_reading_must_fit(self):
        with pytest.raises(PinyinError, match="one syllable a character"):
            syllables().add_word("泥号", "ni")


def test_attention_has_a_map_for_each_layer():
    model = syllables(num_layers=2)
    found = model.attention("wo，xi'an", context="你")
    assert found.tokens == ["你", "wo", "，", "xi", "an"]
    assert found.text == "我，西安"
    assert sorted(found.weights) == ["encoder.layers.0.self", "encoder.layers.1.self"]
    for weights in found.weights.values():
        assert weights.shape == (3, 5, 5)
        assert weights.sum(-1) == pytest.approx(1, abs=1e-5)
    with pytest.raises(SettingError, match="no input"):
        model.attention("  ")


def test_attention_is_that_of_the_way_with_the_words_of_the_user():
    model = syllables()
    assert len(model.attention("xian").tokens) == 1
    model.add_word("溪庵", "xi an")
    found = model.attention("xian")
    assert (found.text, found.tokens) == ("溪庵", ["xi", "an"])
    assert all(weights.shape == (3, 2, 2) for weights in found.weights.values())
