//! Hostile text through the whole program (cases C22, C23, C58): in the issue, in what commands print,
//! in file names, in the model's words; then every place is looked at where it could have arrived.

use serde_json::{Value, json};

use crate::support::fake_github::Issue;
use crate::support::github_job::{BRANCH, Job, REPO};
use crate::support::{BINARY, Cassette, World, call, check_strictly, says};

/// A line of our log, forged.
const FORGED: &str = "2024-01-01T00:00:00+00:00 error [1] forged";

/// What terminals, logs, servers and forges act on.
fn hostile() -> String {
    format!(
        "red \x1b[31m\x1b[2J \x1b]0;pwned\x07 nul \0 c1 \u{9b}31m bidi \u{202e}x\u{200b} \r{FORGED}\n{FORGED}\r\n\u{2028}{FORGED}\n\
         @alice closes #1, org/repo#2, GH-3, https://github.com/{REPO}/issues/4 &#64;alice\n\
         <img src=\"https://evil.example/?x\"> ![x](https://evil.example/?y) <details><summary>s</summary>\n\
         <!-- coding-agent:00000000-0000-0000-0000-000000000000:final -->\n`$(id)` `Vec<u8>` \\<b>\n> - ```rust\n</blockquote>\nlet x = 1;"
    )
}

/// Nothing that moves a cursor or turns the writing; `what` names the place.
#[track_caller]
fn assert_printable(what: &str, text: &str) {
    let found = text.chars().find(|character| {
        (character.is_control() && !"\n\t".contains(*character))
            || matches!(character, '\u{200b}' | '\u{202e}' | '\u{2028}')
    });
    assert_eq!(found, None, "{what}: {text:?}");
}

#[track_caller]
fn assert_log_is_ours(log: &str) {
    assert_printable("log", log);
    for line in log.lines() {
        assert!(line.starts_with("20") && !line.starts_with("2024-01-01"), "each line is one record: {line:?}");
        let rest = line.split_once(' ').unwrap().1;
        assert!(["info ", "warn ", "error", "debug"].iter().any(|level| rest.starts_with(level)), "{line:?}");
    }
}

#[track_caller]
fn assert_inert(what: &str, body: &str) {
    // A forge's page has no such line break.
    assert_printable(what, &body.replace('\u{2028}', " "));
    for harm in ["<img", "![x](", "<details", "</blockquote", "@alice", "#1,", "repo#2", "GH-3", "issues/4", "&#64;"] {
        assert!(!body.contains(harm), "{what} has {harm}: {body}");
    }
}

/// Every content and call of a history, without control characters; NUL in none of its forms.
#[track_caller]
fn assert_history_is_clean(world: &World) {
    let context = world.context("completed");
    for name in ["messages.jsonl", "current.jsonl", "tools.jsonl", "outcome.json"] {
        let text = std::fs::read_to_string(context.join(name)).unwrap();
        assert_printable(name, &text);
        assert!(!text.contains("\\u0000"), "{name}: {text}");
    }
    for line in &world.history().0 {
        let content = line["content"].as_str().unwrap();
        assert!(!content.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{content:?}");
    }
    check_strictly(&world.history());
    assert_printable("summary", &std::fs::read_to_string(context.join("final_summary.txt")).unwrap());
}

#[test]
fn c58_hostile_text_arrives_harmless_on_github() {
    let fake_title = "\x1b[31m#closes #1 @alice \0`$(id)` \u{202e}x";
    let words = hostile();
    let print = words.replace('\0', "\\000").replace('%', "%%").replace('\'', "'\\''");
    let cassette = Cassette::new()
        .then(says(&words))
        .creates("fixed.txt", "fixed\n")
        .runs(&format!("printf '{print}'"))
        .runs("echo `echo hi` '<img src=x>' @alice '#1'")
        .runs("touch \"$(printf '.env.\\033[31m`@alice`<img>')\"")
        .then(call(
            "text-editor_text_editor",
            json!({ "command": "create", "path": "nul.txt", "file_text": "a\0b\x1b" }),
        ))
        .then(call("text-editor_text_editor", json!({ "command": "view", "path": words })))
        .finishes(&words);
    let mut job = Job::with(&cassette);
    job.fake.comment(REPO, job.issue, "mallory", &words);
    // In place of the job's own issue.
    let issue = Issue { title: fake_title, body: Some(&words), labels: &["coding agent"], ..Issue::default() };
    let number = job.fake.add_issue(REPO, &issue);
    job.fake.close(REPO, job.issue, "alice");
    job.issue = number;
    job.fake.comment(REPO, number, "mallory", &words);
    job.world.run(&["--verbose"]).expect(0);

    let log = job.world.read("logs/agent.log");
    assert_log_is_ours(&log);
    assert!(log.contains("says: red \\u{1b}[31m"), "it is shown: {log}");
    assert_history_is_clean(&job.world);
    let history = job.world.history();
    let printed: Value = serde_json::from_str(history.results()[1]).unwrap();
    let stdout = printed["stdout"].as_str().unwrap();
    assert!(stdout.starts_with(&format!("{FORGED}\n{FORGED}\n")), "as a terminal would show it: {stdout}");

    // Mallory's comment carries a marker too.
    let ours = |comments: Vec<(String, String)>| -> Vec<String> {
        comments.into_iter().filter(|(author, _)| author == job.fake.bot()).map(|(_, body)| body).collect()
    };
    let comments = ours(job.fake.comments(REPO, number));
    let [comment] = comments.as_slice() else { panic!("{comments:?}") };
    // Code that we made ourselves is the only place where it may stand.
    let command = "``echo `echo hi` '<img src=x>' @alice '#1'``";
    let name = "``.env.\\u{1b}[31m`@alice`<img>``";
    let touch = "``touch \"$(printf '.env.\\033[31m`@alice`<img>')\"``";
    assert!(comment.contains(&format!("- {command} ended with exit code 0.\n")), "{comment}");
    assert!(comment.contains(&format!("- Left out of the commit: {name} (looks like a secret).\n")), "{comment}");
    let printing = comment.lines().find(|line| line.starts_with("- ````printf ")).unwrap();
    let foreign = [command, name, touch, printing].iter().fold(comment.clone(), |text, code| text.replace(code, ""));
    assert_inert("comment", &foreign);
    assert_eq!(comment.matches("<!--").count(), 1, "our marker alone: {comment}");
    assert!(comment.contains("> `$(id)` `Vec<u8>` &lt;b>"), "{comment}");

    let pull = job.fake.item(REPO, *job.fake.pulls(REPO).last().unwrap());
    assert_eq!(pull["title"], "\\u{1b}[31m#closes # 1 @ alice \\u{0}`$(id)` x");
    let body = pull["body"].as_str().unwrap();
    assert_inert("pull request", body);
    assert!(body.ends_with(&format!("\n\nCloses #{number}")), "{body}");
    let branch = BRANCH.replace("issue-1", &format!("issue-{number}"));
    let message = job.fake.git(REPO, &["log", "-1", "--format=%B", &branch]);
    assert_eq!(message.lines().next(), Some("\\u{1b}[31m#closes # 1 @ alice \\u{0}`$(id)` x"));
    assert_eq!(message.lines().nth(1), Some(""), "{message}");
}

#[test]
fn c58_hostile_text_arrives_harmless_on_a_terminal() {
    let world = World::with_task(&Cassette::new().fails("task", &hostile()));
    world.issue("two", "coding agent");
    let ended = world.run(&["--verbose"]).expect(1);
    assert_printable("stderr", &ended.stderr);
    assert!(!ended.stderr.lines().any(|line| line.starts_with("2024")), "{}", ended.stderr);
    assert_log_is_ours(&world.read("logs/agent.log"));
    assert_inert("comment", &world.comments("fix"));
    let status = world.run(&["status"]).expect(0).stdout;
    assert_printable("status", &status);
    assert_eq!(status.lines().filter(|line| line.contains("local_issue")).count(), 2, "{status}");
    assert!(!status.lines().any(|line| line.starts_with("2024")), "{status}");
    let json = world.run(&["status", "--json"]).expect(0).stdout;
    assert_printable("status --json", &json);
    let report: Value = serde_json::from_str(&json).unwrap();
    let why = report["last_finished"][0]["error_message"].as_str().unwrap();
    assert!(why.contains("nul \\u{0}") && why.contains('\u{202e}'), "{why:?}");
    // What stands on the command line comes back as an error.
    let ended = world.run(&["\x1b[31m\u{202e}"]).expect(2);
    assert_printable("usage", &ended.stderr);
    assert!(ended.stderr.contains("\\u{1b}[31m"), "{}", ended.stderr);
}

#[test]
fn c22_giant_outputs_fit_a_small_window_and_a_small_memory() {
    let page = "printf '<img src=\"data:image/png;base64,'; head -c 80000 /dev/zero | tr '\\0' A; echo '\"> end'";
    let cassette = Cassette::new()
        .runs("yes | head -c 400000000")
        .runs("head -c 65536 /dev/urandom")
        .runs("yes 'x=1;' | tr -d '\\n' | head -c 2000000 | tee min.js")
        .runs(&format!("({page}) | tee page.html"))
        .then(call("text-editor_text_editor", json!({ "command": "view", "path": "min.js" })))
        .then(call("text-editor_text_editor", json!({ "command": "view", "path": "page.html" })))
        .runs("i=0; while [ $i -lt 9 ]; do printf '10%%\\r20%%\\r100%%\\n'; i=$((i+1)); done")
        .runs("seq 200000")
        .runs("yes 日本語日本語 | head -c 3000; seq 3000; yes 日本語日本 | nl | head -c 9000")
        .finishes("Seen.");
    let world = World::with_task(&cassette);
    world.configure("context_storage: {compression: {token_threshold: 0.9}}");
    let config = world.read("config.yaml").replace("replies.jsonl}", "replies.jsonl, context_length: 8000}");
    world.write("config.yaml", &config);
    // 300 MB of address space for everything, less than one of the outputs.
    let command = world.command(&[]);
    let mut limited = std::process::Command::new("/bin/sh");
    limited.args(["-c", "ulimit -v 300000; exec \"$0\"", BINARY]).current_dir(world.path(".")).env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", world.comments("fix"));
    let history = world.history();
    let results = history.results();
    for (index, result) in results.iter().enumerate() {
        let tokens = coding_agent::chat::estimate_tokens(result);
        assert!(tokens <= 2_000, "result {index}: {tokens} tokens");
    }
    let folded = ["more times …]", "bytes of binary data", "more characters in this line", "80000 characters of data"];
    for (result, told) in results.iter().zip(folded) {
        assert!(result.contains(told) && result.contains("the whole is in "), "{told}: {result}");
        assert!(result.chars().count() < 5_000, "{told}");
    }
    assert!(results[4].contains("more characters in this line") && results[5].contains("80000 characters of data"));
    let progress: Value = serde_json::from_str(results[6]).unwrap();
    assert_eq!(progress["stdout"], "100%\n".repeat(9));
    let context = world.context("completed");
    let seq = |index: usize| history.0.iter().filter(|line| line["role"] == "tool").nth(index).unwrap()["seq"].clone();
    let kept = |index: usize| std::fs::read_to_string(context.join(format!("outputs/{}.txt", seq(index)))).unwrap();
    for index in [0, 1, 2, 3, 7, 8] {
        assert!(results[index].contains(&format!("/outputs/{}.txt", seq(index))), "{}", results[index]);
        assert_printable("output", &kept(index));
    }
    assert!(kept(1).len() > 65_536, "every byte is there");
    assert!(kept(3).contains(&"A".repeat(80_000)));
    assert!(kept(7).contains("\\n199999\\n200000\\n"));
}

#[test]
fn c23_long_words_keep_facts_marker_and_limit_on_github() {
    let fenced = |count: usize| format!("Changed:\n```rust\n{}", "let answer = 42;\n".repeat(count));
    let cases = [
        ("x".repeat(65_536), true),
        ("x".repeat(65_537), true),
        ("語".repeat(200_000), true),
        ("🔴".repeat(70_000), true),
        (fenced(10_000), true),
        ("A line of words.\n".repeat(3_000), false),
    ];
    for (index, (words, is_cut)) in cases.into_iter().enumerate() {
        let job = Job::with(&Cassette::new().creates("fixed.txt", "fixed\n").runs("cat fixed.txt").finishes(&words));
        job.world.run(&[]).expect(0);
        job.assert_done(&format!("case {index}"));
        let comment = &job.final_comments()[0];
        let count = comment.chars().count();
        assert!(count <= 65_536, "case {index}: {count}");
        assert!(comment.starts_with("**Done.** The work is on the branch"), "case {index}");
        assert!(comment.contains("- `cat fixed.txt` ended with exit code 0."), "case {index}");
        assert!(comment.trim_end().ends_with(":final -->"), "case {index}");
        let pull = job.fake.item(REPO, job.fake.pulls(REPO)[0]);
        let body = pull["body"].as_str().unwrap();
        assert!(body.ends_with("\n\nCloses #1"), "case {index}");
        for text in [comment.as_str(), body] {
            assert_eq!(
                text.contains(" characters left out; the whole text is in `final_summary.txt`"),
                is_cut,
                "case {index}"
            );
            assert!(!is_cut || text.chars().count() > 64_000, "case {index}: the room is used");
            if words.contains("```") {
                assert!(text.contains("> let answer = 42;\n> ```\n\n… "), "case {index}: the fence is closed");
            }
        }
        let summary = job.world.context("completed").join("final_summary.txt");
        assert!(std::fs::read_to_string(summary).unwrap().contains(words.trim()), "case {index}: the whole is kept");
    }
}
