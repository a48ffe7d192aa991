//! `summaries.jsonl` and `planning.jsonl`: fields, opening again, lines of the earlier program.

use coding_agent::context::NewSummary;
use serde_json::json;

use crate::support::History;
use crate::support::store::Store;

#[test]
fn summaries_are_counted_and_the_latest_is_known() {
    let store = Store::new();
    let mut context = store.create();
    assert_eq!((context.summaries.count_summaries(), context.summaries.latest_summary()), (0, None));
    for (number, text) in [(1, "first"), (2, "第二")] {
        let new = NewSummary {
            summary: text,
            compressed_message_count: 50,
            tokens_saved: 5000,
            through_seq: None,
            usage: None,
        };
        assert_eq!(context.summaries.add_summary(&new).unwrap(), number);
    }
    drop(context);
    let mut line = History::read(&store.file("summaries.jsonl")).0.remove(1);
    assert!(line["created_at"].take().as_str().unwrap().ends_with("+00:00"));
    assert_eq!(
        line,
        json!({ "id": 2, "summary": "第二", "compressed_message_count": 50, "tokens_saved": 5000, "created_at": null })
    );
    let context = store.resume();
    assert_eq!((context.summaries.count_summaries(), context.summaries.latest_summary()), (2, Some("第二")));
    assert_eq!(context.statistics().total_summaries, 2);
}

#[test]
fn other_fields_of_the_earlier_program_are_no_hindrance() {
    let store = Store::new();
    drop(store.create());
    std::fs::write(
        store.file("summaries.jsonl"),
        "{\"id\":7,\"start_seq\":1,\"end_seq\":9,\"summary\":\"old\",\"original_tokens\":900,\"ratio\":0.1,\"timestamp\":\"x\"}\n",
    )
    .unwrap();
    std::fs::write(
        store.file("planning.jsonl"),
        "{\"id\":3,\"plan_type\":\"revision\",\"plan_content\":{\"steps\":[1]},\"updated_at\":\"x\"}\n",
    )
    .unwrap();
    let mut context = store.resume();
    assert_eq!(context.summaries.latest_summary(), Some("old"));
    assert_eq!(context.planning.latest_plan().unwrap().plan_content, "{\"steps\":[1]}");
    assert_eq!(context.planning.add_plan("initial", "x").unwrap(), 4);
}

#[test]
fn plans_are_kept_in_order() {
    let store = Store::new();
    let mut context = store.create();
    assert_eq!((context.planning.count_plans(), context.planning.latest_plan()), (0, None));
    assert_eq!(context.planning.add_plan("initial", "1. look\n2. mend").unwrap(), 1);
    assert_eq!(context.planning.add_plan("revision", "計画").unwrap(), 2);
    drop(context);
    let mut line = History::read(&store.file("planning.jsonl")).0.remove(0);
    assert!(line["created_at"].take().as_str().unwrap().ends_with("+00:00"));
    assert_eq!(
        line,
        json!({ "id": 1, "plan_type": "initial", "plan_content": "1. look\n2. mend", "created_at": null })
    );
    let context = store.resume();
    let plans: Vec<(u64, &str, &str)> = context
        .planning
        .all_plans()
        .iter()
        .map(|plan| (plan.id, plan.plan_type.as_str(), plan.plan_content.as_str()))
        .collect();
    assert_eq!(plans, [(1, "initial", "1. look\n2. mend"), (2, "revision", "計画")]);
    assert_eq!(context.planning.latest_plan().unwrap().id, 2);
}
