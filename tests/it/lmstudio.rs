//! The provider `lmstudio`: chat completions without a key, and the window it really gave the model.

use serde_json::json;

use crate::support::{Answer, FakeModel, MODEL, World, finish, reply};

fn world(fake: &FakeModel) -> World {
    fake.wants_no_key();
    let world = fake.world();
    world.write(
        "config.yaml",
        &format!(
            "task_source: local\nllm: {{provider: lmstudio, lmstudio: {{base_url: '127.0.0.1:{}', model: {MODEL}}}}}\n\
             command_executor: {{backend: host}}\n",
            fake.port()
        ),
    );
    world
}

fn finishing() -> FakeModel {
    FakeModel::new([reply(&finish("done", "Done."))])
}

#[test]
fn a_smaller_window_is_used_and_told() {
    let list = |loaded: serde_json::Value| {
        let model =
            json!({ "id": MODEL, "state": "loaded", "max_context_length": 131_072, "loaded_context_length": loaded });
        Answer::json(200, &json!({ "data": [{ "id": "other", "loaded_context_length": 1 }, model] }))
    };
    for (answer, told) in [
        (list(json!(4096)), true),
        (list(json!(65_536)), false),
        (list(json!(null)), false),
        (Answer::raw(404, ""), false),
        (Answer::raw(200, "[]"), false),
    ] {
        let fake = finishing();
        fake.set_windows(answer);
        let ended = world(&fake).run(&[]).expect(0);
        let sentence = "has a window of 4096 tokens, not 32768 as llm.lmstudio.context_length says";
        assert_eq!(ended.stderr.contains(sentence), told, "{ended:?}");
        assert_eq!(fake.requests()[..2], ["GET /v1/models", "GET /api/v0/models"]);
    }
}

#[test]
fn a_server_that_wants_a_key_is_a_fault_of_the_host() {
    let fake = finishing();
    fake.set_models(Answer::raw(401, ""));
    let ended = world(&fake).run(&[]).expect(78);
    assert!(
        ended.stderr.contains("wants a key (401)") && ended.stderr.contains("switch its authentication off"),
        "{ended:?}"
    );
}
