//! A user config API for tests. What nobody should ask is a complaint, which fails the test when the
//! server is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::http_server::{HttpServer, Received};
use super::{Answer, World};

/// The key the server takes.
pub const API_KEY: &str = "user-config-key-0123456789";

/// A running server.
pub struct UserConfigApi {
    server: HttpServer,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By path as it is sent.
    answers: HashMap<String, Answer>,
    asked: Vec<String>,
    complaints: Vec<String>,
}

impl UserConfigApi {
    /// Knows nobody.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let server = HttpServer::start(None, Arc::new(move |request| shared.lock().unwrap().answer(request)));
        Self { server, state }
    }

    /// What is said of a user of the local forge from now on.
    pub fn set(&self, user: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(format!("/api/config/local/{user}"), answer);
    }

    /// These are the settings of a user from now on.
    pub fn set_settings(&self, user: &str, data: &Value) {
        self.set(user, Answer::json(200, &json!({ "status": "success", "data": data })));
    }

    /// Paths asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Its address, for the configuration.
    pub fn url(&self) -> String {
        format!("http://{}/api", self.server.address)
    }

    /// Makes a world ask it.
    pub fn switch_on(&self, world: &mut World) {
        world.set_env("USE_USER_CONFIG_API", "true");
        world.set_env("USER_CONFIG_API_URL", &self.url());
        world.set_env("USER_CONFIG_API_KEY", API_KEY);
    }
}

impl Drop for UserConfigApi {
    fn drop(&mut self) {
        let complaints = std::mem::take(&mut self.state.lock().unwrap().complaints);
        if !std::thread::panicking() {
            assert_eq!(complaints, Vec::<String>::new(), "the user config API has to complain");
        }
    }
}

impl State {
    fn answer(&mut self, request: &Received) -> Answer {
        self.asked.push(request.path.clone());
        let mut complain = |what: &str| self.complaints.push(format!("{} {}: {what}", request.method, request.path));
        if request.method != "GET" || !request.body.is_empty() {
            complain("it is only to be read");
        }
        if request.header("authorization") != Some(format!("Bearer {API_KEY}").as_str()) {
            complain("not the right Authorization");
        }
        if !request.path.starts_with("/api/config/") || request.path.matches('/').count() != 4 {
            complain("no such address");
        }
        let unknown = || Answer::json(404, &json!({ "status": "error", "message": "no such user" }));
        self.answers.get(&request.path).cloned().unwrap_or_else(unknown)
    }
}
