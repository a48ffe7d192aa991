//! What persons do on the fake, beside the API: the test's own side.

use super::state::{Gone, Hub, Item, Label, Lock, Permission, Pull, Repo, Review, ReviewComment, Token, User, same};
use super::{FakeGithub, git, pulls};

/// Somebody opens an issue.
#[derive(Debug, Clone)]
pub struct Issue<'a> {
    pub title: &'a str,
    /// GitHub gives null for a body left empty.
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
    /// Opens an item; returns its number.
    pub fn open(&mut self, repo: usize, title: &str, body: Option<String>, author: &str, pull: Option<Pull>) -> u64 {
        self.user(author);
        let (id, now) = (self.id(), self.tick());
        let repo = &mut self.repos[repo];
        let number = repo.items.iter().map(|item| item.number).max().unwrap_or(0) + 1;
        repo.items.push(Item {
            id,
            number,
            title: title.to_owned(),
            body: body.filter(|body| !body.is_empty()),
            author: author.to_owned(),
            labels: Vec::new(),
            assignees: Vec::new(),
            lock: Lock::Open,
            closed: None,
            created: now,
            updated: now,
            comments: Vec::new(),
            events: Vec::new(),
            pull,
            deleted: false,
        });
        number
    }

    pub fn shut(&mut self, repo: usize, number: u64, actor: &str) {
        self.happens(repo, number, "closed", actor, None, None);
        let now = self.now;
        self.repos[repo].item_mut(number).expect("an item").closed = Some((now, actor.to_owned()));
    }

    pub fn reopen(&mut self, repo: usize, number: u64, actor: &str) {
        self.happens(repo, number, "reopened", actor, None, None);
        self.repos[repo].item_mut(number).expect("an item").closed = None;
    }

    #[track_caller]
    pub fn at(&self, full: &str) -> usize {
        self.repo_at(full).unwrap_or_else(|| panic!("no repository {full}"))
    }

    fn pull(&mut self, full: &str, number: u64) -> &mut Pull {
        let at = self.at(full);
        self.repos[at].item_mut(number).and_then(|item| item.pull.as_mut()).expect("a pull request")
    }
}

impl FakeGithub {
    /// A private repository `owner/name` with `README` and `add.sh` on `main`, where the bot may write.
    pub fn add_repo(&self, full: &str) -> u64 {
        let (owner, name) = full.split_once('/').expect("owner/name");
        let mut hub = self.hub();
        hub.user(owner);
        let (id, now, bot) = (hub.id(), hub.tick(), self.bot().to_owned());
        git::init(&hub.git_root, id, "main");
        let files = [("README", "widgets\n"), ("add.sh", "echo $(($1 - $2))\n")];
        git::commit(&hub.git_root, id, "main", "main", &files, "start", now);
        hub.repos.push(Repo {
            id,
            owner: owner.to_owned(),
            name: name.to_owned(),
            default_branch: "main".to_owned(),
            private: true,
            archived: false,
            has_issues: true,
            drafts: true,
            fork: false,
            created: now,
            updated: now,
            labels: Vec::new(),
            items: Vec::new(),
            permissions: vec![(bot, Permission::Write)],
            protected: Vec::new(),
        });
        id
    }

    /// An organization; repositories named after it are its own.
    pub fn add_org(&self, login: &str) {
        let mut hub = self.hub();
        let user = User { id: hub.id(), login: login.to_owned(), kind: "Organization", gone: Gone::No };
        hub.users.push(user);
    }

    /// A fork with the same branches, named `owner/<same name>`.
    pub fn add_fork(&self, full: &str, owner: &str) -> String {
        let mut hub = self.hub();
        let from = hub.at(full);
        let id = hub.id();
        hub.user(owner);
        let source = hub.repos[from].clone();
        git::fork(&hub.git_root, source.id, id, &source.default_branch);
        let fork = Repo {
            id,
            owner: owner.to_owned(),
            fork: true,
            labels: Vec::new(),
            items: Vec::new(),
            permissions: Vec::new(),
            ..source
        };
        let name = fork.full();
        hub.repos.push(fork);
        name
    }

    /// Changes what a repository is: `fake.change_repo("acme/widgets", |repo| repo.archived = true)`.
    pub fn change_repo(&self, full: &str, change: impl FnOnce(&mut Repo)) {
        let mut hub = self.hub();
        let at = hub.at(full);
        change(&mut hub.repos[at]);
    }

    /// Changes an item behind everybody's back, with no event.
    pub fn change_item(&self, full: &str, number: u64, change: impl FnOnce(&mut Item)) {
        self.change_repo(full, |repo| change(repo.item_mut(number).expect("an item")));
    }

    pub fn set_permission(&self, full: &str, login: &str, permission: Permission) {
        self.hub().user(login);
        self.change_repo(full, |repo| {
            repo.permissions.retain(|(who, _)| !same(who, login));
            repo.permissions.push((login.to_owned(), permission));
        });
    }

    /// The old address redirects from now on.
    pub fn rename_repo(&self, full: &str, new: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        let (owner, name) = new.split_once('/').expect("owner/name");
        hub.user(owner);
        let repo = &mut hub.repos[at];
        (repo.owner, repo.name) = (owner.to_owned(), name.to_owned());
        let id = repo.id;
        hub.renames.push((full.to_owned(), id));
    }

    /// Gone for good: pull requests from it show `head.repo: null`.
    pub fn delete_repo(&self, full: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        let gone = hub.repos.remove(at).id;
        let pulls = hub.repos.iter_mut().flat_map(|repo| &mut repo.items).filter_map(|item| item.pull.as_mut());
        pulls.filter(|pull| pull.head_repo == Some(gone)).for_each(|pull| pull.head_repo = None);
    }

    pub fn add_label(&self, full: &str, name: &str, color: &str) -> Label {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.make_label(at, name, color, None)
    }

    pub fn add_issue(&self, full: &str, issue: &Issue<'_>) -> u64 {
        self.add_item(full, issue, None)
    }

    /// A pull request from `branch` of `from` (the repository itself or a fork) into the default branch; the
    /// branch gets a commit where it is missing.
    pub fn add_pull(&self, full: &str, issue: &Issue<'_>, from: &str, branch: &str) -> u64 {
        let mut hub = self.hub();
        let (at, source) = (hub.at(full), hub.at(from));
        let (base, head) = (hub.repos[at].clone(), hub.repos[source].clone());
        let root = hub.git_root.clone();
        let sha = git::branch_sha(&root, head.id, branch).unwrap_or_else(|| {
            git::commit(&root, head.id, branch, &head.default_branch, &[("work", "half\n")], "work", hub.now)
        });
        let base_sha = git::branch_sha(&root, base.id, &base.default_branch).expect("a default branch");
        let pull = Pull {
            id: hub.id(),
            head_owner: head.owner,
            head_branch: branch.to_owned(),
            head_repo: Some(head.id),
            head_sha: sha,
            base_branch: base.default_branch,
            base_sha,
            draft: false,
            merged: None,
            merge_sha: None,
            reviewers: Vec::new(),
            reviews: Vec::new(),
            review_comments: Vec::new(),
            maintainer_can_modify: false,
        };
        drop(hub);
        self.add_item(full, issue, Some(pull))
    }

    fn add_item(&self, full: &str, issue: &Issue<'_>, pull: Option<Pull>) -> u64 {
        let mut hub = self.hub();
        let at = hub.at(full);
        let number = hub.open(at, issue.title, issue.body.map(str::to_owned), issue.author, pull);
        for label in issue.labels {
            hub.put_label(at, number, label, issue.author);
        }
        number
    }

    /// A comment of a person; returns its id.
    pub fn comment(&self, full: &str, number: u64, author: &str, body: &str) -> u64 {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.say(at, number, author, body)
    }

    /// A review (`APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`) with remarks on lines: path, line, hunk, text.
    pub fn review(
        &self,
        full: &str,
        number: u64,
        author: &str,
        state: &'static str,
        body: &str,
        remarks: &[(&str, Option<u64>, &str, &str)],
    ) -> u64 {
        let mut hub = self.hub();
        pulls::refresh(&mut hub);
        hub.user(author);
        let (id, submitted) = (hub.id(), hub.tick());
        for (path, line, hunk, text) in remarks {
            let own = hub.id();
            let pull = hub.pull(full, number);
            let commit = pull.head_sha.clone();
            pull.review_comments.push(ReviewComment {
                id: own,
                review: id,
                author: author.to_owned(),
                body: (*text).to_owned(),
                path: (*path).to_owned(),
                line: *line,
                hunk: (*hunk).to_owned(),
                commit,
                in_reply_to: None,
                created: submitted,
                updated: submitted,
            });
        }
        let pull = hub.pull(full, number);
        let (commit, author, body) = (pull.head_sha.clone(), author.to_owned(), body.to_owned());
        pull.reviews.push(Review { id, author, body, state, commit, submitted });
        id
    }

    pub fn label(&self, full: &str, number: u64, label: &str, actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.put_label(at, number, label, actor);
    }

    pub fn unlabel(&self, full: &str, number: u64, label: &str, actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        assert!(hub.drop_label(at, number, label, actor), "{full}#{number} has no label {label}");
    }

    pub fn close(&self, full: &str, number: u64, actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.shut(at, number, actor);
    }

    pub fn reopen(&self, full: &str, number: u64, actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.reopen(at, number, actor);
    }

    /// Locks the conversation; `Lock::Everyone` refuses the bot whatever it may do, as Apps meet it.
    pub fn lock(&self, full: &str, number: u64, lock: Lock) {
        let mut hub = self.hub();
        let at = hub.at(full);
        hub.happens(at, number, if lock == Lock::Open { "unlocked" } else { "locked" }, "alice", None, None);
        hub.repos[at].item_mut(number).expect("an item").lock = lock;
    }

    /// The item answers 410 from now on.
    pub fn delete_item(&self, full: &str, number: u64) {
        self.change_item(full, number, |item| item.deleted = true);
    }

    pub fn set_assignees(&self, full: &str, number: u64, logins: &[&str], actor: &str) {
        let mut hub = self.hub();
        let at = hub.at(full);
        let old = std::mem::take(&mut hub.repos[at].item_mut(number).expect("an item").assignees);
        for login in old.iter().filter(|old| !logins.iter().any(|new| same(old, new))) {
            hub.happens(at, number, "unassigned", actor, None, Some(login.clone()));
        }
        for login in logins.iter().filter(|new| !old.iter().any(|old| same(old, new))) {
            hub.user(login);
            hub.happens(at, number, "assigned", actor, None, Some((*login).to_owned()));
        }
        let names = logins.iter().map(|login| (*login).to_owned()).collect();
        hub.repos[at].item_mut(number).expect("an item").assignees = names;
    }

    /// Merges a pull request with a merge commit.
    pub fn merge(&self, full: &str, number: u64, actor: &str) {
        let mut hub = self.hub();
        pulls::refresh(&mut hub);
        let (at, root) = (hub.at(full), hub.git_root.clone());
        let id = hub.repos[at].id;
        let pull = hub.pull(full, number).clone();
        if let Some(from) = pull.head_repo.filter(|from| *from != id) {
            let source = git::dir(&root, from);
            git::run(&root, id, &["fetch", "--quiet", source.to_str().expect("UTF-8"), &pull.head_branch]);
        }
        let tree = format!("{}^{{tree}}", pull.head_sha);
        let args = ["commit-tree", &tree, "-p", &pull.base_sha, "-p", &pull.head_sha, "-m", "Merge pull request"];
        let sha = git::run(&root, id, &args);
        git::update_ref(&root, id, &pull.base_branch, &sha).expect("the base exists");
        hub.happens(at, number, "merged", actor, None, None);
        hub.shut(at, number, actor);
        let now = hub.now;
        let pull = hub.pull(full, number);
        pull.merged = Some((now, actor.to_owned()));
        pull.merge_sha = Some(sha);
    }

    /// A person leaves; what they wrote stays.
    pub fn delete_user(&self, login: &str, how: Gone) {
        let mut hub = self.hub();
        hub.user(login);
        let user = hub.users.iter_mut().find(|user| same(&user.login, login)).expect("known");
        user.gone = how;
    }

    /// Another token, for the bot or anybody else.
    pub fn add_token(&self, secret: &str, login: &str, read_only: bool) {
        let mut hub = self.hub();
        hub.user(login);
        let token = Token { login: login.to_owned(), read_only, scopes: None, expires: None };
        hub.tokens.insert(secret.to_owned(), token);
    }

    /// Changes a token that is there.
    pub fn change_token(&self, secret: &str, change: impl FnOnce(&mut Token)) {
        change(self.hub().tokens.get_mut(secret).expect("a known token"));
    }

    pub fn revoke_token(&self, secret: &str) {
        self.hub().tokens.remove(secret);
    }

    /// Search keeps answering from what is true now.
    pub fn freeze_search(&self) {
        let mut hub = self.hub();
        hub.stale_index = Some(hub.repos.clone());
    }

    pub fn thaw_search(&self) {
        self.hub().stale_index = None;
    }

    /// A commit of a person on a branch, made from the default branch where it is new; returns its id.
    pub fn commit(&self, full: &str, branch: &str, files: &[(&str, &str)]) -> String {
        let mut hub = self.hub();
        let at = hub.at(full);
        let (repo, now) = (hub.repos[at].clone(), hub.tick());
        git::commit(&hub.git_root, repo.id, branch, &repo.default_branch, files, "by hand", now)
    }

    /// Installs a hook (`pre-receive`, `update`, …), a shell script.
    pub fn set_hook(&self, full: &str, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hub = self.hub();
        let hooks = git::dir(&hub.git_root, hub.repos[hub.at(full)].id).join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        let path = hooks.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Every push is refused with this on the remote's side.
    pub fn refuse_pushes(&self, full: &str, message: &str) {
        let quoted = message.replace('\'', "'\\''");
        self.set_hook(full, "pre-receive", &format!("printf '%s\\n' '{quoted}' >&2\nexit 1"));
    }
}
