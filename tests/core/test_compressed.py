"""Reading files however they are compressed."""

import bz2
import gzip
import lzma
import os
import zlib

import pytest
import zstandard

from wenmai.core.compressed import compression, reading
from wenmai.core.errors import CorpusError, FormatError

TEXT = "".join(f"第{i}行 line\n" for i in range(3000)).encode()
COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("kind", COMPRESS)
def test_reads_one_or_several_compressed_parts(tmp_path, kind):
    path = tmp_path / "no-ending"
    path.write_bytes(COMPRESS[kind](TEXT) + COMPRESS[kind](b"more"))
    assert compression(path) == kind
    with reading(path) as file:
        assert file.readline() == "第0行 line\n".encode()
        assert file.read() == TEXT[len("第0行 line\n".encode()) :] + b"more"


@pytest.mark.parametrize("data", [b"", TEXT, b"BZhello", b"\x1f"])
def test_anything_else_is_plain(tmp_path, data):
    path = tmp_path / "plain.gz"
    path.write_bytes(data)
    assert compression(path) is None
    with reading(path) as file:
        assert file.read() == data


@pytest.mark.parametrize("kind", COMPRESS)
def test_every_truncation_is_noticed(tmp_path, kind):
    data = COMPRESS[kind](TEXT[:300])
    path = tmp_path / "file"
    for length in range(12, len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorpusError, match=f"the {kind} data is damaged"), reading(path, error=CorpusError) as file:
            file.read()


@pytest.mark.parametrize("kind", COMPRESS)
def test_damage_is_named(tmp_path, kind):
    data = bytearray(COMPRESS[kind](TEXT))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"the {kind} data is damaged"), reading(path) as file:
        file.read()


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FormatError, match="no such file"), reading(tmp_path / "absent"):
        pass
    with pytest.raises(FormatError, match="a folder, not a file"), reading(tmp_path):
        pass
    with pytest.raises(FormatError, match="a pipe or a device, not a file"), reading(os.devnull):
        pass


def test_errors_of_the_block_pass_through(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(FileNotFoundError), reading(path):
        (tmp_path / "absent").read_bytes()


def test_data_that_takes_much_memory_to_decompress_is_refused(tmp_path):
    path = tmp_path / "file"
    greedy = bytearray(lzma.compress(TEXT, check=lzma.CHECK_NONE))
    greedy[16] = 40  # the dictionary: 4 GiB
    greedy[20:24] = zlib.crc32(greedy[12:20]).to_bytes(4, "little")  # of the header of the block
    wide = zstandard.ZstdCompressionParameters(window_log=28)
    frame = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    for data in (bytes(greedy), frame.compress(TEXT) + frame.flush()):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="needs more than 128 MiB of memory"), reading(path) as file:
            file.read()


def test_the_strongest_usual_compression_is_read(tmp_path):
    path = tmp_path / "file"
    strong = zstandard.ZstdCompressionParameters(window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=strong).compressobj()
    for data in (lzma.compress(TEXT, preset=9 | lzma.PRESET_EXTREME), frame.compress(TEXT) + frame.flush()):
        path.write_bytes(data)
        with reading(path) as file:
            assert file.read() == TEXT
