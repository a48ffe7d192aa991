//! The ports: what the agent needs from the outside, as traits with their value types. Adapters
//! implement them; `commands` chooses; nothing else knows which one is behind.

mod finding;
mod tool_server;

use std::time::Duration;

use crate::chat::{Message, Reasoning, Usage};
use crate::config::Secret;
use crate::error::{Error, Result};
use crate::task::{TaskId, TaskKey, TaskMessage};

pub use finding::{Finding, FindingState};
pub use tool_server::{ToolResult, ToolServer, ToolSpec, Trouble};

/// Where people ask for work and read about it.
///
/// Contract: reading calls, `add_label` and `remove_label` may be repeated at will. `post_comment`
/// and `open_pull_request` may not: after a crash or a broken answer the caller looks first.
/// Lists are complete (all pages). Errors are typed: `Later` is worth another try, `Task` is not,
/// `Host` concerns every item.
pub trait Forge {
    /// Name of the forge (`github`, `gitlab`, `local`).
    fn name(&self) -> &'static str;
    /// Login of the account we act as; a comment counts as ours only if it is the author.
    fn bot_login(&self) -> &str;
    /// How old an item read by the agent loop may be before it is read again.
    fn item_max_age(&self) -> Duration;
    /// Longest body of a comment, in characters.
    fn body_limit_chars(&self) -> usize;
    /// Fails with `Kind::Host` when the forge cannot be used at all.
    fn probe(&self) -> Result<()>;
    /// Open items that carry the bot label, as seen now (may be stale, see `item`).
    fn candidates(&self) -> Result<Candidates>;
    /// Open items that carry the processing label, whoever works on them and whoever is assigned.
    fn in_work(&self) -> Result<Candidates>;
    /// Whether the account, its rights and its repositories are fit for work; changes nothing.
    fn examine(&self) -> Vec<Finding>;
    /// The item as it is now; `None` when it does not exist (any more).
    fn item(&self, key: &TaskKey) -> Result<Option<Item>>;
    /// All comments, oldest first; for a pull or merge request its reviews are among them.
    fn comments(&self, key: &TaskKey) -> Result<Vec<Comment>>;
    /// Posts a comment; not idempotent. Returns its id.
    fn post_comment(&self, key: &TaskKey, body: &str) -> Result<String>;
    /// Replaces the body of one of our comments.
    fn update_comment(&self, key: &TaskKey, id: &str, body: &str) -> Result<()>;
    /// Adds one label, creating it in the repository where missing; a present one is fine.
    fn add_label(&self, key: &TaskKey, label: &str) -> Result<()>;
    /// Removes one label; an absent one is fine.
    fn remove_label(&self, key: &TaskKey, label: &str) -> Result<()>;
    /// Whether `user` may write to the item's repository.
    fn may_write(&self, key: &TaskKey, user: &str) -> Result<bool>;
    /// Where the item's repository is cloned from and pushed to. `Kind::Task` where it is known
    /// beforehand that nothing can be pushed.
    fn repository(&self, key: &TaskKey) -> Result<RepositorySource>;
    /// The newest pull request from `branch`; `None` when there is none or the forge has no such thing.
    fn find_pull_request(&self, key: &TaskKey, branch: &str) -> Result<Option<PullRequest>>;
    /// Opens a pull request; not idempotent. `None` when the forge has no such thing.
    fn open_pull_request(&self, key: &TaskKey, request: &NewPullRequest) -> Result<Option<PullRequest>>;
    /// Asks `login` to review a pull request of the item's repository; asking again is fine.
    fn request_review(&self, key: &TaskKey, pull: &PullRequest, login: &str) -> Result<()>;
}

/// What a look for work found.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Items that ask for work.
    pub keys: Vec<TaskKey>,
    /// What could not be looked at, while the rest could: wrong names in the configuration.
    pub faults: Vec<Error>,
}

/// An issue, pull request or merge request as the forge shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which one.
    pub key: TaskKey,
    /// Title, one line.
    pub title: String,
    /// Body, Markdown.
    pub body: String,
    /// Login of the author; `ghost` when deleted.
    pub author: String,
    /// Open, closed, merged.
    pub state: ItemState,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Logins of the assignees.
    pub assignees: Vec<String>,
    /// Where a person finds it: a URL or a path.
    pub location: String,
    /// Repository for people and for the record: `owner/repo`, a project path, or what the issue file says.
    pub repository: String,
    /// What a pull or merge request adds; `None` for issues.
    pub change: Option<Change>,
}

/// What a pull or merge request has that an issue has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Branch with the change.
    pub head_branch: String,
    /// Branch it should go into.
    pub base_branch: String,
    /// Logins of those asked for a review, first asked first.
    pub reviewers: Vec<String>,
}

impl Item {
    /// The person the work is for: the author; where that is `bot_login` itself, the first reviewer
    /// who was asked. `None` where nobody is known.
    pub fn requester(&self, bot_login: &str) -> Option<&str> {
        let person = |login: &&str| !login.eq_ignore_ascii_case(bot_login) && *login != GHOST;
        let reviewers = self.change.iter().flat_map(|change| &change.reviewers);
        let of_ours = self.author.eq_ignore_ascii_case(bot_login);
        let reviewer = || of_ours.then(|| reviewers.map(String::as_str).find(person)).flatten();
        Some(self.author.as_str()).filter(person).or_else(reviewer)
    }

    /// Whether the item carries `label` (forges compare names without case).
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|name| name.to_lowercase() == label.to_lowercase())
    }
}

/// How the hidden marker in each of our comments begins.
pub const COMMENT_MARK: &str = "<!-- coding-agent:";

/// Login that stands for a deleted account.
pub const GHOST: &str = "ghost";

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// Work may be done on it.
    Open,
    /// Closed by somebody.
    Closed,
    /// Merged (pull and merge requests).
    Merged,
}

/// A comment on an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The forge's id.
    pub id: String,
    /// Login of the author; `ghost` when deleted.
    pub author: String,
    /// Body, Markdown.
    pub body: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// What a review decided, in the forge's word (`CHANGES_REQUESTED`); `None` for other comments.
    pub verdict: Option<String>,
    /// What it says on single lines of a change.
    pub remarks: Vec<Remark>,
}

/// A remark on a line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// File, from the top of the repository.
    pub path: String,
    /// Line in the new file; `None` when it is gone by now.
    pub line: Option<u64>,
    /// The part of the difference it stands at.
    pub diff_hunk: String,
    /// Body, Markdown.
    pub body: String,
}

impl Comment {
    /// Whether it says nothing.
    pub fn is_blank(&self) -> bool {
        self.body.trim().is_empty() && self.remarks.iter().all(|remark| remark.body.trim().is_empty())
    }
}

/// A repository to clone from and push to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositorySource {
    /// URL or path, without credentials.
    pub url: String,
    /// What opens it over HTTPS; `None` where nothing is needed or git knows by itself.
    pub credential: Option<Credential>,
    /// The branches of a pull or merge request; `None` where the work goes to a branch of its own.
    pub change: Option<ChangeSource>,
}

/// Where the two branches of a pull or merge request are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSource {
    /// Branch of the repository where the work begins and where it goes.
    pub head_branch: String,
    /// Branch it should go into.
    pub base_branch: String,
    /// URL of the repository of the base branch: another one where the head is in a fork.
    pub base_url: String,
}

/// A name and a password for HTTP Basic authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The name.
    pub username: String,
    /// The password or token.
    pub password: Secret,
}

/// A pull or merge request as the forge reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Where a person finds it.
    pub url: String,
    /// Logins of those asked for a review.
    pub reviewers: Vec<String>,
    /// Open, closed, merged.
    pub state: ItemState,
}

/// A pull or merge request to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPullRequest {
    /// Title, one line.
    pub title: String,
    /// Body, Markdown.
    pub body: String,
    /// Branch with the work.
    pub head: String,
    /// Branch it should go into.
    pub base: String,
    /// Open it as a draft.
    pub draft: bool,
}

/// A model. Retrying and bookkeeping are wrappers of the same trait.
pub trait Llm {
    /// Which model this is.
    fn model(&self) -> &ModelProfile;
    /// Fails with `Kind::Host` when the model cannot be used at all; called before the first claim.
    fn probe(&mut self) -> Result<()>;
    /// Why the probe could not find out whether the model is there; `None` when it is known to be.
    fn unchecked(&self) -> Option<&str> {
        None
    }
    /// One reply to a valid history. A request that is too long is an error of the task that says so
    /// (`Error::is_too_large`).
    fn complete(&mut self, request: &Request<'_>) -> Result<Reply>;
}

impl<L: Llm + ?Sized> Llm for Box<L> {
    fn model(&self) -> &ModelProfile {
        (**self).model()
    }

    fn probe(&mut self) -> Result<()> {
        (**self).probe()
    }

    fn unchecked(&self) -> Option<&str> {
        (**self).unchecked()
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        (**self).complete(request)
    }
}

/// What is known of a model before it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelProfile {
    /// `openai`, `ollama`, `lmstudio` or `replay`.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// Size of its window in tokens.
    pub context_tokens: u64,
    /// Longest reply in tokens, where a limit is set.
    pub max_output_tokens: Option<u64>,
}

/// A request to a model.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The task it is for.
    pub task: TaskId,
    /// What the reply is for: a word for the ledger (`loop`, `summary`).
    pub phase: &'static str,
    /// How many replies this task had before; in the phase `summary`, how many summaries.
    pub turn: u64,
    /// The history; passes `chat::check_history`.
    pub messages: &'a [Message],
    /// Tools on offer.
    pub tools: &'a [ToolSpec],
}

/// A reply as the model gave it; nothing in it is trusted yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text; may be empty.
    pub content: String,
    /// Calls, as they came.
    pub tool_calls: Vec<RawToolCall>,
    /// What the model thought before, where the server says it.
    pub reasoning: Option<Reasoning>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// What the server says it cost.
    pub usage: Option<Usage>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// By itself, or to have tools called.
    Ended,
    /// Cut off at the output limit, whatever the server calls it.
    Length,
}

/// A tool call before anything about it was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct RawToolCall {
    /// Id as sent; may be missing, empty or repeated.
    pub id: Option<String>,
    /// Name as sent; may be missing or unknown.
    pub name: Option<String>,
    /// Arguments as sent: text, an object, anything, or absent.
    pub arguments: Option<serde_json::Value>,
    /// What the server wants back with the call (`extra_content`).
    pub extra: Option<serde_json::Value>,
}

/// Where tasks wait. Every call leaves an entry in exactly one state.
pub trait TaskQueue {
    /// Runs `pass` while no other producer runs; `false` when another one does.
    fn produce(&mut self, pass: &mut dyn FnMut(&mut dyn Publisher) -> Result<()>) -> Result<bool>;
    /// Whether a task seems to be waiting: worth getting ready for.
    fn has_waiting(&self) -> Result<bool>;
    /// Takes the oldest waiting task; `None` when none is left.
    fn claim(&mut self) -> Result<Option<Claim>>;
    /// Notes that the model completed a turn: the claim no longer counts as an attempt.
    fn turn_completed(&mut self, claim: &mut Claim) -> Result<()>;
    /// Puts the task aside until `not_before_ms` (milliseconds since the epoch).
    fn park(&mut self, claim: Claim, not_before_ms: u64) -> Result<()>;
    /// The task is over: removes its entry.
    fn remove(&mut self, claim: Claim) -> Result<()>;
    /// The task used up its attempts: keeps its entry for a person.
    fn give_up(&mut self, claim: Claim) -> Result<()>;
    /// Leaves the entry as a killed process would; the next pass takes it up.
    fn abandon(&mut self, claim: Claim);
}

/// The producer's side of a queue, held only while no other producer runs.
pub trait Publisher {
    /// Whether a task with this key is waiting, in work, deferred or paused.
    fn is_active(&self, key: &TaskKey) -> bool;
    /// Whether an entry of this task exists in any state.
    fn has_entry(&self, uuid: TaskId) -> bool;
    /// Publishes a task, then runs `prepare` before any consumer can take it. When `prepare`
    /// refuses for good (`Ok(false)`) the entry is withdrawn.
    fn publish(&mut self, message: &TaskMessage, prepare: &mut dyn FnMut() -> Result<bool>) -> Result<()>;
}

/// A task taken from the queue; ours until it is given back.
#[derive(Debug)]
pub struct Claim {
    /// What the producer said.
    pub message: TaskMessage,
    /// When it was queued, in milliseconds since the epoch.
    pub enqueued_ms: u64,
    /// Claims so far without a completed turn, this one included.
    pub attempt: u32,
    /// The attempts were used up before this claim.
    pub exhausted: bool,
    /// The queue's own receipt.
    pub receipt: Receipt,
}

/// What a queue needs to find its entry again.
#[derive(Debug)]
pub struct Receipt {
    /// Name of the entry.
    pub name: String,
    /// The lock that says "in work"; dies with the process.
    pub lock: Option<std::fs::File>,
}
