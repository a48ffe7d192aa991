//! `doctor` and the model: whether a call of a tool is really one, and what is to be done where it is not.

use serde_json::{Value, json};

use crate::doctor::{Report, reporting};
use crate::support::{Answer, Cassette, FakeModel, World, reply};

fn reported(fake: &FakeModel) -> Report {
    let ended = fake.world().run(&["doctor", "--json"]);
    Report(serde_json::from_str(&ended.stdout).unwrap())
}

/// A call of the tool with the arguments as this text.
fn calling_with(arguments: &str) -> Answer {
    let mut message = reporting();
    message["tool_calls"][0]["function"]["arguments"] = Value::from(arguments);
    reply(&message)
}

#[test]
fn a_call_with_arguments_that_cannot_be_used_is_told() {
    for (arguments, state, finding) in [
        (r#"{"a":"#, "warning", "called the tool in a way that cannot be used. "),
        (r#"{"count":7}"#, "warning", "`number` is missing"),
        (r#"{"number":8}"#, "warning", "called the tool with 8, not with 7"),
        (r#"{"number":"7"}"#, "good", "it answers and calls tools"),
        (r#"{"number":7.0}"#, "good", "it answers and calls tools"),
    ] {
        let report = reported(&FakeModel::new([calling_with(arguments)]));
        let remedy = if state == "good" { "" } else { "set llm.function_calling to false" };
        report.says("tool calls", state, finding, remedy);
    }
}

#[test]
fn a_model_that_no_list_names_is_not_said_to_be_there() {
    for answer in [Answer::raw(404, "not here"), Answer::raw(200, "<html>Welcome</html>")] {
        let fake = FakeModel::new([reply(&reporting())]);
        fake.set_models(answer);
        let report = reported(&fake);
        report.says("model", "good", "`fake-model` of openai; the server lists no models, so not checked", "");
        report.says("tool calls", "good", "it answers and calls tools", "");
    }
}

#[test]
fn what_is_to_be_done_fits_what_the_server_says() {
    let error = |text: &str| json!({ "error": { "message": text } });
    for (answer, finding, remedy) in [
        (Answer::json(429, &error("slow down")), "cannot answer now (429)", "wait a while"),
        (
            Answer::json(400, &error("tools is not supported by this model")),
            "tools is not supported",
            "set llm.function_calling to false",
        ),
    ] {
        let report = reported(&FakeModel::new([answer.at_once()]));
        report.says("tool calls", "bad", finding, remedy);
    }
    let world = World::with_task(&Cassette::new());
    world.write("replies.jsonl", "{\"content\": \n");
    Report::of(&world, 78).says("model", "bad", "line 1 is no reply", "mend that file");
}
