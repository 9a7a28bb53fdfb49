"""Converters are evaluated and compared by form of the input, alone and joined with n-grams."""

import pytest

import wenmai
from wenmai.core.errors import SettingError

GOLD = "1\two3 ai4 bei3 jing1\t我爱北京\n2\tni3 hao3\t你好\n3\tyin2 hang2 hao3\t银行好\n4\tni3 ai4 wo3\t你爱我\n" * 2
FORMS = ["toneless unspaced", "toneless spaced", "toned spaced"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WENMAI_CACHE", str(folder / "cache"))
        gold, text = folder / "gold.tsv", folder / "text.txt"
        gold.write_text(GOLD, "utf-8")
        text.write_text("我爱北京。\n你好，银行。\n你爱我。\n" * 9, "utf-8")
        small = {"hidden_size": 12, "num_layers": 1, "num_heads": 2, "min_count": 1, "epochs": 2, "threads": 1}
        wenmai.train("pinyin", str(gold), out=folder / "net", quiet=True, **small)
        counted = {"order": 2, "listed": False, "least": 1}
        wenmai.train("pinyin-ngram", str(text), out=folder / "ngram", quiet=True, **counted)
        yield folder


def test_an_evaluation_has_each_form(runs):
    found = wenmai.evaluate(runs / "net", on=runs / "gold.tsv", k=3, quiet=True)
    assert list(found.results) == FORMS
    assert found.annotation.syllables > 0
    known = found.as_dict()["forms"]["toned spaced"]
    assert known["cer"] >= 0
    assert known["sentences_per_second"] > 0
    assert "CER" in str(found)
    assert "pypinyin" in str(found)


def test_without_tones_there_is_no_toned_form(runs, tmp_path):
    path = tmp_path / "set.csv"
    path.write_text("NUM,PINYIN,EXPECTED\n1,woaini,我爱你\n", "utf-8")
    assert "toneless unspaced" in wenmai.evaluate(runs / "ngram", on=path, quiet=True).results


def test_a_network_without_weight_converts_as_the_ngrams_do(runs):
    alone = wenmai.evaluate(runs / "ngram", on=runs / "gold.tsv", quiet=True)
    joined = wenmai.evaluate(runs / "net", on=runs / "gold.tsv", ngram=runs / "ngram", weight=0.0, quiet=True)
    assert [one.cer for one in joined.results.values()] == [one.cer for one in alone.results.values()]
    tuned = wenmai.evaluate(
        runs / "net", on=runs / "gold.tsv", ngram=runs / "ngram", tune=runs / "gold.tsv", quiet=True
    )
    for form in FORMS:
        assert tuned.results[form].distance <= alone.results[form].distance
    assert list(tuned.weights) == FORMS


def test_options_that_do_not_fit_are_refused(runs):
    with pytest.raises(SettingError, match="add --ngram"):
        wenmai.evaluate(runs / "net", on=runs / "gold.tsv", weight=1.0, quiet=True)
    with pytest.raises(SettingError, match="leave out --weight or --tune"):
        wenmai.evaluate(
            runs / "net", on=runs / "gold.tsv", ngram=runs / "ngram", weight=1.0, tune=runs / "gold.tsv", quiet=True
        )
    with pytest.raises(SettingError, match="one of each"):
        wenmai.evaluate(runs / "ngram", on=runs / "gold.tsv", ngram=runs / "ngram", quiet=True)


def test_a_comparison_has_error_rates_and_speed(runs, tmp_path):
    found = wenmai.compare([runs / "net", runs / "ngram"], on=[str(runs / "gold.tsv")], out=tmp_path / "c", quiet=True)
    for system in found.systems:
        assert [one.kind for one in system.measures] == ["cer", "sentences", "speed"] * 3
