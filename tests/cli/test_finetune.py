"""``wenmai finetune`` and the verbs of what comes out of it, in the shell."""

import json
import statistics
from pathlib import Path

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.config.recipe import settings_of
from wenmai.core.errors import CorpusError, RunError
from wenmai.core.registry import find_system
from wenmai.runs.finetune import SeedRuns
from wenmai.runs.tuning_presets import PRESETS
from wenmai.training import loop
from wenmai.training.callback import Callback

TINY = ("--threads", "1", "--epochs", "2", "--learning-rate", "0.02", "--quiet")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    example = EXAMPLES["bert"]
    (folder / example.data).write_text(TEXTS[example.data]["enough"])
    return wenmai.train("bert", folder / example.data, out=folder / "run", quiet=True, **example.settings).path


@pytest.fixture
def tune(shell, base):
    """Fine-tunes for a task on its example; returns the run."""

    def tuned(task, *options):
        file = EXAMPLES[f"finetuned-{task}"].data
        (shell.folder / file).write_text(TEXTS[file]["enough"])
        shell("finetune", base, file, "--task", task, "--out", task, *TINY, *options)
        return task

    return tuned


def rows(found):
    return [json.loads(line) for line in found.out.splitlines()]


def test_texts_are_classified(shell, tune):
    run = tune("classification")
    assert shell("classify", run, "a b", "h", "").out.splitlines()[2] == ""
    assert "which has vectors of texts alone; --words takes" in shell("embed", run, "a b", "--words", code=6).err
    assert "its words have vectors in sentences only; add --in SENTENCE" in shell("nearest", run, "a", code=2).err
    (found,) = rows(shell("classify", run, "a b", "--k", "2", "--json"))
    assert {one["label"] for one in found["labels"]} == {"early", "late"}
    (shell.folder / "more.tsv").write_text((shell.folder / "classes.tsv").read_text() + "\tearly\n")
    found = shell("evaluate", run, "--on", "more.tsv")
    out = found.out
    assert "1 example was left out because a text is empty" in found.err
    assert out.startswith("accuracy")
    assert "Matthews" in out
    assert "label, predicted as" in out


def test_pairs_are_two_columns(shell, tune):
    run = tune("pair")
    assert len(shell("classify", run, stdin="a b\tc\nd\te f\n").out.splitlines()) == 2
    error = shell("classify", run, "a b", code=2).err
    assert "the model takes two texts, FIRST<TAB>SECOND; there are 1" in error
    assert "line" not in error
    (shell.folder / "given.tsv").write_text("a b\tc\n" * 5 + "d e\n" + "a b\tc\n" * 4)
    error = shell("classify", run, "--file", "given.tsv", code=2).err
    assert "given.tsv: line 6: 'd e': the model takes two texts, FIRST<TAB>SECOND; there are 1" in error
    assert "standard input: line 2: 'd': " in shell("classify", run, stdin="a b\tc\nd\n", code=2).err
    assert json.loads(shell("evaluate", run, "--on", "related.tsv", "--json").out)["examples"] == 60


def test_texts_are_rated(shell, tune):
    run = tune("regression")
    assert [float(line) for line in shell("rate", run, "a b", "h").out.splitlines()]
    (found,) = rows(shell("rate", run, "a b", "--json"))
    assert shell("rate", run, stdin="a b\n\nh\n").out.splitlines()[1] == ""
    assert rows(shell("rate", run, "--json", stdin="a b\n \n"))[1] == {"text": " ", "value": None}
    assert found["text"] == "a b"
    found = json.loads(shell("evaluate", run, "--on", "lengths.tsv", "--json").out)
    assert found["spearman_low"] <= found["spearman"] <= found["spearman_high"]


def test_words_are_tagged(shell, tune):
    run = tune("tagging")
    out = shell("tag", run, "a b", "h").out
    assert [line.split("\t")[0] for line in out.splitlines()] == ["a", "b", "", "h", ""]
    found = rows(shell("tag", run, "a, b-c", "", "--json"))  # by character, as all tokens to train on have one
    assert found[0]["tokens"] == ["a", ",", "b", "-", "c"]
    assert found[0]["offsets"] == [[0, 1], [1, 2], [3, 4], [4, 5], [5, 6]]
    assert found[1]["tokens"] == []
    (spaced,) = rows(shell("tag", run, "a,  b-c", "--words", "--json"))
    assert (spaced["text"], spaced["tokens"], spaced["offsets"]) == ("a,  b-c", ["a,", "b-c"], [[0, 2], [4, 7]])
    for line in shell("tag", run, "a b c a b", "--entities").out.splitlines():
        kind, text, begin, end, _ = line.split("\t")
        assert kind in "XY"
        assert text == "a b c a b"[int(begin) : int(end)]
    alone = [shell("tag", run, text, "--entities").out for text in ("a b c", "h", "")]
    assert shell("tag", run, "--entities", stdin="a b c\nh\n\n").out == "".join(f"{one}\n" for one in alone)
    printed = shell("evaluate", run, "--on", "tags.txt").out
    assert printed.startswith("entity F1 ")
    assert "entity, predicted as  X  Y  no entity\n" in printed
    found = json.loads(shell("evaluate", run, "--on", "tags.txt", "--mistakes", "tags.html", "--json").out)
    assert [one["label"] for one in found["types"]] == ["X", "Y"]
    assert [sum(row) for row in found["confusion"][:2]] == [one["support"] for one in found["types"]]
    assert '<th scope="row">no entity</th>' in (shell.folder / "tags.html").read_text()
    assert found["f1_low"] <= found["f1"] <= found["f1_high"]
    (shell.folder / "foreign.txt").write_text("a B-PER\nb O\n")
    error = shell("evaluate", run, "--on", "foreign.txt", code=3).err
    assert "foreign.txt: has the tags 'PER', none of which the model knows; it knows 'X', 'Y'; name a test" in error
    (shell.folder / "some.txt").write_text("a B-PER\nb O\n\na B-X\nb O\n\nc B-PER\nd I-PER\n")
    found = shell("evaluate", run, "--on", "some.txt", "--mistakes", "page.html", "--json")
    assert "3 tags of the test set are unknown to the model and count as missed: PER (3)" in found.err
    assert [one["cost"] for one in json.loads(found.out)["mistakes"]][:2] == [None, None]
    (shell.folder / "one.txt").write_text("a B-PER\nb B-X\n")
    told = shell("evaluate", run, "--on", "one.txt").err
    assert "1 tag of the test set is unknown to the model and counts as missed: PER (1)" in told
    (shell.folder / "news.txt").write_bytes(b"\xef\xbb\xbfa b\r\n")
    assert shell("tag", run, "--file", "news.txt").out == shell("tag", run, "a b").out
    spaced, tabbed = (shell("tag", run, text, "--entities").out for text in ("a b c a b", "a\tb\tc\ta\tb"))
    assert tabbed == spaced  # a tab within an entity is no column
    assert "vocabulary of the encoder" not in shell("tag", run, "a b").err
    told = shell("tag", run, "你好 世 a").err
    assert "finetuned-tagging: the vocabulary of the encoder lacks 75% of the pieces of the text" in told
    printed = shell("compare", run, "--on", "some.txt", "--out", "compared").err
    assert printed.count("some.txt: 3 tags of the test set are unknown to the model and count as missed: PER (3)") == 1
    assert "<dd class=''>∞</dd>" in (shell.folder / "page.html").read_text("utf-8")


def test_questions_are_answered(shell, tune):
    run = tune("span")
    (shell.folder / "text.txt").write_text("a b c d")
    for given in (("a h", "--context", "text.txt"), ("a h\ta b c d",)):
        ((found,),) = [one["answers"] for one in rows(shell("answer", run, *given, "--json"))]
        assert found["text"] == ("" if found["start"] is None else "a b c d"[found["start"] : found["end"]])
    assert len(shell("answer", run, "a h\ta b c d", "--k", "3").out.splitlines()) == 3
    alone = [shell("answer", run, f"{text}\ta b c d", "--k", "3").out for text in ("a h", "b")]
    (shell.folder / "asked.tsv").write_text("a h\ta b c d\nb\ta b c d\nc\n")
    error = shell("answer", run, "--file", "asked.tsv", "--k", "3", code=2).err
    assert "asked.tsv: line 3: 'c' has no text to answer from: expected QUESTION<TAB>TEXT" in error
    (shell.folder / "asked.tsv").write_text("a h\ta b c d\nb\ta b c d\n")
    assert shell("answer", run, "--file", "asked.tsv", "--k", "3").out == "".join(f"{one}\n" for one in alone)
    assert len(shell("answer", run, "--file", "asked.tsv").out.splitlines()) == 2
    (shell.folder / "blank.tsv").write_text("a h\ta b c d\n\nb\ta b c d\n")
    assert shell("answer", run, "--file", "blank.tsv", "--k", "3").out == f"{alone[0]}\n\n{alone[1]}\n"
    assert shell("answer", run, "--file", "blank.tsv").out.split("\n")[1] == ""
    assert rows(shell("answer", run, "--file", "blank.tsv", "--json"))[1] == {"question": "", "answers": []}
    (shell.folder / "text.txt").write_text("a b\nc\td")
    whole = "a b\r\nc é 👍 d\r\na b c"
    (shell.folder / "page.txt").write_bytes(b"\xef\xbb\xbf" + whole.encode())
    (found,) = rows(shell("answer", run, "a h", "--context", "page.txt", "--k", "40", "--json"))
    assert {whole[one["start"] : one["end"]] == one["text"] for one in found["answers"] if one["text"]} == {True}
    assert any("\r\n" in one["text"] for one in found["answers"])
    lines = shell("answer", run, "a h", "--context", "text.txt", "--k", "20").out.splitlines()
    assert {line.count("\t") for line in lines} == {3}
    assert "b c d" in {line.split("\t")[0] for line in lines}
    assert "expected QUESTION<TAB>TEXT, or --context FILE" in shell("answer", run, "a h", code=2).err
    assert shell("answer", run, "a h\ta b c d", "--threshold", "-1000").out.startswith("\t\t\t")
    (shell.folder / "asked.tsv").write_text("a h\ta b c d\n")
    refused = shell("answer", run, "--file", "asked.tsv", "--threshold", "nan", code=2).err
    assert refused == "wenmai: threshold=nan: expected a number\n"
    error = shell("answer", run, "-", "--context", "-", stdin="a b c\n", code=2).err
    assert "standard input cannot be both the questions and their text; name a file for one of them" in error
    assert shell("evaluate", run, "--on", "questions.json").out.startswith("F1 ")
    moved = json.loads((shell.folder / "questions.json").read_text())
    questions = [one for article in moved["data"] for text in article["paragraphs"] for one in text["qas"]]
    next(one for one in questions if one["answers"])["answers"][0]["answer_start"] += 1
    (shell.folder / "moved.json").write_text(json.dumps(moved))
    assert "1 answer that is not where it should be" in shell("evaluate", run, "--on", "moved.json").err


def test_options_are_chosen(shell, tune):
    run = tune("choice")
    number, probability, option = shell("choose", run, "a b c\ta\tb\th g").out.rstrip("\n").split("\t")
    assert option == ["b", "h g"][int(number) - 1]
    assert 0.5 <= float(probability) <= 1
    assert shell("choose", run, "a b c\ta\tb\th g\t\t").out == f"{number}\t{probability}\t{option}\n"
    assert "two options at least" in shell("choose", run, "a b\tc\td\t", code=2).err
    partly = shell("choose", run, stdin="a b c\ta\tb\th g\n\na\na b c\ta\tb\th g\n", code=2)
    assert partly.out == f"{number}\t{probability}\t{option}\n\n"  # what stands before a wrong line is answered
    assert "standard input: line 3: 'a': expected TEXT<TAB>" in partly.err
    assert shell("choose", run, "--json", stdin=" \n").out == "null\n"
    assert "an option is empty" in shell("choose", run, "a b\tc\td\t\te", code=2).err
    assert shell("evaluate", run, "--on", "choices.json").out.startswith("accuracy ")


def test_a_run_is_evaluated_when_what_it_was_trained_on_is_gone(shell, tune):
    (shell.folder / "dev.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    run = tune("classification", "--valid", "dev.tsv")
    assert "was trained on these examples" in shell("evaluate", run, "--on", "classes.tsv").err
    (shell.folder / "classes.tsv").unlink()
    assert "the best state of this run was chosen by these examples" in shell("evaluate", run, "--on", "dev.tsv").err


@pytest.mark.parametrize("task", ["classification", "tagging", "span"])
def test_some_of_the_examples_are_evaluated(shell, tune, task):
    run, data = tune(task), EXAMPLES[f"finetuned-{task}"].data
    found = shell("evaluate", run, "--on", data, "--limit", "2", "--json")
    assert "evaluated on 2 examples, drawn by chance (limit)" in found.err
    assert found.out == shell("evaluate", run, "--on", data, "--limit", "2", "--json").out
    assert "stats" not in json.loads(found.out)  # those of lines with labels
    assert "drawn by chance" not in shell("evaluate", run, "--on", data, "--limit", "1000").err


def test_a_test_set_may_have_another_encoding(shell, tune):
    run = tune("classification")
    content = Path(shell.folder / EXAMPLES["finetuned-classification"].data).read_text()
    (shell.folder / "wide.tsv").write_text(content, "utf-16")
    assert "is not utf-8" in shell("evaluate", run, "--on", "wide.tsv", code=3).err
    found = shell("evaluate", run, "--on", "wide.tsv", "--encoding", "utf-16", "--json").out
    expected = shell("evaluate", run, "--on", EXAMPLES["finetuned-classification"].data, "--json").out
    assert json.loads(found)["accuracy"] == json.loads(expected)["accuracy"]


def test_tasks_by_other_names_are_told(shell, base):
    assert (
        "no task is called 'ner'; did you mean 'tagging'?"
        in shell("finetune", base, "a.tsv", "--task", "ner", "--out", "run", code=2).err
    )


def test_one_test_set_is_evaluated_at_a_time(shell, tune):
    run = tune("classification")
    refused = shell("evaluate", run, "--on", "a b.tsv", "--on", "b.tsv", code=2).err
    assert f"evaluate takes one --on; `wenmai compare {run} --on 'a b.tsv' --on b.tsv` takes several" in refused


def test_runs_of_different_tasks_share_their_vectors_alone(shell, tune):
    file = EXAMPLES["finetuned-classification"].data
    refused = shell("compare", tune("classification"), tune("regression"), "--on", file, code=2).err
    assert "--on: the runs are of different tasks (" in refused
    assert "can only be compared as models with vectors of words, by --similarity" in refused


def test_columns_of_a_test_set_are_named(shell, tune):
    run = tune("classification")
    rows = [line.split("\t") for line in TEXTS["classes.tsv"]["enough"].splitlines()]
    text = rows[0].index("text")
    for row, name in zip(rows, ["what", *["x"] * len(rows)], strict=False):
        row[text] = name if row is rows[0] else row[text]
    (shell.folder / "odd.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    assert "name it: text_column=NAME" in shell("evaluate", run, "--on", "odd.tsv", code=3).err
    found, usual = (
        json.loads(shell("evaluate", run, "--on", *given, "--json").out)["accuracy"]
        for given in (("odd.tsv", "--text-column", "what"), ("classes.tsv",))
    )
    assert found == usual
    run_folder = shell.folder / run
    given = {"on": shell.folder / "odd.tsv", "text_column": "what"}
    assert wenmai.evaluate(run_folder, **given, quiet=True).result.accuracy == found
    assert wenmai.evaluate(run_folder, on=given["on"], columns={"text_column": "what"}).result.accuracy == found
    with pytest.raises(CorpusError, match="no column is called 'odd'"):
        wenmai.evaluate(run_folder, on=given["on"], columns={"text_column": "what"}, label_column="odd")
    error = shell("evaluate", tune("span"), "--on", "questions.json", "--label-column", "x").err
    assert error.count("Traceback") == 0
    probed = ("probe", run, "--on", "odd.tsv", "--task", "classification", "--no-control", "--quiet")
    assert "name it: text_column=NAME" in shell(*probed, code=3).err
    assert "accuracy" in shell(*probed, "--text-column", "what").out


def test_several_seeds(shell, base):
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    command = ("finetune", base, "classes.tsv", "--task", "classification", "--out", "runs", *TINY, "--seeds", "2")
    told = shell(*command).out.splitlines()
    assert told[0].startswith("runs/seed-1: accuracy")
    assert "(mean of 2 seeds, 95 % interval)" in told[2]
    assert told[3].startswith("best: runs/seed-")
    written = (shell.folder / "runs" / "seed-1" / "summary.json").stat().st_mtime_ns
    found = json.loads(shell(*command, "--json").out)
    assert (shell.folder / "runs" / "seed-1" / "summary.json").stat().st_mtime_ns == written
    assert found == json.loads((shell.folder / "runs" / "seeds.json").read_text())
    assert found["mean"] == pytest.approx(sum(found["values"]) / 2)
    assert found["high"] - found["mean"] == pytest.approx(12.706 * abs(found["values"][0] - found["values"][1]) / 2)


def test_several_seeds_need_something_to_be_compared_by(shell, base):
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    command = ("finetune", base, "classes.tsv", "--task", "classification", "--out", "runs", *TINY, "--seeds", "2")
    found = shell(*command, "--valid-share", "0", code=2)
    assert "several seeds are compared on validation data: give valid=FILE" in found.err
    assert not (shell.folder / "runs").exists()
    (shell.folder / "lengths.tsv").write_text(TEXTS["lengths.tsv"]["enough"])
    (shell.folder / "same.tsv").write_text("text\tscore\na b\t1\nc\t1\n")
    command = ("finetune", base, "lengths.tsv", "--task", "regression", "--out", "rated", *TINY, "--seeds", "2")
    told = shell(*command, "--valid", "same.tsv").out.splitlines()
    assert told[0].startswith("rated/seed-1: loss ")
    assert told[-1].startswith("spearman cannot be told: all numbers of the validation data")
    assert json.loads((shell.folder / "rated" / "seeds.json").read_text())["untold"] == "spearman"


def test_seeds_of_examples_from_python_go_on(base, tmp_path):
    rows = [tuple(line.split("\t")) for line in TEXTS["classes.tsv"]["enough"].splitlines()[1:]]
    chosen = {"task": "classification", "quiet": True, "threads": 1, "epochs": 2, "learning_rate": 0.02}
    whole = wenmai.finetune(base, rows, out=tmp_path / "whole", seeds=2, **chosen)

    class Stopped(Callback):
        def begin(self, run, facts):
            self.second = run.path.name == "seed-2"

        def record(self, record):
            if self.second:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wenmai.finetune(base, rows, out=tmp_path / "runs", seeds=2, callback=Stopped(), **chosen)
    assert not wenmai.Run(tmp_path / "runs" / "seed-2").finished
    with pytest.raises(RunError, match="seed-1: was trained on other examples"):
        wenmai.finetune(base, rows[1:], out=tmp_path / "runs", seeds=2, **chosen)
    with pytest.raises(RunError, match=r"give it to wenmai.resume\(RUN, corpus=...\)"):
        wenmai.resume(tmp_path / "runs" / "seed-2")
    with pytest.raises(RunError, match="the training began with another corpus"):
        wenmai.resume(tmp_path / "runs" / "seed-2", corpus=rows[1:])
    assert wenmai.finetune(base, rows, out=tmp_path / "runs", seeds=2, **chosen).values == whole.values


def test_every_seed_reads_what_can_be_read_once(base, tmp_path):
    rows = [tuple(line.split("\t")) for line in TEXTS["classes.tsv"]["enough"].splitlines()[1:]]
    splits = {"train": iter(rows), "validation": iter(rows[:9])}
    chosen = {"task": "classification", "quiet": True, "threads": 1, "epochs": 1, "learning_rate": 0.02}
    assert len(wenmai.finetune(base, splits, out=tmp_path / "runs", seeds=2, random_state=5, **chosen).values) == 2
    assert {path.name for path in (tmp_path / "runs").glob("seed-*")} == {"seed-5", "seed-6"}


def test_examples_to_validate_on_come_from_python_too(base, tmp_path):
    rows = [tuple(line.split("\t")) for line in TEXTS["classes.tsv"]["enough"].splitlines()[1:]]
    chosen = {"task": "classification", "quiet": True, "threads": 1, "epochs": 1, "learning_rate": 0.02, "seeds": 2}
    split = wenmai.finetune(base, {"train": rows[9:], "validation": rows[:9]}, out=tmp_path / "split", **chosen)
    given = wenmai.finetune(base, rows[9:], valid=iter(rows[:9]), out=tmp_path / "given", **chosen)
    assert given.values == split.values


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.706), (10, 2.262), (11, 2.228), (31, 2.042)])
def test_the_interval_of_seeds_is_by_students_t(count, quantile):
    values = tuple(n / count for n in range(count))
    found = SeedRuns(runs=(None,) * count, metric="f1", values=values)
    assert found.margin == pytest.approx(quantile * statistics.stdev(values) / count**0.5, rel=1e-3)


def test_several_seeds_go_on_where_they_were_interrupted(shell, base, monkeypatch):
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    command = ("finetune", base, "classes.tsv", "--task", "classification", "--out", "runs", *TINY, "--seeds", "2")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish", interrupted)
        stopped = shell(*command, code=130).err
    assert "stopped; the same command continues it, and goes on with the other seeds" in stopped
    assert "(mean of 2 seeds" in shell(*command).out
    again = (command[0], Path(base) / ".." / Path(base).name, *command[2:])
    assert "(mean of 2 seeds" in shell(*again).out


def test_several_seeds_are_not_mixed_with_other_trainings(shell, base):
    for name in ("classes.tsv", "other.tsv"):
        (shell.folder / name).write_text(TEXTS["classes.tsv"]["enough"])
    task = ("--task", "classification")
    command = ("finetune", base, "classes.tsv", *task, "--out", "runs", *TINY)
    shell(*command, "--seeds", "2")
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"] + "a b\tlate\n")
    assert "runs/seed-1: was trained on other examples" in shell(*command, "--seeds", "3", code=6).err
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    other = shell(*command, "--seeds", "2", "--keep", "both", code=6).err
    assert "runs/seed-1: was trained with reading.keep=head; choose another --out" in other
    other = shell("finetune", base, "other.tsv", *task, "--out", "runs", *TINY, "--seeds", "2", code=6).err
    assert "runs/seed-1: was trained on " in other
    other = shell("finetune", "runs/seed-1", "classes.tsv", *task, "--out", "runs", *TINY, "--seeds", "2", code=6).err
    assert "runs/seed-1: was trained from " in other
    told = shell("finetune", base, "classes.tsv", *task, "--out", "runs/seed-1", *TINY, "--seeds", "2", code=6).err
    assert "runs/seed-1: is a run; several seeds need a folder of their own" in told


def test_what_is_not_possible_is_said_in_one_line(shell, base):
    (shell.folder / "classes.tsv").write_text(TEXTS["classes.tsv"]["enough"])
    assert "--task classification, pair" in shell("finetune", base, "classes.tsv", code=2).err
    assert "did you mean 'tagging'" in shell("finetune", base, "classes.tsv", "--task", "taging", code=2).err
    seeds = ("--task", "classification", "--seeds", "2", "--seed", "abc", "--out", "no")
    assert "seed" in shell("finetune", base, "classes.tsv", *seeds, code=2).err
    one = shell("train", "finetuned-pair", "classes.tsv", code=2).err
    assert "wenmai finetune RUN DATA --task pair" in one
    assert "which has no tag" in shell("tag", base, "a", code=6).err
    (shell.folder / "dev.tsv").write_text("text\tlabel\na\tnever\n")
    found = shell(
        "finetune", base, "classes.tsv", "--task", "classification", "--valid", "dev.tsv", "--out", "no", code=3
    )
    assert "never" in found.err
    assert not (shell.folder / "no").exists()


def test_the_settings_of_a_task_are_listed(shell):
    assert "--lora-rank" in shell("finetune", "--help").out
    assert "--crf" in shell("finetune", "--help", "--task", "tagging").out


def test_published_settings_are_a_preset(shell, tune, base):
    run = tune("classification", "--preset", "ernie-chnsenticorp", "--max-length", "12", "--max-grad-norm", "2")
    sections = wenmai.Run(shell.folder / run).recipe.sections
    train = sections["train"]
    assert sections["reading"].max_length == 12  # of the user, as are epochs and the rate
    assert (train.epochs, train.learning_rate) == (2, 0.02)
    assert train.clip == 2  # also by a name of other tools
    assert (sections["tuning"].batch_size, train.warmup, train.weight_decay) == (24, 0, 0.01)
    given = ("finetune", run, "classes.tsv", "--preset", "ernie-xnli")
    assert "preset=ernie-xnli is for pair, not for" in shell(*given, "--task", "classification", code=2).err
    assert "no column has a usual name for the first text" in shell(*given, "--max-length", "12", code=3).err
    error = shell("finetune", base, "classes.tsv", "--preset", "ernie-lcmqc", code=2).err
    assert "no preset is called 'ernie-lcmqc'; did you mean 'ernie-lcqmc'?" in error


def test_presets_are_those_of_the_table():
    found = {name: (one.task, *(one.settings[key] for key in ("learning_rate", "epochs", "max_length", "weight_decay")))
             for name, one in PRESETS.items()}  # fmt: skip
    assert found == {
        "ernie-chnsenticorp": ("classification", 5e-5, 10, 256, 0.01),
        "ernie-lcqmc": ("pair", 2e-5, 3, 128, 0.0),
        "ernie-msra-ner": ("tagging", 5e-5, 3, 256, 0.01),
        "ernie-xnli": ("pair", 1e-4, 3, 512, 0.01),
    }
    batches = [one.settings["batch_size"] for one in PRESETS.values()]
    assert batches[:3] == [24, 32, 16]
    assert PRESETS["ernie-xnli"].settings["batch_tokens"] == 8192
    for one in PRESETS.values():  # every setting is one of the system
        known = {setting.name for setting in settings_of(find_system(f"finetuned-{one.task}").load_sections())}
        assert set(one.settings) <= known
