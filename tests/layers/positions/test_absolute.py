"""Absolute schemes against Hugging Face, nn.Embedding, loops written from the formulas, and the slides' numbers."""

import copy
import math

import pytest
import torch
from layers.pairs import each_pair
from randomness import randn, randomize
from torch import nn

from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.positions import absolute
from llm_anatomy.layers.positions.absolute import (
    AbsoluteScheme,
    BinaryCounter,
    IntegerIndex,
    Learned,
    LengthScaledIndex,
    SingleSine,
    Sinusoidal,
)
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_MODEL, N_CTX = 3, 7, 10, 800
TOLERANCE = {
    torch.float32: dict(rtol=1e-4, atol=1e-4),
    torch.float64: dict(rtol=1e-9, atol=1e-9),
    torch.bfloat16: dict(rtol=2e-2, atol=2e-2),
}

# Padding on the left, a cache of 40 tokens, a packed row that starts anew.
POSITIONS = torch.tensor([[0, 0, 0, 1, 2, 3, 4], [40, 41, 42, 43, 44, 45, 46], [9, 10, 11, 0, 1, 2, 700]])


SCHEMES = {
    "integer": lambda d=D_MODEL: IntegerIndex(d),
    "scaled": lambda d=D_MODEL: LengthScaledIndex(d),
    "binary": lambda d=D_MODEL: BinaryCounter(d),
    "sine": lambda d=D_MODEL: SingleSine(d, period=11.0),
    "sinusoidal": lambda d=D_MODEL: Sinusoidal(d, base=300.0),
    "learned": lambda d=D_MODEL: randomize(Learned(N_CTX, d)),
}


def slow_value(name, scheme, row, i, k):
    """Coordinate k of position i, in a sentence at the positions ``row``; Python floats, from the formulas."""
    match name:
        case "integer":
            return float(i)
        case "scaled":
            return i / max(row) if max(row) else 0.0
        case "binary":
            return float(f"{i:0{D_MODEL + 20}b}"[-1 - k])
        case "sine":
            return math.sin(2 * math.pi * i / 11.0)
        case "sinusoidal":
            angle = i / 300.0 ** (2 * (k // 2) / scheme.d_model)
            return math.cos(angle) if k % 2 else math.sin(angle)
        case "learned":
            return scheme.table[i, k].item()


def slow_embed(name, scheme, x, positions):
    y = x.clone()
    for b in range(len(x)):
        row = positions[b % len(positions)].tolist()
        for t, i in enumerate(row):
            for k in range(x.shape[-1]):
                y[b, t, k] += slow_value(name, scheme, row, i, k)
    return y


# --- Equal to the formulas ---

ROWS_OF_POSITIONS = {"own": POSITIONS, "shared": POSITIONS[2:], "int32": POSITIONS.int()}


@pytest.mark.syllabus("IITD-04", "IITD-05", "IITD-07", "IITD-08", "IITD-09", "IITD-13", "IITD-16", "CMU-23")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("positions, d_model, dtype", each_pair(ROWS_OF_POSITIONS, [1, 9, D_MODEL], TOLERANCE))
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_equals_a_slow_loop(name, positions, d_model, dtype, device):
    positions = ROWS_OF_POSITIONS[positions]
    scheme = SCHEMES[name](d_model)
    if dtype == torch.float64:
        scheme = scheme.double()
    x = randn(BATCH, TOKENS, d_model, dtype=dtype)
    expected = slow_embed(name, scheme, x.double(), positions).to(dtype)
    result = scheme.to(device).embed(x.to(device), positions.to(device))
    assert result.dtype == dtype and result.device.type == device
    torch.testing.assert_close(result.cpu(), expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("name", SCHEMES)
def test_the_encoding_alone_is_what_embed_adds(name):
    scheme = SCHEMES[name]()
    positions = torch.arange(50)
    alone = scheme.encoding(positions)
    assert alone.shape == (50, D_MODEL) and alone.dtype == torch.float32
    added = scheme.embed(torch.zeros(1, 50, D_MODEL), positions[None])
    torch.testing.assert_close(alone, added[0], rtol=0, atol=0)
    assert scheme.encoding(POSITIONS, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.syllabus("IITD-16", "CMU-23")
@pytest.mark.parametrize("name", SCHEMES)
def test_what_is_added_depends_on_the_position_and_not_on_the_content_or_the_index_in_the_tensor(name):
    scheme, x = SCHEMES[name]().double(), randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64)
    order = torch.tensor([4, 0, 6, 1, 5, 2, 3])
    torch.testing.assert_close(scheme.embed(x[:, order], POSITIONS[:, order]), scheme.embed(x, POSITIONS)[:, order])
    torch.testing.assert_close(scheme.embed(x, POSITIONS) - x, scheme.embed(5 * x, POSITIONS) - 5 * x)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_other_hooks_do_nothing(name):
    scheme, plain = SCHEMES[name](), PositionScheme()
    x, positions = randn(2, 3, TOKENS, 5), POSITIONS[:1]
    assert scheme.rotate(x, positions) is x
    assert scheme.scale(5) == plain.scale(5) and scheme.explicit_only is None
    assert scheme.bias(x, x, PositionContext(positions)) is None
    assert scheme.add_to_output(x @ x.mT, PositionContext(positions)) is None
    assert bool(scheme.not_cacheable) == (name == "scaled")


@pytest.mark.parametrize("name", sorted(set(SCHEMES) - {"scaled"}))
def test_tokens_one_by_one_get_what_they_get_together(name):
    scheme, x = SCHEMES[name](), randn(BATCH, TOKENS, D_MODEL)
    one_by_one = [scheme.embed(x[:, t : t + 1], POSITIONS[:, t : t + 1]) for t in range(TOKENS)]
    torch.testing.assert_close(torch.cat(one_by_one, 1), scheme.embed(x, POSITIONS), rtol=0, atol=0)


# --- The two rejected options ---

# Facts of the slide, IITD-04: the vectors that it writes out.
E_0, E_1 = (0.42, 0.31, 0.73, 0.36, 0.99), (0.87, -0.64, 0.81, 0.26, -0.35)
E_2 = E_3 = E_30 = (0.02, 0.01, -0.24, -0.07, 0.00)


@pytest.mark.syllabus("IITD-04")
def test_integer_index_gives_the_numbers_of_the_slide():
    x = torch.tensor([[E_0, E_1, E_2, E_3, E_30]])
    result = IntegerIndex(5).embed(x, torch.tensor([[0, 1, 2, 3, 30]]))[0]
    expected = [
        E_0,
        (1.87, 0.36, 1.81, 1.26, 0.65),
        (2.02, 2.01, 1.76, 1.93, 2.00),
        (3.02, 3.01, 2.76, 2.93, 3.00),
        (30.02, 30.01, 29.76, 29.93, 30.00),
    ]
    torch.testing.assert_close(result, torch.tensor(expected), rtol=0, atol=1e-5)


@pytest.mark.syllabus("IITD-04", "IITD-06")
def test_integer_index_drowns_the_content():
    x = torch.tensor([[E_0, E_1, E_2]])
    angles = nn.functional.cosine_similarity(x[0, 0], x[0], dim=-1)
    far = IntegerIndex(5).embed(x, torch.tensor([[30, 31, 32]]))[0]
    assert angles[1:].max() < 0.5 and nn.functional.cosine_similarity(far[0], far, dim=-1).min() > 0.999
    scheme = IntegerIndex(1)
    assert scheme.encoding(torch.tensor([5000])).item() == 5000  # no bound, so nothing was trained for it
    assert scheme.encoding(torch.tensor([257]), torch.bfloat16).item() == 256


@pytest.mark.syllabus("IITD-05", "IITD-06")
def test_length_scaled_index_gives_one_position_two_vectors():
    short, long = (LengthScaledIndex(3).encoding(torch.arange(n), torch.float64) for n in (4, 31))
    assert short[2].tolist() == [2 / 3] * 3 and long[2].tolist() == [2 / 30] * 3
    for code, n in ((short, 4), (long, 31)):
        assert code[0].eq(0).all() and code[-1].eq(1).all()
        torch.testing.assert_close(code.diff(dim=0), torch.full((n - 1, 3), 1 / (n - 1), dtype=torch.float64))
    assert LengthScaledIndex(2).encoding(torch.tensor([[0]])).tolist() == [[[0.0, 0.0]]]
    padded = LengthScaledIndex(1).encoding(torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]))[..., 0]
    assert padded.tolist() == [[0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]]


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
@pytest.mark.parametrize("name", SCHEMES)
def test_no_sequences_and_no_tokens(name, shape):
    x, positions = torch.zeros(*shape, D_MODEL, requires_grad=True), torch.zeros(shape, dtype=torch.long)
    embedded = SCHEMES[name]().embed(x, positions)
    assert embedded.shape == x.shape and embedded.dtype == x.dtype
    assert SCHEMES[name]().encoding(positions[:1].flatten(), torch.bfloat16).dtype == torch.bfloat16
    assert torch.autograd.grad(embedded.sum(), x)[0].shape == x.shape


# --- The two steps towards the sinusoids ---


@pytest.mark.syllabus("IITD-07")
def test_binary_counter_gives_the_table_of_the_slide():
    table = """0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 1101 1110 1111"""  # bit_3 … bit_0
    expected = [[float(bit) for bit in reversed(row)] for row in table.split()]
    assert BinaryCounter(4).encoding(torch.arange(16)).tolist() == expected


@pytest.mark.syllabus("IITD-07")
def test_bit_k_has_period_two_to_the_k_plus_one():
    code = BinaryCounter(6).encoding(torch.arange(128))
    for k in range(6):
        period, column = 2 ** (k + 1), code[:, k]
        assert torch.equal(column[period:], column[:-period])
        assert all(not torch.equal(column[p:], column[:-p]) for p in range(1, period))
    assert torch.equal(code[64:], code[:64])  # all six digits used up: the counter starts anew
    wide = BinaryCounter(70).encoding(torch.tensor([2**62 + 5]))[0]
    assert wide.nonzero().flatten().tolist() == [0, 2, 62]


@pytest.mark.syllabus("IITD-07")
def test_bits_are_the_signs_of_sines_with_the_same_periods():
    positions = torch.arange(64)
    for k in range(4):
        # half a position on, since the sine is 0 where the bit changes
        sine = torch.sin(2 * math.pi * (positions + 0.5) / 2 ** (k + 1))
        assert torch.equal(BinaryCounter(4).encoding(positions)[:, k], (sine < 0).float())


@pytest.mark.syllabus("IITD-09")
def test_single_sine_repeats():
    positions = torch.arange(10)

    def values(period):
        return SingleSine(1, period).encoding(positions, torch.float64)[:, 0]

    for period in (12.0, 6.0, 4.0, 3.0, 12 / 5):  # 6 is a whole number of half periods: erratum E-08
        assert abs(values(period)[6] - values(period)[0]) < 1e-12
    radians = SingleSine(1).encoding(positions, torch.float64)[:, 0]
    assert round(radians[6].item(), 4) == -0.2794
    gaps = {(i, j): abs(radians[i] - radians[j]).item() for i in range(10) for j in range(i + 1, 10)}
    closest = sorted(gaps, key=gaps.get)[:3]
    assert closest == [(1, 2), (2, 8), (0, 3)]
    assert [round(gaps[pair], 3) for pair in closest] == [0.068, 0.080, 0.141]


@pytest.mark.syllabus("IITD-09")
def test_single_sine_is_the_first_coordinate_of_the_sinusoids_in_all():
    code = SingleSine(3).encoding(POSITIONS)
    torch.testing.assert_close(code, Sinusoidal(8).encoding(POSITIONS)[..., :1].expand(-1, -1, 3))
    assert code.abs().max() <= 1


# --- Sinusoidal ---


def hugging_face_table(layout, n_positions, d_model):
    """Two families: pairs side by side, as in the paper, and all sines before all cosines."""
    if layout == "pairs":
        from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings

        table = torch.empty(n_positions, d_model)
        create_sinusoidal_embeddings(n_positions, d_model, table)
        return table
    if layout == "marian":
        from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding as Embedding
    else:
        from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding as Embedding
    return Embedding(n_positions, d_model).create_weight()


@pytest.mark.syllabus("IITD-08", "IITD-16", "CMU-23")
@pytest.mark.parametrize("d_model", [24, 25])
@pytest.mark.parametrize("layout", ["pairs", "marian", "roformer"])
def test_sinusoidal_equals_hugging_face(layout, d_model):
    pytest.importorskip("transformers")
    ours = Sinusoidal(d_model).encoding(torch.arange(701))
    if layout != "pairs":
        ours = torch.cat((ours[:, 0::2], ours[:, 1::2]), -1)
    theirs = hugging_face_table(layout, 701, d_model)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert ours.shape == (701, d_model)


@pytest.mark.syllabus("IITD-11")
def test_sinusoidal_gives_the_worked_example():
    assert 10000 ** (2 / 4) == 100
    code = Sinusoidal(4).encoding(torch.tensor([0, 1, 2, 3, 6]), torch.float64)
    expected = [
        (0, 1, 0, 1),
        (0.8415, 0.5403, 0.0100, 1.0000),
        (0.9093, -0.4161, 0.0200, 0.9998),
        (0.1411, -0.9900, 0.0300, 0.9996),
        (-0.2794, 0.9602, 0.0600, 0.9982),
    ]
    torch.testing.assert_close(code.round(decimals=4), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    word = torch.tensor([[[0.5, -0.25, 2.0, 0.125]]], dtype=torch.float64)
    written_out = [math.sin(6), math.cos(6), math.sin(6 / 100), math.cos(6 / 100)]
    result = Sinusoidal(4).embed(word, torch.tensor([[6]]))[0, 0]
    torch.testing.assert_close(result, word[0, 0] + torch.tensor(written_out, dtype=torch.float64))


@pytest.mark.syllabus("IITD-08", "IITD-12")
def test_wavelengths_are_a_geometric_progression():
    # where a sine crosses zero upwards: after one wavelength, which each pair has longer than the one before
    d_model = 512
    step = Sinusoidal(d_model).encoding(torch.tensor([1]), torch.float64)[0]
    wavelengths = 2 * math.pi / torch.atan2(step[0::2], step[1::2])
    assert round(wavelengths[0].item(), 3) == 6.283 and round(wavelengths[-1].item()) == 60_611
    ratios = wavelengths[1:] / wavelengths[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 10000 ** (2 / d_model)))
    picture = Sinusoidal(128).encoding(torch.arange(50))
    assert picture.shape == (50, 128) and picture.abs().max() <= 1  # 50 positions in rows, erratum E-11
    crossings = (picture[2:].sign() != picture[1:-1].sign()).sum(0)  # position 0 left out: there sines are 0
    assert crossings[0] == math.floor(49 / math.pi) and crossings[-2:].sum() == 0


@pytest.mark.syllabus("IITD-10")
def test_near_positions_agree_on_slow_pairs_and_differ_on_fast_ones():
    code = Sinusoidal(512).encoding(torch.arange(200), torch.float64)
    assert code[:, -2:].diff(dim=0).abs().max() <= 1.04e-4
    w = 10000 ** (-torch.arange(0, 512, 2, dtype=torch.float64) / 512)
    pairs = code.unflatten(-1, (256, 2))
    for k in (1, 3, 40):
        distance = (pairs[k:] - pairs[:-k]).norm(dim=-1)
        torch.testing.assert_close(distance, (2 * torch.sin(w * k / 2).abs()).expand_as(distance))
    neighbours = (pairs[1] - pairs[0]).norm(dim=-1)
    assert (neighbours.diff() < 0).all()  # the faster the pair, the further apart


@pytest.mark.syllabus("IITD-14", "GT-28")
def test_dot_products_depend_on_the_offset_alone_and_fall_up_to_ripples():
    code = Sinusoidal(512).encoding(torch.arange(160), torch.float64)
    dots = code @ code.T
    w = 10000 ** (-torch.arange(0, 512, 2, dtype=torch.float64) / 512)
    offsets = torch.arange(160)[None] - torch.arange(160)[:, None]
    torch.testing.assert_close(dots, torch.cos(w * offsets[..., None]).sum(-1))
    assert [round(dots[0, k].item(), 1) for k in (0, 1, 2, 3, 10, 100)] == [256.0, 249.1, 231.7, 211.7, 173.8, 112.0]
    rises = (dots[0].diff() > 0).nonzero().flatten() + 1
    assert rises[:4].tolist() == [44, 50, 56, 62]  # erratum E-71: closer is not always higher


@pytest.mark.syllabus("CMU-23", "GT-29")
@pytest.mark.parametrize("k", [1, 5, -3])
def test_a_shift_is_one_linear_map_for_all_positions(k):
    positions, d_model = torch.arange(3, 90), 12
    w = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model) * k
    shift = torch.block_diag(*torch.stack((w.cos(), w.sin(), -w.sin(), w.cos()), -1).view(-1, 2, 2))
    scheme = Sinusoidal(d_model)
    here, there = (scheme.encoding(p, torch.float64) for p in (positions, positions + k))
    torch.testing.assert_close(here @ shift.T, there)
    torch.testing.assert_close(shift.T @ shift, torch.eye(d_model, dtype=torch.float64))
    table = randomize(Learned(100, d_model)).double()  # nothing guarantees it there: erratum E-99
    here, there = (table.encoding(p, torch.float64) for p in (positions, positions + k))
    best = torch.linalg.lstsq(here, there).solution
    assert (here @ best - there).norm() > 0.5 * there.norm()


@pytest.mark.syllabus("IITD-17", "IITD-13", "IITD-06", "GT-29")
def test_sinusoids_are_defined_where_a_table_ends():
    sinusoidal, learned = Sinusoidal(6), Learned(1000, 6)
    x, beyond = torch.zeros(1, 1, 6), torch.tensor([[5000]])
    assert sinusoidal.embed(x, beyond).isfinite().all()
    with pytest.raises(ValueError, match="positions hold 5000; they must be 0 to n_ctx - 1 = 999"):
        learned.embed(x, beyond)
    assert learned.embed(x, torch.tensor([[999]])).shape == x.shape
    for position in (1000, -1):
        with pytest.raises(ValueError, match=f"positions hold {position};"):
            learned.embed(x, torch.tensor([[position]]))
    far = sinusoidal.encoding(torch.tensor([10**6, 10**6 + 1]), torch.float64)
    expected = [f(10**6 / 10000 ** (2 * t / 6)) for t in range(3) for f in (math.sin, math.cos)]
    torch.testing.assert_close(far[0], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(sinusoidal.encoding(torch.tensor([10**6]))[0], far[0].float())  # angles keep up
    steps = sinusoidal.encoding(torch.arange(500), torch.float64).diff(dim=0).abs().amax(0)
    frequencies = 10000 ** (-torch.tensor([0, 0, 2, 2, 4, 4], dtype=torch.float64) / 6)
    assert (steps <= frequencies).all()  # continuous: no step is larger than the frequency


# --- Learned ---


@pytest.mark.syllabus("IITD-13", "CMU-24", "UCL-23", "GT-28")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_learned_equals_an_embedding_and_one_hot_positions_times_a_matrix(dtype):
    ours = randomize(Learned(N_CTX, D_MODEL)).to(dtype)
    theirs = nn.Embedding(N_CTX, D_MODEL, _weight=ours.table.detach().clone())
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    result, expected = ours.embed(x, POSITIONS), x + theirs(POSITIONS)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    p, one_hot = ours.table.T, nn.functional.one_hot(POSITIONS, N_CTX).to(dtype)
    assert p.shape == (D_MODEL, N_CTX) and one_hot.shape[-1] == N_CTX
    torch.testing.assert_close(ours.encoding(POSITIONS, dtype), nn.functional.linear(one_hot, p))
    weights = randn(*result.shape, seed=1, dtype=dtype)
    (result * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.table.grad, theirs.weight.grad)
    used = torch.zeros(N_CTX, dtype=torch.bool)
    used[POSITIONS.flatten()] = True
    assert ours.table.grad[~used].eq(0).all() and ours.table.grad[used].ne(0).all()


def test_gradients_of_the_table_and_of_the_embeddings():
    scheme = Learned(5, 2).double()
    x = randn(BATCH, 4, 2, dtype=torch.float64).requires_grad_()
    positions = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 4], [4, 0, 1, 1]])

    def embed(table, x):
        return torch.func.functional_call(Embeds(scheme), {"scheme.table": table}, (x, positions))

    assert torch.autograd.gradcheck(embed, (randn(5, 2, seed=1, dtype=torch.float64).requires_grad_(), x))


class Embeds(nn.Module):
    """The hook as a forward, for tools that call modules."""

    def __init__(self, scheme):
        super().__init__()
        self.scheme = scheme

    def forward(self, x, positions):
        return self.scheme.embed(x, positions)


def test_state_is_the_table_and_nothing_else():
    for name, make in SCHEMES.items():
        assert list(make().state_dict()) == (["table"] if name == "learned" else [])
    ours, fresh = randomize(Learned(N_CTX, D_MODEL)), Learned(N_CTX, D_MODEL)
    fresh.load_state_dict(ours.state_dict())
    torch.testing.assert_close(fresh.encoding(POSITIONS), ours.encoding(POSITIONS), rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(ours).encoding(POSITIONS), ours.encoding(POSITIONS), rtol=0, atol=0)
    assert 0.019 < Learned(N_CTX, D_MODEL).table.std() < 0.021


# --- In attention ---


@pytest.mark.syllabus("IITD-16", "CMU-22")
@pytest.mark.parametrize("name", SCHEMES)
def test_embedded_positions_reach_attention_as_the_lecture_writes_it(name):
    """f_t(x_i, i) = W_t (x_i + p_i), then softmax attention, one query at a time."""
    scheme = SCHEMES[name]().double()
    attention = randomize(SelfAttention(D_MODEL, 1, d_value=4)).double()
    x = randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64) * 0.1
    output, weights = attention(scheme.embed(x, POSITIONS), return_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    placed = slow_embed(name, scheme, x, POSITIONS)
    for b, m in [(0, 3), (1, 0), (2, 6)]:
        q = attention.w_query.weight @ placed[b, m]
        scores = [(q @ (attention.w_key.weight @ placed[b, n])).item() / math.sqrt(D_MODEL) for n in range(TOKENS)]
        exponentials = [math.exp(s - max(scores)) for s in scores]
        a = [e / sum(exponentials) for e in exponentials]
        torch.testing.assert_close(weights[b, 0, m], torch.tensor(a, dtype=torch.float64), rtol=1e-6, atol=1e-6)
        average = sum(a[n] * (attention.w_value.weight @ placed[b, n]) for n in range(TOKENS))
        torch.testing.assert_close(output[b, m], attention.w_output.weight @ average, rtol=1e-6, atol=1e-6)


@pytest.mark.syllabus("CMU-22")
@pytest.mark.parametrize("name", SCHEMES)
def test_attention_is_blind_to_order_until_positions_are_added(name):
    attention = randomize(CrossAttention(D_MODEL, 2)).double()
    scheme = SCHEMES[name]().double()
    x, context = randn(2, 4, D_MODEL, dtype=torch.float64), randn(2, TOKENS, D_MODEL, seed=1, dtype=torch.float64)
    order, positions = torch.tensor([3, 0, 6, 4, 1, 5, 2]), torch.arange(TOKENS)[None]
    torch.testing.assert_close(attention(x, context[:, order]), attention(x, context))
    there = attention(x, scheme.embed(context, positions))
    assert not torch.allclose(attention(x, scheme.embed(context[:, order], positions)), there, atol=1e-3)
    torch.testing.assert_close(attention(x, scheme.embed(context[:, order], positions[:, order])), there)


# --- Precision, compilation, bad input, and tests that bite ---


@pytest.mark.parametrize("name", ["sine", "sinusoidal"])
def test_float32_is_right_far_out_and_bfloat16_close(name):
    scheme, positions = SCHEMES[name](), torch.arange(30_000, 30_040)
    exact = scheme.encoding(positions, torch.float64)
    torch.testing.assert_close(scheme.encoding(positions).double(), exact, rtol=0, atol=1e-6)
    torch.testing.assert_close(scheme.encoding(positions, torch.bfloat16).double(), exact, rtol=0, atol=4e-3)
    assert absolute._angle_dtype(torch.device("mps")) == torch.float32


@pytest.mark.parametrize("name", SCHEMES)
def test_shapes_on_the_meta_device(name):
    x = torch.zeros(BATCH, TOKENS, D_MODEL, device="meta")
    assert SCHEMES[name]().to("meta").embed(x, POSITIONS.to("meta")).shape == x.shape


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.positions.absolute import *\n"
        "x, p = torch.randn(3, 7, 10), torch.randint(0, 99, (3, 7))\n"
        "schemes = [c(10) for c in (IntegerIndex, LengthScaledIndex, BinaryCounter, SingleSine, Sinusoidal)]\n"
        "for m in (*schemes, Learned(99, 10)):\n"
        "    torch._dynamo.reset()\n"
        "    f = torch.compile(m.embed, fullgraph=True, backend='eager')\n"
        "    for y in (x, x.bfloat16()):\n"
        "        torch.testing.assert_close(f(y, p), m.embed(y, p))"
    )
    run_without_shape_checks(code)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: IntegerIndex(0), "d_model=0 must be at least 1"),
        (lambda: Learned(0, 4), "n_ctx=0 must be at least 1"),
        (lambda: Learned(4, -1), "d_model=-1 must be at least 1"),
        (lambda: Sinusoidal(4, base=1.0), "base=1.0 must be above 1"),
        (lambda: Sinusoidal(4, base=math.nan), "base=nan must be above 1"),
        (lambda: SingleSine(4, period=0.0), "period=0.0 must be above 0"),
        (lambda: SingleSine(4, period=math.inf), "period=inf"),
        (lambda: LengthScaledIndex(4).encoding(torch.tensor([0, -2])), "positions hold -2; they must be at least 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_scheme_must_say_its_vectors():
    with pytest.raises(NotImplementedError, match="AbsoluteScheme must implement encoding"):
        AbsoluteScheme(3).embed(torch.zeros(1, 2, 3), torch.tensor([[0, 1]]))


# jaxtyping speaks before the function's own sentences where it is installed; this is what others read.
bare_embed = getattr(AbsoluteScheme.embed, "__wrapped__", AbsoluteScheme.embed)


@pytest.mark.parametrize(
    ("x", "positions", "sentence"),
    [
        (torch.zeros(3, 7, 9), POSITIONS, r"x has shape \(3, 7, 9\).*d_model=10"),
        (torch.zeros(7, 10), POSITIONS, r"x has shape \(7, 10\); it must be \(batch, tokens, d_model=10\)"),
        (torch.zeros(3, 7, 10), POSITIONS[:2], r"\(2, 7\).*must be \(3 or 1, 7\)"),
        (torch.zeros(3, 7, 10), POSITIONS[:, :1], r"\(3, 1\).*must be \(3 or 1, 7\)"),
        (torch.zeros(3, 7, 10), POSITIONS[0], r"\(7,\).*must be \(3 or 1, 7\)"),
    ],
)
def test_misfits_are_refused_in_one_sentence(x, positions, sentence):
    with pytest.raises(ValueError, match=sentence):
        bare_embed(Sinusoidal(10), x, positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.parametrize("name", SCHEMES)
def test_positions_that_are_not_integers_are_refused(name, dtype):
    scheme = SCHEMES[name]()
    bare = getattr(type(scheme).encoding, "__wrapped__", type(scheme).encoding)
    with pytest.raises(TypeError, match=f"positions have dtype {dtype}; they must be integers"):
        bare(scheme, torch.zeros(4, dtype=dtype))


class WithoutTheTwo(Sinusoidal):
    """The exponent t / d in place of 2t / d."""

    def encoding(self, positions, dtype=torch.float32):
        return Sinusoidal(self.d_model, self.base**0.5).encoding(positions, dtype)


class Exchanged(Sinusoidal):
    """Cosines in even coordinates."""

    def encoding(self, positions, dtype=torch.float32):
        return super().encoding(positions, dtype).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


class AsIfFromZero(Sinusoidal):
    """Counts tokens instead of reading positions."""

    def encoding(self, positions, dtype=torch.float32):
        return super().encoding(torch.arange(positions.shape[-1]).expand_as(positions), dtype)


class Halves(Sinusoidal):
    """All sines first."""

    def encoding(self, positions, dtype=torch.float32):
        code = super().encoding(positions, dtype)
        return torch.cat((code[..., 0::2], code[..., 1::2]), -1)


@pytest.mark.parametrize("fault", [WithoutTheTwo, Exchanged, AsIfFromZero, Halves])
def test_the_loop_sees_planted_faults(fault):
    x = randn(BATCH, TOKENS, D_MODEL)
    wrong = fault(D_MODEL, base=300.0)
    expected = slow_embed("sinusoidal", wrong, x.double(), POSITIONS).float()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(wrong.embed(x, POSITIONS), expected, **TOLERANCE[torch.float32])
