//! Several processes on one spool.

use crate::support::{Cassette, Ended, World, eventually};

#[test]
fn two_producers_and_eight_consumers_do_fifty_tasks_once_each() {
    let world = World::new();
    world.replies(&Cassette::new().creates("fixed.txt", "fixed\n").finishes("Fixed."));
    let names: Vec<String> = (0..50).map(|number| format!("issue{number:02}")).collect();
    for name in &names {
        world.issue(name, "coding agent");
    }
    let producers: Vec<_> = (0..2).map(|_| world.spawn(&["--mode", "producer"])).collect();
    for producer in producers {
        Ended::from(producer.wait_with_output().unwrap()).expect(0);
    }
    assert_eq!(world.names("spool/queue").len(), 50);
    let consumers: Vec<_> = (0..8).map(|_| world.spawn(&["--mode", "consumer"])).collect();
    for consumer in consumers {
        let ended = Ended::from(consumer.wait_with_output().unwrap()).expect(0);
        assert_eq!(ended.stderr, "");
    }
    world.assert_settled();
    for name in &names {
        assert_eq!(world.labels(name), ["coding agent done"], "{name}");
        assert_eq!(world.final_comments(name), 1, "{name}");
    }
    assert_eq!(world.names("contexts/completed").len(), 50);
    assert_eq!(world.branches().len(), 50);
    assert_eq!(world.query("SELECT count(*) FROM tasks WHERE status = 'completed'"), ["50"]);
    assert_eq!(world.query("SELECT count(*) FROM llm_calls"), ["100"]);
}

#[test]
fn everything_at_once_in_default_mode() {
    let world = World::new();
    world.replies(&Cassette::new().creates("fixed.txt", "fixed\n").finishes("Fixed."));
    for number in 0..10 {
        world.issue(&format!("issue{number}"), "coding agent");
    }
    let runs: Vec<_> = (0..6).map(|_| world.spawn(&[])).collect();
    for run in runs {
        Ended::from(run.wait_with_output().unwrap()).expect(0);
    }
    // Whoever lost the race for the producer lock may have ended before the tasks were there.
    world.run(&[]).expect(0);
    world.assert_settled();
    for number in 0..10 {
        assert_eq!(world.final_comments(&format!("issue{number}")), 1);
    }
    assert_eq!(world.names("contexts/completed").len(), 10);
}

#[test]
fn a_second_consumer_without_a_free_slot_leaves_at_once() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    let config = world.read("config.yaml").replace("max_consumers: 8", "max_consumers: 1");
    world.write("config.yaml", &config);
    world.run(&["--mode", "producer"]).expect(0);
    let slot = std::fs::File::create(world.path("spool/consumer-0.lock")).unwrap();
    slot.lock().unwrap();
    world.run(&["--mode", "consumer"]).expect(0);
    assert_eq!(world.names("spool/queue").len(), 1);
    assert!(world.read("logs/agent.log").contains("all 1 consumer slots are taken"));
    drop(slot);
    // A child of another test may hold a copy of the lock for an instant, between fork and exec.
    eventually(|| {
        world.run(&["--mode", "consumer"]).expect(0);
        world.entries().is_empty().then_some(())
    });
    world.assert_settled();
}

#[test]
fn c47_what_a_lock_file_says_does_not_matter() {
    for content in ["1", "", "garbage", "999999"] {
        let world = World::with_task(&Cassette::new().finishes("x"));
        std::fs::create_dir(world.path("spool")).unwrap();
        for name in ["producer.lock", "consumer-0.lock"] {
            std::fs::write(world.path(format!("spool/{name}")), content).unwrap();
        }
        world.run(&[]).expect(0);
        world.assert_settled();
        assert_eq!(world.labels("fix"), ["coding agent done"], "{content:?}");
    }
}

#[test]
fn c47_a_child_that_outlives_us_does_not_hold_our_locks() {
    // A command that leaves our session keeps running; the mark ends it only when its task is over.
    let world =
        World::with_task(&Cassette::new().runs("setsid sleep 300 > /dev/null 2>&1 & echo $! > ../pid").finishes("x"));
    world.run_to_crash(&[], "loop.turn:2");
    // The sleeper lives, and yet the spool is free: the next run takes the task up at once.
    world.run(&[]).expect(0);
    world.assert_settled();
}

#[test]
fn another_producer_means_exit_0_and_no_new_entries() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    std::fs::create_dir(world.path("spool")).unwrap();
    let lock = std::fs::File::create(world.path("spool/producer.lock")).unwrap();
    lock.lock().unwrap();
    world.run(&["--mode", "producer"]).expect(0);
    world.run(&[]).expect(0);
    assert_eq!(world.entries(), Vec::<String>::new());
    assert_eq!(world.labels("fix"), ["coding agent"]);
    drop(lock);
    eventually(|| {
        world.run(&[]).expect(0);
        (world.labels("fix") == ["coding agent done"]).then_some(())
    });
    world.assert_settled();
}
