import torch


def cache_numbers() -> tuple[int, int, int, int, int]:
    """Return the bytes of a token with 64, 8 and 1 key-value heads, and how many tokens fit with 64 and with 8."""
    multi, grouped, single = (2 * 80 * n_kv_heads * 128 * 2 for n_kv_heads in (64, 8, 1))
    return multi, grouped, single, 80 * 10**9 // multi, 80 * 10**9 // grouped


def accepted_on_paper():
    """The numbers, in a list."""
    return [2_621_440, 327_680, 40_960, 30_517, 244_140]


def accepted_tensors():
    """Counts the bytes of a token's tensors."""
    sizes = [torch.empty(80, 2, n, 128, dtype=torch.float16).nbytes for n in (64, 8, 1)]
    return torch.tensor([*sizes, *(int(80e9 / size) for size in sizes[:2])])


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    for number in (float(each) for each in numbers):
        assert number.is_integer(), f"all five are whole numbers, and {number:,.10g} is not"
    return tuple(int(number) for number in numbers)


def hidden_cases(generator):
    return [{}]
