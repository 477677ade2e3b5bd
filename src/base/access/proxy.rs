//! Decides which proxy leads to the API server, by the rules of Go's `httpproxy`, which kubectl follows.
//!
//! `proxy-url` of the cluster comes first, and `NO_PROXY` does not apply to it. Otherwise `HTTPS_PROXY` serves servers
//! with TLS, and `HTTP_PROXY` those without. Neither serves a server on this machine. `ALL_PROXY` has no effect.

use std::net::IpAddr;

use super::address::Address;

/// The schemes of a proxy.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// A proxy, and the field or variable that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) address: Address,
    pub(super) source: String,
}

/// Reads `proxy-url` of a cluster. Unlike the variables it needs a scheme.
pub(super) fn of_cluster(proxy_url: &str, cluster: &str) -> Result<Proxy, String> {
    let source = format!("proxy-url of cluster {cluster:?}");
    let address = Address::parse(proxy_url).ok_or_else(|| format!("{source} is not a URL"))?;
    if !SCHEMES[..3].contains(&&*address.scheme) {
        return Err(format!("{source} begins with none of http://, https:// and socks5://"));
    }
    if address.host.is_empty() {
        return Err(format!("{source} names no host"));
    }
    Ok(Proxy { address, source })
}

/// Chooses the proxy for a server from the environment.
pub(super) fn of_environment(
    server: &Address,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, String> {
    let first_of = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, variable(name).filter(|value| !value.is_empty())?)))
    };
    let names = if server.scheme == "https" { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let Some((source, value)) = first_of(names) else { return Ok(None) };
    // Go ignores a value that it cannot parse.
    let Some(mut address) = Address::parse_or_http(&value) else { return Ok(None) };
    if server.scheme == "http" && variable("REQUEST_METHOD").is_some_and(|value| !value.is_empty()) {
        return Err(format!("{source} is not used where REQUEST_METHOD is set, because a web client may have set it"));
    }
    if !needs_proxy(server, &first_of(["NO_PROXY", "no_proxy"]).unwrap_or_default().1) {
        return Ok(None);
    }
    if address.host.is_empty() {
        return Err(format!("{source} names no host"));
    }
    // Go takes any other scheme for an HTTP proxy.
    if !SCHEMES.contains(&&*address.scheme) {
        "http".clone_into(&mut address.scheme);
    }
    Ok(Some(Proxy { address, source: source.to_owned() }))
}

/// Whether a request to the server goes through the proxy although this list names exceptions.
fn needs_proxy(server: &Address, exceptions: &str) -> bool {
    let host = server.host.to_ascii_lowercase();
    let port = server.port.unwrap_or(if server.scheme == "https" { 443 } else { 80 });
    let ip: Option<IpAddr> = host.parse().ok().map(|ip: IpAddr| ip.to_canonical());
    if server.host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return false;
    }
    !exceptions.split(',').any(|exception| is_exempt(&exception.trim().to_lowercase(), &host, port, ip))
}

/// Whether one exception of the list applies.
fn is_exempt(exception: &str, host: &str, port: u16, ip: Option<IpAddr>) -> bool {
    if exception == "*" {
        return true;
    }
    if let Some((network, bits)) = parse_network(exception) {
        return ip.is_some_and(|ip| is_within(ip, network, bits));
    }
    let (named, named_port) = split_port(exception);
    if named.is_empty() || named_port.is_some_and(|named| named != port.to_string()) {
        return false;
    }
    if let Ok(named) = named.parse::<IpAddr>() {
        return ip == Some(named.to_canonical());
    }
    // `example.com` names the host and what is below it, `.example.com` and `*.example.com` only what is below.
    let below = named.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(named);
    let is_below = |suffix: &str| host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    ip.is_none()
        && match below.strip_prefix('.') {
            Some(parent) => is_below(parent),
            None => host == below || is_below(below),
        }
}

/// Splits an exception like Go's `SplitHostPort`. Without a valid port, all of it is the host.
fn split_port(exception: &str) -> (&str, Option<&str>) {
    let (host, port) = match exception.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once("]:") {
            Some(parts) => parts,
            None => return (exception, None),
        },
        None => match exception.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, port),
            _ => return (exception, None),
        },
    };
    (host, Some(port).filter(|port| !port.is_empty()))
}

fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (network, bits) = text.split_once('/')?;
    let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
    match network {
        IpAddr::V6(v6)
            if let (Some(v4), Some(bits)) = (v6.to_ipv4_mapped(), bits.checked_sub(96))
                && bits <= 32 =>
        {
            Some((IpAddr::V4(v4), bits))
        }
        _ => (bits <= if network.is_ipv4() { 32 } else { 128 }).then_some((network, bits)),
    }
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://api.example.com:6443";
    const PROXY: &str = "http://proxy:3128";

    fn chosen(server: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let server = Address::parse(server).unwrap();
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        of_environment(&server, variable).map(|proxy| proxy.map(|proxy| proxy.address.url()))
    }

    #[test]
    fn the_list_of_exceptions_is_that_of_go() {
        for (server, exceptions, is_proxied) in [
            (SERVER, "", true),
            (SERVER, "other.example,", true),
            (SERVER, ",", true),
            (SERVER, "proxy", true),
            (SERVER, "example.com,", false),
            (SERVER, " Example.COM ", false),
            (SERVER, ".example.com", false),
            (SERVER, "*.example.com", false),
            (SERVER, "*example.com", true),
            (SERVER, "ple.com", true),
            (SERVER, "api.example.com", false),
            (SERVER, ".api.example.com", true),
            (SERVER, "api.example.com:6443", false),
            (SERVER, "api.example.com:443", true),
            (SERVER, "api.example.com:", false),
            (SERVER, "example.com/path", true),
            (SERVER, "https://api.example.com", true),
            (SERVER, "*", false),
            (SERVER, "other,*", false),
            ("https://api.example.com", "api.example.com:443", false),
            ("https://10.1.2.3:6443", "10.0.0.0/8", false),
            ("https://10.1.2.3:6443", "10.1.2.3", false),
            ("https://10.1.2.3:6443", "10.1.2.3:6443", false),
            ("https://10.1.2.3:6443", "10.1.2.3:443", true),
            ("https://10.1.2.3:6443", "10.1.2", true),
            ("https://10.1.2.3:6443", "10.0.0.0/33", true),
            ("https://10.1.2.3:6443", "0.0.0.0/0", false),
            ("https://10.1.2.3:6443", "::ffff:10.0.0.0/104", false),
            ("https://10.1.2.3:6443", "3", true),
            ("https://[fd00::1]:6443", "fd00::/8", false),
            ("https://[fd00::1]:6443", "fd00::1", false),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", false),
            ("https://[fd00::1]:6443", "[fd00::1]:443", true),
            ("https://localhost:6443", "", false),
            ("https://127.3.2.1:6443", "", false),
            ("https://[::1]:6443", "", false),
        ] {
            let proxy = chosen(server, &[("HTTPS_PROXY", PROXY), ("NO_PROXY", exceptions)]).unwrap();
            assert_eq!(proxy.is_some(), is_proxied, "{server} with NO_PROXY={exceptions:?}");
        }
    }

    #[test]
    fn the_variables_count_in_the_order_of_go() {
        let other = "http://other:1";
        for (server, variables, expected) in [
            (SERVER, &[("HTTPS_PROXY", PROXY), ("https_proxy", other)][..], Some(PROXY)),
            (SERVER, &[("HTTPS_PROXY", ""), ("https_proxy", PROXY)], Some(PROXY)),
            (SERVER, &[("HTTPS_PROXY", "proxy:3128")], Some(PROXY)),
            (SERVER, &[("HTTPS_PROXY", "proxy")], Some("http://proxy")),
            (SERVER, &[("HTTPS_PROXY", "10.0.0.9:3128")], Some("http://10.0.0.9:3128")),
            (SERVER, &[("HTTPS_PROXY", "me:secret@proxy:3128/")], Some("http://proxy:3128/")),
            (SERVER, &[("HTTPS_PROXY", "SOCKS5://proxy:1080")], Some("socks5://proxy:1080")),
            (SERVER, &[("HTTPS_PROXY", "socks5h://proxy:1080")], Some("socks5h://proxy:1080")),
            (SERVER, &[("HTTPS_PROXY", "tcp://proxy:3128")], Some(PROXY)),
            (SERVER, &[("HTTPS_PROXY", " http://proxy")], None),
            (SERVER, &[("HTTPS_PROXY", "http://proxy\n")], None),
            (SERVER, &[("HTTP_PROXY", PROXY), ("ALL_PROXY", PROXY), ("all_proxy", PROXY)], None),
            ("http://api.example.com", &[("HTTP_PROXY", PROXY), ("HTTPS_PROXY", other)], Some(PROXY)),
            ("http://api.example.com", &[("HTTPS_PROXY", PROXY)], None),
            (SERVER, &[("https_proxy", PROXY), ("NO_PROXY", ""), ("no_proxy", "*")], None),
            (SERVER, &[("https_proxy", PROXY), ("NO_PROXY", "other"), ("no_proxy", "*")], Some(PROXY)),
            (SERVER, &[("NO_PROXY", "*")], None),
        ] {
            assert_eq!(chosen(server, variables).unwrap().as_deref(), expected, "{server} {variables:?}");
        }
        let cgi = [("HTTP_PROXY", PROXY), ("REQUEST_METHOD", "GET")];
        assert!(chosen("http://api.example.com", &cgi).unwrap_err().starts_with("HTTP_PROXY is not used"));
        assert_eq!(
            chosen(SERVER, &[("HTTPS_PROXY", PROXY), ("REQUEST_METHOD", "GET")]).unwrap().as_deref(),
            Some(PROXY)
        );
        assert_eq!(chosen(SERVER, &[("HTTPS_PROXY", "/")]).unwrap_err(), "HTTPS_PROXY names no host");
    }

    #[test]
    fn the_proxy_of_a_cluster_needs_a_scheme() {
        assert!(of_cluster("socks5://me:secret@proxy:1080", "c").is_ok());
        for wrong in ["me:secret@proxy", "proxy:3128", "ftp://me:secret@proxy", "http://[me:secret", "http://"] {
            let error = of_cluster(wrong, "c").unwrap_err();
            assert!(error.starts_with("proxy-url of cluster \"c\"") && !error.contains("secret"), "{error}");
        }
    }
}
