//! The use cases, and the only place where concrete adapters are chosen and wired.

mod consume;
mod demo;
mod doctor;
mod figures;
mod forges;
mod gc;
mod models;
mod produce;
mod sandbox;
mod setup;
mod show;
mod status;
mod task_tools;
mod user_config;

use crate::cli::{Command, Invocation, Mode};
use crate::config::Config;
use crate::error::{Error, Exit, Result};
use crate::logging::{self, LogSettings};
use crate::sys::signal;
use crate::text::{Redactor, printable};

use setup::Setup;

/// Carries out what was typed.
///
/// # Errors
/// Of the kind that decides the exit code.
pub fn run(invocation: &Invocation) -> Result<Exit> {
    match &invocation.command {
        Command::Print(text) => {
            print(text);
            Ok(Exit::Done)
        }
        Command::Demo { dir } => demo::demo(dir),
        Command::Status { json } => {
            let (config, redactor) = load(invocation)?;
            print(&redactor.mask(&status::status(&config, *json)?));
            Ok(Exit::Done)
        }
        Command::Doctor { json } => doctor::doctor(invocation.config.as_deref(), *json),
        Command::Show { task, json, full } => {
            let (config, redactor) = load(invocation)?;
            show::show(&config, &redactor, task, show::Form { json: *json, full: *full })
        }
        Command::Gc { dry_run, rebuild_db } => {
            let (config, redactor) = load(invocation)?;
            let options = gc::GcOptions { dry_run: *dry_run, rebuild_db: *rebuild_db };
            let report = gc::gc(&config, options)?
                .ok_or_else(|| Error::later("another run removes what is old just now").hint("try again later"))?;
            print(&redactor.mask(&report.text(*dry_run)));
            Ok(report.exit())
        }
        Command::Run(mode) => {
            let (config, redactor) = load(invocation)?;
            if invocation.continuous {
                return Err(Error::host("this version cannot run with --continuous yet")
                    .hint("start it from a systemd timer or from cron"));
            }
            signal::listen()?;
            let log = LogSettings { path: &config.logs, debug: config.debug, verbose: invocation.verbose };
            logging::start(&log, &redactor)?;
            let setup = Setup::new(config, redactor)?;
            let exit = work(&setup, *mode);
            setup.save_budget(false);
            gc::gc_when_due(&setup.config);
            exit
        }
        Command::Exec(_) => Err(Error::bug("`__exec` is handled by main")),
    }
}

fn load(invocation: &Invocation) -> Result<(Config, Redactor)> {
    let config = Config::load(invocation.config.as_deref(), &|name| std::env::var(name).ok())?;
    let redactor = Redactor::new(config.secrets());
    Ok((config, redactor))
}

fn work(setup: &Setup, mode: Mode) -> Result<Exit> {
    if setup.is_paused() {
        log::info!("the pause signal is up: nothing is done");
        return Ok(Exit::Done);
    }
    let mut queue = setup.queue(mode)?;
    let produced = match mode {
        Mode::Consumer => Exit::Done,
        Mode::Producer => return produce::produce(setup, queue.as_mut()),
        // What waits is worked on even when nothing new can be fetched.
        Mode::Both => produce::produce(setup, queue.as_mut()).unwrap_or_else(|error| {
            log::error!("{error:#}");
            Exit::from(error.kind())
        }),
    };
    let consumed = consume::consume(setup, queue.as_mut());
    if produced == Exit::Done {
        return consumed;
    }
    Ok(produced.worse(consumed.unwrap_or_else(|error| {
        log::error!("{error:#}");
        Exit::from(error.kind())
    })))
}

/// Prints to stdout; what foreign text would do to a terminal is made visible.
fn print(text: &str) {
    use std::io::Write as _;
    // A reader that went away (`| head`) is no error.
    let _ = std::io::stdout().write_all(printable(text).as_bytes());
}
