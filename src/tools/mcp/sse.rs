//! Cuts a stream of bytes into server-sent events (HTML standard, section 9.2.6 "Interpreting an event
//! stream"). Reads nothing itself; how the bytes are split makes no difference.

use std::collections::VecDeque;

/// What a blank line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An event with data.
    Message {
        /// Its type; `message` when it names none.
        name: String,
        /// The `data:` lines, joined by line feeds.
        data: String,
    },
    /// One that is longer than the limit; its data is dropped.
    TooLarge,
}

/// The reader of one stream.
#[derive(Debug)]
pub struct EventReader {
    limit_bytes: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    is_first_line: bool,
    /// The last line ended with CR: an LF right behind it belongs to it.
    after_cr: bool,
    name: String,
    data: String,
    has_data: bool,
    is_too_large: bool,
    /// What `id:` said last; it counts when its event has ended.
    named_id: Option<String>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl EventReader {
    /// A reader that keeps at most about `limit_bytes` of one event.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            line: Vec::new(),
            is_first_line: true,
            after_cr: false,
            name: String::new(),
            data: String::new(),
            has_data: false,
            is_too_large: false,
            named_id: None,
            last_id: None,
            retry_ms: None,
        }
    }

    /// Gets ready for another connection that goes on with the same stream: what has not ended is dropped, id
    /// and wait stay.
    pub fn reconnect(&mut self) {
        let last_id = self.last_id.take();
        *self = Self { named_id: last_id.clone(), last_id, retry_ms: self.retry_ms, ..Self::new(self.limit_bytes) };
    }

    /// The id of the last event that ended, also of one without data. `None` = there is none, or an
    /// empty one took it back.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long to wait before the stream is taken up again, in milliseconds, as the server said last.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next bytes, and appends what they complete to `events`.
    pub fn read(&mut self, mut bytes: &[u8], events: &mut VecDeque<Event>) {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                self.extend_line(bytes);
                return;
            };
            self.extend_line(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events);
        }
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        if self.line.len() + self.data.len() + bytes.len() > self.limit_bytes {
            self.is_too_large = true;
            self.data = String::new();
        }
        if !self.is_too_large {
            self.line.extend_from_slice(bytes);
        } else if self.line.is_empty() {
            // Of what is dropped only this is of interest: whether the line is blank.
            self.line.extend(bytes.first());
        } else {
            self.line.truncate(1);
        }
    }

    fn end_line(&mut self, events: &mut VecDeque<Event>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event(events);
        } else if !self.is_too_large {
            let line = String::from_utf8_lossy(line);
            // A line that begins with a colon is a comment: a field without a name.
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            self.field(field, value.strip_prefix(' ').unwrap_or(value));
        }
    }

    fn field(&mut self, name: &str, value: &str) {
        match name {
            "event" => self.name = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.named_id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                // More digits than a number has are as good as never.
                self.retry_ms = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }

    fn end_event(&mut self, events: &mut VecDeque<Event>) {
        self.last_id.clone_from(&self.named_id);
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.is_too_large) {
            events.push_back(Event::TooLarge);
        } else if has_data {
            let name = if name.is_empty() { "message".to_owned() } else { name };
            events.push_back(Event::Message { name, data });
        }
    }
}
