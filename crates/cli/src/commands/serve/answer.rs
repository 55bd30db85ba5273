//! HTTP requests and responses: addresses, headers, bodies.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
};

use form_urlencoded::{byte_serialize, parse};
use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Response, StatusCode,
    body::{Body, Bytes, Frame},
    header::{self, HeaderName, HeaderValue},
};
use layermark_report::render;
use maud::{DOCTYPE, Markup, html};
use tokio::sync::mpsc::Receiver;

use super::{frame, live::Viewer, token::Token};
use crate::failure::{Code, Failure};

/// Content security policy of our own pages: nothing from other sites, and no script but our file.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Content security policy of a report: inline style, no script.
const POLICY_OF_REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Prefix of the cookie's name. The port follows, because a browser sends cookies to every port of
/// a host.
const COOKIE: &str = "layermark-";

/// A response.
pub enum Answer {
    Page(Markup),
    /// A page that an exporter has written.
    Report(Vec<u8>),
    /// A file of ours, with its type.
    File(&'static str, String),
    /// A redirect.
    To(String),
    /// The token was valid: sets the cookie and goes to this address, which has no token in it.
    Welcome(String),
    /// A stream of views of a run.
    Events(Events),
    Refused(StatusCode, &'static str),
    Failed(Failure),
}

/// A response body that is sent while it is made. Its viewer has left once the connection has its last piece: a server
/// that ends waits for that.
pub struct Events {
    pub events: Receiver<Bytes>,
    pub _viewer: Viewer,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.events.poll_recv(context);
        next.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A response as it is sent.
pub type Sent = Response<Either<Full<Bytes>, Events>>;

impl Answer {
    pub fn style() -> Self {
        let own = include_str!("serve.css");
        Self::File("text/css; charset=utf-8", format!("{}{own}", render::STYLE))
    }

    pub fn script() -> Self {
        Self::File(
            "text/javascript; charset=utf-8",
            include_str!("live.js").into(),
        )
    }

    /// The complete response, with headers.
    pub fn send(self, session: &Token, port: u16) -> Sent {
        const HTML: &str = "text/html; charset=utf-8";
        let mut policy = POLICY;
        let mut status = StatusCode::OK;
        let mut more = Vec::new();
        let (kind, body) = match self {
            Self::Page(page) => (HTML, page.into_string().into()),
            Self::Report(page) => {
                policy = POLICY_OF_REPORT;
                (HTML, page.into())
            }
            Self::File(kind, text) => (kind, text.into()),
            Self::To(address) => {
                status = StatusCode::SEE_OTHER;
                more.push((header::LOCATION, address));
                (HTML, Bytes::new())
            }
            Self::Welcome(address) => {
                let cookie = format!(
                    "{COOKIE}{port}={}; Path=/; HttpOnly; SameSite=Strict",
                    session.as_str()
                );
                more.push((header::SET_COOKIE, cookie));
                (HTML, welcome(&address).into_string().into())
            }
            Self::Events(events) => {
                let answer = Response::new(Either::Right(events));
                return with_headers(answer, "text/event-stream", policy, more);
            }
            Self::Refused(code, why) => {
                status = code;
                if code == StatusCode::METHOD_NOT_ALLOWED {
                    more.push((header::ALLOW, "GET, HEAD".into()));
                }
                ("text/plain; charset=utf-8", format!("{why}\n").into())
            }
            Self::Failed(failure) => {
                status = match failure.code {
                    Code::Usage => StatusCode::NOT_FOUND,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (HTML, frame::failed(&failure).into_string().into())
            }
        };
        let mut answer = Response::new(Either::Left(Full::new(body)));
        *answer.status_mut() = status;
        with_headers(answer, kind, policy, more)
    }
}

fn with_headers(
    mut answer: Sent,
    kind: &'static str,
    policy: &'static str,
    more: Vec<(HeaderName, String)>,
) -> Sent {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The first address has the token in it.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in more {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    answer
}

/// A page, not a redirect: after a click on another site, a browser withholds a strict cookie until
/// one of our own pages makes the request.
fn welcome(address: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "layermark" }
            }
            body { p { a href=(address) { "Continue" } } }
        }
    }
}

/// The query string of an address.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(text: Option<&str>) -> Self {
        let pairs = parse(text.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first non-empty value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut of_name = self.0.iter().filter(|(n, v)| n == name && !v.is_empty());
        of_name.next().map(|(_, value)| value.as_str())
    }

    pub fn positive(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok().filter(|n| *n > 0)
    }

    /// The query string without the token.
    pub fn without_token(&self) -> String {
        let others = self.0.iter().filter(|(name, _)| name != "token");
        let pairs = others.map(|(n, v)| format!("{}={}", escaped(n), escaped(v)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// Percent-encodes text for an address.
pub fn escaped(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The session tokens in a browser's cookies, for this port.
pub fn kept_token(headers: &HeaderMap, port: u16) -> impl Iterator<Item = &str> {
    let name = format!("{COOKIE}{port}=");
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let pairs = cookies
        .filter_map(|c| c.to_str().ok())
        .flat_map(|c| c.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(&*name))
}

/// Whether the `Host` header names this machine. With DNS rebinding, a page of another site can
/// make its own name resolve to this machine, but the header still has that name. Numeric addresses
/// are safe, and so is this machine's own name in its network.
pub fn is_own_host(headers: &HeaderMap, public: bool) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|h| h.to_str().ok()) else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if let Ok(address) = name.parse::<IpAddr>() {
        return public || address.is_loopback();
    }
    let own = rustix::system::uname();
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    is("localhost") || public && own.nodename().to_str().is_ok_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::HOST, HeaderValue::try_from(name).unwrap())])
    }

    #[test]
    fn only_addresses_of_this_machine_are_hosts() {
        for own in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "localhost:9",
            "[::1]:80",
            "LOCALHOST",
        ] {
            assert!(is_own_host(&host(own), false), "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "192.0.2.1",
            "",
        ] {
            assert!(!is_own_host(&host(other), false), "{other}");
        }
        assert!(is_own_host(&host("192.0.2.1:8080"), true));
        assert!(!is_own_host(&host("evil.example"), true));
        let own = rustix::system::uname()
            .nodename()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(is_own_host(&host(&format!("{own}:8080")), true));
        assert!(!is_own_host(&HeaderMap::new(), true));
    }

    #[test]
    fn queries_are_taken_apart_and_put_together() {
        let query = Query::of(Some("point=small+read%2C+warm&token=x&layer=&limit=0&n=5"));
        assert_eq!(query.get("point"), Some("small read, warm"));
        assert_eq!((query.get("layer"), query.get("no")), (None, None));
        assert_eq!(
            (query.positive("limit"), query.positive("n")),
            (None, Some(5))
        );
        assert_eq!(
            query.without_token(),
            "point=small+read%2C+warm&layer=&limit=0&n=5"
        );
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let cookie = HeaderValue::from_static(
            "a=b; layermark-8=one; layermark=no; layermark-80=no; layermark-8=two",
        );
        let headers = HeaderMap::from_iter([(header::COOKIE, cookie)]);
        assert_eq!(kept_token(&headers, 8).collect::<Vec<_>>(), ["one", "two"]);
    }
}
