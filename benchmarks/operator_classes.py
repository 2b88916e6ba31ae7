"""Where the FLOPs of a Transformer layer are, and where its time goes: three classes of operators.

    python benchmarks/operator_classes.py

One encoder layer (post-norm, ReLU, dropout, explicit attention) runs forward and backward. Each operator that PyTorch
carries out is timed by itself, so that nothing overlaps and nothing is fused, and put into one class:

- tensor contraction: matrix products. Counted by PyTorch's own formulas, 2 m n k for (m, k) times (k, n).
- statistical normalization: softmax and layer norm. Counted by hand for each entry: softmax 5 forward (maximum,
  difference, exponential, sum, division) and 4 backward, layer norm 7 and 13.
- element-wise: biases (forward they are part of the matrix product, and counted there; backward, as sums, here),
  scaling, dropout (2 for each entry), activation, residual connections. One for each entry read or written.

Copies and views compute nothing; their time is printed below the table and belongs to none of the classes. The shares
are medians over the rounds. Beside them stand the lecture's, measured on a V100 in mixed precision.
"""

import argparse
import statistics
import time
from collections import Counter

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from llm_anatomy.data import table
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.normalization import LayerNorm
from llm_anatomy.layers.residual import PostNorm

CONTRACTION, NORMALIZATION, ELEMENTWISE = (row["operator_class"] for row in table("rmsnorm_runtime"))
MOVES = "copies and views"
# FLOPs for each entry; what is not named here or in PyTorch's registry must move data only, or the run stops.
PER_ENTRY = {
    "_softmax": (NORMALIZATION, 5),
    "_softmax_backward_data": (NORMALIZATION, 4),
    "native_layer_norm": (NORMALIZATION, 7),
    "native_layer_norm_backward": (NORMALIZATION, 13),
    "native_dropout": (ELEMENTWISE, 2),
    "native_dropout_backward": (ELEMENTWISE, 2),
    **dict.fromkeys(
        ["add", "add_", "mul", "mul_", "div", "div_", "sum", "relu", "threshold_backward", "bernoulli_"],
        (ELEMENTWISE, 1),
    ),
}
MOVING = {
    *("view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "detach", "alias"),
    *(
        "clone",
        "copy_",
        "_to_copy",
        "empty",
        "empty_like",
        "new_empty",
        "ones_like",
        "zeros_like",
        "fill_",
        "slice",
        "arange",
    ),
}


class EncoderLayer(nn.Module):
    """An encoder layer of the package's parts, as BERT's but for dropout on the attention weights, which they lack."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, n_heads, bias=True)
        self.feedforward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(0.1), nn.Linear(d_ff, d_model))
        self.attention_residual, self.feedforward_residual = PostNorm(LayerNorm(d_model)), PostNorm(LayerNorm(d_model))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = self.attention_residual(x, lambda x: self.dropout(self.attention(x, fused=False)))
        return self.feedforward_residual(x, lambda x: self.dropout(self.feedforward(x)))


class Ledger(TorchDispatchMode):
    """FLOPs and seconds of every operator that runs, by class."""

    def __init__(self, on_gpu):
        super().__init__()
        self.flops, self.seconds, self.on_gpu = Counter(), Counter(), on_gpu

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if self.on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        result = operator(*args, **(kwargs or {}))
        if self.on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        kind, flops = self.classify(operator, args, kwargs or {}, result)
        self.flops[kind] += flops
        self.seconds[kind] += seconds
        return result

    def classify(self, operator, args, kwargs, result):
        packet = operator.overloadpacket
        if packet in flop_registry:
            return CONTRACTION, flop_registry[packet](*args, **kwargs, out_val=result)
        name = packet.__name__
        if name in PER_ENTRY:
            kind, flops = PER_ENTRY[name]
            sizes = [t.numel() for t in (*args, result) if isinstance(t, torch.Tensor)]
            return kind, flops * max(sizes)
        if name not in MOVING:
            raise NotImplementedError(f"{operator} belongs to no class yet; name it in PER_ENTRY or MOVING")
        return MOVES, 0


def shares(counts):
    total = sum(counts[kind] for kind in (CONTRACTION, NORMALIZATION, ELEMENTWISE))
    return {kind: 100 * counts[kind] / total for kind in (CONTRACTION, NORMALIZATION, ELEMENTWISE, MOVES)}


def measure(layer, x, rounds):
    """Shares of FLOPs, which are the same each time, and medians of the shares of time; one round warms up."""
    of_time = []
    for i in range(rounds + 1):
        layer.zero_grad(set_to_none=True)
        with Ledger(x.is_cuda) as ledger:
            layer(x).backward(torch.ones_like(x))
        if i:
            of_time.append(shares(ledger.seconds))
    return shares(ledger.flops), {kind: statistics.median(s[kind] for s in of_time) for kind in of_time[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="at least 9 (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=2, help="the paper's is 8 (default: %(default)s)")
    given = parser.parse_args()
    if given.rounds < 9 or given.batch < 1:
        parser.error(f"--rounds {given.rounds} must be at least 9, --batch {given.batch} at least 1")
    torch.manual_seed(0)
    tokens, d_model, n_heads, d_ff = 512, 1024, 16, 4096  # BERT-large, as in the paper
    for dtype in (torch.float32, torch.bfloat16):
        layer = EncoderLayer(d_model, n_heads, d_ff).to(given.device, dtype)
        x = torch.randn(given.batch, tokens, d_model, device=given.device).to(dtype).requires_grad_()
        of_flops, of_time = measure(layer, x, given.rounds)
        print(
            f"\ntorch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads, {str(dtype)[6:]}, "
            f"batch {given.batch} x {tokens} tokens, width {d_model}, median of {given.rounds} rounds"
        )
        print(f"{'':26} {'share of FLOPs (%)':^20}  {'share of time (%)':^20}")
        print(f"{'operator class':26} {'here':>9} {'lecture':>10}  {'here':>9} {'lecture':>10}")
        for fact in table("rmsnorm_runtime"):
            kind = fact["operator_class"]
            print(
                f"{kind:26} {of_flops[kind]:9.2f} {fact['pct_flop']:10.2f}  "
                f"{of_time[kind]:9.1f} {fact['pct_runtime']:10.1f}"
            )
        print(f"{MOVES} take {of_time[MOVES]:.1f} % of the time of the three classes on top", flush=True)
