//! Tasks that are longer than the window of their model, end to end: summaries, requests that the
//! server finds too long, servers that drop the front and say nothing (cases C13, C15), kills.

use serde_json::{Value, json};

use crate::support::summarizer::NOTES;
use crate::support::{Answer, Cassette, FakeModel, History, World, check_strictly, finish, objection, reply, says};

const DONE: &[&str] = &["coding agent done"];
const TEMPORARIES: [&str; 4] = ["to_summarize.jsonl", "unsummarized.jsonl", "request.jsonl", "all_messages.jsonl"];

/// About 1,000 tokens of output, the last line being `number`.
fn prints(number: usize) -> String {
    format!("seq 1000 1700; echo {number}")
}

/// So many commands of that kind, then the end.
fn long_task(commands: usize) -> Cassette {
    (0..commands).fold(Cassette::new(), |cassette, number| cassette.runs(&prints(number))).finishes("All printed.")
}

fn notes() -> Answer {
    let mut line = says(NOTES);
    line["usage"] = json!({ "prompt_tokens": 3000, "completion_tokens": 40 });
    reply(&line)
}

fn too_long() -> Answer {
    Answer::json(400, &json!({ "error": { "message": "too many tokens", "code": "context_length_exceeded" } }))
}

fn is_summary_request(chat: &Value) -> bool {
    chat.get("tools").is_none()
}

/// Everything about a task that ended well after compressions.
#[track_caller]
fn assert_right(world: &World, commands: usize) {
    world.assert_settled();
    assert_eq!(world.labels("fix"), DONE);
    let history = world.history();
    check_strictly(&history);
    assert_eq!((history.replies(), history.results().len()), (commands + 1, commands + 1));
    for (number, result) in history.results()[..commands].iter().enumerate() {
        assert!(result.contains(&format!("\\n{number}\\n")), "{number}: {}", result.len());
    }
    for name in TEMPORARIES {
        assert!(!world.context("completed").join(name).exists(), "{name}");
    }
}

fn summaries(world: &World) -> Vec<Value> {
    History::read(&world.context("completed").join("summaries.jsonl")).0
}

#[test]
fn a_long_task_in_a_small_window_ends_well() {
    let fake = FakeModel::playing(&long_task(20));
    fake.set_summaries([notes()]);
    fake.set_window(8000, too_long());
    let world = fake.world();
    fake.configure(&world, ", context_length: 8000");
    let ended = world.run(&[]).expect(0);
    assert_eq!(ended.stderr, "", "nothing to complain about");
    assert_right(&world, 20);
    let chats = fake.chats();
    let asked = chats.iter().filter(|chat| is_summary_request(chat)).count();
    let made = summaries(&world);
    assert!((3..10).contains(&made.len()) && asked == made.len(), "{asked} {}", made.len());
    assert_eq!(chats.len() - asked, 21, "no turn was asked for twice, and none was too long");
    let head = &chats[0]["messages"].as_array().unwrap()[..2];
    for chat in chats.iter().filter(|chat| !is_summary_request(chat)) {
        for (now, before) in chat["messages"].as_array().unwrap().iter().zip(head) {
            let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
            assert!(text(now).starts_with(&text(before)), "orders and task stay as they are");
        }
        assert_eq!(objection(chat), None);
    }
    let last = chats.last().unwrap()["messages"].as_array().unwrap();
    assert!(last[1]["content"].as_str().unwrap().contains(NOTES), "in one message with the task");
    assert!(last.last().unwrap()["content"].as_str().unwrap().contains("\\n19\\n"), "the newest result is whole");
    // Each summary goes on where the one before ended.
    let through: Vec<u64> = made.iter().map(|line| line["through_seq"].as_u64().unwrap()).collect();
    assert!(through.is_sorted_by(|one, next| one < next), "{through:?}");
    let current = History::read(&world.context("completed").join("current.jsonl")).0;
    assert_eq!(current[2]["through_seq"], *through.last().unwrap());
    assert_eq!(current[3]["seq"], through.last().unwrap() + 1);
    // Numbers for people.
    let phases = world.query("SELECT phase || ' ' || count(*) FROM llm_calls GROUP BY phase ORDER BY phase");
    assert_eq!(phases, ["loop 21".to_owned(), format!("summary {asked}")]);
    assert_eq!(world.query("SELECT total_summaries FROM tasks"), [asked.to_string()]);
    let read = 21 * 100 + 3000 * asked;
    assert!(world.comments("fix").contains(&format!("{read} tokens read")), "{}", world.comments("fix"));
    let last_words = std::fs::read_to_string(world.context("completed").join("final_summary.txt")).unwrap();
    let places: Vec<usize> =
        ["completed", "All printed.", NOTES].iter().map(|part| last_words.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "facts, last words, notes: {last_words}");
}

#[test]
fn c13_a_server_with_a_smaller_window_than_configured() {
    for refusal in [
        too_long(),
        Answer::raw(400, "prompt is too long: 9500 tokens > 8000 maximum"),
        Answer::raw(413, "<html>Payload too large</html>"),
        Answer::json(400, &json!({ "error": "the request exceeds the available context size" })),
        Answer::json(500, &json!({ "error": { "message": "no user query found in messages" } })),
        // OpenAI's limit of tokens per minute, smaller than one request.
        Answer::json(
            429,
            &json!({ "error": { "message": "Request too large for gpt-4o on tokens per min (TPM): Limit 6000, \
                    Requested 7210. The input or output tokens must be reduced in order to run successfully.",
                    "type": "tokens", "code": "rate_limit_exceeded" } }),
        ),
    ] {
        let fake = FakeModel::playing(&long_task(12));
        fake.set_summaries([notes()]);
        fake.set_window(6000, refusal);
        let world = fake.world();
        world.run(&[]).expect(0);
        assert_right(&world, 12);
        assert!(!summaries(&world).is_empty());
        let refused = world.query("SELECT count(*) FROM llm_calls WHERE error IS NOT NULL");
        assert!(["1", "2", "3"].contains(&refused[0].as_str()), "what was refused is not sent again: {refused:?}");
    }
}

#[test]
fn c13_where_no_summary_can_be_had_results_are_shortened() {
    for bad in [reply(&says("OK.")), reply(&says(&"word ".repeat(9000))), too_long(), Answer::raw(400, "not allowed")] {
        let fake = FakeModel::playing(&long_task(12));
        fake.set_summaries([bad]);
        fake.set_window(6000, too_long());
        let world = fake.world();
        let ended = world.run(&[]).expect(0);
        assert!(ended.stderr.contains("summary"), "the operator is told: {ended:?}");
        assert_right(&world, 12);
        assert_eq!(summaries(&world), Vec::<Value>::new());
        let asked = fake.chats().iter().filter(|chat| is_summary_request(chat)).count();
        assert!((1..20).contains(&asked), "not at every turn: {asked}");
        let last = fake.chats().pop().unwrap();
        let results: Vec<usize> = last["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|m| m["role"] == "tool")
            .map(|m| m["content"].as_str().unwrap().len())
            .collect();
        assert!(results[0] < 1000 && results[11] > 3000, "the oldest first: {results:?}");
    }
}

#[test]
fn c13_no_progress_no_further_try() {
    // The window is smaller than orders, task and tools.
    let fake = FakeModel::new([]);
    fake.set_window(100, too_long());
    let world = fake.world();
    world.run(&[]).expect(1);
    assert_eq!(fake.chats().len(), 1);
    assert!(world.comments("fix").contains("no longer fits the window of the model"), "{}", world.comments("fix"));
    // A server that refuses whatever it gets is asked three times for a turn at most.
    let fake = FakeModel::playing(&Cassette::new().runs(&prints(0)).runs(&prints(1)).runs(&prints(2)));
    fake.set_summaries([notes()]);
    fake.then([too_long(), too_long(), too_long()]);
    let world = fake.world();
    world.run(&[]).expect(1);
    let loops = fake.chats().iter().filter(|chat| !is_summary_request(chat)).count();
    assert!(loops <= 3 + 3, "{loops}");
    world.assert_settled();
}

#[test]
fn c13_trouble_with_the_quota_while_summing_up_parks_the_task() {
    let quota = json!({ "error": { "message": "You exceeded your current quota", "type": "insufficient_quota" } });
    let fake = FakeModel::playing(&long_task(12));
    fake.set_summaries([Answer::json(429, &quota), notes()]);
    let world = fake.world();
    fake.configure(&world, ", context_length: 8000");
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("is used up") && !ended.stderr.contains("too long"), "{ended:?}");
    assert_eq!(world.comments("fix"), "");
    world.pass_time();
    world.run(&[]).expect(0);
    assert_right(&world, 12);
}

#[test]
fn the_servers_count_corrects_the_estimate() {
    let turns = |factor: u64| {
        let fake = FakeModel::playing(&long_task(8));
        fake.set_count(factor);
        fake.set_summaries([notes()]);
        let world = fake.world();
        fake.configure(&world, ", context_length: 24000");
        world.run(&[]).expect(0);
        assert_right(&world, 8);
        fake.chats().iter().position(is_summary_request)
    };
    assert_eq!(turns(1), None, "8 turns of about 1,050 tokens are below 60 % of 24,000");
    let at = turns(3);
    assert!(at.is_some_and(|at| (3..7).contains(&at)), "each costs three times as much: {at:?}");
}

#[test]
fn c15_a_count_far_below_the_request_is_taken_for_a_dropped_front() {
    let counted = |line: &Value, tokens: usize| {
        let mut line = line.clone();
        line["usage"] = json!({ "prompt_tokens": tokens, "completion_tokens": 10 });
        reply(&line)
    };
    let lines = long_task(9).lines().to_vec();
    let good = |turn: usize| counted(&lines[turn], 1400 + 1030 * turn);
    // The server reads 2,051 tokens of about 10,000 at the ninth turn; its answer is not trusted.
    let fake = FakeModel::new((0..8).map(good));
    fake.then([
        counted(&finish("done", "I have nothing to do."), 2051),
        counted(&lines[8], 2000),
        counted(&lines[9], 2000),
    ]);
    fake.set_summaries([notes()]);
    let world = fake.world();
    let ended = world.run(&[]).expect(0);
    assert!(ended.stderr.contains("counted 2051 tokens in a request of about"), "{ended:?}");
    assert_right(&world, 9);
    assert!(!world.comments("fix").contains("nothing to do"));
    assert_eq!(summaries(&world).len(), 1);

    // A server whose counts mean something else costs some turns and summaries, not the task.
    for odd in [1001, 1500] {
        let more = [finish("done", "x"), finish("done", "x")];
        let fake = FakeModel::new(lines.iter().chain(&more).map(|line| counted(line, odd)));
        fake.set_summaries([notes()]);
        let world = fake.world();
        world.run(&[]).expect(0);
        assert_eq!(world.labels("fix"), DONE);
        assert!(summaries(&world).len() <= 2);
        assert!(world.history().replies() >= lines.len() - 3, "{}", world.history().replies());
    }
}

/// A replay in a window of 4,096 tokens.
fn recorded(cassette: &Cassette) -> World {
    let world = World::with_task(cassette);
    world.write(
        "config.yaml",
        "task_source: local\nllm: {provider: replay, replay: {file: replies.jsonl, context_length: 4096}}\n\
         command_executor: {backend: host}\n\
         context: {compression: {keep_recent: 2, min_to_compress: 2}}\n",
    );
    world
}

fn with_summaries(mut cassette: Cassette, count: usize) -> Cassette {
    for number in 0..count {
        cassette = cassette.then(json!({ "phase": "summary", "content": format!("{NOTES} ({number})") }));
    }
    cassette
}

#[test]
fn a_recording_holds_summaries_and_a_finished_task_plays_again() {
    let world = recorded(&with_summaries(long_task(6), 9));
    world.run(&[]).expect(0);
    assert_right(&world, 6);
    let made = summaries(&world);
    assert!(made.len() > 1);
    for (number, line) in made.iter().enumerate() {
        assert_eq!(line["summary"], format!("{NOTES} ({number})"), "in the order of the recording");
    }
    // The directory of the finished task is a recording as well.
    let again = recorded(&Cassette::new());
    std::fs::create_dir(again.path("old")).unwrap();
    for name in ["messages.jsonl", "summaries.jsonl"] {
        std::fs::copy(world.context("completed").join(name), again.path(format!("old/{name}"))).unwrap();
    }
    let config = again.read("config.yaml").replace("replies.jsonl", "old/messages.jsonl");
    again.write("config.yaml", &config);
    again.run(&[]).expect(0);
    assert_right(&again, 6);
    let texts = |lines: Vec<Value>| lines.iter().map(|line| line["summary"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(summaries(&again)), texts(made));
    // Without the summaries it plays as well: results are shortened then.
    std::fs::remove_file(again.path("old/summaries.jsonl")).unwrap();
    std::fs::remove_dir_all(again.path("contexts")).unwrap();
    again.issue("fix", "coding agent");
    again.run(&[]).expect(0);
    assert_eq!(again.labels("fix"), DONE);
    assert_eq!(summaries(&again), Vec::<Value>::new());
}

#[test]
fn overflow_in_a_recording() {
    let overflow = json!({ "error": { "kind": "overflow", "message": "too long", "times": 1 } });
    let cassette = Cassette::new().runs(&prints(0)).then(overflow).runs(&prints(1)).finishes("x");
    let world = World::with_task(&with_summaries(cassette, 1));
    world.run(&[]).expect(0);
    assert_right(&world, 2);
    assert_eq!(world.query("SELECT count(*) FROM llm_calls WHERE error = 'too long'"), ["1"]);
}

/// What the task must look like after being killed inside a compression and started again.
#[cfg(feature = "faults")]
#[test]
fn killed_inside_a_compression() {
    for point in ["compress.requested", "compress.replied", "compress.summarised", "compress.recreated"] {
        for nth in 1..=2 {
            let world = recorded(&with_summaries(long_task(6), 9));
            world.run_to_crash(&[], &format!("{point}:{nth}"));
            let dir = world.context("running");
            assert!(dir.join("to_summarize.jsonl").exists() && dir.join("request.jsonl").exists(), "{point}");
            let through = |name: &str| {
                History::read(&dir.join(name)).0.iter().filter_map(|line| line["through_seq"].as_u64()).max()
            };
            let (in_current, written) = (through("current.jsonl"), through("summaries.jsonl"));
            // Old or new, and the summary is written before it is used.
            assert!(in_current <= written, "{point}: {in_current:?} {written:?}");
            assert_eq!(in_current == written, point != "compress.summarised", "{point}");
            world.run(&[]).expect(0);
            assert_right(&world, 6);
            assert_eq!(world.query("SELECT status FROM tasks"), ["completed"]);
            assert_eq!(world.final_comments("fix"), 1);
        }
    }
}
