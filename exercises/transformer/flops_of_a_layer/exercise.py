import torch


def flops_of_a_layer(n_ctx: int, d_model: int, d_ff: int, n_heads: int) -> tuple[int, int, int, int]:
    """Return the operations of projections, of scores and mixing, and of feed-forward, and the length of equal cost."""
    projections = 4 * 2 * n_ctx * d_model**2
    scores_and_mixing = 2 * 2 * n_ctx**2 * d_model  # n_heads times d_head is d_model
    return projections, scores_and_mixing, 2 * 2 * n_ctx * d_model * d_ff, 2 * d_model + d_ff


def accepted_product_by_product(n_ctx, d_model, d_ff, n_heads):
    """Adds up the products one by one, head by head."""

    def product(a, b, c):
        return 2 * a * b * c

    width = d_model // n_heads
    projections = sum(product(n_ctx, d_model, d_model) for _ in range(4))
    attention = sum(product(n_ctx, width, n_ctx) + product(n_ctx, n_ctx, width) for _ in range(n_heads))
    feedforward = product(n_ctx, d_model, d_ff) + product(n_ctx, d_ff, d_model)
    return [projections, attention, feedforward, n_ctx * (projections + feedforward) // attention]


def accepted_counted_by_pytorch(n_ctx, d_model, d_ff, n_heads):
    """Runs the products on tensors without numbers, and lets PyTorch count."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted(*products):
        with FlopCounterMode(display=False) as counter:
            for a, b in products:
                torch.bmm(torch.empty(a, device="meta"), torch.empty(b, device="meta"))
        return counter.get_total_flops()

    head, back = (n_heads, n_ctx, d_model // n_heads), (n_heads, d_model // n_heads, n_ctx)
    x, inner = (1, n_ctx, d_model), (1, n_ctx, d_ff)
    first = counted(*[(x, (1, d_model, d_model))] * 4)
    second = counted((head, back), ((n_heads, n_ctx, n_ctx), head))
    third = counted((x, (1, d_model, d_ff)), (inner, (1, d_ff, d_model)))
    return first, second, third, round(n_ctx * (first + third) / second)


def cases(generator):
    names = "n_ctx", "d_model", "d_ff", "n_heads"
    sizes = [(3, 4, 5, 2), (1024, 768, 3072, 12), (7, 12, 20, 3), (4096, 4096, 14336, 32)]
    return [dict(zip(names, each, strict=True)) for each in sizes]


def property_equal_at_the_fourth_number(answer, generator):
    n = int(answer(100, 24, 40, 4)[3])
    projections, attention, feedforward, _ = map(int, answer(n, 24, 40, 4))
    assert attention == projections + feedforward, (
        "With as many tokens as your fourth number says, the second number should be the sum of the first and third. "
        "By your own formulas it is not."
    )


def property_heads_do_not_matter(answer, generator):
    one, six = (list(map(int, answer(10, 24, 40, n_heads))) for n_heads in (1, 6))
    assert one == six, "More heads are narrower heads, so no number should change with n_heads. Yours do."


def hidden_cases(generator):
    names = "n_ctx", "d_model", "d_ff", "n_heads"
    drawn = [torch.randint(2, high, (5,), generator=generator).tolist() for high in (900, 60, 700, 9)]
    return [dict(zip(names, (n, d * h, f, h), strict=True)) for n, d, f, h in zip(*drawn, strict=True)]
