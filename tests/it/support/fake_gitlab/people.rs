//! What persons do on the fake, beside the API: the test's own side.

use super::super::fake_forge::git;
use super::state::{DEVELOPER, Hub, Item, Kind, Project, Token, same};
use super::{FakeGitlab, Place};

/// Somebody opens an issue or a merge request.
#[derive(Debug, Clone)]
pub struct Issue<'a> {
    pub title: &'a str,
    pub body: Option<&'a str>,
    pub labels: &'a [&'a str],
    pub author: &'a str,
}

impl Default for Issue<'_> {
    fn default() -> Self {
        Self { title: "Fix add.sh", body: Some("add.sh subtracts."), labels: &[], author: "alice" }
    }
}

impl Hub {
    /// Opens an item; returns its number, counted apart for issues and merge requests.
    pub fn open(&mut self, project: usize, kind: Kind, title: &str, body: Option<String>, author: &str) -> u64 {
        self.user(author);
        let (id, now) = (self.id(), self.tick());
        let project = &mut self.projects[project];
        let iid = project.items.iter().filter(|item| item.kind == kind).count() as u64 + 1;
        project.items.push(Item {
            id,
            iid,
            kind,
            title: title.to_owned(),
            description: body.filter(|body| !body.is_empty()),
            author: author.to_owned(),
            labels: Vec::new(),
            assignees: Vec::new(),
            reviewers: Vec::new(),
            state: "opened",
            locked: false,
            created: now,
            updated: now,
            notes: Vec::new(),
            label_events: Vec::new(),
            source_branch: String::new(),
            target_branch: String::new(),
            source_project: None,
            lets_in: false,
            confidential: false,
        });
        iid
    }
}

impl FakeGitlab {
    /// A private project at a path of any depth with `README` and `add.sh` on `main`, where the bot is a developer.
    pub fn add_project(&self, path: &str) -> u64 {
        let mut hub = self.hub();
        let (id, now) = (hub.id(), hub.tick());
        git::init(&hub.git_root, id, "main");
        let files = [("README", "widgets\n"), ("add.sh", "echo $(($1 - $2))\n")];
        git::commit(&hub.git_root, id, "main", "main", &files, "start", now);
        hub.projects.push(Project {
            id,
            path: path.to_owned(),
            default_branch: "main".to_owned(),
            public: false,
            archived: false,
            hides_roles: false,
            has_issues: true,
            labels: Vec::new(),
            members: vec![(self.bot().to_owned(), DEVELOPER)],
            items: Vec::new(),
        });
        id
    }

    /// A public fork with the same branches at `path`; the bot has no role in it.
    pub fn add_fork(&self, from: &str, path: &str) -> u64 {
        let mut hub = self.hub();
        let source = hub.projects[hub.at(from)].clone();
        let id = hub.id();
        git::fork(&hub.git_root, source.id, id, &source.default_branch);
        let fork = Project {
            id,
            path: path.to_owned(),
            public: true,
            labels: Vec::new(),
            members: Vec::new(),
            items: Vec::new(),
            ..source
        };
        hub.projects.push(fork);
        id
    }

    pub fn change_project(&self, path: &str, change: impl FnOnce(&mut Project)) {
        let mut hub = self.hub();
        let at = hub.at(path);
        change(&mut hub.projects[at]);
    }

    pub fn change_item(&self, place: Place<'_>, change: impl FnOnce(&mut Item)) {
        self.change_project(place.path, |project| change(project.item_mut(place.kind, place.iid).expect("an item")));
    }

    /// 0 takes the role away.
    pub fn set_role(&self, path: &str, username: &str, role: u64) {
        self.hub().user(username);
        self.change_project(path, |project| {
            project.members.retain(|(who, _)| !same(who, username));
            project.members.push((username.to_owned(), role));
        });
    }

    /// The old path leads to the new one from now on.
    pub fn rename_project(&self, path: &str, new: &str) {
        let mut hub = self.hub();
        let at = hub.at(path);
        hub.projects[at].path = new.to_owned();
        let id = hub.projects[at].id;
        hub.renames.push((path.to_owned(), id));
    }

    /// Gone for good: merge requests from it show `source_project_id: null`.
    pub fn delete_project(&self, path: &str) {
        let mut hub = self.hub();
        let at = hub.at(path);
        let gone = hub.projects.remove(at).id;
        let items = hub.projects.iter_mut().flat_map(|project| &mut project.items);
        items.filter(|item| item.source_project == Some(gone)).for_each(|item| item.source_project = None);
    }

    pub fn add_issue(&self, path: &str, issue: &Issue<'_>) -> u64 {
        self.add_item(path, Kind::Issue, issue)
    }

    /// A merge request from `branch` of `from` (the project itself or a fork) into the default branch; the
    /// branch gets a commit where it is missing.
    pub fn add_request(&self, path: &str, issue: &Issue<'_>, from: &str, branch: &str) -> u64 {
        let iid = self.add_item(path, Kind::Request, issue);
        let mut hub = self.hub();
        let (at, source) = (hub.at(path), hub.projects[hub.at(from)].clone());
        if git::branch_sha(&hub.git_root, source.id, branch).is_none() {
            let files = [("work", "half\n")];
            git::commit(&hub.git_root, source.id, branch, &source.default_branch, &files, "work", hub.now);
        }
        let target = hub.projects[at].default_branch.clone();
        let item = hub.projects[at].item_mut(Kind::Request, iid).expect("just made");
        (item.source_branch, item.target_branch) = (branch.to_owned(), target);
        item.source_project = Some(source.id);
        iid
    }

    fn add_item(&self, path: &str, kind: Kind, issue: &Issue<'_>) -> u64 {
        let mut hub = self.hub();
        let at = hub.at(path);
        let iid = hub.open(at, kind, issue.title, issue.body.map(str::to_owned), issue.author);
        for label in issue.labels {
            hub.change_label(at, kind, iid, label, true, issue.author);
        }
        iid
    }

    /// A note of a person; returns its id.
    pub fn note(&self, place: Place<'_>, author: &str, body: &str) -> u64 {
        let mut hub = self.hub();
        let at = hub.at(place.path);
        hub.say(at, place.kind, place.iid, body, author)
    }

    /// A note on a line of a merge request.
    pub fn remark(&self, place: Place<'_>, author: &str, path: &str, line: Option<u64>, body: &str) {
        let id = self.note(place, author, body);
        let position = Some((path.to_owned(), line));
        self.change_item(place, |item| {
            item.notes.iter_mut().filter(|note| note.id == id).for_each(|note| note.position = position.clone());
        });
    }

    /// A note for members only.
    pub fn internal_note(&self, place: Place<'_>, author: &str, body: &str) {
        let id = self.note(place, author, body);
        self.change_item(place, |item| {
            item.notes.iter_mut().filter(|note| note.id == id).for_each(|note| note.internal = true);
        });
    }

    pub fn label(&self, place: Place<'_>, label: &str, added: bool, actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(place.path);
        hub.change_label(at, place.kind, place.iid, label, added, actor);
    }

    pub fn set_state(&self, place: Place<'_>, state: &'static str) {
        let now = self.hub().tick();
        self.change_item(place, |item| (item.state, item.updated) = (state, now));
    }

    pub fn set_assignees(&self, place: Place<'_>, usernames: &[&str]) {
        let mut hub = self.hub();
        for name in usernames {
            hub.user(name);
        }
        drop(hub);
        self.change_item(place, |item| item.assignees = usernames.iter().map(|name| (*name).to_owned()).collect());
    }

    /// The item is not found from now on.
    pub fn delete_item(&self, place: Place<'_>) {
        self.change_project(place.path, |project| {
            project.items.retain(|item| (item.kind, item.iid) != (place.kind, place.iid));
        });
    }

    /// A person leaves; what they wrote stays.
    pub fn delete_user(&self, username: &str) {
        let mut hub = self.hub();
        hub.user(username);
        hub.users.iter_mut().filter(|user| same(&user.username, username)).for_each(|user| user.gone = true);
    }

    pub fn add_token(&self, secret: &str, username: &str, read_only: bool) {
        let mut hub = self.hub();
        hub.user(username);
        hub.tokens.insert(secret.to_owned(), Token { username: username.to_owned(), read_only, expires: None });
    }

    /// Changes a token that is there.
    pub fn change_token(&self, secret: &str, change: impl FnOnce(&mut Token)) {
        change(self.hub().tokens.get_mut(secret).expect("a known token"));
    }

    pub fn revoke_token(&self, secret: &str) {
        self.hub().tokens.remove(secret);
    }

    /// Lets notes without text through, which GitLab itself refuses.
    pub fn allow_blank_notes(&self) {
        self.hub().blank_notes = true;
    }

    /// Lists say no totals, as above 10,000 items.
    pub fn hide_totals(&self) {
        self.hub().hides_totals = true;
    }

    /// GitLab believes to live elsewhere, and says so in its links.
    pub fn set_link_root(&self, root: &str) {
        self.hub().link_root = Some(root.to_owned());
    }

    /// A commit of a person on a branch; returns its id.
    pub fn commit(&self, path: &str, branch: &str, files: &[(&str, &str)]) -> String {
        let mut hub = self.hub();
        let (project, now) = (hub.projects[hub.at(path)].clone(), hub.tick());
        git::commit(&hub.git_root, project.id, branch, &project.default_branch, files, "by hand", now)
    }

    /// Every push is refused with this on the remote's side.
    pub fn refuse_pushes(&self, path: &str, message: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hub = self.hub();
        let hooks = git::dir(&hub.git_root, hub.projects[hub.at(path)].id).join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        let hook = hooks.join("pre-receive");
        std::fs::write(&hook, format!("#!/bin/sh\nprintf '%s\\n' '{message}' >&2\nexit 1\n")).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn branch(&self, path: &str, branch: &str) -> Option<String> {
        let hub = self.hub();
        git::branch_sha(&hub.git_root, hub.projects[hub.at(path)].id, branch)
    }

    #[track_caller]
    pub fn git(&self, path: &str, args: &[&str]) -> String {
        let (root, id) = {
            let hub = self.hub();
            (hub.git_root.clone(), hub.projects[hub.at(path)].id)
        };
        git::run(&root, id, args)
    }

    /// The item as the API shows it.
    pub fn item(&self, place: Place<'_>) -> serde_json::Value {
        let hub = self.hub();
        let project = &hub.projects[hub.at(place.path)];
        hub.item_json(project, project.item(place.kind, place.iid).expect("an item"))
    }

    pub fn labels(&self, place: Place<'_>) -> Vec<String> {
        let hub = self.hub();
        hub.projects[hub.at(place.path)].item(place.kind, place.iid).expect("an item").labels.clone()
    }

    /// Author and body of each note that a person or the bot wrote.
    pub fn notes(&self, place: Place<'_>) -> Vec<(String, String)> {
        let hub = self.hub();
        let item = hub.projects[hub.at(place.path)].item(place.kind, place.iid).expect("an item");
        item.notes.iter().filter(|note| !note.system).map(|note| (note.author.clone(), note.body.clone())).collect()
    }

    /// Numbers of the merge requests.
    pub fn requests(&self, path: &str) -> Vec<u64> {
        let hub = self.hub();
        let items = hub.projects[hub.at(path)].items.iter();
        items.filter(|item| item.kind == Kind::Request).map(|item| item.iid).collect()
    }

    /// All that is held, as canonical JSON by name: equal when nothing was written.
    pub fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        let hub = self.hub();
        let mut all = Vec::new();
        for project in &hub.projects {
            let refs = git::branches(&hub.git_root, project.id);
            all.push((project.path.clone(), format!("{:?} {refs:?}", project.labels).into_bytes()));
            for item in &project.items {
                let name = format!("{} {:?} {}", project.path, item.kind, item.iid);
                all.push((name, format!("{item:?}").into_bytes()));
            }
        }
        all
    }
}
