"""The command line in Chinese."""

import json

import pytest

import wenmai
from wenmai.core import wording
from wenmai.core.errors import CorpusError
from wenmai.data.examples import ExamplesConfig, open_examples
from wenmai.data.readers import minimal_pairs
from wenmai.measures.questions import measure_questions
from wenmai.measures.regression import measure_regression
from wenmai.measures.tagging import measure_tagging


def test_help_is_in_chinese(shell):
    page = shell("train", "--help", "--lang", "zh").out
    assert page.startswith("用法：wenmai train")
    assert "用语料训练一个系统。" in page
    assert "示例：wenmai train word2vec corpus.txt" in page
    assert "选项：" in page
    assert "不显示进度。" in page
    assert "向量维数 [" in shell("--lang=zh", "help", "train", "word2vec").out
    assert "词表" in shell("--lang", "zh", "systems", "word2vec").out


def test_wrong_usage_and_errors_are_in_chinese(shell, monkeypatch):
    assert "错误：缺少参数“SYSTEM”。" in shell("--lang", "zh", "train", code=2).err
    assert "没有这个命令：“trian”" in shell("--lang", "zh", "trian", code=2).err
    assert "没有名为 'gtp' 的系统；是否想输入 'gpt'？" in shell("--lang", "zh", "train", "gtp", "x", code=2).err
    assert "没有名为 'text.txt' 的系统" in shell("--lang", "zh", "train", "text.txt", code=2).err  # not "name the text"
    named = shell("--lang", "zh", "train", "word2vec", "x", "--sg", "1", code=2).err
    assert "没有这个选项：--sg；是否想输入 'algorithm'（取 skipgram 或 cbow）？" in named
    assert "--lang fr: expected en or zh" in shell("--lang", "fr", "systems", code=2).err
    monkeypatch.setenv("WENMAI_LANG", "zh")
    assert "--lang fr：应为 en 或 zh" in shell("--lang", "fr", "systems", code=2).err
    assert "--lang 后应有语言：en 或 zh" in shell("systems", "--lang", code=2).err


@pytest.mark.parametrize(("language", "stopped"), [("en", "wenmai: stopped"), ("zh", "wenmai：已停止")])
def test_who_interrupts_is_told_how_to_go_on(language, stopped, shell, monkeypatch):
    def interrupted(*_):
        interrupt = KeyboardInterrupt()
        interrupt.add_note("`wenmai resume run`")
        raise interrupt

    monkeypatch.setattr("wenmai.training.run.Run.__init__", interrupted)
    finished = shell("--lang", language, "nearest", "run", "cat", code=130)
    assert finished.err.splitlines() == [f"{stopped}; `wenmai resume run`"]


def test_classes_are_evaluated_in_chinese(shell, monkeypatch):
    (shell.folder / "labels.tsv").write_text("text\tlabel\n" + "a b\tone\nc d\ttwo\n" * 20)
    monkeypatch.setenv("WENMAI_LANG", "zh")
    words = ["--text-column", "text", "--label-column", "label", "--quiet"]
    shell("train", "fasttext-supervised", "labels.tsv", "--out", "run", "--epochs", "1", *words)
    first, heads, *_ = shell("evaluate", "run", "--on", "labels.tsv").out.splitlines()
    assert first.startswith("准确率 ")
    assert first.endswith("（40 个文本）")
    assert heads.split() == ["标签", "文本数", "精确率", "召回率", "F1"]


TAGS = [["B-X", "O"], ["O"], ["B-Y"]]


@pytest.mark.parametrize(
    ("result", "chinese"),
    [
        (
            measure_tagging(TAGS, TAGS),
            "实体 F1 1.0000 [1.0000, 1.0000]（精确率 1.0000，召回率 1.0000）  宏平均 F1 1.0000  "
            "标记正确率 1.0000  （3 个句子）",
        ),
        (
            measure_tagging([["N", "V"]], [["N", "N"]], rules="none"),
            "标记正确率 0.5000 [0.5000, 0.5000]  （1 个句子，2 个词）",
        ),
        (
            measure_questions([["a"], []], ["a", ""], best=["a", "b"], gaps=[-1.0, 1.0], rules="squad2"),
            "F1 1.0000 [1.0000, 1.0000]  完全匹配 1.0000 [1.0000, 1.0000]  有答案的 F1 1.0000，完全匹配 1.0000  "
            "无答案的 1.0000  阈值取 0 时 F1 最高，为 1.0000，完全匹配最高 1.0000  （2 个问题）",
        ),
        (
            measure_questions([["a"]], ["a"], rules="squad1"),
            "F1 1.0000 [1.0000, 1.0000]  完全匹配 1.0000 [1.0000, 1.0000]  （1 个问题）",
        ),
        (measure_regression([1.0, 1.0], [1.0, 2.0]), "平方误差 0.5 [0, 1]  （2 个样例）"),
        (
            "Spearman's ρ 0.5000  Pearson's r 0.4000  squared error 0.1000 [0.0000, 1.0000]  (9 examples)",
            "斯皮尔曼 ρ 0.5000  皮尔逊 r 0.4000  平方误差 0.1000 [0.0000, 1.0000]  （9 个样例）",
        ),
        (
            "note: 16 of 20 examples are longer than the 12 tokens that the model reads, and were cut (keep=head)",
            "提示：16 个样例（共 20 个）长于模型能读的 12 个词元，已截断（keep=head）",
        ),
        (
            "lm_weight=0.1 has no effect on an encoder that does not predict the next token; leave it out",
            "lm_weight=0.1 不起作用，因为编码器不预测下一个词元；请去掉",
        ),
        (
            "a.txt: has the tags 'PER', none of which the model knows; it knows 'X', 'Y'; name a test set that is "
            "tagged as the training data were",
            "a.txt：所含的标记 'PER' 模型都不认识；它认识 'X', 'Y'；请给出与训练数据标注方式相同的测试集",
        ),
    ],
)
def test_what_fine_tuned_models_are_worth_is_said_in_chinese(result, chinese):
    wording.speak("zh")
    assert wording.say(str(result)) == chinese


def test_what_fine_tuning_trains_is_said_in_chinese():
    wording.speak("zh")
    assert wording.say("264 examples") == "264 个样例"
    assert wording.say("1,026 of 200,000 parameters on cpu") == "训练 200,000 个参数中的 1,026 个，设备 cpu"
    assert wording.say("200,000 parameters on cpu") == "200,000 个参数，设备 cpu"


def test_what_is_wrong_with_examples_is_said_in_chinese(shell):
    article = {"context": "文脉是一个工具。", "qas": [{"id": "1", "question": "是什么？"}]}
    article["qas"][0]["answers"] = [{"text": "汽车", "answer_start": 3}]
    (shell.folder / "answers.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": [article]}]}))
    (shell.folder / "tags.conll").write_text("EU O\nGerman I-MISC\n\n")
    wording.speak("zh")
    with pytest.raises(CorpusError) as wrong:
        open_examples(shell.folder / "answers.json", "span", ExamplesConfig()).stats()
    assert "的答案 '汽车' 不在其原文的第 3 个字符处，该处是 '一个'；原文中没有它。" in wording.say(str(wrong.value))
    _, aside = open_examples(shell.folder / "tags.conll", "tagging", ExamplesConfig()).set_aside()
    with pytest.raises(CorpusError) as wrong:
        aside.stats()
    assert "样例太少，无法留出一部分用于验证（valid_share=0.1）；请给出 valid=FILE" in wording.say(str(wrong.value))
    assert wording.say("2 examples were left out because a text is empty") == "2 个样例因文本为空而被略去"
    assert "keep=head" in wording.say(
        "1 of 38 examples are longer than the 128 tokens that the model reads, and were cut (keep=head)"
    )


def test_what_is_wrong_with_pairs_and_downloads_is_said_in_chinese(shell):
    (shell.folder / "pairs.tsv").write_text("good one\tone good\nonly one\n")
    wording.speak("zh")
    with pytest.raises(CorpusError) as wrong:
        list(minimal_pairs(shell.folder / "pairs.tsv"))
    assert "应为一行“合格句<TAB>不合格句”（有 1 列，应为 2 至 4 列）" in wording.say(str(wrong.value))
    assert wording.say("equal to the registered checksum") == "与登记的校验和一致"
    assert wording.say("not here; 'wenmai data get text8' fetches it") == "本机没有；可用“wenmai data get text8”获取"


def test_results_and_reports_are_in_chinese_and_json_is_not(shell, monkeypatch):
    (shell.folder / "text.txt").write_text("the cat sat on the mat with the dog\n" * 30)
    monkeypatch.setenv("WENMAI_LANG", "zh")
    trained = shell("train", "ngram", "text.txt", "--out", "ngram", "--order", "2")
    assert "第 1 轮结束" in trained.err
    assert trained.out.startswith("ngram: 损失 ")
    asked = ["ngram", "--on", "text.txt"]
    assert "按词困惑度" in shell("evaluate", *asked).out
    chinese = shell("evaluate", *asked, "--json").out
    assert "系统" in shell("compare", *asked, "--out", "both").out
    page = (shell.folder / "both" / "report.html").read_text("utf-8")
    assert 'lang="zh-CN"' in page
    for text in ("每字符比特数", "学习曲线", "如何复现", "越低越好", "ngram，语料：text.txt"):
        assert text in page
    monkeypatch.delenv("WENMAI_LANG")
    assert json.loads(chinese) == json.loads(shell("evaluate", *asked, "--json").out)
    stored = wenmai.runs.comparison.Comparison.from_json(
        json.loads((shell.folder / "both/comparison.json").read_text())
    )
    assert stored.kinds["bits"].title == "Bits per character"


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("gb18030", "0xce 不合 utf-8 编码（invalid continuation byte）；如果文件是别的编码，请指明（encoding=gb18030、"),
     ("utf-16", "0xff 不合 utf-8 编码（invalid start byte）；文件的开头像 UTF-16，请用 encoding=utf-16")],
)  # fmt: skip
def test_another_encoding_is_named_in_chinese(encoding, told, shell, monkeypatch):
    (shell.folder / "text.txt").write_text("我 爱 北京\n" * 9, encoding)
    monkeypatch.setenv("WENMAI_LANG", "zh")
    assert told in shell("train", "word2vec", "text.txt", "--out", "run", code=3).err


def test_tables_and_checks_are_in_chinese(shell, monkeypatch):
    (shell.folder / "labels.txt").write_text("__label__a one two\n__label__b three four\n" * 20)
    monkeypatch.setenv("WENMAI_LANG", "zh")
    shell("train", "fasttext-supervised", "labels.txt", "--out", "labels", "--epochs", "1", "--min-count", "1")
    lines = shell("evaluate", "labels", "--on", "labels.txt").out.splitlines()
    assert lines[1].split() == ["标签", "文本数", "精确率", "召回率", "F1"]
    assert lines[4].split() == ["标签＼预测为", "a", "b"]
    assert shell("verify", "labels").out.splitlines() == ["配方：fasttext-supervised", "model：完好"]
    placed = shell("embed", "labels", "one", "--out", "labels.txt/a.npy", code=2)
    assert placed.err == "wenmai: --out labels.txt/a.npy：labels.txt 是文件；请另选文件\n"
