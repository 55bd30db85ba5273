//! A file system interface of `SQLite` that passes calls on and counts flushes and bytes.
#![allow(unsafe_code)] // SQLite's interface for file systems

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rusqlite::ffi::{
    SQLITE_IOERR, SQLITE_OK, SQLITE_OPEN_MAIN_DB, sqlite3_file, sqlite3_filename,
    sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// Its name in `SQLite`.
pub const NAME: &str = "layermark";

static SYNCS: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static TABLE_WRITES: AtomicU64 = AtomicU64::new(0);

/// Counters since the process started. A probe does one job at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls that flush a file.
    pub syncs: u64,
    /// Bytes written.
    pub written: u64,
    /// Writes to the file of the table itself; with a write-ahead log, those of a checkpoint.
    pub table_writes: u64,
}

impl Counted {
    pub fn now() -> Self {
        Self {
            syncs: SYNCS.load(Relaxed),
            written: WRITTEN.load(Relaxed),
            table_writes: TABLE_WRITES.load(Relaxed),
        }
    }
}

/// The default file system interface of `SQLite`.
struct Usual(*mut sqlite3_vfs);

// SAFETY: SQLite registers it once, and never changes or frees it.
unsafe impl Send for Usual {}
// SAFETY: as above.
unsafe impl Sync for Usual {}

/// The functions of an open file: those of `SQLite`, and a copy in which two are ours.
struct Methods {
    usual: sqlite3_io_methods,
    counting: sqlite3_io_methods,
}

static USUAL: OnceLock<Usual> = OnceLock::new();
static TABLE: OnceLock<Methods> = OnceLock::new();
static OTHER: OnceLock<Methods> = OnceLock::new();

/// Registers it with `SQLite`. `false` if `SQLite` has no default file system interface.
pub fn register() -> bool {
    let usual = USUAL.get_or_init(|| {
        // SAFETY: null asks for the default one, which lives as long as the program.
        let usual = unsafe { sqlite3_vfs_find(ptr::null()) };
        if !usual.is_null() {
            // SAFETY: it is valid, see above; the copy is never freed.
            let own = Box::leak(Box::new(unsafe { *usual }));
            own.zName = c"layermark".as_ptr();
            own.pNext = ptr::null_mut();
            own.xOpen = Some(open);
            // SAFETY: it lives as long as the program.
            unsafe { sqlite3_vfs_register(own, 0) };
        }
        Usual(usual)
    });
    !usual.0.is_null()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(usual) = USUAL.get() else {
        return SQLITE_IOERR;
    };
    // SAFETY: the arguments are SQLite's own, passed on to the function that they are meant for.
    let opened = unsafe {
        match (*usual.0).xOpen {
            Some(open) => open(usual.0, name, file, flags, out),
            None => SQLITE_IOERR,
        }
    };
    // SAFETY: SQLite has made the file, and its functions live as long as the program.
    let usual = unsafe { (*file).pMethods.as_ref() };
    if let Some(usual) = usual.filter(|_| opened == SQLITE_OK) {
        let is_table = flags & SQLITE_OPEN_MAIN_DB != 0;
        let (methods, write) = if is_table {
            (&TABLE, write_table as Write)
        } else {
            (&OTHER, write_other as Write)
        };
        let methods = methods.get_or_init(|| Methods {
            usual: *usual,
            counting: sqlite3_io_methods {
                xSync: Some(if is_table { sync_table } else { sync_other }),
                xWrite: Some(write),
                ..*usual
            },
        });
        // SAFETY: the file is not used yet.
        unsafe { (*file).pMethods = &raw const methods.counting };
    }
    opened
}

type Write = unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int;

unsafe extern "C" fn write_table(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    TABLE_WRITES.fetch_add(1, Relaxed);
    // SAFETY: as SQLite has called us.
    unsafe { write(&TABLE, file, from, bytes, at) }
}

unsafe extern "C" fn write_other(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    // SAFETY: as SQLite has called us.
    unsafe { write(&OTHER, file, from, bytes, at) }
}

unsafe fn write(
    methods: &OnceLock<Methods>,
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    WRITTEN.fetch_add(u64::try_from(bytes).unwrap_or(0), Relaxed);
    match methods.get().and_then(|m| m.usual.xWrite) {
        // SAFETY: the arguments are SQLite's own.
        Some(write) => unsafe { write(file, from, bytes, at) },
        None => SQLITE_IOERR,
    }
}

unsafe extern "C" fn sync_table(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as SQLite has called us.
    unsafe { sync(&TABLE, file, flags) }
}

unsafe extern "C" fn sync_other(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as SQLite has called us.
    unsafe { sync(&OTHER, file, flags) }
}

unsafe fn sync(methods: &OnceLock<Methods>, file: *mut sqlite3_file, flags: c_int) -> c_int {
    SYNCS.fetch_add(1, Relaxed);
    match methods.get().and_then(|m| m.usual.xSync) {
        // SAFETY: the arguments are SQLite's own.
        Some(sync) => unsafe { sync(file, flags) },
        None => SQLITE_IOERR,
    }
}
