"""A browser that sees nothing but this machine: one for all tests of a process, since Playwright starts only once.

A script that a page never finishes would be waited for without end. So a browser that a test has used for ``PATIENCE``
seconds is killed, which fails the test, and the next test gets a new one.
"""

import os
import shutil
import subprocess
import threading
from collections import defaultdict
from contextlib import contextmanager
from importlib.resources import files
from urllib.parse import urlsplit

import psutil
import pytest

HOW_TO_GET_IT = (
    "no Chromium found: install it (on Debian and Ubuntu: apt-get install chromium) or name it in CHROMIUM=/path/to/it"
)

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ACCEPTED: dict[str, str] = {}  # rule: why the theme's breach of it is borne with; none at present
PATIENCE = 300.0


@contextmanager
def watched():
    """Kill the browser of this process if what is done with it takes too long."""

    def kill():
        for child in psutil.Process().children(recursive=True):
            if "chrom" in child.name():
                child.kill()

    timer = threading.Timer(PATIENCE, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def process(command, **options):
    """A process that is asked to stop at the end; it and what it has started are then killed if they do not."""
    with subprocess.Popen(command, **options) as started:
        try:
            yield started
        finally:
            family = []
            if started.poll() is None:
                family = [*psutil.Process(started.pid).children(recursive=True), psutil.Process(started.pid)]
                started.terminate()
            for left in psutil.wait_procs(family, 60)[1]:
                left.kill()


@pytest.fixture(scope="session")
def browser():
    """``browser()``: headless Chromium, a new one if the last has ended. It reaches this machine and no other.

    Where there is none, the test is skipped with a sentence that says how to get it.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(HOW_TO_GET_IT)
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -r requirements.txt")
    flags = ["disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync", "no-first-run"]
    flags += ["no-sandbox", "disable-dev-shm-usage", "proxy-server=127.0.0.1:9"]  # nobody listens on port 9
    options = dict(executable_path=program, args=[f"--{flag}" for flag in flags])
    with sync_api.sync_playwright() as playwright:
        started = [playwright.chromium.launch(**options)]

        def running():
            if not started[-1].is_connected():
                started.append(playwright.chromium.launch(**options))
            return started[-1]

        yield running
        started[-1].close()


@pytest.fixture(scope="session")
def profile(browser):
    """``profile(**options)``: the profile of all readers with these options, made once: a new one takes seconds."""
    made = {}

    def of(**options):
        key = browser(), *sorted(options.items())
        if key not in made:
            made[key] = key[0].new_context(**options)
            made[key].set_default_timeout(60_000)
            made[key].new_page()  # kept open, and with it what the browser has compiled and stored
        return made[key]

    of.idle = defaultdict(list)  # tabs in which tests have been: in a new one, a page takes twice the time
    return of


class Tab:
    """A tab, what it asks of other hosts, and the errors of its scripts."""

    def __init__(self, profile):
        self.page = profile.new_page()
        self.forget()
        self.page.on("request", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def forget(self):
        self.foreign, self.errors, self.origins = [], [], set()

    def _note(self, request):
        address = urlsplit(request.url)
        if request.is_navigation_request():
            self.origins.add(f"{address.scheme}://{address.netloc}")
        if address.hostname and address.hostname not in ("127.0.0.1", "localhost"):
            self.foreign.append(request.url)

    def open(self, address, width=1280, color_scheme="light", script="", formulas=True):
        self.page.add_init_script(script)
        if not formulas:
            session = self.page.context.new_cdp_session(self.page)
            session.send("Network.enable")
            session.send("Network.setBlockedURLs", {"urls": ["*/mathjax/*"]})
        self.page.set_viewport_size({"width": width, "height": 844})
        self.page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion="reduce")  # it costs much work
        self.page.goto(address)
        return self.page

    def leave(self):
        """Show nothing and forget what pages have stored; gives whether another test may use it."""
        if not self.page.context.browser.is_connected() or self.page.is_closed():
            return False
        self.page.unroute_all()
        self.page.goto("about:blank")
        self._delete_what_is_stored()
        return True

    def close(self):
        """Close it and forget what its pages have stored."""
        if self.page.context.browser.is_connected():
            self._delete_what_is_stored()
            self.page.close()

    def _delete_what_is_stored(self):
        session = self.page.context.new_cdp_session(self.page)
        for origin in self.origins:
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()

    def check(self):
        """Fail if a request would have left this machine, or a script has failed.

        The theme has one error: it declares THEBE_JS_URL twice, to no effect.
        """
        assert not self.foreign, f"the page asked other hosts: {self.foreign}"
        errors = [error for error in self.errors if "THEBE_JS_URL" not in error]
        assert not errors, f"a script failed: {errors}"


@pytest.fixture
def visit(profile):
    """``visit(address, width=1280, color_scheme="light", **options of the profile)`` opens a page in a tab of its own.

    ``script`` runs before the page's own, at each load. Without ``formulas``, none is drawn, which takes long.
    A request that would leave this machine is refused, and fails the test, as does an error in a script. What pages
    store is gone after the test.
    """
    tabs, used = [], []

    def open_page(address, width=1280, color_scheme="light", script="", formulas=True, **options):
        key = profile(**options), formulas
        idle = profile.idle[key]
        tabs.append(idle.pop() if idle and not script else Tab(key[0]))
        used.append((tabs[-1], None if script else key))
        return tabs[-1].open(address, width, color_scheme, script, formulas)

    open_page.tabs = tabs
    yield open_page
    try:
        for tab, key in used:
            if key and tab.leave():
                profile.idle[key].append(tab)
            else:
                tab.close()
        for tab in tabs:
            tab.check()
    finally:
        for tab in tabs:
            tab.forget()


@pytest.fixture(scope="session")
def breaches():
    """``breaches(page, part="html")``: one line for each element in these parts that breaks a rule of axe-core."""
    pytest.importorskip("axe_playwright_python", reason="no axe-core: pip install -r requirements.txt")
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

    def found(page, part="html"):
        page.evaluate("'axe' in window") or page.evaluate(axe + "; 0")
        options = {"runOnly": RULES, "resultTypes": ["violations"]}
        return [
            f"{rule['id']} ({rule['help']}): {node['html'][:200]}"
            for rule in page.evaluate("([part, options]) => axe.run(part, options)", [part, options])["violations"]
            if rule["id"] not in ACCEPTED
            for node in rule["nodes"]
        ]

    return found
