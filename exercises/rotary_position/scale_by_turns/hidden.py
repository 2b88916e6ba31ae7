def cases(generator):
    names = "d_head", "base", "factor", "n_trained"
    sizes = (6, 100, 2, 40), (32, 10000, 5, 300), (14, 1000, 16, 50), (64, 500000, 8, 4096)
    return [dict(zip(names, values, strict=True)) for values in sizes]
