"""Measuring a finished run on test sets, from Python and from the shell."""

import json

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.core.registry import find_system
from wenmai.runs.measuring.classification import CLASSIFIERS
from wenmai.runs.measuring.measurer import choose_measurer


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"vector_size": 16, "epochs": 5, "threads": 1, "sample": 0}
        return wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("run") / "run", **settings)


@pytest.fixture
def pairs(tmp_path):
    """Pairs within a topic are alike, others are not; one word is unknown."""
    lines = [f"colour{n}\tcolour{n + 1}\t{9 - n / 100}\n" for n in range(8)]
    lines += [f"colour{n}\tnumber{n}\t{1 + n / 100}\n" for n in range(8)]
    path = tmp_path / "pairs.txt"
    path.write_text("".join([*lines, "colour1\tunknown\t5\n"]))
    return path


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(": one\ncolour1 colour2 number1 number2\n: two\ncolour1 colour2 number1 missing\n")
    return path


def test_a_run_is_measured_with_coverage_and_intervals(run, pairs, questions):
    found = wenmai.evaluate(run, similarity=[pairs], analogy=[questions])
    similarity, analogy = found.similarity[0], found.analogy[0]
    assert (similarity.name, similarity.covered, similarity.total) == ("pairs", 16, 17)
    assert 0.7 < similarity.spearman <= 1
    assert similarity.low <= similarity.spearman <= similarity.high
    assert (analogy.covered, analogy.total, len(analogy.sections)) == (1, 2, 2)
    assert found.run == str(run.path)
    assert wenmai.evaluate(str(run.path), similarity=[str(pairs)]).similarity == found.similarity


def test_the_shell_prints_the_same_as_json(run, pairs, questions, shell):
    arguments = ["evaluate", run.path, "--similarity", pairs, "--analogy", questions, "--analogy", questions]
    found = json.loads(shell(*arguments, "--json").out)
    expected = wenmai.evaluate(run, similarity=[pairs], analogy=[questions] * 2).as_dict()
    assert found == json.loads(json.dumps(expected))
    lines = shell(*arguments).out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("pairs: Spearman 0.")
    assert "16 of 17 pairs have vectors" in lines[0]


def test_restricting_the_vocabulary_restricts_the_questions(run, questions, shell):
    assert wenmai.evaluate(run, analogy=[questions], restrict_vocab=1).analogy[0].covered == 0
    assert wenmai.evaluate(run, analogy=[questions], restrict_vocab=None).analogy[0].covered == 1
    finished = shell("evaluate", run.path, "--analogy", questions, "--restrict-vocab", "0", "--json")
    assert json.loads(finished.out)["analogy"][0]["restrict_vocab"] is None


def test_sets_of_the_catalogue_are_named(run):
    found = wenmai.evaluate(run, analogy=["builtin:pydocs-analogies"])
    assert found.analogy[0].covered == 0
    assert found.analogy[0].accuracy is None
    with pytest.raises(SettingError, match="did you mean"):
        wenmai.evaluate(run, analogy=["builtin:pydocs-analogy"])


def test_bad_sets_and_runs(run, pairs, questions, tmp_path):
    with pytest.raises(FormatError, match=r"questions\.txt, line 1"):
        wenmai.evaluate(run, similarity=[questions])
    with pytest.raises(FormatError, match=r"pairs\.txt, line 1"):
        wenmai.evaluate(run, analogy=[pairs])
    for way in (wenmai.evaluate, lambda run, **sets: wenmai.compare([run], out=tmp_path / "compared", **sets)):
        with pytest.raises(FormatError, match="nowhere: no such file; expected a test set, or a name of the catalogue"):
            way(run, analogy=[tmp_path / "nowhere"])
    with pytest.raises(RunError, match="no such run folder"):
        wenmai.evaluate(tmp_path / "nowhere", analogy=[questions])


def test_a_table_is_a_test_set_and_an_empty_name_is_none():
    class Table:
        """What pandas would have: it is compared cell by cell."""

        def __eq__(self, other):
            return np.array([True, False])

    tasks = {"classifier": find_system("classifier").load()}
    assert choose_measurer(tasks, "evaluate", {"on": Table()}) is CLASSIFIERS
    for nothing in (None, "", []):  # empty, as of an unset variable of a shell
        with pytest.raises(SettingError, match="name at least one test set: --on FILE, for classifiers"):
            choose_measurer(tasks, "evaluate", {"on": nothing})


def test_a_comparison_takes_names_of_test_sets():
    with pytest.raises(SettingError, match="a comparison takes names of test sets, not tuple; evaluate takes others"):
        CLASSIFIERS.listed("compare", {"on": [("a text", "a label")]})


@pytest.mark.shared_data
def test_published_sets_have_the_right_size(run, shared_data, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    found = wenmai.evaluate(run, similarity=["data:ws353-all", "data:wordsim-297"], analogy=["data:google-analogies"])
    assert [result.total for result in found.similarity] == [353, 297]
    assert found.analogy[0].total == 19_544
