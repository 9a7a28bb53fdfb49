"""Settings as options of their own, and their other names."""

import json
import subprocess
import sys

import pytest

import wenmai
from wenmai.config.recipe import settings_of
from wenmai.core.aliases import find_setting, nearest_setting
from wenmai.core.errors import SettingError
from wenmai.core.registry import systems


def recipe(shell, *arguments):
    """The model and training sections of the recipe that a command writes."""
    found = wenmai.Run(shell.folder / json.loads(shell(*arguments, "--json", "--quiet").out)["run"]).recipe
    return found.flat_settings()


@pytest.fixture
def text(shell):
    (shell.folder / "text.txt").write_text("a b c d e f g h\n" * 50)
    return "text.txt"


USUAL = ("--threads", "1", "--min-count", "1", "--sample=0")


def test_options_are_settings(shell, text):
    plain = recipe(shell, "train", "word2vec", text, "--out", "a", *USUAL, "--set", "epochs=2", "--set",
                   "vector_size=6", "--set", "lowercase=true", "--set", "dynamic_window=false")  # fmt: skip
    assert (plain["train.epochs"], plain["model.vector_size"], plain["text.lowercase"]) == (2, 6, True)
    spellings = [
        ("--epochs", "2", "--vector-size=6", "--lowercase", "--no-dynamic-window"),
        ("--lowercase", "--epochs=2", "--vector_size", "6", "--dynamic-window", "false"),
        ("--epoch", "2", "--size", "6", "--lowercase=yes", "--dynamic-window=off"),
        ("--iter", "2", "--dim", "6", "--text.lowercase", "true", "--no_dynamic_window"),
    ]
    for number, spelled in enumerate(spellings):
        assert recipe(shell, "train", "word2vec", *spelled, text, "--out", f"{number}", *USUAL) == plain
    again = recipe(shell, "train", "a/recipe.yaml", "--out", "again", "--lr", "0.01")
    assert again == plain | {"train.learning_rate": 0.01}
    more = recipe(shell, "train", "--from", "a", text, "--out", "more", "--epochs", "1")
    assert (more["train.epochs"], more["model.vector_size"]) == (1, 6)


def test_a_file_may_be_called_like_a_setting(shell, text):
    (shell.folder / text).rename(shell.folder / "epochs=3")
    assert recipe(shell, "train", "word2vec", "epochs=3", "--out", "a", *USUAL)["train.epochs"] == 5


def test_python_takes_the_same_names(tmp_path):
    run = wenmai.train("word2vec", [["a", "b", "c"]] * 20, out=tmp_path / "run", size=4, minCount=1, workers=1, iter=1)
    assert (run.recipe.sections["model"].vector_size, run.recipe.sections["train"].epochs) == (4, 1)
    with pytest.raises(SettingError, match="size and vector_size are one setting"):
        wenmai.train("word2vec", [["a"]], size=4, vector_size=5)
    with pytest.raises(SettingError, match=r"epoch and train\.epochs are one setting"):
        wenmai.train("word2vec", [["a"]], epoch=4, **{"train.epochs": 5})


@pytest.mark.parametrize(
    ("systems", "setting"),
    [("word2vec,ppmi-svd", "vector_size"), ("rnnlm,gpt", "embedding_size"), ("gpt,rnnlm", "hidden_size")],
)
def test_compare_gives_each_system_its_own_name(shell, text, systems, setting):
    test = ("--words", "a") if setting == "vector_size" else ("--on", text)
    found = shell("compare", "--systems", systems, text, "--size", "0", *test, code=2)
    assert f"{setting}='0': expected" in found.err


MISTAKES = [
    (["train", "word2vec", "text.txt", "--epochz", "3"], "no such option: --epochz; did you mean 'epochs'?"),
    (["train", "word2vec", "text.txt", "epochs=3"], "a setting is an option; did you mean --epochs 3?"),
    (
        ["train", "word2vec", "text.txt", "—out", "run"],
        "begins with '—', which is not the sign '-'; did you mean --out?",
    ),
    (["train", "word2vec", "text.txt", "－－epochs=3"], "did you mean --epochs=3?"),
    (["train", "word2vec", "text.txt", "--quite"], "did you mean '--quiet'?"),
    (["compare", "a", "b", "--charts", "--quiet"], "--charts needs a value; --quiet is another option"),
    (["compare", "a", "b", "--epochs", "3"], "no such option: --epochs; settings go with --systems"),  # not --charts
    (["train", "word2vec", "text.txt", "--epochs"], "--epochs needs a value"),
    (["train", "word2vec", "text.txt", "--sg", "1"], "did you mean 'algorithm', which is skipgram or cbow?"),
    (["train", "gpt", "text.txt", "--batch-size", "8"], "did you mean 'batch_tokens', the size of a batch in tokens"),
    (["train", "gpt", "text.txt", "--device", "mps"], "device='mps': expected one of auto, cpu, cuda"),
    (["train", "w2v", "text.txt", "--epochs", "3"], "no system is called 'w2v'; did you mean 'word2vec'?"),
    (["train", "skip-gram", "text.txt"], "did you mean 'word2vec-sgns'?"),
    (["train", "CBOW", "text.txt"], "did you mean 'word2vec-cbow-ns'?"),
    (["resume", "a", "--epochs", "3"], "No such option: --epochs"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(case[0]) for case in MISTAKES])
def test_a_mistake_names_what_may_be_meant(shell, text, arguments, message):
    assert message in shell(*arguments, code=2).err


def test_help_lists_the_settings_of_a_system(shell):
    out = shell("train", "word2vec-cbow-hs", "--help").out
    assert "Settings of word2vec-cbow-hs:" in out
    assert "--vector-size" in out
    assert "hierarchical softmax over a Huffman tree" in out
    assert shell("help", "train", "word2vec-cbow-hs").out == shell("help", "word2vec-cbow-hs").out == out
    assert "Settings of" not in shell("help", "train").out
    assert "Usage: wenmai evaluate" in shell("help", "evaluate").out
    assert "Did you mean 'train'?" in shell("help", "trian", code=2).err


@pytest.mark.parametrize("name", systems())
def test_no_other_name_hides_a_setting(name):
    system = systems()[name]
    assert system.load_sections() == system.load().sections  # what is listed without torch is what is taken
    settings = [setting.name for setting in settings_of(system.load_sections())]
    assert {setting: find_setting(setting, settings) for setting in settings} == {one: one for one in settings}
    usual = {"size": ("vector_size", "embedding_size", "hidden_size"), "lr": ("learning_rate",), "iter": ("epochs",)}
    for alias, meant in usual.items():
        expected = next((setting for setting in meant if setting in settings), None)
        assert find_setting(alias, settings) == expected
    assert nearest_setting("zzzzzzzz", settings) == ""


# --- without the extra `neural` -------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tokenizers", "sacrebleu"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from wenmai.cli.main import main
for command in {commands}:
    print("$", *command, flush=True)
    sys.stderr = sys.stdout
    print("=", main(command), flush=True)
"""


def test_a_core_install_lists_verifies_and_explains(shell, text):
    shell("train", "rnnlm", text, "--out", "rnn", "--hidden", "8", "--layers", "1", "--epochs", "1", "--threads", "1")
    shell("train", "ngram", text, "--out", "ngram", "--order", "2")
    networks = [name for name, one in systems().items() if one.sections]
    commands = [["systems", name] for name in networks]
    commands += [["verify", "rnn"], ["generate", "ngram", "a b"], ["score", "rnn", "a b"]]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH.format(commands=commands)],
        capture_output=True,
        text=True,
        cwd=shell.folder,
        env=shell.environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = dict(part.split("\n", 1) for part in done.stdout.split("$ ")[1:])
    for name in networks:
        assert "train.epochs" in answers[f"systems {name}"]
        assert answers[f"systems {name}"].endswith("= 0\n")
    assert answers["verify rnn"] == "recipe: rnnlm\nmodel: good\n= 0\n"
    hint = "in the folder of wenmai: pip install -e '.[neural]'"
    assert answers["generate ngram a b"] == f"wenmai: generation needs torch, which is not installed; {hint}\n= 2\n"
    assert answers["score rnn a b"] == f"wenmai: rnnlm needs torch, which is not installed; {hint}\n= 2\n"
