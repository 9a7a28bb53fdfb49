"""The commands of READMEs and pages are run one after the other, on tiny files and at tiny sizes."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.examples import TEXTS
from tests.docs.test_pages import FENCED, commands, read

ROOT = Path(__file__).resolve().parents[2]
LATIN, CLASSES = TEXTS["documents.txt"]["enough"], TEXTS["classes.tsv"]["enough"]
IN_CHINESE = str.maketrans("abcdefgh", "我你爱中国北京人")
CHINESE = TEXTS["chinese.txt"]["enough"].replace("。\n", "。\n\n")  # each sentence is a document
ENGLISH = "The cat saw the bank. But it sat on the mat.\nHowever, the river ran.\nThe Cat slept.\n\n" * 40
SPOKEN = "king queen man woman Paris is the [MASK] of France . a quiet lovely film\n"
TRANSLATED = {
    "de": "ein Hund läuft\nder Mann schläft\n",
    "en": "a dog runs\nthe man sleeps\n",
    "zh": "狗跑了\n他睡了\n",
}
RELATED = TEXTS["relations.json"]["enough"]
FILES = {
    "corpus.txt": LATIN + SPOKEN * 9,
    "more.txt": LATIN + "another word\n" * 9,
    "test.txt": LATIN,
    "sentences.txt": LATIN,
    "news.txt": ENGLISH,
    "enwiki.txt": ENGLISH,
    "chinese.txt": CHINESE,
    "zh.txt": CHINESE,
    "zhwiki.txt": CHINESE.replace("。\n\n", "。但是我爱北京。\n", 20) + "\n国王住在王宫里。\n" * 9,
    "语料.txt": CHINESE + "国王住在王宫里。\n" * 9 + "a b c d e f g h。\n" * 9,
    "新语料.txt": CHINESE + "王后也住在王宫里。\n" * 9,
    "articles.txt": CHINESE,
    "names.txt": "北京\n天安门\n",
    "vocab.txt": "".join(
        f"{one}\t{place}\n" for place, one in enumerate(("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"北京我爱"))
    ),
    "rows.txt": "1 5 6 7 8 2;0 0 0 0 0 0;0 1 2 3 4 5;-1 0 1 0 0 -1;1\n" * 40,
    "talks.jsonl": '["你爱中国。", "我爱北京。", "北京人爱我。"]\n' * 60,
    "reviews.tsv": CLASSES,
    "test.tsv": CLASSES,
    "train.tsv": CLASSES,
    "评论.tsv": "text\tlabel\n" + CLASSES.partition("\n")[2].translate(IN_CHINESE),
    "documents.json": RELATED,
    "meanings.json": '{"before": "stands before"}',
    "article.txt": "a b c d\n",
    "文章.txt": "a b c d\n",
    "abstract.txt": "a b c d\n",
    "words.tsv": "king\tqueen\t9\nman\twoman\t8\n国王\t王后\t7\nking\twoman\t1\n",
    "analogies.txt": ": family\nking queen man woman\n国王 王后 国王 王后\n",
    "classes.tsv": CLASSES,
    "tags.txt": TEXTS["tags.txt"]["enough"],
    "pairs.tsv": "a b c d\td c b a\n北京人民\t民人京北\n",
    "gold.tsv": "1\two ai ni\t我爱你\n2\tbei jing\t北京\n",
    **{f"{part}.txt": TEXTS["labels.txt"]["enough"] for part in ("train", "valid")},
    **{f"{part}.{side}": text * 30 for side, text in TRANSLATED.items() for part in ("train", "test")},
}
STANDS_FOR = {  # what would be read from the network
    "data:redocred-relations": "meanings.json",
    "data:redocred": "documents.json",
    "data:cdr-train": "documents.json",
    "data:cdr-dev": "documents.json",
    "data:ws353-all": "words.tsv",
    "data:wordsim-240": "words.tsv",
    "data:google-analogies": "analogies.txt",
    "data:ca8-semantic": "analogies.txt",
    "data:trec": "classes.tsv",
    "data:sst2": "classes.tsv",
    "data:thucnews": "classes.tsv",
    "data:chnsenticorp": "评论.tsv --task classification",
    "data:conll2003-pos": "classes.tsv",
    "data:kyubyong": "gold.tsv",
    "blimp": "pairs.tsv",
    "--probe sst2": "--similarity words.tsv",
    "--probe chnsenticorp": "--similarity words.tsv",
}
LEFT_OUT = ("wenmai import ", "wenmai evaluate runs/bert --similarity")  # there is nothing to import; pairs of texts
LOOP = "threads=1 epochs=1 min_count=1 batch_tokens=300"
SIZE = "hidden_size=16 num_layers=4 num_heads=2"
LAYERS = f"{LOOP} {SIZE} max_length=256"
SIZES = {  # by the beginning of a command
    "train word2vec": "threads=1 epochs=1 min_count=1 vector_size=8",
    "train --from": "threads=1 epochs=1",
    "train gpt": LAYERS,
    "train bert": f"{LAYERS} vocab_size=60",
    "train ernie-2": f"{SIZE} threads=1 epochs=9 min_count=1 max_length=16 batch_tokens=64",
    "train ernie zhwiki.txt --language chinese --file": f"{SIZE} threads=1 epochs=2 max_length=16",
    "train ernie": f"{LAYERS} vocab_size=60",
    "train elmo": f"{LOOP} hidden_size=8 cell_size=12 segment_length=6",
    "train ssan": "threads=1 epochs=1 batch_size=8",
    "train transformer": f"{LAYERS} kind=words",
    "train ngram": "order=3",
    "train pinyin-ngram": "order=3 listed=false least=1",
    "train pinyin ": LAYERS,
    "finetune": "threads=1 epochs=1 batch_size=16",
    "compare --systems": "threads=1 min_count=1 vector_size=4",
}
MORE = {"autotune": ["--seconds", "1"], "probe": ["--task=classification", "--no-control"]}
BERT, CHARACTERS = "wenmai train bert corpus.txt", "wenmai train bert zh.txt --kind characters"
PAGES = {  # the commands of other pages that come before
    "README.md": [],
    "README.zh.md": [],
    "docs/encoders.md": [f"{CHARACTERS} --out runs/bert-zh", "wenmai train word2vec corpus.txt --out runs/word2vec"],
    "docs/ernie.md": [f"{BERT} --out runs/base", "wenmai finetune runs/base tags.txt --task tagging --out runs/tagger"],
    "docs/finetuning.md": [f"{CHARACTERS} --out runs/zh", f"{BERT} --out runs/bert"],
    "docs/pinyin.md": [],
    "docs/probing.md": [f"{BERT} --out runs/bert", "wenmai train word2vec corpus.txt --out runs/word2vec"],
    "docs/ssan.md": [f"{BERT} --out runs/minilm"],
}


def small(line: str) -> list[str]:
    """The words of a command, without the network and at a tiny size."""
    for far, near in STANDS_FOR.items():
        line = line.replace(far, near)
    words = shlex.split(line)[1:]
    begin = next((begin for begin in (*SIZES, *MORE) if " ".join(words).startswith(begin)), "")
    settings = [one for one in SIZES.get(begin, "").split() if f" --{one.split('=')[0].replace('_', '-')} " not in line]
    return [*words, *MORE.get(begin, []), *(word for one in settings for word in ("--set", one))]


def told(name: str) -> Iterator[str]:
    """The commands of a page; of a README, also those of its table."""
    page = read(ROOT / name)
    yield from PAGES[name]
    if name.startswith("README"):
        yield from commands(page.split("\n## ")[2])
    blocks = "".join(f"```\n{block}```\n" for kind, block in FENCED.findall(page) if kind != "python")
    yield from (line for line in commands(blocks) if not line.startswith(LEFT_OUT))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PAGES)
def test_every_command_runs(name: str, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENMAI_LANG", "zh" if ".zh" in name else "en")
    for path, text in FILES.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    ran = [*told(name)]
    for line in ran:
        shell(*small(line))
    assert len(ran) > 5
