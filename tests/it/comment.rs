//! The body of a comment for any facts and any words (case C23): within the limit, with every fact and
//! the marker, and nothing left open before it.

use coding_agent::context::{OutcomeFile, TaskContext};
use coding_agent::handler::{CommentFacts, marker};
use coding_agent::ports::ModelProfile;
use coding_agent::prompts::Prompts;
use coding_agent::task::{Labels, Outcome, OutcomeKind};

use crate::support::Random;
use crate::support::store::{self, Store};

fn body(context: &TaskContext, outcome: &OutcomeFile, body_limit_chars: usize) -> String {
    let labels = Labels {
        bot: "coding agent".into(),
        processing: "p".into(),
        done: "d".into(),
        failed: "f".into(),
        paused: "z".into(),
        stopped: "s".into(),
    };
    let model = ModelProfile {
        provider: "replay".into(),
        model: "model".into(),
        context_tokens: 8_000,
        max_output_tokens: None,
    };
    let prompts = Prompts::load(None).unwrap();
    let (prompts, labels, model) = (&prompts, &labels, &model);
    CommentFacts {
        prompts,
        context,
        outcome,
        model,
        labels,
        has_commands: true,
        estimated_usage: None,
        body_limit_chars,
    }
    .body("final")
}

fn outcome(kind: OutcomeKind, reason: &str, summary: &str) -> OutcomeFile {
    let outcome = Outcome { kind, reason: reason.to_owned(), summary: summary.to_owned() };
    OutcomeFile::new(outcome, Some("final".into()))
}

#[test]
fn facts_show_commands_and_sentences_as_they_are() {
    let store = Store::new();
    let mut context = store.create();
    store::record(&mut context, "echo `id` '\n'").unwrap();
    store::record(&mut context, &"語".repeat(1_000)).unwrap();
    let mut outcome = outcome(OutcomeKind::Completed, "", "All `good`.\n\n- [x] done");
    outcome.branch = Some("fix/`a`<img>@bob".into());
    outcome.sha = Some("0123abc".into());
    outcome.refusals = vec!["the remote says:\n<img src=x> ask @bob, see #1.".into()];
    let body = body(&context, &outcome, 65_536);
    let expected = [
        "**Done.** The work is on the branch ``fix/`a`<img>@bob`` at 0123abc.",
        "- ``echo `id` ' '`` ended with exit code 3.",
        "characters left out …]",
        "- Refused: the remote says: &lt;img src=x> ask @ bob, see # 1.",
        "> All `good`.\n> \n> - [x] done\n<!-- coding-agent:",
    ];
    for text in expected {
        assert!(body.contains(text), "{text}: {body}");
    }
}

#[test]
fn c23_property_any_facts_and_words_keep_limit_marker_and_facts() {
    let mut random = Random::new(6);
    let store = Store::new();
    let mut context = store.create();
    let kinds = [OutcomeKind::Completed, OutcomeKind::Failed, OutcomeKind::GaveUp];
    for round in 0..50 {
        store::record(&mut context, &random.text(60)).unwrap();
        let repeats = random.below(100);
        let mut outcome = outcome(kinds[round % 3], &random.text(40), &random.text(300).repeat(repeats));
        outcome.refusals = (0..random.below(30)).map(|_| random.text(40).repeat(repeats)).collect();
        outcome.notes = (0..random.below(30)).map(|_| random.text(40).repeat(repeats)).collect();
        outcome.patch = (round % 2 == 0).then(|| "work.patch".into());
        let limit = 65_536;
        let whole = body(&context, &outcome, limit);
        assert!(whole.chars().count() <= limit, "{}", whole.chars().count());
        let (text, end) = whole.rsplit_once('\n').unwrap().0.rsplit_once('\n').unwrap();
        assert_eq!(end, marker(&context, "final"));
        assert_eq!(whole.matches("<!-- coding-agent:").count(), 1, "one marker");
        assert!(text.contains("turns of model"), "the last fact is there: {text}");
        assert!(!text.chars().any(|c| c.is_control() && !"\n\t".contains(c)));
        // Facts are lines of a list, words are a quotation: nothing else begins a line.
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            let is_ours =
                ["- ", ">", "The model says:", "To try again", "… "].iter().any(|start| line.starts_with(start));
            assert!(is_ours, "{line:?} in {text}");
        }
        if outcome.outcome.summary.chars().count() > limit {
            assert!(text.contains(" characters left out; the whole text is in `final_summary.txt`"));
            assert!(whole.chars().count() > limit * 9 / 10 || whole.contains('`'), "the room is used");
        }
        // A limit that nothing fits is kept all the same.
        let small = body(&context, &outcome, 700);
        assert!(small.chars().count() <= 700 && small.contains(&marker(&context, "final")), "{small}");
    }
}
