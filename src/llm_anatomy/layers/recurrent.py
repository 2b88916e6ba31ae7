r"""Recurrent networks: a hidden state is updated at each token.

Shapes: ``batch``, ``tokens``, ``d_input`` (width of a token), ``d_hidden`` (width of the state), ``gates``
(``d_hidden`` times the number of gates of the cell). A state is a tuple of tensors with the hidden state h first:
``(h,)`` for Elman's network and the GRU, ``(h, c)`` for the LSTM. Masks are boolean, True = a token, False = padding.

Parameters have PyTorch's names and order of gates, so that weights can be exchanged with PyTorch unchanged. PyTorch has
two biases, one with the input and one with the state; b in the formulas is their sum.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.shapes import Bool, Float, Tensor

State = tuple[Float[Tensor, "batch d_hidden"], ...]
LayerStates = tuple[Float[Tensor, "n_layers batch d_hidden"], ...]


class Cell(nn.Module):
    """One step of a recurrent network, from a token and a state to the next state.

    A subclass sets the number of its gates, the number of tensors of its state and the PyTorch kernel that computes the
    same, and implements ``step``.

    Args:
        d_input: width of a token.
        d_hidden: width of the state.

    Raises:
        ValueError: for sizes below one.

    Source: Goodfellow et al. (2016), section 10.2; UCL-14.

    >>> (h,) = ElmanCell(3, 4)(torch.zeros(2, 3))
    >>> tuple(h.shape)
    (2, 4)
    """

    n_gates = 1
    n_states = 1
    kernel: Callable

    def __init__(self, d_input: int, d_hidden: int):
        super().__init__()
        _check_at_least_one(d_input=d_input, d_hidden=d_hidden)
        self.d_input, self.d_hidden = d_input, d_hidden
        n_rows = self.n_gates * d_hidden
        self.weight_ih = nn.Parameter(torch.empty(n_rows, d_input))
        self.weight_hh = nn.Parameter(torch.empty(n_rows, d_hidden))
        self.bias_ih = nn.Parameter(torch.empty(n_rows))
        self.bias_hh = nn.Parameter(torch.empty(n_rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(d_hidden**-0.5), d_hidden**-0.5)

    def initial_state(self, x: Float[Tensor, "batch *tokens d_input"]) -> State:
        """Make a state of zeros for each sequence of ``x``."""
        return (x.new_zeros(x.shape[0], self.d_hidden),) * self.n_states

    def project_input(self, x: Float[Tensor, "batch *tokens d_input"]) -> Float[Tensor, "batch *tokens gates"]:
        """Compute the part that does not depend on the state, in one product for all tokens."""
        # U x + b_ih
        return F.linear(x, self.weight_ih, self.bias_ih)

    def project_state(self, h: Float[Tensor, "batch d_hidden"]) -> Float[Tensor, "batch gates"]:
        """Compute the part that depends on the state."""
        # W h + b_hh
        return F.linear(h, self.weight_hh, self.bias_hh)

    def step(self, projected: Float[Tensor, "batch gates"], state: State) -> State:
        """Compute the next state from ``project_input(x)`` and the state."""
        raise NotImplementedError(f"{type(self).__name__} must implement step")

    def forward(self, x: Float[Tensor, "batch d_input"], state: State | None = None) -> State:
        """Compute the state after token ``x`` from the state before it, which is zero by default."""
        return self.step(self.project_input(x), self.initial_state(x) if state is None else state)


class ElmanCell(Cell):
    r"""Cell of the simple recurrent network, with one tanh and no gates.

    .. math:: h^{(t+1)} = \tanh(W h^{(t)} + U x^{(t+1)} + b)

    Args:
        d_input, d_hidden: widths of a token and of the state.

    Source: Elman (1990); Mikolov et al. (2010), equation 2 with tanh; UCL-14.

    >>> cell = ElmanCell(1, 1)
    >>> _ = [nn.init.constant_(p, v) for p, v in zip(cell.parameters(), (2.0, 0.5, 0.25, 0.25))]
    >>> (h,) = cell(torch.tensor([[0.25]]), (torch.tensor([[1.0]]),))
    >>> h.item() == torch.tensor(1.5).tanh().item()
    True
    """

    kernel = staticmethod(torch.rnn_tanh)

    def step(self, projected: Float[Tensor, "batch gates"], state: State) -> State:
        (h,) = state
        # h' = tanh(W h + U x + b)
        return (torch.tanh(projected + self.project_state(h)),)


class LSTMCell(Cell):
    r"""Cell of the long short-term memory, whose second state c is updated by addition, so that gradients survive.

    .. math::
        i, f, o &= \sigma(U_{i,f,o}\, x + W_{i,f,o}\, h + b_{i,f,o}), \quad g = \tanh(U_g x + W_g h + b_g) \\
        c' &= f \odot c + i \odot g, \quad h' = o \odot \tanh(c')

    The gates are stored in the order i, f, g, o: input, forget, candidate, output.

    Args:
        d_input, d_hidden: widths of a token and of the state.

    Source: Hochreiter and Schmidhuber (1997), with the forget gate of Gers et al. (2000); UCL-15.

    >>> h, c = LSTMCell(3, 4)(torch.zeros(2, 3))
    >>> tuple(h.shape), tuple(c.shape)
    ((2, 4), (2, 4))
    """

    n_gates = 4
    n_states = 2
    kernel = staticmethod(torch.lstm)

    def step(self, projected: Float[Tensor, "batch gates"], state: State) -> State:
        h, c = state
        i, f, g, o = (projected + self.project_state(h)).chunk(4, -1)  # (batch, d_hidden) each
        # c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        # h' = σ(o) ⊙ tanh(c')
        return o.sigmoid() * c.tanh(), c


class GRUCell(Cell):
    r"""Cell of the gated recurrent unit, which interpolates between the old state and a candidate.

    .. math::
        r, z &= \sigma(U_{r,z}\, x + W_{r,z}\, h + b_{r,z}), \quad
        n = \tanh(U_n x + b_n + r \odot (W_n h + b_n')) \\
        h' &= (1 - z) \odot n + z \odot h

    The gates are stored in the order r, z, n: reset, update, candidate. The paper resets the state before the product,
    :math:`W_n (r \odot h)`. PyTorch and this cell reset it after the product, so that one product serves all gates.

    Args:
        d_input, d_hidden: widths of a token and of the state.

    Source: Cho et al. (2014), section 2.3, with the reset after the product; UCL-15.

    >>> (h,) = GRUCell(3, 4)(torch.zeros(2, 3))
    >>> tuple(h.shape)
    (2, 4)
    """

    n_gates = 3
    kernel = staticmethod(torch.gru)

    def step(self, projected: Float[Tensor, "batch gates"], state: State) -> State:
        (h,) = state
        r_x, z_x, n_x = projected.chunk(3, -1)  # (batch, d_hidden) each
        r_h, z_h, n_h = self.project_state(h).chunk(3, -1)
        # r, z = σ(U x + W h)
        r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
        # n = tanh(U_n x + r ⊙ W_n h)
        n = torch.tanh(n_x + r * n_h)
        # h' = (1 - z) ⊙ n + z ⊙ h
        return (n + z * (h - n),)


class Recurrent(nn.Module):
    r"""Recurrent network of several layers, each of which reads the hidden states of the layer below.

    .. math:: h_t^{(l)} = \mathrm{cell}_l(h_t^{(l-1)}, h_{t-1}^{(l)}), \quad h_t^{(0)} = x_t

    At padding, the state does not change and the output is zero. The final state of each sequence is therefore the
    state after its own last token, wherever the padding is.

    Args:
        cell: class of the cells: :class:`ElmanCell`, :class:`LSTMCell` or :class:`GRUCell`.
        d_input: width of a token.
        d_hidden: width of the state, and of the output.
        n_layers: number of layers.
        fused: whether PyTorch's kernel replaces the explicit steps; parameters and results are the same.

    Raises:
        ValueError: for sizes below one.

    Source: Goodfellow et al. (2016), section 10.2 and figure 10.3; UCL-14, UCL-15.

    >>> lstm = Recurrent(LSTMCell, d_input=3, d_hidden=4, n_layers=2)
    >>> output, (h, c) = lstm(torch.randn(2, 5, 3))
    >>> tuple(output.shape), tuple(h.shape), torch.equal(output[:, -1], h[-1])
    ((2, 5, 4), (2, 2, 4), True)
    """

    def __init__(self, cell: type[Cell], d_input: int, d_hidden: int, n_layers: int = 1, *, fused: bool = False):
        super().__init__()
        _check_at_least_one(n_layers=n_layers)
        self.fused = fused
        cells = nn.ModuleList(cell(d_hidden if i else d_input, d_hidden) for i in range(n_layers))
        self.cells = cast("Sequence[Cell]", cells)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_input"],
        state: LayerStates | None = None,
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_hidden"], LayerStates]:
        """Run the network over ``x`` from left to right.

        Args:
            x: the tokens, at least one.
            state: the state of all layers before the first token, zeros by default.
            mask: True = a token, False = padding.

        Returns:
            The hidden states of the last layer, and the state of all layers after the last token.

        Raises:
            ValueError: if shapes do not fit.
            TypeError: if the mask is not boolean.
        """
        if state is None:
            zeros = x.new_zeros(len(self.cells), x.shape[0], self.cells[0].d_hidden)
            state = (zeros,) * self.cells[0].n_states
        self._check_shapes(x, state, mask)
        return (self._with_kernel if self.fused else self._with_cells)(x, state, mask)

    def _with_cells(self, x: Tensor, state: LayerStates, mask: Tensor | None) -> tuple[Tensor, LayerStates]:
        finals = []
        for cell, *parts in zip(self.cells, *state, strict=True):
            layer_state, outputs = tuple(parts), []
            for t, projected in enumerate(cell.project_input(x).unbind(1)):
                new = cell.step(projected, layer_state)
                if mask is not None:
                    new = tuple(torch.where(mask[:, t, None], *pair) for pair in zip(new, layer_state, strict=True))
                layer_state = new
                outputs.append(new[0])
            x = torch.stack(outputs, 1)  # (batch, tokens, d_hidden)
            finals.append(layer_state)
        output = x if mask is None else x.masked_fill(~mask[..., None], 0)
        return output, tuple(torch.stack(part) for part in zip(*finals, strict=True))

    def _with_kernel(self, x: Tensor, state: LayerStates, mask: Tensor | None) -> tuple[Tensor, LayerStates]:
        kernel, n_states, n_layers = self.cells[0].kernel, self.cells[0].n_states, len(self.cells)
        weights = [p for cell in self.cells for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)]
        options = True, n_layers, 0.0, self.training, False  # biases, layers, dropout, training, bidirectional
        if mask is None:
            output, *after = kernel(x, state if n_states > 1 else state[0], weights, *options, True)
            return output, tuple(after)
        # tokens first, packed without padding; a row of padding alone keeps one token, whose result is dropped below
        order, lengths = mask.int().argsort(dim=1, descending=True, stable=True), mask.sum(1)
        ordered = x.gather(1, order[..., None].expand_as(x))
        packed = pack_padded_sequence(ordered, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        before = tuple(part[:, packed.sorted_indices] for part in state)
        before = before if n_states > 1 else before[0]
        data, *after = kernel(packed.data, packed.batch_sizes, before, weights, *options)
        output, _ = pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=x.shape[1])
        output = output.gather(1, order.argsort(1)[..., None].expand_as(output)).masked_fill(~mask[..., None], 0)
        after = (part[:, packed.unsorted_indices] for part in after)
        return output, tuple(torch.where(lengths[:, None] > 0, *pair) for pair in zip(after, state, strict=True))

    def _check_shapes(self, x: Tensor, state: LayerStates, mask: Tensor | None) -> None:
        cell = self.cells[0]
        if x.ndim != 3 or x.shape[1] < 1 or x.shape[2] != cell.d_input:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be (batch, tokens >= 1, d_input={cell.d_input})")
        shapes, expected = [tuple(part.shape) for part in state], (len(self.cells), x.shape[0], cell.d_hidden)
        if shapes != [expected] * cell.n_states:
            raise ValueError(f"state has shapes {shapes}; it must hold {cell.n_states} of shape {expected}")
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(f"mask has dtype {mask.dtype}; it must be torch.bool, True = a token")
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(f"mask has shape {tuple(mask.shape)}; it must be (batch, tokens) = {tuple(x.shape[:2])}")


def truncated_backpropagation(
    model: Callable,
    inputs: Tensor,
    chunk_size: int,
    state: tuple[Tensor, ...] | None = None,
    mask: Bool[Tensor, "batch tokens"] | None = None,
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    r"""Run a model over a long sequence in chunks that pass on the state, but not its gradient.

    .. math:: \frac{\partial L_t}{\partial h_s} \text{ is taken as } 0 \text{ for } s \text{ in a chunk before that of }
        t

    Call ``backward`` on the loss of each chunk before the next iteration, so that memory holds one chunk at a time.

    Args:
        model: called as ``model(chunk, state)``, or as ``model(chunk, state, mask)`` if a mask is given; returns output
            and state, as :class:`Recurrent` does.
        inputs: the sequence, which is split along its second axis, tokens.
        chunk_size: number of tokens in a chunk, at least 1; the last chunk may be shorter.
        state: the state before the first token.
        mask: True = a token, False = padding; split like the inputs.

    Returns:
        An iterator over the output and the detached state of each chunk.

    Raises:
        ValueError: for a chunk size below 1, or a mask of another length.

    Source: Williams and Peng (1990); Mikolov et al. (2010), section 2; UCL-14.

    >>> gru = Recurrent(GRUCell, 3, 4)
    >>> for output, state in truncated_backpropagation(gru, torch.randn(2, 7, 3), chunk_size=3):
    ...     output.square().sum().backward()
    ...     print(output.shape[1], state[0].requires_grad)
    3 False
    3 False
    1 False
    """
    _check_at_least_one(chunk_size=chunk_size)
    if mask is not None and mask.shape[1] != inputs.shape[1]:
        raise ValueError(f"mask has {mask.shape[1]} tokens; it must have as many as inputs, {inputs.shape[1]}")
    parts = [tensor.split(chunk_size, 1) for tensor in (inputs, mask) if tensor is not None]

    def chunks(state):
        for chunk in zip(*parts, strict=True):
            output, state = model(chunk[0], state, *chunk[1:])
            state = tuple(part.detach() for part in state)
            yield output, state

    return chunks(state)
