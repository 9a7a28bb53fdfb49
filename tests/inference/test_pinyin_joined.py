"""A network and n-grams together."""

import pytest

from tests.inference.test_pinyin_model import syllables
from tests.inference.test_pinyin_ngram import trained
from wenmai.inference.pinyin_joined import JoinedConverter

pytest.importorskip("pypinyin")

TYPED = ["woaini" * times for times in (1, 300, 600, 2, 900)]


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """A converter, and how many letters each call of its network had."""
    network, asked = syllables(), []

    def place_scores(texts, **options):
        asked.append(sum(map(len, texts)))
        return type(network).place_scores(network, texts, **options)

    monkeypatch.setattr(network, "place_scores", place_scores)
    return JoinedConverter(network, trained(tmp_path).model, weight=0.5), asked


def test_scores_of_many_long_texts_are_not_in_memory_at_once(joined):
    converter, asked = joined
    found = [one[0].text for one in converter.convert(TYPED)]
    assert len(asked) > 1
    assert max(asked) < 4096 + len(TYPED[-1])
    assert found == [converter.convert([text])[0][0].text for text in TYPED]
    asked.clear()
    assert converter.tune(TYPED, found, weights=[0.5]) == {0.5: 0.0}
    assert len(asked) > 1
