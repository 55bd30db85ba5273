//! Where stores lie: every test that is not about files is made with a file and with a server.

use std::sync::OnceLock;

use layermark_store::StoreError;
use layermark_testkit::postgres::Server;
use tempfile::TempDir;

/// The server of these tests; `None`, said once, where it is not installed.
pub fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let server = Server::start();
        if server.is_none() {
            eprintln!("skipped: no PostgreSQL; hint: apt-get install postgresql");
        }
        server
    });
    server.as_ref()
}

/// A place for one store.
pub struct Place {
    pub at: String,
    _dir: Option<TempDir>,
}

pub fn file() -> Place {
    let dir = tempfile::tempdir().unwrap();
    Place {
        at: dir.path().join("new/dir/s.db").display().to_string(),
        _dir: Some(dir),
    }
}

pub fn database() -> Option<Place> {
    let at = server()?.database();
    Some(Place { at, _dir: None })
}

/// Changes a store behind its back, as another program.
pub fn sql(at: &str, text: &'static str) {
    use sqlx::{AnyConnection, Connection, Executor};
    sqlx::any::install_default_drivers();
    let url = if at.contains("://") {
        at.to_owned()
    } else {
        format!("sqlite:{at}")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut connection = AnyConnection::connect(&url).await.unwrap();
        connection.execute(text).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// Makes two tests of each function that takes the address of a store.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod file {
            $(#[test] fn $test() { super::$test(&crate::places::file().at); })*
        }
        mod server {
            $(#[test] fn $test() {
                if let Some(place) = crate::places::database() { super::$test(&place.at); }
            })*
        }
    };
}
pub(crate) use on_both;

/// That a store was refused which calls its last migration 99.
#[track_caller]
pub fn assert_newer(e: &StoreError) {
    let newer = matches!(
        e,
        StoreError::Newer {
            found: 99,
            known: 6,
            ..
        }
    );
    assert!(newer, "{e:?}");
}
