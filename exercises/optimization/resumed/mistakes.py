import torch


def _run(
    x, y, n_steps, saved_at, momentum, dropout, velocity_kept=True, generator_kept=True, next_step=None, seed=None
):
    def train(w, velocity, generator, first, last):
        for step in range(first, last):
            row = step % len(x)
            features = x[row] * (torch.rand(len(w), generator=generator) >= dropout)
            velocity = momentum * velocity + (features @ w - y[row]) * features
            w = w - 0.1 * (1 - step / n_steps) * velocity
        return w, velocity

    generator, zero = torch.Generator().manual_seed(0), torch.zeros(x.shape[1])
    w, velocity = train(zero, zero, generator, 0, saved_at)
    if not generator_kept:
        generator = torch.Generator().manual_seed(0 if seed is None else seed)
    first = saved_at if next_step is None else next_step
    return train(w, velocity if velocity_kept else zero, generator, first, n_steps)[0]


def step_repeated(x, y, n_steps, saved_at, momentum, dropout):
    """Velocity and generator are restored now, but the last step before the kill is done again. Which step comes
    next?"""
    return _run(x, y, n_steps, saved_at, momentum, dropout, next_step=saved_at - 1)


def velocity_lost(x, y, n_steps, saved_at, momentum, dropout):
    """The step and the generator are right now, but the velocity begins at zero again in the new process."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, velocity_kept=False)


def generator_lost(x, y, n_steps, saved_at, momentum, dropout):
    """The step and the velocity are right now, but the generator begins anew, so that dropout repeats the random
    numbers of the first steps."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, generator_kept=False)


def only_the_step_corrected(x, y, n_steps, saved_at, momentum, dropout):
    """The number of the step is right now. The velocity and the state of the generator are still lost."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, velocity_kept=False, generator_kept=False)


def only_the_velocity_restored(x, y, n_steps, saved_at, momentum, dropout):
    """The velocity is restored now. The last step is still done again, and the state of the generator is still lost."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, generator_kept=False, next_step=saved_at - 1)


def only_the_generator_restored(x, y, n_steps, saved_at, momentum, dropout):
    """The generator is restored now. The last step is still done again, and the velocity is still lost."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, velocity_kept=False, next_step=saved_at - 1)


def step_left_out(x, y, n_steps, saved_at, momentum, dropout):
    """Velocity and generator are restored now, but a step is left out: the new process begins one too far."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, next_step=saved_at + 1)


def generator_seeded_with_the_step(x, y, n_steps, saved_at, momentum, dropout):
    """The step and the velocity are right now, but you seed the generator with the number of the step. That is random
    enough, but not what the undisturbed run draws: restore its state."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, generator_kept=False, seed=saved_at)


def begins_again(x, y, n_steps, saved_at, momentum, dropout):
    """Your new process goes through all steps from the first one, with the weights of the checkpoint."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, next_step=0)


def begins_again_and_forgets(x, y, n_steps, saved_at, momentum, dropout):
    """Your new process goes through all steps from the first one, with the weights of the checkpoint, but without its
    velocity and its generator."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, velocity_kept=False, generator_kept=False, next_step=0)


def stops_at_the_checkpoint(x, y, n_steps, saved_at, momentum, dropout):
    """Your weights are those of the checkpoint: the new process does no step."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, next_step=n_steps)


def data_from_the_first_row(x, y, n_steps, saved_at, momentum, dropout):
    """Velocity, generator and learning rate are right, but the new process begins with the first row of data again."""

    def rolled(table):
        return torch.cat(
            [table[(step if step < saved_at else step - saved_at) % len(table)][None] for step in range(n_steps)]
        )

    return _run(rolled(x), rolled(y), n_steps, saved_at, momentum, dropout)


def generator_seeded_with_the_last_step(x, y, n_steps, saved_at, momentum, dropout):
    """The step and the velocity are right now, but you seed the generator with the number of the last step. That is
    random enough, but not what the undisturbed run draws: restore its state."""
    return _run(x, y, n_steps, saved_at, momentum, dropout, generator_kept=False, seed=saved_at - 1)


def two_steps_repeated(x, y, n_steps, saved_at, momentum, dropout):
    """Velocity and generator are restored now, but two steps are done again. Which step comes next?"""
    return _run(x, y, n_steps, saved_at, momentum, dropout, next_step=saved_at - 2)
