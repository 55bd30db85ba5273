use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_model::{FigureValue, Point, PointError, Trial, Unit};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use super::{
    WORKLOAD,
    hosted::{self, HostedServer, Site},
    params::Server,
    server::OwnServer,
};
use crate::{
    ProbeError, Workload,
    programs::PATH,
    workloads::ends::{
        PATIENCE,
        testing::{self, Ends, LOOPBACK, context, in_a_network_of_its_own},
    },
};

fn points(params: Value) -> Result<Vec<Point>, PointError> {
    testing::points(&WORKLOAD, params)
}

fn point(params: Value) -> Point {
    testing::point(&WORKLOAD, params)
}

fn start(params: Value) -> Result<Ends, ProbeError> {
    Ends::start(&WORKLOAD, params)
}

fn server_of(trial: &Trial) -> &str {
    match trial.figures.get("server") {
        Some(FigureValue::Text(name)) => name,
        other => panic!("{other:?}"),
    }
}

fn connections(trial: &Trial) -> u64 {
    trial.figures.number("connections").unwrap() as u64
}

#[test]
fn points_are_bodies_by_concurrency() {
    let all = points(json!({"body": "1K,100K", "connection": "keep-alive,close"})).unwrap();
    let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels.len(), 8);
    assert_eq!(
        labels[..3],
        [
            "1K body, 1 at once",
            "1K body, 1 at once, close",
            "1K body, 16 at once"
        ]
    );
    let said = &all[0].meaning;
    assert_eq!((said.unit, said.concurrency), (Unit::Transaction, 1));
    assert!(said.divided.is_some() && !said.paced && !said.changes);
    let paced = point(json!({"rate": 500, "concurrency": 4})).meaning;
    assert!(paced.paced && paced.divided.is_none() && paced.concurrency == 1);
    let url = point(json!({"url": "http://localhost:8080/x", "concurrency": 1}));
    assert!(!url.needs.near.has_two() && url.number("body") == 0);
    for (bad, says) in [
        (
            json!({"url": "https://localhost/"}),
            "https is not supported",
        ),
        (
            json!({"url": "http://localhost/", "body": "1K"}),
            "`body` has no effect",
        ),
        (json!({"remote": true}), "`remote` has no effect"),
        (json!({"concurrency": 0}), "`concurrency` = 0"),
        (json!({"body": 0}), "`body` = 0"),
        (json!({"time": "1s"}), "`time` has no effect"),
        (json!({"server": "iis"}), "`iis` is not known"),
    ] {
        let e = points(bad).unwrap_err();
        assert!(e.message.contains(says), "{e}");
    }
}

#[test]
fn requests_go_in_turns_to_each_server() {
    for (server, connection, concurrency, body) in [
        ("own", "keep-alive", 3, 1000),
        ("own", "close", 2, 100_000),
        ("nginx", "keep-alive", 3, 100_000),
        ("nginx", "close", 2, 1000),
        ("apache", "keep-alive", 3, 1000),
        ("apache", "close", 1, 100_000),
    ] {
        let what = format!("{server} {connection}");
        let params = json!({
            "server": server, "connection": connection, "concurrency": concurrency, "body": body,
        });
        let mut ends = match start(params) {
            Err(e) if e.message.contains("was not found in") => {
                eprintln!("skipped: {e}");
                continue;
            }
            started => started.unwrap(),
        };
        for _ in 0..3 {
            let turned = ends.turn(5).unwrap();
            assert!(turned.more && turned.turn.ops > 0, "{what}: {turned:?}");
            assert!(turned.turn.elapsed_ns > 3_000_000, "{what}: {turned:?}");
        }
        let trial = ends.end();
        let number = |name: &str| trial.figures.number(name);
        assert_eq!(trial.bytes(), trial.ops() * body, "{what}");
        let told = [number("checked"), number("one_host")];
        assert_eq!(told, [Some(1.0); 2], "{:?}", trial.figures);
        let name = if server == "own" { "layermark" } else { server };
        let told = server_of(&trial).to_lowercase();
        assert!(told.starts_with(name), "{told}");
        let made = if connection == "close" {
            trial.ops()
        } else {
            0
        };
        assert_eq!(number("connections"), Some(made as f64), "{what}");
        assert!(
            number("ceiling") > Some(0.0) && number("far_cpu_ns") > Some(0.0),
            "{:?}",
            trial.figures
        );
        assert!(trial.latency.is_some() && trial.response_ns.is_none());
    }
}

#[test]
fn one_stretch_is_made_of_passes() {
    let mut ends = start(json!({"server": "own", "concurrency": 2})).unwrap();
    ends.turn(0).unwrap();
    assert!(ends.end().ops() > 0);
}

/// Behaviour of a server at its `n`th request, on this connection; `false` closes it.
type Manner = fn(u64, &mut TcpStream) -> bool;

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nServer: odd/1\r\n\r\n0123456789";

/// A server that behaves correctly at first, while the client prepares.
fn odd_server(manner: Manner) -> Value {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let asked = Arc::clone(&asked);
            thread::spawn(move || {
                while heard(&mut stream) {
                    let n = asked.fetch_add(1, Ordering::SeqCst);
                    let on = if n < 3 {
                        stream.write_all(GOOD).is_ok()
                    } else {
                        manner(n, &mut stream)
                    };
                    if !on {
                        return;
                    }
                }
            });
        }
    });
    json!({"url": format!("http://127.0.0.1:{port}/page"), "concurrency": 1})
}

/// Reads a request to its end.
fn heard(stream: &mut TcpStream) -> bool {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return false;
        }
        request.push(byte[0]);
    }
    true
}

fn say(stream: &mut TcpStream, text: &[u8]) -> bool {
    stream.write_all(text).is_ok()
}

#[test]
fn what_is_wrong_with_an_answer_is_counted_and_said() {
    let cases: [(Manner, &str); 8] = [
        (
            |_, s| {
                say(s, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
                false
            },
            "closed the connection after 5 bytes of a body",
        ),
        (
            |_, s| {
                say(s, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
                thread::sleep(Duration::from_millis(20));
                // Closed with a reset.
                set_socket_linger(&*s, Some(Duration::ZERO)).unwrap();
                false
            },
            "closed the connection too early: receiving a body",
        ),
        (
            |_, s| {
                say(
                    s,
                    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012345678X",
                )
            },
            "sent a body of the right length with wrong bytes",
        ),
        (
            |_, s| say(s, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n012345678"),
            "sent a body of 9 bytes where 10 are expected",
        ),
        (
            |_, s| say(s, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            "answered with status 503",
        ),
        (
            |_, s| say(s, b"220 ftp.example ready\r\n\r\n"),
            "speaks another protocol than HTTP",
        ),
        (|_, _| false, "closed the connection instead of an answer"),
        (
            |_, s| {
                say(s, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
                false
            },
            "closed the connection after 0 bytes of a body",
        ),
    ];
    for (manner, says) in cases {
        let mut ends = start(odd_server(manner)).unwrap();
        let e = ends.turn(5).expect_err(says);
        assert!(e.message.contains(says), "{says}: {e}");
        assert!(e.message.starts_with("http GET: 127.0.0.1:"), "{e}");
        assert!(e.message.contains("; 1 of 2 requests failed (1 "), "{e}");
        assert!(e.hint.is_some(), "{e}");
    }
}

#[test]
fn a_silent_server_is_given_up_after_a_stated_time() {
    let silent: Manner = |_, s| s.read(&mut [0]).is_ok();
    let mut ends = start(odd_server(silent)).unwrap();
    let began = Instant::now();
    let e = ends.turn(5).unwrap_err();
    assert!(e.message.contains("was silent for 5 s"), "{e}");
    assert!(began.elapsed() >= PATIENCE);
}

#[test]
fn a_page_that_changes_is_checked_by_its_status() {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut n = 0;
        for mut stream in listener.incoming().map_while(Result::ok) {
            while heard(&mut stream) {
                n += 1;
                let body = format!("visitor {n}");
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                say(&mut stream, (head + &body).as_bytes());
            }
        }
    });
    let url = json!({"url": format!("http://127.0.0.1:{port}/"), "concurrency": 1});
    let mut ends = start(url).unwrap();
    ends.turn(5).unwrap();
    let trial = ends.end();
    assert_eq!(trial.figures.number("checked"), Some(0.0));
    let server = server_of(&trial);
    assert!(server.contains("without a name"), "{server}");
}

#[test]
fn a_server_that_closes_kept_connections_is_connected_to_again() {
    let closes: Manner = |_, s| {
        say(
            s,
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789",
        );
        false
    };
    let mut ends = start(odd_server(closes)).unwrap();
    ends.turn(5).unwrap();
    let trial = ends.end();
    let made = connections(&trial);
    assert!(made + 1 >= trial.passes[0].ops && made > 0, "{made}");
}

#[test]
fn a_request_that_meets_a_connection_being_closed_is_made_once_more() {
    // The answer does not announce that the connection closes.
    let closes: Manner = |_, s| {
        say(s, GOOD);
        false
    };
    let mut ends = start(odd_server(closes)).unwrap();
    ends.turn(5).unwrap();
    let trial = ends.end();
    let made = connections(&trial);
    assert!(made + 2 >= trial.passes[0].ops && made > 0, "{made}");
}

#[test]
fn latency_at_a_rate_counts_from_the_intended_moment() {
    // The 140th request takes 100 ms; all that are due meanwhile are late.
    let stalls: Manner = |n, s| {
        if n == 140 {
            thread::sleep(Duration::from_millis(100));
        }
        say(s, GOOD)
    };
    let mut params = odd_server(stalls);
    params["rate"] = 1000.into();
    let mut ends = start(params).unwrap();
    ends.turn(0).unwrap();
    let trial = ends.end();
    let (response, service) = (trial.latency.unwrap(), trial.service.unwrap());
    assert!(response.max >= 95_000_000 && service.max >= 95_000_000);
    // One of 300 was slow, and about 100 had to wait for it: 50 ms each.
    assert!(
        response.mean > 10e6 && response.mean > 5.0 * service.p50 as f64,
        "{response:?} {service:?}"
    );
    assert!(trial.response_ns.unwrap() > 5e6);
    // On a busy machine the last ones may be too late.
    let ops = trial.passes[0].ops;
    let number = |name: &str| trial.figures.number(name).unwrap();
    let due = ops as f64 + number("unsent");
    assert_eq!((number("rate"), due), (1000.0, 300.0));
    assert!(ops > 200, "{ops}");
}

#[test]
fn a_rate_that_is_not_reached_is_said() {
    let slow: Manner = |_, s| {
        thread::sleep(Duration::from_millis(10));
        say(s, GOOD)
    };
    let mut params = odd_server(slow);
    params["rate"] = 1000.into();
    let mut ends = start(params).unwrap();
    ends.turn(0).unwrap();
    let trial = ends.end();
    assert!(trial.figures.number("unsent") > Some(200.0));
    assert!(
        trial.notes[0].contains("the rate was not reached"),
        "{:?}",
        trial.notes
    );
}

#[test]
fn nobody_is_served_without_the_secret() {
    let own = point(json!({"server": "own", "concurrency": 1}));
    let far = WORKLOAD.serve(Path::new("/"), &own, &context(0)).unwrap();
    let mut wrong = context(far.port());
    wrong.peer.as_mut().unwrap().secret = "another one".into();
    let e = WORKLOAD
        .prepare(Path::new("/"), &own, &wrong)
        .err()
        .unwrap();
    assert!(e.hint.unwrap().contains("another secret"), "{}", e.message);
    let mut stranger = TcpStream::connect((LOOPBACK, far.port())).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    let _ = stranger.read_to_string(&mut text);
    assert_eq!(text, "");
    // It listens only at its address.
    let elsewhere = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), far.port());
    assert!(TcpStream::connect(elsewhere).is_err());
    // It still serves a client that knows it.
    assert!(
        WORKLOAD
            .prepare(Path::new("/"), &own, &context(far.port()))
            .is_ok()
    );
}

/// Status and text of an answer.
fn asked(at: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
    (status.unwrap_or(0), text)
}

#[test]
fn who_does_not_know_the_name_of_the_file_gets_nothing() {
    const NAME: &str = "only-who-was-told-knows-it";
    let check = |at: SocketAddr, server: &str| {
        let (status, text) = asked(at, &format!("/{NAME}"));
        assert!(status == 200 && text.ends_with("data"), "{server}: {text}");
        for path in ["/", "/other", "/..", "/../httpd.conf", "/nginx.conf"] {
            let (status, text) = asked(at, path);
            assert!([400, 403, 404].contains(&status), "{server} {path}: {text}");
            assert!(!text.contains(NAME), "{server} {path}: {text}");
        }
    };
    // Nobody else takes ports there.
    let any = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 3).into(), 0);
    let own = OwnServer::start(any, &format!("/{NAME}"), b"data".to_vec(), &[]).unwrap();
    check(own.at().unwrap(), "own");
    // Apache serves as another user.
    let dir = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    for server in [Server::Nginx, Server::Apache] {
        if hosted::find(server, PATH).is_err() {
            eprintln!("skipped: {} is not installed", server.id());
            continue;
        }
        let free = TcpListener::bind(any).unwrap();
        let site = Site {
            at: free.local_addr().unwrap(),
            name: NAME,
            file: b"data",
            processes: 1,
            connections: 1,
        };
        drop(free);
        let _running = HostedServer::start(server, dir.path(), &site).unwrap();
        check(site.at, server.id());
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let own = point(json!({"server": "own", "concurrency": 1}));
    let e = WORKLOAD
        .serve(Path::new("/"), &own, &context(port))
        .err()
        .unwrap();
    assert_eq!(e.errno, Some(libc::EADDRINUSE));
    assert!(e.message.contains(&format!("127.0.0.1:{port}")), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let site = Site {
        at: SocketAddr::new(LOOPBACK, port),
        name: "x",
        file: b"x",
        processes: 1,
        connections: 1,
    };
    for server in [Server::Nginx, Server::Apache] {
        if hosted::find(server, PATH).is_err() {
            eprintln!("skipped: {} is not installed", server.id());
            continue;
        }
        let e = HostedServer::start(server, dir.path(), &site)
            .err()
            .unwrap();
        assert_eq!(e.errno, Some(libc::EADDRINUSE));
        assert!(e.hint.unwrap().contains(&format!("sport = :{port}")));
    }
    // No files are left.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_server_that_is_not_installed_is_named() {
    for (server, name) in [
        (Server::Nginx, "nginx"),
        (Server::Apache, "apache2 or httpd"),
    ] {
        let e = hosted::find(server, "/nowhere").unwrap_err();
        assert!(
            e.message
                .contains(&format!("{name} was not found in /nowhere")),
            "{e}"
        );
        assert!(e.hint.unwrap().contains("--server own"));
    }
}

#[test]
fn a_server_that_is_gone_is_told() {
    let gone = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let url = json!({"url": format!("http://127.0.0.1:{port}/"), "concurrency": 1});
    let e = start(url).err().unwrap();
    assert!(
        e.message
            .contains("refused the connection (nothing is listening)"),
        "{e}"
    );
    let mut ends = start(json!({"server": "own", "concurrency": 2})).unwrap();
    ends.turn(5).unwrap();
    ends.far.take().unwrap().end().unwrap();
    let e = ends.turn(5).unwrap_err();
    assert!(
        e.hint.is_some() && e.message.starts_with("http GET: 127.0.0.1:"),
        "{e}"
    );
}

#[test]
fn ephemeral_ports_that_are_used_up_are_an_error() {
    in_a_network_of_its_own("workloads::http::tests::few_ports_inside");
}

#[test]
#[ignore = "run by a test above in a network namespace"]
fn few_ports_inside() {
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    let own = json!({"server": "own", "connection": "close", "concurrency": 8});
    let mut ends = start(own).unwrap();
    ends.turn(5).unwrap();
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50001").unwrap();
    let e = (0..20)
        .find_map(|_| ends.turn(20).err())
        .expect("two ports for eight");
    assert!(e.message.contains("the ephemeral ports are used up"), "{e}");
    assert!(e.hint.unwrap().contains("ip_local_port_range"));
}
