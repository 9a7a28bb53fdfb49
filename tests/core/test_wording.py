"""The catalogue of Chinese: it fits the English of the code, and is complete where a user looks first."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
import typer

from wenmai.cli.main import app
from wenmai.config.recipe import settings_of
from wenmai.core import wording
from wenmai.core.registry import systems
from wenmai.formats.format import formats
from wenmai.runs.page import page_texts, script_texts

ROOT = Path(__file__).resolve().parents[2] / "wenmai"
TEXTS = json.loads((files("wenmai.core") / "zh.json").read_text("utf-8"))
HOLE = re.compile(r"\{\w*\}")
MESSAGES = (
    "cli", "config", "core", "data", "fasttext", "formats", "inference", "kernels", "measures", "models", "nn",
    "objectives", "runs", "tasks", "text", "training", "vectors",
)  # fmt: skip
ERRORS = {
    "CorpusError", "DownloadError", "FastTextError", "FormatError", "MissingPackageError", "PinyinError", "RunError",
    "SettingError", "TrainingError", "TruncatedError", "UndecodableError", "UnknownAttributeError", "VocabError",
    "Wild", "_damaged", "error",  # what is wrong, in the messages of FormatError
}  # fmt: skip
OTHERS = {  # of Click, of pydantic, of the operating system, or put together from parts that the code has
    key
    for key in TEXTS
    if key.startswith(
        (
            "Arguments", "Commands", "Got unexpected", "Input should be", "Install completion", "Invalid value",
            "File exists", "File name too", "Is a directory", "Missing ", "No s", "Not a directory", "Option '",
            "Options", "Permission", "Read-only file", "Show completion", "Show this message", "Usage",
            "'{value}' is not", "{value} is not in",
            "{name}={value}: expected a valid", "{name}={value}: expected greater", "{name}={value}: expected less",
            "{path}: is not a {name} configuration: {other}: input should be", "input should be",
        )
    )
}  # fmt: skip


def _skeleton(text: str) -> str:
    return HOLE.sub("{}", text)


def _text(node: ast.expr) -> str | None:
    """The text that an expression makes, with empty braces for what is filled in; None if it is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    return None


def _english() -> Iterator[str]:
    """All texts of the code, whole and, of docstrings, by paragraph."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.expr) and (text := _text(node)) is not None:
                yield _skeleton(text)
                yield from (_skeleton(" ".join(one.split())) for one in text.split("\n\n"))
    for path in (ROOT / "runs" / "page").glob("*.*"):
        if path.suffix == ".html":
            yield from map(_skeleton, page_texts(path.read_text("utf-8")))
        elif path.suffix == ".js":
            yield from map(_skeleton, script_texts(path.read_text("utf-8")))
    for system in systems().values():
        yield system.summary
        yield from (one.meaning for one in settings_of(system.load_sections()))


def _raised(package: str) -> Iterator[str]:
    """The messages of a package's errors."""
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in ERRORS and (text := _text(node.args[0])):
                    yield _skeleton(text)


def test_each_text_of_the_catalogue_is_one_of_the_code():
    composed = set(_english())
    pieces = [one for one in composed if len(re.sub(r"\{\}|\W", "", one)) >= 4]

    def is_made_of_parts(text: str) -> bool:
        """Whether the code has it as a part of something, or in parts."""
        if any(text.strip("{}") in one for one in composed):
            return True
        for piece in sorted((one for one in pieces if one in text), key=len, reverse=True):
            text = text.replace(piece, "")
        return not re.search(r"[A-Za-z]{4}", text)

    gone = [one for one in TEXTS if one not in OTHERS and _skeleton(one) not in composed]
    stale = [one for one in gone if not is_made_of_parts(_skeleton(one))]
    assert not stale, "\n".join(stale)


def test_the_same_is_filled_in():
    for english, chinese in TEXTS.items():
        assert set(HOLE.findall(english)) >= set(HOLE.findall(chinese)), english
        assert len(HOLE.findall(english)) == len(set(HOLE.findall(english))), english
        if holes := HOLE.findall(english):
            chinese.format(*holes, **{one.strip("{}"): "" for one in holes})  # other braces are doubled


def test_reports_are_complete():
    page = ROOT / "runs" / "page"
    wanted = [text for path in page.glob("*.html") for text in page_texts(path.read_text("utf-8"))]
    wanted += [text for path in page.glob("*.js") for text in script_texts(path.read_text("utf-8"))]
    for path in (ROOT / "runs" / name for name in ("report.py", "charts.py", "alignment.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
                wanted += [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
    for path in (ROOT / "runs" / "measuring").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Kind", "Panel", "Samples"}:
                fields = {one.arg: one.value for one in node.keywords}
                named = ("title", "items", "about", "caption", "section", "axis", "unit")
                wanted += [one.value for name, one in fields.items() if name in named and isinstance(one, ast.Constant)]
    assert [one for one in wanted if one not in TEXTS] == []


def test_help_is_complete():
    def texts(command) -> Iterator[str]:
        yield from (" ".join(one.split()) for one in inspect.cleandoc(command.help or "").split("\n\n"))
        yield from (one.help for one in command.params if getattr(one, "help", None))
        for below in getattr(command, "commands", {}).values():
            yield from texts(below)

    found = [one for one in texts(typer.main.get_command(app)) if not one.startswith("Example: ")]
    settings = [one.meaning for system in systems().values() for one in settings_of(system.load_sections())]
    listed = [one.summary for one in (*systems().values(), *formats().values())]
    say = wording.Catalogue(TEXTS).say
    assert [one for one in dict.fromkeys([*found, *settings, *listed]) if say(one) == one] == []


def test_messages_are_complete():
    def gathered(text: str) -> str:
        """A text whose holes beside each other are one: what fills them is recognised as a whole."""
        return re.sub(r"\{\}(?: ?\{\})+", "{}", _skeleton(text))

    known = {gathered(one) for one in TEXTS}
    messages = dict.fromkeys(text for package in MESSAGES for text in _raised(package))
    worded = [one for one in messages if re.search(r"[a-z]{2}", one)]  # others are put together from such texts
    assert len(worded) > 300
    assert [one for one in worded if gathered(one) not in known] == []


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("corpus.txt: is empty; expected text", "corpus.txt：是空的；应为文本"),
        (
            "too few n-grams of words occur once, twice or three times to estimate the discounts of order 1, 2: 0.5, 1 "
            "and 1.5 stand for them. This happens with little text",
            "出现一、二、三次的词 n 元语法太少，无法估计 1, 2 阶的折扣，改用 0.5、1 和 1.5。文本很少时会这样",
        ),
        (
            "no system is called 'gtp'; did you mean 'gpt'? (`wenmai systems` lists them)",
            "没有名为 'gtp' 的系统；是否想输入 'gpt'？（用 `wenmai systems` 列出）",
        ),
        (
            "loss=x: expected one of softmax, hs; did you mean 'hs'?",
            "loss=x：应为以下之一：softmax, hs；是否想输入 'hs'？",
        ),
        (
            "no such option: --ouput; did you mean '--out'? (`wenmai systems gpt` lists the settings)",
            "没有这个选项：--ouput；是否想输入 '--out'？（用 `wenmai systems gpt` 列出设置）",
        ),
        (
            "runs/a: the training has finished already; `wenmai train --from runs/a CORPUS` continues it on new text",
            "runs/a：训练早已完成；用 `wenmai train --from runs/a CORPUS` 在新文本上继续训练",
        ),
        (
            "BLEU 1.00 [0.00, 2.00], chrF2 1.00 [0.00, 2.00], 80 sentences (nrefs:1|case:mixed)",
            "BLEU 1.00 [0.00, 2.00]，chrF2 1.00 [0.00, 2.00]，80 个句子（nrefs:1|case:mixed）",
        ),
        (
            "BLEU -0.88 against runs/b [-0.99, -0.80], p = 0.0001",
            "BLEU 与 runs/b 相差 -0.88 [-0.99, -0.80]，p = 0.0001",
        ),
        ("checkpoints/step-1: damaged", "checkpoints/step-1：已损坏"),
        (
            "accuracy 50.00% [40.00%, 60.00%]  Matthews 0.5000  micro F1 0.5000 [0.4, 0.6]  macro F1 0.5000  "
            "P@1 0.5  R@1 0.5  (9 texts)",
            "准确率 50.00% [40.00%, 60.00%]  马修斯系数 0.5000  微平均 F1 0.5000 [0.4, 0.6]  宏平均 F1 0.5000  "
            "P@1 0.5  R@1 0.5  （9 个文本）",
        ),
        ("epochs=0: expected greater than or equal to 1", "epochs=0：应不小于 1"),
        (
            "a.jsonl: line 1: has the entity [0, 9, 'X']; expected [start, end, TYPE], characters of the text, of "
            "which there are 3",
            "a.jsonl：第 1 行：有实体 [0, 9, 'X']；应为 [起点, 终点, 类型]，以文本的字符计，文本有 3 个字符",
        ),
        (
            "a.json: document 4 ('d (3)'): vertexSet[1][0].pos [3, 3] is empty; expected 0 <= first < behind",
            "a.json：第 4 篇文档 ('d (3)')：vertexSet[1][0].pos [3, 3] 为空；应满足 0 <= 起 < 止",
        ),
        (
            "table: the stages of the task a are 2+3 = 5 batches, not the 7 of the task b",
            "table：任务 a 各阶段为 2+3 = 5 批，而不是任务 b 的 7 批",
        ),
        ("a.tsv: line 2 has a NUL, which no text has", "a.tsv：第 2 行含有 NUL，文本中不应有它"),
        (
            "a.tsv: line 2: the label 'z' is none of what is trained on (x, y); add examples of it there, or leave it "
            "out here",
            "a.tsv：第 2 行：标签 'z' 不在训练所用的标签之中（x, y）；请在训练数据中加入它的样例，或在此处去掉它",
        ),
        (
            "a.tsv: line 2: has 1 syllables for 2 characters; expected one each, such as 'id<tab>ni3 hao3<tab>你好'",
            "a.tsv：第 2 行：有 1 个音节，却有 2 个字；应一一对应，如“id<tab>ni3 hao3<tab>你好”",
        ),
        (
            "a.json: item 2: has 0 answers to choose from (columns: a, b); expected two or more",
            "a.json：第 2 项：只有 0 个备选答案（各列：a, b）；应至少两个",
        ),
        (
            "standard input: line 1: 'x': expected TEXT<TAB>QUESTION<TAB>OPTION<TAB>OPTION..., two options at least",
            "标准输入：第 1 行：'x'：应为 文本<TAB>问题<TAB>选项<TAB>选项…，至少两个选项",
        ),
        ("runs/a: no such run folder", "runs/a：没有这个运行文件夹"),
        ("my texts/a b.tsv: line 2 has a NUL, which no text has", "my texts/a b.tsv：第 2 行含有 NUL，文本中不应有它"),
        (
            "my texts/a b.json: line 1: has 0 answers to choose from (columns: a, b); expected two or more",
            "my texts/a b.json：第 1 行：只有 0 个备选答案（各列：a, b）；应至少两个",
        ),
        (
            "a.csv: line 3: 0xff is not utf-8 (invalid start byte); if the file has another encoding, name it "
            "(encoding=gb18030, latin-1, ...). bad_lines=skip leaves out such lines and counts them",
            "a.csv：第 3 行：0xff 不合 utf-8 编码（invalid start byte）；如果文件是别的编码，请指明"
            "（encoding=gb18030、latin-1 等）。bad_lines=skip 会略去这样的行并计数",
        ),
        ("a.txt: cannot be read (Permission denied)", "a.txt：无法读取（没有权限）"),
        ("{a: 1}: is empty; expected text", "{a: 1}：是空的；应为文本"),
        (
            "a.json: line 1: the right answer is '5'; expected one of the 2 answers, or its index, from 0",
            "a.json：第 1 行：正确答案是 '5'；应为 2 个答案之一，或从 0 起的序号",
        ),
        (
            "the loss or its gradient is no longer a number at step 3 (epoch 1, batches 1 to 4, learning rate 1e+09); "
            "no checkpoint had been saved. Train again into another folder with a lower learning_rate, a longer "
            "warmup, or clip=1",
            "第 3 步（第 1 轮，第 1 到 4 批，学习率 1e+09）的损失或梯度已不是数；还没有保存过检查点。"
            "请改用较低的 learning_rate、较长的 warmup 或 clip=1，在另一个文件夹中重新训练",
        ),
        ("occurrence=-1: 'a' occurs 2 times in 'a a'", "occurrence=-1：'a' 在 'a a' 中出现 2 次"),
        (
            "I-PER after the beginning: no entity of this type is open",
            "I-PER 出现在句首之后：前面没有未结束的同类实体",
        ),
        ("runs/a: exists already; choose another --out", "runs/a：已经存在；请另选 --out"),
        (
            "runs/a: exists already; choose another --out, remove it, or continue that run: `wenmai resume runs/a`",
            "runs/a：已经存在；请另选 --out，删除它，或继续那个运行：`wenmai resume runs/a`",
        ),
        (
            "a.tsv: is not JSON (Expecting value); expected questions as SQuAD has them",
            "a.tsv：不是 JSON（Expecting value）；应为 SQuAD 形式的问题",
        ),
        ("Invalid value for '--k': Input should be greater than or equal to 1", "'--k' 的值无效：应不小于 1"),
        (
            "a.bin, byte 9: the flag of the output is 7, expected 0 or 1; the file is damaged, or not a fastText model",
            "a.bin，第 9 字节：输出矩阵的标志为 7，应为 0 或 1；文件已损坏，或不是 fastText 模型",
        ),
        (
            "my model: the tensors do not fit config.json: h.0 is missing; h.1 is missing; and 3 more",
            "my model：张量与 config.json 不符：h.0 缺失；h.1 缺失；另有 3 处",
        ),
        (
            "runs/a/model/vocab.json is missing; copy or train the model again",
            "runs/a/model/vocab.json 缺失；请重新复制或训练模型",
        ),
        (
            'a.json: expected a JSON object of relations and what they mean, such as {"P17": "country"}',
            'a.json：应为关系及其含义的 JSON 对象，如 {"P17": "country"}',
        ),
        (
            "ws: Spearman 0.4000 [-1.0000, 0.9000], 4 of 5 pairs have vectors",
            "ws：斯皮尔曼 ρ 0.4000 [-1.0000, 0.9000]，5 个词对中 4 个有向量",
        ),
        (
            "an: accuracy 0.5000 [0.2500, 0.7500], 1,000 of 2,000 questions have vectors",
            "an：准确率 0.5000 [0.2500, 0.7500]，2,000 个问题中 1,000 个有向量",
        ),
        (
            "an: accuracy 0.5000 [no interval], 1 of 2 questions have vectors",
            "an：准确率 0.5000（无置信区间），2 个问题中 1 个有向量",
        ),
        ("what nobody has translated", "what nobody has translated"),
        ("weighting=mean is for word vectors; a bert has its own", "weighting=mean 用于词向量；bert 有自己的方式"),
        (" ", ""),  # between sentences
        ("negative sampling, skipgram with subwords", "负采样，skipgram，含子词"),
        ("2 empty lines were left out", "2 个空行被略去"),
        ("1 label that is too rare (min_label_count) was left out", "1 个过于稀少的标签被略去（min_label_count）"),
        ("1,020 words and 1 label are new", "新增 1,020 个词、1 个标签"),
        (
            "text from Python: a tuple of 2 lists may be rows or columns; give a list of rows, such as zip(*columns) "
            "makes of columns",
            "来自 Python 的文本：2 个列表的元组可能是各行，也可能是各列；请给出由各行组成的列表，"
            "如 zip(*columns) 由各列所得",
        ),
        (
            "old_rate has no effect with a new model; leave it out, or add --from RUN",
            "新模型时 old_rate 不起作用；请去掉它，或加上 --from RUN",
        ),
        (
            "1 label of the test set is unknown to the classifier and counts as missed: new (1)",
            "测试集中有 1 个标签是分类器不认识的，按漏掉计：new (1)",
        ),
        (
            "a.tsv: no examples; 2 examples were left out because a text is empty; 1 tag that cannot follow the one "
            "before was read as conlleval reads it",
            "a.tsv：没有样例；2 个样例因文本为空而被略去；1 个不能接在前一标记之后的标记按 conlleval 的读法处理",
        ),
    ],
)
def test_messages_are_recognised_by_what_is_between_their_holes(text, chinese):
    wording.speak("zh")
    assert wording.say(text) == chinese


def test_the_language_is_that_of_the_environment():
    assert wording.environment_language({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert wording.environment_language({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}) == "en"
    assert wording.environment_language({"LC_ALL": "de_DE", "WENMAI_LANG": "zh"}) == "zh"
    assert wording.environment_language({}) == "en"


def test_python_speaks_english_unless_told(monkeypatch):
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert wording.language() == "en"
    monkeypatch.setenv("WENMAI_LANG", "zh")
    assert wording.language() == "zh"
    with pytest.raises(ValueError, match="fr"):
        wording.speak("fr")
