"""What a person sees while a training runs: one live line in a terminal, plain lines elsewhere."""

import io
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import wenmai
from wenmai.core.clock import CLOCK
from wenmai.core.quantities import words_a_second
from wenmai.training.callback import Callback
from wenmai.training.progress import Progress, following
from wenmai.training.records import EpochRecord, EvaluationRecord, StepRecord, UpdateRecord


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def a_terminal():
    """Puts a terminal in the place of standard error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal := Terminal())
        yield terminal


def train(topics, tmp_path):
    wenmai.train("word2vec", topics, out=tmp_path / "run", vector_size=16, epochs=2, threads=1)


def test_a_terminal_shows_one_line_that_changes(topics, tmp_path):
    with a_terminal() as terminal:
        train(topics, tmp_path)
    lines = terminal.getvalue().split("\n")
    assert lines[0].startswith("\rreading the corpus")
    assert lines[0].endswith("100.0% of 0.3 MB")
    assert lines[1].startswith("word2vec: 30,000 tokens")
    steps = lines[2].split("\r")[1:]
    assert len(steps) > 1  # how often depends on the speed
    for step in steps:
        for part in ("%", "epoch 1", " words/s", "loss ", "rate 0.0", " left"):
            assert part in step
    assert lines[3].startswith("epoch 1 done: mean loss")
    widths = [len(step.rstrip()) for step in steps]
    assert all(len(now) >= before for now, before in zip(steps[1:], widths, strict=False))  # nothing old is left over


@pytest.mark.parametrize("live", [True, False])
def test_a_training_goes_on_when_nobody_reads_its_progress_any_more(live, topics, tmp_path, monkeypatch):
    class Gone(Terminal if live else io.StringIO):
        def write(self, text):
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stderr", Gone())
    train(topics, tmp_path)
    assert wenmai.Run(tmp_path / "run").finished


def test_a_narrow_terminal_shows_what_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with a_terminal() as terminal, Progress() as progress:
        progress.encoding_corpus(10, 100)
    assert terminal.getvalue() == "\r 10.0% of 0.0 MB\n"


def step(**changes):
    usual = {
        "progress": 0.45,
        "position": 9,
        "epoch": 2,
        "loss": 2.3456,
        "learning_rate": 0.0125,
        "words_per_second": 1_140_000.0,
        "seconds": 60.0,
        "seconds_left": 73.0,
    }
    return StepRecord(**(usual | changes))


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, " 45.0%  epoch 2  1.14 M words/s  loss 2.3456  rate 0.0125  1 min 13 s left"),
        (60, " 45.0%  1.14 M words/s  loss 2.3456  1 min 13 s left"),
        (50, " 45.0%  epoch 2  loss 2.3456  1 min 13 s left"),
        (30, " 45.0%  1 min 13 s left"),
        (20, " 45.0%  loss 2.3456"),
        (5, " 45."),
    ],
)  # fmt: skip
def test_a_line_keeps_what_matters_most_where_not_all_fits(columns, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    with a_terminal() as terminal, Progress() as progress:
        progress.record(step())
    assert terminal.getvalue() == f"\r{shown}\n"
    assert len(shown) < columns


def test_wide_characters_take_two_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with a_terminal() as terminal, Progress() as progress:
        progress.compiling("正在编译计算内核，只需一次")
    assert terminal.getvalue() == "\r正在编译计算内核，\n"


def test_what_there_is_none_of_is_not_shown():
    with a_terminal() as terminal, Progress() as progress:
        progress.record(step(loss=None, learning_rate=0.0, words_per_second=0.0))
        progress.record(EpochRecord(position=1, epoch=1, loss=None, seconds=2.0, words=3))
    assert terminal.getvalue() == "\r 45.0%  epoch 2  1 min 13 s left\nepoch 1 done: 2.0 s so far\n"


class NotebookStream(io.StringIO):
    """Like the stream of ipykernel: no terminal, but a carriage return begins its line again."""

    __module__ = "ipykernel.iostream"


def test_a_notebook_shows_a_line_that_changes_now_and_then(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")  # of the terminal in which the server was started
    monkeypatch.setattr(sys, "stderr", stream := NotebookStream())
    with Progress() as progress:
        for part in range(100):
            progress.record(step(progress=part / 100))
    assert stream.getvalue().startswith("\r  0.0%  epoch 2")
    assert 1 <= stream.getvalue().count("\r") < 20


def test_a_callback_of_the_users_own_takes_the_place_of_the_progress(topics, tmp_path, capsys):
    wenmai.train("word2vec", topics, out=tmp_path / "run", callback=Callback(), vector_size=8, epochs=1)
    assert capsys.readouterr().err == ""


def test_compiling_is_said_once_or_while_it_lasts(capsys):
    def compile_two(*, quiet=False):
        with following(None, quiet=quiet) as progress:
            CLOCK.announce("compiling kernels (once)")
            CLOCK.announce("compiling kernels (once)")
            progress.record(step())

    compile_two()
    CLOCK.announce("compiling kernels (once)")  # nobody listens
    compile_two(quiet=True)
    assert capsys.readouterr().err.startswith("compiling kernels (once)\n 45.0%  epoch 2")
    with a_terminal() as terminal:
        compile_two()
    first, second = terminal.getvalue().split("\r")[1:]
    assert (first, second[:7]) == ("compiling kernels (once) ...", " 45.0% ")


def test_a_short_evaluation_needs_no_word_elsewhere(capsys):
    with Progress() as progress:
        progress.evaluating("evaluating on ws353", 1, 2)
    assert capsys.readouterr().err == ""


def test_how_far_an_evaluation_is_vanishes_at_its_end():
    with a_terminal() as terminal, Progress() as progress:
        progress.evaluating("evaluating on ws353", 1, 2)
        progress.evaluating("evaluating on sst2", 2, 2)
    assert terminal.getvalue().split("\r")[1:] == [
        "evaluating on ws353  1 of 2",
        "evaluating on sst2  2 of 2 ",
        " " * 26,
        "",
    ]


def test_elsewhere_there_are_few_plain_lines(topics, tmp_path, capsys):
    train(topics, tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\r" not in err
    assert 4 <= len(err.splitlines()) <= 7


def test_quiet_shows_warnings_only(tmp_path, capsys):
    path = tmp_path / "text"
    path.write_bytes(b"a b c d e f\n" * 50 + b"\xff\n")
    for name, settings in (("good", {}), ("lonely", {"segment": "whitespace"})):
        wenmai.train("word2vec", path, out=tmp_path / name, quiet=True, bad_lines="skip", epochs=1, **settings)
    assert capsys.readouterr().err == "note: left out of the corpus: 1 undecodable lines\n" * 2


def test_an_interrupt_ends_the_line():
    def stopped():
        with Progress() as progress:
            progress.encoding_corpus(10, 100)
            raise KeyboardInterrupt

    with a_terminal() as terminal, pytest.raises(KeyboardInterrupt):
        stopped()
    assert terminal.getvalue().endswith("10.0% of 0.0 MB\n")
    assert "stopped" not in terminal.getvalue()


def test_updates_and_looks_of_a_torch_model_are_shown(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    update = UpdateRecord(
        progress=0.5,
        position=10,
        epoch=2,
        loss=None,
        learning_rate=0.001,
        gradient_norm=1.0,
        tokens_per_second=12345.6,
        flops_share=0.41,
        seconds=90.0,
        seconds_left=90.0,
    )
    look = EvaluationRecord(
        position=1234, epoch=2, seconds=90.0, learning_rate=0.001, figures={"loss": 1.5, "perplexity": 4.4817}
    )
    with a_terminal() as terminal, Progress() as progress:
        progress.record(update)
        progress.record(look)
    shown = terminal.getvalue()
    for part in ("50.0%", "epoch 2", "12,346 tokens/s (41% of the GPU)", "rate 0.001", "1 min 30 s left"):
        assert part in shown
    assert shown.endswith("1,234 updates, 1 min 30 s: validation loss 1.5  perplexity 4.482\n")
    run = wenmai.Run.__new__(wenmai.Run)
    run.path = Path("runs/gpt")
    facts = {"system": "gpt", "sizes": "9 tokens", "stats": {}, "position": 0, "epochs": 10, "threads": 1}
    for steps, effort in ((None, "10 epochs"), (1, "1 update or 10 epochs at most"), (2, "2 updates or 10 epochs at")):
        with a_terminal() as terminal, Progress() as progress:
            progress.begin(run, facts | {"steps": steps})
        assert terminal.getvalue().startswith(f"gpt: 9 tokens; {effort}")
    with a_terminal() as terminal, Progress(quiet=True) as progress:
        progress.record(update)
        progress.record(look)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("speed", "shown"), [(1_140_000, "1.14 M"), (100_000, "0.10 M"), (99_999, "99,999"), (12.3, "12")]
)
def test_a_slow_start_is_not_shown_as_nothing(speed, shown):
    assert words_a_second(speed) == shown
