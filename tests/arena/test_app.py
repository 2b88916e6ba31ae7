"""The pages, asked without a browser: a vote counts once, names are hidden until then, and strangers get nowhere."""

import http.client
import re
import threading
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("starlette", reason="pip install 'llm_anatomy[arena]'")
from arena.conftest import OUTPUTS

from llm_anatomy.arena import app
from llm_anatomy.arena.battles import Battles
from llm_anatomy.arena.outputs import Outputs
from llm_anatomy.arena.votes import Vote


class Client:
    """A browser that keeps a cookie and follows nothing."""

    def __init__(self, address):
        self.host, self.cookie = urlsplit(address).netloc, ""

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.host, timeout=20)
        headers = {"Cookie": self.cookie} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        self.cookie = (answer.headers["Set-Cookie"] or "").partition(";")[0] or self.cookie
        return answer

    def battle(self):
        page = self.ask("GET", "/").text
        return {name: re.search(f'name="{name}" value="(.*?)"', page)[1] for name in ("battle", "token")}

    def vote(self, winner="a", headers=(), **form):
        form = form or self.battle()
        return self.ask("POST", "/vote", urlencode(form | {"winner": winner}), **dict(headers))


@pytest.fixture
def client(arena):
    return Client(arena)


@pytest.mark.syllabus("IITD-01", "GT-50")
@pytest.mark.parametrize("winner", ["a", "b", "tie", "both_bad"])
def test_a_vote_counts_and_reveals_the_names(client, votes, winner):
    before = client.ask("GET", "/").text
    assert not any(model in before for model in OUTPUTS.models)
    answer = client.vote(winner)
    assert (answer.status, answer.headers["Location"]) == (303, "/battles/0")
    (vote,) = votes
    assert vote.winner == winner and vote.voter == client.cookie.partition("=")[2][:16]
    after = re.sub("<wbr>", "", client.ask("GET", "/battles/0").text)
    assert f"A was {vote.model_a}, and B was {vote.model_b}" in after
    assert after.count("your vote</span>") == (winner in "ab")
    shown = OUTPUTS.by_prompt[vote.prompt]
    assert (vote.length_a, vote.length_b) == (len(shown[vote.model_a]), len(shown[vote.model_b]))


def test_what_was_shown_is_what_is_voted_on(client, votes):
    page = client.ask("GET", "/").text
    client.vote("a")
    (vote,) = votes
    left, right = page.index(vote.model_a[::-1] + " wrote"), page.index(vote.model_b[::-1] + " wrote")
    assert left < right


def test_the_second_vote_on_a_battle_changes_nothing(client, votes):
    form = client.battle()
    assert client.battle() == form  # a reload
    assert client.ask("GET", "/").headers["Cache-Control"] == "no-store"
    client.vote("a", **form)
    again = client.vote("b", **form)
    assert (again.status, again.headers["Location"]) == (303, "/battles/0?again")
    assert "that vote counts: A is better" in client.ask("GET", "/battles/0?again").text
    assert [vote.winner for vote in votes] == ["a"]
    assert client.battle()["battle"] == "1"


def test_the_same_vote_from_many_tabs_at_once_counts_once(client, votes):
    form = client.battle()
    answers = []
    threads = [threading.Thread(target=lambda w=w: answers.append(client.vote(w, **form).status)) for w in "ababab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [303] * 6 and votes.n_votes() == 1


def test_a_voter_ends_when_all_battles_are_decided(client, votes):
    for _ in range(OUTPUTS.n_pairs):
        assert client.vote("tie").status == 303
    assert "You have decided all 12 battles" in client.ask("GET", "/").text and votes.n_votes() == 12


def test_a_page_asks_for_nothing_and_writes_nothing(client, votes):
    for _ in range(3):
        Client(f"http://{client.host}").ask("GET", "/")
    client.ask("GET", "/board")
    assert votes.n_votes() == 0 and votes.n_voters() == 0


# --- Who tries what is not allowed ---


def test_a_vote_needs_the_token_of_this_voter_and_this_battle(client, votes):
    mine, other = client.battle(), Client(f"http://{client.host}")
    theirs = other.battle()
    for form in (
        theirs,
        mine | {"battle": "1"},
        mine | {"token": ""},
        mine | {"token": "é"},
        mine | {"token": mine["token"][:-1] + "g"},
    ):
        answer = client.vote("a", **form)
        assert answer.status == 409 and "so your vote was not counted" in answer.text
    assert votes.n_votes() == 0


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"winner": "c"}, 400),
        ({"battle": "-1"}, 400),
        ({"battle": "٣"}, 400),
        ({"battle": "9" * 30}, 400),
        ({"battle": ""}, 400),
    ],
)
def test_what_is_no_vote_is_refused(client, votes, form, status):
    whole = client.battle() | {"winner": "a"} | form
    assert client.ask("POST", "/vote", urlencode(whole)).status == status and votes.n_votes() == 0


@pytest.mark.parametrize("body", [b"\xff\xfe", b"", b"a=1&" * 40, b"winner=a&battle=0"])
def test_any_other_body_is_refused(client, votes, body):
    client.battle()
    assert client.ask("POST", "/vote", body).status in (400, 409) and votes.n_votes() == 0


def test_a_large_body_is_refused_before_it_is_read(client, votes):
    form = urlencode(client.battle() | {"winner": "a"})
    assert client.ask("POST", "/vote", form + "&x=" + "y" * app.MAX_BODY).status == 413

    def endless():
        for _ in range(50):
            yield b"x" * 100

    assert client.ask("POST", "/vote", endless()).status == 413
    assert votes.n_votes() == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_site_cannot_vote(client, votes, headers):
    answer = client.vote("a", headers.items(), **client.battle())
    assert answer.status == 403 and "another site" in answer.text and votes.n_votes() == 0


def test_this_site_can_vote(client, votes):
    headers = {"Origin": f"http://{client.host}", "Sec_Fetch_Site": "same-origin"}
    assert client.vote("a", headers.items(), **client.battle()).status == 303 and votes.n_votes() == 1


def test_a_cookie_that_we_did_not_sign_is_no_voter(client, votes):
    form = client.battle()
    name, _, value = client.cookie.partition("=")
    voter, _, signature = value.partition(".")
    forged = ["0" * 16 + "." + signature, voter + "." + "0" * 64, voter, "é.é", voter + "\n." + signature, ""]
    for cookie in forged:
        client.cookie = f"{name}={cookie}".encode().decode("latin-1").replace("\n", "%0a")
        answer = client.vote("a", **form)
        assert answer.status == 403 and "your browser did not keep" in answer.text
    assert votes.n_votes() == 0


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client):
    cookie = client.ask("GET", "/").headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/" in cookie and "Secure" not in cookie
    assert client.ask("GET", "/").headers["Set-Cookie"] is None  # it is kept
    stranger = Client(f"http://{client.host}")
    assert "Secure" in stranger.ask("GET", "/", X_Forwarded_Proto="https").headers["Set-Cookie"]


def test_nobody_sees_the_battles_of_others(client):
    client.vote("a")
    other = Client(f"http://{client.host}")
    other.battle()  # it has a cookie
    for path in ("/battles/0", "/battles/7", "/battles/99999999999999999999"):
        answer = other.ask("GET", path)
        assert answer.status == 404 and "You have not voted on this battle" in answer.text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/", "/none"]
    + ["/battles/-1", "/battles/x", "/static/..%5capp.py", "/static/%00"],
)
def test_there_is_nothing_beside_the_pages(client, path):
    answer = client.ask("GET", path)
    assert answer.status in (404, 405) and "import" not in answer.text and "root:" not in answer.text


@pytest.mark.parametrize("path", ["/", "/board", "/static/arena.css", "/none", "/health", "/vote"])
def test_every_answer_forbids_scripts_from_elsewhere_and_frames(client, path):
    headers = client.ask("GET", path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"


def test_outputs_are_texts(client):
    for _ in range(OUTPUTS.n_pairs):
        page = client.ask("GET", "/").text
        assert "<script>document" not in page and "<img" not in page and "{{ 7 * 7 }}" in page
        client.vote("a")
        page = client.ask("GET", "/battles/0").text
        assert "<script>document" not in page and "<img" not in page


# --- What happens around a vote ---


def test_after_a_restart_with_other_outputs_an_old_page_does_not_count(client, votes):
    form = client.battle()
    changed = Outputs(dict(list(OUTPUTS.by_prompt.items())[1:]))
    voter = client.cookie.partition("=")[2][:16]
    assert form["token"] == Battles(OUTPUTS, votes.secret).token(voter, 0)
    answer = client.vote("a", battle="0", token=Battles(changed, votes.secret).token(voter, 0))
    assert answer.status == 409 and "The outputs have changed" in answer.text and votes.n_votes() == 0


def test_a_result_is_shown_when_its_outputs_are_gone(client, votes):
    client.ask("GET", "/")
    voter = client.cookie.partition("=")[2][:16]
    votes.record(Vote(voter, 0, "old model", "older model", "b", "", 1, 2, "a prompt of last week"))
    page = client.ask("GET", "/battles/0").text
    assert "A was old model, and B was older model" in page and page.count("no longer in the arena") == 2


def test_a_database_that_does_not_answer_is_said_and_the_vote_can_be_sent_again(client, votes, monkeypatch):
    from sqlalchemy.exc import OperationalError

    form, record = client.battle(), votes.record

    def away(vote):
        raise OperationalError("INSERT", {}, Exception("database is locked"))

    monkeypatch.setattr(votes, "record", away)
    answer = client.vote("a", **form)
    assert answer.status == 503 and "Please try again" in answer.text and "locked" not in answer.text
    monkeypatch.setattr(votes, "record", record)
    assert client.vote("a", **form).headers["Location"] == "/battles/0" and votes.n_votes() == 1


def test_the_board_follows_the_votes(client, votes, monkeypatch):
    monkeypatch.setattr(app, "BOARD_SECONDS", 0)
    page = client.ask("GET", "/board").text
    assert "0 votes of 0 voters" in page and page.count("no battles yet") == 3
    sequence = [(a, b, w) for a in OUTPUTS.models for b in OUTPUTS.models if a < b for w in ("a", "a", "b", "tie")]
    for number, (a, b, winner) in enumerate(sequence):
        votes.record(Vote("v", number, a, b, winner, "", 1, 1, ""))
    page = re.sub("<wbr>", "", client.ask("GET", "/board").text)
    assert "12 votes of 1 voter." in page and "no battles yet" not in page and page.count("<svg") == 3
    drawn = [float(x) for x in re.findall(r'x[12]="(-?[0-9.]+)"', page)]
    assert len(drawn) == 12 and 0 <= min(drawn) < max(drawn) <= 1000  # no interval leaves the axis
    order = [page.index(model) for model in OUTPUTS.models]
    assert order == sorted(order)  # the first in the alphabet won most


def test_a_young_board_is_not_computed_again(client, votes, monkeypatch):
    computed = []
    monkeypatch.setattr(app, "board", lambda *arguments: computed.append(1) or [])
    monkeypatch.setattr(app, "BOARD_SECONDS", 3600)
    for _ in range(4):
        client.ask("GET", "/board")
    assert len(computed) <= 1
