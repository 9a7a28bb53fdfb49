"""Lines of a verb: each is answered, up to the first that cannot be."""

import io

import pytest

from wenmai.cli.lines import answered, texts_of
from wenmai.core.errors import SettingError


def read(line):
    if line == "unreadable":
        raise SettingError("cannot be read")
    return line.upper()


def ask(lines):
    if "REFUSED" in lines:
        raise SettingError("is refused")
    return [f"{line}!" for line in lines]


@pytest.mark.parametrize(
    ("lines", "told", "wrong"),
    [
        (["a", "b"], ["A!", "B!"], None),
        (["a", "refused", "c"], ["A!"], "f: line 2: is refused"),
        (["a", "unreadable"], ["A!"], "f: line 2: cannot be read"),
        (["a", "refused", "c", "unreadable"], ["A!"], "f: line 2: is refused"),
        (["unreadable"], [], "f: line 1: cannot be read"),
        (["refused", "unreadable"], [], "f: line 1: is refused"),
    ],
)
def test_lines_are_answered_up_to_the_first_wrong_one(lines, told, wrong):
    found = []

    def run():
        for portion, answers in answered(iter(lines), ask, source="f", read=read):
            assert len(portion) == len(answers)
            found.extend(answers)

    if wrong is None:
        run()
    else:
        with pytest.raises(SettingError, match=f"^{wrong}$"):
            run()
    assert found == told


def test_somebody_who_waits_is_told_no_line():
    with pytest.raises(SettingError, match=r"^is refused$"):
        list(answered(iter(["a", "REFUSED"]), ask, source="-", waiting=True))


@pytest.mark.parametrize(("language", "begun"), [("en", "note: reading texts"), ("zh", "提示：从终端读取文本")])
def test_who_types_is_told_how_to_end(language, begun, monkeypatch, capsys):
    terminal = io.TextIOWrapper(io.BytesIO(b"a\n"))
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setenv("WENMAI_LANG", language)
    assert list(texts_of((), None)) == ["a"]
    assert capsys.readouterr().err.startswith(begun)


def test_a_sentence_that_begins_like_a_name_of_the_catalogue_is_a_text():
    lines = ["data: the new oil", "data:数据是新的石油"]
    assert list(texts_of(lines, None)) == lines
    with pytest.raises(SettingError, match="'data:text8' names a file"):
        texts_of(["data:text8"], None)
