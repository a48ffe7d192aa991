//! `doctor`: whether all is ready for work, before the first timer. One line for each thing, with what
//! to do; nothing is changed, here or elsewhere. A bad thing does not keep the others from being looked
//! at, and what depends on it is said to be skipped.

mod forge;
mod host;
mod mcp;
mod model;
mod user_config;

use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::{Value, json};

use super::print;
use super::setup::Setup;
use crate::config::Config;
use crate::error::{Exit, Result};
use crate::ports::{Finding, FindingState};
use crate::prompts::Prompts;
use crate::text::{Paint, Redactor, Style, printable_json, printable_line};

/// Longest time for one question to a server, the model's answer left out.
const SERVER_SECONDS: u64 = 10;

/// Looks at everything and says what is found.
///
/// # Errors
/// None of what is found is one: the exit code tells.
pub fn doctor(config_path: Option<&Path>, as_json: bool) -> Result<Exit> {
    let env = |name: &str| std::env::var(name).ok();
    let mut report = Report::new(as_json);
    let loaded = Config::load(config_path, &env);
    report.tell(host::configuration(&loaded, config_path, &env));
    let Ok(config) = loaded else {
        for name in ["directories", "git", "sandbox", "forge", "model"] {
            report.tell(Finding::skipped(name, "the configuration cannot be used"));
        }
        return Ok(report.end());
    };
    report.redactor = Redactor::new(config.secrets());
    let prompts = Prompts::load(config.prompts_dir.as_deref());
    report.tell_all(host::prompts(&prompts, &config));
    // With bad ones the rest can be looked at all the same.
    let prompts = prompts.or_else(|_| Prompts::load(None))?;
    let mut setup = Setup::with_prompts(config, report.redactor.clone(), prompts);
    // What is looked at is how things are now.
    setup.forget_budget();
    setup.forge_timeout_seconds = SERVER_SECONDS;
    report.tell_all(host::certificates(&setup.config));
    host::directories(&setup.config).for_each(|finding| report.tell(finding));
    report.tell_all(host::queue(&setup.config));
    report.tell_all(host::pause_signal(&setup));
    report.tell_all(host::database(&setup.config));
    report.tell(host::git(&setup));
    report.tell(host::sandbox(&setup.config));
    let bot = forge::look(&setup, &mut |finding| report.tell(finding));
    let window_tokens = model::look(&setup, &mut |finding| report.tell(finding));
    report.tell_all(mcp::left_out(config_path, &env, &setup.config));
    mcp::look(&setup, window_tokens, &mut |finding| report.tell(finding));
    report.tell_all(user_config::look(&setup, bot.as_deref(), window_tokens));
    Ok(report.end())
}

/// What was found so far; as text it is shown at once, since single steps take their time.
struct Report {
    as_json: bool,
    paint: Paint,
    redactor: Redactor,
    findings: Vec<Finding>,
}

impl Report {
    fn new(as_json: bool) -> Self {
        let env = |name: &str| std::env::var_os(name);
        let is_terminal = std::io::stdout().is_terminal();
        let paint = Paint::for_terminal(is_terminal, env("NO_COLOR").as_deref(), env("TERM").as_deref());
        Self { as_json, paint, redactor: Redactor::default(), findings: Vec::new() }
    }

    fn tell_all(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.tell(finding));
    }

    fn tell(&mut self, finding: Finding) {
        let fit = |text: &str| printable_line(&self.redactor.mask(text)).into_owned();
        let finding = Finding {
            name: fit(&finding.name),
            state: finding.state,
            finding: fit(&finding.finding),
            remedy: finding.remedy.as_deref().map(fit),
        };
        if !self.as_json {
            let (mark, style) = match finding.state {
                FindingState::Good => ("ok", Style::Good),
                FindingState::Skipped => ("skipped", Style::Faint),
                FindingState::Warning => ("warning", Style::Bad),
                FindingState::Bad => ("bad", Style::Bad),
            };
            let mark = self.paint.paint(style, &format!("{mark:<8}")).into_owned();
            let remedy = finding.remedy.as_ref().map(|remedy| format!("         do: {remedy}\n"));
            show(&format!("{mark} {}: {}\n{}", finding.name, finding.finding, remedy.unwrap_or_default()));
        }
        self.findings.push(finding);
    }

    /// The last word, and what it means for the exit code.
    fn end(self) -> Exit {
        let count = |state| self.findings.iter().filter(|finding| finding.state == state).count();
        let (bad, warnings) = (count(FindingState::Bad), count(FindingState::Warning));
        let (verdict, exit) = match (bad, warnings) {
            (0, 0) => ("All is ready.".to_owned(), Exit::Done),
            (0, warnings) => (format!("It works; warnings: {warnings}."), Exit::TaskFailed),
            (bad, _) => (format!("It cannot work as it is; bad: {bad}, warnings: {warnings}."), Exit::Host),
        };
        if self.as_json {
            let checks = self.findings.iter().map(as_value).collect::<Vec<Value>>();
            let report = json!({ "version": 1, "ready": bad == 0, "checks": checks });
            print(&printable_json(&format!("{report:#}\n")));
        } else {
            show(&format!("{verdict}\n"));
        }
        exit
    }
}

fn as_value(finding: &Finding) -> Value {
    json!({
        "name": finding.name, "state": finding.state.name(), "finding": finding.finding, "remedy": finding.remedy,
    })
}

/// Prints what was made fit for a terminal already, colours included.
fn show(text: &str) {
    use std::io::Write as _;
    // A reader that went away (`| head`) is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
