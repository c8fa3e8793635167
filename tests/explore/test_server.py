"""The explorer on loopback: what it answers, and whom it refuses."""

import json
import logging
import socket
import time

import pytest

from wordwave.errors import WordwaveError
from wordwave.explore import Session
from wordwave.explore.server import MOST_BODY, bound_socket

EDIT = {"id": 3, "amplitude": 1, "frequency": 2, "phase": 0, "damping": 0, "dimension": None}
SENTENCE = {"text": "dog bites man", "order": [2, 1, 0], "edits": []}


@pytest.fixture(scope="module")
def site(make, serve):
    session = Session(make(), make(embedding="tpe", dim=8), name="x", examples=["dog bites man"])
    with serve(session) as running:
        running.session = session
        yield running


def test_the_page_and_its_files_come_with_a_strict_policy(site):
    answer, content = site.ask("/")
    assert answer.status == 200 and 'src="static/main.js"' in content
    for path in ("/", "/static/main.js", "/static/style.css", "/nothing", "/static/../page.py"):
        found, _ = site.ask(path)
        assert found.status == (200 if "page.py" not in path and path != "/nothing" else 404)
        if found.status == 200:
            policy = found.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert site.ask("/static/main.js")[0].headers["Content-Type"].startswith("text/javascript")


def test_it_answers_as_the_session_does(site):
    session, text = site.session, SENTENCE["text"]
    edits = [EDIT]
    for verb, given, expected in (
        ("tokens", {"text": text}, session.tokens(text)),
        ("predict", SENTENCE, session.predict(text, [2, 1, 0], [])),
        ("predict", SENTENCE | {"edits": edits}, session.predict(text, [2, 1, 0], edits)),
        ("sweep", SENTENCE | {"place": 1}, session.sweep(text, [2, 1, 0], [], 1)),
        ("sensitivity", SENTENCE, session.sensitivity(text, [2, 1, 0], [])),
        ("waves", {"ids": [3, 4], "before": [0, 3]}, session.waves([3, 4], [0, 3])),
        ("vocabulary", {}, session.vocabulary()),
        ("nearest", {"id": 3}, session.nearest(3)),
    ):
        answer, content = site.ask(f"/api/{verb}", given)
        assert answer.status == 200, content
        assert json.loads(content) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": None},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/predict"])
def test_other_sites_and_other_names_are_refused(site, headers, path):
    body = SENTENCE if path.startswith("/api") else None
    try:
        answer, content = site.ask(path, body, **headers)
    except ConnectionResetError:
        # Refused by the HTTP parser before the body was read, so that the answer may be lost.
        assert headers == {"Host": None} and body is not None
        return
    assert answer.status in (400, 403)
    assert "probabilities" not in content and "<main" not in content


def test_its_own_origin_and_localhost_are_accepted(site):
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{site.port}"
        headers = {"Host": host, "Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert site.ask("/api/predict", SENTENCE, **headers)[0].status == 200


@pytest.mark.parametrize(
    ("verb", "body", "status", "said"),
    [
        ("predict", b"not JSON", 400, "must be JSON"),
        ("predict", b"[" * 100_000, 400, "must be JSON"),
        ("predict", [], 400, "names and values"),
        ("predict", {"text": "a"}, 400, "has no 'order'"),
        ("predict", SENTENCE | {"text": 3}, 400, "text must be"),
        ("predict", SENTENCE | {"order": [0, 0, 1]}, 400, "each of the 3 places"),
        ("predict", SENTENCE | {"order": [0, 1, True]}, 400, "order must be"),
        ("predict", SENTENCE | {"order": ["a"]}, 400, "order must be"),
        ("predict", SENTENCE | {"edits": [EDIT | {"id": 99}]}, 400, "id must be in"),
        ("predict", SENTENCE | {"edits": [EDIT | {"id": -1}]}, 400, "id must be in"),
        ("predict", SENTENCE | {"edits": [EDIT | {"dimension": 6}]}, 400, "dimension must be"),
        ("predict", SENTENCE | {"edits": [EDIT | {"phase": float("nan")}]}, 400, "edits must be"),
        ("predict", SENTENCE | {"edits": [EDIT | {"phase": float("inf")}]}, 400, "phase must be"),
        ("predict", SENTENCE | {"edits": [{}]}, 400, "has no 'id'"),
        ("predict", SENTENCE | {"edits": [EDIT] * 65}, 400, "at most 64"),
        ("sweep", SENTENCE | {"place": 3}, 400, "place must be in [0, 3)"),
        ("sweep", SENTENCE | {"place": -1}, 400, "place must be"),
        ("waves", {"ids": [10**9], "before": [0]}, 400, "ids must be"),
        ("waves", {"ids": [1] * 300, "before": [0]}, 400, "ids must be"),
        ("waves", {"ids": [1, 2], "before": [0]}, 400, "before must have 2"),
        ("nearest", {"id": -1}, 400, "ids must be"),
        ("tokens", {"text": "a" * MOST_BODY}, 413, "larger than"),
        ("nothing", {}, 404, "no such request"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_request_has_one_clear_line(site, verb, body, status, said):
    answer, content = site.ask(f"/api/{verb}", body)
    assert answer.status == status, content
    error = json.loads(content)["error"]
    assert said in error and "\n" not in error and len(error) < 400


def test_a_large_request_is_refused_before_it_comes_and_one_that_ends_early_is_no_error(site):
    errors = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(record.getMessage())
    logging.getLogger("uvicorn.error").addHandler(handler)
    head = f"POST /api/tokens HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: "
    try:
        with socket.create_connection(("127.0.0.1", site.port), timeout=20) as client:
            client.sendall(f"{head}{10**9}\r\n\r\n{{".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 413 ")
        with socket.create_connection(("127.0.0.1", site.port), timeout=20) as client:
            client.sendall(f"{head}100\r\n\r\n{{".encode())
        for _ in range(20):
            assert site.ask("/api/tokens", {"text": "dog"})[0].status == 200
            time.sleep(0.02)
    finally:
        logging.getLogger("uvicorn.error").removeHandler(handler)
    assert errors == []


def test_only_json_is_read_and_only_by_post(site):
    assert site.ask("/api/predict", SENTENCE, Content_Type="text/plain")[0].status == 415
    assert site.ask("/api/predict", SENTENCE, Content_Type=None)[0].status == 415
    assert site.ask("/api/predict")[0].status == 405


@pytest.mark.parametrize("text", ["", "\ud800 dog", "\x00\x1b[31m", "<script>alert(1)</script>"])
def test_odd_texts_are_words_like_others(site, text):
    answer, content = site.ask("/api/tokens", {"text": text})
    assert answer.status == 200, content
    n = len(json.loads(content)["words"])
    given = {"text": text, "order": list(range(n)), "edits": []}
    assert site.ask("/api/predict", given)[0].status == 200


def test_a_port_in_use_is_one_line():
    with (
        bound_socket(0) as taken,
        pytest.raises(WordwaveError, match=r"cannot be used .* choose another --port"),
    ):
        bound_socket(taken.getsockname()[1])


def test_too_many_classes_and_a_twin_of_other_classes_are_refused(make):
    with pytest.raises(WordwaveError, match="at most 1,000 classes, got 1,001"):
        Session(make(labels=tuple(map(str, range(1001)))), name="x")
    with pytest.raises(WordwaveError, match="must have the classes"):
        Session(make(), make(labels=("a", "b")), name="x")


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "cnn", "n_filters": 3},
        {"encoder": "lstm", "embedding": "none"},
        {"encoder": "transformer", "dim": 8, "n_heads": 2, "feed_forward_dim": 8},
        {
            "encoder": "transformer",
            "dim": 8,
            "n_heads": 2,
            "feed_forward_dim": 8,
            "embedding": "rope",
        },
        {"views": ("start", "context")},
    ],
    ids=str,
)
def test_any_encoder_is_served(make, settings):
    session = Session(make(**settings), name="x")
    text, order = "the dog bites the man", [4, 3, 2, 1, 0]
    said = "man the bites dog the"
    found = session.predict(text, order, [])
    expected = session.classifier.probabilities([said])[0].tolist()
    assert found["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert len(session.sweep(text, order, [], 0)["probabilities"]) == 5
    assert len(session.sensitivity(text, order, [])["place"]) == 5
    assert session.nearest(3)["nearest"] and session.vocabulary()["words"]
    if session.about()["views"]:
        changed = session.predict(text, order, [EDIT])["probabilities"]
        neutral = session.predict(text, order, [EDIT | {"frequency": 1}])["probabilities"]
        assert changed != pytest.approx(found["probabilities"], abs=1e-6)
        assert neutral == pytest.approx(found["probabilities"], abs=1e-5)
        assert session.predict(text, order, [])["probabilities"] == found["probabilities"]
    else:
        with pytest.raises(WordwaveError, match="no waves"):
            session.predict(text, order, [EDIT])
