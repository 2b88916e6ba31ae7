import torch


def cases(generator):
    def drawn(d_head, n_offsets, base, dtype=torch.float32):
        query, key = (torch.randn(d_head, generator=generator).to(dtype) for _ in range(2))
        return {
            "query": query,
            "key": key,
            "offsets": torch.randint(-400, 400, (n_offsets,), generator=generator),
            "base": base,
        }

    # nearly all products alike, so that the last step, down to 0, is the largest
    level = drawn(12, 4, 1000)
    level |= {"query": 1.5 + level["query"] / 50, "key": 1 + level["key"] / 50}
    return [level, drawn(4, 3, 10000), drawn(16, 1, 500), drawn(64, 9, 500000), drawn(6, 5, 30, torch.float64)]
