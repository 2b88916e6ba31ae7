def cases(generator):
    sizes = (2, 8, 10000), (30, 64, 500000), (11, 12, 200), (199, 16, 10000), (1, 128, 10000)
    return [{"n_back": n_back, "d_head": d_head, "base": base} for n_back, d_head, base in sizes]
