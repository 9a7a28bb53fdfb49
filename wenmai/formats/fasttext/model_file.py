"""fastText's model files: ``.bin``, and ``.ftz`` whose matrices are quantised. Both ways, byte for byte.

Little-endian and unaligned: magic number, version, 13 settings; the dictionary (sizes, then each word, a zero byte, its
count and type; then the buckets that pruning has kept); two matrices, each with a flag that says how it is stored. The
layout is the reference implementation's, version 12; in files of version 11 classifiers have no subwords. Files of 2016
begin with the settings, and lack the sizes and flags of what came later: pruning and quantisation.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from wenmai.core.compressed import compression
from wenmai.core.errors import FormatError, SettingError, VocabError
from wenmai.core.folder import writing
from wenmai.formats.fasttext.dictionary import read_dictionary, write_dictionary
from wenmai.formats.fasttext.reader import Reader
from wenmai.models.fasttext import (
    LONGEST_WORD_NGRAM,
    Config,
    FastText,
    FastTextClassifierConfig,
    FastTextConfig,
    Matrix,
    rows_to_fill,
    used_buckets,
)

__all__ = ["read_fasttext", "write_fasttext"]

MAGIC = 793_712_314
_HEAD = struct.Struct("<2i")
_SETTINGS = struct.Struct("<12id")
_SHAPE = struct.Struct("<2q")
_QUANTISED = struct.Struct("<B2qi")
_QUANTISER = struct.Struct("<4i")
_NAMES = (
    *("vector_size", "window", "epochs", "min_count", "negative", "word_ngrams", "loss", "model", "buckets"),
    *("min_ngram", "max_ngram", "rate_updates", "sample"),
)
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
_MOST_DIMENSIONS, _LONGEST_NGRAM = 10_000, 1_000
_BLOCK_BYTES = 1 << 22


def read_fasttext(path: str | Path) -> FastText:
    """Reads a ``.bin`` or ``.ftz`` model of fastText: word vectors or a classifier, quantised or not.

    Versions 11 and 12 are read, and files of 2016, which have no version and are written as version 11. Words that are
    not UTF-8 keep their bytes by Python's ``surrogateescape``.

    Raises:
        FormatError: if the file is missing, compressed, truncated, damaged, or of another format or version.
    """
    path = Path(path)
    if not path.is_file():
        raise FormatError(f"{path}: {'this is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        if (kind := compression(path)) is not None:
            raise FormatError(f"{path}: is compressed with {kind}; decompress it first")
        with path.open("rb", buffering=0) as file:
            return _read(Reader(path, file, path.stat().st_size))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    except VocabError as error:
        raise FormatError(f"{path}: {error}; the file is damaged") from None


def _read(reader: Reader) -> FastText:
    magic, version = reader.unpack(_HEAD, "the head")
    if signed := magic == MAGIC:
        if version not in (11, 12):
            raise FormatError(f"{reader.path}: is of version {version} of fastText's format; expected 11 or 12")
        settings = dict(zip(_NAMES, reader.unpack(_SETTINGS, "the block of settings"), strict=True))
        _check_settings(reader, settings)
    else:
        settings, version = _unsigned_settings(reader), 11
    config = _config(settings | {"version": version})
    dictionary = read_dictionary(reader, config, settings["buckets"], with_pruning=signed)
    behind = settings["buckets"] if dictionary.kept is None else len(dictionary.kept)
    input_flag = signed and _flag(reader, "the input")
    if dictionary.kept is not None and not input_flag:
        raise reader.error("the dictionary is pruned, but the input is not quantised")
    rows = _read_matrix(reader, "input", len(dictionary.vocab) + behind, config.vector_size, quantised=input_flag)
    output_flag = signed and _flag(reader, "the output")
    classes = dictionary.labels if isinstance(config, FastTextClassifierConfig) else dictionary.vocab
    assert classes is not None
    outputs = _read_matrix(reader, "output", len(classes), config.vector_size, quantised=input_flag and output_flag)
    if reader.at != reader.size:
        raise reader.error(f"{reader.size - reader.at} bytes follow the model")
    return FastText(
        config,
        dictionary.vocab,
        dictionary.labels,
        tokens=dictionary.tokens,
        input=rows,
        output=outputs,
        kept_buckets=dictionary.kept,
        arguments={"version": version, **settings, "output_flag": int(output_flag)},
        label_prefix=dictionary.prefix,
    )


def _unsigned_settings(reader: Reader) -> dict[str, Any]:
    """The settings of a file of 2016, which begins with them; settings in anything else make hardly ever sense."""
    try:
        reader.rewind()
        settings = dict(zip(_NAMES, reader.unpack(_SETTINGS, "the block of settings"), strict=True))
        _check_settings(reader, settings)
    except FormatError:
        raise FormatError(
            f"{reader.path}: is not a fastText model: it does not begin with fastText's magic number"
        ) from None
    return settings


def _flag(reader: Reader, what: str) -> bool:
    (flag,) = reader.unpack(struct.Struct("<B"), f"the flag of {what}")
    if flag > 1:
        raise reader.error(f"the flag of {what} is {flag}, expected 0 or 1")
    return bool(flag)


# --- settings -------------------------------------------------------------------------------------------------------


def _check_settings(reader: Reader, settings: Mapping[str, Any]) -> None:
    limits = {
        "vector_size": (1, _MOST_DIMENSIONS),
        "window": (0, np.iinfo(np.int32).max),
        "negative": (0, np.iinfo(np.int32).max),
        "loss": (1, len(_LOSSES)),
        "model": (1, len(_MODELS)),
        "buckets": (0, np.iinfo(np.int32).max),
        "max_ngram": (np.iinfo(np.int32).min, _LONGEST_NGRAM),
        "sample": (0.0, np.finfo(np.float64).max),
    }
    if _MODELS.get(settings["model"]) == "supervised":
        limits["word_ngrams"] = (np.iinfo(np.int32).min, LONGEST_WORD_NGRAM)
    for name, (smallest, largest) in limits.items():
        if not smallest <= settings[name] <= largest:
            raise reader.error(f"the setting {name} is {settings[name]}, expected {smallest} to {largest}")


def _config(settings: Mapping[str, Any]) -> Config:
    """The configuration that the settings of a file stand for."""
    supervised = _MODELS[settings["model"]] == "supervised"
    shared = {name: settings[name] for name in ("vector_size", "negative", "buckets")} | {
        "min_ngram": max(settings["min_ngram"], 0),
        "max_ngram": 0 if supervised and settings["version"] == 11 else max(settings["max_ngram"], 0),
    }
    loss: Any = _LOSSES[settings["loss"]]
    if supervised:
        return FastTextClassifierConfig(loss=loss, word_ngrams=max(settings["word_ngrams"], 1), **shared)
    algorithm: Any = _MODELS[settings["model"]]
    more: dict[str, Any] = {"window": settings["window"], "sample": settings["sample"], "hierarchical": loss == "hs"}
    return FastTextConfig(algorithm=algorithm, **more, **shared)


def _settings(model: FastText) -> dict[str, Any]:
    """The settings in a file of this model: those it was read with, as far as they agree."""
    config = model.config
    supervised = isinstance(config, FastTextClassifierConfig)
    defaults: dict[str, Any] = {
        "version": 12,
        "window": 5,
        "epochs": 5,
        "min_count": 1 if supervised else 5,
        "negative": 5,
    }
    defaults |= {"word_ngrams": 1, "rate_updates": 100, "sample": 1e-4, "output_flag": 0}
    given: dict[str, Any] = defaults | dict(model.arguments or {})
    if all(name in given for name in _NAMES) and _config(given) == config:
        return given
    given |= {name: getattr(config, name) for name in _NAMES if hasattr(config, name)}
    given["buckets"] = used_buckets(config)  # as many as there are rows for
    loss = config.loss if isinstance(config, FastTextClassifierConfig) else "hs" if config.hierarchical else "ns"
    codes = {name: code for code, name in (*_LOSSES.items(), *_MODELS.items())}
    return given | {"version": 12, "loss": codes[loss], "model": codes[model.kind]}


# --- matrices -------------------------------------------------------------------------------------------------------


def _read_matrix(reader: Reader, what: Literal["input", "output"], rows: int, width: int, *, quantised: bool) -> Matrix:
    """Reads a matrix that has to have this shape."""
    if quantised:
        return _read_quantised(reader, what, rows, width)
    shape = reader.unpack(_SHAPE, f"the shape of the {what}")
    if shape != (rows, width):
        raise reader.error(f"the {what} is a matrix of {shape[0]} by {shape[1]}, but {rows} by {width} are expected")
    reader.require(4 * rows * width, f"the {what}")
    matrix = rows_to_fill(rows, width)
    reader.fill(matrix[:, :width], f"the {what}")
    return matrix


def _read_quantised(reader: Reader, what: str, rows: int, width: int) -> Matrix:
    from wenmai.kernels.quantise import CENTRES, QuantisedRows

    with_norms, *shape, size = reader.unpack(_QUANTISED, f"the shape of the {what}")
    if with_norms > 1 or shape != [rows, width]:
        raise reader.error(
            f"the {what} is a quantised matrix of {shape[0]} by {shape[1]}, with a flag {with_norms} for lengths; "
            f"{rows} by {width} are expected, and 0 or 1"
        )
    reader.require(size, f"the codes of the {what}")
    parts, excess = divmod(size, rows)
    if not 1 <= parts <= width or excess:
        raise reader.error(f"{size} codes do not fit {rows} rows of {width} numbers")
    codes = np.empty((rows, parts), np.uint8)
    reader.fill(codes, f"the codes of the {what}")
    part = _read_quantiser(reader, what, width, parts)
    centres = np.empty(CENTRES * width, np.float32)
    reader.fill(centres, f"the centres of the {what}")
    if not with_norms:
        return QuantisedRows(codes, centres, width, part)
    norm_codes, norm_centres = np.empty(rows, np.uint8), np.empty(CENTRES, np.float32)
    reader.fill(norm_codes, f"the lengths of the {what}")
    _read_quantiser(reader, f"lengths of the {what}", 1, 1)
    reader.fill(norm_centres, f"the centres of the lengths of the {what}")
    return QuantisedRows(codes, centres, width, part, norm_codes, norm_centres)


def _read_quantiser(reader: Reader, what: str, width: int, parts: int) -> int:
    """Reads how rows are cut into parts, which has to fit the codes, and returns the numbers in a part."""
    found = reader.unpack(_QUANTISER, f"the quantiser of the {what}")
    part = found[2]
    if part < 1 or found != _quantiser(width, part) or found[1] != parts:
        raise reader.error(
            f"the quantiser of the {what} says {found}, which does not fit {parts} parts of {width} numbers"
        )
    return int(part)


def _quantiser(width: int, part: int) -> tuple[int, int, int, int]:
    """Numbers in a row, parts, numbers in a part and in the last one."""
    parts = -(-width // part)
    return width, parts, part, width - (parts - 1) * part


# --- writing --------------------------------------------------------------------------------------------------------


def write_fasttext(path: str | Path, model: FastText) -> None:
    """Writes a model as fastText does (``.bin``; ``.ftz`` if it is quantised), whole or not at all.

    A model that was read and not changed gives the same bytes.

    Raises:
        FormatError: if a word holds a zero byte, or a number of the model is too large for the format.
        SettingError: if the model is pruned and not quantised, which the format cannot store.
    """
    path = Path(path)
    quantised = not isinstance(model.input, np.ndarray)
    if model.kept_buckets is not None and not quantised:
        raise SettingError(f"{path}: a pruned model is written quantised only; quantise it")
    settings = _settings(model)
    output_flag = not isinstance(model.output, np.ndarray) if quantised else bool(settings["output_flag"])
    try:
        with writing(path) as file:
            file.write(_HEAD.pack(MAGIC, settings["version"]) + _SETTINGS.pack(*(settings[name] for name in _NAMES)))
            write_dictionary(file, model)
            file.write(bytes([quantised]))
            _write_matrix(file, model.input, model.config.vector_size)
            file.write(bytes([output_flag]))
            _write_matrix(file, model.output, model.config.vector_size)
    except struct.error as error:
        raise FormatError(f"{path}: the model does not fit into fastText's format: {error}") from None


def _write_matrix(file: BinaryIO, matrix: Matrix, width: int) -> None:
    if isinstance(matrix, np.ndarray):
        file.write(_SHAPE.pack(len(matrix), width))
        step = max(1, _BLOCK_BYTES // (4 * width))
        for start in range(0, len(matrix), step):
            file.write(np.ascontiguousarray(matrix[start : start + step, :width], "<f4").data)
        return
    with_norms = matrix.norm_codes is not None
    file.write(_QUANTISED.pack(with_norms, len(matrix), width, matrix.codes.size) + matrix.codes.tobytes())
    file.write(_QUANTISER.pack(*_quantiser(width, matrix.part)) + matrix.centres.astype("<f4").tobytes())
    if matrix.norm_codes is not None and matrix.norm_centres is not None:
        file.write(matrix.norm_codes.tobytes())
        file.write(_QUANTISER.pack(*_quantiser(1, 1)) + matrix.norm_centres.astype("<f4").tobytes())
