"""The pair of files of published ELMo models: ``options.json`` and ``weights.hdf5``, in and out.

Source: https://github.com/allenai/bilm-tf, whose ``dump_weights`` writes them, and which AllenNLP reads. They have no
vocabulary and no softmax. Matrices are ``[in, out]``; W_0 has the rows of the input, then those of the state, and the
columns of the gates i, j, f, o. The row of the table of characters for what is no word is left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.errors import FormatError, SettingError, install_hint
from wenmai.core.folder import plain_file, read_json_object, sealed_folder, writing_json
from wenmai.core.tensors import require_finite
from wenmai.formats.format import Format, Imported, Trained, require_free
from wenmai.models.settings import ElmoConfig

if TYPE_CHECKING:
    from torch import Tensor

    from wenmai.models.elmo import Elmo

__all__ = ["FORMATS", "read_elmo", "write_elmo"]

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
_CHARACTERS = (261, 262)  # in training and after it; the files have the same table
_ROWS = 261
_WIDEST = 500  # as many characters as a word may have

Rows = npt.NDArray[np.float32]


class _Stored(NamedTuple):
    """A matrix of the file.

    Attributes:
        name: Its path in the file.
        shape: Its shape there.
        parameters: The parameters that it holds, by name in a module.
    """

    name: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]


def read_elmo(folder: str | Path) -> "Elmo":
    """Reads a published model, whose shapes are compared with the options before memory is taken.

    Args:
        folder: With one file whose name ends in ``options.json``, and one ``weights.hdf5``.

    Raises:
        FormatError: if a file is missing or damaged, does not fit the other, or has a part that ours lack.
        SettingError: if the package h5py is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FormatError(f"{folder}: expected a folder with {OPTIONS} and {WEIGHTS}")
    options, path = _only(folder, OPTIONS), _only(folder, WEIGHTS)
    config = _config(options)
    held: dict[str, Rows] = {}
    with _opened(path) as file:
        for one in _stored(config):
            held[one.name] = _values(file, path, one)
    import torch

    from wenmai.models.elmo import Elmo

    with torch.random.fork_rng(devices=[]):
        module = Elmo(config, vocab_size=None)
    with torch.no_grad():
        for one in _stored(config):
            for name, values in _parameters(one, held[one.name]).items():
                module.get_parameter(name).copy_(torch.from_numpy(values))
        module.words.embedding.weight[0] = 0.0
        if _same_width(config):
            torch.nn.init.eye_(module.words.projection.weight)
            torch.nn.init.zeros_(module.words.projection.bias)
    return module.eval()


def write_elmo(folder: str | Path, module: "Elmo") -> None:
    """Writes ``options.json`` and ``weights.hdf5`` without the softmax, both whole or none of them.

    Raises:
        SettingError: if the files cannot hold the model, or the package h5py is not installed.
        RunError: if the folder is not empty.
    """
    h5py, config = _h5py(), module.config
    folder = require_free(folder)
    projection = module.words.projection
    if _same_width(config) and not _is_identity(projection.weight, projection.bias):
        raise SettingError(
            f"the files have no projection where the convolutions are as many as hidden_size={config.hidden_size}; "
            "this model cannot be written"
        )
    named = dict(module.named_parameters())
    with sealed_folder(folder, replace=False) as temporary:
        with open(temporary / WEIGHTS, "wb+") as output, h5py.File(output, "w") as file:
            for one in _stored(config):
                parts = [named[name].detach().cpu().float().numpy() for name in one.parameters]
                file.create_dataset(one.name, data=_matrix(one, parts).reshape(one.shape).astype(np.float32))
        writing_json(temporary / OPTIONS, _options(config))


# --- options ----------------------------------------------------------------------------------------------------------


def _options(config: ElmoConfig) -> dict[str, Any]:
    filters = [[width, number] for width, number in enumerate(config.filters, start=1) if number]
    return {
        "lstm": {
            "use_skip_connections": config.residual,
            "projection_dim": config.hidden_size,
            "cell_clip": config.cell_clip,
            "proj_clip": config.state_clip,
            "dim": config.cell_size,
            "n_layers": config.num_layers,
        },
        "char_cnn": {
            "activation": config.activation,
            "filters": filters,
            "n_highway": config.highway_layers,
            "embedding": {"dim": config.character_size},
            "n_characters": _CHARACTERS[1],
            "max_characters_per_token": config.max_characters,
        },
    }


def _config(path: Path) -> ElmoConfig:
    """Reads the options.

    Raises:
        FormatError: if they are damaged, or ask for what ours cannot do.
    """
    content = read_json_object(path)
    try:
        lstm, cnn = content["lstm"], content["char_cnn"]
        settings = {
            "character_size": cnn["embedding"]["dim"],
            "filters": _filters(cnn["filters"], cnn["max_characters_per_token"]),
            "activation": cnn["activation"],
            "highway_layers": cnn.get("n_highway") or 0,
            "max_characters": cnn["max_characters_per_token"],
            "hidden_size": lstm["projection_dim"],
            "cell_size": lstm["dim"],
            "num_layers": lstm["n_layers"],
            "residual": lstm.get("use_skip_connections") or False,
            "cell_clip": lstm.get("cell_clip"),
            "state_clip": lstm.get("proj_clip"),
        }
        characters = cnn["n_characters"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: is not the options of an ELMo: {type(error).__name__} {error}") from None
    if characters not in _CHARACTERS:
        raise FormatError(f"{path}: n_characters={characters!r}; expected 262, or 261 as in training")
    try:
        config: ElmoConfig = Recipe.build("elmo", {"model": ElmoConfig}, settings).sections["model"]
        return config
    except SettingError as error:
        raise FormatError(f"{path}: is not the options of an ELMo: {error}") from None


def _filters(listed: list[list[int]], most: int) -> list[int]:
    """Returns how many convolutions there are of width 1, 2 and so on, from pairs of width and number."""
    pairs = [(width, number) for width, number in listed]
    widths = [width for width, _ in pairs]
    if not widths or widths != sorted({*widths}) or not 0 < widths[0] <= widths[-1] <= min(most, _WIDEST):
        raise ValueError(f"filters of the widths {widths[:8]}, expected rising ones up to {min(most, _WIDEST)}")
    found = [0] * widths[-1]
    for width, number in pairs:
        found[width - 1] = number
    return found


# --- weights ----------------------------------------------------------------------------------------------------------


def _same_width(config: ElmoConfig) -> bool:
    return sum(config.filters) == config.hidden_size


def _is_identity(weight: "Tensor", bias: "Tensor") -> bool:
    import torch

    return torch.equal(weight, torch.eye(len(weight)).to(weight)) and not bias.any()


def _stored(config: ElmoConfig) -> Iterator[_Stored]:
    """Yields what the file holds, one after the other, as options may claim any number of layers."""
    convolved, size, cell = sum(config.filters), config.hidden_size, config.cell_size
    yield _Stored("char_embed", (_ROWS, config.character_size), ("words.embedding.weight",))
    filters = [(width, number) for width, number in enumerate(config.filters, start=1) if number]
    for place, (width, number) in enumerate(filters):
        name = f"words.convolutions.{place}"
        shape = (1, width, config.character_size, number)
        yield _Stored(f"CNN/W_cnn_{place}", shape, (f"{name}.weight",))
        yield _Stored(f"CNN/b_cnn_{place}", (number,), (f"{name}.bias",))
    for layer in range(config.highway_layers):
        for kind in ("carry", "transform"):
            name = f"words.highways.{layer}.{kind}"
            yield _Stored(f"CNN_high_{layer}/W_{kind}", (convolved, convolved), (f"{name}.weight",))
            yield _Stored(f"CNN_high_{layer}/b_{kind}", (convolved,), (f"{name}.bias",))
    if not _same_width(config):
        yield _Stored("CNN_proj/W_proj", (convolved, size), ("words.projection.weight",))
        yield _Stored("CNN_proj/b_proj", (size,), ("words.projection.bias",))
    for direction, stack in enumerate(("forwards", "backwards")):
        for layer in range(config.num_layers):
            cell_path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            name = f"{stack}.layers.{layer}"
            both = (f"{name}.input_weight", f"{name}.recurrent_weight")
            yield _Stored(f"{cell_path}/W_0", (2 * size, 4 * cell), both)
            yield _Stored(f"{cell_path}/B", (4 * cell,), (f"{name}.bias",))
            yield _Stored(f"{cell_path}/W_P_0", (cell, size), (f"{name}.projection",))


def _parameters(one: _Stored, values: Rows) -> dict[str, Rows]:
    """Returns the parameters that a matrix of the file holds."""
    if one.name == "char_embed":
        parts = [np.concatenate([np.zeros_like(values[:1]), values])]
    elif values.ndim == 4:
        parts = [values[0].transpose(2, 1, 0)]
    else:
        parts = [part.T for part in np.split(values, len(one.parameters))]
    return {name: np.ascontiguousarray(part) for name, part in zip(one.parameters, parts, strict=True)}


def _matrix(one: _Stored, parts: list[Rows]) -> Rows:
    """The reverse."""
    if one.name == "char_embed":
        return parts[0][1:]
    if parts[0].ndim == 3:
        return parts[0].transpose(2, 1, 0)[None]
    return np.concatenate([part.T for part in parts])


def _only(folder: Path, ending: str) -> Path:
    """Returns the file whose name ends so.

    Raises:
        FormatError: if there is none, or several.
    """
    found = sorted(path for path in folder.iterdir() if path.name.endswith(ending) and not path.name.startswith("."))
    if len(found) != 1:
        raise FormatError(f"{folder}: expected one file whose name ends in {ending}, found {len(found)}")
    return found[0]


def _h5py() -> Any:  # noqa: ANN401  a module without types
    try:
        return import_module("h5py")
    except ImportError as error:
        raise SettingError(
            f"this format needs h5py, which cannot be imported ({error}); {install_hint('elmo')}"
        ) from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Opens an HDF5 file.

    Raises:
        FormatError: if it is none, or cut or damaged where it is read.
    """
    h5py = _h5py()
    try:
        with open(plain_file(path), "rb") as raw, h5py.File(raw, "r") as file:
            yield file
    except FormatError:
        raise
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"{path}: is not a whole HDF5 file ({reason})") from None


def _values(file: Any, path: Path, one: _Stored) -> Rows:  # noqa: ANN401  an h5py.File
    """Reads a matrix, none of which may lie in another file or behind a link.

    Raises:
        FormatError: if it is missing, or is not what the options say.
    """
    h5py = _h5py()
    place = file
    for name in one.name.split("/"):
        if not isinstance(place, h5py.Group) or name not in place:
            raise FormatError(f"{path}: {one.name} is missing")
        if not isinstance(place.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"{path}: {one.name} is a link to another place; expected the numbers themselves")
        place = place[name]
    if not isinstance(place, h5py.Dataset):
        raise FormatError(f"{path}: {one.name} is missing")
    if place.shape != one.shape:
        raise FormatError(f"{path}: {one.name} has the shape {place.shape}, and the options say {one.shape}")
    if place.dtype.kind != "f" or place.dtype.itemsize not in (2, 4, 8):
        raise FormatError(f"{path}: {one.name} has the type {place.dtype}, expected floating-point numbers")
    if place.external or place.is_virtual:
        raise FormatError(f"{path}: {one.name} is a link to another place; expected the numbers themselves")
    if not place.nbytes <= place.id.get_storage_size() <= path.stat().st_size:
        raise FormatError(f"{path}: {one.name} is compressed or not there; expected plain numbers")
    values = np.asarray(place[()], np.float32)
    require_finite(path, one.name, values)
    return values


# --- the format -------------------------------------------------------------------------------------------------------


def _imported(folder: Path) -> Imported:
    module = read_elmo(folder)
    settings = {f"model.{name}": value for name, value in asdict(module.config).items()}
    return Imported(system="elmo", model=module, vocabulary=0, settings=settings)


def _exported(folder: Path, run: Trained) -> None:
    write_elmo(folder, run.model.module)
    if run.model.module.output is not None:
        run.note("the files have no softmax and no vocabulary: what was written gives vectors, and predicts no words")


FORMATS = (
    Format(
        name="elmo",
        summary="the options.json and weights.hdf5 of published ELMo models, in one folder; needs the extra elmo",
        models=("wenmai.models.elmo:Elmo",),
        write=_exported,
        read=_imported,
    ),
)
