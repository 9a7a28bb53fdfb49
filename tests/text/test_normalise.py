import pytest

from wenmai.text.normalise import normaliser
from wenmai.text.settings import TextConfig


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({}, "Ａ ﬁ É 漢語\n", "Ａ ﬁ É 漢語\n"),
        ({"nfkc": True}, "Ａ１，ﬁ①e\u0301\u3000x", "A1,fi1\u00e9 x"),
        ({"fold_width": True}, "Ａ１，ﬁ①\u3000ｶﾞ。", "A1,ﬁ① ガ。"),
        ({"lowercase": True}, "WORD É Σ", "word é σ"),
        ({"script": "simplified"}, "漢語簡體\n頭髮", "汉语简体\n头发"),
        ({"nfkc": True, "lowercase": True, "script": "simplified"}, "ＡＢＣ漢", "abc汉"),
    ],
)
def test_normalisations(settings: dict[str, object], before: str, after: str) -> None:
    assert normaliser(TextConfig(**settings))(before) == after
