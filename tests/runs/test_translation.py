"""A translator from its pairs to its figures, through the doors that users have."""

import json
import random
import sys

import pytest

import wenmai
from wenmai.core.errors import CorpusError, FormatError, RunError, SettingError
from wenmai.core.folder import file_sha256
from wenmai.runs.compare_systems import compare_systems
from wenmai.runs.measuring.translation import TRANSLATORS
from wenmai.runs.train import Callback
from wenmai.runs.translation import write_attention

TINY = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "ffn_size": 16,
    "kind": "words",
    "min_count": 1,
    "batch_tokens": 200,
    "epochs": 1,
    "threads": 1,
    "warmup": 10,
}
RECURRENT = {name: TINY[name] for name in TINY if name not in ("num_heads", "ffn_size", "warmup")} | {
    "embedding_size": 8
}


def some_pairs(number=60, seed=1):
    draw = random.Random(seed)
    made = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(number)]
    return [(" ".join(words), " ".join(reversed(words)).upper()) for words in made]


PAIRS = some_pairs()


def model_bytes(run):
    return (run.path / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs by name."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        blind = RECURRENT | {"context": "first_state"}
        return {
            "transformer": wenmai.train("transformer", PAIRS, out=folder / "transformer", **TINY),
            "seq2seq": wenmai.train("seq2seq", PAIRS, out=folder / "seq2seq", joint=False, **RECURRENT),
            "blind": wenmai.train("seq2seq", PAIRS, out=folder / "blind", swap=True, **blind),
            "words": wenmai.train("word2vec", [["a", "b"] * 50] * 20, out=folder / "words", vector_size=4, threads=1),
        }


# --- pairs ------------------------------------------------------------------------------------------------------


def test_pairs_in_any_form_give_the_same_model(tmp_path, runs):
    tsv, source, target, lines = (tmp_path / name for name in ("p.tsv", "p.de", "p.en", "p.jsonl"))
    tsv.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    source.write_text("".join(f"{one}\n" for one, _ in PAIRS))
    target.write_text("".join(f"{other}\n" for _, other in PAIRS))
    lines.write_text("".join(json.dumps({"source": one, "target": other}) + "\n" for one, other in PAIRS))
    forms = {
        "tsv": str(tsv),
        "files": f"{source},{target}",
        "two": [source, target],
        "json": lines,
        "iter": iter(PAIRS),
    }
    for name, corpus in forms.items():
        run = wenmai.train("transformer", corpus, out=tmp_path / name, **TINY)
        assert model_bytes(run) == model_bytes(runs["transformer"]), name
    again = wenmai.runs.train.train_recipe(tmp_path / "files" / "recipe.yaml", out=tmp_path / "again")
    assert model_bytes(again) == model_bytes(runs["transformer"])


def test_validation_pairs_may_be_given(tmp_path, capsys):
    valid = tmp_path / "valid.tsv"
    valid.write_text(f"a b\tB A\na\t\n{'a ' * 300}\tA\n")
    run = wenmai.train("transformer", PAIRS[:10], out=tmp_path / "run", valid=str(valid), **TINY)
    assert run.corpus["valid"]["pairs"] == 1
    told = "note: left out of the pairs to validate on: 1 too long, 1 with an empty side\n"
    assert told in capsys.readouterr().err
    assert run.summary["validation"]["loss"] > 0
    assert run.recipe.sections["data"].valid == str(valid)


def test_pairs_that_are_left_out_are_told_before_the_training(tmp_path, capsys):
    pairs = [*PAIRS, ("a " * 12, "A"), ("a", " ")]
    run = wenmai.train("transformer", pairs, out=tmp_path / "run", **TINY | {"max_length": 12})
    assert (run.corpus["stats"]["too_long"], run.corpus["stats"]["empty"]) == (1, 1)
    told = "1 pairs with an empty side, 1 pairs longer than longest or max_length allows"
    assert f"note: left out of the corpus: {told}" in capsys.readouterr().err


def test_files_of_different_lengths_are_named_with_their_lines(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a\n" * 60)
    other.write_text("b\n" * 61)
    with pytest.raises(CorpusError, match=rf"{one} has 60 lines, {other} has 61"):
        wenmai.train("transformer", f"{one},{other}", out=tmp_path / "run", **TINY)
    assert not (tmp_path / "run").exists()


# --- the run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transformer", "seq2seq", "blind"])
def test_a_model_folder_has_safetensors_and_json_alone(name, runs):
    run = runs[name]
    assert {path.suffix for path in (run.path / "model").iterdir()} == {".safetensors", ".json"}
    assert not (run.path / "checkpoints").exists()
    texts = ["a b c", "", "h"]
    assert wenmai.load(run.path).translate(texts) == run.model.translate(texts)
    assert run.model.translate("")[0] == ""
    kinds = [record["kind"] for record in run.records]
    assert kinds[-1] == "evaluation"
    assert set(kinds) == {"step", "evaluation"}


def test_a_watcher_sees_how_far_reading_has_come(tmp_path):
    path, seen = tmp_path / "pairs.tsv", []
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")

    class Listener(Callback):
        def encoding_corpus(self, done_bytes, total_bytes):
            seen.append((done_bytes, total_bytes))

    wenmai.train("transformer", path, out=tmp_path / "run", callback=Listener(), **TINY)
    size = path.stat().st_size
    assert seen == [(size, size)] * 2  # for the tokenizer, and for the numbers


def test_a_continued_run_has_the_tokenizer_and_the_model_of_the_first(tmp_path, runs):
    first = runs["transformer"]
    more = [*some_pairs(60, seed=2), ("z z", "Z")]
    run = wenmai.train(
        "transformer", more, out=tmp_path / "run", start=first.path, steps=1, threads=1, learning_rate=1e-9
    )
    assert run.model.config == first.model.config
    assert run.model.source.fingerprint == first.model.source.fingerprint
    assert run.model.translate(["a b c"]) == first.model.translate(["a b c"])
    assert run.corpus["stats"]["source_unknown"] == 2
    with pytest.raises(SettingError, match="leave out the settings of the model"):
        wenmai.train("transformer", more, out=tmp_path / "other", start=first.path, hidden_size=32)
    with pytest.raises(SettingError, match=r"kind=bpe has no effect .* has kind=words, and its tokenizers stay"):
        wenmai.train("transformer", more, out=tmp_path / "other", start=first.path, kind="bpe")
    assert not (tmp_path / "other").exists()
    with pytest.raises(SettingError, match="cannot be continued as seq2seq"):
        wenmai.train("seq2seq", more, out=tmp_path / "other", start=first.path)


def test_a_run_that_is_continued_in_the_other_direction_is_noted(runs, tmp_path, caplog):
    for swap in (True, False):
        wenmai.train("seq2seq", PAIRS, out=tmp_path / str(swap), start=runs["blind"], swap=swap, steps=1, threads=1)
    note = f"{runs['blind'].path} was trained with swap=true, and this training has swap=false: of pairs in the same "
    assert caplog.messages == [note + "order it learns the other direction"]


def test_a_damaged_model_is_refused_with_a_message(tmp_path, runs):
    run = wenmai.train("transformer", PAIRS, out=tmp_path / "run", **TINY)
    path = run.path / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"model\.safetensors"):
        wenmai.load(run.path)


def test_systems_that_cannot_do_something_say_what_they_can(runs):
    with pytest.raises(RunError, match=r"which has no translate; it has nearest, analogy, similarity, embed$"):
        runs["words"].model_for("translate")
    with pytest.raises(RunError, match="is a run of transformer, which has no vectors of words; it has translate"):
        _ = runs["transformer"].vectors


# --- figures ----------------------------------------------------------------------------------------------------


def test_a_test_set_gives_bleu_chrf_and_signature(tmp_path, runs):
    path = tmp_path / "test.tsv"
    path.write_text("a b\tB A\nc\tC\n")
    found = wenmai.evaluate(runs["transformer"].path, on=path, beam=2).as_dict()
    assert {"bleu", "chrf", "signature", "exact_match", "sentences"} <= set(found)
    assert found["on"] == str(path)
    turned = wenmai.evaluate(runs["blind"], on=[("a b", "B A")], beam=1)
    assert turned.result.sentences == 1


def test_what_is_left_out_of_a_test_set_is_told(runs, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("a b\tB A\n\tC\n\n")
    told = ["2 examples were left out because a text is empty"]
    assert wenmai.evaluate(runs["transformer"], on=test, beam=1).notes == told
    found = wenmai.compare([runs["transformer"], runs["seq2seq"]], out=tmp_path / "out", on=[str(test)], beam=1)
    assert list(found.notes.values()) == [told, told]


def test_two_runs_are_compared_on_one_test_set(runs):
    test = some_pairs(20, seed=3)
    found = wenmai.evaluate(runs["transformer"], on=test, against=runs["seq2seq"].path, beam=1)
    difference = found.as_dict()["difference"]["bleu"]
    assert difference["difference"] == pytest.approx(difference["second"] - difference["first"])
    assert found.result.bleu == pytest.approx(difference["second"])
    with pytest.raises(RunError, match="translate in opposite directions"):
        wenmai.evaluate(runs["transformer"], on=test, against=runs["blind"], beam=1)
    with pytest.raises(RunError, match="has no translate"):
        wenmai.evaluate(runs["transformer"], on=test, against=runs["words"], beam=1)


def test_translators_are_compared_on_pairs(runs, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{source}\t{target}\n" for source, target in some_pairs(20, seed=3)))
    chosen = [runs["transformer"], runs["seq2seq"]]
    found = wenmai.compare(chosen, out=tmp_path / "out", on=[str(test)], beam=1)
    tested = wenmai.evaluate(chosen[1], on=test, against=chosen[0], beam=1)
    first, second = found.systems
    assert [(measure.kind, measure.name) for measure in second.measures] == [("bleu", "test.tsv"), ("chrf", "test.tsv")]
    assert [measure.value for measure in second.measures] == [tested.result.bleu, tested.result.chrf]
    assert [measure.difference for measure in first.measures] == [None, None]
    for measure, paired in zip(second.measures, (tested.difference.bleu, tested.difference.chrf), strict=True):
        assert measure.low <= measure.value <= measure.high
        assert (measure.difference.value, measure.difference.p_value) == (paired.difference, paired.p_value)
    buckets = tested.result.buckets
    assert [(part.name, part.value) for part in second.measures[0].parts] == [
        (f"{bucket.name} words", bucket.bleu) for bucket in buckets
    ]
    assert [point.y for point in second.lines["test.tsv"]] == [bucket.bleu for bucket in buckets]
    assert set(first.samples) == set(second.samples) == set(found.sampled.references)
    page = (tmp_path / "out" / "report.html").read_text()
    assert tested.result.signature in page
    assert "Long and short sentences" in page
    with pytest.raises(RunError, match="translate in opposite directions"):
        wenmai.compare([runs["transformer"], runs["blind"]], out=tmp_path / "other", on=[str(test)])
    with pytest.raises(SettingError, match="name at least one test set: --on FILE, for translators"):
        wenmai.compare(chosen, out=tmp_path / "other")


def test_a_tokeniser_that_there_is_not_is_refused_before_anything_is_translated(runs, tmp_path, monkeypatch):
    def translated(*_):
        pytest.fail("translated")

    wrong = {"tokenize": "moses", "progress": translated}
    message = "no tokenize 'moses' for BLEU; expected one of 13a"
    with pytest.raises(SettingError, match=message):
        TRANSLATORS.evaluate(runs["transformer"], on=PAIRS, **wrong)
    with pytest.raises(SettingError, match=message):
        TRANSLATORS.compare([runs["transformer"]], None, on=["nowhere.tsv"], **wrong)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tB A\n")
    with pytest.raises(SettingError, match=message):
        compare_systems("transformer", pairs, out=tmp_path / "out", on=str(pairs), tokenize="moses")
    assert not (tmp_path / "out").exists()
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(SettingError, match="BLEU needs sacreBLEU"):
        TRANSLATORS.evaluate(runs["transformer"], on=PAIRS, progress=translated)


def test_a_translator_of_pairs_that_have_changed_is_not_taken_again(tmp_path):
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "both"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    run = wenmai.train("transformer", pairs, out=out / "transformer", quiet=True, **TINY)
    (source,) = run.corpus["sources"]
    assert source == {"path": str(pairs), "bytes": pairs.stat().st_size, "sha256": file_sha256(pairs)}
    again = {"out": out, "settings": TINY, "on": [str(pairs)], "beam": 1, "quiet": True}
    assert compare_systems(["transformer"], [pairs], **again).corpus.name == "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in some_pairs(seed=2)))
    with pytest.raises(RunError, match="transformer: was trained on files that have changed since"):
        compare_systems(["transformer"], [pairs], **again)


# --- attention --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_attention_becomes_a_page_or_a_picture(name, tmp_path, runs):
    for ending, begins in ((".html", b"<!"), (".png", b"\x89PNG")):
        path = write_attention(runs[name], ["", "a b c"], tmp_path / f"attention{ending}")
        assert path.read_bytes().startswith(begins)


def test_attention_that_cannot_be_shown_is_explained(tmp_path, runs):
    with pytest.raises(SettingError, match=r"ends in \.html .* or \.png"):
        write_attention(runs["transformer"], ["a"], tmp_path / "attention.pdf")
    with pytest.raises(SettingError, match="no text"):
        write_attention(runs["transformer"], [" "], tmp_path / "attention.html")
    with pytest.raises(SettingError, match="has no attention"):
        write_attention(runs["blind"], ["a"], tmp_path / "attention.html")


@pytest.mark.parametrize("ending", ["html", "png"])
def test_a_place_where_attention_cannot_be_is_refused_at_once(tmp_path, runs, ending):
    (tmp_path / f"folder.{ending}").mkdir()
    with pytest.raises(SettingError, match="is a folder; name"):
        write_attention(runs["transformer"], ["a"], tmp_path / f"folder.{ending}")
    (tmp_path / "notes.html").write_text("mine")
    with pytest.raises(SettingError, match=r"is a file; name"):
        write_attention(runs["transformer"], ["a"], tmp_path / f"notes.html/a.{ending}")
    if ending == "html":
        with pytest.raises(SettingError, match="is no page, which would be lost"):
            write_attention(runs["transformer"], ["a"], tmp_path / "notes.html")
