"""Recurrent cells and stacks against PyTorch's, and truncated backpropagation."""

import copy
import math

import pytest
import torch
from randomness import randn, randomize
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from llm_anatomy.layers import recurrent
from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell, Recurrent, truncated_backpropagation

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_INPUT, D_HIDDEN, LAYERS = 3, 7, 5, 4, 2
# ours, PyTorch's cell, PyTorch's network
PAIRS = [(ElmanCell, nn.RNNCell, nn.RNN), (LSTMCell, nn.LSTMCell, nn.LSTM), (GRUCell, nn.GRUCell, nn.GRU)]
CELLS = [ours for ours, _, _ in PAIRS]
LENGTHS = torch.tensor([4, 7, 1])
PADDED_RIGHT = torch.arange(TOKENS) < LENGTHS[:, None]
PADDED_LEFT = PADDED_RIGHT.flip(1)
HOLES = torch.tensor([[0, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)


def network(cell, fused=False, dtype=torch.float32, n_layers=LAYERS):
    return randomize(Recurrent(cell, D_INPUT, D_HIDDEN, n_layers, fused=fused)).to(dtype)


def a_state(cell, n_layers=LAYERS, dtype=torch.float32):
    return tuple(randn(n_layers, BATCH, D_HIDDEN, seed=20 + i, dtype=dtype) for i in range(cell.n_states))


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def as_pytorch(state):
    return state if len(state) > 1 else state[0]


def pytorch_twin(ours, cls):
    """PyTorch's network with our parameters: the names differ by the number of the layer only."""
    twin = cls(D_INPUT, D_HIDDEN, len(ours.cells), batch_first=True).to(next(ours.parameters()).dtype)
    weights = {f"{name}_l{i}": p for i, cell in enumerate(ours.cells) for name, p in cell.state_dict().items()}
    twin.load_state_dict(weights)
    return twin


def close(found, expected, dtype=torch.float32):
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-9, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.syllabus("UCL-14", "UCL-15")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("ours", "theirs"), [pair[:2] for pair in PAIRS])
def test_one_step_equals_pytorchs_cell(ours, theirs, dtype):
    cell = randomize(ours(D_INPUT, D_HIDDEN)).to(dtype)
    twin = theirs(D_INPUT, D_HIDDEN).to(dtype)
    twin.load_state_dict(cell.state_dict())
    x, state = randn(BATCH, D_INPUT, dtype=dtype), tuple(part[0] for part in a_state(ours, dtype=dtype))
    close(cell(x, state), as_tuple(twin(x, as_pytorch(state))), dtype)
    close(cell(x), as_tuple(twin(x)), dtype)


@pytest.mark.syllabus("UCL-14")
def test_elman_equals_the_formula_written_out():
    """h' = tanh(W h + U x + b) in Python floats."""
    cell = randomize(ElmanCell(2, 3).double())
    x, h = [0.7, -1.1], [0.2, -0.4, 0.9]
    u, w, b = cell.weight_ih.tolist(), cell.weight_hh.tolist(), (cell.bias_ih + cell.bias_hh).tolist()
    expected = [
        math.tanh(sum(w[i][j] * h[j] for j in range(3)) + sum(u[i][j] * x[j] for j in range(2)) + b[i])
        for i in range(3)
    ]
    (found,) = cell(torch.tensor([x], dtype=torch.float64), (torch.tensor([h], dtype=torch.float64),))
    assert found[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.syllabus("UCL-15")
def test_lstm_and_gru_equal_their_formulas_written_out():
    """Floats, one entry each: the order of the gates, and what each does."""

    def sigmoid(v):
        return 1 / (1 + math.exp(-v))

    x, h, c = 0.7, -0.4, 1.3
    u, w, b, b_state = [0.5, -0.3, 0.8, 0.2], [-0.6, 0.4, 0.9, -0.7], [0.1, 0.2, -0.3, 0.4], [0.3, -0.2, 0.5, -0.1]

    def cell(cls):
        made = cls(1, 1).double()
        with torch.no_grad():
            for parameter, values in zip(made.parameters(), (u, w, b, b_state), strict=True):
                parameter.copy_(torch.tensor(values[: cls.n_gates], dtype=torch.float64).view_as(parameter))
        return made

    def one(value):
        return torch.tensor([[value]], dtype=torch.float64)

    i, f, g, o = (u[k] * x + w[k] * h + b[k] + b_state[k] for k in range(4))
    new_c = sigmoid(f) * c + sigmoid(i) * math.tanh(g)
    found = cell(LSTMCell)(one(x), (one(h), one(c)))
    assert [v.item() for v in found] == pytest.approx([sigmoid(o) * math.tanh(new_c), new_c], abs=1e-12)

    r, z = (sigmoid(u[k] * x + w[k] * h + b[k] + b_state[k]) for k in range(2))
    n = math.tanh(u[2] * x + b[2] + r * (w[2] * h + b_state[2]))
    assert cell(GRUCell)(one(x), (one(h),))[0].item() == pytest.approx((1 - z) * n + z * h, abs=1e-12)


@pytest.mark.syllabus("UCL-14", "UCL-15")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("cell", "theirs"), [(ours, network) for ours, _, network in PAIRS])
def test_a_stack_equals_pytorchs_forward_and_backward(cell, theirs, fused, dtype, device):
    ours = network(cell, fused, dtype).to(device)
    twin = pytorch_twin(ours, theirs).to(device)
    results = []
    for module in (ours, twin):
        x = randn(BATCH, TOKENS, D_INPUT, dtype=dtype).to(device).requires_grad_()
        state = tuple(part.to(device).requires_grad_() for part in a_state(cell, dtype=dtype))
        output, final = module(x, state if module is ours else as_pytorch(state))
        final = as_tuple(final)
        (
            (output * output.detach().cos()).sum() + sum((k + 2) * part.sin().sum() for k, part in enumerate(final))
        ).backward()
        gradients = {name: p.grad for name, p in module.named_parameters()}
        results.append((output, final, x.grad, tuple(part.grad for part in state), sorted(gradients.items(), key=str)))
    for found, expected in zip(*(result[:4] for result in results), strict=True):
        close(found, expected, dtype)
    for i, layer in enumerate(ours.cells):
        for name, parameter in layer.named_parameters():
            close(parameter.grad, getattr(twin, f"{name}_l{i}").grad, dtype)
    close(ours(x)[0], twin(x)[0], dtype)  # zeros before the first token


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("cell", "theirs"), [(ours, network) for ours, _, network in PAIRS])
def test_padding_at_the_end_equals_pytorchs_packed_sequences(cell, theirs, fused, device):
    ours = network(cell, fused).to(device)
    twin = pytorch_twin(ours, theirs).to(device)
    x, state = randn(BATCH, TOKENS, D_INPUT).to(device), tuple(part.to(device) for part in a_state(cell))
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, expected_final = twin(packed, as_pytorch(state))
    expected, _ = pad_packed_sequence(expected, batch_first=True, total_length=TOKENS)
    output, final = ours(x, state, PADDED_RIGHT.to(device))
    close(output, expected)
    close(final, as_tuple(expected_final))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("mask", [PADDED_RIGHT, PADDED_LEFT, HOLES], ids=["right", "left", "holes"])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_anywhere_equals_the_sequence_without_it(cell, mask, fused):
    """Row by row, the real tokens alone; a row without any keeps its state. Padding has no influence, nor gradient."""
    ours, alone, state = network(cell, fused), network(cell), a_state(cell)
    x = randn(BATCH, TOKENS, D_INPUT).requires_grad_()
    output, final = ours(x, state, mask)
    assert output[~mask].eq(0).all()
    for row in range(BATCH):
        its_state = tuple(part[:, row : row + 1] for part in state)
        if mask[row].any():
            expected, its_state = alone(x[row : row + 1, mask[row]], its_state)
            close(output[row, mask[row]], expected[0])
        close(tuple(part[:, row : row + 1] for part in final), its_state)
    sum((part * part).sum() for part in (output, *final)).backward()
    assert x.grad[~mask].eq(0).all() and x.grad[mask].ne(0).all()
    changed = x.detach().masked_fill(~mask[..., None], 50.0)
    close(ours(changed, state, mask), (output, final))


def test_many_tokens_keep_their_order_when_padding_is_taken_out():
    x, mask = randn(BATCH, 90, D_INPUT), randn(BATCH, 90, seed=2) > 0
    close(network(GRUCell, fused=True)(x, None, mask), network(GRUCell)(x, None, mask))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_the_state_carries_a_sequence_over_a_cut(cell, fused):
    ours, x = network(cell, fused), randn(BATCH, TOKENS, D_INPUT)
    whole, final = ours(x)
    first, state = ours(x[:, :3])
    rest, state = ours(x[:, 3:], state)
    close(torch.cat((first, rest), 1), whole)
    close(state, final)
    changed = x.clone()
    changed[:, 4:] += 5.0
    close(ours(changed)[0][:, :4], whole[:, :4])  # the future has no influence
    assert (ours(changed)[0][:, 4:] - whole[:, 4:]).abs().amax(-1).gt(1e-3).all()


@pytest.mark.parametrize("cell", CELLS)
def test_fused_and_explicit_share_one_state_dict(cell, monkeypatch):
    explicit, fused = network(cell), Recurrent(cell, D_INPUT, D_HIDDEN, LAYERS, fused=True)
    fused.load_state_dict(explicit.state_dict())
    x = randn(BATCH, TOKENS, D_INPUT)
    close(fused(x), explicit(x))
    monkeypatch.setattr(cell, "step", lambda *_: pytest.fail("the fused form takes no steps of ours"))
    fused(x), fused(x, None, PADDED_LEFT)
    with pytest.raises(pytest.fail.Exception):
        explicit(x)


@pytest.mark.parametrize("mask", [None, HOLES])
@pytest.mark.parametrize("cell", CELLS)
def test_gradcheck(cell, mask):
    ours = network(cell, dtype=torch.float64)
    leaves = [randn(BATCH, 3, D_INPUT, dtype=torch.float64), *a_state(cell, dtype=torch.float64)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    mask = None if mask is None else mask[:, :3]

    def run(x, *state):
        output, final = ours(x, state, mask)
        return output, *final

    torch.autograd.gradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_bfloat16_stays_close(cell, fused):
    ours, x, state = network(cell, fused), randn(BATCH, TOKENS, D_INPUT), a_state(cell)
    half = copy.deepcopy(ours).bfloat16()
    for mask in (None, PADDED_LEFT):
        expected, expected_final = ours(x, state, mask)
        output, final = half(x.bfloat16(), tuple(part.bfloat16() for part in state), mask)
        assert output.dtype == torch.bfloat16 and all(part.dtype == torch.bfloat16 for part in final)
        close(output.float(), expected, torch.bfloat16)
        close(tuple(part.float() for part in final), expected_final, torch.bfloat16)


@pytest.mark.parametrize("cell", CELLS)
def test_meta_device_and_initial_values(cell):
    with torch.device("meta"):
        late = Recurrent(cell, D_INPUT, D_HIDDEN, LAYERS)
        assert late(torch.empty(BATCH, TOKENS, D_INPUT))[0].shape == (BATCH, TOKENS, D_HIDDEN)
    late = late.to_empty(device="cpu")
    late.load_state_dict(network(cell).state_dict())
    close(late(randn(BATCH, TOKENS, D_INPUT)), network(cell)(randn(BATCH, TOKENS, D_INPUT)))
    wide = Recurrent(cell, D_INPUT, 100)
    assert all(0.09 < p.abs().max() <= 0.1 for p in wide.parameters())  # uniform up to 1/√d_hidden


@pytest.mark.syllabus("UCL-14")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_truncated_backpropagation(cell, masked):
    """One chunk over all is backpropagation through time; shorter ones equal a state detached by hand."""
    mask = PADDED_LEFT if masked else None
    x, state = randn(BATCH, TOKENS, D_INPUT), a_state(cell)

    def gradients(run):
        module = network(cell)
        run(module)
        return [p.grad for p in module.parameters()]

    def truncated(chunk_size):
        def run(module):
            for output, state_after in truncated_backpropagation(module, x, chunk_size, state, mask):
                output.square().sum().backward()
                assert not any(part.requires_grad for part in state_after)

        return run

    def full(module):
        module(x, state, mask)[0].square().sum().backward()

    def by_hand(module):
        now = state
        for start, end in ((0, 3), (3, 6), (6, 7)):
            output, now = module(x[:, start:end], now, None if mask is None else mask[:, start:end])
            output.square().sum().backward()
            now = tuple(part.detach() for part in now)

    close(gradients(truncated(TOKENS)), gradients(full))
    close(gradients(truncated(100)), gradients(full))
    close(gradients(truncated(3)), gradients(by_hand))
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(gradients(truncated(3)), gradients(full), strict=True))
    module = network(cell)
    outputs, states = zip(*truncated_backpropagation(module, x, 3, state, mask), strict=True)
    close((torch.cat(outputs, 1), states[-1]), module(x, state, mask))  # what is read is the same however it is cut


def test_a_wrong_order_of_gates_is_seen(monkeypatch):
    """Planted fault: the forget gate and the candidate change places."""

    def step(self, projected, state):
        i, g, f, o = (projected + self.project_state(state[0])).chunk(4, -1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    ours, x = network(LSTMCell), randn(BATCH, TOKENS, D_INPUT)
    expected = pytorch_twin(ours, nn.LSTM)(x)[0]
    close(ours(x)[0], expected)
    monkeypatch.setattr(LSTMCell, "step", step)
    assert (ours(x)[0] - expected).abs().max() > 0.05


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.recurrent import *\n"
        "x, mask = torch.randn(3, 3, 5), torch.rand(3, 3) < 0.6\n"
        "for cell in (ElmanCell, LSTMCell, GRUCell):\n"
        "    for fused, given in ((False, (x, None, mask)), (True, (x,))):\n"
        "        torch._dynamo.reset(); m = Recurrent(cell, 5, 4, 2, fused=fused)\n"
        "        f = torch.compile(m, fullgraph=True, backend='eager')\n"
        "        torch.testing.assert_close(f(*given), m(*given))"
    )
    run_without_shape_checks(code)


bare_forward = getattr(Recurrent.forward, "__wrapped__", Recurrent.forward)
bare_truncated = getattr(recurrent.truncated_backpropagation, "__wrapped__", recurrent.truncated_backpropagation)
GOOD = torch.zeros(BATCH, TOKENS, D_INPUT)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("x", "state", "mask", "error", "sentence"),
    [
        (torch.zeros(BATCH, D_INPUT), None, None, ValueError, r"x has shape \(3, 5\).*d_input=5"),
        (torch.zeros(BATCH, TOKENS, 6), None, None, ValueError, r"\(3, 7, 6\).*d_input=5"),
        (torch.zeros(BATCH, 0, D_INPUT), None, None, ValueError, "tokens >= 1"),
        (GOOD, (torch.zeros(2, 3, 4),), None, ValueError, r"\[\(2, 3, 4\)\]; it must hold 2 of shape \(2, 3, 4\)"),
        (GOOD, (torch.zeros(2, 1, 4),) * 2, None, ValueError, r"it must hold 2 of shape \(2, 3, 4\)"),
        (GOOD, None, torch.ones(BATCH, TOKENS), TypeError, "torch.float32; it must be torch.bool"),
        (GOOD, None, torch.ones(BATCH, 1, dtype=torch.bool), ValueError, r"mask has shape \(3, 1\).*\(3, 7\)"),
    ],
)
def test_misfits_are_refused_in_one_sentence(x, state, mask, error, sentence, fused):
    with pytest.raises(error, match=sentence):
        bare_forward(network(LSTMCell, fused), x, state, mask)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GRUCell(0, 4), "d_input=0"),
        (lambda: Recurrent(ElmanCell, 5, 0), "d_hidden=0"),
        (lambda: Recurrent(ElmanCell, 5, 4, 0), "n_layers=0 must be at least 1"),
        (lambda: bare_truncated(network(ElmanCell), GOOD, 0), "chunk_size=0 must be at least 1"),
        (
            lambda: bare_truncated(network(ElmanCell), GOOD, 2, None, PADDED_LEFT[:, 1:]),
            "mask has 6 tokens; .* inputs, 7",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
