"""RoPE against Hugging Face's models, a loop written from the formula, and the properties that lectures state."""

import copy
import math
from itertools import product

import pytest
import torch
import transformers
from layers.pairs import each_pair
from randomness import randn, randomize
from torch import nn
from transformers import modeling_rope_utils

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.positions import rotation
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.rotary import (
    DynamicNTKScaling,
    Frequencies,
    HalfSplitRotary,
    InterleavedRotary,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    Rotary,
    YaRNScaling,
    decay_bound,
    interleaved_to_half_split,
    multiply_pairs,
    rotate_by_matrix,
    rotate_complex,
    rotate_efficient,
)
from llm_anatomy.models.generation import beam_search, generate
from llm_anatomy.models.transformer import Transformer

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
CLASSES = [InterleavedRotary, HalfSplitRotary]
FORMS = [rotate_by_matrix, rotate_complex, rotate_efficient]
SCALINGS = [
    Frequencies(),
    LinearScaling(3.0),
    NTKScaling(3.0),
    YaRNScaling(4.0, original_max_position_embeddings=600),
    Llama3Scaling(8.0, original_max_position_embeddings=900),
]
BATCH, HEADS, TOKENS, D_HEAD = 3, 5, 7, 16
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}

# Padding on the left, a cache of 40 tokens, a packed row that starts anew.
POSITIONS = torch.tensor([[0, 0, 0, 1, 2, 3, 4], [40, 41, 42, 43, 44, 45, 46], [9, 10, 11, 0, 1, 2, 700]])


def slow_rotation(x, positions, frequencies, first, second):
    """From the 2 x 2 matrix of the paper, one number at a time; pair i is (first[i], second[i]), the rest stays."""
    y = x.clone()
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in x.shape[:3])).tolist():
        m = positions[b % len(positions), t].item()
        for frequency, i, j in zip(frequencies.tolist(), first, second, strict=True):
            cos, sin = math.cos(m * frequency), math.sin(m * frequency)
            y[b, h, t, i] = cos * x[b, h, t, i] - sin * x[b, h, t, j]
            y[b, h, t, j] = sin * x[b, h, t, i] + cos * x[b, h, t, j]
    return y


def pairs_of(cls, width):
    entries = list(range(width))
    return (
        (entries[0::2], entries[1::2]) if cls is InterleavedRotary else (entries[: width // 2], entries[width // 2 :])
    )


# --- Equal to the formula and to Hugging Face ---

WIDTHS = [(16, 16), (6, 16), (2, 5), (6, 9)]  # that are rotated, and those of a head
ROWS_OF_POSITIONS = {"own": POSITIONS, "shared": POSITIONS[2:], "negative": -POSITIONS.int()}


@pytest.mark.syllabus("IITD-25", "IITD-26", "IITD-28", "CMU-31", "GT-35", "UCL-28")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, widths, positions", each_pair(TOLERANCE, WIDTHS, ROWS_OF_POSITIONS))
@pytest.mark.parametrize("cls", CLASSES)
def test_both_pairings_equal_a_slow_loop(cls, positions, widths, dtype, device):
    positions, (d_rotary, d_head) = ROWS_OF_POSITIONS[positions], widths
    x = randn(BATCH, HEADS, TOKENS, d_head, dtype=dtype)
    module = cls(d_rotary, base=500.0).to(device)
    exact = 500.0 ** (-torch.arange(0, d_rotary, 2, dtype=torch.float64) / d_rotary)
    torch.testing.assert_close(module.frequencies.cpu().double(), exact, rtol=1e-6, atol=0)
    frequencies = module.frequencies.cpu().double()  # what float32 made of them
    expected = slow_rotation(x.double(), positions, frequencies, *pairs_of(cls, d_rotary)).to(dtype)
    result = module.rotate(x.to(device), positions.to(device))
    assert result.dtype == dtype and result.device.type == device
    torch.testing.assert_close(result.cpu(), expected, **TOLERANCE[dtype])
    torch.testing.assert_close(result[..., d_rotary:].cpu(), x[..., d_rotary:], rtol=0, atol=0)


@pytest.mark.syllabus("IITD-25", "IITD-28")
@pytest.mark.parametrize("leading", [(), (3,), (3, 5), (3, 1, 5), (3, 2, 1, 5)], ids=len)
@pytest.mark.parametrize("d_rotary", [16, 6])
@pytest.mark.parametrize("cls", CLASSES)
def test_any_leading_dimensions_equal_complex_numbers(cls, d_rotary, leading):
    """The first dimension is the batch of positions (batch, tokens); positions (tokens,) are those of all."""
    x, module = randn(*leading, TOKENS, D_HEAD, dtype=torch.float64), cls(d_rotary, base=500.0)
    first, second = pairs_of(cls, d_rotary)
    choices = [POSITIONS[0], POSITIONS[2].int()] + [POSITIONS, POSITIONS[1:2]] * bool(leading)
    for positions in choices:
        expected = x.clone()
        for at in product(*map(range, leading)):
            row = positions if positions.ndim == 1 else positions[at[0] % len(positions)]
            turns = torch.exp(1j * row[:, None] * module.frequencies.double())  # (tokens, pairs)
            turned = torch.complex(x[at][:, first], x[at][:, second]) * turns
            expected[at][:, first], expected[at][:, second] = turned.real, turned.imag
        torch.testing.assert_close(module.rotate(x, positions), expected)
        tables = module.tables(positions, x.dtype)
        torch.testing.assert_close(module.rotate(x, positions, tables), expected)


@pytest.mark.parametrize("shape", [(0, 5, 7, 16), (3, 5, 0, 16), (0, 7, 16), (3, 0, 16), (0, 16), (0, 2, 5, 0, 16)])
@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_to_rotate(cls, shape):
    x, tokens = torch.zeros(shape, requires_grad=True), shape[-2]
    for positions in [torch.arange(tokens)] + [torch.zeros(shape[0], tokens, dtype=torch.long)] * (len(shape) > 2):
        turned = cls(6).rotate(x, positions)
        assert turned.shape == shape
        assert torch.autograd.grad(turned.sum(), x)[0].shape == shape


def llama_tables(config_class, rotary_class, **rope_parameters):
    config = config_class(
        hidden_size=HEADS * D_HEAD,
        num_attention_heads=HEADS,
        head_dim=D_HEAD,
        max_position_embeddings=rope_parameters.pop("max_position_embeddings", 600),
        rope_parameters=rope_parameters,
    )
    return rotary_class(config)


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=600, max_position_embeddings=2400)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)


@pytest.mark.syllabus("IITD-15", "IITD-30")
@pytest.mark.parametrize(
    ("scaling", "parameters"),
    [
        (None, dict(rope_type="default")),
        (LinearScaling(3.0), dict(rope_type="linear", factor=3.0)),
        (NTKScaling(1.0), dict(rope_type="dynamic", factor=3.0, max_position_embeddings=701)),  # not exceeded
        (
            NTKScaling.for_length(701, original_max_position_embeddings=300, factor=3.0),
            dict(rope_type="dynamic", factor=3.0, n=300),
        ),
        (YaRNScaling(4.0, original_max_position_embeddings=600), YARN),
        (
            YaRNScaling(4.0, original_max_position_embeddings=600, beta_fast=20.0, beta_slow=2.0),
            YARN | dict(beta_fast=20.0, beta_slow=2.0),
        ),
        (
            YaRNScaling(4.0, original_max_position_embeddings=600, attention_factor=0.9),
            YARN | dict(attention_factor=0.9),
        ),
        (Llama3Scaling(8.0, original_max_position_embeddings=900), LLAMA3 | dict(original_max_position_embeddings=900)),
    ],
)
@pytest.mark.parametrize("base, dtype", [(100.0, torch.float32), (500000.0, torch.float64), (100.0, torch.bfloat16)])
def test_half_split_equals_llama_under_every_scaling(scaling, parameters, base, dtype):
    from transformers.models.llama import modeling_llama as hf

    parameters = dict(parameters)
    if "n" in parameters:
        parameters["max_position_embeddings"] = parameters.pop("n")
    peer = llama_tables(hf.LlamaConfig, hf.LlamaRotaryEmbedding, rope_theta=base, **parameters)
    query, key = (randn(BATCH, HEADS, TOKENS, D_HEAD, seed=s, dtype=dtype) for s in (1, 2))
    cos, sin = peer(query, POSITIONS)
    expected = hf.apply_rotary_pos_emb(query, key, cos, sin)
    ours = HalfSplitRotary(D_HEAD, base, scaling)
    torch.testing.assert_close(ours.frequencies, peer.inv_freq, rtol=1e-6, atol=0)
    # Their tables are float32 whatever the dtype; ours follow float64.
    tolerance = dict(rtol=2e-2, atol=4e-2) if dtype == torch.bfloat16 else TOLERANCE[torch.float32]
    for result, reference in zip((ours.rotate(query, POSITIONS), ours.rotate(key, POSITIONS)), expected, strict=True):
        torch.testing.assert_close(result, reference, **tolerance)


@pytest.mark.parametrize("d_rotary", [8, 64, 128])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_scalings_equal_hugging_face_at_the_sizes_of_real_models(d_rotary, base):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def theirs(kind, seq_len=None, **parameters):
        config = LlamaConfig(
            hidden_size=2 * d_rotary,
            num_attention_heads=2,
            max_position_embeddings=8192,
            rope_parameters=dict(rope_theta=base, rope_type=kind, **parameters),
        )
        return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)

    old = dict(original_max_position_embeddings=8192)
    for ours, (frequencies, attention_factor) in [
        (LinearScaling(2.5), theirs("linear", factor=2.5)),
        (NTKScaling.for_length(20000, 8192, 2.0), theirs("dynamic", seq_len=20000, factor=2.0)),
        (NTKScaling.for_length(20, 8192, 2.0), theirs("dynamic", seq_len=20, factor=2.0)),
        (YaRNScaling(16.0, 8192), theirs("yarn", factor=16.0, **old)),
        (
            Llama3Scaling(8.0, 8192),
            theirs("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **old),
        ),
    ]:
        torch.testing.assert_close(ours(d_rotary, base), frequencies, rtol=1e-5, atol=0)
        assert ours.attention_scaling == pytest.approx(attention_factor)


@pytest.mark.parametrize(("base", "length"), [(4.9, 4096), (4.4, 4), (10000.0, 4), (500.0, 32), (1e6, 10**7)])
def test_yarn_equals_hugging_face_where_its_bounds_are_beyond_all_planes(base, length):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = dict(rope_type="yarn", rope_theta=base, factor=8.0, original_max_position_embeddings=length)
    for d_rotary in (2, 10, 64):
        config = LlamaConfig(hidden_size=d_rotary, num_attention_heads=1, rope_parameters=dict(rope))
        expected = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")[0]
        torch.testing.assert_close(YaRNScaling(8.0, length)(d_rotary, base), expected, rtol=1e-5, atol=0)


@pytest.mark.syllabus("IITD-15", "IITD-30")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_interleaved_equals_cohere(dtype):
    from transformers.models.cohere import modeling_cohere as hf

    peer = llama_tables(hf.CohereConfig, hf.CohereRotaryEmbedding, rope_theta=300.0, rope_type="default")
    query, key = (randn(BATCH, HEADS, TOKENS, D_HEAD, seed=s, dtype=dtype) for s in (1, 2))
    expected = hf.apply_rotary_pos_emb(query, key, *peer(query, POSITIONS))
    ours = InterleavedRotary(D_HEAD, base=300.0)
    tolerance = dict(rtol=2e-2, atol=4e-2) if dtype == torch.bfloat16 else TOLERANCE[dtype]
    for result, reference in zip((ours.rotate(query, POSITIONS), ours.rotate(key, POSITIONS)), expected, strict=True):
        torch.testing.assert_close(result, reference, **tolerance)


@pytest.mark.syllabus("IITD-15", "GT-33")
def test_interleaved_equals_roformer():
    from transformers.models.roformer import modeling_roformer as hf

    table = hf.RoFormerSinusoidalPositionalEmbedding(800, D_HEAD)
    with torch.no_grad():
        table.weight.copy_(table.create_weight())
    query, key = (randn(BATCH, HEADS, TOKENS, D_HEAD, seed=s) for s in (1, 2))
    sinusoids = table(None, position_ids=POSITIONS)[:, None]
    expected = hf.RoFormerSelfAttention.apply_rotary_position_embeddings(sinusoids, query, key)
    ours = InterleavedRotary(D_HEAD)
    for result, reference in zip((ours.rotate(query, POSITIONS), ours.rotate(key, POSITIONS)), expected, strict=True):
        torch.testing.assert_close(result, reference, **TOLERANCE[torch.float32])


def attend(query, key, value, positions, scheme):
    """Causal attention with the scheme's rotation, written out; heads merged at the end."""
    query, key = scheme.rotate(query, positions), scheme.rotate(key, positions)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return (scores.masked_fill(hidden, -math.inf).softmax(-1) @ value).transpose(1, 2).flatten(2)


def heads_of(x):
    return x.unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)


def gptj_attention(x):
    """Output of Hugging Face's module, and ours as a function of the scheme."""
    from transformers.models.gptj import modeling_gptj as hf

    config = hf.GPTJConfig(n_embd=HEADS * D_HEAD, n_head=HEADS, rotary_dim=6, n_positions=800, attn_pdrop=0.0)
    module = randomize(hf.GPTJAttention(config, layer_idx=0)).to(x.dtype)
    expected = module(x, attention_mask=future(x), position_ids=POSITIONS)[0]
    query, key, value = (heads_of(p(x)) for p in (module.q_proj, module.k_proj, module.v_proj))
    return expected, lambda scheme: module.out_proj(attend(query, key, value, POSITIONS, scheme))


def neox_attention(x):
    from transformers.models.gpt_neox import modeling_gpt_neox as hf

    parameters = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.375)
    config = hf.GPTNeoXConfig(hidden_size=HEADS * D_HEAD, num_attention_heads=HEADS, rope_parameters=parameters)
    config._attn_implementation = "eager"
    module = randomize(hf.GPTNeoXAttention(config, layer_idx=0)).to(x.dtype)
    tables = hf.GPTNeoXRotaryEmbedding(config)(x, POSITIONS)
    expected = module(x, attention_mask=future(x), position_embeddings=tables)[0]
    query, key, value = module.query_key_value(x).unflatten(-1, (HEADS, 3 * D_HEAD)).transpose(1, 2).chunk(3, -1)
    return expected, lambda scheme: module.dense(attend(query, key, value, POSITIONS, scheme))


def future(x):
    return torch.full((1, 1, TOKENS, TOKENS), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)


@pytest.mark.syllabus("IITD-15", "CMU-32")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("peer", "cls"), [(gptj_attention, InterleavedRotary), (neox_attention, HalfSplitRotary)])
def test_attention_with_partial_rotation_equals_the_models_and_faults_are_seen(peer, cls, dtype):
    """GPT-J and GPT-NeoX are the adopters that the slide means; GPT-Neo has learned positions (erratum E-07)."""
    expected, ours = peer(randn(BATCH, TOKENS, HEADS * D_HEAD, dtype=dtype))
    # float32 tables inside theirs, softmax in float32 inside GPT-J
    torch.testing.assert_close(ours(cls(6)), expected, **TOLERANCE[torch.float32])
    other = CLASSES[cls is InterleavedRotary]
    for fault in (cls(6, base=1000.0), cls(16), cls(4), other(6), cls(6, frequencies=LinearScaling(1.1))):
        assert (ours(fault) - expected).abs().max() > 0.01


# --- The forms ---


@pytest.mark.syllabus("IITD-25", "IITD-26", "IITD-30", "CMU-30", "CMU-31", "GT-36")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_three_forms_and_the_classes_agree(dtype):
    x = randn(BATCH, HEADS, TOKENS, 10, dtype=dtype)
    module = InterleavedRotary(10)
    angles = POSITIONS[:, None, :, None].to(dtype) * module.frequencies.to(dtype)
    expected = rotate_by_matrix(x, angles)
    for result in (rotate_complex(x, angles), rotate_efficient(x, angles), module.rotate(x, POSITIONS)):
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)
    halves = HalfSplitRotary(10).rotate(interleaved_to_half_split(x), POSITIONS)
    torch.testing.assert_close(halves, interleaved_to_half_split(expected), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(HalfSplitRotary(10).rotate(x, POSITIONS), expected, atol=0.1)


@pytest.mark.syllabus("IITD-30")
def test_erratum_e01_last_two_entries_of_the_shuffled_vector(monkeypatch):
    x, angles = torch.arange(1.0, 9.0)[None], 3 * Frequencies()(8, 10000.0)[None]
    right = rotate_efficient(x, angles)
    torch.testing.assert_close(right, rotate_by_matrix(x, angles), rtol=0, atol=1e-6)
    assert [round(v, 4) for v in right[0, -2:].tolist()] == [6.9760, 8.0210]
    assert round(right.norm().item(), 4) == round(x.norm().item(), 4) == 14.2829
    shuffle = rotation.rotate_every_two

    def on_the_slide(x):  # ends in -x_{d-1}, x_d
        return torch.cat((shuffle(x)[..., :-2], -x[..., -2:-1], x[..., -1:]), -1)

    monkeypatch.setattr(rotation, "rotate_every_two", on_the_slide)
    wrong = rotate_efficient(x, angles)
    assert [round(v, 4) for v in wrong[0, -2:].tolist()] == [6.9790, 8.0240]
    assert round(wrong.norm().item(), 4) == 14.2860
    torch.testing.assert_close(wrong[0, :-2], right[0, :-2])
    ones = torch.ones_like(x)  # hides the slip
    torch.testing.assert_close(rotate_efficient(ones, angles), rotate_by_matrix(ones, angles))


@pytest.mark.syllabus("IITD-25", "IITD-26", "CMU-30", "UCL-28")
def test_rotations_compose():
    """R_m R_n = R_{m+n}; R_m transposed is R_{-m}; so R_m^T R_n = R_{n-m}, and R_1 to the power i is R_i."""
    frequencies = Frequencies()(8, 10000.0).double()

    def matrix(m):
        return rotate_by_matrix(torch.eye(8, dtype=torch.float64), (m * frequencies).expand(8, -1)).T

    for m, n in [(3, 4), (11, -5), (0, 9)]:
        torch.testing.assert_close(matrix(m) @ matrix(n), matrix(m + n))
        torch.testing.assert_close(matrix(m).T @ matrix(n), matrix(n - m))
        torch.testing.assert_close(matrix(m).T @ matrix(m), torch.eye(8, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.matrix_power(matrix(1), 6), matrix(6))
    # Erratum E-90: which difference stands in the middle depends on which vector comes first.
    key, query = randn(2, 8, dtype=torch.float64)
    score = (matrix(5) @ key) @ (matrix(2) @ query)
    torch.testing.assert_close(score, key @ matrix(2 - 5) @ query)
    torch.testing.assert_close(score, query @ matrix(5 - 2) @ key)


@pytest.mark.syllabus("IITD-26")
def test_erratum_e02_the_query_projection_is_transposed():
    """With W_q that is not square the slide's product does not even exist; transposed it is the score."""
    frequencies = Frequencies()(4, 10000.0).double()
    w_query, w_key = randn(2, 4, 6, dtype=torch.float64)
    x_m, x_n = randn(2, 6, seed=1, dtype=torch.float64)
    rotation = rotate_by_matrix(torch.eye(4, dtype=torch.float64), ((9 - 2) * frequencies).expand(4, -1)).T
    scheme = InterleavedRotary(4)
    query = scheme.rotate((w_query @ x_m)[None, None, None], torch.tensor([[2]]))
    key = scheme.rotate((w_key @ x_n)[None, None, None], torch.tensor([[9]]))
    torch.testing.assert_close((query * key).sum(), x_m @ w_query.T @ rotation @ w_key @ x_n)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        x_m @ w_query @ rotation @ w_key @ x_n


# --- What the lectures claim ---


@pytest.mark.syllabus("IITD-24", "IITD-25", "IITD-27", "CMU-28", "CMU-29", "GT-34", "GT-52")
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("cls", CLASSES)
def test_scores_depend_on_the_difference_only_and_lengths_are_kept(cls, scaling):
    query, key = (randn(BATCH, HEADS, TOKENS, D_HEAD, seed=s, dtype=torch.float64) for s in (1, 2))
    scheme = cls(10, frequencies=scaling)

    def scores(positions):
        return scheme.rotate(query, positions) @ scheme.rotate(key, positions).mT

    for shift in (1, 37, 100_000, -3):
        shifted = POSITIONS + shift
        torch.testing.assert_close(scores(shifted), scores(POSITIONS), rtol=0, atol=1e-9)
        # Erratum E-95: the turned vectors themselves do change, their lengths do not.
        assert not torch.allclose(scheme.rotate(query, shifted), scheme.rotate(query, POSITIONS), atol=0.1)
    assert not torch.allclose(scores(POSITIONS * 2), scores(POSITIONS), atol=0.1)
    turned = scheme.rotate(query, POSITIONS)
    before, after = (x[..., :10].norm(dim=-1) for x in (query, turned))
    torch.testing.assert_close(after, before * scaling.attention_scaling)


@pytest.mark.syllabus("IITD-27")
def test_shift_in_float32():
    """At small positions the difference is all that scores see, to 1e-5; far out float32 angles are coarser."""
    x, y = (torch.nn.functional.normalize(randn(1, 1, 1, 8, seed=s), dim=-1) for s in (1, 2))
    scheme = InterleavedRotary(8)

    def score(m, n):
        return (scheme.rotate(x, torch.tensor([[m]])) * scheme.rotate(y, torch.tensor([[n]]))).sum()

    for m, n, shift in [(0, 3, 5), (7, 2, 20), (1, 30, 50)]:
        assert abs(score(m, n) - score(m + shift, n + shift)) < 1e-5


@pytest.mark.syllabus("CMU-28", "CMU-29", "IITD-24")
def test_the_angle_between_unit_vectors_changes_by_the_difference_times_theta():
    scheme, theta = InterleavedRotary(2), 1.0
    query, key = ([math.cos(a), math.sin(a)] for a in (0.4, 0.9))

    def angle(j, i):
        q = scheme.rotate(torch.tensor(query)[None, None, None], torch.tensor([[j]])).flatten()
        k = scheme.rotate(torch.tensor(key)[None, None, None], torch.tensor([[i]])).flatten()
        return math.atan2(q[0] * k[1] - q[1] * k[0], q @ k)

    for j, i in [(0, 0), (3, 4), (5, 3), (12, 13)]:
        assert angle(j, i) == pytest.approx(0.5 + (i - j) * theta, abs=1e-5)
    assert abs(angle(0, 6)) < abs(angle(0, 0))  # erratum E-72: six steps away is nearly once around, hence closer


@pytest.mark.syllabus("CMU-31", "CMU-32", "GT-36")
def test_frequencies_and_the_table_of_angles():
    frequencies = Frequencies()(128, 10000.0)
    assert len(frequencies) == 64  # errata E-39, E-40, E-53: d/2 of them, numbered by the pair
    assert frequencies[0] == 1 and frequencies[-1].item() == pytest.approx(1.155e-4, rel=1e-3)
    tables = InterleavedRotary(8).tables(torch.arange(8)[None], torch.float64)[0]
    expected = torch.arange(8.0)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
    turns = torch.stack((expected.cos(), expected.sin()), -1)
    torch.testing.assert_close(tables[0, 0].float(), turns, rtol=1e-5, atol=1e-6)


@pytest.mark.syllabus("IITD-29", "GT-36", "GT-52")
def test_long_term_decay_is_a_rippling_bound():
    """Erratum E-72: neither the curve nor the scores under it fall throughout."""
    frequencies = Frequencies()(128, 10000.0).double()
    distances = torch.tensor([0, 1, 2, 5, 10, 20, 50, 100, 200, 250])
    expected = [32.50, 31.54, 28.96, 20.85, 17.95, 15.24, 12.63, 10.23, 7.24, 6.55]
    assert [round(v, 2) for v in decay_bound(frequencies, distances).tolist()] == expected
    curve = decay_bound(frequencies, torch.arange(20))
    assert [round(v, 3) for v in curve[18:].tolist()] == [15.349, 15.391] and (curve[1:19] < curve[:18]).all()
    ones, positions = torch.ones(1, 1, 251, 128, dtype=torch.float64), torch.arange(251)[None]
    keys = InterleavedRotary(128).rotate(ones, positions)[0, 0]
    scores = keys @ keys[0]
    assert [round(scores[i].item(), 2) for i in (0, 200, 250)] == [128.0, 39.13, 39.30]
    # all h_i of ones are 2 (real and imaginary part cancel), so that only the last difference, 2, is not zero
    bound = 2 * 64 * decay_bound(frequencies, torch.arange(251))
    assert (scores.abs() <= bound + 1e-9).all() and round(bound[200].item()) == 927


@pytest.mark.syllabus("GT-35")
def test_turning_values_would_break_the_shift_test():
    query, key, value = (randn(1, 2, TOKENS, 8, seed=s, dtype=torch.float64) for s in (1, 2, 3))
    scheme, positions = InterleavedRotary(8), POSITIONS[1:2]

    def output(positions, value):
        weights = (scheme.rotate(query, positions) @ scheme.rotate(key, positions).mT).softmax(-1)
        return weights @ value

    torch.testing.assert_close(output(positions, value), output(positions + 5, value))
    turned, later = (output(p, scheme.rotate(value, p)) for p in (positions, positions + 5))
    assert (turned - later).abs().max() > 0.1


@pytest.mark.syllabus("GT-52")
def test_linear_attention_with_rotated_numerator():
    """The running sum equals the direct sum; weights see the difference only, may be negative, need not sum to one."""
    query, key = (nn.functional.elu(randn(1, 1, TOKENS, 6, seed=s, dtype=torch.float64)) + 1 for s in (1, 2))
    value, scheme = randn(1, 1, TOKENS, 5, seed=3, dtype=torch.float64)[0, 0], InterleavedRotary(6)

    def direct(positions):
        turned = [scheme.rotate(x, positions)[0, 0] for x in (query, key)]
        return (turned[0] @ turned[1].T).tril() / (query @ key.mT)[0, 0].tril().sum(-1, keepdim=True)

    weights = direct(torch.arange(TOKENS)[None])
    torch.testing.assert_close(direct(torch.arange(TOKENS)[None] + 30), weights)
    assert (weights < 0).any() and not torch.allclose(weights.sum(-1), torch.ones(TOKENS, dtype=torch.float64))
    positions, memory, norm = torch.arange(TOKENS)[None], 0, 0
    rotated_query, rotated_key = (scheme.rotate(x, positions)[0, 0] for x in (query, key))
    for t in range(TOKENS):
        memory, norm = memory + torch.outer(rotated_key[t], value[t]), norm + key[0, 0, t]
        torch.testing.assert_close(rotated_query[t] @ memory / (query[0, 0, t] @ norm), (weights @ value)[t])


@pytest.mark.syllabus("GT-52")
@pytest.mark.parametrize("cls", CLASSES)
def test_token_by_token_equals_all_at_once(cls):
    """What a cache needs: a key is turned once, by its own position, at any length."""
    x, scheme = randn(BATCH, HEADS, TOKENS, D_HEAD), cls(D_HEAD)
    steps = [scheme.rotate(x[:, :, t : t + 1], POSITIONS[:, t : t + 1]) for t in range(TOKENS)]
    torch.testing.assert_close(torch.cat(steps, 2), scheme.rotate(x, POSITIONS))
    assert scheme.rotate(x, POSITIONS + 10**6).isfinite().all()


def test_yarn_temperature_divides_scores():
    plain, scaled = (YaRNScaling(4.0, 600, attention_factor=f) for f in (1.0, None))
    assert scaled.attention_scaling == pytest.approx(0.1 * math.log(4) + 1)
    query, key = (randn(BATCH, HEADS, TOKENS, 8, seed=s) for s in (1, 2))
    scores = [
        scheme.rotate(query, POSITIONS) @ scheme.rotate(key, POSITIONS).mT
        for scheme in (HalfSplitRotary(8, frequencies=plain), HalfSplitRotary(8, frequencies=scaled))
    ]
    torch.testing.assert_close(scores[1], scores[0] * (0.1 * math.log(4) + 1) ** 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scaling", SCALINGS[1:], ids=lambda s: type(s).__name__)
def test_every_scaling_leaves_the_fast_and_slows_the_slow(scaling):
    before, after = Frequencies()(16, 10000.0), scaling(16, 10000.0)
    ratio = before / after
    assert ratio[-1].item() == pytest.approx(scaling.factor, rel=1e-5) and (ratio.diff() >= -1e-5).all()
    if not isinstance(scaling, LinearScaling):
        assert ratio[0].item() == pytest.approx(1)
    torch.testing.assert_close(type(scaling)(**{**vars(scaling), "factor": 1.0})(16, 10000.0), before)


# --- Dtypes, gradients, kept tables, devices, compilation, refusals ---


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cls", CLASSES)
def test_half_precision_stays_close_even_far_out_and_after_the_module_is_cast(cls, dtype):
    x, far = randn(BATCH, HEADS, TOKENS, D_HEAD, dtype=dtype), POSITIONS + 30_000
    expected = cls(D_HEAD).rotate(x.float(), far)
    for module in (cls(D_HEAD), cls(D_HEAD).to(dtype), nn.Sequential(cls(D_HEAD)).to(dtype)[0]):
        assert module.frequencies.dtype == torch.float32
        result = module.rotate(x, far)
        assert result.dtype == dtype
        torch.testing.assert_close(result.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("d_head", [6, 9])
def test_gradients(cls, d_head):
    scheme = cls(6, frequencies=YaRNScaling(4.0, 600))
    x, positions = randn(2, 1, 3, d_head, dtype=torch.float64).requires_grad_(), POSITIONS[:2, :3]
    assert torch.autograd.gradcheck(lambda x: scheme.rotate(x, positions), x)
    assert torch.autograd.gradgradcheck(lambda x: scheme.rotate(x, positions).square(), x)
    unchanged = x.detach().clone()
    scheme.rotate(x, positions)
    assert torch.equal(x, unchanged)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_context_makes_tables_once_and_for_each_scheme_and_dtype_its_own(cls):
    scheme, other, x = cls(D_HEAD), cls(D_HEAD, base=100.0), randn(BATCH, HEADS, TOKENS, D_HEAD)
    context = PositionContext(POSITIONS)
    tables = context.tables(scheme, torch.float32)
    assert context.tables(scheme, torch.float32) is tables
    assert torch.equal(scheme.rotate(x, POSITIONS, tables), scheme.rotate(x, POSITIONS))
    assert torch.equal(other.rotate(x, POSITIONS, context.tables(other, x.dtype)), other.rotate(x, POSITIONS))
    wide = x.double()
    assert torch.equal(
        scheme.rotate(wide, POSITIONS, context.tables(scheme, wide.dtype)), scheme.rotate(wide, POSITIONS)
    )
    assert context.tables(scheme, torch.float32) is tables


@pytest.mark.parametrize("cls", CLASSES)
def test_a_scheme_keeps_nothing_from_call_to_call(cls):
    """A call in inference mode, or at other positions, leaves no tensor behind that a later call could meet."""
    scheme, x = cls(D_HEAD), randn(BATCH, HEADS, TOKENS, D_HEAD).requires_grad_()
    before = set(vars(scheme))
    with torch.inference_mode():
        scheme.rotate(x, POSITIONS + 1)
    assert set(vars(scheme)) == before
    scheme.rotate(x, POSITIONS).sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("cls", CLASSES)
def test_every_layout_in_memory(cls):
    """As attention makes them: heads moved forward, cut from a wider tensor at an odd position, one token of many."""
    scheme, x = cls(6), randn(BATCH, HEADS, TOKENS, 6)
    expected = scheme.rotate(x, POSITIONS)
    cut = torch.nn.functional.pad(x, (3, 2))[..., 3:-2]  # odd offset, odd strides
    moved = x.transpose(1, 2).contiguous().transpose(1, 2)
    turned_round = x.mT.contiguous().mT
    for layout in (cut, moved, turned_round):
        assert not layout.is_contiguous()
        torch.testing.assert_close(scheme.rotate(layout, POSITIONS), expected)
    torch.testing.assert_close(scheme.rotate(cut[:, :, 2:3], POSITIONS[:, 2:3]), expected[:, :, 2:3])
    quarter = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    assert multiply_pairs(torch.arange(5.0)[1:], quarter).tolist() == [-2, 1, -4, 3]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cls", CLASSES)
def test_built_on_meta_state_dict_and_copies(cls, device):
    x = randn(BATCH, HEADS, TOKENS, D_HEAD).to(device)
    scheme = cls(D_HEAD, base=300.0).to(device)
    expected = scheme.rotate(x, POSITIONS.to(device))
    assert not scheme.state_dict() and not list(scheme.parameters())
    cls(D_HEAD).load_state_dict(scheme.state_dict())
    torch.testing.assert_close(copy.deepcopy(scheme).rotate(x, POSITIONS.to(device)), expected)
    with torch.device("meta"):
        late = cls(D_HEAD, base=300.0)
    torch.testing.assert_close(late.to_empty(device=device).rotate(x, POSITIONS.to(device)), expected)
    assert cls(D_HEAD).to("meta").rotate(x.to("meta"), POSITIONS.to("meta")).shape == x.shape


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.positions.rotary import *\n"
        "x = torch.randn(3, 5, 7, 16); positions = torch.randint(0, 99, (3, 7))\n"
        "for m in (InterleavedRotary(16), HalfSplitRotary(6), InterleavedRotary(6, 500.0, YaRNScaling(4.0, 50))):\n"
        "    torch._dynamo.reset()  # eight versions of one function is the limit\n"
        "    f = torch.compile(m.rotate, fullgraph=True, backend='eager')\n"
        "    for p in (positions, positions + 7, positions[:1]):\n"
        "        torch.testing.assert_close(f(x, p), m.rotate(x, p))\n"
        "        torch.testing.assert_close(f(x.bfloat16(), p), m.rotate(x.bfloat16(), p))"
    )
    run_without_shape_checks(code)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: HalfSplitRotary(7), ValueError, "d_rotary=7 must be even"),
        (lambda: InterleavedRotary(0), ValueError, "d_rotary=0 must be even and at least 2"),
        (lambda: InterleavedRotary(8, base=1.0), ValueError, "base=1.0 must be above 1"),
        (lambda: LinearScaling(0.5), ValueError, "factor=0.5 must be at least 1"),
        (lambda: NTKScaling(float("nan")), ValueError, "factor=nan must be at least 1"),
        (lambda: HalfSplitRotary(2, frequencies=NTKScaling(2.0)), ValueError, "d_rotary=2 must be at least 4"),
        (
            lambda: YaRNScaling(2.0, original_max_position_embeddings=0),
            ValueError,
            "original_max_position_embeddings=0 must be at least 1",
        ),
        (lambda: Llama3Scaling(2.0, 9, beta_fast=1.0), ValueError, "beta_fast=1.0 must be above beta_slow=1.0"),
        (lambda: YaRNScaling(2.0, 9, beta_slow=0.0), ValueError, "beta_slow=0.0, and that above 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


bare_rotate = getattr(Rotary.rotate, "__wrapped__", Rotary.rotate)


@pytest.mark.parametrize(
    ("x", "positions", "error", "sentence"),
    [
        (torch.zeros(3, 5, 7, 4), POSITIONS, ValueError, r"x has shape \(3, 5, 7, 4\).*at least d_rotary=6"),
        (torch.zeros(8), POSITIONS[0], ValueError, r"x has shape \(8,\); it must be \(..., tokens, d_head\)"),
        (torch.zeros(7, 8), POSITIONS[:1], ValueError, r"\(1, 7\); for x \(7, 8\) they must be \(7,\)$"),
        (torch.zeros(5, 7, 8), POSITIONS, ValueError, r"\(3, 7\).*must be \(7,\) or \(5 or 1, 7\)"),
        (
            torch.zeros(3, 5, 7, 8),
            POSITIONS[:, None].expand(-1, 5, -1),
            ValueError,
            r"\(3, 5, 7\); for x \(3, 5, 7, 8\)",
        ),
        (torch.zeros(3, 5, 7, 8), POSITIONS.float(), TypeError, "torch.float32; they must be integers"),
        (torch.zeros(3, 5, 7, 8), POSITIONS[:2], ValueError, r"\(2, 7\).*must be \(7,\) or \(3 or 1, 7\)"),
        (torch.zeros(3, 5, 7, 8), POSITIONS[:, :1], ValueError, r"\(3, 1\).*must be \(7,\) or \(3 or 1, 7\)"),
        (torch.zeros(3, 5, 7, 8), POSITIONS[0, :6], ValueError, r"\(6,\).*must be \(7,\) or \(3 or 1, 7\)"),
    ],
)
def test_misfits_are_refused_in_one_sentence(x, positions, error, sentence):
    with pytest.raises(error, match=sentence):
        bare_rotate(HalfSplitRotary(6), x, positions)


# --- Frequencies that depend on the length of the text ---

LONG = LongRoPEScaling(4.0, 30, short_factor=(1.0, 1.1, 1.5), long_factor=(1.2, 3.0, 7.0))
DYNAMIC = DynamicNTKScaling(3.0, original_max_position_embeddings=30)


@pytest.mark.parametrize("n_tokens", [1, 29, 30, 31, 64, 500])
def test_frequencies_of_a_length_equal_hugging_face_and_python_floats(n_tokens):
    d_rotary, base = 6, 500.0
    longer = {"dynamic": DYNAMIC, "longrope": LONG}
    for kind, scaling in longer.items():
        rope = dict(rope_type=kind, rope_theta=base, factor=scaling.factor)
        if kind == "longrope":
            lists = dict(short_factor=list(LONG.short_factor), long_factor=list(LONG.long_factor))
            rope |= dict(original_max_position_embeddings=30, **lists)
        config = transformers.LlamaConfig(head_dim=d_rotary, max_position_embeddings=30, rope_parameters=rope)
        theirs, factor = modeling_rope_utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=n_tokens)
        found = scaling.at_length(d_rotary, base, torch.tensor(n_tokens))
        torch.testing.assert_close(found, theirs, rtol=1e-6, atol=0)
        assert math.isclose(scaling.attention_scaling, factor, rel_tol=1e-12)
        if n_tokens <= 30:
            torch.testing.assert_close(found, scaling(d_rotary, base), rtol=1e-6, atol=0)
    divisors = LONG.long_factor if n_tokens > 30 else LONG.short_factor
    slow = [base ** (-2 * i / d_rotary) / divisor for i, divisor in enumerate(divisors)]
    torch.testing.assert_close(LONG.at_length(d_rotary, base, torch.tensor(n_tokens)).tolist(), slow, rtol=1e-6, atol=0)
    ntk = NTKScaling.for_length(n_tokens, 30, 3.0)(d_rotary, base)
    torch.testing.assert_close(DYNAMIC.at_length(d_rotary, base, torch.tensor(n_tokens)), ntk, rtol=1e-6, atol=0)


@pytest.mark.parametrize("scaling", [LONG, DYNAMIC], ids=["longrope", "dynamic"])
@pytest.mark.parametrize("cls", CLASSES)
def test_the_last_position_of_the_batch_sets_the_length(cls, scaling):
    """Row 2 of three is the longest; padding is at position -1."""
    rotary, x = cls(6, 500.0, scaling), randn(3, 2, 4, 8)
    positions = torch.tensor([[-1, -1, 0, 1], [0, 1, 2, 3], [28, 29, 30, 31]])
    plain = cls(6, 500.0)
    plain.frequencies = scaling.at_length(6, 500.0, torch.tensor(32))
    expected = plain.rotate(x[..., :6], positions) * scaling.attention_scaling
    torch.testing.assert_close(rotary.rotate(x, positions)[..., :6], expected)
    torch.testing.assert_close(rotary.rotate(x, positions)[..., 6:], x[..., 6:], rtol=0, atol=0)
    assert not torch.allclose(rotary.rotate(x[:2], positions[:2])[..., :6], expected[:2])
    empty = torch.zeros(3, 2, 0, 8)
    assert rotary.rotate(empty, torch.zeros(3, 0, dtype=torch.long)).shape == empty.shape
    assert [scaling.alike(*pair) for pair in [(1, 30), (30, 31)]] == [True, False]
    assert LONG.alike(31, 32) and not DYNAMIC.alike(31, 32) and Frequencies().alike(1, 10**6)


def test_a_cache_that_no_longer_holds_is_refused_and_generate_reads_anew():
    sizes = dict(d_model=12, n_layers=2, n_heads=2, d_ff=20, n_vocab=31, position="rope")
    long = {"short_factor": (1.0, 1.1, 1.5), "long_factor": (1.2, 3.0, 7.0)}
    for kind, more in {"dynamic": {}, "longrope": long}.items():
        options = dict(type=kind, factor=3.0, original_max_position_embeddings=6) | more
        scaling = {f"rope.scaling.{name}": value for name, value in options.items()}
        model = randomize(Transformer(ModelConfig.of(sizes | scaling))).eval()
        prompts = [[3, 4, 5, 6], [7, 8]]
        expected = [list(prompt) for prompt in prompts]
        with torch.inference_mode():
            for _ in range(7):  # without a cache
                ids = torch.tensor([[0] * (len(expected[0]) - len(text)) + text for text in expected])
                mask = torch.tensor(
                    [[False] * (len(expected[0]) - len(text)) + [True] * len(text) for text in expected]
                )
                for text, token in zip(
                    expected, model(ids, attention_mask=mask)[:, -1].argmax(-1).tolist(), strict=True
                ):
                    text.append(token)
            cache = model.new_cache(1, 9)
            model(ids[:1, :5], cache=cache)
            model(ids[:1, 5:6], cache=cache)
            with pytest.raises(ValueError, match="the cache holds a text of 6 tokens, and with rope.scaling.type="):
                model(ids[:1, 6:7], cache=cache)
        written = generate(model, prompts, max_new_tokens=7).ids
        assert written == [text[len(prompt) :] for text, prompt in zip(expected, prompts, strict=True)]
        beams = beam_search(model, prompts[:1], max_new_tokens=7, n_beams=1)
        assert beams[0][0].ids == written[0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DynamicNTKScaling(0.5, 8), "factor=0.5 must be at least 1"),
        (lambda: DynamicNTKScaling(2.0, 0), "original_max_position_embeddings=0 must be at least 1"),
        (lambda: DynamicNTKScaling(2.0, 8)(2, 10000.0), "d_rotary=2 must be at least 4"),
        (lambda: LongRoPEScaling(2.0, 8, (1.0, 0.0), (1.0, 1.0)), "short_factor=.* must hold numbers above 0"),
        (lambda: LongRoPEScaling(2.0, 8, (1.0,), (1.0, 1.0))(4, 500.0), "short_factor holds 1 numbers; .* 2 planes"),
        (lambda: LongRoPEScaling(2.0, 1, (1.0,), (1.0,)), "original_max_position_embeddings=1 must be at least 2"),
    ],
)
def test_scalings_by_length_refuse_what_does_not_fit(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_yarn_without_rounding_equals_hugging_face():
    rope = dict(rope_type="yarn", rope_theta=150.0, factor=32.0, beta_fast=8.0, beta_slow=0.5, truncate=False)
    config = transformers.LlamaConfig(head_dim=16, rope_parameters=rope | dict(original_max_position_embeddings=600))
    theirs, _ = modeling_rope_utils.ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    options = dict(factor=32.0, original_max_position_embeddings=600, beta_fast=8.0, beta_slow=0.5)
    torch.testing.assert_close(YaRNScaling(**options, truncate=False)(16, 150.0), theirs, rtol=1e-6, atol=0)
    assert not torch.allclose(YaRNScaling(**options)(16, 150.0), theirs, rtol=1e-3)
