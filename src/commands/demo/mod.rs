//! `demo`: the whole job, offline, on a repository and an issue made here, with a recorded model.
//! It types the commands a person would type and shows what they leave behind.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::print;
use crate::error::{Error, Exit, Result};
use crate::sys::file;
use crate::sys::process::Program;

/// A directory with this file was made by an earlier demo and may be removed.
const MARK: &str = ".coding-agent-demo";
const BRANCH: &str = "coding-agent/issue-add-subtracts";

/// Makes the demo below `dir` and shows it.
pub fn demo(dir: &Path) -> Result<Exit> {
    let dir = std::path::absolute(dir).map_err(|source| file::error("use", dir, source))?;
    if dir.exists() {
        if !dir.join(MARK).exists() {
            return Err(Error::usage(format!("`{}` exists and was not made by a demo", dir.display()))
                .hint("name another directory: `coding-agent demo DIR`"));
        }
        file::remove_dir(&dir)?;
    }
    let demo = Demo { dir };
    if let Err(error) = demo.make() {
        // Half of one is of no use to anybody, and has no mark yet perhaps.
        file::remove_dir(&demo.dir)?;
        return Err(error);
    }
    demo.say(&format!("A small repository and an issue, made in {}. The issue:", demo.dir.display()));
    demo.show_file(&demo.issue())?;
    demo.say("The producer looks for labelled issues and queues them:");
    demo.agent(&["--mode", "producer", "--verbose"])?;
    demo.say("What waits now:");
    demo.agent(&["status"])?;
    demo.say("The consumer works on it, here with a recorded model:");
    let worked = demo.agent(&["--mode", "consumer", "--verbose"])?;
    demo.say(&format!("What the branch {BRANCH} holds now:"));
    demo.git(&["--no-pager", "log", "--oneline", &format!("HEAD..{BRANCH}")])?;
    demo.git(&["--no-pager", "diff", &format!("HEAD...{BRANCH}")])?;
    demo.say("The issue's labels and the comment people see:");
    demo.show_labels()?;
    demo.show_file(&demo.dir.join("tasks/add-subtracts.comments.md"))?;
    demo.say("Where everything lies:");
    demo.show_places()?;
    let code = if worked { Exit::Done } else { Exit::TaskFailed };
    Ok(code)
}

struct Demo {
    dir: PathBuf,
}

impl Demo {
    fn make(&self) -> Result<()> {
        for name in ["tasks", "widgets"] {
            file::create_dir(&self.dir.join(name))?;
        }
        let files = [
            (MARK, "Made by `coding-agent demo`; the next demo removes this directory.\n"),
            ("config.yaml", include_str!("config.yaml")),
            ("replies.jsonl", include_str!("replies.jsonl")),
            ("tasks/add-subtracts.md", include_str!("issue.md")),
            ("widgets/add.sh", "# Prints the sum of two numbers.\necho $(($1 - $2))\n"),
            ("widgets/test.sh", include_str!("test.sh")),
        ];
        for (name, text) in files {
            file::replace_keeping_mode(&self.dir.join(name), text.as_bytes())?;
        }
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "Add and its test"],
        ] {
            let finished = self.program("git", args, "widgets").run()?;
            if !finished.succeeded() {
                let said = finished.stderr.to_text();
                return Err(Error::host(format!("cannot make the demo repository: git says: {}", said.trim()))
                    .hint("install git 2.32 or later"));
            }
        }
        Ok(())
    }

    fn issue(&self) -> PathBuf {
        self.dir.join("tasks/add-subtracts.md")
    }

    /// Runs ourselves as a person would; `true` when it ended well.
    fn agent(&self, args: &[&str]) -> Result<bool> {
        print(&format!("$ coding-agent {}\n", args.join(" ")));
        let own =
            std::env::current_exe().map_err(|source| Error::host("cannot find this program").caused_by(source))?;
        let mut program = self.program("", args, ".");
        program.program = own.into();
        program.run_visibly()
    }

    fn git(&self, args: &[&str]) -> Result<bool> {
        let shown: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--no-pager").collect();
        print(&format!("$ git -C widgets {}\n", shown.join(" ")));
        self.program("git", args, "widgets").run_visibly()
    }

    fn program(&self, program: &str, args: &[&str], dir: &str) -> Program {
        // A person's own git configuration or agent settings must not change what is shown.
        let mut env: Vec<(String, OsString)> = vec![
            ("LC_ALL".into(), "C.UTF-8".into()),
            ("HOME".into(), self.dir.clone().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ];
        env.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
        for role in ["AUTHOR", "COMMITTER"] {
            env.push((format!("GIT_{role}_NAME"), "alice".into()));
            env.push((format!("GIT_{role}_EMAIL"), "alice@localhost".into()));
        }
        Program {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            env,
            dir: self.dir.join(dir),
            timeout: None,
            output_limit_bytes: 1 << 20,
            ends_with_us: false,
        }
    }

    fn say(&self, text: &str) {
        print(&format!("\n== {text}\n\n"));
    }

    fn show_file(&self, path: &Path) -> Result<()> {
        let bytes = file::read(path)?.ok_or_else(|| Error::bug(format!("`{}` is missing", path.display())))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
        print(&lines);
        Ok(())
    }

    fn show_labels(&self) -> Result<()> {
        let bytes = file::read(&self.issue())?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let labels = text.lines().find(|line| line.starts_with("labels:")).unwrap_or("labels:");
        print(&format!("    {labels}\n\n"));
        Ok(())
    }

    fn show_places(&self) -> Result<()> {
        let completed = self.dir.join("contexts/completed");
        let uuid = file::names(&completed)?.into_iter().next().unwrap_or_default();
        let places = [
            (format!("contexts/completed/{uuid}/messages.jsonl"), "every message of the conversation"),
            (format!("contexts/completed/{uuid}/tools.jsonl"), "every tool call with its result"),
            (format!("contexts/completed/{uuid}/outcome.json"), "how it ended, and which steps were done"),
            ("contexts/tasks.db".to_owned(), "one row per task and per model call (sqlite3)"),
            ("logs/agent.log".to_owned(), "the log"),
            ("spool/queue".to_owned(), "what waits (nothing now)"),
            ("tasks".to_owned(), "the issues and their comments"),
            ("widgets".to_owned(), "the repository with the pushed branch"),
            ("config.yaml".to_owned(), "the configuration of this demo, to start your own from"),
        ];
        for (path, what) in places {
            let missing = if self.dir.join(&path).exists() { "" } else { "  (missing!)" };
            print(&format!("    {path}\n        {what}{missing}\n"));
        }
        print(&format!("\nAll of it is in {}. `coding-agent demo` makes it anew.\n", self.dir.display()));
        Ok(())
    }
}
