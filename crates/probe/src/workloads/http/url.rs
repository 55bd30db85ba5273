//! A URL of the user's, and its address.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::ProbeError;

/// How long resolving a name may take.
const NAMED: Duration = Duration::from_secs(5);

/// How long an address of this machine may take to accept a connection.
const ANSWERED: Duration = Duration::from_secs(1);

/// `http://HOST[:PORT]/PATH`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Host name, without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Value of the header `Host`.
    pub authority: String,
    /// Path with the query.
    pub path: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err("https is not supported: use an http:// URL".into());
        }
        let rest = text
            .strip_prefix("http://")
            .ok_or("it must begin with http://")?;
        if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("a URL has no spaces".into());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("user names and passwords are not supported".into());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("`[` without `]`")?;
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err("it names no host".into());
        }
        let port = port.map_or(Ok(80), str::parse);
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            host: host.to_owned(),
            port: port.map_err(|_| "its port is not a number from 1 to 65535")?,
            authority: authority.to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Resolves the address. An address of another machine is refused unless `remote`.
    pub fn find(&self, remote: bool) -> Result<SocketAddr, ProbeError> {
        let found = self.addresses(NAMED)?;
        // A server of this machine often listens at only one of several addresses of `localhost`.
        let own = found.iter().filter(|at| is_own(at.ip()));
        let answers = |at: &&SocketAddr| TcpStream::connect_timeout(at, ANSWERED).is_ok();
        let chosen = own.clone().find(answers).or_else(|| own.clone().next());
        if let Some(at) = chosen {
            return Ok(*at);
        }
        match found.first() {
            Some(at) if remote => Ok(*at),
            Some(at) => Err(ProbeError::new(format!(
                "http: {} is {}, which is another machine",
                self.host,
                at.ip()
            ))
            .hint("a load test of a machine of others is an attack: if it is meant, add --remote")),
            None => Err(ProbeError::new(format!(
                "http: no address for {}",
                self.host
            ))),
        }
    }

    /// Resolves the name in a thread, because the resolver has no time limit that a program could
    /// set.
    fn addresses(&self, limit: Duration) -> Result<Vec<SocketAddr>, ProbeError> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (tell, told) = mpsc::channel();
        let name = (self.host.clone(), self.port);
        let ask = move || drop(tell.send(name.to_socket_addrs().map(Vec::from_iter)));
        let hint = format!("does it resolve: `getent hosts {}`", self.host);
        thread::Builder::new()
            .name("resolver".into())
            .spawn(ask)
            .map_err(|e| ProbeError::new(format!("cannot start a thread: {e}")))?;
        match told.recv_timeout(limit) {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(e)) => {
                Err(ProbeError::new(format!("http: cannot find {}: {e}", self.host)).hint(hint))
            }
            Err(_) => Err(ProbeError::new(format!(
                "http: the name server did not answer for {} s: {}",
                limit.as_secs(),
                self.host
            ))
            .hint(hint)),
        }
    }
}

/// Whether an interface of this machine has the address.
fn is_own(address: IpAddr) -> bool {
    if address.is_loopback() {
        return true;
    }
    let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    let any = fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    if any.is_ok_and(|any| any.trim() != "0") {
        // Every address can be bound then. A local address is reached from itself.
        return from_which(address).is_ok_and(|from| from == address);
    }
    UdpSocket::bind((address, 0)).is_ok()
}

/// The source address of packets to `address`. No packet is sent.
fn from_which(address: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::workloads::ends::testing::in_a_network_of_its_own;

    #[test]
    fn urls_are_read_or_refused_in_words() {
        let url = Url::parse("http://[::1]:8080?q=1#part").unwrap();
        let parts = (&*url.host, url.port, &*url.authority, &*url.path);
        assert_eq!(parts, ("::1", 8080, "[::1]:8080", "/?q=1"));
        let url = Url::parse("http://a.example/x/y").unwrap();
        let parts = (&*url.host, url.port, &*url.path);
        assert_eq!(parts, ("a.example", 80, "/x/y"));
        for (bad, says) in [
            ("https://localhost/", "https is not supported"),
            ("localhost/", "must begin with http://"),
            ("http:///x", "names no host"),
            ("http://a b/", "no spaces"),
            ("http://u:p@h/", "passwords"),
            ("http://h:99999/", "port"),
            ("http://[::1/", "without `]`"),
        ] {
            let e = Url::parse(bad).unwrap_err();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }

    #[test]
    fn another_machine_is_refused_unless_it_is_meant() {
        // TEST-NET-1, which is never assigned (RFC 5737).
        let url = Url::parse("http://192.0.2.1/").unwrap();
        let e = url.find(false).unwrap_err();
        assert!(e.message.contains("another machine"), "{e}");
        assert!(e.hint.unwrap().contains("--remote"));
        assert_eq!(url.find(true).unwrap().port(), 80);
        let own = Url::parse("http://127.0.0.1:81/").unwrap();
        assert_eq!(own.find(false).unwrap().port(), 81);
    }

    #[test]
    fn an_address_that_can_be_bound_and_is_nobodys_is_another_machine() {
        in_a_network_of_its_own("workloads::http::url::tests::any_address_inside");
    }

    #[test]
    #[ignore = "run by a test above in a network namespace"]
    fn any_address_inside() {
        let run =
            |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success());
        run(&["link", "set", "lo", "up"]);
        run(&["address", "add", "198.51.100.1/24", "dev", "lo"]);
        fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1").unwrap();
        assert!(UdpSocket::bind("192.0.2.1:0").is_ok());
        let found = |host: &str| Url::parse(&format!("http://{host}/")).unwrap().find(false);
        assert!(found("192.0.2.1").is_err());
        assert_eq!(found("198.51.100.1").unwrap().port(), 80);
    }

    #[test]
    fn a_name_is_given_up_after_a_stated_time() {
        let url = Url::parse("http://name.invalid/").unwrap();
        let e = url.addresses(Duration::ZERO).unwrap_err();
        assert!(e.message.contains("did not answer for 0 s"), "{e}");
        assert!(e.hint.unwrap().contains("getent hosts name.invalid"));
    }
}
