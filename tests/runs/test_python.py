"""What a person meets in a Python shell or notebook: names, types, and results that show themselves."""

import subprocess
import sys

import pytest

import wenmai
from wenmai.core.errors import RunError, SettingError
from wenmai.inference.ngram_model import NgramModel


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"vector_size": 16, "epochs": 2, "threads": 1, "sample": 0, "quiet": True}
        return wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("run") / "run", **settings)


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("".join(f"colour{n}\tcolour{n + 1}\t{9 - n}\n" for n in range(8)))
    return path


def test_the_package_lists_what_is_public():
    assert sorted(dir(wenmai)) == sorted([*wenmai.__all__, "__version__"])
    code = "import wenmai, sys; print(dir(wenmai)[0], 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split()[1] == "False"


def test_a_model_is_loaded_as_the_class_that_is_named(run):
    assert wenmai.load(run.path, wenmai.WordVectors).vector_size == 16
    with pytest.raises(RunError, match="its model is a WordVectors, not a NgramModel"):
        wenmai.load(run.path, NgramModel)


def test_a_run_shows_what_became_of_it(run, tmp_path):
    assert f"Run(path={str(run.path)!r}, system='word2vec', finished=True, vocabulary=80, loss=" in repr(run)
    assert "<td" in run._repr_html_()
    (tmp_path / "recipe.yaml").write_text("system: nothing")
    assert "damaged=" in repr(wenmai.Run(tmp_path))


def test_an_evaluation_shows_what_the_command_line_prints_and_has_a_table(run, pairs):
    found = wenmai.evaluate(run, similarity=[pairs, pairs], quiet=True)
    assert repr(found) == str(found)
    assert repr(found).startswith("pairs: Spearman")
    table = found.table()
    assert table.columns == ["set", "metric", "value", "low", "high", "covered", "total"]
    assert [row[:2] for row in table.rows] == [["pairs", "Spearman"]] * 2
    assert "<th>Spearman" not in found._repr_html_()
    assert '<td style="text-align:left">Spearman</td>' in found._repr_html_()


def test_evaluations_of_other_models_have_tables_too(tmp_path):
    (tmp_path / "text.txt").write_text("a b c\n" * 40)
    lines = wenmai.train("ngram", tmp_path / "text.txt", out=tmp_path / "lm", order=2, quiet=True)
    found = wenmai.evaluate(lines, on=tmp_path / "text.txt", quiet=True)
    assert {"perplexity", "bits_per_character"} <= {row[0] for row in found.table().rows}
    with pytest.raises(SettingError, match=r"not list; texts in memory are for run\.model\.score"):
        wenmai.evaluate(lines, on=["a b c"], quiet=True)
    labelled = [("red crimson", "colour"), ("one two", "number")] * 10
    classifier = wenmai.train("classifier", labelled, out=tmp_path / "classifier", quiet=True)
    found = wenmai.evaluate(classifier, on=labelled, quiet=True)
    assert [row[0] for row in found.table().rows] == ["colour", "number"]
    assert "accuracy" in found._repr_html_()
    some = wenmai.evaluate(classifier, on=labelled, limit=4, quiet=True)
    assert sum(one.support for one in some.result.labels) == 4
    assert some.notes == ["evaluated on 4 examples, drawn by chance (limit)"]
    assert not wenmai.evaluate(classifier, on=labelled, limit=20, quiet=True).notes


def test_a_comparison_shows_its_table_without_empty_columns(run, pairs, tmp_path):
    found = wenmai.compare([run], out=tmp_path / "comparison", similarity=[pairs], quiet=True)
    assert repr(found) == str(found)
    head, _ = str(found).splitlines()
    assert head.split("  ")[0:1] == ["system"]
    assert found.table().columns[:4] == ["system", "pairs", "pairs low", "pairs high"]
    assert all(value is not None for value in found.table().rows[0])
    assert "<th>pairs low</th>" in found._repr_html_()


def test_progress_of_an_evaluation_names_each_test_set(run, pairs, tmp_path):
    class Watching(wenmai.runs.train.Callback):
        seen = ()

        def evaluating(self, what, done, total):
            self.seen = (*self.seen, (what, done, total))

    watching = Watching()
    wenmai.evaluate(run, similarity=[pairs], analogy=[], callback=watching)
    wenmai.compare([run], out=tmp_path / "comparison", similarity=[pairs, pairs], callback=watching)
    assert watching.seen == (
        ("evaluating on pairs.txt", 1, 1),
        ("evaluating word2vec on pairs.txt", 1, 2),
        ("evaluating word2vec on pairs.txt", 2, 2),
    )
