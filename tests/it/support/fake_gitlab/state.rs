//! What the fake GitLab holds: plain data, one lock around all of it, nothing of HTTP.

use std::collections::HashMap;
use std::path::PathBuf;

use super::super::fake_forge::faults::Faults;
use super::super::fake_forge::wire::Request;

/// Roles (docs: "Members API").
pub const GUEST: u64 = 10;
pub const REPORTER: u64 = 20;
pub const DEVELOPER: u64 = 30;

#[derive(Debug, Clone)]
pub struct User {
    pub id: u64,
    pub username: String,
    /// What they wrote shows `author: null`.
    pub gone: bool,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub username: String,
    /// Scope `read_api` only: writes and pushes are refused.
    pub read_only: bool,
    /// The day it ends.
    pub expires: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Project {
    pub id: u64,
    /// With all its groups.
    pub path: String,
    pub default_branch: String,
    pub public: bool,
    pub archived: bool,
    /// Null in the answers: roles that come from a share, as GitLab leaves them out.
    pub hides_roles: bool,
    pub has_issues: bool,
    pub labels: Vec<String>,
    pub members: Vec<(String, u64)>,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Issue,
    Request,
}

#[derive(Debug, Clone)]
pub struct Item {
    /// Not the number people see.
    pub id: u64,
    pub iid: u64,
    pub kind: Kind,
    pub title: String,
    pub description: Option<String>,
    pub author: String,
    pub labels: Vec<String>,
    pub assignees: Vec<String>,
    pub reviewers: Vec<String>,
    /// `opened`, `closed`, `merged`.
    pub state: &'static str,
    /// Nobody with a token may comment.
    pub locked: bool,
    pub created: i64,
    pub updated: i64,
    pub notes: Vec<Note>,
    pub label_events: Vec<LabelEvent>,
    pub source_branch: String,
    pub target_branch: String,
    /// `None` when that project was deleted.
    pub source_project: Option<u64>,
    pub lets_in: bool,
    /// For members only.
    pub confidential: bool,
}

#[derive(Debug, Clone)]
pub struct Note {
    pub id: u64,
    pub author: String,
    pub body: String,
    pub system: bool,
    pub internal: bool,
    /// Path and line of a note on a difference.
    pub position: Option<(String, Option<u64>)>,
    pub created: i64,
    pub updated: i64,
}

#[derive(Debug, Clone)]
pub struct LabelEvent {
    pub id: u64,
    pub actor: String,
    pub added: bool,
    pub label: String,
    pub created: i64,
}

/// One exchange, for assertions.
#[derive(Debug, Clone)]
pub struct Logged {
    pub request: Request,
    pub is_api: bool,
    /// `None` when the connection was closed without an answer.
    pub status: Option<u16>,
}

/// All of it.
pub struct Hub {
    /// `http://127.0.0.1:<port>`
    pub root: String,
    pub git_root: PathBuf,
    pub now: i64,
    pub next_id: u64,
    pub users: Vec<User>,
    pub tokens: HashMap<String, Token>,
    pub projects: Vec<Project>,
    /// Old paths and the project that had them.
    pub renames: Vec<(String, u64)>,
    /// GitLab refuses notes without text; the conformance suite posts them.
    pub blank_notes: bool,
    /// What GitLab believes its address to be, in links to pages.
    pub link_root: Option<String>,
    /// Lists say no totals, as GitLab does above 10,000.
    pub hides_totals: bool,
    pub faults: Faults,
    pub rate: super::rate::Rate,
    pub has_tags: bool,
    pub log: Vec<Logged>,
    pub violations: Vec<String>,
}

pub fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
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
    pub fn username_of(&self, id: u64) -> Option<String> {
        self.users.iter().find(|user| user.id == id && !user.gone).map(|user| user.username.clone())
    }

    pub fn user(&mut self, username: &str) -> u64 {
        if let Some(user) = self.known(username) {
            return user.id;
        }
        let id = self.id();
        self.users.push(User { id, username: username.to_owned(), gone: false });
        id
    }

    pub fn known(&self, username: &str) -> Option<&User> {
        self.users.iter().find(|user| same(&user.username, username))
    }

    /// By number or by path.
    pub fn project_at(&self, name: &str) -> Option<usize> {
        let id = name.parse::<u64>().ok();
        self.projects.iter().position(|project| Some(project.id) == id || same(&project.path, name))
    }

    #[track_caller]
    pub fn at(&self, path: &str) -> usize {
        self.project_at(path).unwrap_or_else(|| panic!("no project {path}"))
    }

    pub fn violate(&mut self, text: String) {
        self.violations.push(text);
    }

    /// Appends a note; returns its id.
    pub fn say(&mut self, project: usize, kind: Kind, iid: u64, note: &str, author: &str) -> u64 {
        self.user(author);
        let (id, now) = (self.id(), self.tick());
        let item = self.projects[project].item_mut(kind, iid).expect("looked up before");
        item.updated = now;
        item.notes.push(Note {
            id,
            author: author.to_owned(),
            body: note.to_owned(),
            system: false,
            internal: false,
            position: None,
            created: now,
            updated: now,
        });
        id
    }

    /// Adds or removes one label; with the event and the system note that come with it.
    pub fn change_label(&mut self, project: usize, kind: Kind, iid: u64, label: &str, added: bool, actor: &str) {
        let held = self.projects[project].item(kind, iid).expect("looked up before").labels.iter();
        if held.into_iter().any(|name| name == label) == added {
            return;
        }
        if added && !self.projects[project].labels.iter().any(|name| name == label) {
            self.projects[project].labels.push(label.to_owned());
        }
        let word = if added { "added" } else { "removed" };
        let note = self.say(project, kind, iid, &format!("{word} ~{label} label"), actor);
        let (id, created) = (self.id(), self.now);
        let item = self.projects[project].item_mut(kind, iid).expect("looked up before");
        item.notes.iter_mut().filter(|one| one.id == note).for_each(|one| one.system = true);
        if added {
            item.labels.push(label.to_owned());
        } else {
            item.labels.retain(|name| name != label);
        }
        let (actor, label) = (actor.to_owned(), label.to_owned());
        item.label_events.push(LabelEvent { id, actor, added, label, created });
    }
}

impl Project {
    pub fn item(&self, kind: Kind, iid: u64) -> Option<&Item> {
        self.items.iter().find(|item| item.kind == kind && item.iid == iid)
    }

    pub fn item_mut(&mut self, kind: Kind, iid: u64) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.kind == kind && item.iid == iid)
    }

    /// 0 for whoever is no member.
    pub fn role(&self, username: &str) -> u64 {
        self.members.iter().find(|(who, _)| same(who, username)).map_or(0, |(_, role)| *role)
    }

    pub fn is_visible_to(&self, username: &str) -> bool {
        self.public || self.role(username) > 0
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.path.len() > group.len() && self.path.starts_with(group) && self.path[group.len()..].starts_with('/')
    }
}
