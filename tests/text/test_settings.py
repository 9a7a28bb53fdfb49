import pytest

from wenmai.core.errors import SettingError
from wenmai.text.settings import TextConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"segment": "whitespce"}, "did you mean 'whitespace'"),
        ({"format": "json"}, "auto, lines, documents, wikiextractor"),
        ({"bad_lines": "ignore"}, "error, skip"),
        ({"script": "traditional"}, "keep, simplified"),
        ({"encoding": "utf8000"}, "not a text encoding"),
        ({"encoding": "base64"}, "not a text encoding"),
        ({"encoding": "undefined"}, "not a text encoding"),  # a codec that refuses everything
        ({"encoding": "utf-8\0"}, "not a text encoding"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        TextConfig(**settings)


def test_identity_is_what_the_tokens_depend_on() -> None:
    assert not {"phrase_threshold", "phrase_min_count"} & TextConfig().identity().keys()
    assert TextConfig(encoding="UTF8").identity() == TextConfig(encoding="utf-8").identity()
    assert TextConfig(phrases=1, phrase_threshold=7.0).identity() != TextConfig(phrases=1).identity()
    assert TextConfig(lowercase=True).identity() != TextConfig().identity()


def test_identity_names_the_version_of_the_dictionaries_used() -> None:
    assert set(TextConfig(segment="chinese", script="simplified").identity()) >= {"rjieba", "opencc", "unicode"}
    assert not {"rjieba", "opencc"} & set(TextConfig().identity())
