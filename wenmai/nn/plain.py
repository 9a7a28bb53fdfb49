"""When one compiled function may replace the modules for a few rows.

They are a step of a decoder (:mod:`wenmai.nn.stack`), or a short text that an encoder reads
(:mod:`wenmai.nn.encoder_stack`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

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
from wenmai.nn.unpadded import undisturbed

if TYPE_CHECKING:
    from wenmai.nn.encoder_stack import EncoderStack

__all__ = ["FEW", "FEW_TOKENS", "WORTH", "WORTH_TEXTS", "EncoderShortcut", "Shortcut"]

_StateT = TypeVar("_StateT", CachedState, DecoderState)

FEW = 32  # rows: up to here a compiled step was measured to be faster
WORTH = 1000  # steps with few rows after which compiling pays: loading compiled code takes as long
FEW_TOKENS = 32  # of a text: up to here an encoder was measured to be faster
WORTH_TEXTS = 200  # likewise, short texts of an encoder

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
        if rows > FEW or self._steps < WORTH or not _known(layers, num_heads, embedding, output):
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
        return state.compiled(tokens, state) if state.compiled is not None and undisturbed() else None


class EncoderShortcut:
    """The compiled encoder of one model: made once it pays, and taken where it is possible."""

    def __init__(self) -> None:
        self._texts = 0  # short ones
        self._taken: tuple[_Picture, EncoderStack] | None = None

    def __reduce__(self) -> tuple[type["EncoderShortcut"], tuple[()]]:
        """A copy of the model begins anew."""
        return EncoderShortcut, ()

    def states(self, layers: Encoder, hidden: Tensor, *, num_heads: int, activation: ActivationName) -> Tensor | None:
        """Returns the states of all layers, (L, T, M), without the norm at their end; none: the modules must compute.

        Args:
            layers: The encoder; all tokens see each other.
            hidden: (1, T, M), the embedded text.
            num_heads: H.
            activation: Of the feed-forward networks.
        """
        if hidden.shape[0] != 1 or hidden.shape[1] > FEW_TOKENS or layers.training or not undisturbed():
            return None
        self._texts += 1
        if self._texts <= WORTH_TEXTS or not usable(hidden):
            return None
        taken = self._taken  # once: another thread may forget it, or make another, at any moment
        if taken is None or not taken[0].holds():
            self._taken = None
            windows = any(part.window is not None for part in layers.modules() if isinstance(part, MultiHead))
            if windows or not _known(layers, num_heads):
                self._texts = 0  # looks again after as many
                return None
            taken = self._taken = _Picture(layers), _encoder_stack(layers, num_heads, activation)
        return taken[1].states(hidden[0])


def _encoder_stack(layers: Encoder, num_heads: int, activation: ActivationName) -> "EncoderStack":
    from wenmai.nn.encoder_stack import EncoderStack  # numba takes time to import
    from wenmai.nn.stack import SubLayer

    found = [layer for layer in layers.layers if isinstance(layer, EncoderLayer)]
    residual = found[0].ffn_residual
    blocks = []
    for layer in found:
        attention, ffn = (SubLayer(*tensors) for tensors in layer.parts())
        blocks.append((attention, ffn))
    return EncoderStack(
        blocks,
        num_heads=num_heads,
        pre_norm=isinstance(residual, PreNorm),
        activation=activation,
        epsilon=residual.norm.eps,
    )


class _Picture:
    """What some modules consisted of: to see that nobody has changed them since.

    Args:
        layers: The modules.
    """

    def __init__(self, layers: nn.Module) -> None:
        self._hooks = [hooks for part in layers.modules() for hooks in (part._forward_hooks, part._forward_pre_hooks)]
        self._parts = [
            (part._modules, name, child) for part in layers.modules() for name, child in part.named_children()
        ]
        self._places: list[tuple[dict[str, Any], str]] = [
            (part._parameters, name) for part in layers.modules() for name, _ in part.named_parameters(recurse=False)
        ]
        self._found = [_state(values[name]) for values, name in self._places]

    def holds(self) -> bool:
        """Whether they are the same modules with the same parameters, at the same addresses, and nobody watches."""
        return (
            not any(self._hooks)
            and all(children.get(name) is child for children, name, child in self._parts)
            and [_state(values.get(name)) for values, name in self._places] == self._found
        )


def _state(parameter: Any) -> tuple[int, int]:  # noqa: ANN401  somebody may have put anything there
    if not isinstance(parameter, Tensor):
        return 0, 0
    return parameter.data_ptr(), 0 if parameter.is_inference() else parameter._version


def _known(layers: Encoder | Decoder, num_heads: int, *tables: Tensor) -> bool:
    first = layers.layers[0]
    assert isinstance(first, EncoderLayer | DecoderLayer)
    ffn, hidden = first.ffn.inner.weight.shape
    return (
        not layers.training
        and all(
            type(part) in _PLAIN and not part._forward_hooks and not part._forward_pre_hooks
            for part in layers.modules()
        )
        and all(part.relative is None for part in layers.modules() if isinstance(part, MultiHead))
        and all(map(usable, (*tables, *layers.parameters())))
        and hidden % (16 * num_heads) == 0
        and ffn % 16 == 0
        and all(len(table) >= 4 for table in tables)
    )
