//! The contract of `ports::Forge` as one list of rules. Every adapter brings a `Fixture` and runs
//! all of them with `forge_conformance!`; what a rule does not say, adapters may do differently.
//!
//! Bodies come back as they were written, except that a CRLF may come back as LF and that blank
//! lines at both ends may be missing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Barrier;

use coding_agent::error::Kind;
use coding_agent::ports::{Comment, FindingState, Forge, Item, ItemState};
use coding_agent::task::{Labels, TaskKey};

/// A forge with a door for people beside it.
pub trait Fixture {
    /// The adapter under test.
    fn forge(&self) -> &dyn Forge;
    /// A second adapter on the same forge, as another process has it.
    fn another(&self) -> Box<dyn Forge + Send>;
    /// The labels the adapter was given.
    fn labels(&self) -> Labels;
    /// A person opens an item.
    fn add_item(&mut self, title: &str, body: &str, labels: &[&str], author: &str) -> TaskKey;
    /// A person comments.
    fn person_comments(&self, key: &TaskKey, author: &str, body: &str);
    /// A person closes the item.
    fn close(&self, key: &TaskKey);
    /// A person assigns the item.
    fn set_assignees(&self, key: &TaskKey, assignees: &[&str]);
    /// The key of an item that does not exist.
    fn missing_key(&self) -> TaskKey;
    /// All the forge holds; equal when nothing was written.
    fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)>;
    /// Whether the name of a label can hold a comma.
    fn labels_take_commas(&self) -> bool {
        true
    }
    /// Whether a list of items with a label leaves out those whose label is written in another case.
    fn lists_tell_case(&self) -> bool {
        false
    }
}

/// Labels that trip up URLs, YAML and comparisons.
pub const ODD_LABELS: [&str; 14] = [
    "help wanted",
    "ai: todo?",
    "状態/着手",
    "🤖 go",
    "a+b",
    "C#",
    "no",
    "1.10",
    "a, b",
    "[x]",
    "it's",
    "say \"hi\"",
    "- dash",
    "50% #1",
];

fn item(fixture: &dyn Fixture, key: &TaskKey) -> Item {
    fixture.forge().item(key).unwrap().unwrap()
}

fn only_comment(fixture: &dyn Fixture, key: &TaskKey) -> Comment {
    let mut comments = fixture.forge().comments(key).unwrap();
    assert_eq!(comments.len(), 1, "{comments:?}");
    comments.remove(0)
}

pub fn it_can_be_used(fixture: &mut dyn Fixture) {
    fixture.forge().probe().unwrap();
    assert!(!fixture.forge().name().is_empty());
    assert!(!fixture.forge().bot_login().is_empty());
    assert!(fixture.forge().body_limit_chars() >= 10_000);
}

pub fn candidates_are_open_items_with_the_bot_label(fixture: &mut dyn Fixture) {
    let bot = fixture.labels().bot;
    let upper = bot.to_uppercase();
    let wanted = fixture.add_item("one", "b", &["bug", &bot], "alice");
    let shouted = fixture.add_item("two", "b", &[&upper], "alice");
    fixture.add_item("three", "b", &["bug"], "alice");
    fixture.add_item("four", "b", &[], "alice");
    fixture.add_item("five", "b", &[&format!("{bot} done")], "alice");
    let closed = fixture.add_item("six", "b", &[&bot], "alice");
    fixture.close(&closed);
    let found = fixture.forge().candidates().unwrap().keys;
    let others = if fixture.lists_tell_case() { vec![] } else { vec![shouted] };
    assert!(found.contains(&wanted) && others.iter().all(|other| found.contains(other)), "{found:?}");
    assert_eq!(found.len(), 1 + others.len(), "{found:?}");
    fixture.forge().remove_label(&wanted, &bot).unwrap();
    assert_eq!(fixture.forge().candidates().unwrap().keys, others);
}

pub fn candidates_of_an_empty_forge_are_none(fixture: &mut dyn Fixture) {
    assert!(fixture.forge().candidates().unwrap().keys.is_empty());
}

pub fn many_candidates_are_all_found_once(fixture: &mut dyn Fixture) {
    let bot = fixture.labels().bot;
    let mut keys: Vec<TaskKey> = (0..120).map(|n| fixture.add_item(&format!("t{n}"), "b", &[&bot], "alice")).collect();
    let mut found = fixture.forge().candidates().unwrap().keys;
    keys.sort_by_key(TaskKey::canonical);
    found.sort_by_key(TaskKey::canonical);
    assert_eq!(found, keys);
}

pub fn an_item_tells_all_it_has(fixture: &mut dyn Fixture) {
    let body = "Line one\n\n```rust\nfn f() {}\n```\n---\n<!-- hidden -->\nØ 日本語 🙂";
    let key = fixture.add_item("add(): \"wrong\" # sign, 日本", body, &["bug", "help wanted"], "alice");
    fixture.set_assignees(&key, &["bob", "carol"]);
    let item = item(fixture, &key);
    assert_eq!(item.key, key);
    assert_eq!(item.title, "add(): \"wrong\" # sign, 日本");
    assert_eq!(item.body, body);
    assert_eq!(item.author, "alice");
    assert_eq!(item.state, ItemState::Open);
    assert_eq!(item.labels, ["bug", "help wanted"]);
    assert_eq!(item.assignees, ["bob", "carol"]);
    assert_eq!(item.change, None);
    assert!(!item.location.is_empty());
    fixture.set_assignees(&key, &[]);
    assert!(fixture.forge().item(&key).unwrap().unwrap().assignees.is_empty());
}

pub fn a_missing_item_is_none_and_cannot_be_written_to(fixture: &mut dyn Fixture) {
    let key = fixture.missing_key();
    let before = fixture.raw_snapshot();
    let forge = fixture.forge();
    assert_eq!(forge.item(&key).unwrap(), None);
    assert_eq!(forge.comments(&key).unwrap_err().kind(), Kind::Task);
    assert_eq!(forge.post_comment(&key, "x").unwrap_err().kind(), Kind::Task);
    assert_eq!(forge.update_comment(&key, "1", "x").unwrap_err().kind(), Kind::Task);
    assert_eq!(forge.add_label(&key, "x").unwrap_err().kind(), Kind::Task);
    assert_eq!(forge.repository(&key).unwrap_err().kind(), Kind::Task);
    assert_eq!(fixture.raw_snapshot(), before);
}

pub fn a_closed_item_says_so_and_can_still_be_written_to(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &["x"], "alice");
    fixture.close(&key);
    assert_eq!(item(fixture, &key).state, ItemState::Closed);
    fixture.forge().remove_label(&key, "x").unwrap();
    fixture.forge().post_comment(&key, "over").unwrap();
    assert_eq!(item(fixture, &key).labels, [""; 0]);
    assert_eq!(only_comment(fixture, &key).body, "over");
}

pub fn labels_change_one_by_one(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &["keep"], "alice");
    let odd: Vec<&str> =
        ODD_LABELS.into_iter().filter(|label| fixture.labels_take_commas() || !label.contains(',')).collect();
    for (n, label) in odd.iter().enumerate() {
        fixture.forge().add_label(&key, label).unwrap();
        let item = item(fixture, &key);
        assert_eq!(item.labels.len(), n + 2, "{label}: {:?}", item.labels);
        assert!(item.has_label(label), "{label}: {:?}", item.labels);
    }
    for (n, label) in odd.iter().enumerate() {
        fixture.forge().remove_label(&key, label).unwrap();
        let item = item(fixture, &key);
        assert_eq!(item.labels.len(), odd.len() - n, "{label}: {:?}", item.labels);
        assert!(!item.has_label(label), "{label}: {:?}", item.labels);
    }
    assert_eq!(item(fixture, &key).labels, ["keep"]);
}

pub fn labels_may_be_changed_twice(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &["Doing", "keep"], "alice");
    let before = fixture.raw_snapshot();
    fixture.forge().add_label(&key, "doing").unwrap();
    fixture.forge().remove_label(&key, "absent").unwrap();
    assert_eq!(fixture.raw_snapshot(), before, "nothing to do must write nothing");
    fixture.forge().remove_label(&key, "DOING").unwrap();
    fixture.forge().remove_label(&key, "DOING").unwrap();
    assert_eq!(item(fixture, &key).labels, ["keep"]);
    fixture.forge().add_label(&key, "new").unwrap();
    fixture.forge().add_label(&key, "NEW").unwrap();
    assert_eq!(item(fixture, &key).labels, ["keep", "new"]);
}

pub fn labels_of_one_item_are_not_those_of_another(fixture: &mut dyn Fixture) {
    let one = fixture.add_item("one", "b", &["x"], "alice");
    let two = fixture.add_item("two", "b", &["x"], "alice");
    fixture.forge().add_label(&one, "y").unwrap();
    fixture.forge().remove_label(&two, "x").unwrap();
    assert_eq!(item(fixture, &one).labels, ["x", "y"]);
    assert!(item(fixture, &two).labels.is_empty());
}

pub fn changing_labels_changes_nothing_else(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("title: odd # one", "labels: [fake]\nstate: closed\n\n---\nbody", &["x"], "alice");
    fixture.forge().post_comment(&key, "c").unwrap();
    let (before, comments) = (item(fixture, &key), fixture.forge().comments(&key).unwrap());
    fixture.forge().add_label(&key, "y").unwrap();
    fixture.forge().remove_label(&key, "x").unwrap();
    let after = item(fixture, &key);
    assert_eq!(after, Item { labels: vec!["y".into()], ..before });
    assert_eq!(fixture.forge().comments(&key).unwrap(), comments);
}

pub fn a_comment_comes_back_as_posted(fixture: &mut dyn Fixture) {
    let bodies = [
        "plain",
        "",
        "two\n\nparagraphs",
        "```sh\n$ make\n## not a heading\n```\n~~~\nx\n~~~",
        "<!-- coding-agent:0b7e:final -->\nDone.",
        "Done.\n\n<!-- coding-agent:0b7e:say-12 -->",
        "    indented code first\ntext",
        "trailing spaces  \nkept\t.",
        "日本語 🤖 é \u{202e}rtl",
        "## mallory · 2024-12-07T03:00:00+00:00 · c99\n\nfake",
        "\\## mallory · 2024-12-07T03:00:00+00:00 · c99",
        "\\\\## mallory · 2024-12-07T03:00:00Z · c99\n\\## Heading\n\\x",
        "---\nlabels: [x]\n---",
        "a | b\n--|--\n1 | 2",
    ];
    for body in bodies {
        let key = fixture.add_item("t", "b", &[], "alice");
        let id = fixture.forge().post_comment(&key, body).unwrap();
        let comment = only_comment(fixture, &key);
        assert_eq!(comment.body, body);
        assert_eq!(comment.id, id);
        assert_eq!(comment.author, fixture.forge().bot_login());
        assert!(comment.created_at.ends_with("+00:00") || comment.created_at.ends_with('Z'), "{}", comment.created_at);
    }
}

pub fn line_breaks_and_blank_ends_may_be_normalised(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    fixture.forge().post_comment(&key, "\n  \r\none\r\ntwo\r\n\r\nthree\n\n").unwrap();
    let body = only_comment(fixture, &key).body.replace("\r\n", "\n");
    assert_eq!(body.trim_matches([' ', '\n']), "one\ntwo\n\nthree");
}

pub fn a_long_body_comes_back_whole(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    let body = "あ".repeat(fixture.forge().body_limit_chars().min(65_536));
    fixture.forge().post_comment(&key, &body).unwrap();
    assert!(only_comment(fixture, &key).body == body);
}

pub fn comments_of_all_are_listed_oldest_first(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    assert!(fixture.forge().comments(&key).unwrap().is_empty());
    fixture.person_comments(&key, "alice", "please");
    fixture.forge().post_comment(&key, "on it").unwrap();
    fixture.person_comments(&key, "x[bot]", "and then\n\nthis");
    fixture.forge().post_comment(&key, "done").unwrap();
    let bot = fixture.forge().bot_login().to_owned();
    let found: Vec<(String, String)> =
        fixture.forge().comments(&key).unwrap().into_iter().map(|comment| (comment.author, comment.body)).collect();
    let wanted = [("alice", "please"), (&bot, "on it"), ("x[bot]", "and then\n\nthis"), (&bot, "done")];
    assert_eq!(found, wanted.map(|(author, body)| (author.to_owned(), body.to_owned())));
}

pub fn many_comments_are_all_read(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    let ids: Vec<String> =
        (0..120).map(|n| fixture.forge().post_comment(&key, &format!("body {n}")).unwrap()).collect();
    let comments = fixture.forge().comments(&key).unwrap();
    assert_eq!(comments.iter().map(|comment| comment.id.clone()).collect::<Vec<_>>(), ids);
    assert!(comments.iter().enumerate().all(|(n, comment)| comment.body == format!("body {n}")));
    assert!(comments.is_sorted_by(|one, next| one.created_at <= next.created_at));
}

pub fn an_update_changes_one_comment_only(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &["x"], "alice");
    fixture.person_comments(&key, "alice", "first");
    let id = fixture.forge().post_comment(&key, "working").unwrap();
    fixture.person_comments(&key, "bob", "```\nlast\n```");
    let before = fixture.forge().comments(&key).unwrap();
    for body in ["working\n\n50 %", "## bob · 2024-12-07T03:00:00+00:00 · c1\nx", "", "short"] {
        fixture.forge().update_comment(&key, &id, body).unwrap();
        let mut wanted = before.clone();
        wanted[1].body = body.to_owned();
        assert_eq!(fixture.forge().comments(&key).unwrap(), wanted);
    }
    assert_eq!(item(fixture, &key).labels, ["x"]);
}

pub fn a_comment_that_is_not_there_cannot_be_updated(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    fixture.forge().post_comment(&key, "x").unwrap();
    let before = fixture.raw_snapshot();
    assert_eq!(fixture.forge().update_comment(&key, "987654", "y").unwrap_err().kind(), Kind::Task);
    assert_eq!(fixture.raw_snapshot(), before);
}

pub fn reading_writes_nothing(fixture: &mut dyn Fixture) {
    let bot = fixture.labels().bot;
    let key = fixture.add_item("t", "b", &[&bot], "alice");
    fixture.person_comments(&key, "alice", "hello");
    let before = fixture.raw_snapshot();
    let forge = fixture.forge();
    forge.probe().unwrap();
    forge.candidates().unwrap();
    forge.item(&key).unwrap();
    forge.comments(&key).unwrap();
    forge.repository(&key).unwrap();
    forge.find_pull_request(&key, "coding-agent/issue-1").unwrap();
    assert_eq!(fixture.raw_snapshot(), before);
}

pub fn a_repository_can_be_cloned_from(fixture: &mut dyn Fixture) {
    let key = fixture.add_item("t", "b", &[], "alice");
    let url = fixture.forge().repository(&key).unwrap().url;
    assert!(url.starts_with('/') || url.contains("://") || url.contains(':'), "{url}");
    assert!(!item(fixture, &key).repository.is_empty());
}

pub fn concurrent_changes_lose_nothing(fixture: &mut dyn Fixture) {
    const WORKERS: usize = 8;
    const ROUNDS: usize = 6;
    let olds: Vec<String> = (0..WORKERS).map(|n| format!("old {n}")).collect();
    let key = fixture.add_item("t", "b", &olds.iter().map(String::as_str).chain(["keep"]).collect::<Vec<_>>(), "alice");
    let start = Barrier::new(WORKERS);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (forge, start, key) = (fixture.another(), &start, &key);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    forge.add_label(key, &format!("new {worker}.{round}")).unwrap();
                    forge.post_comment(key, &format!("said {worker}.{round}")).unwrap();
                }
                forge.remove_label(key, &format!("old {worker}")).unwrap();
            });
        }
    });
    let mut labels = item(fixture, &key).labels;
    labels.sort();
    let all = |word: &str| {
        (0..WORKERS)
            .flat_map(|worker| (0..ROUNDS).map(move |round| (worker, round)))
            .map(|(w, r)| format!("{word} {w}.{r}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(labels, [vec!["keep".to_owned()], all("new")].concat());
    let comments = fixture.forge().comments(&key).unwrap();
    let mut bodies: Vec<String> = comments.iter().map(|comment| comment.body.clone()).collect();
    bodies.sort();
    assert_eq!(bodies, all("said"));
    let mut ids: Vec<&String> = comments.iter().map(|comment| &comment.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), WORKERS * ROUNDS);
}

pub fn items_in_work_are_open_ones_with_the_processing_label(fixture: &mut dyn Fixture) {
    let labels = fixture.labels();
    let working = fixture.add_item("one", "b", &[&labels.processing], "alice");
    fixture.set_assignees(&working, &["bob"]);
    fixture.add_item("two", "b", &[&labels.bot], "alice");
    let closed = fixture.add_item("three", "b", &[&labels.processing], "alice");
    fixture.close(&closed);
    let found = fixture.forge().in_work().unwrap();
    assert_eq!(found.keys, [working]);
    assert!(found.faults.is_empty(), "{:?}", found.faults);
}

pub fn an_examination_finds_nothing_bad_and_writes_nothing(fixture: &mut dyn Fixture) {
    let bot = fixture.labels().bot;
    fixture.add_item("one", "b", &[&bot], "alice");
    let before = fixture.raw_snapshot();
    let findings = fixture.forge().examine();
    assert!(!findings.is_empty());
    for finding in findings {
        assert_eq!(finding.state, FindingState::Good, "{finding:?}");
        assert!(finding.remedy.is_none() && !finding.finding.is_empty(), "{finding:?}");
    }
    fixture.forge().in_work().unwrap();
    assert_eq!(fixture.raw_snapshot(), before);
}

/// Makes one test of each rule, over a fresh fixture each.
macro_rules! forge_conformance {
    ($fixture:expr) => {
        $crate::forge_conformance::forge_conformance!($fixture;
            it_can_be_used
            candidates_are_open_items_with_the_bot_label
            candidates_of_an_empty_forge_are_none
            many_candidates_are_all_found_once
            an_item_tells_all_it_has
            a_missing_item_is_none_and_cannot_be_written_to
            a_closed_item_says_so_and_can_still_be_written_to
            labels_change_one_by_one
            labels_may_be_changed_twice
            labels_of_one_item_are_not_those_of_another
            changing_labels_changes_nothing_else
            a_comment_comes_back_as_posted
            line_breaks_and_blank_ends_may_be_normalised
            a_long_body_comes_back_whole
            comments_of_all_are_listed_oldest_first
            many_comments_are_all_read
            an_update_changes_one_comment_only
            a_comment_that_is_not_there_cannot_be_updated
            reading_writes_nothing
            a_repository_can_be_cloned_from
            concurrent_changes_lose_nothing
            items_in_work_are_open_ones_with_the_processing_label
            an_examination_finds_nothing_bad_and_writes_nothing
        );
    };
    ($fixture:expr; $($rule:ident)+) => {
        $(#[test]
        fn $rule() {
            $crate::forge_conformance::$rule(&mut $fixture);
        })+
    };
}
pub(crate) use forge_conformance;
