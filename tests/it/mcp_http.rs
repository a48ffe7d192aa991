//! MCP over streamable HTTP against a server that wants every header, and against servers that break off,
//! forget, and refuse.

use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use coding_agent::config::Secret;
use coding_agent::tools::mcp::{Http, Lost, Transport};
use serde_json::{Value, json};

use crate::support::http_server::Piece;
use crate::support::strict_mcp::{Asked, StrictMcp, error, event, notification, result, stream};
use crate::support::{Answer, Authority};

/// A session as bare as can be: one request after the other.
struct Line {
    transport: Http,
    last_id: u64,
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

impl Line {
    fn new(transport: Http) -> Self {
        Self { transport, last_id: 0 }
    }

    /// A line that is introduced.
    fn to(mcp: &StrictMcp) -> Self {
        let mut line = Self::new(transport(mcp, &[]));
        line.introduce().unwrap();
        line
    }

    fn introduce(&mut self) -> Result<(), Lost> {
        let answer = self.ask("initialize", json!({ "protocolVersion": "2025-06-18" }))?;
        let version = answer.last().unwrap()["result"]["protocolVersion"].as_str().unwrap().to_owned();
        self.transport.agreed(&version);
        self.transport.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), soon())
    }

    fn call(&mut self, tool: &str) -> Result<Vec<Value>, Lost> {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} }))
    }

    /// What comes up to the answer; requests of the server get an empty result.
    fn ask(&mut self, method: &str, params: Value) -> Result<Vec<Value>, Lost> {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.transport.send(&request, soon())?;
        let mut came = Vec::new();
        loop {
            let message = self.transport.receive(soon())?;
            if message.get("method").is_some() && message.get("id").is_some() {
                let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} });
                self.transport.send(&reply, soon())?;
            }
            let id = &message["id"];
            let is_answer = *id == self.last_id || id.as_str() == Some(&self.last_id.to_string());
            came.push(message);
            if is_answer {
                return Ok(came);
            }
        }
    }
}

fn transport(mcp: &StrictMcp, headers: &[(&str, &str)]) -> Http {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    Http::connect(&mcp.url(), &headers, None).unwrap()
}

/// The text of the answer, the last of what came.
#[track_caller]
fn text(came: &[Value]) -> &str {
    came.last().unwrap()["result"]["content"][0]["text"].as_str().unwrap()
}

fn ended(lost: Result<Vec<Value>, Lost>) -> String {
    match lost {
        Err(Lost::Ended(end)) => end.to_string(),
        other => panic!("{other:?}"),
    }
}

fn call_id<'a>(asked: &'a Asked<'_>) -> &'a Value {
    match asked {
        Asked::Call { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_session_says_what_the_specification_asks() {
    let mcp = StrictMcp::new(|asked| Answer::json(200, &result(call_id(asked), "seen")));
    let mut line = Line::to(&mcp);
    assert_eq!(line.ask("tools/list", json!({})).unwrap()[0]["result"]["tools"][0]["name"], "look");
    assert_eq!(text(&line.call("look").unwrap()), "seen");
    line.transport.close();
    line.transport.close();
    let said = ["initialize none", "notifications/initialized s1", "tools/list s1", "tools/call s1", "DELETE s1"];
    assert_eq!(mcp.journal(), said);
}

#[test]
fn a_server_without_sessions_is_not_told_of_any() {
    let mcp = StrictMcp::new(|asked| Answer::json(200, &result(call_id(asked), "seen")));
    mcp.without_sessions();
    let mut line = Line::to(&mcp);
    assert_eq!(text(&line.call("look").unwrap()), "seen");
    line.transport.close();
    assert_eq!(mcp.journal(), ["initialize none", "notifications/initialized none", "tools/call none"]);
}

#[test]
fn answers_come_in_every_shape() {
    let mcp = StrictMcp::new(|asked| {
        let Asked::Call { id, tool } = asked else { panic!("{asked:?}") };
        let answer = result(id, tool);
        match *tool {
            "json" => Answer::json(200, &answer),
            "chunked json" => Answer::json(200, &answer).chunked(),
            "batch" => Answer::json(200, &json!([notification(), answer])),
            "stream" => stream(&format!("{}{}", event("", &notification()), event("", &answer))),
            "stream of a batch" => stream(&event("", &json!([notification(), answer]))),
            "noise" => stream(&format!(
                "\u{feff}: hello\r\n\r\nevent: ping\rdata: {{}}\r\revent: message\ndata: 17\n\ndata: no json\n\ndata:\n\n{}",
                event("", &answer)
            )),
            "text as id" => {
                stream(&event("", &json!({ "jsonrpc": "2.0", "id": id.to_string(), "result": answer["result"] })))
            }
            tool => panic!("{tool}"),
        }
    });
    let mut line = Line::to(&mcp);
    for (tool, messages) in [
        ("json", 1),
        ("chunked json", 1),
        ("batch", 2),
        ("stream", 2),
        ("stream of a batch", 2),
        ("noise", 1),
        ("text as id", 1),
    ] {
        let came = line.call(tool).unwrap();
        assert_eq!((came.len(), text(&came)), (messages, tool), "{came:?}");
    }
}

#[test]
fn a_request_of_the_server_is_answered_while_the_stream_stays_open() {
    let open: Mutex<Option<(Sender<Piece>, Value)>> = Mutex::default();
    let mcp = StrictMcp::new(move |asked| match asked {
        Asked::Call { id, .. } => {
            let (sender, answer) = Answer::flows("text/event-stream; charset=utf-8");
            let ping = json!({ "jsonrpc": "2.0", "id": "p-1", "method": "ping" });
            sender.send(Piece::Bytes(event("", &ping).into_bytes())).unwrap();
            *open.lock().unwrap() = Some((sender, (*id).clone()));
            answer
        }
        Asked::Reply(reply) => {
            assert_eq!(**reply, json!({ "jsonrpc": "2.0", "id": "p-1", "result": {} }));
            let (sender, id) = open.lock().unwrap().take().unwrap();
            sender.send(Piece::Bytes(event("", &result(&id, "after the ping")).into_bytes())).unwrap();
            Answer::raw(202, "")
        }
        Asked::Resume(id) => panic!("{id}"),
    });
    let mut line = Line::to(&mcp);
    let came = line.call("look").unwrap();
    assert_eq!((came.len(), text(&came)), (2, "after the ping"));
    assert_eq!(mcp.journal()[2..], ["tools/call s1", "reply s1"]);
}

#[test]
fn a_broken_stream_is_taken_up_again_where_it_broke_off() {
    // Ends properly, breaks, or has told its id only.
    for how in ["ends", "breaks", "primes"] {
        let call: Mutex<Value> = Mutex::default();
        let mcp = StrictMcp::new(move |asked| match asked {
            Asked::Call { id, .. } => {
                *call.lock().unwrap() = (*id).clone();
                let (sender, answer) = Answer::flows("text/event-stream");
                let first = match how {
                    "primes" => "id: 1\nretry: 1\ndata:\n\n".to_owned(),
                    _ => format!("retry: 1\n{}id: 2\ndata: {{\"jsonrpc", event("1", &notification())),
                };
                sender.send(Piece::Bytes(first.into_bytes())).unwrap();
                if how == "breaks" {
                    sender.send(Piece::Break).unwrap();
                }
                answer
            }
            Asked::Resume("1") => stream(&event("2", &notification())),
            Asked::Resume("2") => stream(&event("3", &result(&call.lock().unwrap(), "at last"))),
            asked => panic!("{asked:?}"),
        });
        let mut line = Line::to(&mcp);
        let came = line.call("look").unwrap();
        assert_eq!(text(&came), "at last", "{how}");
        assert_eq!(came.len(), if how == "primes" { 2 } else { 3 }, "{how}: nothing is lost, nothing comes twice");
        assert_eq!(mcp.journal()[3..], ["GET 1 s1", "GET 2 s1"], "{how}");
        assert_eq!(line.ask("tools/list", json!({})).unwrap().len(), 1, "{how}");
    }
}

#[test]
fn a_stream_that_cannot_be_taken_up_again_is_told_as_that() {
    let mcp = StrictMcp::new(|asked| match asked {
        Asked::Call { tool: "no ids", .. } => stream(&event("", &notification())),
        Asked::Call { tool: "id taken back", .. } => stream(&format!("{}id\n\n", event("1", &notification()))),
        Asked::Call { .. } => stream(&format!("retry: 1\n{}", event("1", &notification()))),
        _ => Answer::raw(405, ""),
    });
    let mut line = Line::to(&mcp);
    let server = format!("`http://127.0.0.1:{}`", mcp.port());
    for tool in ["no ids", "id taken back"] {
        assert_eq!(
            ended(line.call(tool)),
            format!("the answer of {server} broke off, and it cannot be taken up again")
        );
    }
    let how = ended(line.call("ids"));
    assert_eq!(how, format!("the answer of {server} broke off, and it does not let us take it up again (405)"));
}

#[test]
fn a_wait_beyond_the_deadline_is_not_waited_for() {
    let mcp = StrictMcp::new(|_| stream("id: 1\nretry: 99999999999999999999\n\n"));
    let mut line = Line::to(&mcp);
    assert_eq!(line.call("look"), Err(Lost::TimedOut));
    assert_eq!(mcp.journal().len(), 3);
}

#[test]
fn a_deadline_ends_the_wait_wherever_the_server_falls_silent() {
    let mcp = StrictMcp::new(|asked| match asked {
        Asked::Call { tool: "before the headers", .. } => Answer::Hangs,
        Asked::Call { tool: "in a body", id } => Answer::json(200, &result(id, "never")).stalls(),
        Asked::Call { tool: "before the first event", .. } => {
            let (sender, answer) = Answer::flows("text/event-stream");
            // Kept for the life of the test, so that the stream stays open.
            std::mem::forget(sender);
            answer
        }
        Asked::Call { .. } => {
            let (sender, answer) = Answer::flows("text/event-stream");
            sender.send(Piece::Bytes(event("", &notification()).into_bytes())).unwrap();
            std::mem::forget(sender);
            answer
        }
        _ => panic!("{asked:?}"),
    });
    let mut line = Line::to(&mcp);
    for tool in ["before the headers", "in a body", "before the first event", "between two events"] {
        line.last_id += 1;
        let params = json!({ "name": tool, "arguments": {} });
        let request = json!({ "jsonrpc": "2.0", "id": line.last_id, "method": "tools/call", "params": params });
        let deadline = Instant::now() + Duration::from_millis(300);
        let mut lost = line.transport.send(&request, deadline).err();
        while lost.is_none() {
            lost = line.transport.receive(deadline).err();
        }
        assert_eq!(lost, Some(Lost::TimedOut), "{tool}");
        // The line is as good as before.
        assert_eq!(line.ask("tools/list", json!({})).unwrap().len(), 1, "{tool}");
    }
}

#[test]
fn c40_an_answer_that_is_too_large_is_dropped_and_the_line_stays() {
    const MIB: usize = 1 << 20;
    let mcp = StrictMcp::new(|asked| {
        let Asked::Call { id, tool } = asked else { panic!("{asked:?}") };
        let long = |bytes| result(id, &"x".repeat(bytes));
        let pieces = |events: Vec<String>| {
            let (sender, answer) = Answer::flows("text/event-stream");
            events.into_iter().for_each(|event| sender.send(Piece::Bytes(event.into_bytes())).unwrap());
            answer
        };
        match *tool {
            "5 MiB of JSON" => Answer::json(200, &long(5 * MIB)),
            "5 MiB in an event" => pieces(vec![event("", &long(5 * MIB))]),
            "17 MiB of JSON" => Answer::json(200, &long(17 * MIB)),
            "17 MiB in an event" => pieces(vec![event("", &long(17 * MIB))]),
            // No event of it is too long, but all of them together.
            _ => pieces((0..70).map(|_| format!(": {}\n\n", "x".repeat(MIB))).collect()),
        }
    });
    let mut line = Line::to(&mcp);
    for tool in ["5 MiB of JSON", "5 MiB in an event"] {
        assert_eq!(text(&line.call(tool).unwrap()).len(), 5 * MIB, "{tool}");
    }
    for tool in ["17 MiB of JSON", "17 MiB in an event", "70 MiB in all"] {
        assert_eq!(line.call(tool), Err(Lost::TooLarge { limit_bytes: 16 * MIB }), "{tool}");
    }
    assert_eq!(line.ask("tools/list", json!({})).unwrap().len(), 1);
}

#[test]
fn statuses_are_told_by_what_a_person_can_do() {
    let refusals = [
        (
            401,
            json!({ "error": "invalid_token" }),
            "wants other credentials (401); mcp_servers[].headers sends them; it said: invalid_token",
        ),
        (403, json!({ "error": "no" }), "does not let us in (403); look at mcp_servers[].headers; it said: no"),
        (404, Value::Null, "has no MCP server at that path (404)"),
        (405, Value::Null, "does not speak MCP over streamable HTTP at that path (405)"),
        (400, error(&Value::Null, "Unsupported thing."), "refuses the handshake (400); it said: Unsupported thing"),
        (500, Value::Null, "refuses the handshake (500)"),
        (503, json!("starting"), "is not there at the moment (503); it said: starting"),
        (304, Value::Null, "answers with a redirect that leads nowhere (304)"),
    ];
    for (status, body, said) in refusals {
        let mcp = StrictMcp::new(|asked| panic!("{asked:?}"));
        mcp.without_sessions();
        mcp.refuse_introductions(Answer::json(status, &body));
        let how = ended(Line::new(transport(&mcp, &[])).ask("initialize", json!({})));
        assert!(how.starts_with(&format!("`http://127.0.0.1:{}` {said}", mcp.port())), "{how}");
    }
}

#[test]
fn an_error_of_json_rpc_is_an_answer_whatever_its_status() {
    let mcp = StrictMcp::new(|asked| {
        let Asked::Call { id, tool } = asked else { panic!("{asked:?}") };
        match *tool {
            "with id" => Answer::json(400, &error(id, "a is missing")),
            "without id" => Answer::json(400, &error(&Value::Null, "a is missing")),
            "without id, 200" => Answer::json(200, &error(&Value::Null, "a is missing")),
            "busy" => Answer::raw(429, "slow down"),
            "202" => Answer::raw(202, ""),
            "html" => Answer::raw(200, "<html>").header("X-Nothing", "1"),
            "another's" => Answer::json(200, &result(&json!(99), "not yours")),
            tool => panic!("{tool}"),
        }
    });
    let mut line = Line::to(&mcp);
    assert_eq!(line.call("with id").unwrap()[0]["error"]["message"], "a is missing");
    let cases = [
        ("without id", "400 in session `s1`: a is missing"),
        ("without id, 200", "its error names no request: a is missing"),
        ("busy", "429 in session `s1`: slow down"),
        ("202", "its answer (202) is empty"),
        ("html", "its answer (200) is said to be JSON and is not"),
        ("another's", "its answer does not belong to the request"),
    ];
    for (tool, why) in cases {
        assert_eq!(line.call(tool), Err(Lost::Refused(why.into())), "{tool}");
    }
}

#[test]
fn headers_go_to_their_host_only() {
    let thief = StrictMcp::new(|asked| panic!("{asked:?}"));
    let mcp = StrictMcp::new(|asked| Answer::json(200, &result(call_id(asked), "seen")));
    mcp.wants_header("authorization", "Bearer sk-TEST-1");
    let mut line = Line::new(transport(&mcp, &[("Authorization", "Bearer sk-TEST-1")]));
    line.introduce().unwrap();
    assert_eq!(text(&line.call("look").unwrap()), "seen");
    line.transport.close();
    assert_eq!(mcp.journal().last().unwrap(), "DELETE s1");
    assert!(ended(Line::new(transport(&mcp, &[])).ask("initialize", json!({}))).contains("credentials (401)"));

    let moved = Answer::raw(307, "").header("Location", &thief.url());
    mcp.refuse_introductions(moved);
    let mut line = Line::new(transport(&mcp, &[("Authorization", "Bearer sk-TEST-1")]));
    let how = ended(line.ask("initialize", json!({})));
    assert!(how.contains("redirects to another host"), "{how}");
    assert_eq!(thief.journal(), Vec::<String>::new());
}

#[test]
fn c41_a_forgotten_session_is_told_apart_from_a_refused_message() {
    let mcp = StrictMcp::new(|asked| Answer::json(200, &result(call_id(asked), "seen")));
    let mut line = Line::to(&mcp);
    mcp.forget_sessions();
    assert_eq!(line.call("look"), Err(Lost::SessionExpired));
    // The transport has forgotten it too: the next introduction names none.
    line.introduce().unwrap();
    assert_eq!(text(&line.call("look").unwrap()), "seen");
    for (status, said) in [(400, "Bad Request: unknown session"), (403, "Invalid session id.")] {
        mcp.forget_sessions();
        mcp.answer_forgotten(Answer::json(status, &error(&Value::Null, said)));
        let how = ended(line.call("look"));
        let named = format!("does not take the session `s2` ({status}); it said: {}", said.trim_end_matches('.'));
        assert!(how.contains(&named), "{how}");
    }
}

#[test]
fn certificates_of_one_s_own_are_trusted_by_ca_file() {
    let authority = Authority::new();
    let mcp =
        StrictMcp::with_tls(Some(authority.server()), |asked| stream(&event("", &result(call_id(asked), "seen"))));
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, &authority.pem).unwrap();
    let url = format!("https://localhost:{}/mcp", mcp.port());
    let mut line = Line::new(Http::connect(&url, &[], Some(&ca_file)).unwrap());
    line.introduce().unwrap();
    assert_eq!(text(&line.call("look").unwrap()), "seen");
    let stranger = Authority::new();
    std::fs::write(&ca_file, &stranger.pem).unwrap();
    let mut line = Line::new(Http::connect(&url, &[], Some(&ca_file)).unwrap());
    assert!(ended(line.ask("initialize", json!({}))).contains("its certificate is not trusted"));
}
