//! A tiny HTTP/1.1 server for tests: one thread accepts, one serves each connection, answers come
//! from a function. Can misbehave: cut a body, close without a word, never answer.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Answer {
    Whole {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
        framing: Framing,
    },
    /// Sends its body as it is handed over, in chunks.
    Flows {
        headers: Vec<(String, String)>,
        pieces: Pieces,
    },
    /// Closes the connection without a byte.
    Closes,
    /// Keeps the connection open, says nothing.
    Hangs,
}

/// What is handed over of a body. It ends properly when the sender is dropped.
#[derive(Debug, Clone)]
pub struct Pieces(Arc<Mutex<Receiver<Piece>>>);

#[derive(Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// The connection breaks.
    Break,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    /// Promises more than it sends, then closes.
    Cut,
    /// Says the length, sends nothing of it, stays silent.
    Stalls,
}

impl Answer {
    pub fn raw(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".into(), "application/json".into())];
        Self::Whole { status, headers, body: body.into(), framing: Framing::Length }
    }

    /// A body of that type, status 200, which comes from the sender.
    pub fn flows(content_type: &str) -> (Sender<Piece>, Self) {
        let (sender, receiver) = channel();
        let headers = vec![("Content-Type".into(), content_type.into())];
        (sender, Self::Flows { headers, pieces: Pieces(Arc::new(Mutex::new(receiver))) })
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, body.to_string())
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        let (Self::Whole { headers, .. } | Self::Flows { headers, .. }) = &mut self else { panic!("it has none") };
        headers.push((name.into(), value.into()));
        self
    }

    pub fn framed(mut self, how: Framing) -> Self {
        let Self::Whole { framing, .. } = &mut self else { panic!("it has no body") };
        *framing = how;
        self
    }

    pub fn chunked(self) -> Self {
        self.framed(Framing::Chunked)
    }

    pub fn cut(self) -> Self {
        self.framed(Framing::Cut)
    }

    pub fn stalls(self) -> Self {
        self.framed(Framing::Stalls)
    }

    /// A client may try again at once.
    pub fn at_once(self) -> Self {
        self.header("Retry-After", "0")
    }
}

/// A running server; it ends when dropped.
pub struct HttpServer {
    pub address: SocketAddr,
    ending: Arc<AtomicBool>,
    /// Connections that are left hanging.
    open: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

pub type Respond = dyn Fn(&Received) -> Answer + Send + Sync;
type Connection = Box<dyn ReadWrite>;

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl HttpServer {
    pub fn start(tls: Option<Arc<rustls::ServerConfig>>, respond: Arc<Respond>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ending = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Mutex::new(Vec::new()));
        let (is_ending, kept) = (ending.clone(), open.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_ending.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                // Small pieces must not wait for each other.
                let _ = stream.set_nodelay(true);
                kept.lock().unwrap().push(stream.try_clone().unwrap());
                let closing = stream.try_clone().unwrap();
                let (tls, respond) = (tls.clone(), respond.clone());
                std::thread::spawn(move || {
                    let connection: Connection = match tls {
                        None => Box::new(stream),
                        Some(config) => {
                            let session = rustls::ServerConnection::new(config).unwrap();
                            Box::new(rustls::StreamOwned::new(session, stream))
                        }
                    };
                    // A client may leave whenever it likes, and one that mistrusts us does.
                    let _ = serve(connection, respond.as_ref());
                    // Dropping is not enough: the kept half still holds it open.
                    let _ = closing.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { address, ending, open, thread: Some(thread) }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().iter() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn serve(connection: Connection, respond: &Respond) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    while let Some(request) = read_request(&mut reader)? {
        let out = reader.get_mut();
        match respond(&request) {
            Answer::Closes => return Ok(()),
            Answer::Hangs => return reader.read_to_end(&mut Vec::new()).map(drop),
            Answer::Flows { headers, pieces } => {
                write!(out, "HTTP/1.1 200 Said\r\nTransfer-Encoding: chunked\r\n")?;
                for (name, value) in headers {
                    write!(out, "{name}: {value}\r\n")?;
                }
                write!(out, "\r\n")?;
                out.flush()?;
                while let Ok(piece) = pieces.0.lock().unwrap().recv() {
                    let Piece::Bytes(piece) = piece else { return Ok(()) };
                    write!(out, "{:x}\r\n", piece.len())?;
                    out.write_all(&piece)?;
                    write!(out, "\r\n")?;
                    out.flush()?;
                }
                write!(out, "0\r\n\r\n")?;
                out.flush()?;
            }
            Answer::Whole { status, headers, body, framing } => {
                write!(out, "HTTP/1.1 {status} Said\r\n")?;
                for (name, value) in headers {
                    write!(out, "{name}: {value}\r\n")?;
                }
                match framing {
                    Framing::Length => write!(out, "Content-Length: {}\r\n\r\n", body.len())?,
                    Framing::Chunked => write!(out, "Transfer-Encoding: chunked\r\n\r\n")?,
                    Framing::Cut | Framing::Stalls => write!(out, "Content-Length: {}\r\n\r\n", body.len() + 1)?,
                }
                if framing == Framing::Stalls {
                    out.flush()?;
                    return reader.read_to_end(&mut Vec::new()).map(drop);
                }
                if framing == Framing::Chunked {
                    for piece in body.chunks(7) {
                        write!(out, "{:x}\r\n", piece.len())?;
                        out.write_all(piece)?;
                        write!(out, "\r\n")?;
                        out.flush()?;
                    }
                    write!(out, "0\r\n\r\n")?;
                } else {
                    out.write_all(&body)?;
                }
                out.flush()?;
                if framing == Framing::Cut {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// The next request; `None` when the client has closed the connection.
fn read_request(reader: &mut BufReader<Connection>) -> std::io::Result<Option<Received>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut received = Received { method, path, headers, body: Vec::new() };
    let length = received.header("content-length").map_or(0, |length| length.parse().unwrap());
    received.body.resize(length, 0);
    reader.read_exact(&mut received.body)?;
    Ok(Some(received))
}
