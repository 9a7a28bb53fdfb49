"""An input key by key."""

import pytest

from tests.inference.test_pinyin_ngram import trained
from wenmai.core.errors import SettingError

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
