"""What a person sees while a training runs: one live line in a terminal, plain lines elsewhere."""

import io
import sys
from contextlib import contextmanager

import pytest

import wenmai
from wenmai.cli.printing import words_a_second
from wenmai.cli.progress import Progress
from wenmai.core import registry
from wenmai.training.records import EvaluationRecord, UpdateRecord


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def a_terminal():
    """Puts a terminal in the place of standard error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal := Terminal())
        yield terminal


def train(topics, tmp_path, callback):
    with callback:
        wenmai.train("word2vec", topics, out=tmp_path / "run", callback=callback, vector_size=16, epochs=2, threads=1)


def test_a_terminal_shows_one_line_that_changes(topics, tmp_path):
    with a_terminal() as terminal:
        train(topics, tmp_path, Progress())
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


def test_a_narrow_terminal_shows_what_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with a_terminal() as terminal, Progress() as progress:
        progress.encoding_corpus(10, 100)
    assert terminal.getvalue() == "\rreading the corpus \n"


def test_elsewhere_there_are_few_plain_lines(topics, tmp_path, capsys):
    train(topics, tmp_path, Progress())
    out, err = capsys.readouterr()
    assert out == ""
    assert "\r" not in err
    assert 4 <= len(err.splitlines()) <= 7


def test_quiet_shows_warnings_only(tmp_path, capsys):
    path = tmp_path / "text"
    path.write_bytes(b"a b c d e f\n" * 50 + b"\xff\n")
    for name, settings in (("good", {}), ("lonely", {"segment": "whitespace"})):
        with Progress(quiet=True) as callback:
            wenmai.train(
                "word2vec", path, out=tmp_path / name, callback=callback, bad_lines="skip", epochs=1, **settings
            )
    assert capsys.readouterr().err == "note: left out of the corpus: 1 undecodable lines\n" * 2


def test_an_interrupt_ends_the_line():
    def stopped():
        with Progress() as progress:
            progress.encoding_corpus(10, 100)
            raise KeyboardInterrupt

    with a_terminal() as terminal, pytest.raises(KeyboardInterrupt):
        stopped()
    assert terminal.getvalue() == "\rreading the corpus   10.0% of 0.0 MB\n"


def test_every_verb_says_that_it_was_stopped(shell, monkeypatch):
    def interrupted():
        error = KeyboardInterrupt()
        error.add_note("`wenmai resume run` continues it")
        raise error

    monkeypatch.setattr(registry, "systems", interrupted)
    assert shell("systems", code=130).err == "wenmai: stopped; `wenmai resume run` continues it\n"


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
    for part in ("50.0%", "epoch 2", "12,346 tokens/s (41% of the GPU)", "loss -", "rate 0.001", "1 min 30 s left"):
        assert part in shown
    assert shown.endswith("1,234 updates, 1 min 30 s: validation loss 1.5  perplexity 4.482\n")
    with a_terminal() as terminal, Progress(quiet=True) as progress:
        progress.record(update)
        progress.record(look)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("speed", "shown"), [(1_140_000, "1.14 M"), (100_000, "0.10 M"), (99_999, "99,999"), (12.3, "12")]
)
def test_a_slow_start_is_not_shown_as_nothing(speed, shown):
    assert words_a_second(speed) == shown
