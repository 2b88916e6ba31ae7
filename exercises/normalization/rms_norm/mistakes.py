import torch


def _wide(x, weight, eps, divide):
    return (divide(x.float()) * weight.float()).to(x.dtype)


def computed_in_the_dtype_of_x(x, weight, eps):
    """In float32 your result is right, but in float16 your squares overflow: divided by infinity, everything becomes
    zero. What must happen before the square?"""
    return (x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight).to(x.dtype)


def rounded_before_the_weight(x, weight, eps):
    """You round to the dtype of x before the product with the weight, as Llama's code does. Here the product is
    computed in float32 as well, and rounding comes last."""
    wide = x.float()
    return ((wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype) * weight.to(x.dtype)).to(x.dtype)


def rounded_before_a_wide_weight(x, weight, eps):
    """You round to the dtype of x before the product with the weight, and once more after it. Rounding comes last, and
    only once."""
    wide = x.float()
    return ((wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype).float() * weight).to(x.dtype)


def rounded_only_before_the_weight(x, weight, eps):
    """You round to the dtype of x before the product with the weight, and not after it, as Llama's code does if the
    weight has more bits. Here the rounding comes last."""
    wide = x.float()
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype) * weight


def not_rounded(x, weight, eps):
    """Your result is not rounded to the dtype of x. If you have given a new value to x, its old dtype is lost."""
    wide = x.float()
    return wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight.float()


def dtype_of_the_weight(x, weight, eps):
    """Your result has the dtype of the weight. It should have that of x."""
    wide = x.float()
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight.float()).to(weight.dtype)


def weight_rounded(x, weight, eps):
    """You round the weight to the dtype of x before the product. If it has more bits, convert it to float32 as it
    is."""
    return _wide(x, weight.to(x.dtype), eps, lambda x: x / (x.square().mean(-1, keepdim=True) + eps).sqrt())


def root_rounded(x, weight, eps):
    """You round the root mean square to the dtype of x before you divide by it. Rounding comes last."""
    rms = (x.float().square().mean(-1, keepdim=True) + eps).sqrt().to(x.dtype)
    return (x.float() / rms * weight.float()).to(x.dtype)


def root_rounded_and_divided(x, weight, eps):
    """You round the root mean square to the dtype of x and go on in that dtype. Everything is computed in float32, and
    rounding comes last."""
    rms = (x.float().square().mean(-1, keepdim=True) + eps).sqrt().to(x.dtype)
    return (x / rms * weight).to(x.dtype)


def eps_outside_the_root(x, weight, eps):
    """You add epsilon to the root mean square. Where does it stand in the formula?"""
    return _wide(x, weight, eps, lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + eps))


def no_eps(x, weight, eps):
    """You leave out epsilon, or use one of your own instead of `eps`. It counts where the entries of a token are
    small."""
    return _wide(x, weight, eps, lambda x: x / x.square().mean(-1, keepdim=True).sqrt())


def eps_as_a_floor(x, weight, eps):
    """You use epsilon as the smallest value of the mean square. The formula adds it, always."""
    return _wide(x, weight, eps, lambda x: x / x.square().mean(-1, keepdim=True).clamp(min=eps).sqrt())


def sum_instead_of_mean(x, weight, eps):
    """You divide a token by its norm: the squares are added up, but not divided by d."""
    return _wide(x, weight, eps, lambda x: x / (x.square().sum(-1, keepdim=True) + eps).sqrt())


def length_without_eps(x, weight, eps):
    """You divide a token by its norm: the squares are added up, but not divided by d. Epsilon is also missing, or you
    use one of your own instead of `eps`."""
    return _wide(x, weight, eps, lambda x: x / x.norm(dim=-1, keepdim=True))


def no_root(x, weight, eps):
    """You divide by the mean square. Its root is missing."""
    return _wide(x, weight, eps, lambda x: x / (x.square().mean(-1, keepdim=True) + eps))


def multiplied_by_the_root(x, weight, eps):
    """You multiply by the root mean square. Divide by it."""
    return _wide(x, weight, eps, lambda x: x * (x.square().mean(-1, keepdim=True) + eps).sqrt())


def layer_norm(x, weight, eps):
    """You subtract the mean, and your root is the standard deviation. That is layer norm; RMSNorm does without a
    mean."""
    return _wide(
        x, weight, eps, lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    )


def centred_before_the_division(x, weight, eps):
    """You subtract the mean from x before you divide. RMSNorm does without a mean."""
    return _wide(
        x, weight, eps, lambda x: (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    )


def divided_by_the_standard_deviation(x, weight, eps):
    """You divide by the standard deviation, whose squares are those of the deviations from the mean. The root mean
    square takes the squares of x itself."""
    return _wide(x, weight, eps, lambda x: x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt())


def mean_of_absolute_values(x, weight, eps):
    """You divide by the mean of the absolute values. The root mean square is the root of the mean of squares."""
    return _wide(x, weight, eps, lambda x: x / (x.abs().mean(-1, keepdim=True) + eps))


def square_of_the_mean(x, weight, eps):
    """You square the mean. The squares come first, then their mean. Without a sum sign, the slide's formula leaves this
    open (erratum E-35)."""
    return _wide(x, weight, eps, lambda x: x / (x.mean(-1, keepdim=True).square() + eps).sqrt())


def no_mean_at_all(x, weight, eps):
    """You divide each entry by a number of its own, as the slide's formula has it without its sum sign (erratum E-35).
    All entries of a token share one divisor."""
    return _wide(x, weight, eps, lambda x: x / (x.square() / x.shape[-1] + eps).sqrt())


def over_the_first_axis(x, weight, eps):
    """You take the mean over the first axis. Each token has its own, over its features."""
    return _wide(x, weight, eps, lambda x: x / (x.square().mean(0, keepdim=True) + eps).sqrt())


def over_everything(x, weight, eps):
    """You take one mean of all squares. Each token has its own."""
    return _wide(x, weight, eps, lambda x: x / (x.square().mean() + eps).sqrt())


def no_weight(x, weight, eps):
    """The weight is missing."""
    return _wide(x, torch.ones(()), eps, lambda x: x / (x.square().mean(-1, keepdim=True) + eps).sqrt())


def one_plus_weight(x, weight, eps):
    """You multiply by one plus the weight, as Gemma's code does. Here the gain is the weight itself."""
    return _wide(x, 1 + weight.float(), eps, lambda x: x / (x.square().mean(-1, keepdim=True) + eps).sqrt())


def weight_first(x, weight, eps):
    """You multiply by the weight before you take the root mean square. The weight comes last, so it does not change the
    divisor."""
    return _wide(
        x * weight.float(), torch.ones(()), eps, lambda x: x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    )
