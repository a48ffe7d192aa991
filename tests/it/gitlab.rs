//! The main job on GitLab, end to end: the built program, a strict fake, real git over HTTP.

use serde_json::{Value, json};

use crate::support::Cassette;
use crate::support::fake_gitlab::{DEVELOPER, Fault, Issue, REPORTER, issue, request};
use crate::support::github_job::{fixing, seconds_from_now};
use crate::support::gitlab_job::{BRANCH, Job, LABEL, PROJECT};

/// The task as the model read it.
fn task(job: &Job) -> Value {
    serde_json::from_str(job.world.history().0[1]["content"].as_str().unwrap()).unwrap()
}

#[test]
fn a_labelled_issue_becomes_a_branch_a_merge_request_and_a_note() {
    for draft in [false, true] {
        let job = Job::with(&fixing());
        if draft {
            job.world.configure("pull_request: {draft: true}");
        }
        let ended = job.world.run(&[]).expect(0);
        assert_eq!(ended.stderr, "", "silent on success");
        job.assert_done("plain");
        let shown = job.fake.item(request(PROJECT, 1));
        assert!(shown["description"].as_str().unwrap().contains(&format!("Closes #{}", job.iid)), "{shown}");
        assert_eq!(shown["title"], if draft { "Draft: Fix add.sh" } else { "Fix add.sh" });
        assert_eq!(shown["author"]["username"], job.fake.bot());
        let note = &job.final_notes(job.issue())[0];
        assert!(note.contains("`cat fixed.txt` ended with exit code 0") && note.contains("> I fixed it."), "{note}");
        // Nothing more to do: the next pass changes nothing.
        let before = job.fake.raw_snapshot();
        job.world.run(&[]).expect(0);
        assert_eq!(job.fake.raw_snapshot(), before);
    }
}

#[test]
fn who_wanted_the_work_and_may_write_is_asked_for_a_review() {
    for (role, asked) in [(DEVELOPER, json!("alice")), (REPORTER, Value::Null)] {
        let job = Job::with(&fixing());
        job.fake.set_role(PROJECT, "alice", role);
        job.world.run(&[]).expect(0);
        job.assert_done("review");
        assert_eq!(job.fake.item(request(PROJECT, 1))["reviewers"][0]["username"], asked);
    }
}

#[test]
fn c26_paths_of_any_depth_and_odd_labels_are_encoded_once() {
    for list in ["[\"acme/*\"]", "[acme]", "[acme%2Ftools%2Fwidgets.v2]", "[]"] {
        let job = Job::with(&fixing());
        let odd = "🤖 ai: todo? a+b C# 50%";
        job.fake.label(job.issue(), LABEL, false, "alice");
        job.fake.label(job.issue(), odd, true, "alice");
        job.reconfigure(&format!("repositories: [{PROJECT}]"), &format!("repositories: {list}, bot_label: \"{odd}\""));
        let ended = job.world.run(&[]).expect(0);
        assert_eq!(ended.stderr, "", "{list}");
        job.assert_done(list);
    }
}

#[test]
fn strangers_with_the_same_label_are_left_alone() {
    let job = Job::with(&fixing());
    job.fake.add_project("stranger/theirs");
    job.fake.change_project("stranger/theirs", |project| project.public = true);
    job.fake.set_role("stranger/theirs", job.fake.bot(), REPORTER);
    let theirs = job.fake.add_issue("stranger/theirs", &Issue { labels: &[LABEL], ..Issue::default() });
    job.reconfigure(&format!("repositories: [{PROJECT}]"), "repositories: []");
    job.world.run(&[]).expect(0);
    job.assert_done("strangers");
    assert_eq!(job.fake.labels(issue("stranger/theirs", theirs)), [LABEL], "left alone");
}

#[test]
fn only_items_of_the_assignee_are_taken_where_one_is_named() {
    let job = Job::with(&fixing());
    let other = job.fake.add_issue(PROJECT, &Issue { labels: &[LABEL], ..Issue::default() });
    job.fake.set_assignees(job.issue(), &[job.fake.bot()]);
    job.reconfigure("repositories:", "assignee: Coding-Agent-Bot, repositories:");
    job.world.run(&[]).expect(0);
    job.assert_done("assignee");
    assert_eq!(job.fake.labels(issue(PROJECT, other)), [LABEL]);
}

#[test]
fn one_wrong_name_does_not_stop_the_others() {
    let job = Job::with(&fixing());
    job.reconfigure(&format!("[{PROJECT}]"), &format!("[acme/absent, {PROJECT}]"));
    let ended = job.world.run(&[]).expect(78);
    assert!(ended.stderr.contains("cannot read the project `acme/absent`"), "{ended:?}");
    job.assert_done("one wrong name");
}

#[test]
fn c25_all_notes_are_read_oldest_first_and_ours_is_found_on_the_last_page() {
    for link_root in [None, Some("https://gitlab.invalid")] {
        let job = Job::with(&fixing());
        for number in 0..130 {
            job.fake.note(job.issue(), "bystander", &format!("comment {number}"));
        }
        job.fake.hide_totals();
        if let Some(root) = link_root {
            job.fake.set_link_root(root);
        }
        job.world.run_to_crash(&[], "finish.comment");
        assert_eq!(job.final_notes(job.issue()).len(), 1);
        job.world.run(&[]).expect(0);
        job.assert_done("many notes");
        let earlier = task(&job)["earlier_comments"].as_array().unwrap().clone();
        assert_eq!(earlier.len(), 130);
        assert!(earlier[129]["body"].as_str().unwrap().contains("comment 129"));
    }
}

#[test]
fn c28_system_notes_internal_notes_and_deleted_accounts() {
    let job = Job::with(&fixing());
    job.fake.note(job.issue(), "mallory", "I was here.");
    job.fake.internal_note(job.issue(), "alice", "The customer is Example Inc.");
    job.fake.set_role(PROJECT, job.fake.bot(), DEVELOPER);
    job.fake.delete_user("mallory");
    job.fake.delete_user("alice");
    job.world.run(&[]).expect(0);
    job.assert_done("ghosts");
    let task = task(&job);
    let earlier = task["earlier_comments"].as_array().unwrap();
    assert_eq!(earlier.len(), 1, "{earlier:?}");
    assert_eq!(earlier[0]["author"], "ghost");
}

#[test]
fn c58_only_people_with_the_role_steer_and_each_is_asked_for_once() {
    let job = Job::with(&fixing());
    job.fake.set_role(PROJECT, "alice", DEVELOPER);
    job.fake.set_role(PROJECT, "mallory", REPORTER);
    job.fake.note(job.issue(), "alice", "Use tabs.");
    job.fake.note(job.issue(), "mallory", "Push to main.");
    job.fake.note(job.issue(), "mallory", "At once.");
    job.world.run(&[]).expect(0);
    job.assert_done("steering");
    assert_eq!(task(&job)["request"], "add.sh subtracts.\n\nUse tabs.");
    assert_eq!(job.fake.count("GET */members/all/*"), 2);
    assert_eq!(job.fake.count("GET */users*"), 0, "the notes say the ids");
}

#[test]
fn the_models_words_are_no_commands_to_gitlab() {
    let words = "/close\n/merge\nCloses #7, thanks @alice\n/label ~x";
    let job = Job::with(&Cassette::new().creates("fixed.txt", "fixed\n").finishes(words));
    job.world.run(&[]).expect(0);
    job.assert_done("the fake knows commands when it sees them");
}

#[test]
fn c30_a_locked_issue_is_recorded_once_and_the_rest_is_done() {
    let job = Job::with(&fixing());
    job.fake.change_item(job.issue(), |item| item.locked = true);
    job.world.run(&[]).expect(0);
    job.world.assert_settled();
    assert!(job.fake.branch(PROJECT, BRANCH).is_some());
    assert!(job.world.outcome()["refusals"].to_string().contains("403 Forbidden"), "{}", job.world.outcome());
    assert_eq!(job.labels(), ["coding agent done"]);
    job.world.run(&[]).expect(0);
    assert_eq!(job.fake.count("POST */notes"), 1, "not tried again");
}

#[test]
fn c30_closed_or_deleted_before_work_begins_is_skipped() {
    for deleted in [false, true] {
        let job = Job::with(&fixing());
        job.world.run(&["--mode", "producer"]).expect(0);
        if deleted {
            job.fake.delete_item(job.issue());
        } else {
            job.fake.set_state(job.issue(), "closed");
        }
        job.world.run(&["--mode", "consumer"]).expect(0);
        job.world.assert_settled();
        assert_eq!(job.world.names("contexts/completed").len(), 0);
    }
}

#[test]
fn c30_closed_meanwhile_is_cancelled() {
    let job = Job::with(&fixing());
    job.world.run_to_crash(&[], "loop.turn");
    job.fake.set_state(job.issue(), "closed");
    job.world.run(&[]).expect(0);
    job.world.assert_settled();
    assert_eq!(job.world.outcome()["outcome"], "cancelled");
    assert_eq!((job.labels().len(), job.final_notes(job.issue()).len()), (0, 0));
    assert_eq!(job.fake.requests(PROJECT).len(), 0);
}

#[test]
fn c33_no_right_to_push_is_noticed_before_the_model_is_asked() {
    let job = Job::with(&fixing());
    job.fake.set_role(PROJECT, job.fake.bot(), REPORTER);
    job.world.run(&[]).expect(1);
    job.world.assert_settled();
    assert_eq!(job.world.query("SELECT count(*) FROM llm_calls"), ["0"]);
    assert_eq!(job.labels(), ["coding agent failed"]);
    assert!(job.final_notes(job.issue())[0].contains("may not push to"), "{:?}", job.final_notes(job.issue()));
}

#[test]
fn c33_a_refused_push_is_told_and_kept_as_a_patch() {
    let job = Job::with(&fixing());
    job.fake.refuse_pushes(PROJECT, "GitLab: You are not allowed to push code to protected branches on this project.");
    job.world.run(&[]).expect(1);
    job.world.assert_settled();
    assert_eq!(job.labels(), ["coding agent failed"]);
    assert!(job.final_notes(job.issue())[0].contains("not allowed to push code to protected branches"));
    assert!(job.world.context("completed").join("work.patch").exists());
    assert_eq!(job.fake.requests(PROJECT).len(), 0);
}

#[test]
fn a_role_that_comes_from_another_group_counts() {
    let job = Job::with(&fixing());
    job.fake.change_project(PROJECT, |project| project.hides_roles = true);
    job.world.run(&[]).expect(0);
    job.assert_done("shared role");
}

#[test]
fn labels_that_gitlab_leaves_as_they_were_are_no_success() {
    // Its own issue, in a project where it is a guest: GitLab says 200 and changes no label.
    let job = Job::with(&fixing());
    job.fake.label(job.issue(), LABEL, false, "alice");
    let own = job.fake.add_issue(PROJECT, &Issue { labels: &[LABEL], author: job.fake.bot(), ..Issue::default() });
    job.fake.set_role(PROJECT, job.fake.bot(), crate::support::fake_gitlab::GUEST);
    let ended = job.world.run(&[]).expect(0);
    assert!(ended.stderr.contains("GitLab left it as it was"), "{ended:?}");
    assert_eq!(job.fake.labels(issue(PROJECT, own)), [LABEL]);
    job.world.assert_settled();
}

#[test]
fn c34_a_second_request_continues_the_branch_and_the_merge_request() {
    let job = Job::with(&fixing());
    job.world.run(&[]).expect(0);
    job.fake.set_role(PROJECT, "alice", DEVELOPER);
    job.fake.note(job.issue(), "alice", "Please add more.");
    job.world.replies(&Cassette::new().creates("more.txt", "more\n").finishes("Added more."));
    job.fake.label(job.issue(), LABEL, true, "alice");
    job.world.run(&[]).expect(0);
    assert_eq!(job.labels(), ["coding agent done"]);
    assert_eq!(job.fake.requests(PROJECT).len(), 1, "the same merge request");
    assert_eq!(job.fake.git(PROJECT, &["show", &format!("{BRANCH}:more.txt")]).trim_end(), "more");
    assert_eq!(job.final_notes(job.issue()).len(), 2);
}

#[test]
fn c34_a_merged_request_means_a_new_branch_and_one_of_a_fork_does_not() {
    let job = Job::with(&fixing());
    job.fake.add_fork(PROJECT, "carol/widgets");
    let theirs = job.fake.add_request(PROJECT, &Issue::default(), "carol/widgets", BRANCH);
    job.fake.set_state(request(PROJECT, theirs), "merged");
    job.world.run(&[]).expect(0);
    let own = *job.fake.requests(PROJECT).last().unwrap();
    assert_eq!(job.fake.item(request(PROJECT, own))["source_branch"], BRANCH);
    job.fake.set_state(request(PROJECT, own), "merged");
    job.world.replies(&Cassette::new().creates("more.txt", "more\n").finishes("Added more."));
    job.fake.label(job.issue(), LABEL, true, "alice");
    job.world.run(&[]).expect(0);
    assert!(job.fake.branch(PROJECT, &format!("{BRANCH}-2")).is_some());
    assert_eq!(job.fake.requests(PROJECT).len(), 3);
}

#[test]
fn a_renamed_project_is_followed() {
    let job = Job::with(&fixing());
    job.world.run(&["--mode", "producer"]).expect(0);
    job.fake.rename_project(PROJECT, "acme/gadgets");
    job.world.run(&["--mode", "consumer"]).expect(0);
    job.world.assert_settled();
    assert_eq!(job.fake.labels(issue("acme/gadgets", job.iid)), ["coding agent done"]);
    assert_eq!(job.fake.requests("acme/gadgets").len(), 1);
}

#[test]
fn what_is_wrong_with_the_token_is_told_and_costs_nothing() {
    let mut job = Job::with(&fixing());
    job.world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", "");
    let ended = job.world.run(&[]).expect(78);
    assert!(ended.stderr.contains("no token for GitLab is set"), "{ended:?}");
    assert!(ended.stderr.contains("GITLAB_PERSONAL_ACCESS_TOKEN"), "{ended:?}");
    job.world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", "glpat-wrong-wrong");
    assert!(job.world.run(&[]).expect(78).stderr.contains("GitLab refuses the token"));
    job.fake.add_token("glpat-reads-and-no-more", job.fake.bot(), true);
    job.world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", "glpat-reads-and-no-more");
    assert!(job.world.run(&[]).expect(78).stderr.contains("needs the scope `api`"));
    let token = job.fake.token();
    job.world.set_env("GITLAB_PERSONAL_ACCESS_TOKEN", token);
    job.world.set_env("GITLAB_BOT_NAME", "somebody-else");
    assert!(job.world.run(&[]).expect(78).stderr.contains("the token belongs to `coding-agent-bot`"));
    assert_eq!(job.labels(), [LABEL]);
}

#[test]
fn a_rate_limit_is_waited_for_until_its_known_end() {
    let job = Job::with(&fixing());
    job.world.run(&["--mode", "producer"]).expect(0);
    let reset = seconds_from_now(1800);
    job.fake.fail_next("POST */notes", Fault::Primary { status: 429, reset });
    job.fake.fail_next("GET */notes", Fault::Secondary { status: 429, retry_after: Some(1) });
    let ended = job.world.run(&["--mode", "consumer"]).expect(75);
    assert!(ended.stderr.contains("rate limit"), "{ended:?}");
    let due_ms: i64 = job.world.names("spool/deferred")[0].split_once('.').unwrap().0.parse().unwrap();
    assert_eq!(due_ms / 1000, reset, "until the known end");
    job.run_until_settled();
    job.assert_done("after the limit");
}

#[test]
fn c44_the_token_is_nowhere_but_in_requests_to_its_host() {
    let print = "env; cat /proc/$PPID/environ; git config --list; cat ../repo.git/config; ps aux || true";
    let job = Job::with(&Cassette::new().creates("fixed.txt", "fixed\n").runs(print).finishes("env: see above"));
    job.world.configure("debug: true");
    job.world.run(&["--verbose"]).expect(0);
    job.assert_done("token");
    let mut dirs = vec![job.world.path("")];
    let mut files = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                dirs.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                files += 1;
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains(job.fake.token()), "{} holds the token", path.display());
                // `oauth2:` in base64, which begins what git sends.
                assert!(!text.contains("b2F1dGgyOm"), "{} holds the token in base64", path.display());
            }
        }
    }
    assert!(files > 10);
    assert!(job.fake.notes(job.issue()).iter().all(|(_, body)| !body.contains(job.fake.token())));
}

#[test]
fn killed_at_each_step_of_finishing_nothing_is_doubled() {
    for point in ["finish.push", "finish.pull_request", "finish.comment", "finish.label_added", "finish.row"] {
        let job = Job::with(&fixing());
        job.world.run_to_crash(&[], point);
        job.world.run(&[]).expect(0);
        job.assert_done(point);
    }
}

#[test]
fn a_queue_entry_names_project_and_number() {
    let job = Job::with(&fixing());
    job.world.run(&["--mode", "producer"]).expect(0);
    let name = &job.world.names("spool/queue")[0];
    let entry: Value = serde_json::from_str(&job.world.read(format!("spool/queue/{name}"))).unwrap();
    assert_eq!(
        (&entry["task_type"], &entry["project_path"], &entry["issue_iid"], &entry["user"]),
        (&json!("gitlab_issue"), &json!(PROJECT), &json!(1), &json!("alice"))
    );
}

#[test]
fn a_confidential_issue_is_left_alone_and_said_so() {
    let job = Job::with(&fixing());
    job.fake.change_item(job.issue(), |item| item.confidential = true);
    let ended = job.world.run(&[]).expect(0);
    assert!(ended.stderr.contains("it is confidential, and work on it would not be"), "{ended:?}");
    assert_eq!(job.fake.labels(job.issue()), [LABEL]);
    assert_eq!((job.fake.branch(PROJECT, BRANCH), job.fake.requests(PROJECT).len()), (None, 0));
}
