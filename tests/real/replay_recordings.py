"""Lets our adapter read what GitHub or GitLab once answered to other people's programs.

    replay_recordings.py github|gitlab <read_forge> <directory of recordings> ...

A server plays each recorded answer at the place where our adapter asks for its like, under an address of its own;
what the adapter makes of it is compared with the recording.
"""

import collections
import glob
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse

import yaml

FORGE, READER = sys.argv[1:3]
GITLAB = FORGE == "gitlab"
WHO = {"id": 1, "username": "recorder", "login": "recorder"}
LIST_HEADERS = ("x-next-page", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after", "content-type")


class Exchange:
    def __init__(self, method, url, status, headers, body):
        parts = urllib.parse.urlsplit(url)
        self.method, self.status, self.body = method.upper(), status, body
        self.path = re.sub(r"^/api/v[34](?=/)", "", parts.path)
        self.page = int(urllib.parse.parse_qs(parts.query).get("page", ["1"])[0])
        self.headers = {name.lower(): str(value) for name, value in headers.items()}

    def reply(self, body=None):
        """Status, headers, body; a list is one page of its own, since not every next page was recorded."""
        kept = {name: self.headers[name] for name in LIST_HEADERS if name in self.headers and name != "x-next-page"}
        return self.status, kept, self.body if body is None else body


def of_requre(value, path=()):
    """Exchanges in a file of ogr's recorder: lists of outputs below method and URL."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from of_requre(inner, (*path, key))
    elif isinstance(value, list):
        for one in value:
            output = one.get("output") if isinstance(one, dict) else None
            if isinstance(output, dict) and "status_code" in output:
                yield Exchange(path[-2], path[-1], output["status_code"], output["headers"], output["_content"])


def recordings(directory):
    for name in sorted(glob.glob(f"{directory}/**/*.yaml", recursive=True)):
        with open(name, encoding="utf-8") as file:
            yield from of_requre(yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    for name in sorted(glob.glob(f"{directory}/**/normalized-fixture.json", recursive=True)):
        with open(name, encoding="utf-8") as file:
            for one in json.load(file):
                headers = one.get("responseHeaders") or dict(zip(*[iter(one.get("rawHeaders", []))] * 2))
                url = one["scope"] + one["path"]
                yield Exchange(one["method"], url, one["status"], headers, one["response"])


def good(body):
    return 200, {}, body


def of_gitlab(one):
    """Questions for a recorded answer: what is read, the question, what the server plays, the answer expected."""
    path, body, kind = one.path, one.body, one.method + " "
    if match := re.fullmatch(r"/projects/(\d+)/(issues|merge_requests)/(\d+)", path):
        key = {"project": int(match[1]), "number": int(match[3]), "change": match[2] == "merge_requests"}
        kind += match[2] + "/N"
        if one.method == "GET":
            yield kind, {"do": "item", **key}, {("GET", path): one.reply()}, item(body, "description", "username")
            if key["change"]:
                project = {"id": key["project"], "path_with_namespace": "a/b", "http_url_to_repo": "https://a/b.git"}
                plays = {("GET", path): one.reply(), ("GET", f"/projects/{match[1]}"): good(project)}
                yield kind + " for its branch", {"do": "repository", **key}, plays, told("may not push|is gone|cannot read")
        elif one.method == "PUT":
            label = (body["labels"] or ["none"])[0]
            plays = {("GET", path): good({**body, "labels": []}), ("PUT", path): one.reply()}
            fits = equals(None) if body["labels"] else told("left it as it was", bad=True)
            yield kind, {"do": "add_label", "label": label, **key}, plays, fits
    elif match := re.fullmatch(r"/projects/(\d+)/(issues|merge_requests)/(\d+)/notes(/(\d+))?", path):
        key = {"project": int(match[1]), "number": int(match[3]), "change": match[2] == "merge_requests"}
        kind += f"{match[2]}/N/notes"
        if one.method == "GET" and isinstance(body, list):
            place, lists = path, body
            if key["change"]:
                place, lists = path.replace("/notes", "/discussions"), [{"notes": [note]} for note in body]
            speech = [note for note in body if not note["system"] and not note.get("confidential")]
            texts = collections.Counter(note["body"].replace("\r\n", "\n") for note in speech if not note.get("position"))
            yield kind, {"do": "comments", **key}, {("GET", place): one.reply(lists)}, lambda said: not texts - bodies(said)
        elif one.method == "POST":
            yield kind, {"do": "comment", "body": "x", **key}, {("POST", path): one.reply()}, equals(str(body["id"]))
        elif one.method == "PUT":
            ask = {"do": "edit", "id": match[5], "body": "x", **key}
            yield kind + "/N", ask, {("PUT", path): one.reply()}, equals(None)
    elif match := re.fullmatch(r"/projects/(\d+)/(issues|merge_requests)", path):
        kind += f"list of {match[2]}"
        key = {"project": int(match[1]), "number": 1}
        if one.method == "GET":
            project = {"id": int(match[1]), "path_with_namespace": "a/b"}
            other = path.replace(match[2], "issues" if match[2] == "merge_requests" else "merge_requests")
            plays = {("GET", "/projects/a%2Fb"): good(project), ("GET", path): one.reply(), ("GET", other): good([])}
            seen = len({item["iid"] for item in body if not item.get("confidential")})
            yield kind, {"do": "candidates", "repositories": ["a/b"]}, plays, lambda found: len(found["keys"]) == seen
            if match[2] == "merge_requests" and body:
                own = [item["web_url"] for item in body if item["source_project_id"] == int(match[1])]
                ask = {"do": "find", "branch": body[0]["source_branch"], **key}
                yield kind + " of a branch", ask, {("GET", path): one.reply()}, equals((own or [None])[0])
        elif one.method == "POST" and match[2] == "merge_requests":
            ask = {"do": "open", "branch": "x", "base": "y", "title": "z", **key}
            yield kind, ask, {("POST", path): one.reply(), ("GET", path): good([])}, equals(body["web_url"])
        elif one.method == "POST":
            yield kind, {"do": "item", **key}, {("GET", f"{path}/1"): good(body)}, item(body, "description", "username")
    elif one.method == "GET" and re.fullmatch(r"/projects/[^/]+", path):
        ask = {"do": "repository", "project": body["id"], "number": 1}
        yield "GET project", ask, {("GET", f"/projects/{body['id']}"): one.reply()}, told("may not push|is archived")
    elif one.method == "GET" and (match := re.fullmatch(r"/projects/(\d+)/members/all", path)):
        for member in body:
            plays = {("GET", "/users"): good([member]), ("GET", f"{path}/{member['id']}"): good(member)}
            ask = {"do": "may_write", "project": int(match[1]), "number": 1, "user": member["username"]}
            yield "GET member", ask, plays, equals(member["access_level"] >= 30 and member["state"] == "active")
    elif (one.method, path) == ("GET", "/users") and body:
        ask = {"do": "may_write", "project": 1, "number": 1, "user": body[0]["username"]}
        yield "GET users", ask, {("GET", "/users"): one.reply()}, equals(False)
    elif one.method == "GET" and re.fullmatch(r"/groups/[^/]+", path):
        plays = {("GET", "/groups/a"): one.reply(), ("GET", "/projects"): good([])}
        plays |= {("GET", f"/groups/a/{kind}"): good([]) for kind in ("issues", "merge_requests")}
        yield "GET group", {"do": "candidates", "repositories": ["a"]}, plays, equals({"keys": [], "faults": []})
    elif one.method == "GET" and re.fullmatch(r"/(groups/[^/]+/)?projects", path):
        plays = {("GET", "/projects"): one.reply(), ("GET", "/issues"): good([]), ("GET", "/merge_requests"): good([])}
        yield "GET list of projects", {"do": "candidates"}, plays, equals({"keys": [], "faults": []})
    elif (one.method, path) == ("GET", "/user"):
        yield "GET user", {"do": "connect"}, {("GET", "/user"): one.reply()}, equals(body["username"])


def of_github(one):
    path, body, kind = one.path, one.body, one.method + " "
    if match := re.fullmatch(r"/repos/([^/]+)/([^/]+)/(issues|pulls)/(\d+)", path):
        key = {"owner": match[1], "repo": match[2], "number": int(match[4]), "change": match[3] == "pulls"}
        if one.method in ("GET", "PATCH"):
            plays = {("GET", path): one.reply()}
            yield f"{kind}{match[3]}/N", {"do": "item", **key}, plays, item(body, "body", "login")
            if key["change"]:
                sides = [body["base"]["repo"], body["head"]["repo"]]
                plays |= {("GET", f"/repos/{side['full_name']}"): good(side) for side in sides if side}
                plays |= {("GET", f"/repos/{match[1]}/{match[2]}"): good(sides[0])}
                fits = told("may not push|is gone|is archived")
                yield f"{kind}{match[3]}/N for its branch", {"do": "repository", **key}, plays, fits
    elif match := re.fullmatch(r"/repos/([^/]+)/([^/]+)/(issues|pulls)/(\d+)/(comments|reviews|labels)(/.+)?", path):
        key = {"owner": match[1], "repo": match[2], "number": int(match[4]), "change": match[3] == "pulls"}
        kind += f"{match[3]}/N/{match[5]}"
        if one.method == "GET" and match[5] != "labels":
            lists = [path.rsplit("/", 2)[0].replace("pulls", "issues") + f"/{match[4]}/comments"]
            lists += [f"/repos/{match[1]}/{match[2]}/pulls/{match[4]}/{name}" for name in ("comments", "reviews")]
            plays = {("GET", place): good([]) for place in lists} | {("GET", path): one.reply()}
            texts = collections.Counter((comment["body"] or "").replace("\r\n", "\n") for comment in body)
            fits = (lambda said: texts == bodies(said)) if match[3] == "issues" else (lambda said: bool(said) == bool(body))
            yield kind, {"do": "comments", **key}, plays, fits
        elif one.method == "POST" and match[5] == "comments":
            yield kind, {"do": "comment", "body": "x", **key}, {("POST", path): one.reply()}, equals(str(body["id"]))
        elif one.method == "POST" and match[5] == "labels":
            yield kind, {"do": "add_label", "label": "x", **key}, {("POST", path): one.reply()}, equals(None)
        elif one.method == "DELETE" and match[6]:
            label = urllib.parse.unquote(match[6][1:])
            yield kind, {"do": "remove_label", "label": label, **key}, {("DELETE", path): one.reply()}, equals(None)
    elif match := re.fullmatch(r"/repos/([^/]+)/([^/]+)/issues/comments/(\d+)", path):
        ask = {"do": "edit", "id": match[3], "body": "x", "owner": match[1], "repo": match[2], "number": 1}
        if one.method == "PATCH":
            yield kind + "issues/comments/N", ask, {("PATCH", path): one.reply()}, equals(None)
    elif re.fullmatch(r"/(repos/[^/]+|repositories)/[^/]+/issues", path):
        if one.method == "GET":
            seen = len({item["number"] for item in body})
            ask = {"do": "candidates", "repositories": ["a/b"]}
            fits = lambda found: len(found["keys"]) == seen
            yield kind + "list of issues", ask, {("GET", "/repos/a/b/issues"): one.reply()}, fits
        elif one.method == "POST":
            ask = {"do": "item", "owner": "a", "repo": "b", "number": 1}
            yield kind + "list of issues", ask, {("GET", "/repos/a/b/issues/1"): good(body)}, item(body, "body", "login")
    elif re.fullmatch(r"/(repos/[^/]+|repositories)/[^/]+/pulls", path):
        key = {"owner": "a", "repo": "b", "number": 1, "branch": "x", "base": "y", "title": "z"}
        if one.method == "GET":
            first = body[0]["html_url"] if body else None
            yield kind + "list of pulls", {"do": "find", **key}, {("GET", "/repos/a/b/pulls"): one.reply()}, equals(first)
        elif one.method == "POST":
            plays = {("POST", "/repos/a/b/pulls"): one.reply()}
            yield kind + "list of pulls", {"do": "open", **key}, plays, equals(body["html_url"])
    elif match := re.fullmatch(r"/repos/([^/]+)/([^/]+)/collaborators/([^/]+)/permission", path):
        ask = {"do": "may_write", "owner": match[1], "repo": match[2], "number": 1, "user": match[3]}
        yield kind + "permission", ask, {("GET", path): one.reply()}, equals(body["permission"] in ("admin", "write"))
    elif one.method == "GET" and re.fullmatch(r"/(repos/[^/]+|repositories)/[^/]+", path):
        ask = {"do": "repository", "owner": "a", "repo": "b", "number": 1}
        yield "GET repository", ask, {("GET", "/repos/a/b"): one.reply()}, told("may not push|is archived")
    elif (one.method, path) == ("GET", "/user/repos"):
        plays = {("GET", "/user/repos"): one.reply()}
        plays |= {("GET", f"/repos/{one['full_name']}/issues"): good([]) for one in body}
        yield "GET list of repositories", {"do": "candidates"}, plays, equals({"keys": [], "faults": []})
    elif (one.method, path) == ("GET", "/search/issues"):
        seen = len({item["url"] for item in body["items"]})
        ask = {"do": "candidates", "repositories": ["a/b"], "query": "x"}
        fits = lambda found: len(found["keys"]) == seen
        yield "GET search", ask, {("GET", "/search/issues"): one.reply()}, fits
    elif (one.method, path) == ("GET", "/user"):
        yield "GET user", {"do": "connect"}, {("GET", "/user"): one.reply()}, equals(body["login"])


def of_refusal(one):
    """Whatever was asked: a refusal means the same everywhere, so it is played to the reading of an item."""
    place = "/projects/1/issues/1" if GITLAB else "/repos/a/b/issues/1"
    said = one.body.get("message") or one.body.get("error")
    while not isinstance(said, str):
        said = (list(said.values()) if isinstance(said, dict) else said)[0]
    fits = {401: told("refuses the token", bad=True), 404: equals(None), 410: equals(None)}
    fits = fits.get(one.status, told(re.escape(said[:200]), bad=True))
    ask = {"do": "item", "project": 1, "number": 1} if GITLAB else {"do": "item", "owner": "a", "repo": "b", "number": 1}
    yield f"refusals with {one.status}", ask, {("GET", place): one.reply()}, fits


def item(recorded, body, name):
    """The item as recorded."""
    labels = [label if isinstance(label, str) else label["name"] for label in recorded["labels"]]
    author = (recorded[("author" if GITLAB else "user")] or {"username": "ghost", "login": "ghost"})[name]
    expected = {"title": recorded["title"], "body": recorded[body] or "", "author": author, "labels": labels}
    return lambda found: all(found[key] == value for key, value in expected.items())


def bodies(comments):
    return collections.Counter(comment["body"] for comment in comments)


def equals(expected):
    return lambda found: found == expected


def told(sentences, bad=False):
    """A refusal of ours with one of these sentences, or (not `bad`) none."""
    return {"sentences": sentences, "bad": bad}


def fits(expectation, answer):
    if isinstance(expectation, dict):
        if "error" in answer:
            return re.search(expectation["sentences"], answer["error"]) is not None
        return not expectation["bad"] and bool(answer["good"])
    return "error" not in answer and expectation(answer["good"])


PLAYED = []


class Player(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        number, path = re.fullmatch(r"/(\d+)(/[^?]*)(?:\?.*)?", self.path).groups()
        unknown = (200, {}, WHO) if path == "/user" else (404, {}, {"message": "404 Not Found"})
        status, headers, body = PLAYED[int(number)].get((self.command, path), unknown)
        data = b"" if status in (204, 304) else json.dumps(body, default=str).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass


def main():
    exchanges = [one for directory in sys.argv[3:] for one in recordings(directory)]
    asked, covered, faults = [], collections.Counter(), []
    used = 0
    for one in exchanges:
        if one.status < 300:
            questions = list((of_gitlab if GITLAB else of_github)(one))
        else:
            plain = one.status in range(400, 429) and isinstance(one.body, dict)
            questions = list(of_refusal(one)) if plain else []
        used += bool(questions)
        for kind, question, plays, expectation in questions:
            asked.append((kind, {**question, "below": f"/{len(PLAYED)}"}, expectation))
            PLAYED.append(plays)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Player)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lines = "\n".join(json.dumps(question) for _, question, _ in asked)
    command = [READER, FORGE, f"http://127.0.0.1:{server.server_address[1]}"]
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, env={"NO_PROXY": "127.0.0.1"})
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(asked):
        faults.append(f"our adapter ended with {done.returncode} after {len(answers)} of {len(asked)} questions")
    for (kind, question, expectation), answer in zip(asked, answers):
        covered[kind] += 1
        if not fits(expectation, answer):
            faults.append(f"{kind}: {json.dumps(answer)[:600]}")
    for kind, count in sorted(covered.items()):
        print(f"{count:4} {kind}")
    for text in faults:
        print("FAULT", text)
    if faults or not asked:
        sys.exit(1)
    print(f"good: {used} of {len(exchanges)} recorded exchanges are of calls we make; read {sum(covered.values())} times")


main()
