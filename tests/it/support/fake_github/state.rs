//! What the fake GitHub holds: plain data, one lock around all of it, nothing of HTTP.

use std::collections::HashMap;
use std::path::PathBuf;

use super::faults::Faults;
use super::rate::Rate;
use super::wire::Request;

/// What a user may do in a repository, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

/// How a person left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    No,
    /// What they wrote shows `user: null`.
    Null,
    /// What they wrote shows the user `ghost`.
    Ghost,
}

#[derive(Debug, Clone)]
pub struct User {
    pub id: u64,
    pub login: String,
    pub kind: &'static str,
    pub gone: Gone,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub login: String,
    /// Fine-grained "read" on everything: writes and pushes are refused.
    pub read_only: bool,
    /// Scopes of a classic token, told in each answer; fine-grained ones have none.
    pub scopes: Option<String>,
    /// When it ends, as GitHub writes it.
    pub expires: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Label {
    pub id: u64,
    pub name: String,
    pub color: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Repo {
    pub id: u64,
    pub owner: String,
    pub name: String,
    pub default_branch: String,
    pub private: bool,
    pub archived: bool,
    pub has_issues: bool,
    /// Whether its plan knows draft pull requests.
    pub drafts: bool,
    pub fork: bool,
    pub created: i64,
    pub updated: i64,
    pub labels: Vec<Label>,
    pub items: Vec<Item>,
    pub permissions: Vec<(String, Permission)>,
    pub protected: Vec<String>,
}

/// Who is kept out of a locked conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Open,
    /// People without write access, as GitHub does it for users.
    Readers,
    /// Everybody with a token, as installations of Apps meet it.
    Everyone,
}

#[derive(Debug, Clone)]
pub struct Item {
    pub id: u64,
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    pub author: String,
    pub labels: Vec<u64>,
    pub assignees: Vec<String>,
    pub lock: Lock,
    pub closed: Option<(i64, String)>,
    pub created: i64,
    pub updated: i64,
    pub comments: Vec<Comment>,
    pub events: Vec<Event>,
    pub pull: Option<Pull>,
    pub deleted: bool,
}

#[derive(Debug, Clone)]
pub struct Comment {
    pub id: u64,
    pub author: String,
    pub body: String,
    pub created: i64,
    pub updated: i64,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub id: u64,
    pub actor: String,
    pub what: &'static str,
    /// Name and colour as they were then.
    pub label: Option<(String, String)>,
    pub assignee: Option<String>,
    pub created: i64,
}

#[derive(Debug, Clone)]
pub struct Pull {
    /// Not the id of the item.
    pub id: u64,
    pub head_owner: String,
    pub head_branch: String,
    /// Where the head branch is; `None` when that repository was deleted.
    pub head_repo: Option<u64>,
    /// As last seen; follows the branch while the request is open.
    pub head_sha: String,
    pub base_branch: String,
    pub base_sha: String,
    pub draft: bool,
    pub merged: Option<(i64, String)>,
    pub merge_sha: Option<String>,
    pub reviewers: Vec<String>,
    pub reviews: Vec<Review>,
    pub review_comments: Vec<ReviewComment>,
    pub maintainer_can_modify: bool,
}

#[derive(Debug, Clone)]
pub struct Review {
    pub id: u64,
    pub author: String,
    pub body: String,
    pub state: &'static str,
    pub commit: String,
    pub submitted: i64,
}

#[derive(Debug, Clone)]
pub struct ReviewComment {
    pub id: u64,
    pub review: u64,
    pub author: String,
    pub body: String,
    pub path: String,
    /// `None` when the line is gone from the diff.
    pub line: Option<u64>,
    pub hunk: String,
    pub commit: String,
    pub in_reply_to: Option<u64>,
    pub created: i64,
    pub updated: i64,
}

/// One exchange, for assertions and for replaying elsewhere.
#[derive(Debug, Clone)]
pub struct Logged {
    pub request: Request,
    /// `None` when the connection was closed without an answer.
    pub status: Option<u16>,
}

/// All of it.
pub struct Hub {
    /// `http://127.0.0.1:<port>`, with the path in front of an Enterprise Server's API.
    pub api: String,
    /// Another port: pages and git, as github.com is not api.github.com.
    pub web: String,
    pub git_root: PathBuf,
    pub now: i64,
    pub next_id: u64,
    pub users: Vec<User>,
    pub tokens: HashMap<String, Token>,
    pub repos: Vec<Repo>,
    /// Old `owner/name` and the id of the repository that had it.
    pub renames: Vec<(String, u64)>,
    /// What search still believes; it lags behind.
    pub stale_index: Option<Vec<Repo>>,
    pub incomplete_search: bool,
    /// GitHub refuses comments without text; the conformance suite posts them.
    pub blank_comments: bool,
    pub faults: Faults,
    pub rate: Rate,
    pub log: Vec<Logged>,
    pub violations: Vec<String>,
}

pub fn same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

impl Hub {
    /// Time passes: one second for each thing written.
    pub fn tick(&mut self) -> i64 {
        self.now += 1;
        self.now
    }

    pub fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The user, made on first mention.
    pub fn user(&mut self, login: &str) -> &User {
        if let Some(at) = self.users.iter().position(|user| same(&user.login, login)) {
            return &self.users[at];
        }
        let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
        let user = User { id: self.id(), login: login.to_owned(), kind, gone: Gone::No };
        self.users.push(user);
        &self.users[self.users.len() - 1]
    }

    pub fn known(&self, login: &str) -> Option<&User> {
        self.users.iter().find(|user| same(&user.login, login) && user.gone == Gone::No)
    }

    pub fn repo_at(&self, full: &str) -> Option<usize> {
        self.repos.iter().position(|repo| same(&repo.full(), full))
    }

    pub fn repo_by_id(&self, id: u64) -> Option<usize> {
        self.repos.iter().position(|repo| repo.id == id)
    }

    pub fn violate(&mut self, text: String) {
        self.violations.push(text);
    }

    /// Puts a label on an item, making it in the repository first; whether anything changed.
    pub fn put_label(&mut self, repo: usize, number: u64, name: &str, actor: &str) -> bool {
        let label = match self.repos[repo].label(name) {
            Some(label) => label.clone(),
            None => self.make_label(repo, name, "ededed", None),
        };
        let item = self.repos[repo].item_mut(number).expect("looked up before");
        if item.labels.contains(&label.id) {
            return false;
        }
        item.labels.push(label.id);
        self.happens(repo, number, "labeled", actor, Some((label.name, label.color)), None);
        true
    }

    /// Takes a label away; whether it was there.
    pub fn drop_label(&mut self, repo: usize, number: u64, name: &str, actor: &str) -> bool {
        let Some(label) = self.repos[repo].label(name).cloned() else { return false };
        let item = self.repos[repo].item_mut(number).expect("looked up before");
        let Some(at) = item.labels.iter().position(|id| *id == label.id) else { return false };
        item.labels.remove(at);
        self.happens(repo, number, "unlabeled", actor, Some((label.name, label.color)), None);
        true
    }

    pub fn make_label(&mut self, repo: usize, name: &str, color: &str, description: Option<String>) -> Label {
        let label = Label { id: self.id(), name: name.to_owned(), color: color.to_owned(), description };
        self.tick();
        self.repos[repo].labels.push(label.clone());
        label
    }

    /// Records an event of an item, now.
    pub fn happens(
        &mut self,
        repo: usize,
        number: u64,
        what: &'static str,
        actor: &str,
        label: Option<(String, String)>,
        assignee: Option<String>,
    ) {
        self.user(actor);
        let (id, created) = (self.id(), self.tick());
        let item = self.repos[repo].item_mut(number).expect("looked up before");
        item.updated = created;
        item.events.push(Event { id, actor: actor.to_owned(), what, label, assignee, created });
    }

    /// Appends a comment; returns its id.
    pub fn say(&mut self, repo: usize, number: u64, author: &str, body: &str) -> u64 {
        self.user(author);
        let (id, now) = (self.id(), self.tick());
        let item = self.repos[repo].item_mut(number).expect("looked up before");
        item.updated = now;
        item.comments.push(Comment {
            id,
            author: author.to_owned(),
            body: body.to_owned(),
            created: now,
            updated: now,
        });
        id
    }
}

impl Repo {
    pub fn full(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    pub fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|label| same(&label.name, name))
    }

    pub fn item(&self, number: u64) -> Option<&Item> {
        self.items.iter().find(|item| item.number == number)
    }

    pub fn item_mut(&mut self, number: u64) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.number == number)
    }

    pub fn permission(&self, login: &str) -> Permission {
        if same(login, &self.owner) {
            return Permission::Admin;
        }
        let set = self.permissions.iter().find(|(who, _)| same(who, login)).map(|(_, permission)| *permission);
        set.unwrap_or(if self.private { Permission::None } else { Permission::Read })
    }

    pub fn names<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a str> {
        item.labels.iter().filter_map(|id| self.labels.iter().find(|label| label.id == *id)).map(|l| l.name.as_str())
    }
}
