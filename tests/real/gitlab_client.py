"""Drives the fake GitLab with python-gitlab, and compares the shapes it gets with those gitlab.com was recorded with.

    gitlab_client.py <serve_fakes> <directory of recordings>
"""

import collections
import glob
import re
import sys

import gitlab
import yaml
from standing import CHECKS, FAULTS, expect, standing, verdict

# What gitlab.com has begun to send since the recordings, as its documentation has it.
NEWER = {
    "issue": {"type"},
    "merge_request": {"draft", "reviewers"},
    "note": {"internal"},
    "user": {"locked"},
    "member": {"locked"},
}


def type_of(value):
    names = {type(None): "null", bool: "flag", int: "number", str: "text", list: "list", dict: "object"}
    return names.get(type(value), "number")


def recorded_shapes(directory):
    """Fields and their types of each kind of object, over all recordings."""
    kinds = {
        "issue": r"/projects/\d+/issues(/\d+)?",
        "merge_request": r"/projects/\d+/merge_requests(/\d+)?",
        "note": r"/projects/\d+/(issues|merge_requests)/\d+/notes(/\d+)?",
        "project": r"/projects/[^/]+",
        "branch": r"/projects/\d+/repository/branches(/.+)?",
        "member": r"/projects/\d+/members/all(/\d+)?",
    }
    shapes = collections.defaultdict(lambda: collections.defaultdict(set))

    def learn(kind, value):
        for name, field in value.items():
            shapes[kind][name].add(type_of(field))
            if name in ("author", "assignee") and isinstance(field, dict):
                learn("user", field)

    def walk(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*path, key))
        elif isinstance(value, list):
            for output in (one["output"] for one in value if isinstance(one, dict) and "output" in one):
                place = re.sub(r"^https://[^/]+/api/v4|\?.*", "", str(path[-1]))
                kind = next((kind for kind, pattern in kinds.items() if re.fullmatch(pattern, place)), None)
                if kind and output.get("status_code", 500) < 300:
                    content = output["_content"]
                    for one in content if isinstance(content, list) else [content]:
                        learn(kind, one)

    for name in glob.glob(f"{directory}/**/*.yaml", recursive=True):
        with open(name, encoding="utf-8") as file:
            walk(yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), ())
    return shapes


def compare(shapes, kind, value):
    """Fields of the fake that gitlab.com has not, or not of this type."""
    # Without what python-gitlab adds from the object it belongs to.
    value = getattr(value, "_attrs", value)
    CHECKS.append(f"shape of a {kind}")
    for name, field in value.items():
        known = shapes[kind].get(name)
        if known is None and name not in NEWER.get(kind, ()):
            FAULTS.append(f"gitlab.com sends no `{name}` of a {kind}")
        elif known is not None and field is not None and type_of(field) not in known:
            FAULTS.append(f"`{name}` of a {kind} is {type_of(field)}, on gitlab.com {sorted(known)}")
        if name in ("author", "assignee") and isinstance(field, dict):
            compare(shapes, "user", field)


def refused(what, error, status, call, words=""):
    try:
        call()
        expect(what, "nothing", status)
    except error as refusal:
        expect(what, (refusal.response_code, words in str(refusal.error_message)), (status, True))


def drive(place, shapes):
    client = gitlab.Gitlab(place["url"], private_token=place["token"])
    client.auth()
    expect("whose token", client.user.username, place["bot"])
    wrong = gitlab.Gitlab(place["url"], private_token="wrong")
    refused("a wrong token", gitlab.GitlabAuthenticationError, 401, wrong.auth, "401 Unauthorized")

    project = client.projects.get(place["project"])
    compare(shapes, "project", project)
    expect("path", project.path_with_namespace, place["project"])
    expect("the same by id", client.projects.get(project.id).path_with_namespace, place["project"])
    # As text: the fake takes flags in one spelling only, GitLab also the `True` of Python.
    mine = {"membership": "true", "min_access_level": 30, "archived": "false", "simple": "true"}
    ours = client.projects.list(**mine, get_all=True)
    expect("our projects", [one.id for one in ours], [project.id])
    refused("no such project", gitlab.GitlabGetError, 404, lambda: client.projects.get("acme/none"), "Project Not Found")

    query = {"state": "opened", "labels": ["coding agent"], "scope": "all", "order_by": "updated_at", "sort": "asc"}
    lists = {"one's own": client.issues, "of a project": project.issues}
    lists["of a group"] = client.groups.get("acme/tools", lazy=True).issues
    for name, manager in lists.items():
        expect(f"issues {name}", len(manager.list(**query, per_page=50, get_all=True)), 119)
    pages = project.issues.list(**query, per_page=50, iterator=True)
    expect("totals", (pages.total, pages.total_pages, pages.per_page, pages.next_page), (119, 3, 50, 2))
    expect("each once", len({issue.iid for issue in pages}), 119)
    expect("by two labels", len(project.issues.list(labels=["coding agent", "a+b #1"], get_all=True)), 119)
    expect("by words", [one.iid for one in project.issues.list(search="Issue 77", get_all=True)], [77])
    expect("of somebody", [one.iid for one in project.issues.list(assignee_username="alice", get_all=True)], [1])

    issue = project.issues.get(1)
    compare(shapes, "issue", issue)
    expect("issue", (issue.iid, issue.title, issue.state, issue.labels), (1, "Issue 1", "opened", ["coding agent"]))
    expect("author", issue.author["username"], "alice")
    expect("reference", issue.references["full"], f"{place['project']}#1")
    refused("no such issue", gitlab.GitlabGetError, 404, lambda: project.issues.get(999))

    project.issues.update(1, {"add_labels": "coding agent processing", "remove_labels": "coding agent"})
    expect("changed labels", project.issues.get(1).labels, ["coding agent processing"])
    events = issue.resourcelabelevents.list(get_all=True)
    done = [(event.user["username"], event.action, event.label["name"]) for event in events[-2:]]
    bot = place["bot"]
    expect("label events", done, [(bot, "add", "coding agent processing"), (bot, "remove", "coding agent")])

    notes = [note for note in issue.notes.list(sort="asc", order_by="created_at", get_all=True) if not note.system]
    expect("notes, oldest first", [note.body for note in notes][:2], ["Note 1", "Note 2"])
    newest = [note.body for note in issue.notes.list(get_all=True) if not note.system]
    expect("newest first unless asked", newest[:2], ["For members.", "Note 25"])
    expect("internal", (len(notes), notes[-1].internal), (26, True))
    note = issue.notes.create({"body": "Working on it."})
    compare(shapes, "note", note)
    note.body = "Done."
    note.save()
    expect("an edited note", issue.notes.get(note.id).body, "Done.")
    refused("an empty note", gitlab.GitlabCreateError, 400, lambda: issue.notes.create({"body": " "}), "can't be blank")

    request = project.mergerequests.get(1)
    compare(shapes, "merge_request", request)
    expect("request", (request.source_branch, request.target_branch, request.draft), ("feature/1", "main", True))
    (thread,) = [one for one in request.discussions.list(get_all=True) if not one.individual_note]
    remark = thread.attributes["notes"][0]
    compare(shapes, "note", remark)
    expect("a remark", (remark["type"], remark["position"]["new_path"], remark["position"]["new_line"]), ("DiffNote", "add.sh", 1))

    branch = project.branches.create({"branch": "coding-agent/issue-1", "ref": "main"})
    compare(shapes, "branch", branch)
    expect("a branch", project.branches.get("coding-agent/issue-1").commit["id"], branch.commit["id"])
    refused("no such branch", gitlab.GitlabGetError, 404, lambda: project.branches.get("none"), "Branch Not Found")
    wanted = {"source_branch": branch.name, "target_branch": "main", "title": "A fix", "description": "Closes #1"}
    opened = project.mergerequests.create(wanted)
    compare(shapes, "merge_request", opened)
    expect("opened", (opened.iid, opened.state, opened.description), (2, "opened", "Closes #1"))
    again = lambda: project.mergerequests.create(wanted)
    refused("opened twice", gitlab.GitlabCreateError, 409, again, "already exists for this source branch: !2")
    found = project.mergerequests.list(source_branch=branch.name, state="all", get_all=True)
    expect("found by its branch", [one.iid for one in found], [2])

    (alice,) = client.users.list(username="alice", get_all=True)
    member = project.members_all.get(alice.id)
    compare(shapes, "member", member)
    expect("a role", member.access_level, gitlab.const.AccessLevel.DEVELOPER)
    refused("no member", gitlab.GitlabGetError, 404, lambda: project.members_all.get(99999))


recorded = recorded_shapes(sys.argv[2])
with standing(sys.argv[1], "gitlab") as where:
    drive(where, recorded)
verdict(f"python-gitlab {gitlab.__version__} understands the fake GitLab, whose objects look like recorded ones")
