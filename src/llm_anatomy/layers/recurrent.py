r"""Recurrent networks: a hidden state, carried from token to token.

Legend of shapes: ``batch``, ``tokens``, ``d_input`` (width of a token), ``d_hidden`` (width of the state), ``gates``
(``d_hidden`` for each gate of the cell, one after the other). A state is a tuple of tensors with the hidden state h
first: ``(h,)`` for Elman's network and the GRU, ``(h, c)`` for the LSTM. Masks are boolean, True = a real token.

Parameters have PyTorch's names and order of gates, so that weights go from one to the other as they are. PyTorch keeps
two biases, one with the input and one with the state; the formulas' b is their sum.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from llm_anatomy.shapes import Bool, Float, Tensor

State = tuple[Float[Tensor, "batch d_hidden"], ...]
LayerStates = tuple[Float[Tensor, "n_layers batch d_hidden"], ...]


class Cell(nn.Module):
    """One step of a recurrent network: a token and a state go in, the next state comes out.

    A subclass says how many gates and how many tensors of state it has, which kernel of PyTorch computes the same, and
    writes ``step``.

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
        if min(d_input, d_hidden) < 1:
            raise ValueError(f"{d_input=}, {d_hidden=}: each must be >= 1")
        self.d_input, self.d_hidden = d_input, d_hidden
        n_rows = self.n_gates * d_hidden
        self.weight_ih = nn.Parameter(torch.empty(n_rows, d_input))
        self.weight_hh = nn.Parameter(torch.empty(n_rows, d_hidden))
        self.bias_ih = nn.Parameter(torch.empty(n_rows))
        self.bias_hh = nn.Parameter(torch.empty(n_rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(d_hidden**-0.5), d_hidden**-0.5)

    def initial_state(self, x: Float[Tensor, "batch *tokens d_input"]) -> State:
        """Zeros, one state for each row of the batch of ``x``."""
        return (x.new_zeros(x.shape[0], self.d_hidden),) * self.n_states

    def project(self, x: Float[Tensor, "batch *tokens d_input"]) -> Float[Tensor, "batch *tokens gates"]:
        """The part that needs no state, hence one product for all tokens at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def recur(self, h: Float[Tensor, "batch d_hidden"]) -> Float[Tensor, "batch gates"]:
        """The part that has to wait for the state."""
        return F.linear(h, self.weight_hh, self.bias_hh)

    def step(self, projected: Float[Tensor, "batch gates"], state: State) -> State:
        """The next state, from ``project(x)`` and the state."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch d_input"], state: State | None = None) -> State:
        """The state after ``x``; before it, ``state``, zeros by default."""
        return self.step(self.project(x), self.initial_state(x) if state is None else state)


class ElmanCell(Cell):
    r"""The simple recurrent network: the state is squashed and fed back.

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
        return (torch.tanh(projected + self.recur(h)),)


class LSTMCell(Cell):
    r"""Long short-term memory: a second state c to which gates add, so that gradients need not shrink at each step.

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
        i, f, g, o = (projected + self.recur(h)).chunk(4, -1)  # (batch, d_hidden) each
        # c' = σ(f) ⊙ c + σ(i) ⊙ tanh(g)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        # h' = σ(o) ⊙ tanh(c')
        return o.sigmoid() * c.tanh(), c


class GRUCell(Cell):
    r"""Gated recurrent unit: two gates and no second state; what is not updated is kept.

    .. math::
        r, z &= \sigma(U_{r,z}\, x + W_{r,z}\, h + b_{r,z}), \quad
        n = \tanh(U_n x + b_n + r \odot (W_n h + b_n')) \\
        h' &= (1 - z) \odot n + z \odot h

    The gates are stored in the order r, z, n: reset, update, candidate. The paper resets the state before the product,
    :math:`W_n (r \odot h)`; PyTorch and this cell do so after it, which lets one product serve all gates.

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
        of_x, of_h = projected.chunk(3, -1), self.recur(h).chunk(3, -1)  # (batch, d_hidden) each
        r, z = ((of_x[gate] + of_h[gate]).sigmoid() for gate in (0, 1))
        # n = tanh(U_n x + r ⊙ W_n h)
        n = torch.tanh(of_x[2] + r * of_h[2])
        # h' = (1 - z) ⊙ n + z ⊙ h
        return (n + z * (h - n),)


class Recurrent(nn.Module):
    r"""Layers of cells over a sequence: each layer reads the hidden states of the one below.

    .. math:: h_t^{(l)} = \mathrm{cell}_l(h_t^{(l-1)}, h_{t-1}^{(l)}), \quad h_t^{(0)} = x_t

    Where the mask is False, the state stays as it was and the output is zero: after the last token each row holds the
    state of its own last real token, wherever the padding stands.

    Args:
        cell: class of the cells: :class:`ElmanCell`, :class:`LSTMCell` or :class:`GRUCell`.
        d_input: width of a token.
        d_hidden: width of the state, and of the output.
        n_layers: how many layers.
        fused: whether PyTorch's kernel runs in place of the steps written here: same parameters, same results.

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
        if n_layers < 1:
            raise ValueError(f"{n_layers=} must be >= 1")
        self.fused = fused
        self.cells = nn.ModuleList(cell(d_hidden if i else d_input, d_hidden) for i in range(n_layers))

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_input"],
        state: LayerStates | None = None,
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_hidden"], LayerStates]:
        """Read ``x`` from left to right.

        Args:
            x: the tokens, at least one.
            state: before the first token, zeros by default.
            mask: True = a real token, False = padding.

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
        for cell, *of_layer in zip(self.cells, *state, strict=True):
            outputs = []
            for t, projected in enumerate(cell.project(x).unbind(1)):
                new = cell.step(projected, tuple(of_layer))
                if mask is not None:
                    new = (torch.where(mask[:, t, None], *pair) for pair in zip(new, of_layer, strict=True))
                of_layer = list(new)
                outputs.append(of_layer[0])
            x = torch.stack(outputs, 1)  # (batch, tokens, d_hidden)
            finals.append(of_layer)
        output = x if mask is None else x.masked_fill(~mask[..., None], 0)
        return output, tuple(torch.stack(part) for part in zip(*finals, strict=True))

    def _with_kernel(self, x: Tensor, state: LayerStates, mask: Tensor | None) -> tuple[Tensor, LayerStates]:
        kernel, n_layers = self.cells[0].kernel, len(self.cells)
        weights = [p for cell in self.cells for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)]
        options = True, n_layers, 0.0, self.training, False  # biases, layers, dropout, training, bidirectional
        if mask is None:
            output, *state = kernel(x, state if len(state) > 1 else state[0], weights, *options, True)
            return output, tuple(state)
        # real tokens first, packed without the padding; a row of padding alone keeps one token, forgotten afterwards
        order, lengths = mask.int().argsort(dim=1, descending=True, stable=True), mask.sum(1)
        ordered = x.gather(1, order[..., None].expand_as(x))
        packed = pack_padded_sequence(ordered, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        before = tuple(part[:, packed.sorted_indices] for part in state)
        before = before if len(before) > 1 else before[0]
        data, *after = kernel(packed.data, packed.batch_sizes, before, weights, *options)
        output, _ = pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=x.shape[1])
        output = output.gather(1, order.argsort(1)[..., None].expand_as(output)).masked_fill(~mask[..., None], 0)
        after = (part[:, packed.unsorted_indices] for part in after)
        return output, tuple(torch.where(lengths[:, None] > 0, *pair) for pair in zip(after, state, strict=True))

    def _check_shapes(self, x: Tensor, state: LayerStates, mask: Tensor | None) -> None:
        cell = self.cells[0]
        if x.ndim != 3 or x.shape[1] < 1 or x.shape[2] != cell.d_input:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be (batch, tokens >= 1, d_input={cell.d_input})")
        found, fits = [tuple(part.shape) for part in state], (len(self.cells), x.shape[0], cell.d_hidden)
        if found != [fits] * cell.n_states:
            raise ValueError(f"state has the shapes {found}; it must have {cell.n_states} of {fits}")
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(f"mask has dtype {mask.dtype}; it must be torch.bool, True = a real token")
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(f"mask has shape {tuple(mask.shape)}; it must be (batch, tokens) = {tuple(x.shape[:2])}")


def truncated_backpropagation(
    model: Callable,
    inputs: Tensor,
    chunk_size: int,
    state: tuple[Tensor, ...] | None = None,
    mask: Bool[Tensor, "batch tokens"] | None = None,
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    r"""Read a long sequence chunk by chunk; the state is carried on, its gradient is not.

    .. math:: \frac{\partial L_t}{\partial h_s} \text{ is taken as } 0 \text{ for } s \text{ in a chunk before that of }
        t

    Call ``backward`` on the loss of each chunk before asking for the next: memory is then that of one chunk.

    Args:
        model: called as ``model(chunk, state)``, or ``model(chunk, state, mask)`` where a mask is given; returns
            output and state, as :class:`Recurrent` does.
        inputs: what is cut along its second axis, tokens.
        chunk_size: tokens in a chunk, at least 1; the last may be shorter.
        state: before the first token.
        mask: cut like the inputs; True = a real token.

    Returns:
        An iterator over output and detached state of each chunk.

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
    if chunk_size < 1:
        raise ValueError(f"{chunk_size=} must be >= 1")
    if mask is not None and mask.shape[1] != inputs.shape[1]:
        raise ValueError(f"mask has {mask.shape[1]} tokens and inputs {inputs.shape[1]}; they must have as many")
    cut = [tensor.split(chunk_size, 1) for tensor in (inputs, mask) if tensor is not None]

    def chunks(state):
        for chunk in zip(*cut, strict=True):
            output, state = model(chunk[0], state, *chunk[1:])
            state = tuple(part.detach() for part in state)
            yield output, state

    return chunks(state)
