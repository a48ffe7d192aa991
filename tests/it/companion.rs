//! A child that is talked to line by line: what comes through, whole, cut or not at all.

use std::time::{Duration, Instant};

use coding_agent::sys::companion::{Companion, NoLine};
use coding_agent::sys::process::{Ending, Program, use_launcher};

use crate::support::{BINARY, Random};

fn start(command: &str, line_limit_bytes: usize) -> Companion {
    use_launcher(BINARY);
    let program = Program {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), command.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        dir: "/".into(),
        timeout: None,
        output_limit_bytes: 0,
        ends_with_us: true,
    };
    Companion::start(&program, line_limit_bytes, |_| {}).unwrap()
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn what_is_written_to_an_echo_comes_back() {
    let mut echo = start("exec cat", 1 << 20);
    let mut random = Random::new(7);
    for _ in 0..50 {
        // All bytes but the one that ends a line, in lines from none to more than a pipe holds.
        let most = [3, 100, 70_000, 300_000][random.below(4)];
        let length = random.below(most);
        let line: Vec<u8> =
            (0..length).map(|_| random.next() as u8).map(|byte| if byte == b'\n' { 0 } else { byte }).collect();
        echo.write_line(&line, in_time()).unwrap();
        assert!(echo.read_line(in_time()) == Ok(line), "{length} bytes");
    }
    assert_eq!(echo.read_line(Instant::now()), Err(NoLine::TimedOut));
    echo.end();
}

#[test]
fn a_line_that_is_too_long_is_dropped_and_the_next_one_comes() {
    let mut child = start(
        "printf '0123456789\\n0123456789a\\nb\\n\\n0123456789%s\\nlast' \"$(seq 100000 | tr -d '\\n')\"; exit 3",
        10,
    );
    let mut lines = Vec::new();
    let end = loop {
        match child.read_line(in_time()) {
            Ok(line) => lines.push(String::from_utf8(line).unwrap()),
            Err(NoLine::TooLong) => lines.push("too long".into()),
            Err(end) => break end,
        }
    };
    assert_eq!(lines, ["0123456789", "too long", "b", "", "too long", "last"]);
    assert_eq!(end, NoLine::Ended(Some(Ending::Code(3))));
    // It stays that way, and nobody hears us any more.
    assert_eq!(child.read_line(in_time()), Err(end));
    assert_eq!(child.write_line(b"hello", in_time()), Err(end));
}

#[test]
fn a_child_that_does_not_read_costs_no_more_than_the_deadline() {
    let mut child = start("exec sleep 600", 100);
    let large = vec![b'x'; 1 << 20];
    assert_eq!(child.write_line(&large, Instant::now() + Duration::from_millis(100)), Err(NoLine::TimedOut));
}

#[test]
fn empty_lines_that_nobody_takes_do_not_fill_the_memory() {
    let mut child = start("head -c 3000000 /dev/zero | tr '\\0' '\\n'; sleep 600", 1 << 20);
    // More than a pipe holds, for a child that does not read: we serve its pipes and take nothing.
    let soon = Instant::now() + Duration::from_secs(2);
    assert_eq!(child.write_line(&vec![b'x'; 1 << 20], soon), Err(NoLine::TimedOut));
    let waiting = std::iter::from_fn(|| child.read_line(soon).ok()).count();
    // An entry of the list is larger than the line it stands for; one read more may come on top.
    assert!((1..200_000).contains(&waiting), "{waiting} lines");
}
