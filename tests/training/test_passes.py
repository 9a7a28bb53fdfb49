"""The training loop on a system that only notes what it is asked to do."""

import json
import math
import signal
import threading
import time
from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import TrainingError
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.passes import PassesConfig, Tally, Totals, run_passes
from wenmai.training.records import EpochRecord, Record, StepRecord

RATE = 0.05


@pytest.fixture(autouse=True)
def without_syncing(monkeypatch):
    """Checkpoints after every round, not slowed down by the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


class Job:
    """Notes every block; ``on_block`` may do something at one of them."""

    LANES = 4

    def __init__(self, blocks=20, *, on_block=None, losses=None):
        self.blocks = blocks
        self.trained: list[tuple[int, int, float]] = []  # epoch, block, rate
        self.busy: set[int] = set()
        self.workers = 0
        self._on_block = on_block or (lambda epoch, block: None)
        self._losses = losses or (lambda epoch, block: 0.1 * (epoch * blocks + block + 1))
        self._lock = threading.Lock()

    def share_before(self, block):
        return (block / self.blocks) ** 2  # later blocks are larger

    def worker(self):
        self.workers += 1
        return self.workers

    def train_block(self, worker, epoch, block, rate):
        with self._lock:
            assert worker not in self.busy, "two threads share a worker"
            self.busy.add(worker)
        tally = self._train(epoch, block, rate)
        with self._lock:
            self.busy.remove(worker)
        return tally

    def lanes(self):
        return self.LANES

    def train_in_step(self, epoch, first, rates, threads):
        assert first % self.LANES == 0
        return [self._train(epoch, first + lane, rate) for lane, rate in enumerate(rates)]

    def _train(self, epoch, block, rate):
        with self._lock:
            self.trained.append((epoch, block, rate))
        self._on_block(epoch, block)
        return Tally(self._losses(epoch, block), 1 + block % 3, 10)

    def save(self, folder):
        (folder / "trained.json").write_text(json.dumps(len(self.trained)))


def run(job: Job, folder: Path, *, totals: Totals | None = None, report=None, **config) -> tuple[Totals, list[Record]]:
    records: list[Record] = []
    totals = totals or Totals()
    run_passes(
        job,
        PassesConfig(**{"epochs": 3, "threads": 2} | config),
        learning_rate=RATE,
        totals=totals,
        checkpoints=Checkpoints(folder / "checkpoints"),
        report=report or records.append,
    )
    return totals, records


MODES = [{"threads": 1}, {"threads": 2}, {"threads": 7}, {"deterministic": True}, {"deterministic": True, "threads": 3}]
each_mode = pytest.mark.parametrize("mode", MODES, ids=str)


# --- what is trained ----------------------------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("blocks", [1, 2, 19, 450])
def test_every_block_is_trained_once_an_epoch_at_the_rate_of_its_place(tmp_path, blocks, mode):
    job = Job(blocks)
    totals, _ = run(job, tmp_path, **mode)
    assert Counter((epoch, block) for epoch, block, _ in job.trained) == Counter(
        (epoch, block) for epoch in range(3) for block in range(blocks)
    )
    assert [epoch for epoch, _, _ in job.trained] == sorted(epoch for epoch, _, _ in job.trained)
    for epoch, block, rate in job.trained:
        assert rate == pytest.approx(RATE * max(1e-4, 1 - (epoch + (block / blocks) ** 2) / 3), rel=1e-12)
    assert totals.position == 3 * blocks
    assert totals.words == 30 * blocks
    assert not (tmp_path / "checkpoints").exists()  # it took no ten minutes
    assert job.workers == (0 if mode.get("deterministic") else mode["threads"])


def test_the_rate_has_a_floor(tmp_path):
    job = Job(2)
    job.share_before = lambda block: 0.99999999 * block
    run(job, tmp_path, epochs=1, threads=1)
    assert [rate for _, _, rate in job.trained] == pytest.approx([RATE, RATE * 1e-4], rel=1e-12)


def test_one_thread_trains_in_order(tmp_path):
    job = Job(50)
    run(job, tmp_path, threads=1)
    assert [(epoch, block) for epoch, block, _ in job.trained] == [(e, b) for e in range(3) for b in range(50)]


def test_threads_really_work_at_the_same_time(tmp_path):
    together = threading.Barrier(3, timeout=20)
    job = Job(6, on_block=lambda epoch, block: together.wait() if block < 3 else None)
    run(job, tmp_path, threads=3, epochs=200)  # so that a round has several blocks
    assert len(job.trained) == 1200


# --- what is reported ---------------------------------------------------------------------------------------------


@each_mode
def test_records_tell_the_whole_training(tmp_path, mode, monkeypatch):
    monkeypatch.setattr("wenmai.training.passes._SHORTEST_ROUND_SECONDS", 0)  # the blocks below take no time
    job = Job(450)
    totals, records = run(job, tmp_path, **mode)
    steps = [record for record in records if isinstance(record, StepRecord)]
    epochs = [record for record in records if isinstance(record, EpochRecord)]
    assert len(steps) >= 45
    positions = [record.position for record in steps]
    assert positions == sorted(set(positions))
    assert positions[-1] == 3 * 450
    assert steps[-1].progress == 1
    assert steps[-1].seconds_left == 0
    for record in steps:
        assert record.progress == record.position / 1350
        assert record.epoch == (record.position - 1) // 450 + 1
        assert record.words_per_second > 0
        assert 0 < record.learning_rate <= RATE
        json.dumps(asdict(record), allow_nan=False)
    assert [(record.epoch, record.position, record.words) for record in epochs] == [
        (1, 450, 4500),
        (2, 900, 9000),
        (3, 1350, 13500),
    ]
    seconds = [record.seconds for record in records]
    assert seconds == sorted(seconds)
    assert totals.seconds == seconds[-1]


@each_mode
def test_the_loss_of_an_epoch_is_the_mean_over_its_predictions(tmp_path, mode):
    job = Job(450, losses=lambda epoch, block: 1e9 if block == 7 else 1e-3 * (block + 1) / (epoch + 1))
    totals, records = run(job, tmp_path, **mode)
    expected = []
    for epoch in range(3):
        losses = [job._losses(epoch, block) for block in range(450)]
        expected.append(math.fsum(losses) / sum(1 + block % 3 for block in range(450)))
    assert [r.loss for r in records if isinstance(r, EpochRecord)] == pytest.approx(expected, rel=1e-14)
    assert totals.last_epoch_loss == pytest.approx(expected[-1], rel=1e-14)
    assert (totals.epoch_loss, totals.epoch_examples) == (0, 0)


def test_blocks_without_predictions_have_no_loss(tmp_path):
    job = Job(3)
    job._train = lambda epoch, block, rate: Tally(0.0, 0, 0)
    totals, records = run(job, tmp_path, epochs=1)
    assert {record.loss for record in records} == {None}
    assert math.isnan(totals.last_epoch_loss)


def test_the_loss_is_that_of_the_last_epoch_that_predicted_anything(tmp_path):
    job = Job(3)
    job._train = lambda epoch, block, rate: Tally(2.0, 1, 1) if epoch == 1 else Tally(0.0, 0, 0)
    totals, records = run(job, tmp_path, epochs=3)
    assert [record.loss for record in records if isinstance(record, EpochRecord)] == [None, 2.0, None]
    assert totals.metrics()["loss"] == 2.0


def test_long_rounds_become_shorter(tmp_path, monkeypatch):
    monkeypatch.setattr("wenmai.training.passes._ROUND_SECONDS", 0.02)
    monkeypatch.setattr("wenmai.training.passes._ROUNDS", 4)
    job = Job(400, on_block=lambda epoch, block: time.sleep(0.001))
    _, records = run(job, tmp_path, epochs=1, threads=1)
    positions = [0] + [record.position for record in records]
    lengths = [after - before for before, after in pairwise(positions[:-1])]
    assert lengths[0] == 100
    assert max(lengths[1:]) <= 20


# --- when something goes wrong ------------------------------------------------------------------------------------


@each_mode
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_training(tmp_path, mode, value):
    job = Job(20, losses=lambda epoch, block: value if (epoch, block) == (1, 10) else 1.0)
    with pytest.raises(TrainingError, match=r"no longer a number after [56]\d\.\d%.*; lower learning_rate"):
        run(job, tmp_path, checkpoint_seconds=0, **mode)
    assert len(job.trained) < 60
    [*_, (path, state, problems)] = [Checkpoints(tmp_path / "checkpoints").newest_good()]
    assert path is not None
    assert state["position"] <= 30  # the last whole one is before the damage
    assert not problems


@each_mode
def test_an_error_in_a_block_comes_through_and_stops_the_others(tmp_path, mode):
    def fail(epoch, block):
        if (epoch, block) == (0, 4):
            raise MemoryError("no room")
        time.sleep(0.001)

    job = Job(1000, on_block=fail)
    with pytest.raises(MemoryError, match="no room"):
        run(job, tmp_path, epochs=200, **mode)  # rounds of 1000 blocks
    assert len(job.trained) < 30


@each_mode
def test_an_error_while_reporting_comes_through(tmp_path, mode):
    def fail(record):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(Job(), tmp_path, report=fail, **mode)


@each_mode
def test_an_interrupt_saves_what_is_done(tmp_path, mode):
    """Ctrl-C in the middle of a block: it is finished, and exactly a prefix is trained and saved."""

    def interrupt(epoch, block):
        if (epoch, block) == (1, 5):
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.0005)

    job, totals = Job(100, on_block=interrupt), Totals()
    records: list[Record] = []
    with pytest.raises(KeyboardInterrupt):
        run(job, tmp_path, totals=totals, report=records.append, epochs=4, **mode)
    path, state, problems = Checkpoints(tmp_path / "checkpoints").newest_good()
    assert not problems
    assert state["position"] == totals.position == len(job.trained)
    assert sorted((epoch, block) for epoch, block, _ in job.trained) == [
        divmod(position, 100) for position in range(totals.position)
    ]
    assert 106 <= totals.position <= 160
    assert records[-1].position == totals.position
    assert json.loads((path / "trained.json").read_text()) == totals.position
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
    rest = Job(100)
    totals, more = run(rest, tmp_path, totals=Totals(**state), epochs=4, **mode)
    assert len(rest.trained) == 400 - len(job.trained)
    whole, all_records = run(Job(100), tmp_path, epochs=4, **mode)
    epochs = [r.loss for r in records + more if isinstance(r, EpochRecord)]
    assert epochs == pytest.approx([r.loss for r in all_records if isinstance(r, EpochRecord)], rel=1e-12)
    assert totals.words == whole.words
    assert totals.last_epoch_loss == pytest.approx(whole.last_epoch_loss, rel=1e-12)


def test_an_interrupt_while_reporting_waits_for_the_end_of_the_round(tmp_path):
    def report(record):
        signal.raise_signal(signal.SIGINT)

    job, totals = Job(), Totals()
    with pytest.raises(KeyboardInterrupt):
        run(job, tmp_path, totals=totals, report=report)
    assert Checkpoints(tmp_path / "checkpoints").newest_good()[1]["position"] == totals.position == len(job.trained)


def test_a_second_interrupt_does_not_wait(tmp_path):
    def interrupt_twice(epoch, block):
        if block == 0:
            for _ in range(2):  # as the system does it: to the main thread, which wakes up and sees to it
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.4)

    with pytest.raises(KeyboardInterrupt):
        run(Job(on_block=interrupt_twice), tmp_path)
    assert not (tmp_path / "checkpoints").exists()


def test_a_handler_of_someone_else_stays(tmp_path):
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        run(Job(on_block=lambda e, b: signal.raise_signal(signal.SIGINT) if (e, b) == (0, 3) else None), tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_a_training_may_run_beside_the_main_thread(tmp_path):
    job = Job()
    thread = threading.Thread(target=run, args=(job, tmp_path))
    thread.start()
    thread.join(20)
    assert len(job.trained) == 60


# --- resuming -----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 4),
    st.sampled_from(MODES),
    st.integers(0, 200),
    st.randoms(use_true_random=False),
)
def test_a_training_resumed_anywhere_trains_the_rest(tmp_path_factory, blocks, epochs, mode, stop_after, random):
    """Also after several stops; checkpoints after every round tell everything that a resume needs."""
    folder = tmp_path_factory.mktemp("run")
    trained, totals, pieces, least = [], Totals(), [], 1
    while totals.position < blocks * epochs:
        job = Job(blocks)
        limit = random.randint(least, least + stop_after)

        def fail(epoch, block, job=job, limit=limit):
            if len(job.trained) > limit:
                raise RuntimeError("killed")

        job._on_block = fail
        try:
            run(job, folder, totals=totals, report=pieces.append, epochs=epochs, checkpoint_seconds=0, **mode)
        except RuntimeError:
            state = Checkpoints(folder / "checkpoints").newest_good()[1]
            position = state.get("position", 0)
            if state:
                state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
            totals = Totals(**state)
            pieces = [record for record in pieces if record.position <= position]
            least += 10  # so that it ends
        else:
            position = totals.position
        done = len(trained)
        trained += [(e, b, r) for e, b, r in job.trained if done <= e * blocks + b < position]
    whole = Job(blocks)
    expected, records = run(whole, folder, epochs=epochs, **mode)
    assert sorted(trained) == sorted(whole.trained)
    losses = [record.loss for record in pieces if isinstance(record, EpochRecord)]
    assert losses == pytest.approx([record.loss for record in records if isinstance(record, EpochRecord)], rel=1e-12)
    assert totals.words == expected.words
