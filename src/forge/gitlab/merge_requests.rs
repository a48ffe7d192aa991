//! Merge requests on GitLab: found and opened for issues; discussed, and with a branch of their own,
//! as tasks.

use serde_json::json;

use super::super::rest::write_once;
use super::wire::{Discussion, Issuable, Note, username};
use super::{Gitlab, comment_of, place};
use crate::error::{Error, Result};
use crate::ports::{ChangeSource, Comment, NewPullRequest, PullRequest, Remark, RepositorySource};
use crate::task::TaskKey;
use crate::text::{head, percent_encoded};

/// GitLab's limit for a title, in characters; counted in bytes here, which are never fewer.
const TITLE_LIMIT_BYTES: usize = 255;
/// What makes a merge request a draft (docs: "Draft merge requests").
const DRAFT: &str = "Draft: ";

impl Gitlab {
    /// The newest merge request from `branch` of the project itself; forks can have one of that name.
    pub(super) fn find_request(&self, key: &TaskKey, branch: &str, state: &str) -> Result<Option<PullRequest>> {
        let place = place(key)?;
        let query = format!("state={state}&source_branch={}&order_by=created_at&sort=desc", percent_encoded(branch));
        let what = format!("cannot look for a merge request from `{branch}`");
        let path = format!("{}/merge_requests", place.project());
        let found: Vec<Issuable> = self.api.get_all(&what, &path, &query)?;
        let own = found.into_iter().find(|request| request.source_project_id == Some(place.project_id));
        Ok(own.map(PullRequest::from))
    }

    pub(super) fn open_request(&self, key: &TaskKey, request: &NewPullRequest) -> Result<PullRequest> {
        let what = || format!("cannot open a merge request from `{}`", request.head);
        let prefix = if request.draft { DRAFT } else { "" };
        let body = json!({
            "title": format!("{prefix}{}", head(&request.title, TITLE_LIMIT_BYTES - prefix.len())),
            "description": request.body,
            "source_branch": request.head,
            "target_branch": request.base,
        });
        let path = format!("{}/merge_requests", place(key)?.project());
        let write = || {
            let answer = self.api.write("POST", &path, &body)?;
            if answer.status == 409 && answer.error.says("already exists") {
                return self.find_request(key, &request.head, "opened")?.ok_or_else(|| answer.refusal(&what()));
            }
            answer.good_json::<Issuable>(what).map(PullRequest::from)
        };
        write_once(write, || self.find_request(key, &request.head, "opened"))
    }

    /// GitLab leaves out without a word whom it does not take as a reviewer.
    pub(super) fn ask_for_review(&self, key: &TaskKey, pull: &PullRequest, login: &str) -> Result<()> {
        let what = || format!("cannot ask `{login}` to review {}", pull.url);
        let id = self.user_id(login)?.ok_or_else(|| Error::task(format!("{}: no such account", what())))?;
        let path = format!("{}/merge_requests/{}", place(key)?.project(), pull.number);
        let body = json!({ "reviewer_ids": [id] });
        let request: Issuable = self.api.write_idempotent("PUT", &path, &body)?.good_json(what)?;
        let asked = PullRequest::from(request).reviewers.iter().any(|name| name.eq_ignore_ascii_case(login));
        if asked { Ok(()) } else { Err(Error::task(format!("{}: GitLab left it as it was", what()))) }
    }

    /// Where the source branch of a merge request is. Refused where nothing can be pushed to it, so
    /// that this is known before any model call (case C33).
    pub(super) fn source_repository(&self, key: &TaskKey) -> Result<RepositorySource> {
        let place = place(key)?;
        let request: Issuable = self.api.get(&place.item())?.good_json(|| format!("cannot read {key}"))?;
        let target = self.read_project(place.project_id)?;
        let branch = request.source_branch.clone();
        let Some(source_id) = request.source_project_id else {
            return Err(Error::task(format!("the project that held the branch `{branch}` is gone")));
        };
        let url = if source_id == place.project_id {
            self.need_push(&target)?;
            target.http_url_to_repo.clone()
        } else {
            let fork = self.read_project(source_id)?;
            let lets_us_in = request.lets_us_in() && self.may_push(&target)?;
            if !lets_us_in && !self.may_push(&fork)? {
                return Err(Error::task(format!(
                    "the branch `{branch}` is in the fork `{}`, to which the account `{}` may not push; its owner can \
                     switch on \"Allow commits from members who can merge to the target branch\" in the merge request",
                    fork.path_with_namespace, self.bot_login
                )));
            }
            fork.http_url_to_repo
        };
        let base_url = target.http_url_to_repo;
        let change = Some(ChangeSource { head_branch: branch, base_branch: request.target_branch, base_url });
        Ok(RepositorySource { url, credential: Some(self.credential()), change })
    }

    /// What was said about a merge request. Notes on lines come one by one; those that one person
    /// wrote one after the other are one review, so that all of it can be the request.
    pub(super) fn discussed(&self, key: &TaskKey) -> Result<Vec<Comment>> {
        let what = format!("cannot read the discussions of {key}");
        let path = format!("{}/discussions", place(key)?.item());
        let threads: Vec<Discussion> = self.api.get_all(&what, &path, "")?;
        let mut notes: Vec<Note> = threads.into_iter().flat_map(|thread| thread.notes).collect();
        notes.sort_by_key(|note| (note.created_ms(), note.id));
        let mut comments: Vec<Comment> = Vec::new();
        let mut in_review = false;
        for mut note in notes.into_iter().filter(Note::is_public_speech) {
            self.remember(note.author.as_ref());
            let Some(position) = note.position.take() else {
                comments.push(comment_of(note));
                in_review = false;
                continue;
            };
            let remark = Remark {
                path: position.new_path.or(position.old_path).unwrap_or_default(),
                line: position.new_line,
                // GitLab does not say it; the model has the tree.
                diff_hunk: String::new(),
                body: note.body.take().unwrap_or_default().replace("\r\n", "\n"),
            };
            match comments.last_mut().filter(|last| in_review && last.author == username(note.author.as_ref())) {
                Some(review) => review.remarks.push(remark),
                None => comments.push(Comment { remarks: vec![remark], ..comment_of(note) }),
            }
            in_review = true;
        }
        Ok(comments)
    }
}
