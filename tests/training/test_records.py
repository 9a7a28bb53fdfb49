"""The records of a training as JSON lines."""

from wenmai.training.records import EpochRecord, RecordFile, StepRecord, read_records


def step(position: int) -> StepRecord:
    return StepRecord(
        progress=position / 10,
        position=position,
        epoch=1,
        loss=1.5,
        learning_rate=0.025,
        words_per_second=1e6,
        seconds=1.0,
        seconds_left=2.0,
    )


def epoch(position: int) -> EpochRecord:
    return EpochRecord(position=position, epoch=1, loss=None, seconds=1.0, words=10)


def write(path, *records, position=0):
    file = RecordFile(path, position=position)
    for record in records:
        file(record)
    file.close()


def test_records_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "run" / "metrics.jsonl"
    write(path, step(5), epoch(10))
    found = read_records(path)
    assert [record["kind"] for record in found] == ["step", "epoch"]
    assert found[0]["loss"] == 1.5
    assert found[1] == {"kind": "epoch", "position": 10, "epoch": 1, "loss": None, "seconds": 1.0, "words": 10}


def test_a_record_can_be_read_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = RecordFile(path)
    file(step(1))
    assert len(read_records(path)) == 1
    file.close()


def test_records_past_the_position_are_made_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, step(2), step(4), epoch(4), step(6))
    write(path, step(5), position=4)
    assert [(record["kind"], record["position"]) for record in read_records(path)] == [
        ("step", 2),
        ("step", 4),
        ("epoch", 4),
        ("step", 5),
    ]


def test_a_new_training_begins_a_new_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, step(2), step(4))
    write(path, step(1))
    assert [record["position"] for record in read_records(path)] == [1]


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, step(2), step(4), step(6))
    whole = path.read_bytes()
    line = len(whole) // 3
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        expected = [2, 4, 6][: (length + 1) // line]  # the line end itself may be missing
        assert [record["position"] for record in read_records(path)] == expected
    write(path, step(5), position=4)
    assert [record["position"] for record in read_records(path)] == [2, 4, 5]


def test_damaged_lines_do_not_stop_a_resume(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for damage in (
        b"\xff\xfe\n",
        b'"text"\n',
        b"[1]\n",
        b"{}\n",
        b'{"kind": "step", "position": "4"}\n',
        b"[" * 100_000,
    ):
        write(path, step(2))
        with path.open("ab") as file:
            file.write(damage)
        write(path, step(5), position=4)
        assert [record["position"] for record in read_records(path)] == [2, 5], damage[:40]


def test_a_missing_file_has_no_records(tmp_path):
    assert read_records(tmp_path / "nothing.jsonl") == []
    write(tmp_path / "new.jsonl", position=7)
    assert (tmp_path / "new.jsonl").read_text() == ""
