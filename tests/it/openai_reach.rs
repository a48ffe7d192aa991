//! Getting to a model server: the probe before the first claim, faults of the host, proxies of the
//! environment, and TLS with an authority of one's own.

use serde_json::json;

use crate::support::{Answer, Authority, FakeModel, FakeProxy, KEY, MODEL, World, call, eventually, finish, reply};

const DONE: &[&str] = &["coding agent done"];

fn finishing() -> FakeModel {
    FakeModel::new([reply(&finish("done", "Done."))])
}

/// Nothing was claimed: the entry waits with no attempt spent.
#[track_caller]
fn assert_unspent(world: &World) {
    let waiting = world.names("spool/queue");
    assert!(waiting.len() == 1 && waiting[0].contains(".a0."), "{:?}", world.entries());
    assert_eq!(world.comments("fix"), "");
    assert_eq!(world.names("contexts/running"), Vec::<String>::new());
}

#[test]
fn no_model_is_named() {
    let fake = finishing();
    let world = fake.world();
    world.write("config.yaml", &world.read("config.yaml").replace(&format!(", model: {MODEL}"), ""));
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("llm.openai.model is not set") && ended.stderr.contains("OPENAI_MODEL"), "{ended:?}");
    assert_unspent(&world);
    assert_eq!(fake.requests(), Vec::<String>::new());
}

#[test]
fn a_refused_key_is_found_before_the_first_claim() {
    for status in [401, 403] {
        let fake = finishing();
        fake.set_models(Answer::json(status, &json!({ "error": { "message": "Incorrect API key provided." } })));
        let world = fake.world();
        let ended = world.run(&[]).expect(78);
        let sentence = format!("refuses the key in OPENAI_API_KEY ({status}): Incorrect API key provided");
        assert!(ended.stderr.contains(&sentence), "{ended:?}");
        assert_unspent(&world);
        fake.set_models(Answer::raw(404, ""));
        world.run(&[]).expect(0);
        assert_eq!(world.labels("fix"), DONE);
    }
    let fake = finishing();
    fake.wants_no_key();
    fake.set_models(Answer::raw(401, ""));
    let mut world = fake.world();
    world.set_env("OPENAI_API_KEY", "");
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("wants a key (401)") && ended.stderr.contains("set OPENAI_API_KEY"), "{ended:?}");
}

#[test]
fn a_model_that_is_not_there_is_named_with_those_that_are() {
    let fake = finishing();
    let names: Vec<_> =
        (0..30).map(|n| json!({ "id": format!("m{n:02}") })).chain([json!({ "id": "fake-modem" })]).collect();
    fake.set_models(Answer::json(200, &json!({ "data": names })));
    let world = fake.world();
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("has no model `fake-model`; it has `fake-modem`, `m00`,"), "{ended:?}");
    assert!(ended.stderr.contains("`m08` and 21 more"), "{ended:?}");
    assert_unspent(&world);
}

#[test]
fn servers_whose_list_says_nothing_are_taken_as_they_are() {
    let lists = [
        Answer::raw(404, "not found"),
        Answer::raw(405, ""),
        Answer::raw(200, "<html>"),
        Answer::json(200, &json!({ "data": [] })),
        Answer::json(200, &json!({ "data": [{ "name": "no id" }] })),
        Answer::json(200, &json!([{ "id": MODEL }])),
        Answer::json(200, &json!({ "data": [{ "id": format!("models/{MODEL}") }] })),
        Answer::json(200, &json!({ "data": [{ "id": format!("{MODEL}:latest") }] })),
        Answer::json(200, &json!({ "data": [{ "id": "fake-*" }] })),
    ];
    for list in lists {
        let fake = finishing();
        fake.set_models(list.clone());
        let world = fake.world();
        let ended = world.run(&[]);
        assert_eq!(ended.code, Some(0), "{list:?}: {ended:?}");
    }
}

#[test]
fn a_host_fault_met_in_work_parks_without_an_attempt() {
    for refusal in [
        Answer::raw(401, "key expired"),
        Answer::json(404, &json!({ "error": { "message": "The model does not exist", "code": "model_not_found" } })),
        Answer::json(400, &json!({ "error": { "message": "no such model", "code": "model_not_found" } })),
    ] {
        let fake = FakeModel::new([refusal]);
        let world = fake.world();
        world.run(&[]).expect(78);
        let deferred = world.names("spool/deferred");
        assert!(deferred.len() == 1 && deferred[0].ends_with(".a0.json"), "{:?}", world.entries());
        assert_eq!(world.comments("fix"), "");
        fake.then([reply(&finish("done", "Done."))]);
        world.run(&[]).expect(0);
        assert_eq!(world.labels("fix"), DONE);
    }
}

#[test]
fn a_model_that_takes_no_tools_is_the_installations_fault() {
    let words = "tools is not supported by this model";
    for (status, words) in
        [(400, words), (405, "Tool calling is not supported for model: m"), (400, "m does not support tools")]
    {
        let fake = FakeModel::new([Answer::json(status, &json!({ "error": { "message": words } }))]);
        let world = fake.world();
        let ended = world.run(&[]).expect(78);
        let said = format!("the model `fake-model` at `{}` cannot be given tools: {words}", fake.base_url());
        assert!(ended.stderr.contains(&said), "{said}: {ended:?}");
        assert!(ended.stderr.contains("; hint: set llm.function_calling to false"), "{ended:?}");
        assert!(world.names("spool/deferred")[0].ends_with(".a0.json"), "{:?}", world.entries());
        assert_eq!(world.comments("fix"), "");
    }
    // Once it has called tools, such words are about something else.
    let refusal = Answer::json(400, &json!({ "error": { "message": words } }));
    let fake =
        FakeModel::new([reply(&call("text-editor_text_editor", json!({ "command": "view", "path": "." }))), refusal]);
    let world = fake.world();
    world.run(&[]).expect(1);
    assert!(world.comments("fix").contains("refuses the request (400)"), "{}", world.comments("fix"));
}

#[test]
fn an_unreachable_server_is_for_later() {
    let fake = finishing();
    let world = fake.world();
    // Nobody listens on port 1.
    let config = world.read("config.yaml");
    world.write("config.yaml", &config.replace(&fake.base_url(), "http://127.0.0.1:1/v1"));
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("cannot reach `http://127.0.0.1:1`"), "{ended:?}");
    assert_unspent(&world);
    world.write("config.yaml", &config);
    fake.set_models(Answer::raw(503, "starting"));
    world.run(&[]).expect(75);
    assert_unspent(&world);
    fake.set_models(Answer::raw(404, ""));
    world.run(&[]).expect(0);
}

#[test]
fn a_server_that_goes_away_in_work_parks() {
    let fake = FakeModel::new([Answer::Closes, Answer::Closes, Answer::Closes]);
    let world = fake.world();
    world.run(&[]).expect(75);
    assert_eq!(world.names("spool/deferred").len(), 1);
    assert_eq!(world.comments("fix"), "");
}

// Proxies. What is found here is what ureq does with every HTTP proxy: CONNECT, for http:// too.

fn behind_proxy(fake: &FakeModel, env: &[(&str, String)], host: &str) -> World {
    let mut world = fake.world();
    let config = world.read("config.yaml").replace(&fake.base_url(), &format!("http://{host}/v1"));
    world.write("config.yaml", &config);
    for (name, value) in env {
        world.set_env(name, value);
    }
    world
}

#[test]
fn a_proxy_of_the_environment_is_used_for_its_scheme() {
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let fake = finishing();
        let proxy = FakeProxy::to(fake.port());
        let world = behind_proxy(&fake, &[(name, proxy.url())], "model.test");
        world.run(&[]).expect(0);
        assert_eq!(world.labels("fix"), DONE);
        assert_eq!(proxy.asked()[0], "CONNECT model.test:80 HTTP/1.1", "{name}");
    }
    let fake = finishing();
    let proxy = FakeProxy::to(fake.port());
    let world = behind_proxy(&fake, &[("HTTPS_PROXY", proxy.url())], &format!("127.0.0.1:{}", fake.port()));
    world.run(&[]).expect(0);
    assert_eq!(proxy.asked(), Vec::<String>::new(), "HTTPS_PROXY is not for http://");
}

#[test]
fn no_proxy_goes_straight() {
    for exceptions in ["127.0.0.1", "example.org, 127.0.0.1", "*", "0.0.1", "127.0.0.1:80"] {
        let fake = finishing();
        let proxy = FakeProxy::to(fake.port());
        let env = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", exceptions.to_owned())];
        let world = behind_proxy(&fake, &env, &format!("127.0.0.1:{}", fake.port()));
        world.run(&[]).expect(0);
        assert_eq!(proxy.asked(), Vec::<String>::new(), "{exceptions}");
    }
    let fake = finishing();
    let proxy = FakeProxy::to(fake.port());
    let env = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", "other.test,del.test".to_owned())];
    behind_proxy(&fake, &env, "model.test").run(&[]).expect(0);
    assert_eq!(proxy.asked()[0], "CONNECT model.test:80 HTTP/1.1", "del.test is another domain");
}

#[test]
fn credentials_go_to_the_proxy_alone_and_the_key_past_it() {
    let fake = finishing();
    let proxy = FakeProxy::to(fake.port());
    let url = proxy.url().replace("http://", "http://user:proxypass1@");
    let world = behind_proxy(&fake, &[("HTTP_PROXY", url)], "model.test");
    let ended = world.run(&["--verbose"]).expect(0);
    assert!(proxy.asked()[1].contains("Basic dXNlcjpwcm94eXBhc3Mx"), "{:?}", proxy.asked());
    assert!(!format!("{ended:?}").contains("proxypass1") && !world.read("logs/agent.log").contains("proxypass1"));
    assert!(!proxy.asked().concat().contains(KEY));
}

#[test]
fn an_unusable_proxy_is_a_fault_of_the_host() {
    for value in ["socks5://127.0.0.1:1080", "ftp://user:proxypass1@h:1"] {
        let fake = finishing();
        let world = behind_proxy(&fake, &[("HTTP_PROXY", value.to_owned())], "model.test");
        let ended = world.run(&[]).expect(78);
        assert!(ended.stderr.contains("cannot use the proxy in HTTP_PROXY"), "{ended:?}");
        assert!(!ended.stderr.contains("proxypass1"), "{ended:?}");
        assert_unspent(&world);
    }
}

// TLS.

#[test]
fn a_certificate_of_ones_own_is_trusted_by_ca_file_or_by_the_system_only() {
    let authority = Authority::new();
    let fake =
        FakeModel::with_tls([reply(&finish("done", "Done.")), reply(&finish("done", "Done."))], authority.server());
    let world = fake.world();
    world.write("ca.pem", &authority.pem);
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("its certificate is not trusted"), "{ended:?}");
    assert!(ended.stderr.contains("ca_file"), "{ended:?}");
    assert_unspent(&world);
    world.configure("ca_file: ca.pem");
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
    let mut world = fake.world();
    world.write("ca.pem", &authority.pem);
    let own = world.path("ca.pem");
    world.set_env("SSL_CERT_FILE", own.to_str().unwrap());
    world.run(&[]).expect(0);
    assert_eq!(world.labels("fix"), DONE);
}

#[test]
fn https_goes_through_a_proxy_unread() {
    let authority = Authority::new();
    let fake = FakeModel::with_tls([reply(&finish("done", "Done."))], authority.server());
    let proxy = FakeProxy::to(fake.port());
    let mut world = fake.world();
    world.write("ca.pem", &authority.pem);
    world.configure("ca_file: ca.pem");
    world.set_env("HTTPS_PROXY", &proxy.url());
    world.set_env("HTTP_PROXY", "http://127.0.0.1:1");
    world.run(&[]).expect(0);
    assert_eq!(proxy.asked()[0], format!("CONNECT localhost:{} HTTP/1.1", fake.port()));
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named() {
    let fake = FakeModel::new([]);
    let mut world = fake.world();
    world.set_env("NO_PROXY", "");
    // Its password is nobody's business.
    world.set_env("HTTP_PROXY", "http://me:pass@127.0.0.1:1");
    let ended = world.run(&[]).expect(75);
    let via = "through the proxy `127.0.0.1:1` (HTTP_PROXY)";
    assert!(ended.stderr.contains(via) && !ended.stderr.contains("pass"), "{ended:?}");
    // Whoever goes straight is not told of it.
    world.set_env("NO_PROXY", "127.0.0.1");
    let closed = "llm: {provider: openai, openai: {base_url: 'http://127.0.0.1:1/v1', model: m}}";
    world.write("config.yaml", &format!("task_source: local\n{closed}\n"));
    let ended = world.run(&[]).expect(75);
    assert!(ended.stderr.contains("cannot reach `http://127.0.0.1:1`:"), "{ended:?}");
}

#[test]
fn a_bad_ca_file_is_named() {
    let authority = Authority::new();
    let fake = FakeModel::with_tls([], authority.server());
    for (text, said) in [(None, "there is no such file"), (Some("hello"), "holds no certificate")] {
        let world = fake.world();
        world.configure("ca_file: ca.pem");
        if let Some(text) = text {
            world.write("ca.pem", text);
        }
        let ended = world.run(&[]).expect(78);
        assert!(ended.stderr.contains("ca_file `ca.pem`") && ended.stderr.contains(said), "{ended:?}");
        assert_eq!(world.comments("fix"), "");
        // Also where there is nothing to do.
        std::fs::remove_file(world.path("tasks/fix.md")).unwrap();
        let ended = world.run(&[]).expect(78);
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
}

#[test]
fn a_server_without_tls_behind_an_https_address_is_told_as_that() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let plain = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the client has had enough.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let world = FakeModel::new([]).world();
    world.write("ca.pem", &Authority::new().pem);
    world.write(
        "config.yaml",
        &format!("task_source: local\nca_file: ca.pem\nllm: {{provider: openai, openai: {{base_url: 'https://{address}/v1', model: m}}}}\n"),
    );
    let ended = world.run(&[]).expect(78);
    plain.join().unwrap();
    assert!(ended.stderr.contains("it speaks no TLS"), "{ended:?}");
    assert!(ended.stderr.contains("hint: where the server has no TLS, write http:// in its address"), "{ended:?}");
    assert_unspent(&world);
}

#[test]
fn sigterm_during_a_back_off_sends_no_other_request() {
    let fake = FakeModel::new([Answer::json(429, &json!({ "error": "busy" })).header("retry-after", "55")]);
    let world = fake.world();
    // Waits in earnest, for longer than any test: only the signal ends it.
    let child = world.command(&[]).env_remove("CODING_AGENT_FAULT_NO_SLEEP").spawn().unwrap();
    let log = world.path("logs/agent.log");
    let is_waiting = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("trying again in"));
    eventually(|| is_waiting().then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(75), "{ended:?}");
    assert_eq!(fake.chats().len(), 1);
}
