"""Start the processes of a run with torchrun, and return the status with which they have left.

torchrun returns 1 if a worker fails or a signal stops it, whatever the status of the workers (measured with two workers
and PyTorch 2.13). A scheduler then cannot tell a run that has saved and wants to go on from one that is broken. This
module runs torchrun with the same arguments in the same process, and returns the status of the worker that was the
first to leave with one other than 0.
"""

import sys
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from llm_anatomy.training.lab.signals import EXIT_STATUS


def launch(arguments: Sequence[str]) -> int:
    """Run torchrun.

    Workers that torchrun asks to stop have 30 seconds before it kills them; ``--shutdown-timeout`` gives them longer.
    With ``--max-restarts`` above 0, torchrun itself starts the workers again when they leave with ``EXIT_STATUS``.

    Args:
        arguments: those of torchrun, such as ``["--nproc-per-node", "8", "-m", "llm_anatomy", "train", "run.yaml"]``.

    Returns:
        The status of the first worker that failed, or 128 plus the number of the signal that killed it, as in a shell;
        ``EXIT_STATUS`` if torchrun itself was asked to stop by a signal; 0 if no worker failed.

    Source: the documentation of PyTorch, "torchrun (Elastic Launch)".

    >>> import contextlib, io
    >>> with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    ...     _ = launch(["--help"])
    """
    try:
        torchrun(list(arguments))
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
    except SignalException:
        return EXIT_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1:]))
