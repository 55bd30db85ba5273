use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{
    FigureValue, FigureValues, Point, PointError, Target, Trial, Unit, WorkGroup,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    WORKLOAD,
    figures::NetEnd,
    near::{Counters, Welcome},
    params::NetParams,
};
use crate::{
    FarEnd, ProbeError, TurnRequest, Workload,
    workloads::ends::{
        PATIENCE,
        control::{Answer, Hello, Request, done},
        lines::Lines,
        place::Host,
        testing::{self, Ends, LOOPBACK, context, in_a_network_of_its_own},
    },
};

fn points(params: Value) -> Result<Vec<Point>, PointError> {
    testing::points(&WORKLOAD, params)
}

fn point(params: Value) -> Point {
    testing::point(&WORKLOAD, params)
}

fn start(params: Value) -> Ends {
    Ends::start(&WORKLOAD, params).unwrap()
}

#[test]
fn points_are_operations_by_sizes() {
    let all = points(json!({"op": "rr,stream", "socket_buffer": "32K,256K,auto"})).unwrap();
    let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "rr, 1/1 bytes, 32K socket buffers",
            "rr, 1/1 bytes, 256K socket buffers",
            "rr, 1/1 bytes",
            "stream, 128K messages, 32K socket buffers",
            "stream, 128K messages, 256K socket buffers",
            "stream, 128K messages",
        ]
    );
    let (rr, stream) = (&all[0].meaning, &all[5].meaning);
    assert_eq!((rr.target, rr.unit), (Target::Network, Unit::Transaction));
    assert_eq!(
        (rr.group(), stream.unit),
        (WorkGroup::Networking, Unit::Byte)
    );
    assert!(!rr.changes && rr.divided.is_some());
    assert_eq!(point(json!({"op": "udp-stream"})).number("message"), 1472);
    let placed = points(json!({"op": "rr", "placement": "other,same"})).unwrap();
    let nodelay = point(json!({"op": "rr", "nodelay": true}));
    let told = [&placed[0], &placed[1], &nodelay].map(|p| p.meaning.describe(&[]));
    let rr = "rr, 1/1 bytes";
    assert_eq!(
        told,
        [
            rr.to_owned(),
            format!("{rr}, same CPU"),
            format!("{rr}, nodelay")
        ]
    );
    for (bad, says) in [
        (json!({"op": "tcp"}), "`op` = `tcp` is not known"),
        (json!({"op": "rr", "request": 0}), "`request` = 0"),
        (json!({"op": "udp-rr", "request": "64K"}), "up to 65507"),
        (
            json!({"op": "rr", "message": "64K"}),
            "`message` has no effect",
        ),
        (
            json!({"op": "udp-rr", "nodelay": true}),
            "`nodelay` has no effect",
        ),
        (json!({"streams": 65}), "`streams` = 65"),
    ] {
        let e = points(bad).unwrap_err();
        assert!(e.message.contains(says), "{e}");
    }
}

#[test]
fn every_operation_goes_in_turns() {
    for (op, streams) in [
        ("rr", 1),
        ("rr", 3),
        ("crr", 1),
        ("stream", 1),
        ("stream", 2),
        ("maerts", 1),
        ("bidir", 1),
        ("udp-stream", 1),
        ("udp-rr", 2),
    ] {
        let mut ends = start(json!({"op": op, "streams": streams}));
        for _ in 0..3 {
            let turned = ends.turn(5).unwrap();
            assert!(turned.more && turned.turn.ops > 0, "{op}: {turned:?}");
            assert!(turned.turn.elapsed_ns >= 4_000_000, "{op}: {turned:?}");
        }
        let trial = ends.end();
        let net = &trial.figures;
        let p: NetParams = point(json!({"op": op, "streams": streams}))
            .typed()
            .unwrap();
        assert_eq!(trial.bytes(), trial.ops() * p.op_bytes(), "{op}");
        assert!(
            number(net, "near.send_buffer") > 0.0 && number(net, "far.receive_buffer") > 0.0,
            "{op}"
        );
        assert_eq!(number(net, "one_host") as u64, 1, "{op}: {net:?}");
        assert!(number(net, "ceiling") > 0.0, "{op}: {net:?}");
        let timed = trial.latency.as_ref().map(|l| l.p50 > 0);
        assert_eq!(timed, p.op.transacts().then_some(true), "{op}");
    }
}

#[test]
fn buffers_are_told_as_they_are() {
    let mut ends = start(json!({"op": "stream", "socket_buffer": "32K"}));
    ends.turn(5).unwrap();
    let net = ends.end().figures;
    // Linux doubles the requested size.
    for size in [
        "near.send_buffer",
        "near.receive_buffer",
        "far.send_buffer",
        "far.receive_buffer",
    ] {
        assert_eq!(number(&net, size) as u64, 65536, "{net:?}");
    }
}

fn number(figures: &FigureValues, name: &str) -> f64 {
    figures.number(name).unwrap()
}

fn list(figures: &FigureValues, name: &str) -> Vec<f64> {
    match figures.get(name).unwrap() {
        FigureValue::List(values) => values.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// `Cpus_allowed_list` of a thread; empty if it has ended.
fn allowed_lists(of: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(of.join("status")).unwrap_or_default();
    let lists = text
        .lines()
        .filter_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    lists.map(|list| list.trim().to_owned()).collect()
}

#[test]
fn both_ends_are_placed() {
    for (placement, same) in [("same", true), ("other", false)] {
        let mut ends = start(json!({"op": "rr", "placement": placement}));
        ends.turn(5).unwrap();
        let own = allowed_lists(Path::new("/proc/thread-self"));
        let others = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let others: Vec<String> = others.flat_map(|t| allowed_lists(&t.path())).collect();
        let net = ends.end().figures;
        let (near, far) = (list(&net, "near.cpus"), list(&net, "far.cpus"));
        if thread::available_parallelism().unwrap().get() == 1 && !same {
            assert!(near.is_empty() && far.is_empty());
            continue;
        }
        assert_eq!((near.len(), far.len()), (1, 1));
        assert_eq!(own, vec![near[0].to_string()]);
        assert!(others.contains(&far[0].to_string()), "{others:?}");
        assert_eq!(near == far, same, "{net:?}");
    }
    let mut ends = start(json!({"op": "rr", "placement": "free"}));
    ends.turn(5).unwrap();
    assert!(list(&ends.end().figures, "near.cpus").is_empty());
}

#[test]
fn one_stretch_is_made_of_passes() {
    for op in ["rr", "stream"] {
        let mut ends = start(json!({"op": op}));
        ends.turn(0).unwrap();
        let trial = ends.end();
        assert!(!trial.passes.is_empty() && trial.ops() > 0, "{op}");
    }
}

/// A foreign peer: it accepts one connection and does this with it.
fn stranger(what: impl FnOnce(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || what(listener.accept().unwrap().0));
    port
}

fn refused(port: u16) -> ProbeError {
    let made = WORKLOAD.prepare(Path::new("/"), &point(json!({"op": "rr"})), &context(port));
    made.err().expect("no far end of ours")
}

#[test]
fn a_peer_that_is_none_of_ours_is_told_from_one_that_is_gone() {
    let port = stranger(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        let _ = stream.read(&mut [0; 100]);
    });
    let e = refused(port);
    let says = format!("net rr: 127.0.0.1:{port} speaks another protocol");
    assert!(e.message.starts_with(&says), "{e}");
    assert!(
        e.message.contains("HTTP/1.1 400") && e.hint.is_some(),
        "{e}"
    );

    let port = stranger(|mut stream| {
        stream.write_all(br#"{"answer":"wel"#).unwrap();
        let _ = BufReader::new(&stream).read_line(&mut String::new());
    });
    let e = refused(port);
    assert!(e.message.contains("speaks another protocol"), "{e}");

    let gone = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let e = refused(port);
    assert!(
        e.message
            .contains("refused the connection (nothing is listening)"),
        "{e}"
    );
    assert_eq!(e.errno, Some(libc::ECONNREFUSED));
}

/// A far end that repeats what it receives, in each of the ways that an error may show.
#[test]
fn what_is_hidden_is_in_no_error() {
    let secret = "the secret";
    let ways: [fn(&str) -> String; 4] = [
        str::to_owned,
        |line| line[..line.find("secret\":\"").unwrap() + 14].to_owned(),
        |line| json!({"answer": "refused", "with": {"why": line}}).to_string(),
        |_| "the secret".into(),
    ];
    for say in ways {
        let port = stranger(move |stream| {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (&stream)
                .write_all(say(line.trim_end()).as_bytes())
                .unwrap();
            let _ = (&stream).write_all(b"\n");
            let _ = (&stream).read(&mut [0; 100]);
        });
        let e = refused(port);
        let all = format!("{e:?} {e}");
        assert!(!all.contains("the s"), "{all}");
    }
    let hello = Hello::<NetParams>::Lane {
        token: secret.to_owned().into(),
        number: 0,
    };
    assert!(!format!("{hello:?}").contains(secret), "{hello:?}");
}

#[test]
fn a_silent_peer_is_given_up_after_a_stated_time() {
    let port = stranger(|stream| {
        thread::sleep(2 * PATIENCE);
        drop(stream);
    });
    let began = Instant::now();
    let e = refused(port);
    assert!(e.message.contains("was silent for 5 s"), "{e}");
    assert!(began.elapsed() >= PATIENCE && e.hint.is_some());
}

/// The data that a client receives after sending this.
fn heard(far: &dyn FarEnd, line: &[u8]) -> String {
    let mut stream = TcpStream::connect((LOOPBACK, far.port())).unwrap();
    // It may be closed before all of it is sent.
    let _ = stream.write_all(line);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn nobody_is_served_without_the_secret() {
    let rr = point(json!({"op": "rr"}));
    let far = WORKLOAD.serve(Path::new("/"), &rr, &context(0)).unwrap();
    let mut wrong = context(far.port());
    wrong.peer.as_mut().unwrap().secret = "another one".into();
    let e = WORKLOAD.prepare(Path::new("/"), &rr, &wrong).err().unwrap();
    assert!(
        e.message
            .contains("closed the control connection without an answer"),
        "{e}"
    );
    assert!(e.hint.unwrap().contains("another secret"));
    let long = vec![b'x'; 1 << 20];
    for line in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"{\"hello\":\"control\"",
        b"{\"hello\":\"lane\",\"token\":\"\",\"number\":0}\n",
        b"\n",
        &long,
    ] {
        assert_eq!(heard(&*far, line), "");
    }
    // It still serves a client that knows it, and reports an error for another point.
    let crr = point(json!({"op": "crr"}));
    let e = WORKLOAD
        .prepare(Path::new("/"), &crr, &context(far.port()))
        .err()
        .unwrap();
    assert!(e.message.contains("told to serve another point"), "{e}");
    assert!(
        WORKLOAD
            .prepare(Path::new("/"), &rr, &context(far.port()))
            .is_ok()
    );
}

fn answer<A: DeserializeOwned>(control: &mut Lines) -> A {
    match control.next(Some(PATIENCE)).unwrap() {
        Some(Answer::Done(answer)) => answer,
        _ => panic!("no answer"),
    }
}

/// The near end's messages on the control connection of a trial.
fn opened(far: &dyn FarEnd, point: &Point) -> (Lines, Welcome) {
    let mut control = Lines::new(TcpStream::connect((LOOPBACK, far.port())).unwrap());
    let hello = Hello::Control {
        secret: "the secret".to_owned().into(),
        params: point.typed::<NetParams>().unwrap(),
        host: Host::here(),
        ports: Vec::new(),
    };
    control.say(&hello).unwrap();
    let welcome = answer(&mut control);
    (control, welcome)
}

#[test]
fn a_connection_that_says_nothing_does_not_keep_the_far_end() {
    let crr = point(json!({"op": "crr"}));
    let mut far = WORKLOAD.serve(Path::new("/"), &crr, &context(0)).unwrap();
    let (mut control, welcome) = opened(&*far, &crr);
    let _: NetEnd = answer(&mut control);
    let silent = TcpStream::connect((LOOPBACK, welcome.transactions.unwrap())).unwrap();
    // So that its thread receives it before the end.
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    far.end().unwrap();
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    drop(silent);
}

#[test]
fn it_listens_at_the_address_alone() {
    let far = WORKLOAD
        .serve(Path::new("/"), &point(json!({"op": "rr"})), &context(0))
        .unwrap();
    let elsewhere = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), far.port());
    let e = TcpStream::connect(elsewhere).unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_far_end_that_ends_in_mid_transfer_is_an_error() {
    for op in ["rr", "stream", "maerts", "crr", "udp-rr"] {
        let mut ends = start(json!({"op": op}));
        ends.turn(5).unwrap();
        let mut far = ends.far.unwrap();
        let ending = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            far.end()
        });
        let ask = TurnRequest {
            round: 9,
            ns: 10_000_000_000,
            lead_in_ns: 0,
        };
        let turned = ends.work.turn(&ask, &mut ends.trial, &mut |_, _| {});
        let e = turned.expect_err(op);
        ending.join().unwrap().unwrap();
        assert!(
            e.message.starts_with(&format!("net {op}: 127.0.0.1:")),
            "{e}"
        );
        let closed = e.message.contains("closed the connection");
        let gone = e.message.contains("nothing is listening");
        assert!((closed || gone) && e.hint.is_some(), "{op}: {e}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let made = WORKLOAD.serve(Path::new("/"), &point(json!({"op": "rr"})), &context(port));
    let e = made.err().expect("the port is taken");
    assert_eq!(e.errno, Some(libc::EADDRINUSE));
    assert!(e.message.contains(&format!("127.0.0.1:{port}")), "{e}");
    assert!(e.hint.unwrap().contains("ss -ltnp"));
}

/// A far end that follows the protocol and answers no transaction.
#[test]
fn a_peer_that_falls_silent_in_a_turn_is_given_up() {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut control = Lines::new(listener.accept().unwrap().0);
        let _: Option<Hello<NetParams>> = control.next(None).unwrap();
        let welcome = Welcome {
            token: "token".to_owned().into(),
            host: Host::here(),
            transactions: None,
            ports: Vec::new(),
        };
        done(&control, welcome).unwrap();
        let _lane = listener.accept().unwrap();
        done(&control, NetEnd::default()).unwrap();
        while let Ok(Some(request)) = control.next(None) {
            match request {
                Request::Ping => done(&control, ()).unwrap(),
                _ => done(&control, Counters::default()).unwrap(),
            }
        }
    });
    let rr = point(json!({"op": "rr"}));
    let mut work = WORKLOAD
        .prepare(Path::new("/"), &rr, &context(port))
        .unwrap();
    let ask = TurnRequest {
        round: 0,
        ns: 10_000_000,
        lead_in_ns: 0,
    };
    let turned = work.turn(&ask, &mut Trial::default(), &mut |_, _| {});
    let e = turned.expect_err("no answer");
    assert!(e.message.contains("was silent for 5 s: in a turn"), "{e}");
}

/// A port of this host that forwards TCP with this delay in each direction.
fn slowed(port: u16, by: Duration) -> u16 {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    let carry = move |mut from: TcpStream, mut to: TcpStream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            thread::sleep(by);
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    };
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect((LOOPBACK, port)).unwrap();
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || carry(near, far));
            thread::spawn(move || carry(back.0, back.1));
        }
    });
    own
}

#[test]
fn the_way_of_an_answer_is_no_part_of_a_stream_of_datagrams() {
    // Far longer than a turn of 10 ms takes on a busy machine, and shorter than what is waited for an answer.
    const WAY: Duration = Duration::from_secs(1);
    let point = point(json!({"op": "udp-stream"}));
    let mut far = WORKLOAD.serve(Path::new("/"), &point, &context(0)).unwrap();
    let port = slowed(far.port(), WAY);
    let mut work = WORKLOAD
        .prepare(Path::new("/"), &point, &context(port))
        .unwrap();
    let ask = TurnRequest {
        round: 0,
        ns: 10_000_000,
        lead_in_ns: 0,
    };
    let mut trial = Trial::default();
    let turned = work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
    assert!(
        u128::from(turned.turn.elapsed_ns) < WAY.as_nanos(),
        "{turned:?}"
    );
    work.settle(&mut trial).unwrap();
    far.end().unwrap();
}

#[test]
fn lost_datagrams_are_counted() {
    // One CPU for both, and small buffers: while the sender works nothing receives.
    let lossy = json!({"op": "udp-stream", "socket_buffer": "4K", "placement": "same"});
    let mut ends = start(lossy);
    // On a busy machine the receiver may get the CPU at the right moments of a turn.
    let turns = (0..20).map(|_| ends.turn(10).unwrap().turn.ops);
    let arrived: u64 = turns.sum();
    let net = ends.end().figures;
    let (sent, lost) = (number(&net, "sent"), number(&net, "lost"));
    assert!(lost > 0.0 && sent > lost, "{net:?}");
    // Some of a lead-in may arrive late, and are counted in the turn.
    assert!(arrived as f64 >= sent - lost, "{arrived} {net:?}");
}

#[test]
fn ephemeral_ports_that_are_used_up_are_an_error() {
    in_a_network_of_its_own("workloads::net::tests::few_ports_inside");
}

#[test]
#[ignore = "run by a test above in a network namespace"]
fn few_ports_inside() {
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    let mut ends = start(json!({"op": "crr", "streams": 8}));
    ends.turn(5).unwrap();
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50001").unwrap();
    let e = (0..20)
        .find_map(|_| ends.turn(20).err())
        .expect("two ports for eight");
    assert!(e.message.contains("the ephemeral ports are used up"), "{e}");
    assert_eq!(e.errno, Some(libc::EADDRNOTAVAIL));
    assert!(e.hint.unwrap().contains("ip_local_port_range"));
}
