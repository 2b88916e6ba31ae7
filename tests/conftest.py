"""What tests of several folders share: a browser, and a process in which code is compiled.

Run-time shape checks and compilation with fullgraph do not go together.
"""

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
from chromium import breaches, browser, profile, visit, watched  # noqa: F401  (fixtures)


def uses_the_browser(item):
    return "browser" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items):
    """Run a test in the browser once more if it fails: on a busy machine, a page may come too late."""
    for item in filter(uses_the_browser, items):
        item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with watched() if uses_the_browser(item) else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with watched() if uses_the_browser(item) else nullcontext():
        return (yield)


SERVER = """
import json, sys, traceback
import torch
from torch._dynamo.utils import counters
for line in sys.stdin:
    torch._dynamo.reset(), counters.clear()
    torch.manual_seed(0)
    try:
        exec(json.loads(line), {"__name__": "code"})
        error = None
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps(error), flush=True)
"""


@pytest.fixture(scope="session")
def run_without_shape_checks():
    """A function that runs code in one fresh process, kept for all tests: starting the compiler takes seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(code):
            process.stdin.write(json.dumps(code) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, "the process has ended"
            error = json.loads(answer)
            assert error is None, error

        yield run
        process.stdin.close()
