use layermark_model::{
    CpuUse, Turn,
    protocol::{Peer, Turned},
};

use super::*;

/// Work with a bug in one of its parts.
struct Buggy(&'static str);

impl Work for Buggy {
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        _: &mut crate::Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        assert!(self.0 != "turn", "in turn");
        let turn = Turn {
            round: ask.round,
            elapsed_ns: 5,
            ops: 1,
            bytes: 0,
            ..Turn::default()
        };
        trial.turns.push(turn);
        Ok(Turned {
            turn,
            cpu: CpuUse::default(),
            device: None,
            more: true,
            ..Turned::default()
        })
    }
    fn settle(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        assert!(self.0 != "settle", "in settle");
        Ok(())
    }
    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        assert!(self.0 != "end", "in end");
        Ok(())
    }
}

impl Drop for Buggy {
    fn drop(&mut self) {
        assert!(self.0 != "drop" || thread::panicking(), "in drop");
    }
}

/// The messages of a server to which `what` is done.
fn with_server(what: impl FnOnce(&mut Server<'_, Vec<u8>>)) -> Vec<FromProbe> {
    let output = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let heartbeat = Heartbeat::start(scope, &output, None).unwrap();
        what(&mut Server::new(&output, heartbeat));
    });
    let output = output.into_inner().unwrap();
    let lines = output.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines.map(|l| serde_json::from_slice(l).unwrap()).collect()
}

const ASK: TurnRequest = TurnRequest {
    round: 3,
    ns: 1,
    lead_in_ns: 0,
};

fn whole(server: &mut Server<'_, Vec<u8>>, id: u64) {
    server.turn(id, &ASK).unwrap();
    server.settle(id).unwrap();
    server.end(id).unwrap();
}

fn complaint(event: &FromProbe) -> &str {
    match event {
        FromProbe::Error { message, .. } => message,
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn a_panic_becomes_an_error_and_the_probe_lives_on() {
    for (part, before) in [("turn", 0), ("settle", 1), ("end", 2), ("drop", 2)] {
        let said = with_server(|server| {
            server.ready = Some(PreparedJob::new(1, Box::new(Buggy(part))));
            whole(server, 1);
            server.ready = Some(PreparedJob::new(2, Box::new(Buggy("nowhere"))));
            whole(server, 2);
        });
        assert!(
            complaint(&said[before]).contains(&format!("in {part}")),
            "{said:?}"
        );
        // Requests for a dropped job are refused.
        for refused in &said[before + 1..3] {
            assert!(complaint(refused).contains("not ready"), "{said:?}");
        }
        let [
            _,
            FromProbe::Settled { id: 2 },
            FromProbe::Trial { id: 2, trial },
        ] = &said[3..]
        else {
            panic!("{said:?}")
        };
        assert_eq!(trial.turns.len(), 1);
    }
}

#[test]
fn a_turn_is_taken_once_and_in_its_order_and_by_the_job_that_is_ready() {
    let said = with_server(|server| {
        server.ready = Some(PreparedJob::new(1, Box::new(Buggy("nowhere"))));
        server.settle(1).unwrap();
        server.end(1).unwrap();
        server.turn(2, &ASK).unwrap();
        server.turn(1, &ASK).unwrap();
        server.turn(1, &ASK).unwrap();
        server.turn(1, &TurnRequest { round: 2, ..ASK }).unwrap();
        server.turn(1, &TurnRequest { round: 9, ..ASK }).unwrap();
        server.settle(1).unwrap();
        server.turn(1, &TurnRequest { round: 10, ..ASK }).unwrap();
        server.settle(1).unwrap();
        server.end(1).unwrap();
        server.end(1).unwrap();
    });
    let expected = [
        (0, "settle for job 1, which had no turn"),
        (1, "end for job 1, which is not settled"),
        (2, "turn 3 for job 2, which is not ready"),
        (4, "turn 3 for job 1, which had a turn of that round"),
        (5, "turn 2 for job 1, which had a turn of that round"),
        (8, "turn 10 for job 1, which is settled"),
        (9, "settle for job 1, which is settled"),
        (11, "end for job 1, which is not ready"),
    ];
    for (at, message) in expected {
        assert!(complaint(&said[at]).contains(message), "{said:?}");
    }
    let FromProbe::Trial { trial, .. } = &said[10] else {
        panic!("{said:?}")
    };
    let rounds: Vec<u32> = trial.turns.iter().map(|t| t.round).collect();
    assert_eq!(rounds, [3, 9], "what was refused has left no trace");
}

#[test]
fn what_takes_long_outside_the_clock_is_attended() {
    let said = with_server(|server| {
        let result = server.attended(3, || {
            // Like waiting for a slow disk: a little work now and then.
            for _ in 0..120 {
                thread::sleep(Duration::from_millis(10));
            }
            Ok(7)
        });
        assert_eq!(result, Ok(7));
    });
    let progress = FromProbe::Progress {
        id: 3,
        ops: 0,
        bytes: 0,
    };
    // The number depends on the load of the machine.
    assert!(
        !said.is_empty() && said.iter().all(|e| *e == progress),
        "{said:?}"
    );
}

fn job(id: u64, secret: &str) -> Job {
    let settings = serde_json::from_value(serde_json::json!({"workload": "file", "op": "read"}));
    let points = workloads::find("file")
        .unwrap()
        .points(&settings.unwrap(), 1.0);
    Job {
        id,
        dir: "/".into(),
        point: points.unwrap().remove(0),
        seed: 1,
        min_ms: 0,
        min_ops: 0,
        devices: Vec::new(),
        cpus: None,
        below: Vec::new(),
        peer: Some(Peer {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 0,
            secret: secret.into(),
        }),
        env: layermark_model::Environment::new(),
    }
}

struct Far(Result<(), ProbeError>);

impl FarEnd for Far {
    fn port(&self) -> u16 {
        7
    }
    fn end(&mut self) -> Result<(), ProbeError> {
        self.0.clone()
    }
}

#[test]
fn a_far_end_serves_until_it_is_settled_and_tells_what_went_wrong() {
    let said = with_server(|server| {
        server.be_far_end(&job(1, "x")).unwrap();
        for (id, end) in [(2, Ok(())), (3, Err(ProbeError::new("reset by peer")))] {
            server.far_end = Some((id, Box::new(Far(end))));
            server.settle(9).unwrap();
            server.settle(id).unwrap();
        }
        server.far_end = Some((4, Box::new(Far(Ok(())))));
        server.drop_ready().unwrap();
        server.settle(4).unwrap();
    });
    assert_eq!(complaint(&said[0]), "`file` has no far end");
    assert!(complaint(&said[1]).contains("settle for job 9, which is not ready"));
    assert_eq!(said[2], FromProbe::Settled { id: 2 });
    assert_eq!(complaint(&said[4]), "reset by peer");
    assert!(complaint(&said[5]).contains("not ready"), "{said:?}");
}

#[test]
fn the_secret_of_a_far_end_is_not_shown() {
    let job = job(1, "hush");
    assert!(!format!("{job:?}").contains("hush"), "{job:?}");
    let line = br#"{"type":"serve","peer":{"secret":"hush"}"#;
    let said = with_server(|server| server.complain(line, "cut").unwrap());
    let text = complaint(&said[0]);
    assert!(text.contains("serve") && !text.contains("hush"), "{text}");
}

/// Names start there, however deep the layer is. Afterwards it can be unmounted.
#[test]
fn a_job_is_done_in_the_layer_s_directory_and_leaves_it() {
    let here = || std::env::current_dir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let layer = home.path().canonicalize().unwrap();
    let settings = serde_json::json!({"workload": "meta", "op": "create", "files": 3});
    let settings = serde_json::from_value(settings).unwrap();
    let meta = workloads::find("meta").unwrap();
    let made = Job {
        dir: layer.to_string_lossy().into_owned(),
        point: meta.points(&settings, 1.0).unwrap().remove(0),
        ..job(1, "")
    };
    let mut absent = job(2, "");
    absent.dir.clone_from(&made.dir);
    let said = with_server(|server| {
        server.prepare(&made).unwrap();
        assert_eq!(here(), layer);
        whole(server, 1);
        assert_eq!(here(), Path::new("/"));
        // It has no packaged file.
        server.prepare(&absent).unwrap();
        assert_eq!(here(), Path::new("/"));
        server.prepare(&made).unwrap();
        server.drop_ready().unwrap();
        assert_eq!(here(), Path::new("/"));
    });
    let errors = said.iter().filter(|e| matches!(e, FromProbe::Error { .. }));
    let errors: Vec<&str> = errors.map(complaint).collect();
    let path = format!("{}/packaged/", layer.display());
    assert!(errors.len() == 1 && errors[0].contains(&path), "{errors:?}");
}
