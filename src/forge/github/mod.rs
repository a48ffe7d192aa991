//! GitHub, github.com and Enterprise Server: issues and pull requests as tasks. Its own bookkeeping only; what the
//! model may do is elsewhere.

mod api;
mod candidates;
mod examine;
mod pulls;
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
use crate::sys::http::HttpClient;
use crate::task::TaskKey;
use crate::text::percent_encoded;

use api::Api;
use wire::{IssueComment, Permission, Repository, User, login};

/// GitHub's limit for the body of a comment or pull request, in characters.
const BODY_LIMIT_CHARS: usize = 65_536;
/// Associations that say "may write" where the permission cannot be asked (decisions of the design).
const WRITING_ASSOCIATIONS: [&str; 3] = ["OWNER", "MEMBER", "COLLABORATOR"];

/// The adapter.
pub struct Github {
    api: Api,
    settings: ForgeSettings,
    bot_login: String,
    /// Who may write, asked once per run.
    writers: RefCell<HashMap<(String, String), bool>>,
    /// `author_association` as seen in items and comments.
    associations: RefCell<HashMap<(String, String), String>>,
}

/// Owner, repository and number of an issue or pull request on GitHub.
struct Place<'a> {
    owner: &'a str,
    repo: &'a str,
    number: u64,
}

impl Place<'_> {
    fn repository(&self) -> String {
        format!("/repos/{}/{}", percent_encoded(self.owner), percent_encoded(self.repo))
    }

    /// GitHub takes a pull request's number here too, for labels and the conversation.
    fn issue(&self) -> String {
        format!("{}/issues/{}", self.repository(), self.number)
    }

    fn pull(&self) -> String {
        format!("{}/pulls/{}", self.repository(), self.number)
    }
}

fn place(key: &TaskKey) -> Result<Place<'_>> {
    match key {
        TaskKey::GithubIssue { owner, repo, number } | TaskKey::GithubPullRequest { owner, repo, number } => {
            Ok(Place { owner, repo, number: *number })
        }
        other => Err(Error::task(format!("{other} is not on GitHub"))),
    }
}

/// The login of the token; `None` where GitHub does not say it. `is_named`: a name is configured.
fn whose_token(api: &Api, is_named: bool) -> Result<Option<String>> {
    const FACT: &str = "login";
    let known: Option<Option<String>> = api.account().fact(FACT, IDENTITY_GOOD_FOR_MS);
    // "Nobody may ask" ends the pass of whoever has no name: it is asked again, or a mended token would not help.
    if let Some(told) = known.filter(|told| told.is_some() || is_named) {
        return Ok(told);
    }
    let answer = api.user()?;
    let told = if answer.is_good() { Some(answer.json::<User>()?.login) } else { None };
    // Tokens of Apps get 403 for as long as they live; any other refusal may be gone at the next start.
    if told.is_some() || (is_named && answer.status == 403) {
        api.account().keep_fact(FACT, &told);
    }
    Ok(told)
}

impl Github {
    /// Connects and finds out who we are, unless `account` knows it.
    ///
    /// # Errors
    /// `Kind::Host` when the token is refused or is somebody else's; `Kind::Later` when GitHub
    /// cannot be reached.
    pub fn connect(settings: ForgeSettings, client: HttpClient, account: Account) -> Result<Self> {
        let api = Api::new(client, settings.api_url.clone(), &settings.token, account);
        let told = whose_token(&api, settings.bot_name.is_some())?;
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
        let Some(marker) = marker(body) else { return Ok(None) };
        let ours = self.raw_comments(key)?.into_iter().find(|comment| {
            comment.body.as_deref().is_some_and(|body| body.contains(marker))
                && login(comment.user.as_ref()).eq_ignore_ascii_case(&self.bot_login)
        });
        Ok(ours.map(|comment| comment.id.to_string()))
    }

    /// A repository by `owner/repo`; refused when it takes nothing.
    fn read_repository(&self, name: &str) -> Result<Repository> {
        let path: Vec<String> = name.split('/').map(percent_encoded).collect();
        let answer = self.api.get(&format!("/repos/{}", path.join("/")))?;
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot read the repository `{name}`")));
        }
        let repository: Repository = answer.json()?;
        if repository.archived {
            return Err(Error::task(format!("the repository `{name}` is archived, nothing can be pushed to it")));
        }
        Ok(repository)
    }

    fn may_not_push(&self, name: &str) -> Error {
        Error::task(format!("the account `{}` may not push to `{name}`", self.bot_login))
            .hint("give the account write access, or the token the right `contents: write`")
    }

    fn credential(&self) -> Credential {
        Credential { username: "x-access-token".into(), password: self.settings.token.clone() }
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

    fn in_work(&self) -> Result<Candidates> {
        candidates::candidates(&self.api, &self.settings.for_items_in_work())
    }

    fn examine(&self) -> Vec<Finding> {
        self.findings()
    }

    fn item(&self, key: &TaskKey) -> Result<Option<Item>> {
        let path = if key.is_change() { place(key)?.pull() } else { place(key)?.issue() };
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
        if key.is_change() {
            let pull: wire::Pull = answer.json()?;
            self.remember(key, &login(pull.user.as_ref()), pull.author_association.as_ref());
            let key = pull.key().unwrap_or_else(|| key.clone());
            return Ok(Some(pull.into_item(key)));
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
                verdict: None,
                remarks: Vec::new(),
            });
        }
        if key.is_change() {
            comments.extend(self.reviews(key)?);
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
        write_once(write, || self.same_comment(key, body))
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
        if key.is_change() {
            return self.head_repository(key);
        }
        let repository = self.read_repository(&key.repository())?;
        // Known before any model call: work that cannot be handed back is not begun (case C33).
        if !repository.may_push() {
            return Err(self.may_not_push(&key.repository()));
        }
        Ok(RepositorySource { url: repository.clone_url, credential: Some(self.credential()), change: None })
    }

    fn find_pull_request(&self, key: &TaskKey, branch: &str) -> Result<Option<PullRequest>> {
        self.find_pull(key, branch, "all")
    }

    fn open_pull_request(&self, key: &TaskKey, request: &NewPullRequest) -> Result<Option<PullRequest>> {
        self.open_pull(key, request).map(Some)
    }

    fn request_review(&self, key: &TaskKey, pull: &PullRequest, login: &str) -> Result<()> {
        self.ask_for_review(key, pull, login)
    }
}
