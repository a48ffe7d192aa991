//! `doctor` and the user config API: its answer is judged as a task would judge it.

use serde_json::json;

use crate::doctor::Report;
use crate::support::user_config_api::UserConfigApi;
use crate::support::{Answer, Cassette, World};

#[test]
fn the_user_config_api_is_asked_for_the_bot() {
    let unknown = Answer::json(404, &json!({ "status": "error", "message": "no such user" }));
    let says = |body| Answer::json(200, &body);
    let settings = |data| says(json!({ "status": "success", "data": data }));
    for (answer, state, finding, remedy) in [
        (unknown, "good", "answers; it does not know the user `coding-agent`", ""),
        (settings(json!({ "system_prompt": "Be short." })), "good", "answers with settings for `coding-agent`", ""),
        (
            Answer::raw(404, "<html>"),
            "warning",
            "does not know the user `coding-agent` (404)",
            "user_config_api.url is right",
        ),
        (Answer::raw(401, ""), "warning", "refuses the key in USER_CONFIG_API_KEY (401)", "a valid one"),
        (Answer::raw(500, ""), "warning", "status 500", "log of that API"),
        (Answer::raw(200, "<html>Welcome</html>"), "warning", "does not answer with JSON", "user_config_api.url"),
        (says(json!({ "status": "error" })), "warning", "answers `error`", ""),
        (says(json!({ "status": "success" })), "warning", "answers without data", ""),
        (settings(json!({ "llm": { "openai": { "modle": "m" } } })), "warning", "says: ", ""),
    ] {
        let api = UserConfigApi::start();
        api.set("coding-agent", answer);
        let mut world = World::with_task(&Cassette::new());
        api.switch_on(&mut world);
        let report = Report::of(&world, i32::from(state == "warning"));
        report.says("user config API", state, finding, remedy);
        assert_eq!(api.asked(), ["/api/config/local/coding-agent"]);
    }
}

#[test]
fn a_user_config_api_that_is_not_there_is_told_once() {
    let mut world = World::with_task(&Cassette::new());
    UserConfigApi::start().switch_on(&mut world);
    world.set_env("USER_CONFIG_API_URL", "http://127.0.0.1:9/api");
    world.set_env("NO_PROXY", "127.0.0.1");
    let (finding, _) = Report::of(&world, 1).is("user config API", "warning");
    assert!(finding.starts_with("cannot reach `http://127.0.0.1:9`"), "{finding}");
}
