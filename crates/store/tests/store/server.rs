//! What may be the matter with a server: errors that say what to do and no password, and connections
//! that are lost while a run goes on.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::{MetadataExt, chown},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_model::{RunStatus, TrialRecord};
use layermark_store::{Filter, Store, StoreError};
use layermark_testkit::{
    postgres::{PASSWORD, Server, USER},
    wait_for,
};

use crate::{
    files::{FORMAT_5, earlier_in},
    made::{record, run},
    places::{assert_newer, server},
};

/// Why a store cannot be opened, once neither the error nor its hint has the password.
#[track_caller]
fn refused(at: &str) -> StoreError {
    let write = Store::open(at).err().expect("refused");
    let read = Store::open_read(at).err().expect("refused");
    for error in [&write, &read] {
        let said = format!("{error} {error:?} {}", error.hint().expect("a hint"));
        assert!(
            !said.contains(PASSWORD) && !said.contains("wrong-pw"),
            "{said}"
        );
        assert!(said.contains("postgres://team"), "{said}");
    }
    assert_eq!(write.to_string(), read.to_string());
    write
}

#[test]
fn what_keeps_a_server_from_being_used_is_told_apart() {
    let Some(server) = server() else { return };
    let good = server.database();
    let port = server.port;

    let wrong = good.replace(PASSWORD, "wrong-pw");
    let e = refused(&wrong);
    assert!(matches!(e, StoreError::Login { .. }), "{e:?}");
    let database = good.rsplit('/').next().unwrap();
    assert_eq!(
        e.to_string(),
        format!(
            "the store postgres://team:***@127.0.0.1:{port}/{database} refuses the user: \
             password authentication failed for user \"team\""
        )
    );
    assert_eq!(
        e.hint().unwrap(),
        format!(
            "try it: psql -h 127.0.0.1 -p {port} -U team {database}; the password is read from PGPASSWORD, \
             or from ~/.pgpass (chmod 600)"
        )
    );

    let e = refused(&server.url("nowhere"));
    assert!(matches!(e, StoreError::NoDatabase { .. }), "{e:?}");
    let hint = format!("make it: createdb -h 127.0.0.1 -p {port} -U team nowhere");
    assert_eq!(e.hint().unwrap(), hint);

    let e = refused(&format!("{good}?sslmode=require"));
    assert!(matches!(e, StoreError::Tls { .. }), "{e:?}");
    assert!(e.hint().unwrap().contains("?sslmode=disable"));

    // Nothing listens, and something listens that never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let e = refused(&good.replace(&format!(":{port}/"), &format!(":{dead}/")));
    assert!(matches!(e, StoreError::Unreachable { .. }), "{e:?}");
    assert_eq!(
        e.hint().unwrap(),
        format!("see whether it answers: pg_isready -h 127.0.0.1 -p {dead}")
    );
    let quiet = silent.local_addr().unwrap().port();
    let e = refused(&good.replace(&format!(":{port}/"), &format!(":{quiet}/")));
    assert!(e.to_string().ends_with("no answer within 10 s"), "{e}");
}

#[test]
fn a_database_that_is_no_store_of_ours_is_left_alone() {
    let Some(server) = server() else { return };
    let photos = server.database();
    server.sql(&photos, "CREATE TABLE photos (id BIGINT)");
    let e = refused(&photos);
    assert!(
        matches!(&e, StoreError::Foreign { table, .. } if table == "photos"),
        "{e:?}"
    );
    assert!(e.hint().unwrap().contains("createdb -h 127.0.0.1"));
    assert!(!server.dump(&photos).contains("_sqlx_migrations"));

    let newer = server.database();
    drop(Store::open(&newer).unwrap());
    server.sql(
        &newer,
        "UPDATE _sqlx_migrations SET version = 99 WHERE version = 6",
    );
    let e = refused(&newer);
    assert_newer(&e);

    // An older one is brought up to date by a writer, not by a reader.
    let older = server.database();
    drop(Store::open(&older).unwrap());
    server.sql(&older, &format!("SET ROLE {USER}; {FORMAT_5}"));
    let e = Store::open_read(&older).err().unwrap();
    assert!(
        matches!(e, StoreError::Older { found: 5, .. }) && e.hint().is_some(),
        "{e:?}"
    );
    // While a writer does so, a reader waits for it.
    let locks = |which: &str| {
        let count = format!("SELECT count(*) FROM pg_locks WHERE {which}");
        wait_for("a lock", || {
            (server.sql(&older, &count).trim() != "0").then_some(())
        });
    };
    // Until somebody waits for it, and some more.
    let slow = "BEGIN; LOCK TABLE layers; DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted) \
        LOOP PERFORM pg_sleep(0.02); END LOOP; END $$; SELECT pg_sleep(3); COMMIT";
    thread::scope(|scope| {
        scope.spawn(|| server.sql(&older, slow));
        locks("granted AND mode = 'AccessExclusiveLock'");
        scope.spawn(|| drop(Store::open(&older).unwrap()));
        locks("NOT granted");
        let mut read = Store::open_read(&older).unwrap();
        assert_eq!(read.load("last").unwrap(), earlier_in(&read));
    });
}

#[test]
fn a_user_may_read_without_being_allowed_to_write() {
    let Some(server) = server() else { return };
    let at = server.database();
    assert!(Store::open_read(&at).unwrap().list(9).unwrap().is_empty());
    assert_eq!(
        server.sql(
            &at,
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ),
        "0\n"
    );
    let mut store = Store::open(&at).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    server.sql(
        &at,
        "CREATE ROLE guest LOGIN PASSWORD 'g'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest",
    );
    let guest = at.replace(&format!("{USER}:{PASSWORD}"), "guest:g");
    let mut read = Store::open_read(&guest).unwrap();
    assert_eq!(read.list(9).unwrap()[0].status, RunStatus::Running);
    let mut write = Store::open(&guest).unwrap();
    let e = write.trial("01RUN", &record(0)).unwrap_err();
    assert!(
        matches!(e, StoreError::Denied { .. }) && e.hint().is_some(),
        "{e:?}"
    );
    // The index of hosts is of the owner, who may have made it after these privileges.
    server.sql(
        &at,
        "CREATE ROLE writer LOGIN PASSWORD 'w'; GRANT SELECT, INSERT, UPDATE ON runs, layers, trials, _sqlx_migrations TO writer",
    );
    let writer = at.replace(&format!("{USER}:{PASSWORD}"), "writer:w");
    let mut write = Store::open(&writer).unwrap();
    let mut other = run("01OTHER", 2);
    other.machine.label = Some("n1".into());
    write.begin(&other).unwrap();
    write.trial("01OTHER", &record(0)).unwrap();
    for at in [&at, &guest, &writer] {
        let filter = Filter {
            host: Some("n1".into()),
            ..Filter::from(9)
        };
        let found = Store::open_read(at).unwrap().list(filter).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
    }
    // So are the tallies. CREATE TABLE needs a privilege, also if the table is there.
    let tallies = |run: &str| [((run.to_owned(), 1), "{}".to_owned())];
    let refused = write.keep_tallies("1", &tallies("01OTHER")).unwrap_err();
    assert!(matches!(refused, StoreError::Denied { .. }), "{refused:?}");
    store.keep_tallies("1", &tallies("01RUN")).unwrap();
    server.sql(&at, "GRANT SELECT, INSERT, UPDATE ON tallies TO writer");
    write.keep_tallies("1", &tallies("01OTHER")).unwrap();
    let kept = store.tallies("1", &["01RUN", "01OTHER"]).unwrap();
    assert_eq!(kept.len(), 2);
    // In a new database only its owner may make tables.
    let empty = server
        .database()
        .replace(&format!("{USER}:{PASSWORD}"), "guest:g");
    let e = Store::open(&empty).err().unwrap();
    assert!(matches!(e, StoreError::Denied { .. }), "{e:?}");
    assert!(
        Store::open_read(&empty)
            .unwrap()
            .list(9)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn by_its_socket_and_in_a_schema_of_its_own() {
    let Some(server) = server() else { return };
    let name = server.database();
    let name = name.rsplit('/').next().unwrap();
    let socket = format!(
        "postgres:///{name}?host={}&user=owner&port={}",
        server.dir().display(),
        server.port
    );
    let mut store = Store::open(socket).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    store.trial("01RUN", &record(0)).unwrap();
    assert_eq!(store.load("last").unwrap().1, [record(0)]);
    // Beside somebody else's tables.
    let at = server.database();
    server.sql(
        &at,
        "CREATE TABLE photos (id BIGINT); CREATE SCHEMA lm AUTHORIZATION team",
    );
    let apart = format!("{at}?options=-c%20search_path%3Dlm");
    let mut store = Store::open(&apart).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    assert_eq!(Store::open_read(&apart).unwrap().list(9).unwrap().len(), 1);
    assert_eq!(server.sql(&at, "SELECT count(*) FROM lm.runs"), "1\n");
}

/// Its connection is ended between two trials, and while it holds the run.
#[test]
fn a_connection_that_is_ended_is_made_again() {
    let Some(server) = Server::start() else {
        return;
    };
    let at = server.database();
    let mut store = Store::open(&at).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    for seq in 0..4 {
        server.disconnect();
        store.trial("01RUN", &record(seq)).unwrap();
        let mut other = Store::open(&at).unwrap();
        assert!(
            matches!(other.hold("01RUN"), Err(StoreError::AtWork { .. })),
            "{seq}"
        );
    }
    server.disconnect();
    assert_eq!(store.load("01RUN").unwrap().1.len(), 4);
}

/// A run with one trial whose server was stopped.
fn interrupted() -> Option<(Server, String, Store)> {
    let server = Server::start()?;
    let at = server.database();
    let mut store = Store::open(&at).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    store.trial("01RUN", &record(0)).unwrap();
    server.stop();
    Some((server, at, store))
}

#[test]
fn a_server_that_comes_back_gets_the_rest_of_the_run() {
    let Some((server, at, mut store)) = interrupted() else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(2));
            server.begin("");
        });
        store.trial("01RUN", &record(1)).unwrap();
    });
    let mut ended = run("01RUN", 1);
    ended.status = RunStatus::Done;
    store.update(&ended).unwrap();
    let (run, trials) = Store::open_read(&at).unwrap().load("last").unwrap();
    assert_eq!(
        (run.status, trials),
        (RunStatus::Done, vec![record(0), record(1)])
    );
}

/// What a run does when its server stays away: an error after some time, and no second time as long.
#[test]
fn a_server_that_stays_away_ends_the_run_with_what_it_had() {
    let Some((server, at, mut store)) = interrupted() else {
        return;
    };
    // The end-to-end tests wait for the whole minute.
    let patience = Duration::from_secs(5);
    store.set_patience(patience);
    let started = Instant::now();
    let e = store.trial("01RUN", &record(1)).unwrap_err();
    assert!(
        matches!(&e, StoreError::Lost { run, .. } if run == "01RUN"),
        "{e:?}"
    );
    let hint = e.hint().unwrap();
    assert!(
        hint.contains("--resume 01RUN --store ") && hint.contains("postgres://team@"),
        "{hint}"
    );
    assert!(started.elapsed() >= patience, "{:?}", started.elapsed());
    // Longer than any test: it is not waited for.
    store.set_patience(Duration::from_hours(24));
    assert!(store.update(&run("01RUN", 1)).is_err());
    server.begin("");
    // It is asked each time all the same.
    store.trial("01RUN", &record(1)).unwrap();
    drop(store);
    let (run, trials) = Store::open_read(&at).unwrap().load("last").unwrap();
    assert_eq!((run.status, trials.len()), (RunStatus::Interrupted, 2));
}

/// Passes everything on between its port and a server's, and cuts a connection off before the next
/// answer when it is told to.
fn proxy(to: u16) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let cut = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&cut);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let pass = |mut from: TcpStream, mut to: TcpStream, cut: Option<Arc<AtomicBool>>| {
                thread::spawn(move || {
                    let mut buffer = [0; 8192];
                    while let Ok(n @ 1..) = from.read(&mut buffer) {
                        let off = cut
                            .as_ref()
                            .is_some_and(|cut| cut.swap(false, Ordering::SeqCst));
                        if off || to.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            };
            pass(
                client.try_clone().unwrap(),
                server.try_clone().unwrap(),
                None,
            );
            pass(server, client, Some(Arc::clone(&told)));
        }
    });
    (port, cut)
}

/// The server has stored the trial, and cannot say so.
#[test]
fn what_was_stored_before_the_answer_was_lost_is_not_stored_twice() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let (port, cut) = proxy(server.port);
    let mut store =
        Store::open(direct.replace(&format!(":{}/", server.port), &format!(":{port}/"))).unwrap();
    cut.store(true, Ordering::SeqCst);
    store.begin(&run("01RUN", 1)).unwrap();
    // The first one is prepared, which is an answer of its own.
    store.trial("01RUN", &record(0)).unwrap();
    cut.store(true, Ordering::SeqCst);
    store.trial("01RUN", &record(1)).unwrap();
    // After a new connection it is prepared again: now the answer is the one to the insertion.
    store.trial("01RUN", &record(2)).unwrap();
    cut.store(true, Ordering::SeqCst);
    store.trial("01RUN", &record(3)).unwrap();
    assert!(!cut.load(Ordering::SeqCst));
    let (_, trials) = Store::open_read(&direct).unwrap().load("01RUN").unwrap();
    assert_eq!(trials, (0..4).map(record).collect::<Vec<_>>());
    // One that was there before is an error, as in a file.
    assert!(store.trial("01RUN", &record(3)).is_err());
}

/// The same of a fleet's trials: those of the lost answer come again with new ones, which are stored.
#[test]
fn new_trials_beside_those_whose_answer_was_lost_are_stored() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let (port, cut) = proxy(server.port);
    let mut store =
        Store::open(direct.replace(&format!(":{}/", server.port), &format!(":{port}/"))).unwrap();
    store.begin(&run("01RUN", 1)).unwrap();
    let all: Vec<TrialRecord> = (0..6).map(record).collect();
    store.trials("01RUN", &all[..2]).unwrap();
    // Sent directly, as if the answer to it had been lost; then the connection is.
    let mut other = Store::open(&direct).unwrap();
    other.trials("01RUN", &all[..4]).unwrap();
    cut.store(true, Ordering::SeqCst);
    store.trials("01RUN", &all[2..]).unwrap();
    assert!(!cut.load(Ordering::SeqCst), "no answer was lost");
    let (_, trials) = Store::open_read(&direct).unwrap().load("01RUN").unwrap();
    assert_eq!(trials, all);
}

#[test]
fn a_server_with_tls_is_known_by_its_certificate() {
    let Some(server) = Server::start() else {
        return;
    };
    let file = |name: &str| server.dir().join(name).display().to_string();
    let (key, certificate) = (file("server.key"), file("server.crt"));
    let made = Command::new("openssl")
        .args([
            "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "ec", "-pkeyopt",
        ])
        .args([
            "ec_paramgen_curve:prime256v1",
            "-subj",
            "/CN=db",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    assert!(made.is_ok_and(|o| o.status.success()), "openssl");
    let owner = fs::metadata(server.dir()).unwrap();
    chown(&key, Some(owner.uid()), Some(owner.gid())).unwrap();
    let at = server.database();
    server.stop();
    server.begin(&format!(
        "-c ssl=on -c ssl_key_file={key} -c ssl_cert_file={certificate}"
    ));
    for good in [
        "",
        "?sslmode=require",
        &format!("?sslmode=verify-full&sslrootcert={certificate}"),
    ] {
        let mut store = Store::open(format!("{at}{good}")).unwrap();
        assert!(store.list(1).unwrap().is_empty());
        let tls =
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'team'";
        assert_eq!(server.sql(&at, tls), "t\n", "{good}");
    }
    let e = refused(&format!("{at}?sslmode=verify-full"));
    assert!(matches!(e, StoreError::Tls { .. }), "{e:?}");
    let other = format!("{at}?sslmode=verify-full&sslrootcert={certificate}")
        .replace("127.0.0.1", "localhost");
    let e = refused(&other);
    assert!(matches!(e, StoreError::Tls { .. }), "{e:?}");
}
