"""An input key by key."""

import pytest

from tests.inference.test_pinyin_model import letters, syllables
from tests.inference.test_pinyin_ngram import trained
from wenmai.core.errors import SettingError
from wenmai.inference.pinyin_joined import JoinedConverter

pytest.importorskip("pypinyin")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("pinyin")).model


def test_a_sentence_is_typed(model):
    session = model.session()
    assert session.candidates == []
    for letter in "woaibeijing":
        offers = session.type(letter)
        assert offers == session.candidates
        assert 0 < len(offers) <= 9
        assert len({offer.text for offer in offers}) == len(offers)
    assert offers[0].text == session.preview == "我爱北京"
    assert offers[0].letters == 11
    words = [offer.text for offer in offers if offer.probability is None]
    assert "我" in words
    assert session.finish() == "我爱北京"
    assert (session.letters, session.text, session.candidates) == ("", "", [])
    session.type("tiananm")
    assert session.preview == "天安门"


def test_no_candidate_stands_for_no_letter(model):
    assert all(offer.letters for offer in model.session().type("r5"))
    wide = model.session()
    wide.type("ｗｏ３ａｉ")
    wide.choose(next(number for number, offer in enumerate(wide.candidates) if offer.text == "我"))
    assert wide.letters == "ａｉ"


def test_parts_are_chosen(model):
    session = model.session(context="我在")
    session.type("xianfangan")
    place = next(number for number, offer in enumerate(session.candidates) if offer.text == "西安")
    assert session.choose(place) == "西安"
    assert session.letters == "fangan"
    assert session.preview.startswith("西安")
    texts = [offer.text for offer in session.candidates]
    assert session.choose(texts.index("反感")) == "西安反感"
    assert session.letters == ""
    session.backspace()
    assert (session.text, session.letters) == ("西安", "fangan")
    session.backspace()
    assert (session.text, session.letters) == ("西安", "fanga")
    for _ in range(5):
        session.backspace()
    session.backspace()
    assert (session.text, session.letters) == ("", "xian")
    for _ in range(9):
        session.backspace()
    assert (session.text, session.letters, session.candidates) == ("", "", [])


def test_a_choice_that_is_not_there_is_refused(model):
    session = model.session()
    session.type("wo")
    with pytest.raises(SettingError, match="no candidate 99"):
        session.choose(99)
    with pytest.raises(SettingError, match="no candidate -1"):
        session.choose(-1)
    assert session.letters == "wo"


def test_words_of_the_user_and_fuzzy_sounds_are_offered(model):
    model.add_word("文脉")
    session = model.session(fuzzy=["zh/z"])
    session.type("wenm")
    assert session.candidates[0].text == "文脉"
    model.forget_word("文脉")
    session = model.session(fuzzy=["zh/z"])
    assert session.type("zongguo")[0].text == "中国"


@pytest.mark.parametrize("make", [lambda model: model, lambda model: JoinedConverter(syllables(), model, weight=0.1)])
@pytest.mark.parametrize(("typed", "word", "left"), [("nǚérhang", "女儿", "hang"), ("nu:erhang", "女儿", "hang")])
def test_what_is_left_after_a_choice_is_as_it_was_typed(model, make, typed, word, left):
    session = make(model).session()
    session.type(typed)
    session.choose([offer.text for offer in session.candidates].index(word))
    assert session.letters == left
    session.backspace()
    for _ in left[1:]:
        session.backspace()
    session.backspace()
    assert session.letters == typed.removesuffix(left)


def test_spaces_alone_have_no_candidates(model):
    assert model.session().type("   ") == []


class TestOtherConverters:
    """Networks, and a network with n-grams."""

    @pytest.fixture(params=[syllables, letters], ids=["encoder", "letters"])
    def network(self, request):
        return request.param()

    def test_each_key_has_the_candidates_of_the_whole_input(self, network):
        session = network.session()
        for place, letter in enumerate("wo'ainihao", 1):
            offers = session.type(letter)
            typed = "wo'ainihao"[:place]
            expected = network.convert([typed], n_best=3)[0]
            whole = [offer for offer in offers if offer.probability is not None]
            assert [offer.text for offer in whole] == [one.text for one in expected][:3]
            assert [offer.probability for offer in whole] == pytest.approx(
                [one.probability for one in expected], rel=1e-4
            )
            assert len({offer.text for offer in offers}) == len(offers) <= 9
        assert session.preview == expected[0].text

    def test_the_first_syllable_is_chosen(self, network):
        session = network.session()
        session.type("xianhao")
        first = {offer.text: offer.letters for offer in session.candidates if offer.probability is None}
        assert first.items() <= {"先": 4, "现": 4, "西": 2}.items()
        assert len(first) > 1
        place = next(at for at, offer in enumerate(session.candidates) if offer.text == "先")
        assert session.choose(place) == "先"
        assert session.letters == "hao"
        for _ in range(4):
            session.backspace()
        assert (session.text, session.letters) == ("", "xian")
        session.type("，wo")
        assert session.finish().endswith("，我")

    def test_nothing_and_marks_are_offered_as_they_are(self, network):
        session = network.session(context="你")
        for typed in (" ", "，", "ǜ", "6"):
            session.letters = ""
            assert all(offer.letters == len(typed) for offer in session.type(typed))

    def test_a_network_with_ngrams_has_the_words_of_the_lattice(self, model):
        both = JoinedConverter(syllables(), model, weight=0.1)
        session = both.session(context="我在")
        for letter in "woaibeijing":
            offers = session.type(letter)
        assert session.preview == "我爱北京"
        assert "我" in [offer.text for offer in offers if offer.probability is None]
        alone = JoinedConverter(syllables(), model, weight=0.0).session()
        alone.type("woaibeijing")
        usual = model.session()
        assert [one.text for one in alone.candidates] == [one.text for one in usual.type("woaibeijing")]
        for weight in (-1.0, float("nan"), float("inf")):
            with pytest.raises(SettingError, match=f"weight={weight}: expected a number from 0 to 1e[+]06"):
                JoinedConverter(syllables(), model, weight=weight)

    def test_the_context_is_read_by_the_encoder(self):
        one, other = (syllables().session(context=text) for text in ("", "我你好"))
        found = [{offer.text: offer.probability for offer in each.type("haohang")} for each in (one, other)]
        assert found[0] != pytest.approx(found[1])
