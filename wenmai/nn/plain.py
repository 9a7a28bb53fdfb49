"""When one compiled function (:mod:`wenmai.nn.stack`) may replace the modules in a step for a few rows."""

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor, is_autocast_enabled, is_grad_enabled, nn
from torch import compiler as torch_compiler

from wenmai.nn.attention import watching
from wenmai.nn.cache import DecoderState
from wenmai.nn.embeddings import Positions
from wenmai.nn.held import usable
from wenmai.nn.language import CachedState
from wenmai.nn.linear import Linear
from wenmai.nn.multihead import MultiHead
from wenmai.nn.names import ActivationName
from wenmai.nn.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    PostNorm,
    PreNorm,
)

__all__ = ["FEW", "WORTH", "Shortcut"]

_StateT = TypeVar("_StateT", CachedState, DecoderState)

FEW = 32  # rows: up to here a compiled step was measured to be faster
WORTH = 1000  # steps with few rows after which compiling pays: loading compiled code takes as long

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


class Shortcut:
    """The compiled steps of one model: made once they pay, and taken where they are possible."""

    def __init__(self) -> None:
        self._steps = 0  # taken with few rows

    def begin(
        self,
        rows: int,
        layers: Encoder | Decoder,
        embedding: Tensor,
        positions: Positions,
        *,
        output: Tensor | None = None,
        capacity: int,
        num_heads: int,
        activation: ActivationName,
        scale: float = 1.0,
        window: int | None = None,
    ) -> Callable[[Tensor, CachedState | DecoderState], Tensor] | None:
        """Returns a function that takes the steps of a new state.

        Args:
            rows: Of the state.
            layers: A decoder, or an encoder that is used with a causal mask.
            embedding: (V, M).
            positions: Added to the embeddings.
            output: (V, M), the output matrix; none: the embedding.
            capacity: Positions that the state can hold.
            num_heads: H.
            activation: Of the feed-forward networks.
            scale: Embeddings are multiplied by it.
            window: Earlier positions that self-attention of every layer sees; none: all.

        Returns:
            From tokens (N,) and the state to logits (N, V); none where it would not pay yet, or the compiled function
            does not support the layers.
        """
        output = embedding if output is None else output
        if rows > FEW or self._steps < WORTH or not _known(layers, (embedding, output), num_heads):
            return None
        from wenmai.nn.stack import Block, Stack, SubLayer  # numba takes time to import

        found = [layer for layer in layers.layers if isinstance(layer, EncoderLayer | DecoderLayer)]
        residual, final = found[0].ffn_residual, layers.norm
        blocks = []
        for layer in found:
            attention, *over_memory, ffn = (SubLayer(*tensors) for tensors in layer.parts())
            blocks.append(Block(attention, over_memory[0] if over_memory else None, ffn))
        stack = Stack(
            blocks,
            positions=positions(0, capacity),
            num_heads=num_heads,
            embedding=embedding,
            scale=scale,
            output=output,
            final_norm=(final.weight, final.bias) if isinstance(final, nn.LayerNorm) else None,
            pre_norm=isinstance(residual, PreNorm),
            activation=activation,
            epsilon=residual.norm.eps,
            window=window,
        )

        def step(tokens: Tensor, state: CachedState | DecoderState) -> Tensor:
            if isinstance(state, CachedState):
                return stack.step(tokens, [(cache, None) for cache in state.caches])
            caches = [(cache.own, cache.memory.buffer) for cache in state.caches]
            return stack.step(tokens, caches, mask=state.memory_mask)

        return step

    def step(self, tokens: Tensor, state: _StateT) -> Tensor | None:
        """Takes a step and returns logits (N, V); none where the model has to take it with its modules."""
        if tokens.shape[0] > FEW:
            return None
        self._steps += 1
        return state.compiled(tokens, state) if state.compiled is not None and _undisturbed() else None


def _known(layers: Encoder | Decoder, tables: tuple[Tensor, Tensor], num_heads: int) -> bool:
    first = layers.layers[0]
    assert isinstance(first, EncoderLayer | DecoderLayer)
    tensors = (*tables, *layers.parameters())
    return (
        not layers.training
        and all(
            type(part) in _PLAIN and not part._forward_hooks and not part._forward_pre_hooks
            for part in layers.modules()
        )
        and all(part.relative is None for part in layers.modules() if isinstance(part, MultiHead))
        and all(map(usable, tensors))
        and tables[0].shape[1] % (16 * num_heads) == 0
        and first.ffn.inner.weight.shape[0] % 16 == 0
        and tables[0].shape[0] >= 4
    )


def _undisturbed() -> bool:
    """Whether no gradients, attention weights, other precision or other compilation are requested."""
    return not (is_grad_enabled() or is_autocast_enabled("cpu") or torch_compiler.is_compiling() or watching())
