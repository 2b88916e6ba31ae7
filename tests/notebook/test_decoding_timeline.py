"""The decoding timeline: its schedules against a simulation step by step, its shares, its words, what it refuses."""

import math

import pytest
import traitlets

from llm_anatomy.notebook import DecodingTimeline
from llm_anatomy.notebook.widgets.decoding_timeline import BATCHES, BATCHING, CHUNK, REQUESTS, schedule


def step_by_step(requests, batch, continuous):
    """Process one step after the other: steps, tokens, busy slots, and the steps after which first tokens are there."""
    waiting, slots, n_steps, n_tokens, busy, firsts = list(requests), [None] * batch, 0, 0, 0, []
    while waiting or any(slots):
        if continuous:
            for slot in range(batch):
                if slots[slot] is None and waiting:
                    prompt, output = waiting.pop(0)
                    slots[slot] = {"padding": 0, "prompt": prompt, "left": output}
        elif not any(slots):
            taken, waiting = waiting[:batch], waiting[batch:]
            longest = max(math.ceil(prompt / CHUNK) for prompt, _ in taken)
            for slot, (prompt, output) in enumerate(taken):
                padding = longest - math.ceil(prompt / CHUNK)
                slots[slot] = {"padding": padding, "prompt": prompt, "left": output}
        n_steps += 1
        for slot, request in enumerate(slots):
            if request and request["padding"]:
                request["padding"] -= 1
            elif request:
                busy += 1
                is_first = 0 < request["prompt"] <= CHUNK
                request["prompt"] -= CHUNK
                if request["prompt"] <= 0:
                    n_tokens, request["left"] = n_tokens + 1, request["left"] - 1
                if is_first:
                    firsts.append(n_steps)
                if request["left"] == 0:
                    slots[slot] = None
    return n_steps, n_tokens, busy, firsts


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("requests", REQUESTS)
@pytest.mark.parametrize("batching", BATCHING)
@pytest.mark.parametrize("batch", BATCHES)
def test_throughput_and_idle_share_are_those_of_a_simulation_step_by_step(requests, batching, batch):
    n_steps, n_tokens, busy, firsts = step_by_step(REQUESTS[requests], batch, batching == "continuous")
    found = DecodingTimeline(requests, batching, batch).outputs()
    assert (found["steps"], found["tokens"]) == (n_steps, n_tokens)
    assert found["speed"] == pytest.approx(n_tokens / n_steps)
    assert found["idle"] == pytest.approx(100 * (1 - busy / (batch * n_steps)), abs=1e-3)
    assert found["wait"] == pytest.approx(sum(firsts) / len(firsts), rel=1e-5)
    curve = found["continuous_speeds" if batching == "continuous" else "speeds"]
    assert curve[batch - 1] == found["speed"]
    assert (
        found["steps"]
        <= found["longest"]
        == max(max(end for *_, end in schedule(REQUESTS[requests], batch, continuous=way)) for way in (False, True))
    )


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_a_slot_holds_one_request_at_a_time_and_all_get_their_steps(batch, continuous):
    requests = REQUESTS["different lengths"]
    found = schedule(requests, batch, continuous=continuous)
    assert len(found) == len(requests) and {slot for slot, *_ in found} == set(range(batch))
    for slot in range(batch):
        mine = [(start, end) for own, start, _, end in found if own == slot]
        assert all(end <= start for (_, end), (start, _) in zip(mine, mine[1:], strict=False))
    for (prompt, output), (_, start, first, end) in zip(requests, found, strict=True):
        assert first - start >= math.ceil(prompt / CHUNK) and end - first == output - 1
        assert not continuous or first - start == math.ceil(prompt / CHUNK)
    starts = [start for _, start, _, _ in found]
    assert starts == sorted(starts)  # first come, first served


def test_what_is_drawn_are_these_schedules():
    found = DecodingTimeline("one long output", "continuous", 3).outputs()
    for n, (slot, start, first, end) in enumerate(schedule(REQUESTS["one long output"], 3, continuous=True)):
        assert found["decode_x"][n] == [first, end, end, first] and found["prefill_x"][n] == [
            start,
            first,
            first,
            start,
        ]
        assert first - start == math.ceil(REQUESTS["one long output"][n][0] / CHUNK)
        assert found["box_y"][n] == pytest.approx([slot + 0.54, slot + 0.54, slot + 1.46, slot + 1.46])
        assert found["label"][n] in (0, n + 1)
    assert found["frame_x"] == [[0, found["steps"], found["steps"], 0]] and found["label"][3] == 4
    assert [slot for slot in found["slots"] if slot == slot] == [1, 2, 3]


def test_continuous_batching_is_never_slower_and_equal_lengths_make_no_difference():
    for requests in REQUESTS:
        found = DecodingTimeline(requests).outputs()
        pairs = list(zip(found["speeds"], found["continuous_speeds"], strict=True))
        assert all(static <= continuous for static, continuous in pairs)
        assert all(static == continuous for static, continuous in pairs) == (requests == "equal lengths")
        assert max(found["continuous_speeds"]) < 6


def test_words_are_complete():
    widget = DecodingTimeline(batching="continuous")
    assert repr(widget) == (
        "12 requests of different lengths, continuous batching with 4 slots: 48 steps for 159 tokens, 3.31 tokens per "
        "step. The slots are idle 10.4 % of the time. The first token of a request comes after 14.8 steps on average."
    )
    widget.requests, widget.batch = "one long output", 1
    assert repr(widget).startswith("12 requests of which one has a long output, continuous batching with 1 slot: 148 ")


def test_a_short_prompt_of_a_static_batch_is_padded_to_the_longest():
    shown = DecodingTimeline("different lengths", "static", 2).outputs()
    for n, (_, start, first, _) in enumerate(schedule(REQUESTS["different lengths"], 2, continuous=False)):
        own = math.ceil(REQUESTS["different lengths"][n][0] / CHUNK)
        assert shown["prefill_x"][n] == [first - own, first, first, first - own] and first - own >= start


@pytest.mark.parametrize(
    "at, case",
    [
        (("different lengths", "static", 1), 0),
        (("equal lengths", "static", 1), 0),
        (("one long output", "static", 2), 1),
        (("one long output", "continuous", 2), 2),
        (("equal lengths", "continuous", 6), 3),
        (("equal lengths", "static", 6), 3),
    ],
)
def test_the_note_fits(at, case):
    assert DecodingTimeline(*at).outputs()["case"] == case


@pytest.mark.parametrize(
    "at, sentence",
    [
        ({"requests": "short"}, "requests='short'; it must be one of different lengths, one long output, equal"),
        ({"batching": "dynamic"}, "batching='dynamic'; it must be one of static, continuous"),
        ({"batch": 7}, "batch=7; it must be a whole number from 1 to 6"),
    ],
)
def test_decoding_timeline_refuses(at, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        DecodingTimeline(**at)
