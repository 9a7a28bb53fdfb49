"""Whoever trains on text without spaces, and says nothing else, does not train on whole clauses."""

import gzip
import io

import pytest

import wenmai
from wenmai.runs.autotune import autotune
from wenmai.runs.planning import plan
from wenmai.training.run import Run

CHINESE = "今天天气很好，我们一起去公园里散步。\n大家都说机器学习很有意思，我们也在学习机器学习。\n"
ENGLISH = "The weather is fine today and we walk in the park.\nEverybody says that machine learning is fun.\n"
JAPANESE = "東京タワーは東京都港区芝公園にある総合電波塔である。\n"
LABELLED = [("今天天气很好我们去公园", "weather"), ("机器学习真的非常有意思", "learning")] * 10
TINY = {"min_count": 1, "epochs": 1, "threads": 1, "quiet": True}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "zh.txt"
    path.write_text(CHINESE * 20, encoding="utf-8")
    return path


def segment(system, corpus, **settings):
    recipe, opened = plan(system, corpus, **settings)
    found = recipe.flat_settings()
    return found.get("text.segment", found.get("tokenizer.kind")), opened.notes


def test_chinese_is_segmented_and_the_user_is_told(text, tmp_path, capsys):
    run = wenmai.train("word2vec", text, out=tmp_path / "run", vector_size=4, **TINY)
    assert "机器" in run.vectors or "机器学习" in run.vectors
    assert "today" not in run.vectors
    assert 'segment: "chinese"' in (tmp_path / "run" / "recipe.yaml").read_text()
    assert run.corpus["text"]["segment"] == "chinese"
    said = capsys.readouterr().err
    assert said.startswith("note: the text is written without spaces (Chinese, 100% of the letters): segment=chinese")
    assert "segment=whitespace" in said


@pytest.mark.parametrize(
    ("system", "corpus", "expected"),
    [
        ("ngram", CHINESE, "chinese"),
        ("glove", CHINESE, "chinese"),
        ("fasttext", JAPANESE, "characters"),
        ("rnnlm", CHINESE, "characters"),  # as most networks read Chinese
        ("rnnlm", "今天 天气 很 好 ， 我们 一起 去 公园 里 散步 。\n" * 9, "whitespace"),
        ("gpt", CHINESE, "byte-bpe"),  # which needs no spaces
        ("word2vec", ENGLISH, "whitespace"),
        ("word2vec", ENGLISH * 10 + CHINESE, "whitespace"),
        ("word2vec", ENGLISH + CHINESE, "chinese"),
        ("rnnlm", ENGLISH, "whitespace"),
    ],
)
def test_the_text_decides(system, corpus, expected, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(corpus * 5, encoding="utf-8")
    found, notes = segment(system, path)
    assert found == expected
    assert len(notes) == (found in ("chinese", "characters"))
    assert [one for one in notes if one.endswith("kind=chinese finds words by a dictionary")] == (
        [*notes] if system == "rnnlm" else []
    )


def test_chinese_is_noticed_where_the_tasks_are_english(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(CHINESE * 5, encoding="utf-8")
    fits = "with language=english its phrases are not found; language=chinese fits"
    assert [note.endswith(fits) for note in segment("ernie", path)[1]] == [True]
    assert segment("ernie", path, language="chinese")[1] == ()
    path.write_text(ENGLISH * 5, encoding="utf-8")
    assert segment("ernie", path)[1] == ()


def test_all_forms_of_a_text_are_looked_at(text, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(CHINESE, encoding="utf-8")
    (tmp_path / "zh.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    (tmp_path / "gb.txt").write_text(CHINESE * 20, encoding="gb18030")
    (tmp_path / "one line.txt").write_text((CHINESE * 30_000).replace("\n", ""), encoding="utf-8")
    assert segment("word2vec", folder)[0] == "chinese"
    assert segment("word2vec", tmp_path / "zh.txt.gz")[0] == "chinese"
    assert segment("word2vec", tmp_path / "gb.txt", encoding="gb18030")[0] == "chinese"
    assert segment("word2vec", tmp_path / "one line.txt")[0] == "chinese"
    assert segment("word2vec", [CHINESE] * 9)[0] == "chinese"
    assert segment("word2vec", [["今天天气很好"] * 9] * 9)[0] == "whitespace"  # tokens are taken as they are
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.read_bytes()))))
    assert segment("word2vec", "-")[0] == "chinese"


def test_what_can_be_read_only_once_is_read_as_a_whole(tmp_path, monkeypatch):
    lines = (line for line in (CHINESE * 20).splitlines())
    read = wenmai.train("word2vec", lines, out=tmp_path / "lines", vector_size=4, **TINY)
    assert read.corpus["stats"]["lines"] == 40
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO((CHINESE * 20).encode()))))
    read = wenmai.train("word2vec", "-", out=tmp_path / "stdin", vector_size=4, **TINY)
    assert read.corpus["stats"]["lines"] == 40


def test_what_is_set_stays(text):
    assert segment("word2vec", text, segment="whitespace") == ("whitespace", ())
    assert segment("word2vec", text, **{"text.segment": "characters"}) == ("characters", ())
    found, (note,) = segment("word2vec", text, segment="words")
    assert found == "words"
    assert "segment=chinese separates them" in note
    assert segment("rnnlm", text, kind="bpe") == ("bpe", ())


@pytest.mark.parametrize(
    ("system", "settings", "advice"),
    [
        ("word2vec", {"vector_size": 4, "epochs": 1}, "segment=chinese separates them"),
        ("rnnlm", {"hidden_size": 8, "max_steps": 1, "batch_tokens": 64}, "a new training with kind=characters"),
    ],
)
def test_a_run_on_english_that_is_continued_on_chinese_tells_the_user(system, settings, advice, text, tmp_path):
    english = tmp_path / "en.txt"
    english.write_text(ENGLISH * 20)
    base = wenmai.train(system, english, out=tmp_path / "base", min_count=1, threads=1, quiet=True, **settings)
    found, (note,) = segment(system, text, start=base.path)
    assert found == "whitespace"
    assert "the text is written without spaces (Chinese" in note
    assert advice in note
    assert segment(system, english, start=base.path) == ("whitespace", ())
    if system == "word2vec":  # what is chosen for the new text is not spoken of
        assert segment(system, text, start=base.path, segment="whitespace") == ("whitespace", ())
        assert segment(system, text, start=base.path, segment="chinese") == ("chinese", ())


def test_a_continued_run_and_later_verbs_keep_what_was_chosen(text, tmp_path):
    first = wenmai.train("word2vec", text, out=tmp_path / "first", vector_size=4, **TINY)
    english = tmp_path / "en.txt"
    english.write_text(ENGLISH * 20)
    more = wenmai.train("word2vec", english, start=first.path, out=tmp_path / "more", **TINY)
    assert more.recipe.sections["text"].segment == "chinese"
    again = wenmai.runs.train.train_recipe(first.path / "recipe.yaml", out=tmp_path / "again", quiet=True)
    assert again.corpus["fingerprint"] == first.corpus["fingerprint"]
    model = wenmai.train("ngram", text, out=tmp_path / "ngram", quiet=True).model
    (score,) = model.score(["我们去公园"])
    assert score.oov == 0
    assert score.tokens > 2


@pytest.mark.parametrize(
    ("system", "settings"),
    [("classifier", {}), ("fasttext-supervised", {"min_count": 1, "epochs": 50, "learning_rate": 1.0, "threads": 1})],
)
def test_labelled_texts_are_segmented_in_training_and_prediction(system, settings, tmp_path):
    run = wenmai.train(system, iter(LABELLED), out=tmp_path / "run", quiet=True, **settings)
    assert Run(run.path).recipe.sections["text"].segment == "chinese"
    assert [best[0][0] for best in run.model.predict(["公园", "机器学习"])] == ["weather", "learning"]


def test_autotune_looks_too(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / name).write_text("".join(f"__label__{label} {text}\n" for text, label in LABELLED))
    run = autotune(tmp_path / "train", valid=tmp_path / "valid", out=tmp_path / "run", seconds=0, min_count=1, epochs=1)
    assert run.recipe.sections["text"].segment == "chinese"


def test_pairs_are_left_to_their_tokenizer(tmp_path):
    (tmp_path / "pairs.tsv").write_text("今天天气很好我们去公园\tThe weather is fine today\n" * 20)
    assert segment("transformer", tmp_path / "pairs.tsv") == ("bpe", ())
