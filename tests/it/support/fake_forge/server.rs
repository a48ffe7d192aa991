//! Connections of a fake: accepted, read request by request, answered by a service, cut on order.

use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::wire::{self, Host, Reply, Request};

/// What to do with a connection after a request.
pub enum Act {
    Send(Vec<u8>),
    /// Sends this much and closes.
    Cut(Vec<u8>),
}

/// What answers.
pub trait Service: Send + Sync {
    fn exchange(&self, request: Request) -> Act;
    /// Something was asked that should not have been.
    fn violate(&self, text: String);
}

/// A running server; it ends when dropped.
pub struct Server {
    state: Arc<State>,
    addresses: Vec<String>,
}

struct State {
    service: Arc<dyn Service>,
    /// Open connections, to be closed at the end.
    open: Mutex<Vec<TcpStream>>,
    over: AtomicBool,
}

/// A panic in one connection must not hide behind poison in the others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Server {
    pub fn start(listeners: Vec<(Host, TcpListener)>, service: Arc<dyn Service>) -> Self {
        let addresses = listeners.iter().map(|(_, listener)| listener.local_addr().unwrap().to_string()).collect();
        let state = Arc::new(State { service, open: Mutex::new(Vec::new()), over: AtomicBool::new(false) });
        for (host, listener) in listeners {
            let state = Arc::clone(&state);
            std::thread::spawn(move || accept(&state, host, &listener));
        }
        Self { state, addresses }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        for address in &self.addresses {
            drop(TcpStream::connect(address));
        }
        for stream in lock(&self.state.open).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

fn accept(state: &Arc<State>, host: Host, listener: &TcpListener) {
    for stream in listener.incoming() {
        if state.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            lock(&state.open).push(copy);
        }
        let state = Arc::clone(state);
        std::thread::spawn(move || converse(state.service.as_ref(), host, stream));
    }
}

fn converse(service: &dyn Service, host: Host, stream: TcpStream) {
    drop(stream.set_nodelay(true));
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some(request) = wire::read(&mut reader, host) {
        let act = match request {
            Ok(request) => {
                // A fault of the fake itself must fail the test, not look like a broken connection.
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| service.exchange(request)));
                outcome.unwrap_or_else(|_| {
                    service.violate("the fake itself panicked; see above".to_owned());
                    Act::Cut(Vec::new())
                })
            }
            Err(why) => {
                service.violate(format!("not HTTP: {why}"));
                Act::Cut(Reply::new(400, "text/plain", why).encode())
            }
        };
        let (bytes, more) = match act {
            Act::Send(bytes) => (bytes, true),
            Act::Cut(bytes) => (bytes, false),
        };
        if writer.write_all(&bytes).is_err() || !more {
            break;
        }
    }
    drop(writer.shutdown(Shutdown::Both));
}
