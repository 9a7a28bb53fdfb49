"""Training converters of pinyin by counts: what is counted of each kind of line."""

import pytest

import wenmai
from wenmai.core.errors import CorpusError

pytest.importorskip("pypinyin")

TEXT = "我爱北京\n你好，银行。\n我在西安\n体育新闻标题\n在哪儿办理？\nok 好\n"
GOLD = (
    "wav/a/1.wav\two3 ai4 bei3 jing1\t我爱北京\n"
    "2\tni3 hao3 ， yin2 hang2 。\t你 好 ，银 行 。\r\n"
    "wav/b/1.wav\two3 ai4 bei3 jing1\t我爱北京\n"  # read by another
    "3\two3 zai4\t我在西安\n"  # too few syllables
    "4\two3 zai4 xi1 an1\t我在西安\n"
    "体育新闻标题\t3\n"
    "NUM,PINYIN,EXPECTED\n1,zainarbanli？,在哪儿办理？\n"
    "ok 好\n"
)
SMALL = {"listed": False, "least": 1, "order": 2, "quiet": True}


def counted(folder, text):
    folder.mkdir()
    (folder / "text.txt").write_text(text, "utf-8")
    return wenmai.train("pinyin-ngram", folder / "text.txt", out=folder / "run", **SMALL)


def test_of_gold_lines_the_characters_alone_are_counted(tmp_path, capsys):
    run = counted(tmp_path / "gold", GOLD)
    notes = capsys.readouterr().err
    plain = counted(tmp_path / "plain", TEXT)
    for part in ("characters", "words"):
        ours, theirs = (getattr(one.model, part).vocab for one in (run, plain))
        assert list(ours) == list(theirs)
    stats, others = run.corpus["stats"], plain.corpus["stats"]
    assert stats["tokens"] == others["tokens"]
    assert (stats["repeated"], stats["malformed"]) == (1, 1)
    assert (others["repeated"], others["malformed"]) == (0, 0)
    assert "1 repeated sentences of gold files, 1 bad lines of gold files" in notes


def test_gold_of_which_no_line_can_be_read_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"text\.txt: no words in 2 lines, 2 of them bad lines of gold files"):
        counted(tmp_path / "bad", "1\tni3\t你好\n2\tqqq\t好\n")
