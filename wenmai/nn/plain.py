"""When a step for a few rows may be taken by one compiled function (:mod:`wenmai.nn.stack`) instead of modules."""

from torch import Tensor, float32, is_autocast_enabled, is_grad_enabled, nn
from torch import compiler as torch_compiler

from wenmai.nn.attention import watching
from wenmai.nn.linear import Linear
from wenmai.nn.multihead import MultiHead
from wenmai.nn.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, PostNorm, PreNorm

__all__ = ["FEW", "WORTH", "can_be_compiled", "undisturbed"]

FEW = 32  # rows: up to here a compiled step was measured to be faster
WORTH = 1000  # steps with few rows, after which a model is in earnest use: reading compiled code takes as long

_PLAIN = {
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Linear,
    MultiHead,
    PostNorm,
    PreNorm,
    nn.Identity,
    nn.LayerNorm,
    nn.ModuleList,
}


def can_be_compiled(layers: nn.Module, embedding: Tensor, *, num_heads: int, ffn_size: int) -> bool:
    """Whether a stack has only what the compiled function knows, so that it leaves nothing out.

    Args:
        layers: A decoder, or an encoder with a causal mask; without hooks.
        embedding: (V, M), also the output matrix.
        num_heads: H.
        ffn_size: F.
    """
    tensors = (embedding, *layers.parameters())
    return (
        not layers.training
        and all(
            type(part) in _PLAIN and not part._forward_hooks and not part._forward_pre_hooks
            for part in layers.modules()
        )
        and all(
            tensor.dtype is float32 and tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors
        )
        and embedding.shape[1] % (16 * num_heads) == 0
        and ffn_size % 16 == 0
        and embedding.shape[0] >= 4
    )


def undisturbed() -> bool:
    """Whether nobody wants gradients, attention weights, another precision, or to compile it another way."""
    return not (is_grad_enabled() or is_autocast_enabled("cpu") or torch_compiler.is_compiling() or watching())
