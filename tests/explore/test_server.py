"""The served page: who gets an answer, what each message gives, and how work is stopped."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
import uvicorn
from starlette.testclient import TestClient

import viete as vt
from tests.ask.vocabularies import reader
from tests.command_line import viete
from viete.explore import server as module
from viete.explore.server import MOST, PageServer, serve
from viete.explore.session import KINDS, Session
from viete.explore.worker import Stopped, Worker
from viete.model.coders import Coder, Coders

MARKUP = ("math", "shape", "meaning", "definition", "equation_math", "why", "summary")  # of a part
TOKENS = [3, 1, 4, 1, 5]
PORT = 8123
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def model(name: str = "gpt2", **sizes: Any) -> vt.Model:
    sizes = sizes or {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 8, "n_max": 16}
    return vt.read(name).bind(**sizes).with_weights(seed=1)


MODEL = model()


@pytest.fixture
def server() -> PageServer:
    return PageServer(Session.of(MODEL.run(TOKENS)), PORT)


@pytest.fixture(scope="module")
def looked_at() -> PageServer:
    """One whose page is written once; nobody changes anything there."""
    return PageServer(Session.of(MODEL.run(TOKENS)), PORT)


def client(server: PageServer, **headers: str) -> TestClient:
    head = {"Authorization": f"Bearer {server.token}", **headers}
    return TestClient(server.app, server.address, headers=head, raise_server_exceptions=False)


def floats(stored: dict[str, Any]) -> np.ndarray:
    """A value of the page, read by NumPy alone."""
    return np.frombuffer(b64decode(stored["data"]), "<f8").reshape(stored["shape"])


def ask(server: PageServer, **message: Any) -> dict[str, Any]:
    found = client(server).post("/message", json={"id": 7, **message})
    assert found.status_code == 200, found.text
    answer: dict[str, Any] = found.json()
    assert answer.pop("id") == 7
    return answer


# -- who gets an answer ----------------------------------------------------------------------------


def test_the_address_opens_the_page(looked_at: PageServer) -> None:
    server = looked_at
    assert server.url == f"http://127.0.0.1:{PORT}/?token={server.token}"
    assert len(server.token) >= 43
    found = TestClient(server.app, server.address).get(server.url)
    assert found.status_code == 200 and found.headers["content-type"].startswith("text/html")
    assert server.token in found.text
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(("change", "status"), [
    ({"Authorization": ""}, 403), ({"Authorization": "Bearer x"}, 403),
    ({"Authorization": "Bearer é".encode("latin-1").decode("latin-1")}, 403),
    ({"Host": "evil.example"}, 403), ({"Host": f"evil.example:{PORT}"}, 403),
    ({"Host": "127.0.0.1:1"}, 403), ({"Host": ""}, 403),
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
    ({"Content-Type": "text/plain"}, 415), ({"Content-Length": str(MOST + 1)}, 413),
])  # fmt: skip
def test_nobody_else_gets_an_answer(
    server: PageServer, change: dict[str, str], status: int
) -> None:  # fmt: skip
    """No token, another site's name for this machine, another site's page, a form, too much."""
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {server.token}"}
    sent = {k: v.encode("utf-8") for k, v in {**head, **change}.items()}
    found = TestClient(server.app, server.address).post("/message", content=b"{}", headers=sent)
    assert found.status_code == status, found.text
    assert one_sentence(found.json()["error"]) and server.token not in found.text
    assert "access-control-allow-origin" not in found.headers


def test_the_names_of_this_machine_and_its_own_page_may(server: PageServer) -> None:
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"):
        found = client(server, Host=host, Origin=f"http://{host}").post(
            "/message", json={"kind": "ask", "question": "logits"})  # fmt: skip
        assert found.status_code == 200


def test_another_server_has_another_token(looked_at: PageServer) -> None:
    server = looked_at
    other = PageServer(server.session, PORT)
    assert other.token != server.token
    assert client(other).get(f"/?token={server.token}").status_code == 200  # by its own header
    assert TestClient(other.app, other.address).get(server.url).status_code == 403


@pytest.mark.parametrize("path", ["/x", "/message/", "/..%2f..%2fetc/passwd", "/static/page.js"])
def test_there_are_no_other_pages(server: PageServer, path: str) -> None:
    assert client(server).get(path).status_code in (404, 405)


def test_a_body_without_a_length_is_limited_too(server: PageServer) -> None:
    server.app.most = 100  # type: ignore[attr-defined]
    parts = (b"x" * 60 for _ in range(3))
    found = client(server).post("/message", content=parts,
                                headers={"Content-Type": "application/json"})  # fmt: skip
    assert found.status_code == 413 and "at most 100 bytes" in found.json()["error"]


def test_a_web_socket_is_closed(server: PageServer) -> None:
    with pytest.raises(Exception), client(server).websocket_connect("/message"):  # noqa: B017
        pass


# -- what each message gives -----------------------------------------------------------------------


def test_a_run_is_the_models(server: PageServer) -> None:
    ids = [1, 2, 3]
    answer, run = ask(server, kind="run", tokens=ids), MODEL.run(ids)
    assert answer["tokens"]["ids"] == ids
    for name in ("x^2", "logits", "A^{1,h}", "W_E"):
        assert np.array_equal(floats(answer["values"]["decimal"][name]), run[name])
    assert np.array_equal(
        floats(ask(server, kind="value", member="x^1", run={"tokens": ids})["value"]), run["x^1"]
    )


def test_edits_are_those_of_the_model(server: PageServer) -> None:
    table = np.arange(88.0).reshape(11, 8) / 88
    answer = ask(server, kind="run", parameters={"W_E": table.reshape(-1).tolist()},
                 choices={"epsilon": 0.25}, put=["A^{2,1} = 0"])  # fmt: skip
    changed = MODEL.bind(epsilon=0.25).with_weights({**MODEL.weights, "W_E": table})
    run = changed.put("A^{2,1} = 0").run(TOKENS)
    assert np.array_equal(floats(answer["values"]["decimal"]["logits"]), run["logits"])
    again = ask(server, kind="run")  # which says nothing of changes
    assert np.array_equal(floats(again["values"]["decimal"]["logits"]), MODEL.run(TOKENS)["logits"])


def test_equations_put_in_are_a_page_of_their_own(server: PageServer) -> None:
    data = ask(server, kind="put", equations=["A^{2,1} = 0"])["data"]
    run = MODEL.put("A^{2,1} = 0").run(TOKENS)
    assert np.array_equal(floats(data["values"]["decimal"]["logits"]), run["logits"])
    assert len(data["equations"]) == len(run.program.model.equations)


def test_a_logit_is_opened(server: PageServer) -> None:
    e = MODEL.run(TOKENS).expand("logits_{-1,5}", "head", top=40)
    found = ask(server, kind="expand", of="logits_{-1,5}", into="head")
    assert [t["value"] for t in found["terms"][: len(e.terms)]] == [t.value for t in e.terms]
    few = ask(server, kind="expand", of="logits_{-1,5}", into="head, source")
    assert np.isclose(sum(t["value"] for t in few["terms"]), few["total"])
    assert all(t["formula"].startswith("<math") for t in found["terms"])


RUNS: list[dict[str, Any]] = [
    {}, {"tokens": [1, 2]}, {"choices": {"epsilon": 0.25}}, {"put": ["A^{2,1} = 0"]},
    {"parameters": {"gamma": [2.0] * 8}}, {"tokens": [1, 2], "put": ["A^{1,2} = 0"]},
]  # fmt: skip
QUESTIONS: list[dict[str, Any]] = [
    {"kind": "ask", "question": "logits"},
    {"kind": "expand", "of": "logits_{-1,5}", "into": "head"},
    {"kind": "value", "member": "x^1"}, {"kind": "check", "claim": "sum(x^2) > 0"},
]  # fmt: skip


@pytest.mark.slow
def test_interleaved_pages_equal_separate_ones() -> None:
    """Each question is about the run that it brings, whatever other pages asked before."""
    session, rng = Session.of(MODEL.run(TOKENS)), np.random.default_rng(5)
    alone = {}
    for k, changes in enumerate(RUNS):
        own = Session.of(MODEL.run(TOKENS))
        own.answer({"kind": "run", **changes})
        for j, question in enumerate(QUESTIONS):
            alone[k, j] = json.dumps(own.answer({**question, "run": changes}))
    assert len({alone[k, 0] for k in range(len(RUNS))}) == len(RUNS)
    for _ in range(30):
        k, j = rng.integers(len(RUNS)), rng.integers(len(QUESTIONS))
        if rng.random() < 0.3:
            session.answer({"kind": "run", **RUNS[rng.integers(len(RUNS))]})
        assert json.dumps(session.answer({**QUESTIONS[j], "run": RUNS[k]})) == alone[k, j], (k, j)


def test_without_a_run_a_question_is_about_that_of_the_start(server: PageServer) -> None:
    asked = {"kind": "ask", "question": "logits"}
    first = ask(server, **asked)["value"]
    ask(server, kind="run", tokens=[1, 2])
    assert ask(server, **asked)["value"] == first


def test_arrows_are_drawn(server: PageServer) -> None:
    e = MODEL.run(TOKENS).expand("logits_{-1,5}", "head, source")
    svg = ask(server, kind="arrows", of="logits_{-1,5}")["svg"]
    there = {t.label: float(t.value) for t in e.terms}
    arrows = re.findall(r"""data-value="([^"]*)" data-terms='([^']*)'""", svg)
    assert len(arrows) > 3
    for value, terms in arrows:  # each knows the terms that pass through it
        inside = json.loads(unescape(terms))
        assert all(there[label] == size for label, size in inside)
        assert sum(size for _, size in inside) == pytest.approx(float(value))
    assert ask(server, kind="arrows", of="|x^0_0|")["svg"] is None


def test_a_graph_of_features_opens() -> None:
    """What made a feature adds up to what stands before its gate."""
    rng, d = np.random.default_rng(0), int(MODEL.card.sizes["d"])
    shapes = {"W_enc": (d, 5), "b_enc": (5,), "W_dec": (5, d), "b_dec": (d,)}
    each = {
        k: Coder({n: rng.normal(size=s) for n, s in shapes.items()}, Path("x"))
        for k in range(int(MODEL.card.sizes["N"]))
    }
    run = MODEL.put(Coders(each, "x^{i-1}", "m^i")).run(TOKENS)
    session = Session.of(run)
    found = session.answer({"kind": "arrows", "of": "logits_{-1,5}", "into": "feature"})
    opened = set(re.findall(r'data-opens="([^"]*)"', found["svg"]))
    assert opened and opened <= found["made"].keys()
    for name, made in found["made"].items():
        before = float(run[name.replace("feature", "pre")])
        assert sum(t["value"] for t in made["terms"]) == pytest.approx(before)
        assert made["total"] == pytest.approx(before)
    name = min(opened)
    assert session.answer(dict(kind="made", of=name)) == found["made"][name]
    with pytest.raises(vt.VieteError, match="not a feature that the model made"):
        session.answer(dict(kind="made", of="x^1_{0,0}"))


def test_claims_and_questions(server: PageServer) -> None:
    found = ask(server, kind="check", claim="A^{1,1}_{2,1} < 0")
    assert not found["ok"] and found["verdicts"][0]["word"] == "false"
    assert ask(server, kind="check", claim="sum(A^{i,h}) = 1")["ok"]
    asked = ask(server, kind="ask", question="|x^2_{-1}|")
    assert np.isclose(floats(asked["value"]), np.linalg.norm(MODEL.run(TOKENS)["x^2"][-1]))


@pytest.mark.parametrize("message", [
    {}, [], 3, "run", {"kind": "no"}, {"kind": ["run"]}, {"kind": "value"},
    {"kind": "value", "member": "zz"}, {"kind": "value", "member": "x^2", "meaning": "no"},
    {"kind": "run", "tokens": ["a"]}, {"kind": "run", "tokens": []},
    {"kind": "run", "tokens": [99]}, {"kind": "run", "tokens": {"a": 1}},
    {"kind": "run", "text": "no tokenizer"}, {"kind": "run", "text": 3},
    {"kind": "run", "parameters": [1]}, {"kind": "run", "parameters": {"zz": [1]}},
    {"kind": "run", "parameters": {"W_E": [1]}}, {"kind": "run", "parameters": {"W_E": "x"}},
    {"kind": "run", "choices": {"zz": 1}}, {"kind": "run", "choices": {"epsilon": "x y"}},
    {"kind": "run", "put": ["A^{2,9} = 0"]}, {"kind": "run", "put": "A = 0"},
    {"kind": "put", "equations": [3]}, {"kind": "put", "equations": ["A^{2,1} = "]},
    {"kind": "expand"}, {"kind": "expand", "of": "zz"}, {"kind": "expand", "of": "x^1"[:0]},
    {"kind": "expand", "of": "logits_{-1,5}", "into": "nowhere"},
    {"kind": "check", "claim": "x^1"}, {"kind": "check", "claim": "/etc/page.md"},
    {"kind": "check", "claim": "x^1 = x^1 for texts of /etc/passwd"},
    {"kind": "ask", "question": "1 +"}, {"kind": "ask", "question": SCRIPT},
    {"kind": "ask", "question": "(" * 5000}, {"kind": "ask", "question": "-" * 5000 + "1"},
    {"kind": "expand", "of": "sqrt(" * 4000 + "1" + ")" * 4000},
    {"kind": "ask", "question": "(" * 4000 + "1" + ")" * 4000},
    {"kind": "check", "claim": "{" * 9999}, {"kind": "ask", "question": "\ud800"},
    {"kind": "ask", "question": "1", "run": [1]}, {"kind": "ask", "question": "1", "run": "x"},
    {"kind": "ask", "question": "1", "run": {"tokens": [99]}},
])  # fmt: skip
def test_what_is_no_message_gets_one_sentence(server: PageServer, message: Any) -> None:
    before = ask(server, kind="ask", question="logits")
    posting = client(server, **{"Content-Type": "application/json"})
    found = posting.post("/message", content=json.dumps(message))
    assert found.status_code == 422, found.text[:200]
    assert one_sentence(found.json()["error"])
    assert ask(server, kind="ask", question="logits") == before  # nothing has changed


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"NaN NaN"])
def test_what_is_no_json(server: PageServer, body: bytes) -> None:
    found = client(server, **{"Content-Type": "application/json"}).post("/message", content=body)
    assert found.status_code in (400, 422) and one_sentence(found.json()["error"])


@pytest.mark.parametrize("number", ["NaN", "1e999", '"\\ud800"', "[[NaN]]", '{"a": NaN}'])
def test_any_number_of_a_message_comes_back_as_json(server: PageServer, number: str) -> None:
    body = '{"id": ' + number + ', "kind": "ask", "question": "1 + 1"}'
    found = client(server, **{"Content-Type": "application/json"}).post("/message", content=body)
    assert found.status_code == 200 and b"\n" not in found.content
    assert floats(json.loads(found.text, parse_constant=pytest.fail)["value"]) == 2


@pytest.mark.parametrize(
    "sent", ["", "GET / HTTP/1.1\r\nHost: ", "POST /message HTTP/1.1\r\n{}\r\n{{"]
)
def test_a_slow_connection_is_closed(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    """Whether the head does not come, or the body."""
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = PageServer(server.session, port)
    running = uvicorn.Server(uvicorn.Config(
        server.app, log_level="error", lifespan="off", http=module.Hurried))  # fmt: skip
    thread = Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    try:
        head = (f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {server.token}\r\n"
                "Content-Type: application/json\r\nContent-Length: 99\r\n")  # fmt: skip
        with socket.create_connection(("127.0.0.1", port), timeout=5) as held:
            held.sendall(sent.format(head).encode())
            answer = b""
            while more := held.recv(4096):
                answer += more
                if b"}" in answer:
                    break
        assert answer == b"" or (b" 413 " in answer and b"seconds" in answer)
        assert (answer != b"") == sent.startswith("POST")
    finally:
        running.should_exit = True
        thread.join(5)


def one_sentence(text: str) -> bool:
    return bool(text) and "\n" not in text and "Traceback" not in text and len(text) < 1000


def test_numbers_that_are_none_are_json_too(server: PageServer) -> None:
    answer = ask(server, kind="run", parameters={"W_E": [1e308] * 88, "gamma": [1e308] * 8})
    assert not np.isfinite(floats(answer["values"]["decimal"]["logits"])).all()
    found = client(server).post("/message", json={"kind": "expand", "of": "logits_{-1,5}"})
    assert found.status_code in (200, 422)
    json.loads(found.text, parse_constant=pytest.fail)


def test_every_kind_of_message_is_tested() -> None:
    text = Path(__file__).read_text("utf-8")
    assert all(f'kind="{kind}"' in text for kind in KINDS)


# -- injection -------------------------------------------------------------------------------------


class Scripts(HTMLParser):
    """The scripts of a page, and the attributes that would run one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.risky, self.inside = list[str](), list[str](), False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "script"
        self.risky += [n for n, _ in attrs if n.startswith("on")] + [tag] * (tag == "img")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts.append(data)
            self.inside = False


def test_no_script_comes_in_by_a_card(looked_at: PageServer) -> None:
    """By its title, its prose, its meanings, its words; and a policy keeps out what would."""
    from dataclasses import replace

    card = MODEL.card
    hostile = replace(
        card, title=SCRIPT, about=(SCRIPT,), vocabulary=tuple(f"{SCRIPT}{k}" for k in range(11)),
        equations=tuple(replace(e, meaning=SCRIPT, part=SCRIPT) for e in card.equations),
        parameters=tuple(replace(p, meaning=SCRIPT) for p in card.parameters),
    )  # fmt: skip
    server = PageServer(Session.of(hostile.with_weights(MODEL.weights).run(TOKENS)), PORT)
    found = client(server).get("/")
    page, plain = Scripts(found.text), Scripts(client(looked_at).get("/").text)
    assert len(page.scripts) == len(plain.scripts) and not page.risky
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', found.text)[0]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    programs = re.findall("<script>(.*?)</script>", found.text, re.S)
    hashes = {b64encode(sha256(s.encode()).digest()).decode() for s in programs}
    assert hashes == set(re.findall(r"'sha256-([^']*)'", policy))
    answer = ask(server, kind="run", tokens=[1, 2])
    assert (
        answer["tokens"]["words"][0].lstrip('"').startswith("<")
    )  # as text, which the page shows as text
    data = server.session.data
    shown = [data["document"], *data["about"]]
    boxes = data["diagram"]["boxes"]
    shown += [m for box in boxes for m in (*box.get("reads", ()), *box.get("gives", ()))]
    for part in (*data["symbols"].values(), *data["equations"], *data["steps"], *answer["steps"]):
        shown += [part.get(k) or "" for k in MARKUP]
        shown += [x["text"] for x in part.get("operations", ())]
    assert not any(Scripts(text).scripts or Scripts(text).risky for text in shown)


# -- stopping --------------------------------------------------------------------------------------


def long(done: list[str]) -> None:
    done.append("begun")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sum(range(1000))
    done.append("ended")


def test_work_is_stopped_and_the_next_is_done() -> None:
    worker, done = Worker(), list[str]()
    first = worker.start("run", lambda: long(done))
    while not done:
        time.sleep(0.001)
    waiting = worker.start("", lambda: "asked")
    second = worker.start("run", lambda: "newer")
    assert second.result.result(5) == "newer" and waiting.result.result(5) == "asked"
    with pytest.raises(Stopped):
        first.result.result(5)
    first.thread.join(5)
    assert done == ["begun"] and not first.thread.is_alive()
    second.stop()  # which was done already
    assert second.result.result(5) == "newer"


def test_an_error_of_work_is_its_result() -> None:
    with pytest.raises(ZeroDivisionError):
        Worker().start("", lambda: 1 // 0).result.result(5)


def test_a_reader_who_leaves_stops_the_work(server: PageServer) -> None:
    """The connection is closed while the answer is made."""
    import asyncio

    done = list[str]()
    server.session.answer = lambda message: long(done)  # type: ignore[method-assign, assignment, return-value]
    sent: list[Any] = []
    body = {"type": "http.request", "body": b'{"kind": "run"}', "more_body": False}

    async def receive() -> Any:
        if body:
            return {**body, **(body.clear() or {})}
        while not done:
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    head = {"host": f"localhost:{PORT}", "authorization": f"Bearer {server.token}",
            "content-type": "application/json"}  # fmt: skip
    scope = {"type": "http", "method": "POST", "path": "/message", "query_string": b"",
             "headers": [(k.encode(), v.encode()) for k, v in head.items()]}  # fmt: skip
    asyncio.run(asyncio.wait_for(server.app(scope, receive, send), 5))
    assert sent[0]["status"] == 409 and done == ["begun"]


def test_a_port_that_is_taken_is_said() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(vt.VieteError, match=f"--port {port} is not available"):
            serve(Session.of(MODEL.run(TOKENS)), port)
    with pytest.raises(vt.VieteError, match="--port 99999 is not available"):
        serve(Session.of(MODEL.run(TOKENS)), 99999)


def test_the_command_serves_until_ctrl_c() -> None:
    words = ("explore", "exact-lesson", "--tokens", "a b", "--serve")
    command = [sys.executable, "-m", "viete", *words]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.stdout is not None
    address = made.stdout.readline().split()[0]
    with urlopen(address, timeout=20) as page:
        assert page.status == 200 and b"page-data" in page.read()
    with pytest.raises(HTTPError, match="403"):
        urlopen(address.split("?")[0], timeout=20)
    made.send_signal(signal.SIGINT)
    _, said = made.communicate(timeout=20)
    assert made.returncode == 130 and "Traceback" not in said


@pytest.mark.parametrize(("words", "error"), [
    ("--serve -o page.html", "give one of them"), ("--port 80", "--port needs --serve"),
    ("--serve --port 99999", "65535"),
])  # fmt: skip
def test_options_that_do_not_go_together(words: str, error: str) -> None:
    found = viete("explore", "exact-lesson", "--tokens", "a b", *words.split(), code=2)
    assert error in found.err


def test_a_model_with_a_tokenizer_reads_any_text() -> None:
    reading = reader("bytes")
    server = PageServer(Session.of(reading.run("I live in Dublin")), PORT)
    assert server.session.data["tokens"]["text"]
    answer = ask(server, kind="run", text="Mary lives", tokens=[0])  # what the words are, it knows
    run = reading.run("Mary lives")
    assert answer["tokens"]["ids"] == reading.lens.to_tokens("Mary lives")[0].tolist()
    assert np.array_equal(floats(answer["values"]["decimal"]["logits"]), run["logits"])
