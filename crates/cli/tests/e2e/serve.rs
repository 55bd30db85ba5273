//! Runs in a browser, seen by a client that writes its requests by hand.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::MetadataExt,
    path::Path,
    process::Child,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Home, Lm, READ, history, trials_stored, wait_for};

/// A server, which ends with the test.
struct Served {
    child: Child,
    home: Home,
    /// `127.0.0.1:PORT`
    at: String,
    /// What follows it in the address that was printed.
    path: String,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was answered.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Starts a command and waits for the address that it prints.
fn served(command: Lm) -> Served {
    let (mut child, home) = command.start();
    let (sender, lines) = std::sync::mpsc::channel();
    let pipes: [Box<dyn Read + Send>; 2] = [
        Box::new(child.stdout.take().unwrap()),
        Box::new(child.stderr.take().unwrap()),
    ];
    for pipe in pipes {
        let sender = sender.clone();
        // To its end, so that the pipe never breaks.
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    let address = loop {
        let line = lines.recv_timeout(Duration::from_mins(3));
        let line = line.expect("an address is printed");
        if let Some((_, address)) = line.split_once("http://") {
            break address.to_owned();
        }
    };
    let (at, rest) = address.split_once('/').unwrap();
    let (path, token) = rest.split_once("?token=").unwrap();
    Served {
        child,
        home,
        at: at.to_owned(),
        path: format!("/{path}"),
        token: token.to_owned(),
    }
}

/// A run of scripted layers that lasts until it is stopped.
fn long_run() -> Lm {
    let layers = ["mock:take=30ms", "mock:ns=1500,take=30ms,noise=0.01"];
    Lm::new()
        .work_with(READ, &layers)
        .args(["--blocks", "4000"])
}

impl Served {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.at).unwrap();
        // A view that took 3 s to make, as on a busy machine, is shown for a minute.
        stream
            .set_read_timeout(Some(Duration::from_mins(5)))
            .unwrap();
        stream
    }

    /// Sends lines of a head, and reads all that is answered.
    fn raw(&self, head: &str) -> Answer {
        let mut stream = self.connect();
        stream
            .write_all(head.replace('\n', "\r\n").as_bytes())
            .unwrap();
        let mut all = Vec::new();
        // A server that refuses early may reset the connection after its answer.
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// What a browser keeps when it has opened the address that was printed: `NAME=VALUE`.
    fn cookie(&self) -> String {
        let (at, token) = (&self.at, &self.token);
        let welcome = self.raw(&format!("GET /?token={token} HTTP/1.1\nHost: {at}\n\n"));
        let cookie = welcome
            .head
            .lines()
            .find_map(|l| l.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|c| c.split(';').next());
        cookie.expect("a cookie").to_owned()
    }

    /// With the cookie.
    fn get(&self, path: &str) -> Answer {
        let (at, cookie) = (&self.at, self.cookie());
        self.raw(&format!(
            "GET {path} HTTP/1.1\nHost: {at}\nCookie: a=b; {cookie}\n\n"
        ))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    fn ended(&mut self) -> Option<i32> {
        wait_for("the end", || self.child.try_wait().unwrap()).code()
    }

    /// Reads events of a run into a list of names and data until `enough`, or the stream's end; without the
    /// first, which proves who sends them.
    fn events(
        &self,
        run: &str,
        enough: impl Fn(&[(String, String)]) -> bool,
    ) -> Vec<(String, String)> {
        let mut events = self.all_events(run, |events| events.len() > 1 && enough(&events[1..]));
        assert_eq!(events.remove(0).0, "hello");
        events
    }

    fn all_events(
        &self,
        run: &str,
        enough: impl Fn(&[(String, String)]) -> bool,
    ) -> Vec<(String, String)> {
        let mut stream = self.connect();
        let (at, cookie) = (&self.at, self.cookie());
        let head =
            format!("GET /run/{run}/events HTTP/1.1\r\nHost: {at}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = Vec::new();
        let mut name = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(next) = line.strip_prefix("event: ") {
                next.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((name.clone(), data.to_owned()));
                if enough(&events) {
                    break;
                }
            }
        }
        events
    }
}

/// Two stored runs of scripted layers, and a server of them.
fn two_runs() -> Served {
    let said = Lm::new().mock().run().code(4).then().mock().run().code(4);
    served(said.then().args(["serve"]))
}

fn trials_of(state: &str) -> u64 {
    let words: Vec<&str> = state.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "trials").expect("trials");
    words[at - 1].parse().expect("a number")
}

#[test]
fn a_token_opens_the_door_and_becomes_a_cookie() {
    let server = two_runs();
    let (at, token) = (&server.at, &server.token);
    assert!(
        token.len() == 32 && at.starts_with("127.0.0.1:"),
        "{at} {token}"
    );
    let ask =
        |path: &str, more: &str| server.raw(&format!("GET {path} HTTP/1.1\nHost: {at}\n{more}\n"));
    let wrong = "0".repeat(32);
    let port = at.split(':').nth(1).unwrap();
    for (path, more) in [
        ("/".to_owned(), String::new()),
        ("/live.js".to_owned(), String::new()),
        (format!("/?token={wrong}"), String::new()),
        (
            "/".to_owned(),
            format!("Cookie: layermark-{port}={wrong}\n"),
        ),
        // The lasting token is no cookie.
        (
            "/".to_owned(),
            format!("Cookie: layermark-{port}={token}\n"),
        ),
        (
            "/run/last/events".to_owned(),
            format!("Cookie: layermark-{port}=\n"),
        ),
    ] {
        let answer = ask(&path, &more);
        assert_eq!(answer.status, 403, "{path} {more}");
        assert!(
            answer.body.contains("the token is missing") && !answer.head.contains("set-cookie")
        );
    }
    let welcome = ask(&format!("/trend?point=a+b&token={token}"), "");
    assert_eq!(welcome.status, 200);
    let cookie = welcome.head.lines().find(|l| l.starts_with("set-cookie: "));
    let (name, value) = cookie.unwrap().split_once('=').unwrap();
    assert_eq!(name, format!("set-cookie: layermark-{port}"));
    assert!(
        value.ends_with("; path=/; httponly; samesite=strict"),
        "{value}"
    );
    assert!(!welcome.head.contains(token.as_str()), "{}", welcome.head);
    assert!(
        welcome.body.contains("0;url=/trend?point=a+b\""),
        "{}",
        welcome.body
    );
    // It leads nowhere else.
    let away = ask(&format!("/\\/evil.example/?token={token}"), "");
    assert!(
        away.body.contains("0;url=/evil.example/\""),
        "{}",
        away.body
    );
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert!(
        !page.body.contains(token.as_str()),
        "no page has the token in it"
    );
}

#[test]
fn the_token_is_the_users_and_outlives_the_server() {
    let first = two_runs();
    let file = first.home.path().join("data/layermark/serve.token");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap(), first.token);
    let (token, port) = (first.token.clone(), first.at.clone());
    let dir = first.home.path().to_owned();
    let mut first = first;
    first.signal(Signal::TERM);
    assert_eq!(first.ended(), Some(0));
    let second = served(Lm::with(&dir).args(["serve", &port]));
    assert_eq!((&second.token, &second.at), (&token, &port));
    assert_eq!(second.get("/").status, 200);
}

#[test]
fn other_hosts_methods_and_paths_are_refused() {
    let server = two_runs();
    let at = &server.at;
    let cookie = format!("Cookie: {}\n", server.cookie());
    for host in ["evil.example", "127.0.0.1.evil.example", "192.0.2.1", ""] {
        let answer = server.raw(&format!("GET / HTTP/1.1\nHost: {host}\n{cookie}\n"));
        assert_eq!(answer.status, 403, "{host}");
        assert!(
            answer.body.contains("not an address of the server"),
            "{}",
            answer.body
        );
    }
    let local = server.raw(&format!("GET / HTTP/1.1\nHost: localhost:9\n{cookie}\n"));
    assert_eq!(local.status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let answer = server.raw(&format!(
            "{method} / HTTP/1.1\nHost: {at}\n{cookie}Content-Length: 0\n\n"
        ));
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.head.contains("allow: get, head"));
    }
    let head = server.raw(&format!("HEAD / HTTP/1.1\nHost: {at}\n{cookie}\n"));
    assert!(head.status == 200 && head.body.is_empty() && head.head.contains("text/html"));
    for path in [
        "/nothing",
        "/run/../../../../etc/passwd",
        "/run/%2e%2e%2fetc%2fpasswd",
        "/run/nothing",
        "/run/",
        "/run/%00",
        "/run/'--",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains("root:"));
    }
    // A head without an end, and one that is not HTTP.
    let large = server.raw(&format!(
        "GET / HTTP/1.1\nHost: {at}\nX: {}\n\n",
        "x".repeat(64 << 10)
    ));
    assert!([0, 431].contains(&large.status), "{}", large.status);
    assert!([0, 400].contains(&server.raw("\u{1}\u{2}\n\n").status));
    assert_eq!(server.get("/").status, 200, "it goes on");
}

/// Whoever has the port of a server that has ended gets what browsers send by themselves.
#[test]
fn what_a_browser_sends_by_itself_is_of_one_server_process() {
    let mut first = two_runs();
    let (cookie, at, token) = (first.cookie(), first.at.clone(), first.token.clone());
    assert!(!cookie.contains(&token), "{cookie}");
    let dir = first.home.path().to_owned();
    first.signal(Signal::TERM);
    assert_eq!(first.ended(), Some(0));
    let second = served(Lm::with(&dir).args(["serve", &at]));
    assert_eq!(second.at, at);
    let answer = second.raw(&format!("GET / HTTP/1.1\nHost: {at}\nCookie: {cookie}\n\n"));
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("of an earlier server"),
        "{}",
        answer.body
    );
}

/// The page knows by the first event that it talks to the server that has made it, and is told when that ends.
#[test]
fn a_live_page_knows_its_server_and_hears_goodbye() {
    let mut run = served(long_run().args(["--serve"]));
    let id = run.path.strip_prefix("/run/").unwrap().to_owned();
    let dir = run.home.path().to_owned();
    let mut server = served(Lm::with(&dir).args(["serve"]));
    let page = server.get(&format!("/run/{id}"));
    let (_, sign) = page.body.split_once("data-sign=\"").expect("a sign");
    let sign = sign.split('"').next().unwrap();
    assert_eq!(sign.len(), 32);
    let pid = i32::try_from(server.child.id())
        .ok()
        .and_then(Pid::from_raw);
    let events = server.all_events(&id, |events| {
        if events.len() == 2 {
            kill_process(pid.unwrap(), Signal::TERM).unwrap();
        }
        false
    });
    assert_eq!(events[0], ("hello".to_owned(), sign.to_owned()));
    assert_eq!(events[1].0, "state");
    assert_eq!(events.last().unwrap().0, "goodbye", "{events:?}");
    assert_eq!(server.ended(), Some(0));
    run.signal(Signal::INT);
    run.signal(Signal::INT);
    run.ended();
}

#[test]
fn those_who_say_nothing_keep_nobody_out_for_long() {
    let server = two_runs();
    let silent: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(server.get("/").status, 200);
    for mut stream in silent {
        let mut answer = Vec::new();
        // Closed to make room or after its time, or told that it took too long.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
    }
}

#[test]
fn pages_ask_for_nothing_from_elsewhere() {
    let server = two_runs();
    for path in ["/", "/run/last", "/compare", "/live.js", "/style.css"] {
        let answer = server.get(path);
        let policy = answer
            .head
            .lines()
            .find(|l| l.starts_with("content-security-policy"));
        let policy = policy.expect("a policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let scripts = policy.split(';').find(|p| p.contains("script-src"));
        assert!(
            scripts.is_none_or(|s| s.trim() == "script-src 'self'"),
            "{policy}"
        );
        for header in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(header), "{path}: {header}");
        }
        assert!(
            !answer.body.contains("src=\"http") && !answer.body.contains("url(http"),
            "{path}"
        );
    }
}

#[test]
fn the_store_is_pages() {
    let server = two_runs();
    let runs = history(server.home.path());
    let [new, old] = [&runs[0], &runs[1]].map(|r| r["run"].as_str().unwrap().to_owned());
    let page = server.get("/").body;
    for words in [
        &*new,
        &*old,
        "<td>done</td>",
        "file",
        "1/1: 1 slower",
        "mock:ns=1500",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let point = history_label(server.home.path());
    let offered = format!("<datalist id=\"points\"><option value=\"{point}\">");
    assert!(page.contains(&offered), "{offered}: {page}");
    // `last` leads to the run, and that to what `-o x.html` writes.
    let last = server.get("/run/last");
    assert_eq!(last.status, 303);
    assert!(
        last.head
            .contains(&format!("location: /run/{}", new.to_lowercase()))
    );
    let html = Lm::with(server.home.path())
        .args(["report", &old, "-o", "html:-"])
        .run()
        .code(0);
    let page = server.get(&format!("/run/{old}")).body;
    let back = "<a href=\"/\">layermark: all runs</a>";
    assert!(page.contains(back), "there is a way back");
    assert_eq!(page.replace(back, "layermark"), html.stdout);
    let compared = server.get(&format!("/compare?old={old}&new={new}")).body;
    for words in [
        "time now / in the old run",
        "times the old run's time",
        &*new,
        &*old,
    ] {
        assert!(compared.contains(words), "{words}: {compared}");
    }
    assert_eq!(server.get("/compare?old=nothing").status, 404);
    let trend = |layer: &str| {
        let point = point.replace(' ', "+");
        server.get(&format!("/trend?point={point}&layer={layer}"))
    };
    // The mock is no layer whose figures are trusted.
    let doubtful = trend("mock:ns%3D1500");
    assert_eq!(doubtful.status, 404);
    assert!(
        doubtful.body.contains("2 runs left out"),
        "{}",
        doubtful.body
    );
    let lm = Lm::with(server.home.path()).work_with(READ, &["bind:rw"]);
    lm.args(["--blocks", "2"]).run().code(0);
    let shown = trend("native");
    assert_eq!(shown.status, 200, "{}", shown.body);
    assert!(shown.body.contains("Values of 1 run"), "{}", shown.body);
    assert_eq!(server.get("/trend?point=nothing&layer=mock").status, 404);
    // A run's end is told to whoever still waits for it.
    let events = server.events(&new, |_| false);
    assert!(events.len() == 1 && events[0].0 == "end" && events[0].1.contains("<b>done</b>"));
}

/// The label of the only point.
fn history_label(dir: &Path) -> String {
    let report = Lm::with(dir)
        .args(["report", "--json"])
        .run()
        .code(0)
        .json();
    report["results"][0]["label"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_is_seen_as_it_goes_on_until_it_is_stopped() {
    let mut server = served(long_run().args(["--serve"]));
    let dir = server.home.path().to_owned();
    let run = history(&dir)[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(server.path, format!("/run/{run}"));
    let events = server.events(&run, |all| all.len() == 3);
    let trials: Vec<u64> = events.iter().map(|(_, state)| trials_of(state)).collect();
    assert!(events.iter().all(|(name, _)| name == "state"));
    assert!(trials.is_sorted_by(|a, b| a < b), "{trials:?}");
    // Whoever comes later sees the state at once, without a script.
    let page = server.get(&server.path).body;
    assert!(
        page.contains("results decided")
            && page.contains("<noscript>")
            && page.contains("class=\"heat\"")
    );
    assert!(trials_of(&page.replace('<', " ")) >= trials[2]);
    // So does another process that reads the store.
    let other = served(Lm::with(&dir).args(["serve"]));
    let seen = other.events(&run, |_| true);
    assert!(seen[0].0 == "state" && trials_of(&seen[0].1) >= trials[2]);
    wait_for("a verdict", || {
        let page = server.get(&server.path).body;
        page.contains("is slower, ").then_some(())
    });
    // Two viewers, and one who left: all that watch are told the end.
    let enough = |all: &[(String, String)]| all.last().is_some_and(|(name, _)| name == "end");
    thread::scope(|scope| {
        let viewers = [&server, &other].map(|at| {
            let (run, path) = (&run, &server.path);
            // The page that a browser asks for at the end: at once, as the run's server waits for it only so long.
            scope.spawn(move || (at.events(run, enough), at.get(path)))
        });
        wait_for("trials", || {
            (trials_stored(&dir) > trials[2] + 8).then_some(())
        });
        server.signal(Signal::INT);
        for viewer in viewers {
            let (events, report) = viewer.join().unwrap();
            let (name, end) = events.last().expect("events");
            assert_eq!(name, "end");
            assert!(
                end.contains("<b>stopped</b>") && end.contains(&format!("--resume {run}")),
                "{end}"
            );
            assert!(report.status == 200 && report.body.contains("stopped by the user"));
        }
    });
    assert_eq!(server.ended(), Some(130));
}

#[test]
fn a_stopped_run_that_nobody_watches_ends_at_once_and_a_whole_one_stays() {
    let mut stopped = served(long_run().args(["--serve"]));
    let dir = stopped.home.path().to_owned();
    wait_for("trials", || (trials_stored(&dir) > 2).then_some(()));
    stopped.signal(Signal::INT);
    assert_eq!(stopped.ended(), Some(130));

    let mut whole = served(Lm::new().mock().args(["--serve=0"]));
    let dir = whole.home.path().to_owned();
    wait_for("the end of the run", || {
        (history(&dir)[0]["status"] == "done").then_some(())
    });
    let path = whole.path.clone();
    let report = wait_for("the report", || {
        Some(whole.get(&path)).filter(|a| a.body.contains("Make this run again"))
    });
    assert_eq!(report.status, 200);
    assert_eq!(whole.get(&path).status, 200, "the page stays");
    assert!(
        fs::read_dir(dir.join("work")).unwrap().next().is_none(),
        "the work directory does not"
    );
    whole.signal(Signal::INT);
    assert_eq!(whole.ended(), Some(4), "the exit code is the run's");
}

#[test]
fn addresses_that_cannot_be_listened_on_are_told_before_anything_is_measured() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let wanted = format!("cannot serve at {at}: another program listens there");
    let run = Lm::new().mock().args([format!("--serve={at}")]).run();
    let said = run.fails(1, &[&wanted, "127.0.0.1:0"]);
    assert!(history(said.dir.path()).is_empty());
    Lm::new().args(["serve", &at]).run().fails(1, &[&wanted]);
    Lm::new()
        .args(["serve", "192.0.2.1:0"])
        .run()
        .fails(1, &["cannot serve at 192.0.2.1:0"]);
    for wrong in ["nonsense", "70000", "127.0.0.1:x", "example.org:80"] {
        Lm::new()
            .args(["serve", wrong])
            .run()
            .fails(2, &[wrong, "127.0.0.1:8080"]);
        Lm::new()
            .mock()
            .args([format!("--serve={wrong}")])
            .run()
            .fails(2, &[wrong]);
    }
}

#[test]
fn other_machines_are_let_in_only_when_that_is_said() {
    let dir = Lm::new().mock().run().code(4).dir;
    let (mut child, _) = Lm::with(dir.path()).args(["serve", "0.0.0.0:0"]).start();
    let mut warned = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    lines.read_line(&mut warned).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        warned.starts_with("warning: 0.0.0.0:")
            && warned.contains("can be reached from other machines"),
        "{warned}"
    );
}
