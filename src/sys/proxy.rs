//! Which proxy leads to a server, from the variables every program of the system reads. ureq's own
//! choice takes HTTPS_PROXY for `http://` addresses too, and reads `NO_PROXY` to the letter.

use ureq::{Proxy, ProxyBuilder, ProxyProtocol};

use crate::error::{Error, Result};

/// A proxy and the variable that names it.
#[derive(Debug, Clone)]
pub(super) struct NamedProxy {
    pub(super) proxy: Proxy,
    variable: &'static str,
}

impl NamedProxy {
    /// ` through the proxy …`, for a sentence about `url`; `None` where it is reached straight.
    pub(super) fn on_the_way_to(&self, url: &str) -> Option<String> {
        let is_passed = url.parse().is_ok_and(|uri| !self.proxy.is_no_proxy(&uri));
        let (host, port) = (self.proxy.host(), self.proxy.port());
        is_passed.then(|| format!(" through the proxy `{host}:{port}` ({})", self.variable))
    }
}

/// The proxy for addresses that do (`https`) or do not speak TLS; `None` = straight. Lower case goes
/// first, as in curl ("Environment", curl.se/docs/manpage.html).
///
/// # Errors
/// `Kind::Host` when a variable names no proxy we can use; its value, which may hold a password, is
/// not shown.
pub(super) fn from_env(https: bool, lookup: impl Fn(&str) -> Option<String>) -> Result<Option<NamedProxy>> {
    let of_scheme = if https { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
    let filled = |name: &&str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let names = of_scheme.into_iter().chain(["all_proxy", "ALL_PROXY"]);
    let Some((name, value)) = names.filter_map(|name| Some((name, filled(&name)?))).next() else { return Ok(None) };
    let unfit = || {
        Error::host(format!("cannot use the proxy in {name}"))
            .hint("allowed: http:// or https://, a host and a port; unset it to go straight")
    };
    let named = Proxy::new(&value).map_err(|error| unfit().caused_by(error))?;
    // SOCKS is not built in; going straight instead would be a surprise.
    if !matches!(named.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
        return Err(unfit());
    }
    let mut proxy = Proxy::builder(named.protocol()).host(named.host()).port(named.port());
    if let Some(user) = named.username() {
        proxy = proxy.username(user).password(named.password().unwrap_or_default());
    }
    let exceptions = ["no_proxy", "NO_PROXY"].iter().find_map(filled).unwrap_or_default();
    let proxy = exceptions.split([',', ' ']).filter(|entry| !entry.is_empty()).fold(proxy, without);
    let proxy = proxy.build().map_err(|error| unfit().caused_by(error))?;
    Ok(Some(NamedProxy { proxy, variable: name }))
}

/// `example.org` and `.example.org` both mean the domain and what is below it.
fn without(proxy: ProxyBuilder, entry: &str) -> ProxyBuilder {
    // A port cannot be told apart here; the host alone decides.
    let host = entry.rsplit_once(':').filter(|(host, _)| !host.contains(':')).map_or(entry, |(host, _)| host);
    if host.contains('*') {
        return proxy.no_proxy(host);
    }
    let domain = host.trim_start_matches('.');
    proxy.no_proxy(domain).no_proxy(&format!(".{domain}"))
}
