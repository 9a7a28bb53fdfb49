"""Arrays in safetensors files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from wenmai.core import tensors as tensors_module
from wenmai.core.errors import FormatError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from(["<f4", "<f8", "<i4", "<i8"])), max_size=4
    ),
    st.integers(1, 300),
)
def test_the_reference_library_reads_what_we_write(tmp_path_factory, shapes, block):
    path = tmp_path_factory.mktemp("tensors") / "model.safetensors"
    arrays = {
        f"t{i}": (np.arange(rows * columns).reshape(rows, columns) - 7).astype(dtype)
        for i, (rows, columns, dtype) in enumerate(shapes)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors_module, "_BLOCK_BYTES", block)
        write_tensors(path, arrays)
    found = load_file(path)
    assert {name: (array.shape, array.dtype.str) for name, array in found.items()} == {
        name: (array.shape, array.dtype.str) for name, array in arrays.items()
    }
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert tensor_shapes(path) == {name: array.shape for name, array in arrays.items()}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 20), st.integers(0, 5), st.integers(1, 500))
def test_strided_rows_come_back_as_they_were(tmp_path_factory, rows, columns, padding, block):
    path = tmp_path_factory.mktemp("tensors") / "model.safetensors"
    padded = floats(rows, columns + padding)
    target = np.full((rows, columns + padding), 7, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors_module, "_BLOCK_BYTES", block)
        write_tensors(path, {"x": padded[:, :columns], "y": floats(3)})
        read_tensor_into(path, "x", target[:, :columns])
    np.testing.assert_array_equal(target[:, :columns], padded[:, :columns])
    assert (target[:, columns:] == 7).all()
    np.testing.assert_array_equal(load_file(path)["x"], padded[:, :columns])


def test_we_read_what_the_reference_library_writes(tmp_path):
    path = tmp_path / "model.safetensors"
    expected = {"b": floats(2, 3), "a": floats(4, 1)}
    save_file(expected, path, metadata={"made": "elsewhere"})
    for name, array in expected.items():
        target = np.empty_like(array)
        read_tensor_into(path, name, target)
        np.testing.assert_array_equal(target, array)


def test_special_values_keep_their_bits(tmp_path):
    path = tmp_path / "model.safetensors"
    values = np.array([[3e38, -3e38, -0.0, 1e-45]], np.float32)
    write_tensors(path, {"x": values})
    target = np.zeros_like(values)
    read_tensor_into(path, "x", target)
    assert target.tobytes() == values.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(value, tmp_path):
    path = tmp_path / "model.safetensors"
    values = np.zeros((3, 2), np.float32)
    values[2, 1] = value
    write_tensors(path, {"x": values})
    with pytest.raises(FormatError, match="x has numbers that are not finite"):
        read_tensor_into(path, "x", np.zeros_like(values))


def test_data_begin_on_eight_bytes(tmp_path):
    for length in range(1, 9):
        path = tmp_path / f"{length}.safetensors"
        write_tensors(path, {"n" * length: floats(1, 1)})
        assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0


def test_an_error_while_writing_leaves_nothing(tmp_path):
    with pytest.raises(KeyError):
        write_tensors(tmp_path / "model.safetensors", {"x": floats(2, 2), "y": np.zeros(2, np.complex64)})
    assert not any(tmp_path.iterdir())


# --- damaged files ------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"input": floats(3, 4), "negative": floats(2, 2)})
    return path


def test_every_truncation_is_refused(small):
    whole = small.read_bytes()
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"model.safetensors"):
            read_tensor_into(small, "input", np.empty((3, 4), np.float32))
        with pytest.raises(FormatError, match="is not a whole safetensors file"):
            tensor_shapes(small)
    small.write_bytes(whole + b"\0")
    with pytest.raises(FormatError):
        tensor_shapes(small)


def test_every_flipped_bit_of_the_header_is_refused_or_harmless(small):
    """What is read is either right to the bit or not read; a changed name is a missing tensor."""
    whole = small.read_bytes()
    header_end = 8 + int.from_bytes(whole[:8], "little")
    expected = load_file(small)["input"]
    refused = 0
    for place in range(header_end):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            small.write_bytes(damaged)
            target = np.empty((3, 4), np.float32)
            try:
                read_tensor_into(small, "input", target)
            except FormatError as error:
                assert str(small) in str(error)  # noqa: PT017  both outcomes are allowed
                refused += 1
            else:
                np.testing.assert_array_equal(target, expected)
    assert refused > 0.6 * 8 * header_end


def test_a_file_that_may_not_be_read_is_not_called_damaged(small, monkeypatch):
    def forbid(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbid)  # whoever runs the tests may read all files
    with pytest.raises(FormatError, match=r": cannot be read \(Permission denied\)"):
        tensor_shapes(small)


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**40, 10**9])
def test_a_size_field_is_not_believed(small, size):
    whole = small.read_bytes()
    small.write_bytes(size.to_bytes(8, "little") + whole[8:])
    with pytest.raises(FormatError, match="is not a whole safetensors file"):
        tensor_shapes(small)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [0, 2**62]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [16, 0]},
        {"dtype": "F32", "shape": [-1, 4], "data_offsets": [0, 16]},
        {"dtype": "F128", "shape": [1, 4], "data_offsets": [0, 16]},
        {"shape": [1, 4]},
        [],
    ],
)
def test_lies_in_the_header_are_refused(tmp_path, entry):
    path = tmp_path / "model.safetensors"
    header = json.dumps({"input": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(FormatError, match="is not a whole safetensors file"):
        tensor_shapes(path)


def test_a_tensor_of_another_shape_type_or_name_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"x": floats(3, 4), "whole": np.zeros((3, 4), np.int32)})
    target = np.empty((3, 4), np.float32)
    with pytest.raises(FormatError, match=r"'x' has the shape \(3, 4\), expected \(4, 3\)"):
        read_tensor_into(path, "x", target.reshape(4, 3))
    with pytest.raises(FormatError, match=r"'y' is missing, expected \(3, 4\)"):
        read_tensor_into(path, "y", target)
    with pytest.raises(FormatError, match="'whole' is I32, expected F32"):
        read_tensor_into(path, "whole", target)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(FormatError, match="is not a whole safetensors file"):
            tensor_shapes(path)
