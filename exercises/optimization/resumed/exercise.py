import copy

import torch

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_rows n_features"],
    y: Float[Tensor, "n_rows"],
    n_steps: int,
    saved_at: int,
    momentum: float,
    dropout: float,
) -> Float[Tensor, "n_features"]:
    """Return the weights of a run that is killed after some steps and resumed from its checkpoint."""

    def start():
        generator = torch.Generator().manual_seed(0)
        return torch.zeros(x.shape[1]), torch.zeros(x.shape[1]), generator

    def train(w, velocity, generator, first, last):
        for step in range(first, last):
            row = step % len(x)
            features = x[row] * (torch.rand(len(w), generator=generator) >= dropout)
            gradient = (features @ w - y[row]) * features
            velocity = momentum * velocity + gradient
            w = w - 0.1 * (1 - step / n_steps) * velocity
        return w, velocity, step

    w, velocity, generator = start()
    w, velocity, step = train(w, velocity, generator, 0, saved_at)
    checkpoint = {"w": w, "step": step}

    w, velocity, generator = start()  # the old process is gone: this is a new one
    w = checkpoint["w"]
    w, velocity, step = train(w, velocity, generator, checkpoint["step"], n_steps)
    return w


def resumed(
    x: Float[Tensor, "n_rows n_features"],
    y: Float[Tensor, "n_rows"],
    n_steps: int,
    saved_at: int,
    momentum: float,
    dropout: float,
) -> Float[Tensor, "n_features"]:
    """Return the weights of a run that is killed after some steps and resumed from its checkpoint."""

    def start():
        generator = torch.Generator().manual_seed(0)
        return torch.zeros(x.shape[1]), torch.zeros(x.shape[1]), generator

    def train(w, velocity, generator, first, last):
        for step in range(first, last):
            row = step % len(x)
            features = x[row] * (torch.rand(len(w), generator=generator) >= dropout)
            gradient = (features @ w - y[row]) * features
            velocity = momentum * velocity + gradient
            w = w - 0.1 * (1 - step / n_steps) * velocity
        return w, velocity, step

    w, velocity, generator = start()
    w, velocity, step = train(w, velocity, generator, 0, saved_at)
    checkpoint = {"w": w, "velocity": velocity, "next": step + 1, "generator": generator.get_state()}

    w, velocity, generator = start()
    w, velocity = checkpoint["w"], checkpoint["velocity"]
    generator.set_state(checkpoint["generator"])
    w, velocity, step = train(w, velocity, generator, checkpoint["next"], n_steps)
    return w


def accepted_generator_wound_forward(x, y, n_steps, saved_at, momentum, dropout):
    """Draws again what had been drawn before the kill, and keeps the rest as lists."""

    def steps(state, generator, first, last):
        w, velocity = state
        for step in range(first, last):
            a, b = x[step % len(x)], y[step % len(x)]
            a = torch.where(torch.rand(a.shape, generator=generator) < dropout, 0, a)
            velocity = momentum * velocity + (a @ w - b) * a
            w = w - 0.1 * (1 - step / n_steps) * velocity
        return torch.stack((w, velocity))

    saved = steps(x.new_zeros(2, x.shape[1]), torch.Generator().manual_seed(0), 0, saved_at).tolist()
    generator = torch.Generator().manual_seed(0)
    for _ in range(saved_at):
        torch.rand(x.shape[1], generator=generator)
    return steps(torch.tensor(saved), generator, saved_at, n_steps)[0]


def accepted_whole_run_copied(x, y, n_steps, saved_at, momentum, dropout):
    """Stores a copy of the whole run, its generator included, which knows its own step."""
    run = {"w": x.new_zeros(x.shape[1]), "velocity": 0, "step": 0, "generator": torch.Generator().manual_seed(0)}

    def train(run, last):
        while run["step"] < last:
            row = run["step"] % len(x)
            keep = torch.rand(x.shape[1], generator=run["generator"]) >= dropout
            error = (x[row] * keep * run["w"]).sum() - y[row]
            run["velocity"] = momentum * run["velocity"] + error * x[row] * keep
            run["w"] = run["w"] - (0.1 - 0.1 * run["step"] / n_steps) * run["velocity"]
            run["step"] += 1

    train(run, saved_at)
    checkpoint = copy.copy(run) | {"generator": run["generator"].get_state()}
    run = checkpoint | {"generator": torch.Generator()}
    run["generator"].set_state(checkpoint["generator"])
    train(run, n_steps)
    return run["w"]


def accepted_undisturbed(x, y, n_steps, saved_at, momentum, dropout):
    """Is not killed at all, and draws all random numbers in advance."""
    generator = torch.Generator().manual_seed(0)
    keep = torch.stack([torch.rand(x.shape[1], generator=generator) for _ in range(n_steps)]) >= dropout
    w, velocity = torch.zeros(x.shape[1]), torch.zeros(x.shape[1])
    for step, kept in enumerate(keep):
        features = x[step % len(x)] * kept
        velocity = velocity * momentum + features * (features.dot(w) - y[step % len(x)])
        w = w - velocity * (0.1 * (1 - step / n_steps))
    return w


NAMES = ("x", "y", "n_steps", "saved_at", "momentum", "dropout")


def cases(generator):
    def drawn(n_rows, n_features, n_steps, saved_at, momentum, dropout):
        x = (10 * torch.randn(n_rows, n_features, generator=generator)).round() / 10
        y = (20 * torch.randn(n_rows, generator=generator)).round() / 10
        return dict(zip(NAMES, (x, y, n_steps, saved_at, momentum, dropout), strict=True))

    return [
        drawn(5, 3, 12, 7, 0.9, 0.2),
        dict(zip(NAMES, (torch.ones(1, 1), torch.ones(1), 4, 2, 0.0, 0.0), strict=True)),
        drawn(4, 3, 10, 6, 0.0, 0.0),
        drawn(3, 2, 9, 5, 0.8, 0.0),
        drawn(4, 5, 11, 6, 0.0, 0.4),
        drawn(3, 4, 8, 6, 0.7, 0.3),
        drawn(6, 4, 20, 1, 0.5, 0.25),
    ]


def property_any_moment(answer, generator):
    x, y = torch.randn(5, 3, generator=generator), torch.randn(5, generator=generator)
    runs = {saved_at: answer(x.clone(), y.clone(), 14, saved_at, 0.9, 0.3) for saved_at in (1, 5, 9, 13)}
    for saved_at, w in runs.items():
        assert torch.allclose(w, runs[1], atol=1e-5), (
            "The weights after 14 steps should be the same, whenever the run is killed. Yours differ between a run "
            f"that is killed after 1 step and one that is killed after {saved_at}."
        )


def hidden_cases(generator):
    def drawn(n_rows, n_features, n_steps, saved_at, momentum, dropout):
        x, y = torch.randn(n_rows, n_features, generator=generator), torch.randn(n_rows, generator=generator)
        return dict(zip(NAMES, (x, y, n_steps, saved_at, momentum, dropout), strict=True))

    return [drawn(6, 4, 15, 8, 0.9, 0.3), drawn(3, 5, 10, 3, 0.6, 0.5), drawn(7, 2, 13, 10, 0.8, 0.2)]
