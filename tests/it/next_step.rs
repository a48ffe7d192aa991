//! What comes next, read from the history: the table, and every way a history can be cut off.

use coding_agent::chat::{Message, Role, ToolCall, check_history};
use coding_agent::handler::{NextStep, next_step};
use coding_agent::task::{Outcome, OutcomeKind};

use crate::support::Random;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), extra: None }
}

fn run(id: &str) -> ToolCall {
    call(id, "run", "{}")
}

fn finish(id: &str) -> ToolCall {
    call(id, "finish", r#"{"status":"done","summary":"did it"}"#)
}

fn asks(calls: &[&ToolCall]) -> Message {
    Message::assistant("", calls.iter().copied().cloned().collect())
}

fn answers(call: &ToolCall) -> Message {
    Message::tool_result(call, "text")
}

fn says(role: Role, text: &str) -> Message {
    Message::text(role, text)
}

#[test]
fn table() {
    let (a, b, end) = (run("a"), run("b"), finish("f"));
    let blocked = call("f", "finish", r#"{"status":"blocked","summary":"no key"}"#);
    let bad = call("f", "finish", "{}");
    let odd = call("f", "finish", r#"{"status":"maybe","summary":"x"}"#);
    let begin = [says(Role::System, "s"), says(Role::User, "u")];
    let after = |more: &[Message]| next_step(&[&begin, more].concat());
    let text = says(Role::Assistant, " All well. ");
    let reminder = says(Role::User, "call a tool");
    let done = || Outcome::completed("did it");

    assert_eq!(next_step(&[]), NextStep::Ask);
    assert_eq!(after(&[]), NextStep::Ask);
    assert_eq!(after(&[asks(&[&a])]), NextStep::Answer(vec![a.clone()]));
    assert_eq!(after(&[asks(&[&a, &b]), answers(&a)]), NextStep::Answer(vec![b.clone()]));
    assert_eq!(after(&[asks(&[&a, &b]), answers(&a), answers(&b)]), NextStep::Ask);
    // Text alone: a reminder, then it counts.
    assert_eq!(after(std::slice::from_ref(&text)), NextStep::Remind);
    assert_eq!(after(&[text.clone(), reminder.clone()]), NextStep::Ask);
    let twice = [text.clone(), reminder.clone(), text.clone()];
    assert_eq!(after(&twice), NextStep::Finish(Outcome::completed("All well."), None));
    // A call between the two starts again.
    let called = [text.clone(), reminder, asks(&[&a]), answers(&a), text];
    assert_eq!(after(&called), NextStep::Remind);
    // Finish alone ends the task, with or without its result.
    assert_eq!(after(&[asks(&[&end])]), NextStep::Finish(done(), Some(end.clone())));
    assert_eq!(after(&[asks(&[&end]), answers(&end)]), NextStep::Finish(done(), None));
    let NextStep::Finish(outcome, Some(_)) = after(&[asks(&[&blocked])]) else { panic!("blocked ends the task") };
    assert_eq!((outcome.kind, outcome.summary.as_str()), (OutcomeKind::Failed, "no key"));
    // Finish with other calls, or with bad arguments, does not.
    let both = [asks(&[&a, &end])];
    assert_eq!(after(&both), NextStep::Answer(vec![a, end]));
    assert_eq!(after(&[asks(&[&bad])]), NextStep::Answer(vec![bad.clone()]));
    assert_eq!(after(&[asks(&[&bad]), answers(&bad)]), NextStep::Ask);
    assert_eq!(after(&[asks(&[&odd])]), NextStep::Answer(vec![odd]));
}

#[test]
fn an_answer_cut_off_or_empty_never_counts_as_done() {
    let begin = [says(Role::User, "u")];
    let reminder = says(Role::User, "call a tool");
    let cut = coding_agent::handler::cut_text("I will now wri");
    assert!(cut.starts_with("I will now wri"));
    let whole = "All well.";
    for (first, second) in [(cut.as_str(), cut.as_str()), (whole, &cut), (&cut, whole)] {
        let history = [says(Role::Assistant, first), reminder.clone(), says(Role::Assistant, second)];
        assert_eq!(next_step(&[&begin[..], &history].concat()), NextStep::Remind, "{first:?}, {second:?}");
    }
    let nothing = coding_agent::handler::NO_ANSWER;
    let history = [says(Role::Assistant, nothing), reminder, says(Role::Assistant, nothing)];
    let NextStep::Finish(outcome, None) = next_step(&[&begin[..], &history].concat()) else { panic!("ends") };
    assert_eq!(outcome, Outcome::failed("the model gave no answer, twice in a row"));
}

/// A random history as the loop writes it: valid at each of its ends of a turn.
fn random_history(random: &mut Random) -> Vec<Message> {
    let mut history = vec![says(Role::System, "s"), says(Role::User, "u")];
    for turn in 0..1 + random.below(6) {
        let calls: Vec<ToolCall> = (0..random.below(4)).map(|index| run(&format!("c{turn:05}{index:03}"))).collect();
        match random.below(8) {
            0 => {
                let end = finish(&format!("c{turn:05}000"));
                history.extend([asks(&[&end]), answers(&end)]);
                break;
            }
            1 => {
                let bad = call(&format!("c{turn:05}000"), "finish", "{}");
                history.extend([asks(&[&bad]), answers(&bad)]);
            }
            _ if calls.is_empty() => history.extend([says(Role::Assistant, "text"), says(Role::User, "remind")]),
            _ => {
                history.push(asks(&calls.iter().collect::<Vec<_>>()));
                history.extend(calls.iter().map(answers));
            }
        }
    }
    history
}

#[test]
fn property_a_history_cut_anywhere_leads_to_a_valid_request() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let whole = random_history(&mut random);
        for cut in 2..=whole.len() {
            let mut history = whole[..cut].to_vec();
            // What the rules add; each step must bring the history nearer to a request or an end.
            for step in 0.. {
                assert!(step < 3, "goes round in circles: {history:?}");
                match next_step(&history) {
                    NextStep::Ask => {
                        assert_eq!(check_history(&history), Ok(()), "{history:?}");
                        break;
                    }
                    NextStep::Remind => history.push(says(Role::User, "remind")),
                    NextStep::Answer(calls) => {
                        assert!(!calls.is_empty());
                        // Only what has no result: nothing is answered, or run, twice.
                        let answered = |call: &ToolCall| {
                            history.iter().any(|message| message.tool_call_id.as_ref() == Some(&call.id))
                        };
                        assert!(!calls.iter().any(answered));
                        history.extend(calls.iter().map(answers));
                    }
                    NextStep::Finish(outcome, unanswered) => {
                        assert_eq!(outcome.kind, OutcomeKind::Completed);
                        history.extend(unanswered.iter().map(answers));
                        // Still an end when it is read again, after a crash in finishing.
                        assert_eq!(next_step(&history), NextStep::Finish(outcome, None));
                        let last_is_text = history.last().is_some_and(|last| last.role == Role::Assistant);
                        assert_eq!(check_history(&history).is_ok(), !last_is_text);
                        break;
                    }
                }
            }
        }
    }
}
