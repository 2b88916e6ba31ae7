"""What the tests in a browser rely on: no page reaches another machine, and none finds what an earlier test stored."""

import pytest

pytestmark = pytest.mark.browser
STORED = "[localStorage.getItem('a'), sessionStorage.getItem('a'), document.cookie]"


@pytest.mark.parametrize("time", ["first", "second"])
def test_what_a_page_stores_is_gone_after_the_test(site, visit, time):
    page = visit(f"{site}/_static/favicon.svg")
    assert page.evaluate(STORED) == [None, None, ""]
    page.evaluate("localStorage.setItem('a', 1); sessionStorage.setItem('a', 1); document.cookie = 'a=1'")
    assert page.evaluate(STORED) == ["1", "1", "a=1"]


def test_a_request_to_another_machine_is_refused_and_told(visit, tmp_path):
    (tmp_path / "page.html").write_text("<img src='http://one.example/a.png'><script>nowhere()</script>")
    page = visit((tmp_path / "page.html").as_uri())
    asked = "fetch('https://two.example/').then(answer => answer.status, error => error.name)"
    assert page.evaluate(asked) == "TypeError"
    (tab,) = visit.tabs
    with pytest.raises(AssertionError, match="one.example.*two.example"):
        tab.check()
    tab.foreign.clear()
    with pytest.raises(AssertionError, match="a script failed: .*nowhere"):
        tab.check()
    tab.errors.clear()
