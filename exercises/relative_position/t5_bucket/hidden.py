import torch


def cases(generator):
    # Whole numbers under the floor are left out: there rounding decides.
    def drawn(n_queries, n_keys, n_buckets, max_distance, single, bins):
        def safe(distance):
            growth = bins * torch.log(distance.double() / single) / torch.log(torch.tensor(max_distance / single))
            return (distance < single) | (distance > max_distance) | ((growth - growth.round()).abs() > 1e-3)

        distances = torch.arange(0, 3 * max_distance)
        distances = distances[safe(distances)]
        picked = torch.randint(0, len(distances), (n_queries, n_keys), generator=generator)
        near = torch.randint(0, 2 * single, (n_queries, n_keys), generator=generator)
        closer = torch.rand(n_queries, n_keys, generator=generator) < 0.4
        offset = torch.where(closer & safe(near), near, distances[picked])
        offset[0, 0] = 0
        sign = torch.randint(0, 2, (n_queries, n_keys), generator=generator) * 2 - 1
        return {"offset": offset * sign, "n_buckets": n_buckets, "max_distance": max_distance}

    return [
        drawn(9, 14, 32, 128, 8, 8),
        drawn(5, 8, 16, 50, 4, 4),
        drawn(6, 11, 64, 256, 16, 16),
        drawn(7, 4, 10, 20, 2, 3),
    ]
