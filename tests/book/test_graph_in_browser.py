"""The page's operators against PyTorch: each exported graph, run in a browser on random numbers."""

import json
import math

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.layers.quantization import dequantize_rows, quantize_rows
from llm_anatomy.models.presets import tiny
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.notebook.front_end import HERE
from llm_anatomy.notebook.widgets.graph import export

pytestmark = pytest.mark.browser

a, b, c = (torch.randn(3, 1, 5), torch.randn(4, 1), torch.rand(3, 4, 5) + 0.1)
i, j = torch.tensor([[2, 0, 1], [1, 1, 3]]), torch.randint(-9, 9, (4, 3))
hidden = torch.tensor([[0.5, -math.inf, 2.0], [-math.inf, 1.0, -math.inf]])
none = torch.zeros(0, 3)

UNARY = "neg abs exp sin cos tanh sigmoid relu erf floor ceil trunc round sign isnan isinf"
OF_POSITIVE = "log log2 sqrt rsqrt reciprocal"
CASES = {
    "functions of one number": (lambda x: tuple(getattr(torch, name)(3 * x) for name in UNARY.split()), a),
    "functions of one positive number": (lambda x: tuple(getattr(torch, name)(x) for name in OF_POSITIVE.split()), c),
    "add with alpha and broadcasting": (lambda x, y: torch.add(x, y, alpha=2), a, b),
    "subtract from a number": (lambda x: 1.5 - x, a),
    "multiply integers": (lambda x, y: x * y, j, j[:, :1]),
    "divide": (lambda x, y: x / y, a, b),
    "divide integers": (lambda x: x / 4, j),
    "floor division": (lambda x: x // 4, j),
    "truncating division": (lambda x: torch.div(x, 4, rounding_mode="trunc"), j),
    "remainder of negative numbers": (lambda x: x % 4, j),
    "fmod of negative numbers": (lambda x: (torch.fmod(x, 4), torch.fmod(x * 0.7, 1.5)), j),
    "powers": (lambda x, y: (x**2, 2**x, x.abs() ** y), a, b),
    "minimum and maximum": (lambda x, y: (torch.minimum(x, y), torch.maximum(x, y)), a, b),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.0), x.clamp(max=0.1)), a),
    "comparisons": (lambda x, y: (x < y, x <= y, x > y, x >= y, x == x, x != y), a, b),
    "logic": (lambda x: ((x > 0) & (x < 1), (x > 1) | (x < 0), ~(x > 0)), a),
    "bits of integers": (lambda x: (x & 3, x | 4, ~x), j),
    "where": (lambda x, y: torch.where(x > y, x, -1.0), a, b),
    "atan2": (torch.atan2, a, b),
    "hypot": (torch.hypot, a, b),
    "gelu": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x)), 3 * a),
    "sum over axes": (lambda x: (x.sum(), x.sum(-1), x.sum((0, -2), keepdim=True)), c),
    "sum of nothing": (lambda x: (x.sum(0), x.sum(1), x.sum()), none),
    "mean": (lambda x: (x.mean(), x.mean(1)), c),
    "variance": (lambda x: (x.var(), x.var(-1, unbiased=False), x.std(0)), c),
    "variance and mean": (lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x, (0, 2), correction=0, keepdim=True)), c),
    "largest and smallest": (lambda x: (x.amax(-2), x.amin((0, 1)), x.max(), x.min()), c),
    "largest with index": (lambda x: x.max(1), c),
    "argmax of a tie": (lambda x: (x.argmax(), x.argmax(-1)), torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])),
    "norms of vectors": (
        lambda x: (x.norm(dim=-1), torch.linalg.vector_norm(x, dim=(0, 2), keepdim=True), x.norm()),
        c,
    ),
    "sort with ties": (
        lambda x: x.sort(descending=True, stable=True),
        torch.tensor([[1.0, 3.0, 3.0], [2.0, -2.0, 2.0]]),
    ),
    "any and all": (lambda x: ((x > 0).any(-1), (x > 0).all(0), (x > 9).any()), a),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(-1)), c),
    "cumsum of integers": (lambda x: x.cumsum(0), j),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1)), c),
    "softmax with hidden scores": (lambda x: x.softmax(-1), hidden),
    "matrix product": (lambda x, y: x @ y.transpose(-1, -2), torch.randn(2, 3, 4, 5), torch.randn(2, 1, 6, 5)),
    "matrix times vector": (lambda x, y: x @ y, c, torch.randn(5)),
    "linear with a bias": (lambda x, y, z: F.linear(x, y, z), c, torch.randn(7, 5), torch.randn(7)),
    "product of empty matrices": (lambda x, y: x @ y, none, torch.randn(3, 2)),
    "views": (lambda x: (x.reshape(4, 15), x.permute(2, 0, 1).flatten(1), x.transpose(0, -1)[1:, ::2].contiguous()), c),
    "negative axes": (lambda x: (x.unsqueeze(-2), x.unsqueeze(-1).squeeze(-1), x.select(-1, -2), x[..., -3:]), c),
    "a view of a view": (lambda x: x[1].t()[2:4].unsqueeze(0).expand(3, -1, -1) * 2, c),
    "slices out of bounds": (lambda x: (x[:, 2:99], x[-99:2]), c),
    "split": (lambda x: (*x.split([1, 3], 1), *x.mT.split(2, -1), *x[0].chunk(2)), c),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(1)), a),
    "stack": (lambda x: torch.stack([x.sum(0), x.amax(0)], -1), c),
    "cat with an empty one": (lambda x, y: torch.cat([x, y, x[:1]], 0), none, torch.randn(2, 3)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=-1.0), c),
    "flip": (lambda x: x.flip(1), c),
    "ranges": (lambda x: (torch.arange(3, 11, 2) * x.sum(), torch.full((2, 3), 1.5) * x.sum()), c),
    "masks": (lambda x: x.masked_fill(torch.ones(4, 5, dtype=torch.bool).triu(2), -math.inf), c),
    "tril": (lambda x: x.tril(-1), c),
    "one hot": (lambda x: F.one_hot(x, 5), i),
    "embedding": (lambda x, y: F.embedding(x, y), i, torch.randn(4, 6)),
    "gather": (lambda x, y: (x.gather(1, y), x.gather(-1, y)), torch.randn(2, 4), i),
    "index by one tensor": (lambda x, y: (x[y], x[:, y]), torch.randn(4, 4, 2), i),
    "index by two tensors": (lambda x, y: x[y, y[:1]], torch.randn(4, 4, 2), i),
    "index by tensors apart": (lambda x, y: x[y, :, y], torch.randn(4, 2, 4), i),
    "index by a negative number": (lambda x, y: x[-y], torch.randn(4, 2), i),
    "select by a value": (lambda x, y: x[y.argmax()], c, torch.tensor([0.0, 2.0, 1.0])),
    "layer normalization": (lambda x, w, v: F.layer_norm(x, (5,), w, v), c, torch.randn(5), torch.randn(5)),
    "rms normalization": (lambda x, w: F.rms_norm(x, (5,), w), c, torch.randn(5)),
    "conversion": (lambda x: (x.long(), x.bool(), (x > 0).float(), (x > 0).long() * 2), 2 * a),
    "scalars": (lambda x: x.sum() * torch.tensor(2.0) + 1, c),
}


@pytest.fixture(scope="module")
def run(browser):
    """Run a graph in the page; gives shapes and numbers by name."""
    page = browser().new_page()
    page.goto("about:blank")
    script = (HERE / "widgets/graph.js").read_text("utf-8")
    page.add_script_tag(
        content=script
        + """
        globalThis.runGraph = (graph, pool, inputs) => {
            const given = Object.fromEntries(Object.entries(inputs).map(([name, [kind, shape, data]]) =>
                [name, { shape, data: KINDS[kind].from(data, Number) }]));
            const outputs = load(graph, pool.map(decode))(given);
            return Object.entries(outputs).map(([name, x]) => [name, x.shape, Array.from(flat(x), String)]);
        };"""
    )

    def call(function, *inputs):
        inputs = {f"x{n}": tensor for n, tensor in enumerate(inputs)}
        pool = []
        graph = json.loads(json.dumps(export(function, inputs, pool)))
        data = {
            name: ["b" if x.dtype == torch.bool else "f" if x.is_floating_point() else "i", list(x.shape),
                   [str(v) for v in x.flatten().tolist()]]
            for name, x in inputs.items()
        }  # fmt: skip
        numbers = json.loads(json.dumps(data).replace('"inf"', '"Infinity"').replace('"-inf"', '"-Infinity"'))
        found = page.evaluate("([graph, pool, inputs]) => runGraph(graph, pool, inputs)", [graph, pool, numbers])
        return {name: torch.tensor([float(v) for v in data]).reshape(shape) for name, shape, data in found}

    yield call
    page.close()


def tensors(returned) -> dict:
    returned = returned if isinstance(returned, tuple) else (returned,)
    return {str(n): tensor for n, tensor in enumerate(returned)}


@pytest.mark.parametrize("name", CASES)
def test_operator_is_pytorchs(run, name):
    function, *inputs = CASES[name]
    found = run(lambda **given: tensors(function(*given.values())), *inputs)
    expected = tensors(function(*inputs))
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        where = f"output {key} of {name}: {{}}".format
        torch.testing.assert_close(found[key], tensor.float(), rtol=1e-5, atol=1e-6, equal_nan=True, msg=where)


def test_a_whole_transformer_runs_in_the_page(run):
    torch.manual_seed(0)
    model = Transformer(tiny("gpt-2")).eval()
    ids = torch.randint(0, model.config.n_vocab, (1, 23))
    found = run(lambda x0: {"logits": model(x0)}, ids)["logits"]
    torch.testing.assert_close(found, model(ids).detach(), rtol=1e-4, atol=1e-5)


def test_constants_are_carried_whatever_their_type(run):
    weights, mask, order = torch.randn(3, 4), torch.tensor([True, False, True, True]), torch.tensor([3, 0, 2])
    found = run(lambda x0: {"y": (weights * mask)[:, order] + x0}, torch.randn(()))
    assert found["y"].shape == (3, 3)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: {"y": x if x > 0 else -x}, "reads a value"),
        (lambda x: {"y": [1, 2, 3][x.long()] * x}, "reads a value"),
        (lambda x: {"y": x[None].nonzero()}, "a shape depends on values"),
        (
            lambda x: {"y": torch.nn.LayerNorm(3)(x.expand(3))},
            r"makes a parameter of shape \[3\]; make it, or its module",
        ),
        (lambda x: {"y": x.half()}, "dtype=torch.float16 cannot be exported to a page"),
    ],
)
def test_a_function_that_a_page_cannot_run_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        export(function, {"x": torch.tensor(2.0)})


def test_a_large_matrix_in_8_bits_takes_a_byte_a_number(run):
    stored = dequantize_rows(*quantize_rows(torch.randn(64, 80) * torch.logspace(-2, 2, 64)[:, None]))
    found = run(lambda x0: {"y": stored + x0}, torch.zeros(()))["y"]
    torch.testing.assert_close(found, stored, rtol=1e-6, atol=0)
    for matrix, kind in ((stored, "q"), (stored + 1e-4, "f"), (stored[:4], "f")):
        pool = []
        export(lambda x, matrix=matrix: {"y": matrix + x}, {"x": torch.zeros(())}, pool)
        assert [constant[0] for constant in pool] == [kind]
