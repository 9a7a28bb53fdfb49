"""Converters are evaluated and compared by form of the input, alone and joined with n-grams."""

import pytest

import wenmai
from tests.inference.test_pinyin_model import letters
from wenmai.core.errors import SettingError
from wenmai.inference.pinyin_joined import JoinedConverter
from wenmai.inference.user_words import add_words
from wenmai.runs.conversion import require_conversion

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


def test_every_rate_has_an_interval(runs):
    found = wenmai.evaluate(runs / "net", on=runs / "gold.tsv", k=4, quiet=True)
    lines = str(found).splitlines()
    assert lines[0].split("  ")[0] == "input"
    for name in ("CER", "sentences", "syllables", "best 4", "tone 3"):
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert line.count("[") == line.count("]") == len(FORMS)
    assert lines[-1].count("[") == 2  # readings, of the run and of pypinyin
    read = found.as_dict()["annotation"]
    assert read["low"] <= read["accuracy"] <= read["high"]
    assert read["pypinyin_low"] <= read["pypinyin"] <= read["pypinyin_high"]
    table = found.table()
    for name in ("cer", "sentence", "syllable"):
        assert {f"{name}_low", f"{name}_high"} <= {*table.columns}
    assert {"best 4", "best 4 low", "best 4 high"} <= {*table.columns}


def test_errors_of_syllables_stand_beside_the_form_of_the_input(runs, tmp_path):
    path = tmp_path / "set.tsv"
    path.write_text("1\two3 ai4\t我矮\n", "utf-8")  # 矮 is no character of the model
    found = str(wenmai.evaluate(runs / "net", on=path, quiet=True)).splitlines()
    assert [line for line in found if line.startswith("errors by syllable")] == [
        f"errors by syllable, {form}: ai4 1/1" for form in FORMS
    ]
    right = tmp_path / "right.tsv"
    right.write_text("1\two3\t我\n", "utf-8")
    assert "errors by syllable" not in str(wenmai.evaluate(runs / "net", on=right, quiet=True))


def test_without_tones_there_is_no_toned_form(runs, tmp_path):
    path = tmp_path / "set.csv"
    path.write_text("NUM,PINYIN,EXPECTED\n1,woaini,我爱你\n", "utf-8")
    assert "toneless unspaced" in wenmai.evaluate(runs / "ngram", on=path, quiet=True).results


def test_digits_of_a_text_are_typed_and_are_no_tones(runs, tmp_path):
    path = tmp_path / "digits.txt"
    path.write_text("我爱2北京3。\n", "utf-8")
    found = wenmai.evaluate(runs / "ngram", on=path, quiet=True)
    assert {form: one.cer for form, one in found.results.items()} == dict.fromkeys(FORMS, 0)
    path = tmp_path / "digits.tsv"
    path.write_text("1\two ai 3 bei jing\t我爱3北京\n", "utf-8")
    found = wenmai.evaluate(runs / "net", on=path, quiet=True)
    assert (list(found.results), found.annotation) == (FORMS[:2], None)
    path.write_text("1\two3 ai4 3 bei3 jing1\t我爱3北京\n", "utf-8")
    assert wenmai.evaluate(runs / "net", on=path, quiet=True).annotation.syllables == 4


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


def test_a_weight_is_tuned_on_a_reference_for_each_text(runs):
    joined = JoinedConverter(wenmai.load(runs / "net"), wenmai.load(runs / "ngram"))
    rates = joined.tune(["wo ai ni"], ["我爱你"], weights=[0.0, 1.0])
    assert joined.weight in rates
    for references in (["我爱你", "你好"], []):
        with pytest.raises(SettingError, match=f"references: {len(references)}; expected one"):
            joined.tune(["wo ai ni"], references)


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
        assert [one.kind for one in system.measures] == ["cer", "sentences", "syllables", "best", "speed"] * 3
        assert all(one.low <= one.value <= one.high for one in system.measures if one.kind != "speed")
    lines = str(found).splitlines()
    assert lines[0].split() == ["system", "pinyin", "pinyin-ngram"]  # a row for each of many measures
    assert len(lines) == 1 + 5 * 3 + 4


def test_a_network_and_ngrams_of_one_text_are_compared_as_such(runs, tmp_path):
    small = {"hidden_size": 12, "num_layers": 1, "num_heads": 2, "min_count": 1, "epochs": 1, "threads": 1}
    wenmai.train("pinyin", str(runs / "text.txt"), out=tmp_path / "net", quiet=True, **small)
    both = [tmp_path / "net", runs / "ngram"]
    found = wenmai.compare(both, on=[str(runs / "gold.tsv")], out=tmp_path / "c", quiet=True)
    assert found.corpus.name == "text.txt"


def test_a_comparison_joins_networks_with_ngrams(runs, tmp_path):
    (tmp_path / "less.txt").write_text((runs / "text.txt").read_text("utf-8")[:-7], "utf-8")
    counted = {"order": 2, "listed": False, "least": 1}
    wenmai.train("pinyin-ngram", tmp_path / "less.txt", out=tmp_path / "less", quiet=True, **counted)
    three = [runs / "net", runs / "ngram", tmp_path / "less"]
    gold = str(runs / "gold.tsv")
    found = wenmai.compare(three, on=[gold], ngram=runs / "ngram", tune=gold, out=tmp_path / "c", quiet=True)
    *alone, joined = found.systems
    assert [one.name for one in found.systems] == ["net", "ngram", "less", "net + ngram"]
    assert list(joined.settings) == [f"weight, {form}" for form in FORMS]
    right = wenmai.evaluate(runs / "net", on=gold, ngram=runs / "ngram", tune=gold, quiet=True)
    assert [one.value for one in joined.measures if one.kind == "cer"] == [one.cer for one in right.results.values()]
    files = [runs / "gold.tsv", runs / "text.txt", tmp_path / "less.txt"]  # quality is drawn against their size
    assert [system.corpus_bytes for system in alone] == [path.stat().st_size for path in files]
    assert all(system.answers_per_second > 0 for system in found.systems)
    with pytest.raises(SettingError, match="add --ngram"):
        wenmai.compare(three, on=[gold], tune=gold, out=tmp_path / "d", quiet=True)
    with pytest.raises(SettingError, match="one of each"):
        wenmai.compare(three, on=[gold], ngram=runs / "net", out=tmp_path / "d", quiet=True)
    with pytest.raises(SettingError, match="none of the runs is a network"):
        wenmai.compare([runs / "ngram"], on=[gold], ngram=runs / "ngram", out=tmp_path / "d", quiet=True)


class TestConvertVerb:
    def words(self, tmp_path, text="# mine\n\n泥号\tni hao\t40\n京北\tjing bei\n"):
        path = tmp_path / "words.txt"
        path.write_text(text, "utf-8")
        return str(path)

    def test_words_of_the_user_win_in_each_converter(self, runs, tmp_path, shell):
        words = self.words(tmp_path)
        for more in ([runs / "net"], [runs / "ngram"], [runs / "net", "--ngram", runs / "ngram"]):
            done = shell("convert", *more[:1], "nihao", "jing bei", "--words", words, *more[1:])
            assert (done.out.split(), done.err) == (["泥号", "京北"], "")

    def test_sounds_are_taken_for_each_other(self, runs, shell):
        for more in ([runs / "ngram"], [runs / "net", "--ngram", runs / "ngram"]):
            done = shell("convert", *more[:1], "bei jin", "--fuzzy", "in/ing, zh/z", *more[1:])
            assert done.out.strip() == "北京"
        assert "did you mean" in shell("convert", runs / "net", "bei", "--fuzzy", "zz", code=2).err

    def test_attention_is_drawn(self, runs, tmp_path, shell):
        page = tmp_path / "attention.html"
        done = shell("convert", runs / "net", "'", "wo ai", "", "ni", "--attention", page, "--ngram", runs / "ngram")
        assert "attention.html" in done.err
        drawn = page.read_text("utf-8")
        assert '"wo", "ai"' in drawn or '"wo","ai"' in drawn
        assert 'id="source-name">syllables<' in drawn
        for name, run, message in (
            ("a.pdf", "net", "ends in .html"),
            ("a.html", "ngram", "only runs of pinyin"),
        ):
            refused = shell("convert", runs / run, "wo", "--attention", tmp_path / name, code=2)
            assert message in refused.err
            assert refused.out == ""

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("泥号\tni\n", "line 1: '泥号' has 2 characters"),
            ("泥号\tni hao\tmuch\n", "line 1: 'much' is no number"),
            ("泥号\tni hao\tnan\n", "line 1: weight=nan"),
            ("泥号\tni hao\t1\t2\n", "line 1: has 4 columns; expected a word, and after tabs its reading"),
            ("\tni hao\n", "line 1: '' has 0 characters"),
            ("泥号\tni hao\t1e300\n", "line 1: weight=1e+300 of '泥号': expected a number from -1e+06 to 1e+06"),
        ],
    )
    def test_a_file_of_words_that_is_none_is_refused(self, runs, tmp_path, shell, line, message):
        done = shell("convert", runs / "net", "wo", "--words", self.words(tmp_path, line), code=3)
        assert message in done.err

    def test_tones_are_left_out_if_the_user_wants_that(self, runs, shell):
        with_tones, without, bare = (
            shell("convert", runs / "ngram", *one, "--json").out
            for one in (["ni4 hao4"], ["ni4 hao4", "--toneless"], ["ni hao"])
        )
        assert with_tones != without
        assert without.replace("ni4 hao4", "ni hao") == bare

    def test_letters_take_no_fuzzy_pairs_no_context_and_no_words(self, tmp_path):
        with pytest.raises(SettingError, match="pinyin-letters labels letters as they are typed"):
            require_conversion(letters(), fuzzy=True)
        with pytest.raises(SettingError, match="--context: pinyin-letters"):
            require_conversion(letters(), context=True)
        with pytest.raises(SettingError, match="takes no words"):
            add_words(letters(), self.words(tmp_path))


def test_letters_stay_together_in_annotations(runs, shell):
    done = shell("annotate", runs / "net", "我ai Wifi 5好", "--style", "bare")
    assert done.out == "wo ai Wifi 5 hao\n"


WIDE = ["ｗｏ３，ａｉ４。", " ，wo", "wo\u00a0ai", "wo\u2003ai", "wo，\u3000ai", "\two\u2028"]


@pytest.mark.parametrize("run", ["net", "ngram"])
def test_breaks_and_wide_digits_are_read_and_left_out(runs, run):
    model = wenmai.load(runs / run)
    found = [one[0].text for one in model.convert(WIDE)]
    assert found == ["我，爱。", "，我", "我爱", "我爱", "我，爱", "我"]


WO = "wo" * 5000


@pytest.mark.parametrize("run", ["net", "ngram"])
def test_whatever_is_typed_has_an_answer(runs, run, tmp_path, shell):
    inputs = ["wo0", "wo6", "WO", "我ai你", "3.14", "龘", "vvvv", WO, "b" * 10_000, "", "🙂"]
    path = tmp_path / "typed.txt"
    path.write_text("\n".join(inputs) + "\n", "utf-8")
    found = shell("convert", runs / run, "--file", path).out.split("\n")[:-1]
    assert len(found) == len(inputs)
    assert found[:5] == ["我", "我6", "我", "我爱你", "3.14"]
    assert found[5:7] == ["龘", "vvvv"]
    assert found[7] == "我" * 5000
    assert found[-2:] == ["", "🙂"]
