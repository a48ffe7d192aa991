//! A proxy that takes every `CONNECT` to one server, whatever the address, and remembers what it
//! was asked. Anything but `CONNECT` is refused.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A running proxy; its threads end with the connections, at the latest with the test.
pub struct FakeProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeProxy {
    /// Leads to `port` of this machine.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let noted = noted.clone();
                std::thread::spawn(move || lead(stream, port, &noted));
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Request lines so far, with the line of the credentials where there was one.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn lead(stream: TcpStream, port: u16, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let lines: Vec<String> =
        reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let Some(first) = lines.first() else { return };
    let credentials = lines.iter().find(|line| line.to_lowercase().starts_with("proxy-authorization:"));
    asked.lock().unwrap().extend([Some(first), credentials].into_iter().flatten().cloned());
    let mut client = stream;
    if !first.starts_with("CONNECT ") {
        let _ = client.write_all(b"HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let (mut back_from, mut back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut reader, &mut server);
    let _ = server.shutdown(Shutdown::Both);
}
