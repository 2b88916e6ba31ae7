"""The roofline: which operators of a block wait for memory, and which for arithmetic."""

import torch

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick
from llm_anatomy.notebook.widgets.cost_calculator import _readable, decoder_costs

D_HEAD, BYTES = 64, 2
WIDTHS = [128, 256, 512, 768, 1024, 2048, 4096, 8192]
LENGTHS = [1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
PER_ENTRY = {"softmax": 5, "norms": 7, "biases": 1, "activation": 9, "residual": 1}
"""FLOPs for each entry, where an exponential, a root or a tanh counts as one: LayerNorm, and GELU by its tanh."""
OPERATORS = {  # names with their colours: the operators one by one, and those of fused kernels
    "projections": "query", "scores and mixing": "weights", "feed-forward": "feedforward", "softmax": "weights",
    "norms": "normalization", "biases": "position", "activation": "feedforward", "residual": "residual",
    "projections + biases": "query", "attention": "weights", "feed-forward + GELU": "feedforward",
    "residual + norms": "normalization",
}  # fmt: skip
N_ALONE = 8
ABOVE = [1.0, 1, -1, 1, -1, 1, 1, -1, 1, -2.5, -1, -1]  # where a name stands: above or below the roof, and how far
ENDS_X, ENDS_Y = (0.1, 10000), (0.02, 2000)


def operators_of_block(d_model, n_tokens, *, fused: bool) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Count the operations of each operator of a block in the forward pass, and the bytes that it moves.

    The block has two LayerNorms, heads of width 64, a feed-forward layer with GELU that is four times as wide as the
    model, and biases. It reads one text, in which each query meets each key. Numbers have 16 bits. Each operator reads
    its inputs from memory and writes its results, once. Fused, there are four kernels: the biases and the activation
    are applied to the results of the products before these are written, attention writes no scores and no weights, and
    the residual sum is normalized before it is written.

    Args:
        d_model: width of the model, a tensor.
        n_tokens: length of the text, a tensor.
        fused: whether operators share a kernel.

    Returns:
        FLOPs and bytes, each of shape (8,), or (4,) if fused, in the order of ``OPERATORS``.

    Source: GT-17; Ivanov et al. (2021), table 1; Dao et al. (2022), section 3.1, for fused attention.

    >>> flops, moved = operators_of_block(torch.tensor(1024.0), torch.tensor(512.0), fused=False)
    >>> [round(i, 2) for i in (flops / moved).tolist()]
    [256.0, 51.2, 315.08, 1.25, 1.75, 0.25, 2.25, 0.17]
    """
    d, n, d_ff = d_model, n_tokens, 4 * d_model
    sizes = dict(d_model=d, n_layers=1, n_heads=1, n_kv_heads=1, d_ff=d_ff, gated=0, n_vocab=0, tied=1, n_ctx=n)
    products = decoder_costs(**sizes, batch=1, bytes_per_number=BYTES, training=1)["flops"][1:4]
    projections, mixing, feedforward = (n * flops for flops in products)
    n_scores, n_biases = d / D_HEAD * n * n, 5 * d + d_ff
    entries = {"softmax": n_scores, "norms": 2 * n * d, "biases": n * n_biases, "activation": n * d_ff}
    entries["residual"] = 2 * n * d
    softmax, norms, biases, activation, residual = (PER_ENTRY[name] * entries[name] for name in PER_ENTRY)
    read_once = 4 * (2 * n * d + d * d), 2 * (n * d + n * d_ff + d * d_ff)  # inputs, results and matrices of products
    if not fused:
        flops = projections, mixing, feedforward, softmax, norms, biases, activation, residual
        scores = 4 * n * d + 2 * n_scores
        alone = (2 * n_scores, 4 * n * d + 4 * d, 2 * n * n_biases + n_biases, 2 * n * d_ff, 6 * n * d)
        moved = read_once[0], scores, read_once[1], *alone
    else:
        in_feedforward = n * (d_ff + d)
        flops = (
            projections + 4 * n * d, mixing + softmax, feedforward + in_feedforward + activation, norms + residual,
        )  # fmt: skip
        moved = read_once[0] + 4 * d, 4 * n * d, read_once[1] + d_ff + d, 8 * n * d + 4 * d
    return torch.stack(flops), BYTES * torch.stack(moved)


class Roofline(Widget):
    r"""Show the operators of a block under the roof of a processor: arithmetic to the right, memory to the left.

    An operator that takes F FLOPs and moves B bytes has the arithmetic intensity :math:`I = F / B`. With a peak P in
    FLOP/s and a bandwidth W in bytes per second, it reaches at most

    .. math:: \min(P, I\, W) \text{ FLOP/s}, \quad\text{so it takes at least}\quad t = \max(F / P,\; B / W).

    It is memory-bound where :math:`I < P / W`. The counts are those of :func:`operators_of_block`, for 16-bit numbers.
    The times are lower bounds: the peak is that of matrix products, and starting a kernel takes no time.

    Args:
        d_model: the initial width of the model, a multiple of 64 up to 16,384.
        n_tokens: the initial length of the text, 1 to 65,536.
        hardware: the initial processor, one of the table ``hardware``.
        fused: whether operators share kernels at first.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a width or a length that is not allowed.

    Source: Williams et al. (2009), "Roofline"; Ivanov et al. (2021), table 1; GT-16, GT-17; the processors and their
    peaks are those of the table ``hardware``.

    >>> Roofline(1024, 512, fused=True)  # doctest: +NORMALIZE_WHITESPACE
    d_model 1024, 512 tokens, A100, fused: the ridge is at 153 FLOPs per byte. Memory-bound: residual + norms (1.00).
    They have 0.1 % of the FLOPs and 8.4 % of the time, which is at least 49.0 µs.
    """

    sentence = (
        "d_model {d_model}, {n_tokens} {several|token|tokens}, {hardware}, {fused|one operator per kernel|fused}: the "
        "ridge is at {ridge:.0f} FLOPs per byte. Memory-bound: [[{names[kernel]} ({below:.2f})]]. They have "
        "{flops_share:.1f} % of the FLOPs and {time_share:.1f} % of the time, which is at least "
        "{time:.1f} {time_unit|µs|ms|s}."
    )

    def __init__(
        self,
        d_model: int = 1024,
        n_tokens: int = 512,
        *,
        hardware: str = "A100",
        fused: bool = False,
        caption: str = "",
    ):
        whole("n_tokens", n_tokens, 1, 65536)
        if whole("d_model", d_model, D_HEAD, 16384) % D_HEAD:
            raise ValueError(f"{d_model=}; it must be a multiple of {D_HEAD}, the width of a head")
        rows = table("hardware")
        self.processors = torch.tensor([[float(row["flops_bfloat16"]), float(row["bandwidth"])] for row in rows])
        super().__init__(
            caption=caption,
            data={"names": list(OPERATORS), "hues": list(OPERATORS.values())},
            d_model=Slider(d_model, values=sorted({*WIDTHS, d_model})),
            n_tokens=Slider(n_tokens, values=sorted({*LENGTHS, n_tokens}), label="tokens"),
            hardware=Choice([row["name"] for row in rows], hardware, label="processor"),
            fused=Tick(fused, fixed=True, label="fused kernels"),
        )

    def compute(self, d_model, n_tokens, hardware, fused):
        flops, moved = operators_of_block(d_model.float(), n_tokens.float(), fused=fused)
        peak, bandwidth = self.processors.index_select(0, hardware[None])[0].unbind()
        intensity, ridge = flops / moved, peak / bandwidth
        seconds = torch.maximum(flops / peak, moved / bandwidth)
        bound = intensity < ridge
        roof = torch.stack((intensity.new_tensor(ENDS_X[0]), ridge, intensity.new_tensor(ENDS_X[1])))
        shares = {"flops": flops, "time": seconds}
        kernel = torch.arange(len(flops)) + N_ALONE * fused
        reached, above = torch.minimum(peak, intensity * bandwidth) / 1e12, torch.tensor(ABOVE)[kernel]
        found = {name: 100 * part / part.sum() for name, part in shares.items()}
        return {
            "kernel": kernel, "intensity": intensity, "ridge": ridge, "reached": reached,
            "name_x": intensity * 0.7**above, "name_y": reached * 2.0**above, "peak": peak / 1e12, "roof_x": roof,
            "roof_y": torch.minimum(peak, roof * bandwidth) / 1e12,
            "below": torch.where(bound, intensity, torch.nan), "several": n_tokens > 1,
            "flops_shares": found["flops"], "time_shares": found["time"],
            "flops_high": 1.3 * found["flops"].amax(), "time_high": 1.3 * found["time"].amax(),
            "flops_share": (found["flops"] * bound).sum(), "time_share": (found["time"] * bound).sum(),
        } | _readable("time", 1e6 * seconds.sum())  # fmt: skip

    def marks(self):
        thin = {"hue": "@hues[kernel]", "width": 1}
        roof = m.plot(
            m.band(ENDS_X[0], "ridge", hue="key"),
            m.line("roof_y", "roof_x", width=1.5),
            m.arrows("name_x", "name_y", x0="intensity", y0="reached", label="@names[kernel]", head=False, **thin),
            m.dots("intensity", "reached", hue="@hues[kernel]", size=6),
            m.words(0.13, 1200, ["memory-bound"], anchor="start"),
            m.words(9000, 0.035, ["compute-bound"], anchor="end"),
            x=m.axis(*ENDS_X, "FLOPs per byte", ticks=[0.1, 1, 10, 100, 1000, 10000], log=True),
            y=m.axis(*ENDS_Y, "TFLOP/s", ticks=[0.1, 1, 10, 100, 1000], log=True),
            title="{hardware}: {peak:.0f} TFLOP/s, ridge at {ridge:.0f} FLOPs per byte", height=360,
        )  # fmt: skip

        def bars(name, title, hint, digits):
            layer = m.bars(f"{name}_shares", hue="@hues[kernel]", across=True, text=f"{{value:.{digits}f}}")
            axes = {"x": m.axis(0, f"{name}_high", ticks=[]), "y": m.axis(labels="names[kernel]")}
            return m.plot(layer, title=title, hint=hint, height=230, **axes)

        shares = m.row(
            bars("flops", "Share of the FLOPs, %", "", 2),
            bars("time", "Share of the time, %", "each at its limit", 1),
        )
        facts = {"memory-bound, share of the FLOPs": "{flops_share:.1f} %"}
        facts |= {"memory-bound, share of the time": "{time_share:.1f} %"}
        facts |= {"time of the block, at least": "{time:.1f} {time_unit|µs|ms|s}"}
        controls = m.row("d_model", "n_tokens"), m.row("hardware", "fused")
        return [roof, shares, *controls, m.facts(**facts)]
