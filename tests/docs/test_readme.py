"""The commands of the READMEs are run one after the other, on tiny files and at tiny sizes."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.contract.examples import TEXTS
from tests.docs.test_pages import commands, read

ROOT = Path(__file__).resolve().parents[2]
LATIN, CLASSES = TEXTS["documents.txt"]["enough"], TEXTS["classes.tsv"]["enough"]
CHINESE = TEXTS["chinese.txt"]["enough"].replace("。\n", "。\n\n")  # each sentence is a document
SPOKEN = "king queen man woman Paris is the [MASK] of France . a quiet lovely film\n"
TRANSLATED = {
    "de": "ein Hund läuft\nder Mann schläft\n",
    "en": "a dog runs\nthe man sleeps\n",
    "zh": "狗跑了\n他睡了\n",
}
FILES = {
    "corpus.txt": LATIN + SPOKEN * 9,
    "more.txt": LATIN + "another word\n" * 9,
    "test.txt": LATIN,
    "chinese.txt": CHINESE,
    "语料.txt": CHINESE + "国王住在王宫里。\n" * 9,
    "新语料.txt": CHINESE + "王后也住在王宫里。\n" * 9,
    "reviews.tsv": CLASSES,
    "评论.tsv": CLASSES.replace("a", "北京").replace("l北京bel", "label"),
    "documents.json": TEXTS["relations.json"]["enough"],
    "article.txt": "a b c d\n",
    "文章.txt": "a b c d\n",
    "words.tsv": "king\tqueen\t9\nman\twoman\t8\n国王\t王后\t7\nking\twoman\t1\n",
    "analogies.txt": ": family\nking queen man woman\n国王 王后 国王 王后\n",
    "classes.tsv": CLASSES,
    "pairs.tsv": "a b c d\td c b a\n北京人民\t民人京北\n",
    **{f"{part}.txt": TEXTS["labels.txt"]["enough"] for part in ("train", "valid")},
    **{f"{part}.{side}": text * 30 for side, text in TRANSLATED.items() for part in ("train", "test")},
}
STANDS_FOR = {  # what would be read from the network
    "data:ws353-all": "words.tsv",
    "data:wordsim-240": "words.tsv",
    "data:google-analogies": "analogies.txt",
    "data:ca8-semantic": "analogies.txt",
    "data:trec": "classes.tsv",
    "data:thucnews": "classes.tsv",
    "blimp": "pairs.tsv",
    "--probe sst2": "--similarity words.tsv",
    "--probe chnsenticorp": "--similarity words.tsv",
}
LOOP = "threads=1 epochs=1 min_count=1 batch_tokens=200"
LAYERS = f"{LOOP} hidden_size=16 num_layers=1 num_heads=2 max_length=32"
SIZES = {  # by the beginning of a command
    "train word2vec": "threads=1 epochs=1 min_count=1 vector_size=8",
    "train --from": "threads=1 epochs=1",
    "train gpt": LAYERS,
    "train bert": f"{LAYERS} vocab_size=60",
    "train ssan": "threads=1 epochs=1 batch_size=8",
    "train transformer": f"{LAYERS} kind=words",
    "train ngram": "order=3",
    "train pinyin-ngram": "order=3 listed=false least=1",
    "finetune": "threads=1 epochs=1 batch_size=16",
    "compare --systems": "threads=1 min_count=1 vector_size=4",
}
MORE = {"autotune": ["--seconds", "1"], "probe": ["--task", "classification", "--no-control"]}


def small(line: str) -> list[str]:
    """The words of a command, without the network and at a tiny size."""
    for far, near in STANDS_FOR.items():
        line = line.replace(far, near)
    words = shlex.split(line)[1:]
    begin = next((begin for begin in (*SIZES, *MORE) if " ".join(words).startswith(begin)), "")
    if "--help" in words:
        return words
    settings = [one for one in SIZES.get(begin, "").split() if f" --{one.split('=')[0].replace('_', '-')} " not in line]
    return [*words, *MORE.get(begin, []), *(word for one in settings for word in ("--set", one))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_every_command_of_the_readme_runs(
    name: str, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WENMAI_LANG", "zh" if ".zh" in name else "en")
    for path, text in FILES.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    table, lines = read(ROOT / name).split("\n## ")[2:4]
    ran = [*commands(table), *commands(lines)]
    for line in ran:
        shell(*small(line))
    assert len(ran) > 25
