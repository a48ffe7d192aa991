//! GitHub, github.com and Enterprise Server: issues as tasks. Its own bookkeeping only; what the
//! model may do is elsewhere.

mod api;
mod candidates;
mod wire;

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use crate::config::Secret;
use crate::error::{Error, Kind, Result};
use crate::ports::{Candidates, Comment, Credential, Forge, Item, NewPullRequest, PullRequest, RepositorySource};
use crate::sys::clock;
use crate::sys::http::HttpClient;
use crate::task::{Labels, TaskKey};
use crate::text::{head, percent_encoded};

use api::{Answer, Api};
use wire::{GHOST, IssueComment, Permission, Pull, Repository, User, login};

/// GitHub's limit for the body of a comment or pull request, in characters.
const BODY_LIMIT_CHARS: usize = 65_536;
/// GitHub's limit for a title, in characters; counted in bytes here, which are never fewer.
const TITLE_LIMIT_BYTES: usize = 250;
/// Tries of a write that is looked up in between.
const WRITE_TRIES: u32 = 3;
/// Associations that say "may write" where the permission cannot be asked (decisions of the design).
const WRITING_ASSOCIATIONS: [&str; 3] = ["OWNER", "MEMBER", "COLLABORATOR"];

/// What is configured.
#[derive(Debug, Clone)]
pub struct GithubSettings {
    /// Root of the REST API, no slash at the end.
    pub api_url: String,
    /// The token.
    pub token: Secret,
    /// Login to act as; `None` = ask the API.
    pub bot_name: Option<String>,
    /// The six labels.
    pub labels: Labels,
    /// `owner/repo` and `owner/*`; empty = all the token sees.
    pub repositories: Vec<String>,
    /// Only items assigned to this login.
    pub assignee: Option<String>,
    /// Further terms of a search.
    pub query: String,
}

/// The adapter.
pub struct Github {
    api: Api,
    settings: GithubSettings,
    bot_login: String,
    /// Who may write, asked once per run.
    writers: RefCell<HashMap<(String, String), bool>>,
    /// `author_association` as seen in items and comments.
    associations: RefCell<HashMap<(String, String), String>>,
}

/// Owner, repository and number of an issue on GitHub.
struct Place<'a> {
    owner: &'a str,
    repo: &'a str,
    number: u64,
}

impl Place<'_> {
    fn repository(&self) -> String {
        format!("/repos/{}/{}", percent_encoded(self.owner), percent_encoded(self.repo))
    }

    fn issue(&self) -> String {
        format!("{}/issues/{}", self.repository(), self.number)
    }
}

fn place(key: &TaskKey) -> Result<Place<'_>> {
    match key {
        TaskKey::GithubIssue { owner, repo, number } => Ok(Place { owner, repo, number: *number }),
        other => Err(Error::task(format!("{other} is no issue on GitHub"))),
    }
}

impl Github {
    /// Connects and finds out who we are.
    ///
    /// # Errors
    /// `Kind::Host` when the token is refused or is somebody else's; `Kind::Later` when GitHub
    /// cannot be reached.
    pub fn connect(settings: GithubSettings, client: HttpClient) -> Result<Self> {
        let api = Api::new(client, settings.api_url.clone(), &settings.token);
        let answer = api.get("/user")?;
        let told = if answer.is_good() { Some(answer.json::<User>()?.login) } else { None };
        let bot_login = match (told, &settings.bot_name) {
            (Some(told), Some(wanted)) if !told.eq_ignore_ascii_case(wanted) => {
                return Err(Error::host(format!("the token belongs to `{told}`, but github.bot_name is `{wanted}`"))
                    .hint("use the bot's own token, or mend github.bot_name"));
            }
            (Some(told), _) => told,
            // Tokens of Apps may not ask who they are.
            (None, Some(wanted)) => wanted.clone(),
            (None, None) => {
                return Err(Error::host("GitHub does not say whose token this is")
                    .hint("set github.bot_name (GITHUB_BOT_NAME); for an App it ends in [bot]"));
            }
        };
        Ok(Self { api, settings, bot_login, writers: RefCell::default(), associations: RefCell::default() })
    }

    fn remember(&self, key: &TaskKey, user: &str, association: Option<&String>) {
        if let Some(association) = association {
            let place = (key.repository().to_lowercase(), user.to_lowercase());
            self.associations.borrow_mut().insert(place, association.clone());
        }
    }

    fn raw_comments(&self, key: &TaskKey) -> Result<Vec<IssueComment>> {
        let path = format!("{}/comments?per_page=100", place(key)?.issue());
        let pages: Vec<Vec<IssueComment>> = self.api.get_all(&format!("cannot read the comments of {key}"), &path)?;
        Ok(pages.into_iter().flatten().collect())
    }

    /// Our comment with the same hidden marker, if it is there.
    fn same_comment(&self, key: &TaskKey, body: &str) -> Result<Option<String>> {
        let marker = body.lines().rfind(|line| line.starts_with("<!-- coding-agent:"));
        let Some(marker) = marker else { return Ok(None) };
        let ours = self.raw_comments(key)?.into_iter().find(|comment| {
            comment.body.as_deref().is_some_and(|body| body.contains(marker))
                && login(comment.user.as_ref()).eq_ignore_ascii_case(&self.bot_login)
        });
        Ok(ours.map(|comment| comment.id.to_string()))
    }

    /// A write that must not happen twice: after an answer we did not get, `look` says whether it did.
    fn write_once<T>(&self, write: impl Fn() -> Result<T>, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let mut tried = 1;
        loop {
            let error = match write() {
                Err(error) if error.kind() == Kind::Later && error.not_before_ms().is_none() => error,
                done => return done,
            };
            if let Some(found) = look()? {
                log::info!("{error}, but it took effect");
                return Ok(found);
            }
            if tried == WRITE_TRIES {
                return Err(error);
            }
            clock::sleep(Duration::from_secs(1 << tried));
            tried += 1;
        }
    }

    fn create_label(&self, place: &Place<'_>, label: &str) -> Result<()> {
        let body = json!({ "name": label });
        let path = format!("{}/labels", place.repository());
        let answer = self.api.write_idempotent("POST", &path, Some(&body))?;
        // Somebody else was faster, or our first try took effect.
        if answer.is_good() || answer.error.says("already_exists") || answer.error.says("already exists") {
            Ok(())
        } else {
            Err(answer.refusal(&format!("cannot create the label `{label}`")))
        }
    }

    fn find_pull(&self, key: &TaskKey, branch: &str, state: &str) -> Result<Option<PullRequest>> {
        let place = place(key)?;
        let head = percent_encoded(&format!("{}:{branch}", place.owner));
        let query = format!("state={state}&head={head}&sort=created&direction=desc&per_page=1");
        let answer = self.api.get(&format!("{}/pulls?{query}", place.repository()))?;
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot look for a pull request from `{branch}`")));
        }
        Ok(answer.json::<Vec<Pull>>()?.into_iter().next().map(PullRequest::from))
    }

    fn post_pull(&self, key: &TaskKey, request: &NewPullRequest, draft: bool) -> Result<Answer> {
        let mut body = json!({
            "title": head(&request.title, TITLE_LIMIT_BYTES),
            "body": request.body,
            "head": request.head,
            "base": request.base,
        });
        if draft {
            body["draft"] = true.into();
        }
        self.api.write("POST", &format!("{}/pulls", place(key)?.repository()), Some(&body))
    }
}

impl Forge for Github {
    fn name(&self) -> &'static str {
        "github"
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

    fn item(&self, key: &TaskKey) -> Result<Option<Item>> {
        let path = place(key)?.issue();
        let mut answer = self.api.get(&path)?;
        if answer.status == 404 {
            // Asked twice: "gone" ends a task, and a single 404 was seen to pass.
            answer = self.api.get(&path)?;
        }
        if matches!(answer.status, 404 | 410) {
            return Ok(None);
        }
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot read {key}")));
        }
        let issue: wire::Issue = answer.json()?;
        self.remember(key, &login(issue.user.as_ref()), issue.author_association.as_ref());
        // After a rename or a transfer the answer says where it lives now.
        let key = issue.key().unwrap_or_else(|| key.clone());
        Ok(Some(issue.into_item(key)))
    }

    fn comments(&self, key: &TaskKey) -> Result<Vec<Comment>> {
        let mut comments: Vec<Comment> = Vec::new();
        for comment in self.raw_comments(key)? {
            let author = login(comment.user.as_ref());
            self.remember(key, &author, comment.author_association.as_ref());
            comments.push(Comment {
                id: comment.id.to_string(),
                author,
                body: comment.body.unwrap_or_default().replace("\r\n", "\n"),
                created_at: comment.created_at,
            });
        }
        comments.sort_by(|a, b| a.created_at.cmp(&b.created_at));
        Ok(comments)
    }

    fn post_comment(&self, key: &TaskKey, body: &str) -> Result<String> {
        let path = format!("{}/comments", place(key)?.issue());
        let request = json!({ "body": body });
        let write = || {
            let answer = self.api.write("POST", &path, Some(&request))?;
            if !answer.is_good() {
                return Err(answer.refusal(&format!("cannot comment on {key}")));
            }
            Ok(answer.json::<IssueComment>()?.id.to_string())
        };
        self.write_once(write, || self.same_comment(key, body))
    }

    fn update_comment(&self, key: &TaskKey, id: &str, body: &str) -> Result<()> {
        let path = format!("{}/issues/comments/{}", place(key)?.repository(), percent_encoded(id));
        let answer = self.api.write_idempotent("PATCH", &path, Some(&json!({ "body": body })))?;
        if answer.is_good() { Ok(()) } else { Err(answer.refusal(&format!("cannot edit a comment on {key}"))) }
    }

    fn add_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        let place = place(key)?;
        let path = format!("{}/labels", place.issue());
        let add = || self.api.write_idempotent("POST", &path, Some(&json!({ "labels": [label] })));
        let mut answer = add()?;
        // GitHub itself makes a missing label for those who may; an older server says 422. Not at 404:
        // then the issue is missing, and a label made for it would stay behind.
        if answer.status == 422 {
            self.create_label(&place, label)?;
            answer = add()?;
        }
        if answer.is_good() { Ok(()) } else { Err(answer.refusal(&format!("cannot add the label `{label}` to {key}"))) }
    }

    fn remove_label(&self, key: &TaskKey, label: &str) -> Result<()> {
        let path = format!("{}/labels/{}", place(key)?.issue(), percent_encoded(label));
        let answer = self.api.write_idempotent("DELETE", &path, None)?;
        if answer.is_good() {
            return Ok(());
        }
        // "Not found" means gone only if it is: a wrong address says the same (case C26).
        if answer.status == 404 && self.item(key)?.is_some_and(|item| !item.has_label(label)) {
            return Ok(());
        }
        Err(answer.refusal(&format!("cannot remove the label `{label}` from {key}")))
    }

    fn may_write(&self, key: &TaskKey, user: &str) -> Result<bool> {
        if user == GHOST {
            return Ok(false);
        }
        let known = (key.repository().to_lowercase(), user.to_lowercase());
        if let Some(may) = self.writers.borrow().get(&known) {
            return Ok(*may);
        }
        let path = format!("{}/collaborators/{}/permission", place(key)?.repository(), percent_encoded(user));
        let answer = self.api.get(&path)?;
        let may = if answer.is_good() {
            matches!(answer.json::<Permission>()?.permission.as_str(), "admin" | "write")
        } else {
            let association = self.associations.borrow().get(&known).cloned().unwrap_or_default();
            WRITING_ASSOCIATIONS.contains(&association.as_str())
        };
        self.writers.borrow_mut().insert(known, may);
        Ok(may)
    }

    fn repository(&self, key: &TaskKey) -> Result<RepositorySource> {
        let answer = self.api.get(&place(key)?.repository())?;
        let name = key.repository();
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot read the repository `{name}`")));
        }
        let repository: Repository = answer.json()?;
        if repository.archived {
            return Err(Error::task(format!("the repository `{name}` is archived, nothing can be pushed to it")));
        }
        // Known before any model call: work that cannot be handed back is not begun (case C33).
        if repository.permissions.is_some_and(|permissions| !permissions.push) {
            return Err(Error::task(format!("the account `{}` may not push to `{name}`", self.bot_login))
                .hint("give the account write access, or the token the right `contents: write`"));
        }
        let password = self.settings.token.clone();
        let credential = Some(Credential { username: "x-access-token".into(), password });
        Ok(RepositorySource { url: repository.clone_url, credential })
    }

    fn find_pull_request(&self, key: &TaskKey, branch: &str) -> Result<Option<PullRequest>> {
        self.find_pull(key, branch, "all")
    }

    fn open_pull_request(&self, key: &TaskKey, request: &NewPullRequest) -> Result<Option<PullRequest>> {
        let what = || format!("cannot open a pull request from `{}`", request.head);
        let write = || {
            let mut answer = self.post_pull(key, request, request.draft)?;
            if answer.status == 422 && request.draft && answer.error.says("draft") {
                log::info!("`{}` takes no drafts; opening a plain pull request", key.repository());
                answer = self.post_pull(key, request, false)?;
            }
            if answer.status == 422 && answer.error.says("already exists") {
                return self.find_pull(key, &request.head, "open")?.ok_or_else(|| answer.refusal(&what()));
            }
            if !answer.is_good() {
                return Err(answer.refusal(&what()));
            }
            answer.json::<Pull>().map(PullRequest::from)
        };
        self.write_once(write, || self.find_pull(key, &request.head, "open")).map(Some)
    }
}
