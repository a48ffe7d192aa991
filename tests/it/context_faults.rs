//! Every write of the context directory fails once (case C46): what is read back is the old state
//! or the new one, and work can go on.

use coding_agent::chat::{Message, Role, check_history};
use coding_agent::context::{
    Compressed, CompressionSettings, Compressor, OutcomeFile, Place, Room, Step, TaskContext, shorten,
};
use coding_agent::error::{Kind, Result};
use coding_agent::prompts::Prompts;
use coding_agent::sys::fault::{arm, disarm};
use coding_agent::task::{Outcome, OutcomeKind};
use coding_agent::text::Redactor;
use rustix::io::Errno;

use crate::support::store::{Store, USAGE, call, contents, fill, record};
use crate::support::summarizer::Summarizer;
use crate::support::{History, check_strictly};

/// Lets the n-th operation fail for every n until the work is done without reaching it. Returns
/// how many ways there were to fail.
#[track_caller]
fn for_every_fault(mut scene: impl FnMut(&mut dyn FnMut(&mut dyn FnMut() -> Result<()>) -> bool)) -> u64 {
    for nth in 1..100 {
        let mut reached = false;
        scene(&mut |work| {
            arm(nth, if nth % 2 == 0 { Errno::NOSPC } else { Errno::IO }.raw_os_error());
            let done = work();
            reached = disarm();
            match &done {
                Err(error) => {
                    assert!(reached, "{error:#}");
                    assert_eq!(error.kind(), Kind::Host);
                    assert!(error.sentence().starts_with("cannot "), "{error}");
                    let is_full = error.sentence().ends_with(": the disk is full");
                    assert_eq!(is_full, nth % 2 == 0, "{error}");
                }
                Ok(()) => assert!(!reached, "fault {nth} was swallowed"),
            }
            done.is_ok()
        });
        if !reached {
            return nth - 1;
        }
    }
    panic!("no end of faults");
}

#[test]
fn c46_adding_a_message() {
    for role in [Role::Assistant, Role::User] {
        let faults = for_every_fault(|attempt| {
            let store = Store::new();
            let mut context = store.create();
            fill(&mut context);
            let added = match role {
                Role::Assistant => Message::assistant("", vec![call(2, 0)]),
                _ => Message::text(role, "more"),
            };
            let done = attempt(&mut || context.messages.add(added.clone(), USAGE).map(drop));
            drop(context);

            let mut context = store.resume();
            let is_new = context.messages.current().len() == contents().len() + 1;
            assert!(is_new || !done, "what was promised is there");
            let mut expected = contents();
            expected.extend(is_new.then(|| added.clone()));
            assert_eq!(context.messages.current(), expected);
            assert_eq!(context.messages.count_messages(), expected.len() as u64);
            if !is_new {
                context.messages.add(added.clone(), USAGE).unwrap();
            }
            match role {
                Role::Assistant => context.messages.add(Message::tool_result(&call(2, 0), "x"), None).unwrap(),
                _ => context.messages.add(Message::text(role, "again"), None).unwrap(),
            };
            assert_eq!(check_history(context.messages.current()), Ok(()));
            for name in ["messages.jsonl", "current.jsonl"] {
                check_strictly(&History::read(&store.file(name)));
            }
        });
        assert_eq!(faults, if role == Role::Assistant { 3 } else { 2 }, "two writes, and a sync for a reply");
    }
}

#[test]
fn c46_recording_a_tool_call() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let mut context = store.create();
        fill(&mut context);
        let done = attempt(&mut || record(&mut context, "second").map(drop));
        // No need to open it again: the file is as it was.
        assert_eq!(record(&mut context, "third").unwrap(), if done { 3 } else { 2 });
        drop(context);
        let context = store.resume();
        let commands: Vec<&str> = context.tools.recent_commands().map(|command| command.command.as_str()).collect();
        assert_eq!(commands, if done { vec!["true", "second", "third"] } else { vec!["true", "third"] });
    });
    assert_eq!(faults, 1);
}

#[test]
fn c46_saving_an_outcome() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let context = store.create();
        let old = OutcomeFile::new(Outcome::completed("old"), None);
        old.save(context.dir()).unwrap();
        let new = OutcomeFile { steps_done: vec![Step::Push.name().into()], sha: Some("abc".into()), ..old.clone() };
        let done = attempt(&mut || new.save(context.dir()));
        let found = OutcomeFile::load(context.dir()).unwrap().unwrap();
        assert!(found == new || (found == old && !done));
        new.save(context.dir()).unwrap();
        assert!(OutcomeFile::load(context.dir()).unwrap().unwrap().is_done(Step::Push));
        let left: Vec<_> = std::fs::read_dir(context.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
    });
    assert!(faults >= 4, "create, write, sync, rename: {faults}");
}

#[test]
fn c46_making_a_context() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let done = attempt(&mut || store.contexts().create(store.metadata()).map(drop));
        let place = store.contexts().find(store.message.uuid);
        let mut context = match place {
            Place::Nowhere => store.create(),
            Place::Running => store.resume(),
            other => panic!("{other:?}"),
        };
        assert!(place == Place::Running || !done);
        fill(&mut context);
        assert_eq!(context.messages.current(), contents());
        assert_eq!(store.contexts().unfinished_tasks().unwrap(), std::slice::from_ref(&store.message));
    });
    assert!(faults >= 5, "{faults}");
}

#[test]
fn c46_resuming_a_paused_task() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let mut context = store.create();
        fill(&mut context);
        OutcomeFile::new(Outcome::of(OutcomeKind::Paused, "signal"), None).save(context.dir()).unwrap();
        context.leave(OutcomeKind::Paused).unwrap();
        let done = attempt(&mut || store.contexts().resume(&store.message).map(drop));
        let place = store.contexts().find(store.message.uuid);
        assert!(place == Place::Running || (place == Place::Paused && !done), "{place:?}");
        // In running/ the old decision would end the task at once.
        let decided = OutcomeFile::load(&store.path("running")).unwrap();
        assert_eq!(decided, None);
        assert!(!(store.path("running").exists() && store.path("paused").exists()), "in one place");
        let mut context = store.resume();
        assert_eq!(context.messages.current(), contents());
        record(&mut context, "again").unwrap();
    });
    assert!(faults >= 6, "{faults}");
}

/// Compresses everything but the last turn.
fn compress(context: &mut TaskContext) -> Result<Compressed> {
    let prompts = Prompts::load(None)?;
    let settings = CompressionSettings { threshold_tokens: 1, keep_recent: 1, min_to_compress: 1 };
    let room = Room { tail_tokens: 1000, request_tokens: 10_000 };
    let mut llm = Summarizer::new([]);
    Compressor { llm: &mut llm, prompts: &prompts, redactor: &Redactor::new([]), settings }.compress(context, room)
}

/// The made-up task with a turn of long results before its last one.
fn fill_long(context: &mut TaskContext) -> Vec<Message> {
    let long = call(7, 0);
    let more = [
        Message::assistant("", vec![long.clone()]),
        Message::tool_result(&long, "long ".repeat(500)),
        Message::assistant("", vec![call(8, 0)]),
        Message::tool_result(&call(8, 0), "short"),
    ];
    fill(context);
    for message in &more {
        context.messages.add(message.clone(), None).unwrap();
    }
    [contents(), more.to_vec()].concat()
}

#[test]
fn c46_compressing() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let mut context = store.create();
        let old = fill_long(&mut context);
        let archive = std::fs::read(store.file("messages.jsonl")).unwrap();
        let done = attempt(&mut || compress(&mut context).map(|done| assert!(matches!(done, Compressed::Saved(_)))));
        drop(context);

        let mut context = store.resume();
        let current = context.messages.current().to_vec();
        let is_new = current.len() == 2 + 1 + 2;
        assert!(is_new || (current == old && !done), "the old state or the new one");
        assert!(!is_new || (current[..2] == old[..2] && current[3..] == old[9..]));
        assert!(!is_new || context.summaries.count_summaries() == 1, "written before it is used");
        assert_eq!(std::fs::read(store.file("messages.jsonl")).unwrap(), archive);
        let left: Vec<_> = std::fs::read_dir(context.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let known = |name: &str| {
            ["messages.jsonl", "current.jsonl", "summaries.jsonl", "tools.jsonl", "planning.jsonl", "metadata.json"]
                .contains(&name)
        };
        assert!(left.iter().all(|name| known(&name.to_string_lossy())), "{left:?}");
        if !is_new {
            assert!(matches!(compress(&mut context).unwrap(), Compressed::Saved(_)));
        }
        context.messages.add(Message::text(Role::User, "more"), None).unwrap();
        assert_eq!(check_history(context.messages.current()), Ok(()));
        assert_eq!(context.messages.current().len(), 6);
    });
    assert!(faults >= 14, "three temporaries, the summary, what is sent, and all that is removed: {faults}");
}

#[test]
fn c46_shortening() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let mut context = store.create();
        let old = fill_long(&mut context);
        let done = attempt(&mut || shorten(&mut context, u64::MAX).map(drop));
        drop(context);
        let context = store.resume();
        let is_old = context.messages.current() == old;
        assert!(!(is_old && done));
        assert!(is_old || context.messages.current()[8].content.contains("characters left out"));
        assert_eq!(check_history(context.messages.current()), Ok(()));
    });
    assert!(faults >= 4, "{faults}");
}

#[test]
fn c46_adding_a_plan() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        let mut context = store.create();
        let done = attempt(&mut || context.planning.add_plan("initial", "x").map(drop));
        assert_eq!(store.resume().planning.count_plans(), usize::from(done));
    });
    assert_eq!(faults, 2, "the write and its sync");
}

#[test]
fn c46_leaving() {
    for kind in [OutcomeKind::Completed, OutcomeKind::Paused] {
        let faults = for_every_fault(|attempt| {
            let store = Store::new();
            let mut context = store.create();
            fill(&mut context);
            let mut context = Some(context);
            let done = attempt(&mut || context.take().unwrap().leave(kind));
            let wanted = if kind == OutcomeKind::Paused { Place::Paused } else { Place::Completed };
            let place = store.contexts().find(store.message.uuid);
            assert!(place == wanted || (place == Place::Running && !done), "{place:?}");
            if place == Place::Running {
                store.resume().leave(kind).unwrap();
            }
            assert_eq!(store.contexts().find(store.message.uuid), wanted);
        });
        assert!(faults >= 3, "{faults}");
    }
}

#[test]
fn c46_mending_a_torn_end() {
    let faults = for_every_fault(|attempt| {
        let store = Store::new();
        fill(&mut store.create());
        let path = store.file("messages.jsonl");
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        attempt(&mut || store.contexts().resume(&store.message).map(drop));
        let context = store.resume();
        assert_eq!(context.messages.current(), contents());
        check_strictly(&History::read(&path));
    });
    assert!(faults >= 5, "{faults}");
}
