"""A hub of our own: the few routes of huggingface.co that fetching a model takes."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = {"main": "a" * 40, "step1": "b" * 40, "step16": "c" * 40}


class Hub:
    """Serves ``folders[id][revision]``. ``asked`` is what was asked for, by path; ``gated`` ids
    list their files and give none."""

    def __init__(self, folders: dict[str, dict[str, Path]], gated: set[str] = frozenset()) -> None:
        hub = self
        self.folders, self.gated, self.asked = folders, gated, []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = unquote(urlsplit(self.path).path)
                hub.asked.append(path)
                hub.answer(self, path)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def given(self) -> list[str]:
        """The files whose bytes or sizes were asked for."""
        return sorted({p.split("/resolve/")[1].split("/", 1)[1] for p in self.asked
                       if "/resolve/" in p})  # fmt: skip

    def answer(self, to: BaseHTTPRequestHandler, path: str) -> None:
        api = path.startswith("/api/models/")
        name = path.removeprefix("/api/models/" if api else "/")
        for word in ("/revision/", "/tree/", "/resolve/"):
            if word in name:
                name, _, rest = name.partition(word)
                break
        else:
            rest = "main"
        if api and name.endswith("/refs"):
            names = self.folders.get(name.removesuffix("/refs"), ())
            refs = [{"name": r, "ref": f"refs/heads/{r}", "targetCommit": COMMIT[r]} for r in names]
            return self.say(to, 200, {"branches": refs, "converts": [], "tags": []})
        revision, _, file = rest.partition("/")
        if name not in self.folders:
            return self.say(to, 401, {"error": "Repository not found"}, "RepoNotFound")
        revisions = self.folders[name]
        revision = next((r for r, c in COMMIT.items() if c == revision), revision)
        if revision not in revisions:
            return self.say(to, 404, {"error": "Revision not found"}, "RevisionNotFound")
        folder = revisions[revision]
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        if api and word == "/tree/":
            return self.say(to, 200, [
                {"type": "file", "path": p.relative_to(folder).as_posix(),
                 "size": p.stat().st_size, "oid": digest(p)} for p in files
            ])  # fmt: skip
        if api:
            siblings = [{"rfilename": p.relative_to(folder).as_posix()} for p in files]
            found = {"id": name, "sha": COMMIT[revision], "siblings": siblings}
            return self.say(to, 200, found)
        if name in self.gated:
            return self.say(to, 403, {"error": "Access is restricted"}, "GatedRepo")
        if not (folder / file).is_file():
            return self.say(to, 404, {"error": "Entry not found"}, "EntryNotFound")
        body = (folder / file).read_bytes()
        to.send_response(200)
        to.send_header("ETag", f'"{digest(folder / file)}"')
        to.send_header("X-Repo-Commit", COMMIT[revision])
        self.send(to, body, "application/octet-stream")

    def say(self, to: BaseHTTPRequestHandler, code: int, what: object, why: str = "") -> None:
        to.send_response(code)
        if why:
            to.send_header("X-Error-Code", why)
            to.send_header("X-Error-Message", why)
        self.send(to, json.dumps(what).encode(), "application/json")

    def send(self, to: BaseHTTPRequestHandler, body: bytes, kind: str) -> None:
        to.send_header("Content-Type", kind)
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        if to.command == "GET":
            to.wfile.write(body)


def digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
