//! What is done besides at the end and at a pause of a task.

use std::cell::RefCell;

use coding_agent::context::{Hooks, OutcomeFile, TaskContext};
use coding_agent::error::Error;
use coding_agent::task::{Outcome, OutcomeKind};

use crate::support::store::Store;
use crate::support::{Cassette, World};

#[test]
fn they_run_in_order_and_a_failing_one_stops_no_other() {
    let store = Store::new();
    let context = store.create();
    let ran = RefCell::new(Vec::new());
    let note = |what: &'static str| {
        let ran = &ran;
        move |_: &TaskContext, outcome: &OutcomeFile| {
            ran.borrow_mut().push(format!("{what} {}", outcome.outcome.kind.name()));
            Ok(())
        }
    };
    let mut hooks = Hooks::default();
    hooks.on_completion("first", note("first"));
    hooks.on_completion("broken", |context, _| {
        assert_eq!(context.uuid(), store.message.uuid);
        Err(Error::host("the disk is full"))
    });
    hooks.on_completion("last", note("last"));
    hooks.on_stop("stop", note("stop"));
    for kind in [OutcomeKind::Completed, OutcomeKind::Failed, OutcomeKind::Paused, OutcomeKind::Stopped] {
        hooks.run(&context, &OutcomeFile::new(Outcome::of(kind, ""), None));
    }
    let wanted = [
        "first completed",
        "last completed",
        "first failed",
        "last failed",
        "stop paused",
        "first stopped",
        "last stopped",
    ];
    assert_eq!(*ran.borrow(), wanted);
    Hooks::default().run(&context, &OutcomeFile::new(Outcome::of(OutcomeKind::Completed, ""), None));
    assert_eq!(format!("{hooks:?}"), "Hooks { completion: [\"first\", \"broken\", \"last\"], stop: [\"stop\"] }");
}

#[test]
fn the_row_is_written_at_a_pause_and_at_the_end() {
    let pause = "touch ../../../contexts/pause_signal";
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").runs(pause).finishes("Done."));
    world.run(&[]).expect(0);
    let row = "SELECT status || ' ' || total_messages || ' ' || COALESCE(completed_at, '-') FROM tasks";
    assert_eq!(world.query(row), ["paused 6 -"]);
    std::fs::remove_file(world.path("contexts/pause_signal")).unwrap();
    world.run(&[]).expect(0);
    assert!(world.query(row)[0].starts_with("completed 8 20"), "{:?}", world.query(row));
}
