"""Language models from elsewhere as runs, and trainings with tokenizers from elsewhere."""

import json
import math
import shutil

import pytest
import torch
import yaml

import wenmai
from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.formats.huggingface import write_huggingface
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.runs.formats import export_run, import_run
from wenmai.runs.train import train_recipe
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig
from wenmai.training.run import Run

LINES = [f"the {colour} cat saw {number} dogs" for colour in ("red", "blue", "old") for number in range(9)] * 2
SIZES = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 12, "dropout": 0.0}
SMALL = {**SIZES, "epochs": 1, "threads": 1, "batch_tokens": 48, "min_count": 1}
CONTINUED = {"epochs": 1, "threads": 1, "batch_tokens": 48}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A GPT-2 whose table has more rows than there are tokens."""
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(kind="byte-bpe", vocab_size=290, min_count=1))
    torch.manual_seed(2)
    model = Gpt(GptConfig(**SIZES), vocab_size=tokenizer.vocab_size + 6, bos_id=tokenizer.eos_id)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    path = tmp_path_factory.mktemp("pretrained") / "gpt2"
    write_huggingface(path, model.eval(), tokenizer)
    return path


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def rows(run):
    return run.model.module.vocab_size


def test_what_is_imported_does_all_that_a_trained_one_does(folder, text, shell, tmp_path):
    shell("import", "huggingface", folder, "--out", "run")
    run = Run(tmp_path / "run")
    tokens = run.model.tokenizer.vocab_size
    assert run.summary["vocabulary"] == tokens == rows(run) - 6
    assert run.recipe.sections["tokenizer"].file == str(folder)
    shown = [json.loads(line) for line in shell("score", "run", "--file", text, "--json").out.splitlines()]
    assert len(shown) == len(LINES) + 1
    assert shown[-1]["perplexity"] == pytest.approx(
        math.exp(-sum(line["log_prob"] for line in shown[:-1]) / sum(line["tokens"] for line in shown[:-1]))
    )
    found = json.loads(shell("next", "run", "the red", "--topn", tokens - 2, "--json").out)["next"]
    assert len(found) == tokens - 2  # padding and begin are never next, nor rows without a token
    assert sum(one["probability"] for one in found) < 1
    assert shell("generate", "run", "the", "--max-tokens", "9", "--seed", "3").out
    assert "perplexity" in shell("evaluate", "run", "--on", text).out
    shell("export", "run", "huggingface", "again")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    assert wenmai.resume(run.path).finished


def test_what_is_imported_is_continued_on_new_text(folder, text, tmp_path):
    run = import_run("huggingface", folder, tmp_path / "run")
    more = wenmai.train("gpt", text, start=run.path, out=tmp_path / "more", **CONTINUED)
    assert rows(more) == rows(run)
    assert more.recipe.sections["tokenizer"] == run.recipe.sections["tokenizer"]
    before, after = (sum(score.log_prob for score in one.model.score(LINES)) for one in (run, more))
    assert after > before
    new = tmp_path / "new.txt"
    new.write_text("the zebras saw zebras and zebras\n" * 20)
    grown = wenmai.train("gpt", new, start=run.path, out=tmp_path / "grown", grow=5, **CONTINUED)
    assert rows(grown) == grown.model.tokenizer.vocab_size == run.model.tokenizer.vocab_size + 5
    with pytest.raises(SettingError, match=r"file=.*other has no effect on a run that continues another"):
        wenmai.train("gpt", text, start=run.path, out=tmp_path / "no", file=tmp_path / "other")


@pytest.mark.parametrize("name", ["huggingface", "ctranslate2"])
def test_only_gpts_go_out_as_gpts(name, text, tmp_path):
    other = wenmai.train("rnnlm", text, out=tmp_path / "run", hidden_size=4, num_layers=1, epochs=1, min_count=1)
    with pytest.raises(RunError, match=f"is a run of rnnlm, which cannot be exported as {name}"):
        export_run(other, name, tmp_path / "out")
    banded = wenmai.train("gpt", text, out=tmp_path / "banded", **SMALL | {"num_layers": 2, "window": 3})
    with pytest.raises(SettingError, match="window=3"):
        export_run(banded, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parity
def test_ctranslate2_writes_what_the_run_writes(text, shell, tmp_path):
    engine = pytest.importorskip("ctranslate2")
    run = wenmai.train("gpt", text, out=tmp_path / "run", **SMALL | {"epochs": 5, "max_length": 30, "vocab_size": 290})
    shell("export", "run", "ctranslate2", "engine")
    tokenizer = run.model.tokenizer
    prompt = [tokenizer.eos_id, *tokenizer.encode("the old").ids]
    (found,) = engine.Generator(str(tmp_path / "engine")).generate_batch(
        [[tokenizer.token(number) for number in prompt]],
        max_length=8,
        include_prompt_in_result=False,
        suppress_sequences=[["<pad>"], ["<s>"], ["<unk>"]],
    )
    (ours,) = run.model.generate("the old", max_tokens=8, top_k=1)
    assert ours.text == tokenizer.decode(found.sequences_ids[0])


def test_damaged_folders_leave_nothing_behind(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    data = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(data[:-10])
    with pytest.raises(FormatError, match=r"model\.safetensors: is not a whole"):
        import_run("huggingface", copy, tmp_path / "run")
    with pytest.raises(FormatError, match="no such folder"):
        import_run("huggingface", tmp_path / "nowhere", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sizes_that_a_model_claims_are_checked_before_memory_is_taken(folder, tmp_path):
    run = import_run("huggingface", folder, tmp_path / "run")
    path = run.model_folder / "config.json"
    head = json.loads(path.read_text())
    for vocab_size, message in (
        (10**11, r"embedding\.weight has the shape"),
        (10**40, "its sizes are too large"),
        (100, "tokens, the model 100"),
        ("many", "the model 'many'"),
    ):
        path.write_text(json.dumps(head | {"vocab_size": vocab_size}))
        with pytest.raises(FormatError, match=message):
            wenmai.load(run.path)
    path.write_text(json.dumps(head | {"model": head["model"] | {"num_layers": 10**9}}))
    with pytest.raises(
        FormatError, match=r"config\.json: is damaged: num_layers=1000000000, and model\.safetensors has"
    ):
        wenmai.load(run.path)


def test_a_model_with_a_begin_of_its_own_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    head = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(head | {"bos_token_id": 7}))
    with pytest.raises(FormatError, match="bos_token_id=7 stands before every text"):
        import_run("huggingface", copy, tmp_path / "run")


# --- tokenizers that are there already --------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["gpt", "nnlm", "rnnlm", "transformer-xl"])
def test_every_language_model_takes_a_tokenizer_that_is_there(system, folder, text, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    small = {
        "gpt": SIZES,
        "nnlm": {"hidden_size": 4, "embedding_size": 4},
        "rnnlm": {"hidden_size": 4, "num_layers": 1},
        "transformer-xl": {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "ffn_size": 8, "memory_length": 6},
    }[system]
    common = {"epochs": 1, "threads": 1, "batch_tokens": 48, "segment_length": 6}
    settings = {**small, **common, "tokenizer.file": "gpt2/tokenizer.json"}
    run = wenmai.train(system, text, out=tmp_path / "run", **settings)
    assert run.model.tokenizer.fingerprint == Tokenizer.load(folder / "tokenizer.json").fingerprint
    noted = yaml.safe_load((run.path / "recipe.yaml").read_text())["tokenizer"]
    assert noted["file"] == str(folder / "tokenizer.json")
    again = train_recipe(run.path / "recipe.yaml", out=tmp_path / "again")
    assert again.recipe.sections["tokenizer"] == run.recipe.sections["tokenizer"]


def test_mistakes_with_tokenizers_that_are_there(folder, text, tmp_path):
    for settings, error, message in (
        ({"file": tmp_path / "gone.json"}, FormatError, r"gone\.json: no such file"),
        ({"file": text}, FormatError, r"text\.txt: is no vocab.txt of BERT"),
        ({"file": folder, "kind": "words"}, SettingError, "kind=words has no effect with file="),
        ({"file": folder, "tokenizer.vocab_size": 300}, SettingError, "vocab_size=300 has no effect with file="),
    ):
        with pytest.raises(error, match=message):
            wenmai.train("gpt", text, out=tmp_path / "run", **SIZES | settings)
    assert not (tmp_path / "run").exists()
    plain = wenmai.train("gpt", text, out=tmp_path / "run", **SMALL | {"file": "none"})
    assert plain.recipe.sections["tokenizer"].kind == "byte-bpe"


def test_texts_are_encoded_anew_when_the_tokenizer_changes(folder, text, tmp_path):
    copy = tmp_path / "tokenizer.json"
    shutil.copy(folder / "tokenizer.json", copy)
    settings = {**SIZES, "epochs": 1, "threads": 1, "batch_tokens": 48, "file": copy}
    first = wenmai.train("gpt", text, out=tmp_path / "first", **settings)
    Tokenizer.train(LINES, TokenizerConfig(kind="whitespace", min_count=1)).save(copy)
    second = wenmai.train("gpt", text, out=tmp_path / "second", **settings)
    assert first.corpus["fingerprint"] != second.corpus["fingerprint"]
    assert rows(second) < rows(first)
