//! HTTP/1.1 as the fakes speak it: requests with Content-Length or chunks, answers with
//! Content-Length, connections kept open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// Which of the two addresses a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Api,
    Web,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub host: Host,
    pub method: String,
    /// As sent, with the query.
    pub target: String,
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// `METHOD target`, for messages and patterns.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type".into(), kind.into())], body: body.into() }
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json; charset=utf-8", body.to_string())
    }

    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The bytes of the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\nserver: fake\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !matches!(self.status, 204 | 304) {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if !matches!(self.status, 204 | 304) {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        410 => "Gone",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Other",
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut bytes = Vec::new();
    match reader.take(64 * 1024).read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// The next request; `None` when the client went away, an error when it does not speak HTTP.
pub fn read(reader: &mut BufReader<TcpStream>, host: Host) -> Option<Result<Request, String>> {
    let first = line(reader)?;
    let parts: Vec<&str> = first.split(' ').collect();
    let &[method, target, "HTTP/1.1"] = parts.as_slice() else {
        return Some(Err(format!("not an HTTP/1.1 request line: {first:?}")));
    };
    let mut headers = Vec::new();
    loop {
        let text = line(reader)?;
        if text.is_empty() {
            break;
        }
        let Some((name, value)) = text.split_once(':') else {
            return Some(Err(format!("not a header: {text:?}")));
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        host,
        method: method.to_owned(),
        target: target.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: Vec::new(),
    };
    if request.header("host").is_none() || !target.starts_with('/') {
        return Some(Err(format!("no Host header, or not a path: {first:?}")));
    }
    if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    match body(reader, &request) {
        Ok(bytes) => request.body = bytes?,
        Err(text) => return Some(Err(text)),
    }
    Some(Ok(request))
}

/// `Ok(None)` when the client went away in the middle.
fn body(reader: &mut BufReader<TcpStream>, request: &Request) -> Result<Option<Vec<u8>>, String> {
    let chunked = request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    match (request.header("content-length"), chunked) {
        (Some(_), true) => Err("both Content-Length and chunks".to_owned()),
        (Some(text), false) => {
            let length = text.parse::<usize>().map_err(|_| format!("Content-Length: {text}"))?;
            let mut bytes = vec![0; length];
            Ok(reader.read_exact(&mut bytes).ok().map(|()| bytes))
        }
        (None, false) => Ok(Some(Vec::new())),
        (None, true) => chunks(reader),
    }
}

fn chunks(reader: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    loop {
        let Some(size) = line(reader) else { return Ok(None) };
        let digits = size.split(';').next().unwrap_or_default().trim();
        let length = usize::from_str_radix(digits, 16).map_err(|_| format!("not the size of a chunk: {size:?}"))?;
        let start = bytes.len();
        bytes.resize(start + length, 0);
        if reader.read_exact(&mut bytes[start..]).is_err() {
            return Ok(None);
        }
        let Some(end) = line(reader) else { return Ok(None) };
        if !end.is_empty() {
            return Err(format!("a chunk longer than it says: {end:?}"));
        }
        if length == 0 {
            return Ok(Some(bytes));
        }
    }
}

/// Undoes percent-encoding, once and strictly; a `+` is a space in queries only.
pub fn decode(raw: &str, in_query: bool) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let pair = [rest.next().unwrap_or(b'?'), rest.next().unwrap_or(b'?')];
                let digits = std::str::from_utf8(&pair).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(value.ok_or_else(|| format!("bad percent-encoding in {raw:?}"))?);
            }
            b'+' if in_query => bytes.push(b' '),
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' | 0..=32 | 127.. => {
                return Err(format!("a character that must be encoded in {raw:?}"));
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("not UTF-8: {raw:?}"))
}

/// Percent-encodes one path segment.
pub fn segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
