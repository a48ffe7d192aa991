//! argv in, exit code out; the only place that prints an error.

use std::process::ExitCode;

use coding_agent::cli::{self, Command};
use coding_agent::{commands, sys};

fn main() -> ExitCode {
    let run = || {
        let invocation = cli::parse(std::env::args_os().skip(1))?;
        if let Command::Exec(args) = &invocation.command {
            // 127 is what a shell says when it cannot start a program.
            print_error(&sys::launcher::exec_in_own_session(args));
            return Ok(127);
        }
        sys::process::shut_off_from_others();
        commands::run(&invocation).map(|exit| exit.code())
    };
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_error(&error);
            ExitCode::from(coding_agent::error::Exit::from(error.kind()).code())
        }
    }
}

#[expect(clippy::print_stderr, reason = "an error has to be told somewhere")]
fn print_error(error: &coding_agent::error::Error) {
    eprintln!("coding-agent: {}", coding_agent::text::printable(&format!("{error:#}")));
}
