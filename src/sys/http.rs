//! HTTP requests: bounded, with deadlines, over the system's certificates and proxies. One request
//! is one try; who calls decides whether to repeat it. Knows no API.

use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::Timeout;
use ureq::http;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::proxy::{self, NamedProxy};
use super::signal;
use crate::error::{Context, Error, Kind, Result};

/// A server that does not accept a connection within this time is taken for unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const OWN_CERTIFICATE: &str = "a certificate of your own goes into ca_file";
/// How often a client looks whether we were asked to end, where it does.
const SIGNAL_LOOK: Duration = Duration::from_millis(200);
/// Redirects followed within one host.
const MOST_REDIRECTS: usize = 5;

/// How to reach servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpSettings<'a> {
    /// PEM file of certificates trusted in addition to those of the system.
    pub ca_file: Option<&'a Path>,
    /// Longest time for one whole call; `None` = no limit.
    pub timeout: Option<Duration>,
}

/// A client with its connections.
#[derive(Debug)]
pub struct HttpClient {
    agent: ureq::Agent,
    timeout: Option<Duration>,
    proxy: Option<NamedProxy>,
    /// Its end tells the one who looks for signals that there is no more to do.
    _watched: Option<Sender<()>>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// Absolute URL.
    pub url: &'a str,
    /// Headers; they are sent to this URL's host only.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body, as it is sent.
    pub body: Option<&'a [u8]>,
    /// A longer body of the response is an error.
    pub most_body_bytes: u64,
}

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Where the answer came from, after redirects.
    pub url: String,
}

impl HttpResponse {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer whose body is read as it comes. Dropped before its end, it ends the connection.
pub struct HttpStream {
    /// Status code.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Where the answer comes from, after redirects.
    pub url: String,
    body: ureq::BodyReader<'static>,
    /// What the body may still have.
    bytes_left: u64,
    most_body_bytes: u64,
}

impl HttpStream {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Waits for the next bytes of the body, but not beyond the deadline; 0 = it has ended.
    ///
    /// # Errors
    /// `Kind::Task` when the body is too long, else `Kind::Later`. Afterwards nothing more comes.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let host = origin(&self.url);
        let count = self.body.read(buffer).map_err(|error| match error.downcast::<ureq::Error>() {
            Ok(timeout @ ureq::Error::Timeout(_)) => failure(host, "", timeout),
            Ok(other) => Error::later(format!("the answer of `{host}` broke off")).caused_by(other),
            Err(error) => Error::later(format!("the answer of `{host}` broke off")).caused_by(error),
        })?;
        self.bytes_left = self.bytes_left.checked_sub(count as u64).ok_or_else(|| {
            Error::task(format!("the answer of `{host}` is longer than {} bytes", self.most_body_bytes))
        })?;
        Ok(count)
    }

    /// Reads what is left of the body.
    ///
    /// # Errors
    /// As `read`.
    pub fn whole(mut self) -> Result<HttpResponse> {
        let mut body = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            let count = self.read(&mut piece)?;
            if count == 0 {
                return Ok(HttpResponse { status: self.status, headers: self.headers, body, url: self.url });
            }
            body.extend_from_slice(&piece[..count]);
        }
    }
}

impl HttpClient {
    /// A client for addresses that do (`needs_tls`) or do not begin with `https:`. The system's
    /// certificates are read only for the first, and each has its own proxy.
    ///
    /// # Errors
    /// `Kind::Host` when `ca_file` cannot be read or no certificate is found at all.
    pub fn new(settings: HttpSettings<'_>, needs_tls: bool) -> Result<Self> {
        let proxy = proxy::from_env(needs_tls, |name| std::env::var(name).ok())?;
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed here, where the host can be compared.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .proxy(proxy.as_ref().map(|named| named.proxy.clone()))
            .user_agent(concat!("coding-agent/", env!("CARGO_PKG_VERSION")));
        if needs_tls {
            let roots = RootCerts::new_with_certs(&certificates(settings.ca_file)?);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Self { agent: config.build().new_agent(), timeout: settings.timeout, proxy, _watched: None })
    }

    /// The same client, whose requests all fail once a signal has asked us to end, also those that wait in the
    /// middle of an answer. Only a name being looked up or a connection being made is waited for.
    ///
    /// # Errors
    /// `Kind::Host` when there can be no thread that looks.
    pub fn ended_by_signals(mut self) -> Result<Self> {
        let (watched, dropped) = channel();
        let agent = self.agent.clone();
        let look = move || {
            while dropped.recv_timeout(SIGNAL_LOOK) == Err(RecvTimeoutError::Timeout) {
                if signal::termination_requested() {
                    return agent.shutdown();
                }
            }
        };
        // A read goes on after a signal, so this cannot be noticed where it is waited for.
        std::thread::Builder::new().spawn(look).context(Kind::Host, || "cannot start a thread".into())?;
        self._watched = Some(watched);
        Ok(self)
    }

    /// The same client and its connections, with at most `limit` for one whole call.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        let timeout = self.timeout.map_or(limit, |timeout| timeout.min(limit));
        Self {
            agent: self.agent.clone(),
            timeout: Some(timeout),
            proxy: self.proxy.clone(),
            _watched: self._watched.clone(),
        }
    }

    /// Sends a request and reads the whole answer. Redirects within the host are followed with the
    /// same method and body; one to another host is an error, so that no header gets there.
    ///
    /// # Errors
    /// `Kind::Later` when the server cannot be reached or does not answer, `Kind::Task` when it answers
    /// too much, `Kind::Host` when its certificate is not trusted or it redirects elsewhere.
    pub fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse> {
        self.follow(request, None)?.whole()
    }

    /// As `send`, but the body is read by the caller as it comes. All of it, to the last byte of the
    /// body, ends at `deadline`, whatever the client's own limit is.
    ///
    /// # Errors
    /// As `send`.
    pub fn open(&self, request: &HttpRequest<'_>, deadline: Instant) -> Result<HttpStream> {
        self.follow(request, Some(deadline))
    }

    fn follow(&self, request: &HttpRequest<'_>, deadline: Option<Instant>) -> Result<HttpStream> {
        let mut url = request.url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.open_once(request, &url, deadline)?;
            let moved = matches!(response.status, 301 | 302 | 307 | 308);
            let Some(location) = response.header("location").filter(|_| moved) else { return Ok(response) };
            let next = resolve(&url, location);
            if !same_origin(&next, &url) {
                return Err(Error::host(format!("`{}` redirects to another host, `{}`", origin(&url), origin(&next)))
                    .hint("if that is right, change the address in the configuration"));
            }
            log::info!("`{url}` has moved to `{next}`");
            // Read to its end, so that the connection can be used again.
            response.whole()?;
            url = next;
        }
        Err(Error::task(format!("`{}` redirects too often", origin(request.url))))
    }

    fn open_once(&self, request: &HttpRequest<'_>, url: &str, deadline: Option<Instant>) -> Result<HttpStream> {
        let mut builder = http::Request::builder().method(request.method).uri(url);
        for (name, value) in request.headers {
            builder = builder.header(*name, *value);
        }
        let sent = match request.body {
            Some(body) => self.run(builder.body(body), deadline),
            None => self.run(builder.body(()), deadline),
        };
        let response = sent.map_err(|error| {
            let via = self.proxy.as_ref().and_then(|proxy| proxy.on_the_way_to(url)).unwrap_or_default();
            failure(origin(url), &via, error)
        })?;
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        Ok(HttpStream {
            status: response.status().as_u16(),
            headers,
            url: url.to_owned(),
            body: response.into_body().into_reader(),
            bytes_left: request.most_body_bytes,
            most_body_bytes: request.most_body_bytes,
        })
    }

    fn run<B: ureq::AsSendBody>(
        &self,
        request: http::Result<http::Request<B>>,
        deadline: Option<Instant>,
    ) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let request = request?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.agent.run(self.agent.configure_request(request).timeout_global(left.or(self.timeout)).build())
    }
}

/// Scheme, host and port of a URL: who gets our headers.
pub fn origin(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| after_scheme + at);
    &url[..end]
}

/// Whether two URLs lead to the same server: host names without case, default ports left out.
pub fn same_origin(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let origin = origin(url).to_ascii_lowercase();
        let port = if origin.starts_with("https:") { ":443" } else { ":80" };
        origin.strip_suffix(port).map_or(origin.clone(), str::to_owned)
    };
    plain(one) == plain(other)
}

/// A `Location` header seen from `base`: absolute, or a path.
fn resolve(base: &str, location: &str) -> String {
    if location.contains("://") {
        location.to_owned()
    } else if location.starts_with('/') {
        format!("{}{location}", origin(base))
    } else {
        let directory = base.rfind('/').map_or(base, |at| &base[..at]);
        format!("{directory}/{location}")
    }
}

/// What went wrong with `host`, reached as `via` says.
fn failure(host: &str, via: &str, error: ureq::Error) -> Error {
    let unreached = |why: &str| format!("cannot reach `{host}`{via}{why}");
    let (kind, what, hint) = match &error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            return Error::later(unreached(": it accepted no connection in time"));
        }
        // The server has the request and may still be at work on it: a second one would come on top.
        ureq::Error::Timeout(_) => return Error::later(format!("`{host}` did not answer in time")).no_quick_retry(),
        ureq::Error::HostNotFound => (Kind::Later, unreached(": no such host"), None),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            (Kind::Host, unreached(": its certificate is not trusted, or it speaks no TLS"), Some(OWN_CERTIFICATE))
        }
        // A failed handshake comes as an I/O error that holds the TLS one.
        ureq::Error::Io(source) if source.to_string().contains("certificate") => {
            (Kind::Host, unreached(": its certificate is not trusted"), Some(OWN_CERTIFICATE))
        }
        ureq::Error::Io(source) if source.to_string().contains("InvalidContentType") => (
            Kind::Host,
            unreached(": it speaks no TLS, but its address begins with https"),
            Some("where the server has no TLS, write http:// in its address"),
        ),
        ureq::Error::InvalidProxyUrl => (
            Kind::Host,
            "cannot use the proxy of the environment".to_owned(),
            Some("proxies are named by HTTP_PROXY, HTTPS_PROXY and NO_PROXY"),
        ),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => (
            Kind::Host,
            format!("cannot make a request to `{host}`: the address or a header is not valid"),
            Some("look for stray signs in its address and in what goes into headers"),
        ),
        _ => (Kind::Later, unreached(""), None),
    };
    let error = Error::new(kind, what).caused_by(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// The system's certificates and those of `ca_file` in one PEM text, for programs that take only one file.
///
/// # Errors
/// As [`HttpClient::new`].
pub fn certificate_bundle(ca_file: &Path) -> Result<String> {
    let mut bundle = String::new();
    for certificate in certificates(Some(ca_file))? {
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        let code = STANDARD.encode(certificate.der());
        for line in code.as_bytes().chunks(64) {
            bundle.push_str(&String::from_utf8_lossy(line));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    Ok(bundle)
}

/// Whether `ca_file` can be used.
///
/// # Errors
/// `Kind::Host` when it cannot be read or holds no certificate.
pub fn check_ca_file(ca_file: &Path) -> Result<()> {
    own_certificates(ca_file).map(drop)
}

fn own_certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let pem = super::file::read(path)?
        .ok_or_else(|| Error::host(format!("cannot read ca_file `{}`: there is no such file", path.display())))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        let item = item.context(Kind::Host, || format!("cannot read ca_file `{}`: it is not PEM", path.display()))?;
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(Error::host(format!("ca_file `{}` holds no certificate", path.display())));
    }
    Ok(certificates)
}

fn certificates(ca_file: Option<&Path>) -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        log::debug!("a certificate of the system cannot be read: {error}");
    }
    let mut certificates: Vec<Certificate<'static>> =
        found.certs.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
    if let Some(path) = ca_file {
        certificates.extend(own_certificates(path)?);
    }
    if certificates.is_empty() {
        return Err(
            Error::host("this system has no certificates to trust").hint("install ca-certificates, or set ca_file")
        );
    }
    Ok(certificates)
}
