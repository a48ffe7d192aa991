//! Pull requests on GitHub: found and opened for issues; reviewed, and with a branch of their own, as
//! tasks.

use std::collections::HashMap;

use serde_json::json;

use super::super::rest::write_once;
use super::api::Answer;
use super::wire::{Pull, Review, ReviewComment, login};
use super::{Github, place};
use crate::error::{Error, Result};
use crate::ports::{ChangeSource, Comment, NewPullRequest, PullRequest, Remark, RepositorySource};
use crate::task::TaskKey;
use crate::text::{head, percent_encoded};

/// GitHub's limit for a title, in characters; counted in bytes here, which are never fewer.
const TITLE_LIMIT_BYTES: usize = 250;

impl Github {
    pub(super) fn find_pull(&self, key: &TaskKey, branch: &str, state: &str) -> Result<Option<PullRequest>> {
        let place = place(key)?;
        let head = percent_encoded(&format!("{}:{branch}", place.owner));
        let query = format!("state={state}&head={head}&sort=created&direction=desc&per_page=1");
        let answer = self.api.get(&format!("{}/pulls?{query}", place.repository()))?;
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot look for a pull request from `{branch}`")));
        }
        Ok(answer.json::<Vec<Pull>>()?.into_iter().next().map(PullRequest::from))
    }

    pub(super) fn open_pull(&self, key: &TaskKey, request: &NewPullRequest) -> Result<PullRequest> {
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
        write_once(write, || self.find_pull(key, &request.head, "open"))
    }

    /// GitHub takes only collaborators ("Request reviewers for a pull request").
    pub(super) fn ask_for_review(&self, key: &TaskKey, pull: &PullRequest, login: &str) -> Result<()> {
        let path = format!("{}/pulls/{}/requested_reviewers", place(key)?.repository(), pull.number);
        let answer = self.api.write_idempotent("POST", &path, Some(&json!({ "reviewers": [login] })))?;
        let what = || format!("cannot ask `{login}` to review {}", pull.url);
        if answer.is_good() { Ok(()) } else { Err(answer.refusal(&what())) }
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

    /// Where the head branch of a pull request is. Refused where nothing can be pushed to it, so that
    /// this is known before any model call (case C33).
    pub(super) fn head_repository(&self, key: &TaskKey) -> Result<RepositorySource> {
        let answer = self.api.get(&place(key)?.pull())?;
        if !answer.is_good() {
            return Err(answer.refusal(&format!("cannot read {key}")));
        }
        let pull: Pull = answer.json()?;
        let (head_branch, base_branch) = (pull.head.branch, pull.base.branch);
        let base = self.read_repository(&key.repository())?;
        let Some(head) = pull.head.repo else {
            return Err(Error::task(format!("the repository that held the branch `{head_branch}` is gone")));
        };
        let name = head.full_name;
        let url = if name.eq_ignore_ascii_case(&base.full_name) {
            if !base.may_push() {
                return Err(self.may_not_push(&name));
            }
            base.clone_url.clone()
        } else {
            let fork = self.read_repository(&name)?;
            let lets_us_in = pull.maintainer_can_modify && base.may_push();
            if !lets_us_in && !fork.permissions.as_ref().is_some_and(|permissions| permissions.push) {
                return Err(Error::task(format!(
                    "the branch `{head_branch}` is in the fork `{name}`, to which the account `{}` may not push; its \
                     owner can switch on \"Allow edits by maintainers\" in the pull request",
                    self.bot_login
                )));
            }
            fork.clone_url
        };
        let change = Some(ChangeSource { head_branch, base_branch, base_url: base.clone_url });
        Ok(RepositorySource { url, credential: Some(self.credential()), change })
    }

    /// The reviews of a pull request, each with its remarks on lines. GitHub puts every remark, also
    /// one written alone, into a review.
    pub(super) fn reviews(&self, key: &TaskKey) -> Result<Vec<Comment>> {
        let pull = place(key)?.pull();
        let what = format!("cannot read the reviews of {key}");
        let reviews: Vec<Vec<Review>> = self.api.get_all(&what, &format!("{pull}/reviews?per_page=100"))?;
        let remarks: Vec<Vec<ReviewComment>> = self.api.get_all(&what, &format!("{pull}/comments?per_page=100"))?;
        let mut of_review: HashMap<Option<u64>, Vec<ReviewComment>> = HashMap::new();
        for remark in remarks.into_iter().flatten() {
            of_review.entry(remark.pull_request_review_id).or_default().push(remark);
        }
        let mut comments = Vec::new();
        for review in reviews.into_iter().flatten() {
            let remarks = of_review.remove(&Some(review.id)).unwrap_or_default();
            // A pending one was not handed in; only its author sees it.
            let Some(created_at) = review.submitted_at.filter(|_| review.state != "PENDING") else { continue };
            let author = login(review.user.as_ref());
            self.remember(key, &author, review.author_association.as_ref());
            comments.push(Comment {
                id: format!("review-{}", review.id),
                author,
                body: review.body.unwrap_or_default().replace("\r\n", "\n"),
                created_at,
                verdict: Some(review.state),
                remarks: remarks.into_iter().map(remark_of).collect(),
            });
        }
        // Of a review that is gone.
        for remark in of_review.into_values().flatten() {
            let author = login(remark.user.as_ref());
            self.remember(key, &author, remark.author_association.as_ref());
            comments.push(Comment {
                id: format!("remark-{}", remark.id),
                author,
                body: String::new(),
                created_at: remark.created_at.clone(),
                verdict: Some("COMMENTED".into()),
                remarks: vec![remark_of(remark)],
            });
        }
        Ok(comments)
    }
}

fn remark_of(remark: ReviewComment) -> Remark {
    Remark {
        path: remark.path,
        line: remark.line,
        diff_hunk: remark.diff_hunk,
        body: remark.body.unwrap_or_default().replace("\r\n", "\n"),
    }
}
