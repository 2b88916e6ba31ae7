"""The two scans against each other and against loops, and Mamba's block against Hugging Face's."""

import copy
import math

import pytest
import torch
from randomness import randn
from transformers import MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer

from llm_anatomy.layers.recurrent import truncated_backpropagation
from llm_anatomy.layers.state_space import (
    MambaBlock,
    linear_recurrence,
    selective_scan_parallel,
    selective_scan_sequential,
    simplified_hold,
    zero_order_hold,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
SCANS = [selective_scan_sequential, selective_scan_parallel]
BATCH, TOKENS, D_MODEL, D_INNER, D_STATE, D_CONV, DT_RANK = 3, 11, 6, 10, 4, 3, 2


def scan_inputs(n_tokens=TOKENS, dtype=torch.float32, device="cpu", seed=1):
    """x, delta, A, B, C, state."""
    x, delta = (randn(BATCH, n_tokens, D_INNER, seed=seed + i, dtype=dtype) for i in range(2))
    B, C = (randn(BATCH, n_tokens, D_STATE, seed=seed + i, dtype=dtype) for i in (2, 3))
    A = -randn(D_INNER, D_STATE, seed=seed + 4, dtype=dtype).abs() - 0.1
    state = randn(BATCH, D_INNER, D_STATE, seed=seed + 5, dtype=dtype)
    return [tensor.to(device) for tensor in (x, delta.abs() + 0.05, A, B, C, state)]


def randomize(module, seed=10):
    """Every parameter random; the rates around Mamba's own, so that the state neither stays nor vanishes."""
    with torch.no_grad():
        for i, (name, parameter) in enumerate(module.named_parameters()):
            center = 1.0 if name == "D" else 0.0
            parameter.copy_(center + randn(*parameter.shape, seed=seed + i) * (0.8 if "proj.weight" in name else 0.3))
    return module


def block(dtype=torch.float32, **changes):
    sizes = dict(d_inner=D_INNER, d_state=D_STATE, d_conv=D_CONV, dt_rank=DT_RANK) | changes
    return randomize(MambaBlock(D_MODEL, **sizes)).to(dtype)


def close(found, expected, dtype=torch.float32):
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-9, torch.bfloat16: 5e-2}[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# --- Discretisation ---


@pytest.mark.syllabus("UCL-16")
def test_zero_order_hold_solves_the_differential_equation():
    """h' = A h + B x over a time delta with x held, in many small steps of Heun's method."""
    x, delta, A, B, _, h = scan_inputs(n_tokens=1, dtype=torch.float64)
    n_steps = 2000
    h_end, dt = h.clone(), delta[:, 0, :, None] / n_steps
    for _ in range(n_steps):
        slope = A * h_end + B[:, 0, None] * x[:, 0, :, None]
        h_end = h_end + dt * (slope + A * (h_end + dt * slope) + B[:, 0, None] * x[:, 0, :, None]) / 2
    a, b = zero_order_hold(x, delta, A, B)
    torch.testing.assert_close(a[:, 0] * h + b[:, 0], h_end, rtol=1e-5, atol=1e-6)
    _, rough = simplified_hold(x, delta, A, B)
    assert (rough[:, 0] - b[:, 0]).abs().max() > 0.1


@pytest.mark.syllabus("UCL-16")
def test_the_simplified_hold_agrees_to_first_order():
    x, delta, A, B, _, _ = scan_inputs(dtype=torch.float64)
    errors = []
    for scale in (1e-2, 1e-3):
        (a, exact), (same, simple) = (hold(x, delta * scale, A, B) for hold in (zero_order_hold, simplified_hold))
        assert torch.equal(a, same)
        torch.testing.assert_close(simple, (delta * scale)[..., None] * B[:, :, None] * x[..., None])
        errors.append((exact - simple).abs().max() / exact.abs().max())
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)  # relative error proportional to delta


# --- Scans ---


@pytest.mark.syllabus("UCL-16")
@pytest.mark.parametrize("hold", [simplified_hold, zero_order_hold])
@pytest.mark.parametrize("scan", SCANS)
def test_scan_equals_the_formula_written_out(scan, hold):
    """Python floats: one channel after the other, one entry of the state after the other."""
    x, delta, A, B, C, state = scan_inputs(n_tokens=5, dtype=torch.float64)
    y, last = scan(x, delta, A, B, C, state, discretize=hold)
    for b, d in [(0, 0), (1, 7), (2, 9)]:
        h = state[b, d].tolist()
        for t in range(5):
            for n in range(D_STATE):
                held, rate = delta[b, t, d].item(), A[d, n].item()
                gain = held if hold is simplified_hold else (math.exp(held * rate) - 1) / rate
                h[n] = math.exp(held * rate) * h[n] + gain * B[b, t, n].item() * x[b, t, d].item()
            expected = sum(C[b, t, n].item() * h[n] for n in range(D_STATE))
            assert y[b, t, d].item() == pytest.approx(expected, abs=1e-12)
        assert last[b, d].tolist() == pytest.approx(h, abs=1e-12)


@pytest.mark.syllabus("UCL-16")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 7, 8, 9, 64, 65, 131])
def test_the_scans_are_equal_forward_and_backward(n_tokens, dtype, device):
    results = []
    for scan in SCANS:
        leaves = [tensor.requires_grad_() for tensor in scan_inputs(n_tokens, dtype, device)]
        y, state = scan(*leaves)
        ((y * y.detach().cos()).sum() + state.square().sum()).backward()
        results.append((y, state, *(leaf.grad for leaf in leaves)))
    for found, expected in zip(*results, strict=True):
        scale = expected.abs().max()
        close(found / scale, expected / scale, dtype)


@pytest.mark.parametrize("scan", SCANS)
def test_a_state_carries_the_scan_over_a_cut_and_starts_from_zeros(scan):
    x, delta, A, B, C, state = scan_inputs()
    whole, last = scan(x, delta, A, B, C, state)
    pieces = []
    for start, end in ((0, 4), (4, 5), (5, TOKENS)):
        cut = (tensor[:, start:end] for tensor in (x, delta, B, C))
        x_cut, delta_cut, B_cut, C_cut = cut
        y, state = scan(x_cut, delta_cut, A, B_cut, C_cut, state)
        pieces.append(y)
    close((torch.cat(pieces, 1), state), (whole, last))
    close(scan(x, delta, A, B, C), scan(x, delta, A, B, C, torch.zeros_like(state)))
    for block_size in (1, 4, TOKENS):
        close(selective_scan_parallel(x, delta, A, B, C, block_size=block_size), scan(x, delta, A, B, C))


@pytest.mark.parametrize("n_tokens", [1, 2, 5, 6])
def test_linear_recurrence_and_its_gradients(n_tokens):
    """The loop, its gradient and the gradient of that; factors may be negative, or zero."""
    a, b = (randn(2, n_tokens, 3, seed=seed, dtype=torch.float64) for seed in (0, 1))
    a[0, n_tokens // 2] = 0
    state = randn(2, 3, seed=2, dtype=torch.float64)
    h, expected = state, []
    for t in range(n_tokens):
        h = a[:, t] * h + b[:, t]
        expected.append(h)
    leaves = [tensor.clone().requires_grad_() for tensor in (a, b, state)]
    torch.testing.assert_close(linear_recurrence(*leaves), torch.stack(expected, 1), rtol=1e-12, atol=1e-12)
    assert torch.equal(leaves[0], a) and torch.equal(leaves[1], b)  # works in place, on copies
    torch.autograd.gradcheck(linear_recurrence, leaves)
    torch.autograd.gradgradcheck(linear_recurrence, leaves)


@pytest.mark.parametrize("hold", [simplified_hold, zero_order_hold])
@pytest.mark.parametrize("scan", SCANS)
def test_gradcheck_of_the_scans(scan, hold):
    leaves = [tensor.requires_grad_() for tensor in scan_inputs(5, torch.float64)]
    torch.autograd.gradcheck(lambda *given: scan(*given, discretize=hold), leaves, fast_mode=True)


@pytest.mark.parametrize("scan", SCANS)
def test_bfloat16_is_summed_in_float32(scan):
    x, delta, A, B, C, state = (tensor.bfloat16() for tensor in scan_inputs(131))
    y, last = scan(x, delta, A, B, C, state.float())
    expected, expected_last = scan(*(tensor.float() for tensor in (x, delta, A, B, C, state)))
    assert y.dtype == torch.bfloat16 and last.dtype == torch.float32
    torch.testing.assert_close(last, expected_last)
    torch.testing.assert_close(y, expected.bfloat16())


@pytest.mark.syllabus("UCL-16")
def test_the_parallel_scan_takes_a_logarithmic_number_of_steps(monkeypatch):
    steps = []
    original = torch.Tensor.addcmul_
    monkeypatch.setattr(torch.Tensor, "addcmul_", lambda *a: steps.append(1) or original(*a))
    a, b, state = torch.rand(2, 256, 3), torch.rand(2, 256, 3), torch.rand(2, 3)
    linear_recurrence(a, b, state)
    assert len(steps) == 1 + 8 + 7  # the state, eight up, seven down


# --- Mamba's block ---


def hugging_face(ours):
    config = MambaConfig(
        vocab_size=5,
        hidden_size=D_MODEL,
        state_size=D_STATE,
        num_hidden_layers=1,
        conv_kernel=D_CONV,
        time_step_rank=DT_RANK,
        use_associative_scan=False,
    )
    config.intermediate_size = D_INNER
    mixer = MambaMixer(config, layer_idx=0).eval()
    mixer.load_state_dict(ours.state_dict())  # every name and shape is the same
    return mixer.to(ours.D.dtype)


@pytest.mark.syllabus("UCL-16")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scan", SCANS)
def test_block_equals_hugging_faces_slow_path(scan, dtype, monkeypatch):
    if dtype == torch.float64:  # theirs rounds to float32 in places
        monkeypatch.setattr(torch.Tensor, "float", lambda self: self)
    ours = block(dtype, scan=scan)
    theirs = hugging_face(ours)
    results = []
    for module in (ours, theirs):
        x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype).requires_grad_()
        output = module(x)[0] if module is ours else module(x)
        (output * output.detach().cos()).sum().backward()
        results.append({"output": output, "x": x.grad} | {name: p.grad for name, p in module.named_parameters()})
    found, expected = results
    assert found.keys() == expected.keys() and expected["output"].abs().mean() > 0.1
    for name, tensor in expected.items():
        close(found[name] / tensor.abs().max(), tensor / tensor.abs().max(), dtype)


@pytest.mark.syllabus("UCL-16")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d_conv", [1, 2, D_CONV, 20])
@pytest.mark.parametrize("scan", SCANS)
def test_token_by_token_and_in_pieces_equal_the_whole(scan, d_conv, device):
    module, x = block(scan=scan, d_conv=d_conv).to(device), randn(BATCH, TOKENS, D_MODEL).to(device)
    whole, last = module(x)
    for sizes in ([1] * TOKENS, [4, 1, 6]):
        state, outputs = None, []
        for piece in x.split(sizes, 1):
            output, state = module(piece, state)
            outputs.append(output)
            assert [tuple(part.shape) for part in state] == [(BATCH, D_INNER, d_conv - 1), (BATCH, D_INNER, D_STATE)]
        close((torch.cat(outputs, 1), *state), (whole, *last))


@pytest.mark.parametrize("scan", SCANS)
def test_the_future_has_no_influence(scan):
    module, x = block(scan=scan), randn(BATCH, TOKENS, D_MODEL)
    changed = x.clone()
    changed[:, 6:] += 2.0
    before, after = module(x)[0], module(changed)[0]
    assert torch.equal(after[:, :6], before[:, :6]) or torch.allclose(after[:, :6], before[:, :6], atol=1e-6)
    assert (after[:, 6:] - before[:, 6:]).abs().amax(-1).gt(1e-3).all()
    module(x.requires_grad_())[0][:, 4].sum().backward()
    assert x.grad[:, 5:].abs().max() < 1e-6 and x.grad[:, :5].abs().amax(-1).gt(1e-8).all()


def test_truncated_backpropagation_reads_a_block_too():
    module, x = block(), randn(BATCH, TOKENS, D_MODEL)
    outputs = [output for output, _ in truncated_backpropagation(module, x, 4)]
    close(torch.cat(outputs, 1), module(x)[0])


def test_initial_values():
    torch.manual_seed(0)
    module = MambaBlock(64)
    assert module.dt_proj.in_features == 4 and module.in_proj.out_features == 256 and module.conv1d.kernel_size == (4,)
    torch.testing.assert_close(-module.A_log.exp(), -torch.arange(1.0, 17).expand(128, 16))
    assert module.D.eq(1).all() and 0.45 < module.dt_proj.weight.abs().max() <= 0.5
    steps = torch.nn.functional.softplus(module.dt_proj.bias)
    assert 0.0009 < steps.min() < 0.003 and 0.05 < steps.max() < 0.101
    assert steps.log().mean().item() == pytest.approx(math.log(0.01), abs=0.5)


def test_gradcheck_of_the_block():
    module = block(torch.float64)
    leaves = [randn(BATCH, 5, D_MODEL, dtype=torch.float64), randn(BATCH, D_INNER, D_CONV - 1, dtype=torch.float64)]
    leaves = [tensor.requires_grad_() for tensor in (*leaves, scan_inputs(dtype=torch.float64)[5])]

    def run(x, window, h):
        output, state = module(x, (window, h))
        return output, *state

    torch.autograd.gradcheck(run, leaves, fast_mode=True)


def test_bfloat16_stays_close():
    module, x = block(), randn(BATCH, TOKENS, D_MODEL)
    expected, (window, h) = module(x)
    output, (half_window, half_h) = copy.deepcopy(module).bfloat16()(x.bfloat16())
    assert (output.dtype, half_window.dtype, half_h.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    for found, wanted in ((output, expected), (half_window, window), (half_h, h)):
        assert (found - wanted).abs().max() < 0.03 * wanted.abs().max()


def test_state_dict_and_meta_device():
    x = randn(BATCH, TOKENS, D_MODEL)
    with torch.device("meta"):
        late = MambaBlock(D_MODEL, d_inner=D_INNER, d_state=D_STATE, d_conv=D_CONV, dt_rank=DT_RANK)
        assert late(x.to("meta"))[0].shape == x.shape
    late = late.to_empty(device="cpu")
    late.load_state_dict(block().state_dict())
    close(late(x), block()(x))


def test_faults_are_seen():
    """Planted: the exact hold where the code simplifies, the state read before it is written, a window in reverse."""
    ours, x = block(), randn(BATCH, TOKENS, D_MODEL)
    expected = hugging_face(ours)(x)
    close(ours(x)[0], expected)
    ours.scan = lambda *given: selective_scan_parallel(*given, discretize=zero_order_hold)
    assert (ours(x)[0] - expected).abs().max() > 0.05

    def read_too_early(x, delta, A, B, C, state):
        return selective_scan_parallel(x, delta, A, B, torch.cat((C[:, 1:], C[:, :1]), 1), state)

    ours.scan = read_too_early
    assert (ours(x)[0] - expected).abs().max() > 0.05
    ours = block()
    with torch.no_grad():
        ours.conv1d.weight.copy_(ours.conv1d.weight.flip(-1))
    assert (ours(x)[0] - expected).abs().max() > 0.05


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.state_space import *\n"
        "x = torch.randn(3, 5, 6)\n"
        "for scan in (selective_scan_sequential, selective_scan_parallel):\n"
        "    torch._dynamo.reset(); m = MambaBlock(6, scan=scan)\n"
        "    f = torch.compile(m, fullgraph=True, backend='eager')\n"
        "    torch.testing.assert_close(f(x), m(x))\n"
        "    f(x)[0].sum().backward(); found = m.A_log.grad.clone(); m.zero_grad()\n"
        "    m(x)[0].sum().backward(); torch.testing.assert_close(found, m.A_log.grad)"
    )
    run_without_shape_checks(code)


def bare(function):
    return getattr(function, "__wrapped__", function)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(delta=torch.zeros(3, 11, 9)), r"delta has shape \(3, 11, 9\); it must be \(3, 11, 10\)"),
        (dict(A=torch.zeros(9, 4)), r"A has shape \(9, 4\); it must be \(10, 4\)"),
        (dict(B=torch.zeros(3, 1, 4)), r"B has shape \(3, 1, 4\); it must be \(3, 11, 4\)"),
        (dict(C=torch.zeros(3, 11, 1)), r"C has shape \(3, 11, 1\)"),
        (dict(state=torch.zeros(1, 10, 4)), r"state has shape \(1, 10, 4\); it must be \(3, 10, 4\)"),
        (
            dict(x=torch.zeros(3, 0, 10), delta=torch.zeros(3, 0, 10), B=torch.zeros(3, 0, 4), C=torch.zeros(3, 0, 4)),
            "x has no tokens",
        ),
    ],
)
def test_misfits_are_refused_in_one_sentence(scan, change, sentence):
    given = dict(zip(("x", "delta", "A", "B", "C", "state"), scan_inputs(), strict=True)) | change
    with pytest.raises(ValueError, match=sentence):
        bare(scan)(**given)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MambaBlock(0), "d_model=0"),
        (lambda: MambaBlock(6, d_conv=0), "d_conv=0"),
        (lambda: bare(selective_scan_parallel)(*scan_inputs(), block_size=0), "block_size=0 must be at least 1"),
        (lambda: bare(MambaBlock.forward)(block(), torch.zeros(3, 11, 5)), r"\(3, 11, 5\).*d_model=6"),
        (lambda: bare(MambaBlock.forward)(block(), torch.zeros(3, 0, 6)), "tokens >= 1"),
        (
            lambda: bare(MambaBlock.forward)(block(), torch.zeros(3, 2, 6), (torch.zeros(3, 10, 3), None)),
            r"state\[0\] has shape \(3, 10, 3\); it must be \(3, 10, 2\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
