import torch

from llm_anatomy.shapes import Float, Tensor


def intensity(
    n_tokens: int, d_in: int, d_out: int, n_bytes: int, peak: float, bandwidth: float
) -> tuple[Float[Tensor, "2"], list[str]]:
    """Return the arithmetic intensities of the matrix product and of the norm, and what each waits for."""
    product = 2 * n_tokens * d_in * d_out / (n_bytes * (n_tokens * d_in + d_in * d_out + n_tokens * d_out))
    norm = 4 * n_tokens * d_in / (n_bytes * (2 * n_tokens * d_in + d_in))
    both = [product, norm]
    return torch.tensor(both), ["memory" if each < peak / bandwidth else "compute" for each in both]


def accepted_times(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Compares the two times that each operator would need."""
    flops = torch.tensor([2.0 * n_tokens * d_in * d_out, 4.0 * n_tokens * d_in], dtype=torch.float64)
    numbers = [n_tokens * d_in + d_in * d_out + n_tokens * d_out, n_tokens * d_in + d_in + n_tokens * d_in]
    moved = n_bytes * torch.tensor(numbers, dtype=torch.float64)
    waits = (moved / bandwidth > flops / peak).tolist()
    return flops / moved, tuple("memory" if wait else "compute" for wait in waits)


def accepted_on_the_meta_device(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
    """Counts the numbers of tensors that need no memory."""
    x, w = torch.empty(n_tokens, d_in, device="meta"), torch.empty(d_in, d_out, device="meta")
    y, gain = x @ w, torch.empty(d_in, device="meta")
    product = 2 * d_in * y.numel() / sum(t.numel() * n_bytes for t in (x, w, y))
    norm = 4 * x.numel() / sum(t.numel() * n_bytes for t in (x, x, gain))
    words = {True: "compute", False: "memory"}
    return torch.tensor([product, norm]), [words[each * bandwidth > peak] for each in (product, norm)]


def cases(generator):
    def case(n_tokens, d_in, d_out, n_bytes, peak, bandwidth):
        names = ("n_tokens", "d_in", "d_out", "n_bytes", "peak", "bandwidth")
        return dict(zip(names, (n_tokens, d_in, d_out, n_bytes, peak, bandwidth), strict=True))

    return [
        case(4096, 1024, 4096, 2, 312e12, 2039e9),  # an A100
        case(1, 1024, 4096, 2, 312e12, 2039e9),
        case(256, 1024, 1024, 2, 312e12, 2039e9),  # a little more than the A100's own 153
        case(200, 1000, 1100, 2, 312e12, 2039e9),  # a little less
        case(2, 3, 5, 4, 3.0, 2.0),
        case(3, 7, 2, 1, 1.0, 2.0),
        case(300, 500, 20, 2, 8.1, 0.25),
    ]


def property_no_norm_is_above_this(answer, generator):
    for n_tokens in (1, 10, 10_000):
        for n_bytes in (2, 4):
            found = float(answer(n_tokens, 64, 48, n_bytes, 8e12, 3e11)[0][1])
            assert 0 < found < 2 / n_bytes, (
                f"A norm reads and writes each number, for four operations. So with {n_bytes} bytes for a number, its "
                f"intensity is above 0 and below {2 / n_bytes:g}, however large the table is. Yours is {found:g}."
            )


def property_more_tokens(answer, generator):
    few, many = (float(answer(n_tokens, 64, 48, 2, 8e12, 3e11)[0][0]) for n_tokens in (8, 80))
    assert few < many, (
        "The intensity of the product should grow with the number of tokens, because each weight that is read serves "
        "all of them. Yours does not grow."
    )


def hidden_cases(generator):
    names = ("n_tokens", "d_in", "d_out", "n_bytes", "peak", "bandwidth")
    values = [(512, 768, 3072, 4, 19.5e12, 2039e9), (16, 4096, 11008, 2, 989.4e12, 3350e9), (5, 2, 9, 8, 1.0, 6.0)]
    values += [(64, 32, 256, 2, 65e12, 320e9), (90, 300, 400, 4, 19.5e12, 1e12)]
    values += [(n_tokens, 2048, 1536, 2, 989.4e12, 3350e9) for n_tokens in (400, 480)]
    return [dict(zip(names, each, strict=True)) for each in values]
