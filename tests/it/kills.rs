//! Real SIGKILLs at random instants, again and again, until the work is done.

use crate::support::{Cassette, Random, World, check_strictly, kill_after};

const COMMANDS: usize = 6;
const SEEDS: u64 = 12;

fn cassette() -> Cassette {
    let mut cassette = Cassette::new();
    for number in 0..COMMANDS {
        cassette = cassette.runs(&format!("echo {number} >> ../../../ran; echo {number} > file{number}"));
    }
    cassette.finishes("All of them.")
}

#[test]
fn nothing_is_lost_and_nothing_doubled_by_kills_at_random_instants() {
    let mut kills = 0;
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let world = World::with_task(&cassette());
        world.allow_many_attempts();
        // About as long as a run takes, so that instants before the first turn are hit as well; it
        // grows, so that the end is reached on a busy machine too.
        let mut span_us = 150_000u64;
        let (mut killed, mut whole) = (0, 0);
        loop {
            let code = kill_after(world.spawn(&[]), random.next() % span_us);
            span_us += span_us / 20;
            killed += u32::from(code.is_none());
            whole += u32::from(code.is_some());
            if whole > 5 {
                let (labels, log) = (world.labels("fix"), world.read("logs/agent.log"));
                let state = format!("{:?} {labels:?} {}", world.entries(), world.comments("fix"));
                panic!("seed {seed}: runs that are not killed do not end the work: {code:?} {state}\n{log}");
            }
            // An empty spool and an item out of hand: the work is done.
            if code == Some(0) && world.entries().is_empty() && world.labels("fix") == ["coding agent done"] {
                break;
            }
            assert!(killed < 400, "seed {seed}: it never ends");
        }
        kills += killed;
        let what = format!("seed {seed}, {killed} kills");
        world.clear_temporaries();
        world.assert_settled();
        assert_eq!(world.final_comments("fix"), 1, "{what}: {}", world.comments("fix"));
        assert_eq!(world.branches(), ["coding-agent/issue-fix"], "{what}");
        assert_eq!(world.names("contexts/completed").len(), 1, "{what}");
        assert_eq!(world.query("SELECT status FROM tasks"), ["completed"], "{what}");
        let history = world.history();
        check_strictly(&history);
        assert_eq!(history.replies(), COMMANDS + 1, "{what}");
        let ran = std::fs::read_to_string(world.path("ran")).unwrap_or_default();
        for number in 0..COMMANDS {
            let times = ran.lines().filter(|line| *line == number.to_string()).count();
            let interrupted = history.results()[number].starts_with("Interrupted");
            assert!(times <= 1, "{what}: command {number} ran {times} times");
            if !interrupted {
                assert_eq!(
                    world.file_on("coding-agent/issue-fix", &format!("file{number}")),
                    number.to_string(),
                    "{what}"
                );
            }
        }
    }
    assert!(kills > 12, "only {kills} kills hit");
}
