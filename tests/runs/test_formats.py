"""Models out into files of other programs, and in from them; what comes in can do what a trained run can."""

import os
import resource
import shutil

import numpy as np
import pytest
import torch

import wenmai
from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.formats.fasttext import read_fasttext, write_fasttext
from wenmai.formats.fasttext.quantised import quantise_fasttext
from wenmai.models.fasttext import FastText, FastTextClassifierConfig, FastTextConfig
from wenmai.runs.formats import export_run, import_run
from wenmai.text.vocab import Vocab


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"vector_size": 20, "epochs": 1, "threads": 1}
        return wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("run") / "run", **settings)


@pytest.fixture(scope="module", params=["transformer", "seq2seq"])
def translator_run(request, tmp_path_factory):
    pairs = [(f"a{number} b{number % 7}", f"y{number % 7} x{number}") for number in range(60)]
    sizes = {"hidden_size": 16, "num_layers": 1, "epochs": 1, "threads": 1, "kind": "words", "dropout": 0.0}
    extra = {"num_heads": 2, "ffn_size": 16} if request.param == "transformer" else {"embedding_size": 8}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        return wenmai.train(request.param, pairs, out=tmp_path_factory.mktemp("run") / "run", **(sizes | extra))


@pytest.mark.parametrize("name", ["word2vec", "word2vec-binary"])
def test_what_is_exported_comes_back_exactly(name, run, tmp_path):
    path = export_run(run, name, tmp_path / "vectors")
    back = import_run("word2vec", path, tmp_path / "back")
    assert back.vectors.index_to_key == run.vectors.index_to_key
    assert np.array_equal(back.vectors.vectors, run.vectors.vectors)
    assert back.summary["vocabulary"] == 80
    assert back.summary["size_bytes"] == back.model_bytes
    assert wenmai.load(tmp_path / "back").most_similar("colour1") == run.vectors.most_similar("colour1")
    assert wenmai.resume(back.path).finished  # there is nothing to do


def test_the_projector_gets_two_tables(run, tmp_path):
    folder = export_run(run, "projector", tmp_path / "projector")
    vectors = np.loadtxt(folder / "vectors.tsv", delimiter="\t", dtype=np.float32)
    assert np.array_equal(vectors, run.vectors.vectors)
    words = (folder / "metadata.tsv").read_text().splitlines()
    assert words[0] == "word\tcount"
    assert [line.split("\t")[0] for line in words[1:]] == run.vectors.index_to_key


@pytest.mark.parity
@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_what_is_exported_and_writes_what_is_imported(binary, run, tmp_path):
    keyed_vectors = pytest.importorskip("gensim.models").KeyedVectors
    path = export_run(run, "word2vec-binary" if binary else "word2vec", tmp_path / "ours")
    theirs = keyed_vectors.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == run.vectors.index_to_key
    assert np.array_equal(theirs.vectors, run.vectors.vectors)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    back = import_run("word2vec", tmp_path / "theirs", tmp_path / "back")
    assert np.array_equal(back.vectors.vectors, run.vectors.vectors)


def test_glove_text_is_told_by_its_content(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 0 0.5\nof 0 1 0.25\n<unk> 0 0 1\n")
    for name in ("word2vec", "glove"):
        run = import_run(name, tmp_path / "glove.txt", tmp_path / name)
        assert run.vectors.index_to_key == ["the", "of", "<unk>"]
        assert run.vectors["of"].tolist() == [0, 1, 0.25]
        assert run.recipe.system == "word2vec"  # the contexts of GloVe are not in its file


@pytest.mark.parity
@pytest.mark.parametrize("translator_run", ["transformer"], indirect=True)
def test_ctranslate2_translates_what_is_exported(translator_run, tmp_path):
    engine = pytest.importorskip("ctranslate2")
    folder = export_run(translator_run, "ctranslate2", tmp_path / "engine")
    texts = ["a3 b3", "a5 b5", "a40 b5"]
    tokenizer = translator_run.model.source
    tokens = [tokenizer.encode(text).tokens for text in texts]
    options = {"beam_size": 1, "min_decoding_length": 0, "max_decoding_length": 5 + 50, "disable_unk": True}
    suppressed = [["<pad>"], ["<s>"]]
    found = engine.Translator(str(folder)).translate_batch(tokens, suppress_sequences=suppressed, **options)
    expected = [tuple(one[0].tokens[:40]) for one in translator_run.model.stream(texts, beam_size=1)]
    assert [tuple(one.hypotheses[0][:40]) for one in found] == expected


@pytest.mark.parity
@pytest.mark.parametrize("translator_run", ["transformer"], indirect=True)
def test_a_folder_for_ctranslate2_that_cannot_be_written_leaves_nothing_behind(translator_run, tmp_path, monkeypatch):
    engine = pytest.importorskip("ctranslate2.specs")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="cannot be written"):
        export_run(translator_run, "ctranslate2", tmp_path / "file" / "engine")

    def full(self, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine.TransformerSpec, "save", full)
    with pytest.raises(RunError, match=r"cannot be written \(No space left on device\)"):
        export_run(translator_run, "ctranslate2", tmp_path / "engine")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_onnx_has_the_states_of_what_is_exported(translator_run, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    path = export_run(translator_run, "onnx", tmp_path / "encoder.onnx")
    translator = translator_run.model
    ids = np.array([[*translator.source.encode("a3 b3").ids, translator.source.eos_id]])
    valid = np.ones(ids.shape, bool)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    states = session.run(["states"], {"token_ids": ids, "mask": valid})[0]
    expected = translator.module.encode(torch.from_numpy(ids), torch.from_numpy(valid))[0]
    np.testing.assert_allclose(states, expected.detach().numpy(), rtol=0, atol=1e-5)
    with pytest.raises(RunError, match=r"encoder.onnx: cannot be written"):
        export_run(translator_run, "onnx", path / "encoder.onnx")


@pytest.fixture(params=["vectors", "classifier", "quantised"])
def fasttext_file(request, tmp_path):
    words = Vocab(["</s>", "seven", "b\udcff", *(f"w{place}" for place in range(300))], range(303, 0, -1))
    config = FastTextConfig(vector_size=100, buckets=5_000, window=3, hierarchical=True)
    labels = None
    if request.param != "vectors":
        config, labels = FastTextClassifierConfig(vector_size=6, word_ngrams=2, buckets=40), Vocab(["x", "y"], [2, 1])
    model = FastText(config, words, labels)
    model.initialise(1)
    model.output[:2, : config.vector_size] = [[1], [-1]]
    if request.param == "quantised":
        model = quantise_fasttext(model, cutoff=310, norms=True)
    write_fasttext(tmp_path / "model.bin", model)
    return tmp_path / "model.bin"


def test_fasttext_files_come_in_and_go_out_byte_for_byte(fasttext_file, shell, tmp_path):
    imported = import_run("fasttext", fasttext_file, tmp_path / "run")
    export_run(imported, "fasttext", tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == fasttext_file.read_bytes()
    assert imported.recipe.sections["model"] == FastText.load(imported.model_folder).config
    assert wenmai.resume(imported.path).finished
    if imported.recipe.system == "fasttext":
        assert imported.vectors.most_similar("sevens", topn=1)[0][0] == "seven"
        assert "seven" in shell("nearest", "run", "sevens").out
        assert shell("analogy", "run", "sevens", "w1", "w22").out
    else:
        texts = ["seven w5", "zzz"]
        assert imported.model.predict(texts, k=2) == read_fasttext(fasttext_file).predict(texts, k=2)


@pytest.fixture(scope="module")
def classifier_run(tmp_path_factory):
    """Two topics in 400 words, which are enough to be quantised, and a file with as many more texts."""
    folder = tmp_path_factory.mktemp("classifier")
    lines = [
        f"__label__{'xy'[n % 2]} " + " ".join(f"{'xy'[n % 2]}{(7 * n + m) % 200}" for m in range(5)) for n in range(800)
    ]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    settings = {"vector_size": 6, "word_ngrams": 2, "buckets": 900, "epochs": 5, "learning_rate": 0.5, "threads": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        return wenmai.train("fasttext-supervised", folder / "train.txt", out=folder / "run", **settings)


TOPICS = [" ".join(f"{topic}{place}" for place in range(start, start + 4)) for topic in "xy" for start in range(60)]


def accuracy(model):
    return np.mean([found[0][0] == text[0] for found, text in zip(model.predict(TOPICS), TOPICS, strict=True)])


def test_classifiers_go_out_quantised_by_the_name_of_the_file(classifier_run, tmp_path):
    plain = export_run(classifier_run, "fasttext", tmp_path / "model.bin")
    small = export_run(classifier_run, "fasttext", tmp_path / "model.ftz")
    assert read_fasttext(plain).input.dtype == np.float32
    model = read_fasttext(small)
    assert model.input.norm_codes is not None
    assert model.input.part == 2
    assert isinstance(model.output, np.ndarray)  # of two labels
    assert accuracy(model) > 0.95
    assert small.stat().st_size < 0.6 * plain.stat().st_size
    imported = import_run("fasttext", small, tmp_path / "imported")
    again = export_run(imported, "fasttext", tmp_path / "again.ftz")
    assert again.read_bytes() == small.read_bytes()
    with pytest.raises(SettingError, match="imported: this model is quantised already; use the original"):
        export_run(imported, "fasttext", tmp_path / "other.ftz", cutoff=300)


def test_how_texts_become_words_stays_beside_the_file(cache_folder, shell, tmp_path):
    lines = [f"__label__{name} {words * 3}" for name, words in (("甲", "天地人"), ("乙", "山水火")) for _ in range(40)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    run = wenmai.train(
        "fasttext-supervised",
        tmp_path / "train.txt",
        out=tmp_path / "run",
        segment="characters",
        vector_size=4,
        threads=1,
    )
    texts, gold = ["人地天", "火水"], ["甲", "乙"]
    assert [found[0][0] for found in run.model.predict(texts)] == gold
    told = shell("export", run.path, "fasttext", "model.bin").err
    assert "has no place for how texts become words (segment=characters), which is in model.bin.json" in told
    refused = shell("export", run.path, "fasttext", "-", code=2)
    assert refused.err == (
        "wenmai: fasttext needs a second file for how texts become words, which cannot go to standard output; name a "
        "file\n"
    )
    assert not refused.out
    back = import_run("fasttext", tmp_path / "model.bin", tmp_path / "back")
    assert back.recipe.sections["text"].segment == "characters"
    assert back.model.predict(texts) == run.model.predict(texts)
    (tmp_path / "model.bin").rename(tmp_path / "renamed.bin")
    lost = import_run("fasttext", tmp_path / "renamed.bin", tmp_path / "lost")
    assert lost.model.predict(texts)[0] == lost.model.predict(texts)[1]
    shell("import", "fasttext", "renamed.bin", "--out", "named", "--set", "segment=characters")
    named = wenmai.load(tmp_path / "named")
    assert [found[0][0] for found in named.predict(texts)] == gold
    (tmp_path / "model.bin.json").rename(tmp_path / "renamed.bin.json")
    write_fasttext(tmp_path / "renamed.bin", read_fasttext(tmp_path / "renamed.bin"))
    assert import_run("fasttext", tmp_path / "renamed.bin", tmp_path / "same").model.text.segment == "characters"
    with (tmp_path / "renamed.bin.json").open("a") as file:
        file.write("damaged")
    assert import_run("fasttext", tmp_path / "renamed.bin", tmp_path / "own").model.text.segment == "whitespace"
    with pytest.raises(
        SettingError, match=r"'vector_size' cannot be set for this file \(those that it does not hold: "
    ):
        import_run("fasttext", tmp_path / "renamed.bin", tmp_path / "wrong", vector_size=5)
    assert not (tmp_path / "wrong").exists()


def test_rows_that_are_kept_are_trained_again(classifier_run, shell, tmp_path):
    choices = ["--set", "cutoff=300", "--set", "qnorm=false", "--set", "dsub=3"]
    shell("export", classifier_run.path, "fasttext", "pruned.ftz", *choices)
    shell("export", classifier_run.path, "fasttext", "trained.ftz", *choices, "--set", "retrain=true")
    pruned, trained = read_fasttext(tmp_path / "pruned.ftz"), read_fasttext(tmp_path / "trained.ftz")
    for model in (pruned, trained):
        assert len(model.input) == 300
        assert (model.input.part, model.input.norm_codes) == (3, None)
    assert trained.vocab.tokens[:] == pruned.vocab.tokens[:]
    assert not np.array_equal(trained.output, pruned.output)
    assert accuracy(trained) >= accuracy(pruned)
    assert accuracy(trained) > 0.9


@pytest.mark.parametrize(
    ("name", "file", "choices", "message"),
    [
        (
            "fasttext",
            "out.ftz",
            {"cutof": 300},
            r"no setting 'cutof'; did you mean 'cutoff'\? \(its settings: cutoff, ret",
        ),
        ("fasttext", "out.bin", {"cutoff": 300}, r"cutoff, .* are for quantised models; .* ends in \.ftz"),
        ("fasttext", "out.ftz", {"cutoff": "-1"}, "cutoff='-1': expected greater"),
        ("fasttext", "out.ftz", {"qnorm": "perhaps"}, "qnorm='perhaps': expected a valid boolean"),
        ("fasttext", "out.ftz", {"retrain": True}, "set cutoff too, for example cutoff=100000"),
        (
            "fasttext",
            "out.ftz",
            {"cutoff": 255},
            "at least 256 rows, and the input has 255; keep at least 256 with cutoff",
        ),
        ("fasttext", "out.ftz", {"qout": True}, "the output has 2; quantise the input alone"),
    ],
)
def test_mistakes_in_quantising(name, file, choices, message, classifier_run, tmp_path):
    with pytest.raises(SettingError, match=message):
        export_run(classifier_run, name, tmp_path / file, **choices)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_quantised_or_trained_again(run, classifier_run, cache_folder, shell, tmp_path):
    finished = shell("export", run.path, "word2vec", "out.txt", "--set", "cutoff=300", code=2)
    assert finished.err == "wenmai: word2vec has no setting 'cutoff' (it has none)\n"
    finished = shell("export", classifier_run.path, "fasttext", "out.ftz", "--set", "name=3", code=2)
    assert "fasttext has no setting 'name'" in finished.err
    model = FastText(FastTextConfig(vector_size=2, buckets=300), Vocab(["a"], [1]))
    write_fasttext(tmp_path / "vectors.bin", model)
    vectors = import_run("fasttext", tmp_path / "vectors.bin", tmp_path / "vectors")
    with pytest.raises(SettingError, match=r"these are fastText word vectors; write them .* ends in \.bin"):
        export_run(vectors, "fasttext", tmp_path / "out.ftz")
    model = FastText(FastTextClassifierConfig(vector_size=2, buckets=0), Vocab(["a"], [1]), Vocab(["x"], [1]))
    write_fasttext(tmp_path / "few.bin", model)
    few = import_run("fasttext", tmp_path / "few.bin", tmp_path / "few")
    with pytest.raises(
        SettingError, match=r"few: quantising takes at least 256 rows, and the input has 1; write so small"
    ):
        export_run(few, "fasttext", tmp_path / "out.ftz")
    words = Vocab([f"w{place}" for place in range(400)], [1] * 400)
    write_fasttext(tmp_path / "many.bin", FastText(model.config, words, model.labels))
    many = import_run("fasttext", tmp_path / "many.bin", tmp_path / "many")
    with pytest.raises(RunError, match="many: was imported without its training text"):
        export_run(many, "fasttext", tmp_path / "out.ftz", cutoff=300, retrain=True)
    copy = shutil.copytree(classifier_run.path, tmp_path / "copy")
    recipe = (copy / "recipe.yaml").read_text()
    (copy / "recipe.yaml").write_text(recipe.replace("train.txt", "gone.txt"))
    with pytest.raises(RunError, match=r"copy: its corpus cannot be read any more: .*gone\.txt"):
        export_run(copy, "fasttext", tmp_path / "out.ftz", cutoff=300, retrain=True)
    assert not (tmp_path / "out.ftz").exists()


def test_damaged_fasttext_files_leave_nothing_behind(run, tmp_path):
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(FormatError, match=r"model\.bin"):
        import_run("fasttext", tmp_path / "model.bin", tmp_path / "run")
    with pytest.raises(RunError, match="is a run of word2vec, which cannot be exported as fasttext"):
        export_run(run, "fasttext", tmp_path / "out.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["model.bin"]


def test_a_run_goes_out_only_as_what_it_is(run, translator_run, tmp_path):
    name = translator_run.recipe.system
    possible = "ctranslate2, onnx" if name == "transformer" else "onnx"
    refusal = f"is a run of {name}, which cannot be exported as word2vec; it can as {possible}$"
    with pytest.raises(RunError, match=refusal):
        export_run(translator_run, "word2vec", tmp_path / "out")
    possible = "glove, projector, word2vec, word2vec-binary"
    with pytest.raises(RunError, match=f"cannot be exported as ctranslate2; it can as {possible}"):
        export_run(run, "ctranslate2", tmp_path / "out")
    if name == "seq2seq":
        with pytest.raises(RunError, match="run of seq2seq, which cannot be exported as ctranslate2; it can as onnx"):
            export_run(translator_run, "ctranslate2", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_unknown_formats_suggest_the_nearest(run, tmp_path):
    with pytest.raises(SettingError, match=r"did you mean 'word2vec-binary'\? \(formats: arpa, .*word2vec, "):
        export_run(run, "word2vec-binar", tmp_path / "vectors")
    with pytest.raises(SettingError, match="did you mean 'word2vec'"):
        import_run("wordtovec", tmp_path / "vectors", tmp_path / "run")


def test_bad_files_leave_nothing_behind(run, tmp_path):
    path = export_run(run, "word2vec-binary", tmp_path / "vectors.bin")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FormatError, match=r"vectors\.bin"):
        import_run("word2vec", path, tmp_path / "back")
    with pytest.raises(FormatError, match="no such file"):
        import_run("word2vec", tmp_path / "nowhere", tmp_path / "back")
    with pytest.raises(FormatError, match="this is a folder"):
        import_run("word2vec", run.path, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", ["word2vec", "projector"])
def test_what_is_there_is_not_replaced(name, run, tmp_path):
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "folder"
    corpus.write_text("years of work\n")
    folder.mkdir()
    (folder / "vectors.tsv").write_text("of another\n")
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (corpus, folder, pipe):
        with pytest.raises(RunError, match=f"{path}: exists already; choose another path to write"):
            export_run(run, name, path)
    assert corpus.read_text() == "years of work\n"
    assert (folder / "vectors.tsv").read_text() == "of another\n"
    assert pipe.is_fifo()


def test_places_that_cannot_be_written(run, tmp_path):
    path = export_run(run, "word2vec", tmp_path / "vectors.txt")
    with pytest.raises(RunError, match="exists already; choose another --out"):
        import_run("word2vec", path, run.path)
    with pytest.raises(RunError, match=r"choose another --out|cannot be written"):
        import_run("word2vec", path, path / "run")
    with pytest.raises(RunError, match="cannot be written"):
        export_run(run, "word2vec", path / "vectors.txt")
    assert path.read_text().startswith("80 20\n")


def test_a_full_disk_leaves_nothing_behind(run, shell, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    export_run(run, "word2vec", tmp_path / "vectors.txt")
    finished = shell.process("import", "word2vec", "vectors.txt", "--out", "back", code=6, preexec_fn=limit)
    assert finished.err == "wenmai: back: cannot be written (File too large)\n"
    finished = shell.process("export", run.path, "word2vec", "again.txt", code=6, preexec_fn=limit)
    assert finished.err == "wenmai: again.txt: cannot be written (File too large)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.txt"]


def test_only_finished_runs_are_exported(run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "copy")
    shutil.rmtree(copy / "model")
    with pytest.raises(RunError, match="has not finished; `wenmai resume"):
        export_run(copy, "word2vec", tmp_path / "vectors.txt")
    assert not (tmp_path / "vectors.txt").exists()
