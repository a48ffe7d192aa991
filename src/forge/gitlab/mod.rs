//! GitLab, gitlab.com and self-managed: issues and merge requests as tasks. Its own bookkeeping only; what the
//! model may do is elsewhere.

mod api;
mod candidates;
mod examine;
mod merge_requests;
mod wire;

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use super::rest::{IDENTITY_GOOD_FOR_MS, marker, write_once};
use super::settings::ForgeSettings;
use crate::budget::Account;
use crate::error::{Error, Result};
use crate::ports::{
    Candidates, Comment, Credential, Finding, Forge, GHOST, Item, NewPullRequest, PullRequest, RepositorySource,
};
use crate::sys::clock;
use crate::sys::http::HttpClient;
use crate::task::TaskKey;
use crate::text::percent_encoded;

use api::Api;
use wire::{Issuable, Member, Note, Project, User, username};

/// GitLab's limit for the body of a note or description, in characters.
const BODY_LIMIT_CHARS: usize = 1_000_000;

/// The adapter.
pub struct Gitlab {
    api: Api,
    settings: ForgeSettings,
    bot_login: String,
    bot_id: u64,
    /// Who may write, asked once per run; by project and login.
    writers: RefCell<HashMap<(u64, String), bool>>,
    /// Ids of accounts as seen in items and notes.
    ids: RefCell<HashMap<String, u64>>,
}

/// Project and number of an item on GitLab. By the project's id, which outlives a rename.
struct Place {
    project_id: u64,
    kind: &'static str,
    iid: u64,
}

impl Place {
    fn project(&self) -> String {
        format!("/projects/{}", self.project_id)
    }

    fn item(&self) -> String {
        format!("/projects/{}/{}/{}", self.project_id, self.kind, self.iid)
    }
}

fn place(key: &TaskKey) -> Result<Place> {
    match key {
        TaskKey::GitlabIssue { project_id, issue_iid, .. } => {
            Ok(Place { project_id: *project_id, kind: "issues", iid: *issue_iid })
        }
        TaskKey::GitlabMergeRequest { project_id, mr_iid, .. } => {
            Ok(Place { project_id: *project_id, kind: "merge_requests", iid: *mr_iid })
        }
        other => Err(Error::task(format!("{other} is not on GitLab"))),
    }
}

/// A note that stands on no line.
fn comment_of(note: Note) -> Comment {
    Comment {
        id: note.id.to_string(),
        author: username(note.author.as_ref()),
        created_at: clock::rfc3339(note.created_ms()),
        body: note.body.unwrap_or_default().replace("\r\n", "\n"),
        verdict: None,
        remarks: Vec::new(),
    }
}

/// The account of the token.
fn whose_token(api: &Api) -> Result<User> {
    // No path of a project or group holds a space.
    const FACT: &str = "whose token";
    if let Some((id, username)) = api.account().fact(FACT, IDENTITY_GOOD_FOR_MS) {
        return Ok(User { id, username });
    }
    let told: User = api.user()?;
    api.account().keep_fact(FACT, &(told.id, &told.username));
    Ok(told)
}

impl Gitlab {
    /// Connects and finds out who we are, unless `account` knows it.
    ///
    /// # Errors
    /// `Kind::Host` when the token is refused or is somebody else's; `Kind::Later` when GitLab
    /// cannot be reached.
    pub fn connect(settings: ForgeSettings, client: HttpClient, account: Account) -> Result<Self> {
        let api = Api::new(client, settings.api_url.clone(), settings.token.clone(), account);
        let told = whose_token(&api)?;
        if let Some(wanted) = settings.bot_name.as_ref().filter(|name| !told.username.eq_ignore_ascii_case(name)) {
            let told = &told.username;
            return Err(Error::host(format!("the token belongs to `{told}`, but gitlab.bot_name is `{wanted}`"))
                .hint("use the bot's own token, or mend gitlab.bot_name"));
        }
        let (bot_login, bot_id) = (told.username, told.id);
        Ok(Self { api, settings, bot_login, bot_id, writers: RefCell::default(), ids: RefCell::default() })
    }

    fn remember(&self, user: Option<&User>) {
        if let Some(user) = user {
            self.ids.borrow_mut().insert(user.username.to_lowercase(), user.id);
        }
    }

    /// The id of an account: as seen, else as the server knows it.
    fn user_id(&self, login: &str) -> Result<Option<u64>> {
        let seen = self.ids.borrow().get(&login.to_lowercase()).copied();
        if seen.is_some() {
            return Ok(seen);
        }
        let answer = self.api.get(&format!("/users?username={}", percent_encoded(login)))?;
        let found: Vec<User> = answer.good_json(|| format!("cannot look up the account `{login}`"))?;
        Ok(found.into_iter().find(|user| user.username.eq_ignore_ascii_case(login)).map(|user| user.id))
    }

    fn is_developer(&self, project_id: u64, user_id: u64) -> Result<bool> {
        let answer = self.api.get(&format!("/projects/{project_id}/members/all/{user_id}"))?;
        // Whoever is no member is not found; where the list is closed to us, nobody may.
        if matches!(answer.status, 403 | 404) {
            return Ok(false);
        }
        Ok(answer.good_json::<Member>(|| "cannot read the members of the project".to_owned())?.may_write())
    }

    /// The item as GitLab shows it; `None` when it does not exist.
    fn read(&self, key: &TaskKey) -> Result<Option<Issuable>> {
        let path = place(key)?.item();
        let mut answer = self.api.get(&path)?;
        if answer.status == 404 {
            // Asked twice: "gone" ends a task, and a single 404 was seen to pass.
            answer = self.api.get(&path)?;
        }
        if answer.status == 404 {
            return Ok(None);
        }
        answer.good_json(|| format!("cannot read {key}")).map(Some)
    }

    /// Names of the item's labels that are `label`, whatever their case: GitLab tells them apart, we do not.
    fn labels_like(&self, key: &TaskKey, label: &str) -> Result<Option<Vec<String>>> {
        let read = self.read(key).map_err(|error| error.prefixed(&format!("cannot look at the label `{label}`: ")));
        let Some(item) = read? else { return Ok(None) };
        let is_like = |name: &String| name.to_lowercase() == label.to_lowercase();
        Ok(Some(item.labels.into_iter().filter(is_like).collect()))
    }

    /// Changes labels and looks at the answer: GitLab leaves out without a word what the account may not do.
    fn change_labels(&self, key: &TaskKey, change: &str, names: &[String]) -> Result<()> {
        let what = || format!("cannot change the label `{}` of {key}", names.join(", "));
        let body = json!({ change: names.join(",") });
        let item: Issuable = self.api.write_idempotent("PUT", &place(key)?.item(), &body)?.good_json(what)?;
        let should_have = change == "add_labels";
        if names.iter().all(|name| item.labels.contains(name) == should_have) {
            return Ok(());
        }
        Err(Error::task(format!("{}: GitLab left it as it was", what()))
            .hint("give the account at least the role Developer in the project"))
    }

    fn raw_notes(&self, key: &TaskKey) -> Result<Vec<Note>> {
        let path = format!("{}/notes", place(key)?.item());
        // The newest come first unless asked otherwise.
        let query = "sort=asc&order_by=created_at";
        self.api.get_all(&format!("cannot read the notes of {key}"), &path, query)
    }

    /// Our note with the same hidden marker, if it is there.
    fn same_note(&self, key: &TaskKey, body: &str) -> Result<Option<String>> {
        let Some(marker) = marker(body) else { return Ok(None) };
        let ours = self.raw_notes(key)?.into_iter().find(|note| {
            note.body.as_deref().is_some_and(|body| body.contains(marker))
                && username(note.author.as_ref()).eq_ignore_ascii_case(&self.bot_login)
        });
        Ok(ours.map(|note| note.id.to_string()))
    }

    /// A project; refused when it takes nothing.
    fn read_project(&self, id: u64) -> Result<Project> {
        let answer = self.api.get(&format!("/projects/{id}"))?;
        let project: Project = answer.good_json(|| format!("cannot read the project {id}"))?;
        if project.archived {
            let path = &project.path_with_namespace;
            return Err(Error::task(format!("the project `{path}` is archived, nothing can be pushed to it")));
        }
        Ok(project)
    }

    fn may_push(&self, project: &Project) -> Result<bool> {
        Ok(project.says_we_may_push() || self.is_developer(project.id, self.bot_id)?)
    }

    /// Known before any model call: work that cannot be handed back is not begun (case C33).
    fn need_push(&self, project: &Project) -> Result<()> {
        if self.may_push(project)? {
            return Ok(());
        }
        let path = &project.path_with_namespace;
        Err(Error::task(format!("the account `{}` may not push to `{path}`", self.bot_login))
            .hint("give the account the role Developer in the project"))
    }

    fn credential(&self) -> Credential {
        Credential { username: "oauth2".into(), password: self.settings.token.clone() }
    }
}

impl Forge for Gitlab {
    fn name(&self) -> &'static str {
        "gitlab"
    }

    fn bot_login(&self) -> &str {
        &self.bot_login
    }

    fn item_max_age(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn body_limit_chars(&self) -> usize {
        BODY_LIMIT_CHARS
    }

    fn probe(&self) -> Result<()> {
        // Connecting asked who we are.
        Ok(())
    }

    fn candidates(&self) -> Result<Candidates> {
        candidates::candidates(&self.api, &self.settings)
    }

    fn in_work(&self) -> Result<Candidates> {
        candidates::candidates(&self.api, &self.settings.for_items_in_work())
    }

    fn examine(&self) -> Vec<Finding> {
        self.findings()
    }

    fn item(&self, key: &TaskKey) -> Result<Option<Item>> {
        let Some(item) = self.read(key)? else { return Ok(None) };
        self.remember(item.author.as_ref());
        // After a rename the answer says where it lives now.
        let path = item.project_path().map_or_else(|| key.repository(), str::to_owned);
        let key = candidates::key(item.project_id, item.iid, path, key.is_change());
        Ok(Some(item.into_item(key)))
    }

    fn comments(&self, key: &TaskKey) -> Result<Vec<Comment>> {
        if key.is_change() {
            return self.discussed(key);
        }
        let mut notes = self.raw_notes(key)?;
        notes.retain(Note::is_public_speech);
        notes.sort_by_key(|note| (note.created_ms(), note.id));
        notes.iter().for_each(|note| self.remember(note.author.as_ref()));
        Ok(notes.into_iter().map(comment_of).collect())
    }

    fn post_comment(&self, key: &TaskKey, body: &str) -> Result<String> {
        let path = format!("{}/notes", place(key)?.item());
        let request = json!({ "body": body });
        let write = || {
            let answer = self.api.write("POST", &path, &request)?;
            answer.good_json::<Note>(|| format!("cannot comment on {key}")).map(|note| note.id.to_string())
        };
        write_once(write, || self.same_note(key, body))
    }

    fn update_comment(&self, key: &TaskKey, id: &str, body: &str) -> Result<()> {
        let path = format!("{}/notes/{}", place(key)?.item(), percent_encoded(id));
        let answer = self.api.write_idempotent("PUT", &path, &json!({ "body": body }))?;
        if answer.is_good() { Ok(()) } else { Err(answer.refusal(&format!("cannot edit a note on {key}"))) }
    }

    fn add_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        match self.labels_like(key, label)? {
            Some(present) if !present.is_empty() => Ok(()),
            _ => self.change_labels(key, "add_labels", &[label.to_owned()]),
        }
    }

    fn remove_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        match self.labels_like(key, label)? {
            Some(present) if present.is_empty() => Ok(()),
            Some(present) => self.change_labels(key, "remove_labels", &present),
            None => Err(Error::task(format!("cannot remove the label `{label}` from {key}: it does not exist"))),
        }
    }

    fn may_write(&self, key: &TaskKey, user: &str) -> Result<bool> {
        if user == GHOST {
            return Ok(false);
        }
        let project_id = place(key)?.project_id;
        let known = (project_id, user.to_lowercase());
        if let Some(may) = self.writers.borrow().get(&known) {
            return Ok(*may);
        }
        let may = match self.user_id(user)? {
            Some(id) => self.is_developer(project_id, id)?,
            None => false,
        };
        self.writers.borrow_mut().insert(known, may);
        Ok(may)
    }

    fn repository(&self, key: &TaskKey) -> Result<RepositorySource> {
        if key.is_change() {
            return self.source_repository(key);
        }
        let project = self.read_project(place(key)?.project_id)?;
        self.need_push(&project)?;
        Ok(RepositorySource { url: project.http_url_to_repo, credential: Some(self.credential()), change: None })
    }

    fn find_pull_request(&self, key: &TaskKey, branch: &str) -> Result<Option<PullRequest>> {
        self.find_request(key, branch, "all")
    }

    fn open_pull_request(&self, key: &TaskKey, request: &NewPullRequest) -> Result<Option<PullRequest>> {
        self.open_request(key, request).map(Some)
    }

    fn request_review(&self, key: &TaskKey, pull: &PullRequest, login: &str) -> Result<()> {
        self.ask_for_review(key, pull, login)
    }
}
