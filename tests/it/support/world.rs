//! One installation of the program in a directory of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{Cassette, History, Random};

pub const BINARY: &str = env!("CARGO_BIN_EXE_coding-agent");

/// A temporary installation; gone when dropped.
pub struct World {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    /// A repository `widgets` (branch `main`, files `README` and `add.sh`), no issue, no cassette,
    /// commands on the host.
    pub fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap(), env: BTreeMap::new() };
        for name in ["home", "tasks", "widgets"] {
            std::fs::create_dir(world.path(name)).unwrap();
        }
        world.write(
            "config.yaml",
            "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl}}\n\
             command_executor: {backend: host}\nqueue: {max_consumers: 8}\n",
        );
        world.write("widgets/README", "widgets\n");
        world.write("widgets/add.sh", "echo $(($1 - $2))\n");
        let repo = world.path("widgets");
        git(&repo, &["init", "--quiet", "--initial-branch=main"]);
        git(&repo, &["add", "--all"]);
        git(&repo, &["commit", "--quiet", "--message", "start"]);
        world
    }

    /// The same with one issue `fix` that asks for work, and these replies.
    pub fn with_task(cassette: &Cassette) -> Self {
        let world = Self::new();
        world.issue("fix", "coding agent");
        world.replies(cassette);
        world
    }

    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub fn write(&self, relative: &str, text: &str) {
        std::fs::write(self.path(relative), text).unwrap();
    }

    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        let path = self.path(relative);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Adds a line block to the configuration.
    pub fn configure(&self, yaml: &str) {
        let text = self.read("config.yaml");
        self.write("config.yaml", &format!("{text}{yaml}\n"));
    }

    pub fn set_env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub fn issue(&self, name: &str, labels: &str) {
        self.write(
            &format!("tasks/{name}.md"),
            &format!(
                "---\ntitle: \"Fix {name}\"\nlabels: [{labels}]\nauthor: alice\nstate: open\nrepository: ../widgets\n---\nadd.sh subtracts.\n"
            ),
        );
    }

    pub fn replies(&self, cassette: &Cassette) {
        self.write("replies.jsonl", &cassette.to_text());
    }

    /// The program with the environment of this world alone.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.path("home"));
        // Back-off is looked at in the log, not sat out.
        command.env("CODING_AGENT_FAULT_NO_SLEEP", "1");
        command.env("CODING_AGENT_FAULT_MEMORY_IS_DISK", "1").envs(&self.env);
        command
    }

    #[must_use = "look at the exit code at least"]
    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::from(self.command(args).output().unwrap())
    }

    /// Runs with a named crash point; it must be reached.
    pub fn run_to_crash(&self, args: &[&str], point: &str) {
        let output = self.command(args).env("CODING_AGENT_FAULT_POINT", point).output().unwrap();
        let ended = Ended::from(output);
        assert_eq!(ended.code, None, "the point `{point}` was not reached: {ended:?}");
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Labels of an issue, in the order of its file.
    pub fn labels(&self, name: &str) -> Vec<String> {
        let text = self.read(format!("tasks/{name}.md"));
        let line = text.lines().find_map(|line| line.strip_prefix("labels:")).unwrap();
        let inner = line.trim().trim_start_matches('[').trim_end_matches(']');
        inner.split(',').map(|label| label.trim().trim_matches('"').to_owned()).filter(|l| !l.is_empty()).collect()
    }

    /// The comments file of an issue; empty when there is none.
    pub fn comments(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(format!("tasks/{name}.comments.md"))).unwrap_or_default()
    }

    /// Final comments of an issue.
    pub fn final_comments(&self, name: &str) -> usize {
        self.comments(name).matches(":final -->").count()
    }

    /// Branches of the repository, `main` left out.
    pub fn branches(&self) -> Vec<String> {
        let text = git(&self.path("widgets"), &["branch", "--format=%(refname:short)"]);
        text.lines().filter(|name| *name != "main").map(str::to_owned).collect()
    }

    /// A file as a branch has it.
    pub fn file_on(&self, branch: &str, path: &str) -> String {
        git(&self.path("widgets"), &["show", &format!("{branch}:{path}")])
    }

    /// Names in a directory, sorted; empty when it is missing.
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Entries of the spool in every state but `corrupt`.
    pub fn entries(&self) -> Vec<String> {
        ["queue", "running", "deferred", "gave_up"]
            .iter()
            .flat_map(|state| {
                self.names(&format!("spool/{state}")).into_iter().map(move |name| format!("{state}/{name}"))
            })
            .collect()
    }

    /// The one context directory of a place.
    pub fn context(&self, place: &str) -> PathBuf {
        let names = self.names(&format!("contexts/{place}"));
        assert_eq!(names.len(), 1, "contexts/{place}: {names:?}");
        self.path(format!("contexts/{place}/{}", names[0]))
    }

    /// The whole history of the one finished task.
    pub fn history(&self) -> History {
        History::read(&self.context("completed").join("messages.jsonl"))
    }

    pub fn outcome(&self) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(self.context("completed").join("outcome.json")).unwrap()).unwrap()
    }

    /// One column of one row of `tasks.db`.
    pub fn query(&self, sql: &str) -> Vec<String> {
        let connection = rusqlite::Connection::open(self.path("contexts/tasks.db")).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str().unwrap_or_default().to_owned(),
            })
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Makes every deferred entry due, and every wait that a server asked for over.
    pub fn pass_time(&self) {
        if self.path("spool/budget.json").exists() {
            let mut budget: serde_json::Value = serde_json::from_str(&self.read("spool/budget.json")).unwrap();
            for account in budget["accounts"].as_object_mut().unwrap().values_mut() {
                account.as_object_mut().unwrap().retain(|name, _| !["wait", "limits"].contains(&name.as_str()));
            }
            self.write("spool/budget.json", &budget.to_string());
        }
        for name in self.names("spool/deferred") {
            let (_, rest) = name.split_once('.').unwrap();
            let from = self.path(format!("spool/deferred/{name}"));
            std::fs::rename(from, self.path(format!("spool/deferred/{:013}.{rest}", 1))).unwrap();
        }
    }

    /// Makes every temporary of the spool two hours old: nobody writes to it any more.
    pub fn age_temporaries(&self) {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
        for name in self.names("spool/tmp") {
            let file = std::fs::File::options().write(true).open(self.path(format!("spool/tmp/{name}"))).unwrap();
            file.set_modified(old).unwrap();
        }
    }

    /// What must hold when nothing is left to do: no entry, no unfinished context, a valid history.
    pub fn assert_settled(&self) {
        assert_eq!(self.entries(), Vec::<String>::new(), "spool");
        assert_eq!(self.names("spool/corrupt"), Vec::<String>::new(), "corrupt");
        assert_eq!(self.names("contexts/running"), Vec::<String>::new(), "contexts/running");
        assert_eq!(self.names("spool/tmp"), Vec::<String>::new(), "spool/tmp");
    }

    /// Lets attempts go on for ever, for a task that is killed again and again.
    pub fn allow_many_attempts(&self) {
        let config = self.read("config.yaml");
        assert!(config.contains("max_consumers: 8"), "{config}");
        self.write("config.yaml", &config.replace("max_consumers: 8", "max_consumers: 8, max_attempts: 1000"));
    }

    /// Kills run after run at random instants, until one ends by itself with nothing left to do and `is_done`.
    #[track_caller]
    pub fn kill_until(&self, seed: u64, is_done: impl Fn() -> bool) {
        self.allow_many_attempts();
        let mut random = Random::new(seed);
        // About as long as a run takes; it grows, so that the end is reached on a busy machine too.
        let mut span_us = 200_000u64;
        eventually(|| {
            let code = kill_after(self.spawn(&[]), random.next() % span_us);
            span_us += span_us / 20;
            self.pass_time();
            (code == Some(0) && self.entries().is_empty() && is_done()).then_some(())
        });
    }

    /// A kill before the link leaves a temporary, which is removed when it is old.
    #[track_caller]
    pub fn clear_temporaries(&self) {
        eventually(|| {
            self.age_temporaries();
            self.run(&["--mode", "producer"]).expect(0);
            self.names("spool/tmp").is_empty().then_some(())
        });
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// Runs git as a person with no configuration.
#[track_caller]
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", "/nonexistent")
        .envs([("GIT_AUTHOR_NAME", "alice"), ("GIT_AUTHOR_EMAIL", "alice@example.org")])
        .envs([("GIT_COMMITTER_NAME", "alice"), ("GIT_COMMITTER_EMAIL", "alice@example.org")])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Lets a process run for at most `microseconds`, then kills it; its exit code if it was faster.
pub fn kill_after(mut child: Child, microseconds: u64) -> Option<i32> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let limit = Timespec {
        tv_sec: i64::try_from(microseconds / 1_000_000).unwrap(),
        tv_nsec: i64::try_from(microseconds % 1_000_000 * 1000).unwrap(),
    };
    // Readable when it ended.
    let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit));
    child.kill().unwrap();
    child.wait().unwrap().code()
}

/// What `look` finds, looked for again and again; in vain after a minute is a failure.
#[track_caller]
pub fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed().as_secs() < 60, "waited in vain");
        std::thread::yield_now();
    }
}
