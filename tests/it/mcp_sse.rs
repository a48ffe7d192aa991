//! Server-sent events, as the HTML standard reads them.

use std::collections::VecDeque;

use coding_agent::tools::mcp::sse::{Event, EventReader};

use crate::support::Random;

const LIMIT: usize = 1 << 20;

struct Read {
    events: Vec<Event>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

fn read_pieces<'a>(limit_bytes: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut reader = EventReader::new(limit_bytes);
    let mut events = VecDeque::new();
    for piece in pieces {
        reader.read(piece, &mut events);
    }
    Read { events: events.into(), last_id: reader.last_id().map(str::to_owned), retry_ms: reader.retry_ms() }
}

fn read(text: &str) -> Read {
    read_pieces(LIMIT, [text.as_bytes()])
}

fn message(data: &str) -> Event {
    named("message", data)
}

fn named(name: &str, data: &str) -> Event {
    Event::Message { name: name.into(), data: data.into() }
}

#[test]
fn fields_are_read_as_the_standard_says() {
    let cases: &[(&str, &[Event])] = &[
        ("data: a\n\n", &[message("a")]),
        ("data:a\n\n", &[message("a")]),
        ("data:  a\n\n", &[message(" a")]),
        ("data: a\ndata: b\n\n", &[message("a\nb")]),
        ("data\n\n", &[message("")]),
        ("data\ndata\n\n", &[message("\n")]),
        ("data:\n\n", &[message("")]),
        ("\n\n\n", &[]),
        (": a comment\n\n", &[]),
        (":\ndata: a\n: b\n\n", &[message("a")]),
        ("event: ping\n\ndata: a\n\n", &[message("a")]),
        ("event: ping\ndata: a\n\ndata: b\n\n", &[named("ping", "a"), message("b")]),
        ("event:\ndata: a\n\n", &[message("a")]),
        ("dat: a\nData: b\n\n", &[]),
        ("data: a: b\n\n", &[message("a: b")]),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[message("a"), message("b"), message("c")]),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[message("a")]),
        ("\u{feff}\u{feff}data: a\n\n", &[]),
        ("data: a\n\ndata: never ended", &[message("a")]),
        ("data: a\n\ndata: never ended\n", &[message("a")]),
        ("data: ä€😀\n\n", &[message("ä€😀")]),
    ];
    for (text, events) in cases {
        assert_eq!(read(text).events, *events, "{text:?}");
    }
    let bytes = b"data: \xff\xfe\n\n";
    assert_eq!(read_pieces(LIMIT, [bytes.as_slice()]).events, [message("\u{fffd}\u{fffd}")]);
}

#[test]
fn an_id_counts_when_its_event_has_ended() {
    let cases = [
        ("id: 1\ndata: a\n\n", Some("1")),
        ("id: 1\n\n", Some("1")),
        ("id: 1\ndata: a\n\nid: 2\ndata: b", Some("1")),
        ("id: 1\ndata: a\n\ndata: b\n\n", Some("1")),
        ("id: 1\n\nid\n\n", None),
        ("id: 1\n\nid: 2\0\n\n", Some("1")),
        ("id: 1\nid: 2\n\n", Some("2")),
        ("data: a\n\n", None),
    ];
    for (text, id) in cases {
        assert_eq!(read(text).last_id.as_deref(), id, "{text:?}");
    }
}

#[test]
fn a_wait_is_digits_only() {
    let cases = [
        ("retry: 500\n", Some(500)),
        ("retry: 500\n\nretry: 10\n", Some(10)),
        ("retry: 5e3\n", None),
        ("retry: -1\n", None),
        ("retry:\n", None),
        ("retry: 99999999999999999999\n", Some(u64::MAX)),
    ];
    for (text, retry_ms) in cases {
        assert_eq!(read(text).retry_ms, retry_ms, "{text:?}");
    }
}

#[test]
fn how_the_bytes_are_split_makes_no_difference() {
    const PIECES: &[&str] = &[
        "data: a", "data:", "data", "id: 7", "id", "retry: 3", "event: e", ": c", "x", "ä", "😀", "\u{feff}", "\0",
        " ", "\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n", ":",
    ];
    let mut random = Random::new(41);
    let mut found = 0;
    for round in 0..3_000 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(30) {
            bytes.extend_from_slice(random.one_of(PIECES).as_bytes());
        }
        // One case in four meets the limit too.
        let limit_bytes = if round % 4 == 0 { 12 } else { LIMIT };
        let whole = read_pieces(limit_bytes, [bytes.as_slice()]);
        let mut rest = bytes.as_slice();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(1 + random.below(rest.len().min(4)));
            pieces.push(piece);
            rest = later;
        }
        let split = read_pieces(limit_bytes, pieces);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(split.events, whole.events, "{text:?}");
        assert_eq!((split.last_id, split.retry_ms), (whole.last_id, whole.retry_ms), "{text:?}");
        found += whole.events.len();
    }
    assert!(found > 1_000, "there was something to find: {found}");
}

#[test]
fn c40_an_event_without_end_is_dropped_and_the_next_is_read() {
    let mut reader = EventReader::new(1_000);
    let mut events = VecDeque::new();
    reader.read(b"id: 1\ndata: fits\n\nid: 2\ndata: ", &mut events);
    for _ in 0..10_000 {
        reader.read(&[b'x'; 100], &mut events);
    }
    assert_eq!(events, [message("fits")]);
    reader.read(b"\ndata: more of it\n\ndata: next\n\n", &mut events);
    assert_eq!(events, [message("fits"), Event::TooLarge, message("next")]);
    assert_eq!(reader.last_id(), Some("2"), "it is not asked for again");
    // Many short lines are as long as a long one.
    let lines = "data: 0123456789\n".repeat(200);
    assert_eq!(read_pieces(1_000, [lines.as_bytes(), b"\n"]).events, [Event::TooLarge]);
}

#[test]
fn another_connection_goes_on_where_the_last_one_ended() {
    let mut reader = EventReader::new(LIMIT);
    let mut events = VecDeque::new();
    reader.read(b"id: 1\nretry: 5\ndata: a\n\nid: 2\ndata: torn", &mut events);
    reader.reconnect();
    assert_eq!((reader.last_id(), reader.retry_ms()), (Some("1"), Some(5)));
    reader.read("\u{feff}data: b\n\n".as_bytes(), &mut events);
    assert_eq!((reader.last_id(), events.as_slices().0), (Some("1"), [message("a"), message("b")].as_slice()));
    reader.read(b"id\n\n", &mut events);
    reader.reconnect();
    assert_eq!(reader.last_id(), None, "what was taken back stays so");
}
