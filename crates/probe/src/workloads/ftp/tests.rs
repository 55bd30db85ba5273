use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{FigureValue, Point, PointError, Target, Trial, Unit};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    WORKLOAD,
    content::{Content, Sum},
    control::{self, Welcome},
    params::{FtpParams, Source},
    session::{Login, Session},
    vsftpd,
};
use crate::{
    FarEnd, ProbeError, TurnRequest, Workload, param,
    workloads::ends::{
        control::{Control, Hello, Request, done},
        error::PeerAddress,
        lines::Lines,
        testing::{self, Ends, context},
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
fn points_say_what_they_transfer() {
    let all = points(json!({})).unwrap();
    let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels, ["get, 16M file", "put, 16M file"]);
    let told: Vec<String> = all.iter().map(|p| p.meaning.describe(&[])).collect();
    assert_eq!(
        told,
        [
            "get, 16M file, from file, to null",
            "put, 16M file, from memory, to file"
        ]
    );
    let get = &all[0].meaning;
    assert_eq!((get.target, get.unit), (Target::Network, Unit::Byte));
    assert!(!get.changes && all[1].meaning.changes);
    let other =
        json!({"op": "put", "file_size": "1M", "clients": "2", "sink": "fsync", "server": "own"});
    assert_eq!(
        point(other).label,
        "put, 1M file, 2 clients, to fsync, own server"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    for (params, says) in [
        (
            json!({"op": "get", "server": "vsftpd", "source": "memory"}),
            "`source` = memory",
        ),
        (
            json!({"op": "put", "server": "vsftpd", "sink": "fsync"}),
            "`sink` = fsync",
        ),
        (json!({"op": "put", "file_size": "2G"}), "2G of memory"),
        (
            json!({"op": "get", "file_size": "32M", "clients": 64, "sink": "memory"}),
            "2G of memory",
        ),
    ] {
        let e = points(params.clone()).unwrap_err();
        assert!(e.message.contains(says), "{params}: {}", e.message);
        assert!(e.hint.is_some(), "{params}");
    }
}

#[test]
fn files_go_both_ways_from_and_to_everything() {
    let both = |op: &str, source: &str, sink: &str| json!({"op": op, "source": source, "sink": sink, "file_size": "300K", "server": "own"});
    for op in ["get", "put"] {
        for (source, sink) in [
            ("null", "null"),
            ("memory", "memory"),
            ("file", "file"),
            ("file", "fsync"),
        ] {
            let mut ends = start(both(op, source, sink));
            let first = ends.turn(5).unwrap().turn;
            let second = ends.turn(5).unwrap().turn;
            assert!(first.ops > 0 && second.bytes == second.ops * (300 << 10));
            let trial = ends.end();
            let own = FigureValue::from("layermark's own");
            assert_eq!(trial.figures.get("server"), Some(&own));
            for name in [
                "connect_ns",
                "login_ns",
                "passive_ns",
                "first_byte_ns",
                "data_ns",
                "complete_ns",
                "far_cpu_ns",
                "ceiling",
            ] {
                let value = trial.figures.number(name);
                assert!(value > Some(0.0), "{op} {source} {sink}: {name} {value:?}");
            }
            let verified = trial.verified.unwrap();
            assert!(verified.records >= first.ops + second.ops && verified.bad == 0);
            assert!(trial.latency.is_some());
        }
    }
}

fn no_vsftpd() -> bool {
    let none = vsftpd::find().is_none();
    if none {
        eprintln!("skipped: vsftpd is not installed: scripts/setup.sh test");
    }
    none
}

#[test]
fn vsftpd_serves_and_is_gone_afterwards() {
    if no_vsftpd() {
        return;
    }
    for (op, clients) in [("get", 1), ("put", 1), ("get", 3), ("put", 3)] {
        let params = json!({"op": op, "file_size": "200K", "clients": clients, "server": "vsftpd"});
        let mut ends = start(params);
        let done = ends.turn(20).unwrap().turn;
        assert!(done.ops >= clients && done.bytes == done.ops * (200 << 10));
        let trial = ends.end();
        let Some(FigureValue::Text(server)) = trial.figures.get("server") else {
            panic!("no server: {:?}", trial.figures)
        };
        assert!(server.starts_with("vsftpd "), "{server}");
        let number = |name: &str| trial.figures.number(name);
        assert!(number("far_cpu_ns") > Some(0.0) && number("login_ns") > Some(0.0));
    }
}

/// The server of a point, for another client.
fn server_of(
    params: Value,
) -> (
    Box<dyn FarEnd>,
    Control,
    SocketAddr,
    Login,
    Option<Sum>,
    tempfile::TempDir,
) {
    let point = point(params);
    let dir = tempfile::tempdir().unwrap();
    let far = WORKLOAD.serve(dir.path(), &point, &context(0)).unwrap();
    let p: FtpParams = param::read(&point).unwrap();
    let peer = context(far.port()).peer.unwrap();
    let (control, welcome) = control::connect(&p, &peer).unwrap();
    let to = SocketAddr::new(peer.address, welcome.port);
    (far, control, to, welcome.login, welcome.file, dir)
}

/// With options; the password is in its configuration, which other users cannot read.
fn curl(login: &Login, url: &str, options: &[&str]) -> Vec<u8> {
    let password = str::from_utf8(login.password.as_bytes()).unwrap();
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--config", "-", url])
        .args(options)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("curl: scripts/setup.sh test");
    let user = format!("user = {}:{password}\n", login.user);
    curl.stdin
        .take()
        .unwrap()
        .write_all(user.as_bytes())
        .unwrap();
    let done = curl.wait_with_output().unwrap();
    assert!(done.status.success(), "{url} {options:?}");
    done.stdout
}

#[test]
fn curl_gets_and_puts_the_same_files_from_the_same_servers() {
    for server in ["own", "vsftpd"] {
        if server == "vsftpd" && no_vsftpd() {
            return;
        }
        let (mut far, _control, at, login, file, _dir) =
            server_of(json!({"op": "get", "file_size": "3M", "server": server}));
        for options in [&[][..], &["--disable-epsv"]] {
            let got = curl(&login, &format!("ftp://{at}/{}file", login.folder), options);
            let sum = Sum {
                bytes: got.len() as u64,
                hash: xxh3_64(&got),
            };
            // That is what our client compares with.
            assert_eq!(Some(sum), file, "{server} {options:?}");
        }
        far.end().unwrap();
        let (mut far, mut control, at, login, _, dir) =
            server_of(json!({"op": "put", "file_size": "3M", "server": server}));
        let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i * 7 / 3) as u8).collect();
        let path = dir.path().join("data");
        fs::write(&path, &data).unwrap();
        let upload = ["--upload-file", path.to_str().unwrap()];
        curl(&login, &format!("ftp://{at}/{}0-0", login.folder), &upload);
        let sums = control::check(&mut control, &["0-0".into()], &mut || {}).unwrap();
        let sent = Sum {
            bytes: data.len() as u64,
            hash: xxh3_64(&data),
        };
        assert_eq!(sums, [sent], "{server}");
        far.end().unwrap();
    }
}

#[test]
fn more_files_than_a_line_has_room_for_are_checked() {
    let put = json!({"op": "put", "file_size": "1K", "sink": "null", "server": "own"});
    let (mut far, mut control, to, login, _, dir) = server_of(put);
    let server = PeerAddress { to, ..control.peer };
    let mut session = Session::open(server, &login).unwrap();
    let data = dir.path().join("data");
    let content = Content::make(Source::Memory, 1024, 1, &data).unwrap();
    let names: Vec<String> = (0..600).map(|n| format!("0-{n}")).collect();
    for name in &names {
        session.put(name, &content, &mut || {}).unwrap();
    }
    let sums = control::check(&mut control, &names, &mut || {}).unwrap();
    assert_eq!(sums, vec![content.sum(); 600]);
    far.end().unwrap();
}

#[test]
fn who_does_not_know_the_password_or_the_secret_gets_nothing() {
    for server in ["own", "vsftpd"] {
        if server == "vsftpd" && no_vsftpd() {
            return;
        }
        let (mut far, _control, to, login, _, _dir) =
            server_of(json!({"op": "get", "file_size": "1K", "server": server}));
        let peer = PeerAddress {
            workload: "ftp",
            op: "get",
            to,
            patience: Duration::from_secs(5),
        };
        let password = str::from_utf8(login.password.as_bytes()).unwrap();
        let wrong = Login {
            user: login.user.clone(),
            password: format!("{password}x").into(),
            folder: String::new(),
        };
        let e = Session::open(peer, &wrong).err().unwrap();
        assert!(
            e.message.contains("refused the login: 530"),
            "{}",
            e.message
        );
        assert!(!e.message.contains(password), "{}", e.message);
        let mut other = context(far.port()).peer.unwrap();
        other.secret = "another".into();
        let p: FtpParams = param::read(&point(
            json!({"op": "get", "file_size": "1K", "server": server}),
        ))
        .unwrap();
        let e = control::connect(&p, &other).err().unwrap();
        assert!(
            e.message.contains("closed the control connection"),
            "{}",
            e.message
        );
        // One that begins as a data connection has no secret either.
        let mut stream = TcpStream::connect(("127.0.0.1", far.port())).unwrap();
        let lane = "{\"hello\":\"lane\",\"token\":\"x\",\"number\":0}\n{\"ask\":\"count\"}\n";
        let _ = stream.write_all(lane.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(answer, "");
        far.end().unwrap();
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let started = WORKLOAD.serve(dir.path(), &point(json!({"op": "get"})), &context(port));
    let e = started.err().unwrap();
    assert!(
        e.message.contains("Address already in use"),
        "{}",
        e.message
    );
    assert!(e.hint.unwrap().contains("ss -ltnp"));
}

/// The server's replies after the login, line by line, with its data connections.
type Script = fn(&str, &TcpListener, &mut TcpStream) -> bool;

/// A far end with a faulty server. Returns the error of a get of 64 KiB.
fn bad(greeting: &'static str, script: Script) -> ProbeError {
    let ftp = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    let (ftp_port, port) = (
        ftp.local_addr().unwrap().port(),
        control.local_addr().unwrap().port(),
    );
    let far = thread::spawn(move || {
        let mut lines = Lines::new(control.accept().unwrap().0);
        let _: Hello<FtpParams> = lines.next(None).unwrap().unwrap();
        let welcome = Welcome {
            server: "bad".into(),
            port: ftp_port,
            login: Login {
                user: "user".into(),
                password: "password".to_owned().into(),
                folder: String::new(),
            },
            file: Some(Sum {
                bytes: 64 << 10,
                hash: xxh3_64(&vec![7; 64 << 10]),
            }),
        };
        let _ = done(&lines, welcome);
        while let Ok(Some(request)) = lines.next::<Request>(None) {
            assert_eq!(request, Request::Count);
            let _ = done(&lines, 0);
        }
    });
    let server = thread::spawn(move || {
        let data = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = ftp.accept().unwrap().0;
        stream.write_all(greeting.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            let reply = match line.trim_end() {
                "USER user" => "331 ?",
                "PASS password" => "230 in",
                "TYPE I" => "200 I",
                command => {
                    if !script(command, &data, &mut stream) {
                        return;
                    }
                    ""
                }
            };
            if !reply.is_empty() {
                let _ = stream.write_all(format!("{reply}\r\n").as_bytes());
            }
            line.clear();
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let point = point(json!({"op": "get", "file_size": "64K"}));
    let work = WORKLOAD.prepare(dir.path(), &point, &context(port));
    let error = work.and_then(|mut work| {
        let ask = TurnRequest {
            round: 0,
            ns: 1_000_000,
            lead_in_ns: 0,
        };
        work.turn(&ask, &mut Trial::default(), &mut |_, _| {})
    });
    far.join().unwrap();
    server.join().unwrap();
    error.unwrap_err()
}

/// Correct behaviour of a server: `data` sends the file and returns the reply about it.
fn usual(
    command: &str,
    listener: &TcpListener,
    stream: &mut TcpStream,
    data: impl FnOnce(TcpStream) -> &'static str,
) -> bool {
    let port = listener.local_addr().unwrap().port();
    let reply = match command {
        "SIZE file" => "213 65536".to_owned(),
        "EPSV" => format!("229 (|||{port}|)"),
        "RETR file" => {
            stream.write_all(b"150 go\r\n").unwrap();
            data(listener.accept().unwrap().0).to_owned()
        }
        _ => return false,
    };
    stream.write_all(format!("{reply}\r\n").as_bytes()).is_ok()
}

#[test]
fn a_file_that_is_cut_is_an_error_whatever_the_server_says() {
    let e = bad("220 hi\r\n", |command, listener, stream| {
        usual(command, listener, stream, |mut data| {
            data.write_all(&[7; 1000]).unwrap();
            "226 Transfer complete"
        })
    });
    assert!(
        e.message.contains(
            "1 of 1 files arrived with different content: the first of them has 1000 of 65536 bytes"
        ),
        "{}",
        e.message
    );
}

#[test]
fn a_file_with_another_hash_is_an_error() {
    let e = bad("220 hi\r\n", |command, listener, stream| {
        usual(command, listener, stream, |mut data| {
            let mut wrong = vec![7; 64 << 10];
            wrong[40_000] = 8;
            data.write_all(&wrong).unwrap();
            "226 Transfer complete"
        })
    });
    assert!(
        e.message.contains("all 65536 bytes and another hash"),
        "{}",
        e.message
    );
    assert!(e.hint.unwrap().contains("loses data"));
}

#[test]
fn a_reset_in_the_midst_of_a_file_is_told() {
    let e = bad("220 hi\r\n", |command, listener, stream| {
        usual(command, listener, stream, |mut data| {
            data.write_all(&[7; 1000]).unwrap();
            // With this, close(2) sends a reset.
            let now = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&data, now).unwrap();
            "426 reset"
        })
    });
    assert!(
        e.message.contains("closed the connection too early"),
        "{}",
        e.message
    );
    assert!(
        e.message.starts_with("ftp get: 127.0.0.1:"),
        "{}",
        e.message
    );
}

#[test]
fn a_server_that_gives_up_is_quoted() {
    let e = bad("220 hi\r\n", |command, listener, stream| {
        usual(command, listener, stream, |_| "451 disk on fire, password")
    });
    assert!(
        e.message
            .contains("said \"451 disk on fire, ***\" instead of the end of RETR"),
        "{}",
        e.message
    );
}

#[test]
fn a_server_that_is_silent_is_given_up_after_five_seconds() {
    let began = Instant::now();
    let e = bad("", |_, _, _| false);
    assert!(
        e.message
            .contains("was silent for 5 s: waiting for the greeting"),
        "{}",
        e.message
    );
    assert!(began.elapsed() >= Duration::from_secs(5));
    let e = bad("220 hi\r\n", |command, listener, stream| {
        usual(command, listener, stream, |mut data| {
            data.write_all(&[7; 1000]).unwrap();
            // The client closes first.
            let _ = data.read(&mut [0; 1]);
            "426 late"
        })
    });
    assert!(
        e.message.contains("was silent for 5 s: receiving a file"),
        "{}",
        e.message
    );
}

#[test]
fn a_server_that_speaks_another_protocol_is_shown() {
    let e = bad("SSH-2.0-OpenSSH_9.2\r\n", |_, _, _| false);
    assert!(
        e.message
            .contains("speaks another protocol: it said \"SSH-2.0-OpenSSH_9.2\""),
        "{}",
        e.message
    );
    let e = bad("421 too many\r\n", |_, _, _| false);
    assert!(
        e.message
            .contains("said \"421 too many\" instead of the greeting"),
        "{}",
        e.message
    );
}

#[test]
fn data_from_another_host_is_refused() {
    let e = bad("220 hi\r\n", |command, _, stream| {
        let reply = match command {
            "SIZE file" => "213 65536",
            "EPSV" => "500 what?",
            // A documentation address (RFC 5737): a connection to it would time out.
            "PASV" => "227 (192,0,2,1,4,1)",
            _ => return false,
        };
        stream.write_all(format!("{reply}\r\n").as_bytes()).is_ok()
    });
    assert!(
        e.message.contains("another host, 192.0.2.1:1025: refused"),
        "{}",
        e.message
    );
}

#[test]
fn a_file_of_another_length_is_not_even_got() {
    let e = bad("220 hi\r\n", |command, _, stream| {
        command == "SIZE file" && stream.write_all(b"213 65537\r\n").is_ok()
    });
    assert!(
        e.message
            .contains("has 65537 bytes, and it was made with 65536"),
        "{}",
        e.message
    );
}
