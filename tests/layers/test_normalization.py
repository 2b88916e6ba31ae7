"""Norms against PyTorch's, Hugging Face's and loops written from the formulas, and what the lectures state."""

import copy
import math

import pytest
import torch
from randomness import randn
from torch import nn
from transformers import Olmo2Config
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention, Olmo2RMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from llm_anatomy.layers import normalization
from llm_anatomy.layers.normalization import (
    AcrossHeads,
    BatchNorm,
    LayerNorm,
    LayerNormPerHead,
    RMSNorm,
    UnitOffsetRMSNorm,
    min_max,
    standardize,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, WIDTH = 3, 5, 7
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}
SLIDE = torch.tensor([[1.0, 3, 5, 7], [3, 4, 6, 2], [8, 3, 2, 1]])  # 3 samples, 4 features
MAKERS = [
    lambda: BatchNorm(WIDTH),
    lambda: LayerNorm(WIDTH),
    lambda: LayerNorm(WIDTH, bias=False),
    lambda: LayerNorm(WIDTH, weight=False, bias=False),
    lambda: RMSNorm(WIDTH),
    lambda: UnitOffsetRMSNorm(WIDTH),
]
NAMES = ["batch", "layer", "layer without bias", "weightless", "rms", "unit offset"]


def tokens(dtype=torch.float32, seed=0):
    """Features of unlike mean and scale, so that a mean left in or a wrong axis shows."""
    x = randn(BATCH, TOKENS, WIDTH, seed=seed, dtype=torch.float64)
    return (x * torch.linspace(0.4, 3, WIDTH) + torch.linspace(-2, 4, WIDTH)).to(dtype)


def randomize(module, seed=0):
    """Weights around where they start, biases N(0, 0.3), running statistics of an odd past."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=g) * 0.3)
        for buffer in module.buffers():
            buffer.add_(torch.rand(buffer.shape, generator=g))
    return module


def by_hand(rows, weight=None, bias=None, eps=0.0, centre=True):
    """Each row of a list of rows, from the formula, in floats."""
    result = []
    for row in rows.tolist():
        mean = sum(row) / len(row) if centre else 0.0
        deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + eps)
        gains = [1.0] * len(row) if weight is None else weight.tolist()
        shifts = [0.0] * len(row) if bias is None else bias.tolist()
        result.append([(v - mean) / deviation * g + s for v, g, s in zip(row, gains, shifts, strict=True)])
    return torch.tensor(result, dtype=torch.float64)


# --- The formulas ---


@pytest.mark.syllabus("IITD-34")
def test_min_max_of_the_lectures_students():
    students = torch.tensor([[18.0, 20000], [21.5, 35000], [25, 50000], [19.4, 26000]], dtype=torch.float64)
    expected = torch.tensor([[0, 0], [0.5, 0.5], [1, 1], [0.2, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(min_max(students, 0), expected)
    torch.testing.assert_close(min_max(students.T, -1), expected.T)
    assert min_max(torch.ones(3, 1), 0).isnan().all()  # no range, no scale


@pytest.mark.syllabus("IITD-37")
def test_numbers_of_the_batch_norm_slide():
    """The slide prints 1.69 where 1.6997 rounds to 1.70 (erratum E-06)."""
    torch.testing.assert_close(SLIDE.mean(0), torch.tensor([4, 10 / 3, 13 / 3, 10 / 3]))
    deviations = torch.tensor([2.943920, 0.471405, 1.699673, 2.624669])
    torch.testing.assert_close(SLIDE.std(0, correction=0), deviations, rtol=0, atol=1e-5)
    rows = [(-1.019, -0.340, 1.359), (-0.707, 1.414, -0.707), (0.392, 0.981, -1.373), (1.397, -0.508, -0.889)]
    expected = torch.tensor(rows).T
    torch.testing.assert_close(standardize(SLIDE, 0), expected, rtol=0, atol=6e-4)
    torch.testing.assert_close(BatchNorm(4, eps=1e-12)(SLIDE), expected, rtol=0, atol=6e-4)
    unbiased = (SLIDE - SLIDE.mean(0)) / SLIDE.std(0)  # division by 2 in place of 3
    assert not torch.allclose(unbiased, expected, atol=0.1)


@pytest.mark.syllabus("IITD-40")
def test_layer_norm_of_the_same_example():
    expected = by_hand(SLIDE)
    means, deviations = torch.tensor([4, 3.75, 3.5]), torch.tensor([2.2361, 1.4790, 2.6926])
    torch.testing.assert_close((SLIDE - means[:, None]) / deviations[:, None], expected.float(), rtol=0, atol=1e-3)
    torch.testing.assert_close(LayerNorm(4, eps=0.0)(SLIDE), expected.float())
    torch.testing.assert_close(standardize(SLIDE, -1), expected.float())


@pytest.mark.syllabus("IITD-35", "IITD-37", "IITD-41", "UCL-25")
@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_one_function_along_either_axis_is_batch_norm_or_layer_norm(eps):
    x = tokens(torch.float64)[0]
    result = standardize(x, 0)
    torch.testing.assert_close(result.mean(0), torch.zeros(WIDTH, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(result.square().mean(0), torch.ones(WIDTH, dtype=torch.float64))
    torch.testing.assert_close(standardize(x, -1, eps), nn.functional.layer_norm(x, (WIDTH,), eps=eps))
    if eps:  # PyTorch's refuses 0
        expected = nn.functional.batch_norm(x, None, None, training=True, eps=eps)
        torch.testing.assert_close(standardize(x, 0, eps), expected)
    torch.testing.assert_close(standardize(x, -1, eps), by_hand(x, eps=eps))
    torch.testing.assert_close(standardize(x, 0, eps), by_hand(x.T, eps=eps).T)
    assert standardize(torch.ones(3, 2), 0, 1e-5).eq(0).all() and standardize(torch.ones(3, 2), 0).isnan().all()
    assert standardize(x.bfloat16(), 0).dtype == torch.bfloat16


# --- The layers against PyTorch, Hugging Face and the formula ---


@pytest.mark.syllabus("IITD-38", "IITD-40", "CMU-17", "CMU-20", "GT-16", "UCL-25")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_layer_and_rms_norm_equal_the_formula_and_pytorch(eps, dtype, device):
    x = tokens(dtype)
    rows, shape = x.flatten(0, 1).double(), x.shape
    for ours, theirs in [
        (LayerNorm(WIDTH, eps=eps), nn.LayerNorm(WIDTH, eps=eps)),
        (LayerNorm(WIDTH, eps=eps, bias=False), nn.LayerNorm(WIDTH, eps=eps, bias=False)),
        (
            LayerNorm(WIDTH, eps=eps, weight=False, bias=False),
            nn.LayerNorm(WIDTH, eps=eps, elementwise_affine=False),
        ),
        (LayerNorm(WIDTH, eps=eps, weight=False), None),
        (RMSNorm(WIDTH, eps=eps), nn.RMSNorm(WIDTH, eps=eps)),
    ]:
        ours = randomize(ours).to(device, dtype)
        weight, bias = (None if p is None else p.cpu() for p in (ours.weight, getattr(ours, "bias", None)))
        expected = by_hand(rows, weight, bias, eps, centre=isinstance(ours, LayerNorm)).view(shape).to(dtype)
        result = ours(x.to(device))
        assert result.dtype == dtype and result.device.type == device
        torch.testing.assert_close(result.cpu(), expected, **TOLERANCE[dtype])
        if theirs is not None:
            theirs = theirs.to(device, dtype)
            theirs.load_state_dict(ours.state_dict())
            torch.testing.assert_close(result, theirs(x.to(device)), **TOLERANCE[dtype])


@pytest.mark.parametrize("make", [RMSNorm, UnitOffsetRMSNorm])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_single_token_takes_another_path_to_the_same_numbers(dtype, make):
    norm = randomize(make(WIDTH, eps=0.02)).to(dtype)
    x = tokens(dtype)[:1, :1].requires_grad_()
    twice = x.detach().expand(2, 1, WIDTH).clone().requires_grad_()
    alone, together = norm(x), norm(twice)
    tolerance = TOLERANCE.get(dtype, dict(rtol=2**-8, atol=1e-6))
    torch.testing.assert_close(alone[0], together[1], **tolerance)
    alone.square().sum().backward(), together.square().sum().backward()
    gradient = TOLERANCE.get(dtype, dict(rtol=2e-2, atol=2e-2))
    torch.testing.assert_close(x.grad[0], twice.grad[1], **gradient)


@pytest.mark.syllabus("GT-16")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RMSNorm, LlamaRMSNorm),
        (RMSNorm, T5LayerNorm),
        (RMSNorm, Olmo2RMSNorm),
        (UnitOffsetRMSNorm, GemmaRMSNorm),
    ],
)
def test_rms_norm_equals_the_models_of_hugging_face(ours, theirs, dtype, device):
    ours, theirs = (norm(WIDTH, eps=0.02).to(device, dtype) for norm in (ours, theirs))
    assert torch.equal(ours.weight, theirs.weight)  # both start where checkpoints of that kind do
    randomize(ours)
    theirs.load_state_dict(ours.state_dict())
    x = tokens(dtype).to(device)
    # in bfloat16 Llama and T5 round before the scale too: two roundings of 2^-8 at most
    tolerance = TOLERANCE[dtype] if dtype == torch.float32 else dict(rtol=2**-7, atol=1e-3)
    torch.testing.assert_close(ours(x), theirs(x), **tolerance)
    if dtype == torch.bfloat16 and isinstance(theirs, GemmaRMSNorm | Olmo2RMSNorm):  # these round once, as we do
        torch.testing.assert_close(ours(x), theirs(x), rtol=2**-8, atol=1e-6)


@pytest.mark.syllabus("IITD-36", "IITD-38", "IITD-41", "UCL-25")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(9, WIDTH), (BATCH, TOKENS, WIDTH)])
def test_batch_norm_equals_pytorch_over_training_and_evaluation(shape, dtype, device):
    ours = randomize(BatchNorm(WIDTH, eps=0.02, momentum=0.3)).to(device, dtype)
    theirs = nn.BatchNorm1d(WIDTH, eps=0.02, momentum=0.3).to(device, dtype)
    theirs.load_state_dict(ours.state_dict(), strict=False)  # it counts batches too
    for step in range(3):
        x = (randn(*shape, seed=step) * 2 + step).to(device, dtype)
        expected = theirs(x) if len(shape) == 2 else theirs(x.transpose(1, 2)).transpose(1, 2)
        torch.testing.assert_close(ours(x), expected, **TOLERANCE[dtype])
        rows = x.cpu().flatten(0, -2).T
        by_formula = by_hand(rows, eps=0.02).T.to(dtype) * ours.weight.cpu() + ours.bias.cpu()
        torch.testing.assert_close(expected.cpu().flatten(0, -2), by_formula, **TOLERANCE[dtype])
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, **TOLERANCE[dtype])
        torch.testing.assert_close(ours.running_var, theirs.running_var, **TOLERANCE[dtype])
    ours.eval(), theirs.eval()
    expected = theirs(x) if len(shape) == 2 else theirs(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(ours(x), expected, **TOLERANCE[dtype])
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, **TOLERANCE[dtype])  # untouched


@pytest.mark.syllabus("IITD-37")
def test_running_statistics_follow_the_batches():
    norm = BatchNorm(4, momentum=0.25)
    norm(SLIDE)
    torch.testing.assert_close(norm.running_mean, 0.25 * SLIDE.mean(0))
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * SLIDE.var(0))  # of the variance with division by 2
    for _ in range(99):
        norm(SLIDE)
    torch.testing.assert_close(norm.running_var, SLIDE.var(0))
    torch.testing.assert_close(norm.eval()(SLIDE), (SLIDE - SLIDE.mean(0)) / (SLIDE.var(0) + 1e-5).sqrt())


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_leaves_padding_out(training):
    norm = randomize(BatchNorm(WIDTH)).train(training)
    alone = copy.deepcopy(norm)
    x = tokens()
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0]]).bool()
    result = norm(x.masked_fill(~mask[..., None], 1e6), mask)
    torch.testing.assert_close(result[mask], alone(x[mask]))
    assert result[~mask].eq(0).all()
    torch.testing.assert_close(norm.running_var, alone.running_var)


# --- What the lectures state ---


@pytest.mark.syllabus("IITD-39")
def test_a_small_batch_estimates_badly_and_a_batch_of_one_tells_nothing():
    """Estimates get noisier as 1/√B, and only a batch of one carries no information (erratum E-97)."""
    g = torch.Generator().manual_seed(0)
    errors = {size: torch.randn(4000, size, generator=g).mean(1).std().item() for size in (2, 8, 32, 128)}
    for size, error in errors.items():
        assert error == pytest.approx(1 / math.sqrt(size), rel=0.05)
    one = torch.tensor([[5.0, -7.0]])
    assert standardize(one, 0, eps=1e-5).eq(0).all()
    for norm in (BatchNorm(2), nn.BatchNorm1d(2)):
        before = copy.deepcopy(norm.state_dict())
        with pytest.raises(
            ValueError,
            match="at least 2 tokens in training for a variance, but x has 1" if isinstance(norm, BatchNorm) else None,
        ):
            norm(one)
        for name, value in norm.state_dict().items():
            assert torch.equal(value, before[name]) or name == "num_batches_tracked"
        assert norm.eval()(one).isfinite().all()
    two = standardize(torch.tensor([[5.0, -7.0], [6.0, 9.0]]), 0)  # of two it learns at least which is greater
    torch.testing.assert_close(two, torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))


@pytest.mark.syllabus("IITD-38")
def test_scale_and_shift_can_undo_batch_norm():
    norm = BatchNorm(4, eps=1e-12)
    with torch.no_grad():
        norm.weight.copy_(SLIDE.std(0, correction=0))
        norm.bias.copy_(SLIDE.mean(0))
    torch.testing.assert_close(norm(SLIDE), SLIDE)


@pytest.mark.syllabus("IITD-36")
def test_batch_norm_holds_mean_and_variance_still_where_the_layer_below_moves():
    """What the paper calls internal covariate shift; that this is why it helps is disputed (erratum E-12)."""
    norm, moved = BatchNorm(WIDTH), tokens() * 5 - 3
    for x in (tokens(), moved):
        y = norm(x).flatten(0, 1)
        torch.testing.assert_close(y.mean(0), torch.zeros(WIDTH), rtol=0, atol=1e-5)
        torch.testing.assert_close(y.var(0, correction=0), torch.ones(WIDTH), rtol=1e-3, atol=0)
    assert not torch.allclose(moved.mean((0, 1)), tokens().mean((0, 1)), atol=1)


@pytest.mark.syllabus("IITD-40", "IITD-41")
@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_only_batch_norm_depends_on_the_batch_and_on_training(make):
    norm, x = randomize(make()), tokens()
    in_training, alone = norm(x), norm(x[:1])
    in_evaluation = norm.eval()(x)
    if isinstance(norm, BatchNorm):
        assert not torch.allclose(in_training[:1], alone, atol=0.1)
        assert not torch.allclose(in_training, in_evaluation, atol=0.1)
        torch.testing.assert_close(norm(x[:1]), in_evaluation[:1])
    else:
        torch.testing.assert_close(in_training[:1], alone)
        torch.testing.assert_close(in_training, in_evaluation, rtol=0, atol=0)
        torch.testing.assert_close(norm(x[:1, :1]), in_training[:1, :1])  # one token


@pytest.mark.syllabus("CMU-20", "GT-16")
def test_rms_norm_is_layer_norm_on_centred_tokens_and_sees_a_shift_but_no_scale():
    x = tokens(torch.float64)
    rms, layer = RMSNorm(WIDTH, eps=0.0).double(), LayerNorm(WIDTH, eps=0.0, bias=False).double()
    randomize(rms)
    layer.load_state_dict(rms.state_dict())
    centred = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(rms(centred), layer(x), **TOLERANCE[torch.float64])
    torch.testing.assert_close(rms(37 * x), rms(x), **TOLERANCE[torch.float64])
    torch.testing.assert_close(layer(x + 5), layer(x), **TOLERANCE[torch.float64])
    assert not torch.allclose(rms(x + 5), rms(x), atol=0.1)
    slide = x / (sum(x[..., i] ** 2 for i in range(WIDTH)) / WIDTH).sqrt()[..., None]  # with the sum: erratum E-35
    torch.testing.assert_close(rms(x), slide * rms.weight, **TOLERANCE[torch.float64])


@pytest.mark.syllabus("CMU-17", "GT-16", "GT-21")
def test_rms_norm_has_half_the_parameters():
    def count(norm):
        return sum(p.numel() for p in norm.parameters())

    assert count(LayerNorm(WIDTH)) == 2 * WIDTH and count(RMSNorm(WIDTH)) == WIDTH
    assert count(LayerNorm(WIDTH, bias=False)) == WIDTH and count(LayerNorm(WIDTH, weight=False, bias=False)) == 0
    assert LayerNorm(WIDTH).weight.eq(1).all() and LayerNorm(WIDTH).bias.eq(0).all()  # the gain starts at 1


# --- QK-norm ---


def test_qk_norm_on_the_flat_projection_equals_olmo_2():
    heads, kv_heads, d_head = 6, 2, 4
    config = Olmo2Config(
        hidden_size=24,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        rms_norm_eps=0.02,
        attention_bias=True,
    )
    config._attn_implementation = "eager"
    theirs = randomize(Olmo2Attention(config, layer_idx=0))
    x = randn(BATCH, TOKENS, 24)
    seen = {}
    for name in ("q_norm", "k_norm"):
        getattr(theirs, name).register_forward_hook(lambda *call, name=name: seen.update({name: call[2]}))
    turns = torch.ones(BATCH, TOKENS, d_head), torch.zeros(BATCH, TOKENS, d_head)
    theirs(x, position_embeddings=turns, attention_mask=None)
    for name, projection, n in (("q_norm", theirs.q_proj, heads), ("k_norm", theirs.k_proj, kv_heads)):
        ours = AcrossHeads(RMSNorm(n * d_head, eps=0.02))
        ours.norm.load_state_dict(getattr(theirs, name).state_dict())
        split = projection(x).view(BATCH, TOKENS, n, d_head).transpose(1, 2)
        result = ours(split)
        torch.testing.assert_close(result.transpose(1, 2).flatten(2), seen[name], **TOLERANCE[torch.float32])
        per_head = RMSNorm(d_head, eps=0.02)(split)
        assert not torch.allclose(per_head, result, atol=0.1)
        torch.testing.assert_close(per_head.square().mean(-1), torch.ones(BATCH, n, TOKENS), rtol=0, atol=0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_layer_norm_for_each_head_equals_coheres_and_stablelms(dtype):
    from transformers.models.cohere.modeling_cohere import CohereLayerNorm
    from transformers.models.stablelm.modeling_stablelm import StableLmLayerNormPerHead

    heads, d_head = 3, 4
    ours = LayerNormPerHead(heads, d_head, eps=0.02)
    with torch.no_grad():
        ours.weight.copy_(1 + randn(heads, d_head))
    cohere, stablelm = CohereLayerNorm((heads, d_head), eps=0.02), StableLmLayerNormPerHead(d_head, heads, eps=0.02)
    cohere.load_state_dict(ours.state_dict())
    stablelm.load_state_dict({f"norms.{head}.weight": weight for head, weight in enumerate(ours.weight)})
    x = (2 + 3 * randn(BATCH, heads, TOKENS, d_head, seed=1)).to(dtype)
    result = ours.to(dtype)(x)
    assert result.dtype == dtype
    tolerance = dict(rtol=1e-5, atol=1e-5) if dtype != torch.bfloat16 else dict(rtol=0.02, atol=0.02)
    torch.testing.assert_close(result, cohere.to(dtype)(x.transpose(1, 2)).transpose(1, 2), **tolerance)
    torch.testing.assert_close(result, stablelm.to(dtype)(x), **tolerance)
    shared = LayerNorm(d_head, eps=0.02, bias=False).to(dtype)
    shared.weight.data.copy_(ours.weight[0])
    torch.testing.assert_close(shared(x)[:, 0], result[:, 0], **tolerance)
    assert not torch.allclose(shared(x)[:, 1:], result[:, 1:], atol=0.1)


def test_a_layer_norm_for_each_head_is_rounded_once():
    ours = LayerNormPerHead(3, 64).bfloat16()
    ours.weight.data.copy_(1 + randn(3, 64))
    x = randn(2, 3, 50, 64, seed=1).bfloat16()
    exact = copy.deepcopy(ours).double()(x.double())
    assert (ours(x) != exact.bfloat16()).float().mean() < 1e-3  # rounded twice, it would be one in ten


def test_qk_norm_bounds_the_scores():
    """Per head with weight one, a score is a cosine times d_head: it cannot grow with queries and keys."""
    query, key = randn(BATCH, 4, TOKENS, 6), randn(BATCH, 4, 7, 6, seed=1)
    norm = RMSNorm(6)
    scores = norm(1000 * query) @ norm(1000 * key).mT
    cosines = torch.cosine_similarity(query[:, :, :, None], key[:, :, None], dim=-1)
    torch.testing.assert_close(scores, 6 * cosines, **TOLERANCE[torch.float32])


# --- Kinds of numbers, gradients, machines ---


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_bfloat16_is_close_and_large_numbers_do_not_overflow(make, device):
    norm = randomize(make())
    x = tokens().bfloat16()
    expected = norm(x.float())
    low = copy.deepcopy(norm).to(device, torch.bfloat16)
    result = low(x.to(device))
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float().cpu(), expected, rtol=2e-2, atol=2e-2)
    if isinstance(norm, RMSNorm):
        large = (1000 * x).half()  # the square of 4000 is beyond half precision
        result = copy.deepcopy(norm).to(device, torch.float16)(large.to(device))
        torch.testing.assert_close(result.float().cpu(), norm(large.float()), rtol=1e-2, atol=1e-2)
        mixed = copy.deepcopy(norm).to(device)(x.to(device))  # weights in float32: the result is of the tokens' kind
        assert mixed.dtype == torch.bfloat16
        torch.testing.assert_close(mixed.float().cpu(), expected, rtol=2**-8, atol=1e-3)


OF_HEADS = [lambda: AcrossHeads(RMSNorm(WIDTH * TOKENS)), lambda: LayerNormPerHead(WIDTH, TOKENS)]


@pytest.mark.parametrize("make", [*MAKERS, *OF_HEADS], ids=[*NAMES, "across heads", "layer, per head"])
def test_gradients(make):
    norm = randomize(make().double())
    shape = (2, WIDTH, 3, TOKENS) if isinstance(norm, AcrossHeads | LayerNormPerHead) else (2, 3, WIDTH)
    x = randn(*shape, dtype=torch.float64).requires_grad_()
    parameters = dict(norm.named_parameters())

    def function(x, *values):
        return torch.func.functional_call(norm, dict(zip(parameters, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(function, (x, *parameters.values()))


@pytest.mark.parametrize("make", [RMSNorm, UnitOffsetRMSNorm, LayerNorm])
def test_a_token_of_zeros_stays_zero_with_finite_gradients(make):
    norm, x = make(WIDTH), torch.zeros(2, WIDTH, requires_grad=True)
    y = norm(x)
    y.sum().backward()
    assert y.eq(0).all() and x.grad.isfinite().all()


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_state_goes_through_a_state_dict_and_the_meta_device(make):
    first, second = randomize(make(), 1), randomize(make(), 2)
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(second.eval()(tokens()), first.eval()(tokens()), rtol=0, atol=0)
    assert make().to("meta")(tokens().to("meta")).shape == (BATCH, TOKENS, WIDTH)


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.normalization import *\n"
        "x = torch.randn(3, 5, 7)\n"
        "for m in (BatchNorm(7), LayerNorm(7), RMSNorm(7), UnitOffsetRMSNorm(7), AcrossHeads(RMSNorm(21))):\n"
        "    torch._dynamo.reset()\n"
        "    f, z = torch.compile(m, fullgraph=True, backend='eager'), x[:, :, None] if hasattr(m, 'norm') else x\n"
        "    z = z.expand(3, 5, 3, 7).transpose(1, 2) if hasattr(m, 'norm') else z\n"
        "    for y in (z, z[:2]):\n"
        "        torch.testing.assert_close(f(y), m(y))\n"
        "        torch.testing.assert_close(f(y.bfloat16()), m(y.bfloat16())) if isinstance(m, RMSNorm) else None"
    )
    run_without_shape_checks(code)


# --- Bad input ---


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BatchNorm(0), "n_features=0 must be at least 1"),
        (lambda: LayerNorm(0), "d_model=0 must be at least 1"),
        (lambda: RMSNorm(-1), "d_model=-1 must be at least 1"),
        (lambda: UnitOffsetRMSNorm(3, eps=-1e-6), "eps=-1e-06 must be at least 0"),
        (lambda: LayerNorm(3, eps=float("nan")), "eps=nan must be at least 0"),
        (lambda: BatchNorm(3, eps=0.0), "eps=0.0 must be above 0"),
        (lambda: BatchNorm(3, momentum=0.0), "momentum=0.0 must be above 0 and at most 1"),
        (lambda: BatchNorm(3, momentum=1.5), "momentum=1.5 must be above 0 and at most 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
@pytest.mark.parametrize("width", [1, WIDTH + 1])
def test_tokens_of_another_width_are_refused(make, width):
    """Width 1 would broadcast against the weight and give an answer."""
    with pytest.raises(ValueError, match=rf"x has shape \(2, {width}\); its last axis must be 7"):
        make()(torch.ones(2, width))


def test_a_batch_that_is_all_padding_but_one_is_refused_in_training():
    mask = torch.zeros(2, 3, dtype=torch.bool)
    mask[1, 2] = True
    with pytest.raises(ValueError, match="at least 2 tokens in training for a variance, but x has 1"):
        BatchNorm(WIDTH)(torch.ones(2, 3, WIDTH), mask)


# --- Planted faults ---


def test_variance_in_place_of_the_mean_square_is_seen(monkeypatch):
    def centred(x, weight, eps):
        return x * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps) * weight

    monkeypatch.setattr(normalization, "_rms_norm", centred)
    ours, theirs = RMSNorm(WIDTH), LlamaRMSNorm(WIDTH)
    assert not torch.allclose(ours(tokens()), theirs(tokens()), atol=0.05)
