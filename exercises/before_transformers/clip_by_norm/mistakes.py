import torch


def _length(gradients):
    return torch.cat([value.flatten() for value in gradients.values()]).norm()


def each_tensor_alone(gradients, max_norm):
    """You limit each tensor on its own. The length of all of them together counts, and they share one factor."""
    return {name: value * min(1.0, max_norm / max(value.norm().item(), 1e-12)) for name, value in gradients.items()}


def each_number(gradients, max_norm):
    """You limit each number, which changes the direction. Multiply all of them by a common factor."""
    return {name: value.clamp(-max_norm, max_norm) for name, value in gradients.items()}


def always_scaled(gradients, max_norm):
    """You also lengthen gradients that are shorter than max_norm. Leave these as they are."""
    length = max(_length(gradients).item(), 1e-12)
    return {name: value * max_norm / length for name, value in gradients.items()}


def length_one(gradients, max_norm):
    """You divide by the length, so that all gradients together have length one. Their length should be max_norm."""
    length = _length(gradients)
    return {name: value / length if length > max_norm else value for name, value in gradients.items()}


def squared_length(gradients, max_norm):
    """You divide by the sum of the squares. The length is the root of it."""
    squares = _length(gradients) ** 2
    return {name: value * max_norm / squares if squares > max_norm else value for name, value in gradients.items()}


def sum_of_lengths(gradients, max_norm):
    """You add up the lengths of the tensors. Add up all squares, and take the root of the sum."""
    total = sum(value.norm() for value in gradients.values())
    return {name: value * max_norm / total if total > max_norm else value for name, value in gradients.items()}


def largest_number(gradients, max_norm):
    """You measure the largest number. Measure the length, the root of the sum of the squares."""
    most = max(value.abs().max() for value in gradients.values())
    return {name: value * max_norm / most if most > max_norm else value for name, value in gradients.items()}


def sum_of_absolute_values(gradients, max_norm):
    """You add up the absolute values. The length is the root of the sum of the squares."""
    total = sum(value.abs().sum() for value in gradients.values())
    return {name: value * max_norm / total if total > max_norm else value for name, value in gradients.items()}


def set_to_zero(gradients, max_norm):
    """You set a long gradient to zero. Shorten it, and keep its direction."""
    return {name: value * (_length(gradients) <= max_norm) for name, value in gradients.items()}


def unchanged(gradients, max_norm):
    """You return the gradients as they are, also when they are too long."""
    return {name: value.clone() for name, value in gradients.items()}


def divided_by_max_norm(gradients, max_norm):
    """You divide by max_norm. Multiply by max_norm, and divide by the length."""
    too_long = _length(gradients) > max_norm
    return {name: value / max_norm if too_long else value for name, value in gradients.items()}


def root_mean_square(gradients, max_norm):
    """You measure the root of the mean square. The length is the root of the sum of the squares."""
    size = torch.cat([value.flatten() for value in gradients.values()]).square().mean().sqrt()
    return {name: value * max_norm / size if size > max_norm else value for name, value in gradients.items()}


def longest_tensor(gradients, max_norm):
    """You measure only the longest of the tensors. The length of all of them together counts."""
    longest = max(value.norm() for value in gradients.values())
    return {name: value * max_norm / longest if longest > max_norm else value for name, value in gradients.items()}
