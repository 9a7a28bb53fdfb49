"""ONNX files, which ONNX Runtime and other engines run without Python or torch.

A GPT is one graph with caches. A translator is two: its encoder, and of a Transformer its decoder with caches.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Doc

from wenmai.core.errors import SettingError
from wenmai.core.folder import writing
from wenmai.formats.format import Format, Trained

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FORMATS", "OnnxConfig", "Part", "write_onnx"]

Part = Literal["encoder", "decoder"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxConfig:
    """What is written."""

    part: Annotated[Part, Doc("of a translator: its encoder or its decoder")] = "encoder"


def write_onnx(path: str | Path, model: "nn.Module", *, part: Part | None = None) -> None:
    """Writes a GPT, or a part of a translator, as one ONNX file, whole or not at all.

    Args:
        path: The file.
        model: A :class:`wenmai.models.gpt.Gpt`, :class:`wenmai.models.transformer.Transformer` or
            :class:`wenmai.models.seq2seq.Seq2Seq`.
        part: Of a translator; none: the encoder.

    Raises:
        SettingError: if the model is of another kind, has no such part, or is larger than such a file may be (2 GiB),
            or the package onnx is not installed.
    """
    from wenmai.formats.onnx import decoders, encoders
    from wenmai.formats.onnx.graph import Graph
    from wenmai.models.gpt import Gpt
    from wenmai.models.seq2seq import Seq2Seq
    from wenmai.models.transformer import Transformer

    properties: dict[str, object] = {}
    if isinstance(model, Gpt):
        if part is not None:
            raise SettingError(f"a gpt is one ONNX file, without parts; leave out part={part}")
        graph = Graph()
        title, outputs, properties = "gpt", decoders.gpt(graph, model), {"bos_token_id": model.bos_id}
    elif isinstance(model, Transformer):
        graph = Graph()
        title = part or "encoder"
        build = decoders.transformer_decoder if title == "decoder" else encoders.transformer_encoder
        outputs = build(graph, model)
    elif isinstance(model, Seq2Seq):
        if part == "decoder":
            raise SettingError("there is no ONNX form of the decoder of seq2seq; part=encoder has one")
        graph = Graph()
        title, outputs = "encoder", encoders.recurrent_encoder(graph, model)
    else:
        raise SettingError(
            f"there is no ONNX form of {type(model).__name__}; gpt, transformer and the encoder of seq2seq have one"
        )
    content = graph.serialised(title, outputs, {"max_length": model.config.max_length, **properties})
    with writing(path) as file:
        file.write(content)


def _export(path: Path, run: Trained) -> None:
    write_onnx(path, run.model.module, part=None if run.settings is None else run.settings.part)


FORMATS = (
    Format(
        name="onnx",
        summary="a GPT, or the encoder or decoder of a translator, as one ONNX file for ONNX Runtime and other engines",
        models=(
            "wenmai.models.gpt:Gpt",
            "wenmai.models.seq2seq:Seq2Seq",
            "wenmai.models.transformer:Transformer",
        ),
        write=_export,
        settings=OnnxConfig,
    ),
)
