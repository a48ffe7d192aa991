//! `doctor`: what it finds where all is well and where something is not, that it goes on behind what is
//! bad, and that it changes nothing.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use coding_agent::sys::clock;
use coding_agent::sys::file_system;
use serde_json::{Value, json};

use crate::support::fake_github::Permission;
use crate::support::github_job::{Job, REPO, seconds_from_now};
use crate::support::gitlab_job::{self, PROJECT};
use crate::support::{
    Answer, Cassette, Ended, FakeModel, FakeOllama, KEY, World, call, eventually, ollama_answer, ollama_call, reply,
    says,
};

/// The report, whose form is checked on the way.
pub struct Report(pub Value);

impl Report {
    #[track_caller]
    pub fn of(world: &World, code: i32) -> Self {
        let ended = world.run(&["doctor", "--json"]).expect(code);
        assert_eq!(ended.stderr, "");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        assert_eq!(report["version"], 1);
        assert_eq!(report["ready"], json!(code != 78), "{report:#}");
        for check in report["checks"].as_array().unwrap() {
            let needs_remedy = ["warning", "bad"].contains(&check["state"].as_str().unwrap());
            assert_eq!(check["remedy"].is_string(), needs_remedy, "{check}");
            assert_eq!(check.as_object().unwrap().len(), 4);
            assert!(!check["finding"].as_str().unwrap().is_empty(), "{check}");
        }
        Self(report)
    }

    #[track_caller]
    pub fn check(&self, name: &str) -> &Value {
        let checks = self.0["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no check `{name}`: {:#}", self.0))
    }

    /// The check is in this state; its finding and remedy.
    #[track_caller]
    pub fn is(&self, name: &str, state: &str) -> (String, String) {
        let check = self.check(name);
        assert_eq!(check["state"], state, "{check}");
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (text("finding"), text("remedy"))
    }

    #[track_caller]
    pub fn says(&self, name: &str, state: &str, finding: &str, remedy: &str) {
        let (found, told) = self.is(name, state);
        assert!(found.contains(finding), "{name}: `{found}` does not say `{finding}`");
        assert!(told.contains(remedy), "{name}: `{told}` does not say `{remedy}`");
    }

    pub fn states(&self) -> Vec<(String, String)> {
        let checks = self.0["checks"].as_array().unwrap();
        let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
        checks.iter().map(|check| (text(check, "name"), text(check, "state"))).collect()
    }
}

/// All files and directories below `dir` with their content.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.push((path.display().to_string(), Vec::new()));
            found.extend(content(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// What a model says that calls the tool it is told to call.
pub fn reporting() -> Value {
    call("report", json!({ "number": 7 }))
}

fn model_world(fake: &FakeModel) -> World {
    fake.world()
}

#[test]
fn all_is_ready() {
    let fake = FakeModel::new([reply(&reporting())]);
    let world = model_world(&fake);
    let before = content(&world.path("."));
    let ended = world.run(&["doctor"]).expect(0);
    assert_eq!(ended.stderr, "");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "ok       configuration: `config.yaml`; tasks from local, model of openai");
    assert_eq!(lines.last(), Some(&"All is ready."));
    assert!(lines[..lines.len() - 1].iter().all(|line| line.starts_with("ok       ")), "{}", ended.stdout);
    for line in [
        "ok       spool directory: `spool` (not there yet, will be made): ",
        "ok       queue: 0 wait, 0 are in work, 0 are put off\n",
        "ok       git: git version ",
        "ok       sandbox: none: commands of the model may do what this user may (backend is host)\n",
        "ok       issue files: `tasks` has 1 issue file\n",
        "ok       items that wait: 1 open item asks for work with the label `coding agent`\n",
        "ok       items in work: 0 open items carry the label `coding agent processing`, each with a task here\n",
        "ok       model: `fake-model` of openai\n",
        "ok       model window: 128000 tokens, as configured\n",
        "ok       tool calls: it answers and calls tools; its answer took ",
    ] {
        assert!(ended.stdout.contains(line), "no line `{line}`:\n{}", ended.stdout);
    }
    assert_eq!(content(&world.path(".")), before, "looking changes nothing");
    assert_eq!(fake.requests(), ["GET /v1/models", "POST /v1/chat/completions"]);
    fake.then([reply(&reporting())]);
    let report = Report::of(&world, 0);
    assert!(report.states().iter().all(|(_, state)| state == "good"), "{:#}", report.0);
}

#[test]
fn recorded_replies_are_not_asked() {
    let world = World::with_task(&Cassette::new());
    Report::of(&world, 0).says("tool calls", "skipped", "recorded replies", "");
}

#[test]
fn a_configuration_that_cannot_be_used_ends_it() {
    let world = World::new();
    world.write("config.yaml", "task_sauce: github\n");
    let report = Report::of(&world, 78);
    report.says("configuration", "bad", "unknown key `task_sauce`", "mend it");
    let states = report.states();
    assert!(states.len() > 3 && states[1..].iter().all(|(_, state)| state == "skipped"), "{states:?}");
    let ended = world.run(&["doctor", "--config", "absent.yaml"]).expect(78);
    assert!(ended.stdout.starts_with("bad      configuration: cannot read config `absent.yaml`: no such file\n"));
    assert!(ended.stdout.ends_with("\nIt cannot work as it is; bad: 1, warnings: 0.\n"), "{}", ended.stdout);
}

#[test]
fn bad_things_do_not_hide_each_other() {
    let fake = FakeModel::new([]);
    let world = model_world(&fake);
    let ca = "-----BEGIN NONSENSE";
    world.write("ca.pem", ca);
    fs::create_dir(world.path("prompts")).unwrap();
    world.write("prompts/system.md", "{{unknown}}");
    fs::remove_dir_all(world.path("tasks")).unwrap();
    world.write("spool", "a file where a directory should be");
    world.configure("prompts_dir: prompts\nca_file: ca.pem\n");
    let mut world = world;
    world.set_env("OPENAI_MODEL", "another-model");
    world.set_env("PATH", "/nonexistent");
    let report = Report::of(&world, 78);
    report.says("prompts", "bad", "it has no placeholder `unknown`", "take it away");
    report.says("certificates", "bad", "ca_file `ca.pem`", "PEM");
    report.says("spool directory", "bad", "spool", "let the user of the agent write there");
    report.says("git", "bad", "cannot find the program `git`", "install git");
    report.says("issue files", "bad", "tasks", "`local.tasks_dir` must be a directory");
    report.says("items that wait", "skipped", "tasks cannot be asked for", "");
    report.says("model", "bad", "has no model `another-model`; it has `fake-model`", "OPENAI_MODEL");
    report.says("tool calls", "skipped", "the model cannot be used", "");
    report.is("contexts directory", "good");
}

#[test]
fn a_sandbox_that_does_not_work_is_a_warning_unless_it_is_needed() {
    let mut world = World::with_task(&Cassette::new());
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let git =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).map(|dir| dir.join("git")).find(|git| git.exists());
    std::os::unix::fs::symlink(git.unwrap(), bin.join("git")).unwrap();
    world.set_env("PATH", bin.to_str().unwrap());
    for (executor, code, state) in [
        ("{backend: auto}", 1, "warning"),
        ("{backend: auto, required: true}", 78, "bad"),
        ("{backend: bubblewrap}", 78, "bad"),
        ("{enabled: false}", 0, "good"),
    ] {
        world.write(
            "config.yaml",
            &format!(
                "task_source: local\nllm: {{provider: replay, replay: {{file: replies.jsonl}}}}\n\
                 command_executor: {executor}\n"
            ),
        );
        let report = Report::of(&world, code);
        let (finding, remedy) = report.is("sandbox", state);
        if code > 0 {
            assert!(finding.contains("bubblewrap is not installed"), "{finding}");
            assert!(remedy.contains("install the package bubblewrap"), "{remedy}");
        }
    }
}

#[test]
fn what_the_queue_holds_and_who_is_at_it() {
    let fake = FakeModel::new([Answer::Hangs]);
    let world = model_world(&fake);
    let mut child = world.spawn(&["--mode", "producer"]);
    child.wait().unwrap();
    let mut child = world.spawn(&["--mode", "consumer"]);
    eventually(|| (!fake.chats().is_empty()).then_some(()));
    fs::create_dir_all(world.path("spool/corrupt")).unwrap();
    world.write("spool/corrupt/x", "");
    fake.set_models(Answer::raw(401, "no"));
    let report = Report::of(&world, 78);
    let at_work = format!("1 are in work, 0 are put off, a consumer is at work (process {})", child.id());
    report.says("queue", "warning", &at_work, "spool/corrupt");
    report.says("items in work", "good", "1 open item carries the label", "");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Report::of(&world, 78).is("queue", "warning").0.contains("at work"));
}

#[test]
fn a_pause_signal_that_is_up_is_told() {
    let world = World::with_task(&Cassette::new());
    fs::create_dir(world.path("contexts")).unwrap();
    world.write("contexts/pause_signal", "");
    Report::of(&world, 1).says("pause signal", "warning", "`contexts/pause_signal` exists", "remove that file");
}

#[test]
fn a_database_that_is_none_is_told() {
    let world = World::with_task(&Cassette::new());
    fs::create_dir(world.path("contexts")).unwrap();
    world.write("contexts/tasks.db", &"no database ".repeat(100));
    Report::of(&world, 1).says("database", "warning", "tasks.db", "gc --rebuild-db");
    assert_eq!(world.names("contexts"), ["tasks.db"]);
}

#[test]
fn items_with_the_processing_label_and_no_task_here_are_named() {
    let world = World::with_task(&Cassette::new());
    world.issue("lost", "coding agent processing");
    let report = Report::of(&world, 1);
    let lost = "without a task here, but with the label `coding agent processing`: local/issue/lost";
    report.says("items in work", "warning", lost, "take `coding agent processing` off and set `coding agent` again");
}

#[test]
fn locks_links_and_renames_are_tried_out() {
    let dir = tempfile::tempdir().unwrap();
    file_system::try_out(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    assert_eq!(file_system::nearest_existing(&dir.path().join("a/b/c")), dir.path());
    let found = file_system::look_at(dir.path()).unwrap();
    assert!(found.free_bytes > 0 && found.remote.is_none(), "{found:?}");
    assert!(file_system::look_at(Path::new("/proc")).unwrap().remote.is_none());
    assert!(file_system::try_out(Path::new("/proc")).is_err());
}

// The model.

#[test]
fn a_model_that_does_not_call_tools_is_told() {
    for (protocol, answer, state, finding, remedy) in [
        ("true", reply(&says("Seven!")), "warning", "did not call the tool", "set llm.function_calling to false"),
        ("false", reply(&says("Seven!")), "warning", "did not call the tool", "keeps to a form"),
        (
            "false",
            reply(&says("```json\n{\"function_call\": {\"name\": \"report\", \"arguments\": {\"number\": 7}}}\n```")),
            "good",
            "calls tools in JSON text",
            "",
        ),
        ("true", Answer::raw(503, "").at_once(), "bad", "cannot answer now (503)", ""),
        ("true", Answer::raw(400, "no tools here"), "bad", "refuses the request (400)", ""),
    ] {
        let fake = FakeModel::new([answer]);
        let mut world = model_world(&fake);
        world.set_env("FUNCTION_CALLING", protocol);
        let ended = world.run(&["doctor", "--json"]);
        let report = Report(serde_json::from_str(&ended.stdout).unwrap());
        report.says("tool calls", state, finding, remedy);
        assert_eq!(fake.chats().len(), 1, "asked once");
    }
}

#[test]
fn a_key_that_is_refused_is_bad_and_never_shown() {
    let fake = FakeModel::new([]);
    fake.set_models(Answer::json(401, &json!({ "error": { "message": format!("wrong key {KEY}") } })));
    let world = model_world(&fake);
    let ended = world.run(&["doctor"]).expect(78);
    assert!(ended.stdout.contains("bad      model: ") && ended.stdout.contains("OPENAI_API_KEY"), "{ended:?}");
    assert!(!ended.stdout.contains(KEY), "{ended:?}");
}

#[test]
fn a_window_that_is_smaller_is_told_with_its_size() {
    let answer = ollama_answer(ollama_call("report", json!({ "number": 7 })), json!(100));
    let fake = FakeOllama::new([answer]);
    let info = json!({ "general.architecture": "qwen2", "qwen2.context_length": 4096 });
    fake.set_shown(Answer::json(200, &json!({ "model_info": info })));
    let world = fake.world("");
    let report = Report::of(&world, 1);
    report.says(
        "model window",
        "warning",
        "4096 tokens, not 32768 as configured",
        "set llm.ollama.context_length to 4096",
    );
    report.says("tool calls", "good", "it answers and calls tools", "");
}

// GitHub.

pub fn github() -> Job {
    let job = Job::with(&Cassette::new());
    job.fake.set_time(seconds_from_now(0));
    job
}

fn date_in(days: u64) -> String {
    clock::rfc3339(clock::now_ms() + days * 24 * 3_600_000)
}

#[test]
fn a_good_github_and_nothing_written_there() {
    let job = github();
    job.fake.change_token(job.fake.token(), |token| {
        token.scopes = Some("repo, workflow".into());
        token.expires = Some(date_in(90).replace('T', " ").replace("+00:00", " UTC"));
    });
    let before = job.fake.raw_snapshot();
    let ours = content(&job.world.path("."));
    let report = Report::of(&job.world, 0);
    assert_eq!(content(&job.world.path(".")), ours, "looking changes nothing");
    report.says("github", "good", "answers", "");
    report.says("clock", "good", "as that of", "");
    let token =
        format!("belongs to `coding-agent-bot`; its scopes: repo, workflow; it expires on {}", &date_in(90)[..10]);
    report.says("GitHub token", "good", &token, "");
    report.says("GitHub rate limit", "good", "of 5000 requests are left until", "");
    report.says("repository acme/widgets", "good", "can be read and pushed to; the label `coding agent` is there", "");
    report.says("items that wait", "good", "1 open item", "");
    assert_eq!(job.fake.raw_snapshot(), before);
    assert!(job.fake.calls().iter().all(|call| call.starts_with("GET ")), "{:?}", job.fake.calls());
}

#[test]
fn what_a_github_token_lacks() {
    let job = github();
    let soon = date_in(5).replace('T', " ").replace("+00:00", " +0900");
    for (scopes, expires, code, state, finding, remedy) in [
        (Some("repo"), None, 0, "good", "without `workflow`, changes of .github/workflows cannot be pushed", ""),
        (Some("public_repo, workflow"), None, 1, "warning", "private repositories are closed", "with the scope `repo`"),
        (Some("read:org"), None, 78, "bad", "its scopes: read:org; it may change no repository", "fine-grained"),
        (Some(""), None, 78, "bad", "its scopes: none", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        (None, None, 0, "good", "its rights show at each repository", ""),
        (None, Some(soon), 1, "warning", "it expires in ", "GITHUB_PERSONAL_ACCESS_TOKEN"),
    ] {
        job.fake.change_token(job.fake.token(), |token| {
            token.scopes = scopes.map(str::to_owned);
            token.expires = expires;
        });
        Report::of(&job.world, code).says("GitHub token", state, finding, remedy);
    }
}

#[test]
fn what_a_repository_on_github_lacks() {
    let called = format!("repository {REPO}");
    let looked = |change: &dyn Fn(&Job), code: i32, state: &str, finding: &str, remedy: &str| {
        let job = github();
        change(&job);
        Report::of(&job.world, code).says(&called, state, finding, remedy);
    };
    let archive = |job: &Job| job.fake.change_repo(REPO, |repo| repo.archived = true);
    looked(&archive, 78, "bad", "is archived", "take it out of github.repositories");
    let reader = |job: &Job| job.fake.set_permission(REPO, job.fake.bot(), Permission::Read);
    looked(&reader, 78, "bad", "may not push to `acme/widgets`", "write access");
    let stranger = |job: &Job| job.fake.set_permission(REPO, job.fake.bot(), Permission::None);
    looked(&stranger, 78, "bad", "cannot read the repository `acme/widgets`", "the token may not see it");
    let no_issues = |job: &Job| job.fake.change_repo(REPO, |repo| repo.has_issues = false);
    looked(&no_issues, 1, "warning", "issues are switched off", "");
    let no_label = |job: &Job| {
        job.fake.unlabel(REPO, job.issue, "coding agent", "alice");
        job.fake.change_repo(REPO, |repo| repo.labels.clear());
    };
    looked(&no_label, 1, "warning", "it has no label `coding agent`", "make that label there");
}

#[test]
fn a_github_that_refuses_us() {
    let mut job = github();
    job.world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_wrong_wrong_wrong");
    let report = Report::of(&job.world, 78);
    report.says("account at github", "bad", "GitHub refuses the token", "GITHUB_PERSONAL_ACCESS_TOKEN");
    report.says("repositories", "skipped", "tasks cannot be asked for", "");
    job.world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", "");
    Report::of(&job.world, 78).says("account at github", "bad", "no token for GitHub", "GITHUB_PERSONAL_ACCESS_TOKEN");
}

#[test]
fn items_on_github_that_nobody_here_works_on() {
    let job = github();
    job.fake.label(REPO, job.issue, "coding agent processing", "alice");
    let report = Report::of(&job.world, 1);
    report.says("items in work", "warning", "github/issue/acme/widgets/1", "set `coding agent` again");
}

#[test]
fn without_a_network_all_is_said_and_nothing_hangs() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut world = World::new();
    world.write(
        "config.yaml",
        &format!(
            "task_source: github\ngithub: {{api_url: 'http://{closed}'}}\n\
             llm: {{openai: {{base_url: 'http://{closed}/v1', model: m}}}}\ncommand_executor: {{backend: host}}\n"
        ),
    );
    for (name, value) in [("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_0"), ("OPENAI_API_KEY", KEY), ("NO_PROXY", "127.0.0.1")]
    {
        world.set_env(name, value);
    }
    let ended: Ended = world.run(&["doctor"]).expect(78);
    for line in
        ["bad      github: cannot reach ", "skipped  repositories: ", "bad      model: cannot reach ", "ok       git: "]
    {
        assert!(ended.stdout.contains(line), "no line `{line}`:\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("account at github"), "{}", ended.stdout);
    world.set_env("GITHUB_PERSONAL_ACCESS_TOKEN", "");
    Report::of(&world, 78).says(
        "account at github",
        "bad",
        "no token for GitHub is set",
        "GITHUB_PERSONAL_ACCESS_TOKEN",
    );
}

// GitLab.

#[test]
fn a_good_gitlab_and_what_can_be_wrong_there() {
    let job = gitlab_job::Job::with(&Cassette::new());
    let before = job.fake.raw_snapshot();
    let report = Report::of(&job.world, 0);
    report.says("GitLab token", "good", "its scopes: api", "");
    let called = format!("project {PROJECT}");
    report.says(&called, "good", "can be read and pushed to; the label `coding agent` is there", "");
    report.says("items that wait", "good", "1 open item", "");
    assert_eq!(job.fake.raw_snapshot(), before);

    let day = |days| date_in(days)[..10].to_owned();
    job.fake.change_token(job.fake.token(), |token| token.expires = Some(day(3)));
    Report::of(&job.world, 1).says("GitLab token", "warning", "it expires in ", "GITLAB_PERSONAL_ACCESS_TOKEN");
    job.fake.change_token(job.fake.token(), |token| token.read_only = true);
    Report::of(&job.world, 78).says("GitLab token", "bad", "without `api` nothing can be written", "scope `api`");
    job.fake.change_token(job.fake.token(), |token| (token.read_only, token.expires) = (false, Some(day(200))));
    Report::of(&job.world, 0).says("GitLab token", "good", &format!("it expires on {}", day(200)), "");

    job.fake.change_project(PROJECT, |project| project.has_issues = false);
    Report::of(&job.world, 1).says(&called, "warning", "issues are switched off", "");
    job.fake.change_project(PROJECT, |project| (project.has_issues, project.archived) = (true, true));
    Report::of(&job.world, 78).says(&called, "bad", "archived", "gitlab.repositories");
    job.fake.change_project(PROJECT, |project| (project.archived, project.labels) = (false, Vec::new()));
    Report::of(&job.world, 1).says(&called, "warning", "it has no label `coding agent`", "make that label");
    job.fake.set_role(PROJECT, "coding-agent-bot", 20);
    Report::of(&job.world, 78).says(&called, "bad", "may not push", "role Developer");
    job.reconfigure(PROJECT, "acme/nothing");
    Report::of(&job.world, 78).says("project acme/nothing", "bad", "cannot read the project", "does not exist");
}

#[test]
fn projects_of_a_group_and_all_of_them() {
    let job = gitlab_job::Job::with(&Cassette::new());
    for name in ["acme/*", "acme/tools", ""] {
        let repositories = if name.is_empty() { "[]".to_owned() } else { format!("['{name}']") };
        let config = job.world.read("config.yaml");
        let start = config.find("repositories: ").unwrap() + "repositories: ".len();
        let end = start + config[start..].find(']').unwrap() + 1;
        job.world.write("config.yaml", &format!("{}{repositories}{}", &config[..start], &config[end..]));
        Report::of(&job.world, 0).is(&format!("project {PROJECT}"), "good");
    }
    job.fake.label(job.issue(), "coding agent processing", true, "alice");
    Report::of(&job.world, 1).says("items in work", "warning", "gitlab/issue/", "take `coding agent processing` off");
}

// MCP servers.

/// A server of one tool, as short as it can be.
pub const MCP_SERVER: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[test]
fn mcp_servers_are_started_and_those_that_do_not_are_told() {
    let world = World::with_task(&Cassette::new());
    world.write("docs.sh", MCP_SERVER);
    let good = "{mcp_server_name: docs, command: [sh, docs.sh]}";
    let broken = "{mcp_server_name: broken, command: [sh, -c, 'echo no key >&2; exit 3'], start_timeout_seconds: 5";
    let config = world.read("config.yaml");
    for (servers, code, state) in [
        (good.to_owned(), 0, None),
        (format!("{good}, {broken}}}"), 1, Some("warning")),
        (format!("{broken}, required: true}}, {good}"), 78, Some("bad")),
    ] {
        world.write("config.yaml", &format!("{config}mcp_servers: [{servers}]\n"));
        let report = Report::of(&world, code);
        report.says("MCP server docs", "good", "starts and offers 1 tool, about ", "");
        if let Some(state) = state {
            report.says("MCP server broken", state, "", "try `sh -c echo no key >&2; exit 3` by hand");
        }
    }
}
