"""``wenmai evaluate RUN --on FILE --mistakes PAGE``: the worst mistakes as a page."""

import json
import re
import resource

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS

TINY = ("--threads", "1", "--epochs", "1", "--learning-rate", "0.0001", "--quiet")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    example = EXAMPLES["bert"]
    (folder / example.data).write_text(TEXTS[example.data]["enough"])
    return wenmai.train("bert", folder / example.data, out=folder / "run", quiet=True, **example.settings).path


@pytest.mark.parametrize("task", ["classification", "pair", "regression", "tagging", "span", "choice"])
def test_the_worst_mistakes_come_first(shell, base, task):
    file = EXAMPLES[f"finetuned-{task}"].data
    (shell.folder / file).write_text(TEXTS[file]["enough"])
    shell("finetune", base, file, "--task", task, "--out", "run", *TINY)
    found = json.loads(shell("evaluate", "run", "--on", file, "--mistakes", "page.html", "--json").out)["mistakes"]
    key = {"tagging": "cost", "regression": "error"}.get(task, "probability")
    values = [one[key] for one in found]
    assert 0 < len(values) <= 100
    assert values == sorted(values, reverse=True)
    page = (shell.folder / "page.html").read_text()
    assert page.count('<p class="where">') == len(found)
    assert "<script" not in page
    assert ("Confusion table" in page) == (task in ("classification", "pair", "tagging"))
    assert page.count('class="scroll"') == page.count('tabindex="0"')  # the keyboard can scroll
    shell("evaluate", "run", "--on", file, "--mistakes", "page.html")  # a page may be replaced
    assert "is a folder; name the page" in shell("evaluate", "run", "--on", file, "--mistakes", ".", code=2).err
    refused = shell("evaluate", "run", "--on", file, "--mistakes", file, code=2).err
    assert f"{file} exists and is no page, which would be lost; name another file, such as mistakes.html" in refused
    refused = shell("evaluate", "run", "--on", file, "--mistakes", f"{file}/page.html", code=2).err
    assert f"{file} is a file; name a page in a folder" in refused
    assert (shell.folder / file).read_text() == TEXTS[file]["enough"]


def test_a_mistake_is_found_again_in_its_file(shell, base):
    content = TEXTS["classes.tsv"]["enough"]
    (shell.folder / "classes.tsv").write_text(content)
    shell("finetune", base, "classes.tsv", "--task", "classification", "--out", "run", *TINY)
    command = ("evaluate", "run", "--on", "classes.tsv", "--limit", "20", "--mistakes", "page.html")
    lines = content.splitlines()
    found = json.loads(shell(*command, "--json").out)["mistakes"]
    assert found
    for one in found:
        line = lines[int(one["where"].partition("classes.tsv: line ")[2]) - 1]
        assert line.split("\t") == [*one["texts"], *one["gold"]]
    assert f'<p class="where">{found[0]["where"].rpartition("/")[2]}</p>' in (shell.folder / "page.html").read_text()
    assert "错误样例：page.html" in shell("--lang", "zh", *command).err  # and not: 错误：, as errors begin
    assert '<p class="where">classes.tsv: 第 ' in (shell.folder / "page.html").read_text()


def test_what_cannot_be_told_is_not_on_the_page(shell, base):
    (shell.folder / "lengths.tsv").write_text(TEXTS["lengths.tsv"]["enough"])
    shell("finetune", base, "lengths.tsv", "--task", "regression", "--out", "run", *TINY)
    (shell.folder / "equal.tsv").write_text("text\tscore\na b\t1\nc\t1\n")
    shell("evaluate", "run", "--on", "equal.tsv", "--mistakes", "page.html")
    assert "None" not in (shell.folder / "page.html").read_text()


def test_texts_are_escaped_and_the_page_is_chinese_if_wanted(shell, base):
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    shell("finetune", base, "classes.tsv", "--task", "classification", "--out", "run", *TINY)
    header = TEXTS["classes.tsv"]["enough"].splitlines()[0]
    rows = [f"<b>a & b\t{label}" for label in ("early", "late")]
    if "early" not in header and "late" not in header:
        rows.insert(0, header)
    (shell.folder / "test.tsv").write_text("\n".join(rows) + "\n")
    shell("--lang", "zh", "evaluate", "run", "--on", "test.tsv", "--mistakes", "page.html")
    page = (shell.folder / "page.html").read_text()
    assert "&lt;b&gt;a &amp; b" in page
    assert "<b>a" not in page
    assert "最严重的错误" in page
    assert "<span>运行 run</span><span>测试数据 test.tsv</span><span>准确率 " in page
    assert "<span>样例 2 个</span>" in page
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))  # as on a full disk
    try:
        refused = shell("evaluate", "run", "--on", "test.tsv", "--mistakes", "page.html", code=1).err
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert refused.splitlines()[-1] == "wenmai: page.html: File too large"
    assert (shell.folder / "page.html").read_text() == page


def test_chinese_labels_of_a_wide_confusion_table_are_not_turned(shell, base):
    words = TEXTS["classes.tsv"]["enough"].split()
    labels = ["体育", "sports", *(f"第{number}类" for number in range(12))]
    rows = [f"{' '.join(words[place : place + 3])}\t{label}" for place in range(4) for label in labels]
    (shell.folder / "many.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    shell("finetune", base, "many.tsv", "--task", "classification", "--valid-share", "0", "--out", "run", *TINY)
    shell("evaluate", "run", "--on", "many.tsv", "--mistakes", "page.html")
    page = (shell.folder / "page.html").read_text()
    assert '<th scope="col"><span class="upright">体育</span></th>' in page
    assert '<th scope="col"><span>sports</span></th>' in page
    assert ".upright { transform: none; }" in page


def test_a_mistake_in_a_document_is_found_by_its_sentence(shell, base):
    words = TEXTS["classes.tsv"]["enough"].split()
    documents = [
        {
            "title": f"t{number}",
            "sents": [words[number : number + 4]],
            "vertexSet": [[{"name": words[number], "sent_id": 0, "pos": [0, 1], "type": "PER"}]],
            "labels": [],
        }
        for number in range(20)
    ]
    (shell.folder / "documents.json").write_text(json.dumps(documents))
    shell("finetune", base, "documents.json", "--task", "tagging", "--out", "run", *TINY)
    shell("--lang", "zh", "evaluate", "run", "--on", "documents.json", "--mistakes", "page.html")
    page = (shell.folder / "page.html").read_text()
    places = re.findall('<p class="where">(.*)</p>', page)
    assert places
    assert {re.sub(r"\d+ 篇", "N 篇", place) for place in places} == {"documents.json: 第 N 篇文档，第 1 句"}
