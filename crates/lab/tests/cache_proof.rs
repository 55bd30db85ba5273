//! A loop device with `direct-io=off` keeps a file twice: its own pages, and those of its image.
//! fio's `invalidate=1` drops the first and so reads the second from memory; a cold point of ours
//! reads the device in both places. This program is its own probe.

use std::{
    io::{stdin, stdout},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use layermark_lab::{Request, Stop};
use layermark_layers::{Base, Content, Place, Undo, find, sandbox};
use layermark_model::{Plan, Spec};
use layermark_probe::{counters, resident};
use layermark_report::{Report, ResultRow, ServedBy, Verdict};
use layermark_store::Store;
use libtest_mimic::{Arguments, Trial};

type Test = fn(&Path);

const LOOP: &str = "loop:ext4,direct-io=off";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("probe") {
        return match layermark_probe::serve(stdin().lock(), stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let args = Arguments::from_args();
    if !args.list {
        // Before there are other threads: a user namespace is made by a process that has one.
        sandbox::enter().unwrap();
    }
    let tests: [(&str, Test); 3] = [
        ("cold_is_cold_in_both_places", cold_is_cold_in_both_places),
        ("what_is_cached_twice_is_told", what_is_cached_twice_is_told),
        ("fio_reads_the_images_pages", fio_reads_the_images_pages),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            // Not /tmp: that may be in memory.
            let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            match lacking(temp.path()) {
                Some(why) => eprintln!("skipped: {why}"),
                None => test(temp.path()),
            }
            Ok(())
        })
    });
    libtest_mimic::run(&args, trials.into()).exit_code()
}

/// Why nothing can be shown here.
fn lacking(temp: &Path) -> Option<String> {
    let spec: Spec = LOOP.parse().unwrap();
    let lacks = find("loop").unwrap().missing(&spec);
    if let Some(lack) = lacks.first() {
        return Some(format!("{LOOP} needs {}", lack.what));
    }
    let none = devices(temp, true).is_empty();
    none.then(|| format!("no disk below {}", temp.display()))
}

/// `major:minor` of the disks below a directory, or of the devices in front of them.
fn devices(dir: &Path, physical: bool) -> Vec<String> {
    let facts = layermark_layers::mounts::facts_of(dir).unwrap();
    let chosen = facts.devices.into_iter().filter(|d| d.physical == physical);
    chosen.map(|d| d.number).collect()
}

/// The file that fio makes for a job named `cold`.
const FILE: &str = "cold.0.0";
const SIZE: u32 = 64 << 20;

/// Runs fio's job on `FILE` and returns its JSON.
fn fio(dir: &Path, more: &[&str]) -> serde_json::Value {
    let out = Command::new("fio")
        .args(["--name=cold", "--rw=read", "--bs=64k"])
        .args(["--ioengine=psync", "--output-format=json"])
        .args([
            format!("--size={SIZE}"),
            format!("--directory={}", dir.display()),
        ])
        .args(more)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A read of the file by fio.
struct Seen {
    /// As fio measures it, bytes a second.
    rate: f64,
    /// Bytes that the devices gave meanwhile, per byte of the file.
    from_devices: f64,
}

fn read(dir: &Path, devices: &[String]) -> Seen {
    let before = counters::sum(devices).unwrap();
    let said = fio(dir, &[]);
    let after = counters::sum(devices).unwrap();
    Seen {
        rate: said["jobs"][0]["read"]["bw_bytes"].as_f64().unwrap(),
        from_devices: (after.read - before.read) as f64 / f64::from(SIZE),
    }
}

/// Share of the file's bytes in the image that are in this host's memory.
fn image_in_memory(place: &dyn Place) -> f64 {
    let files = place.backing_extents(&[FILE.into()]);
    let looks = files
        .iter()
        .map(|f| resident::cached(&f.path, f.ranges.as_deref()).unwrap());
    let (cached, all) = looks.fold((0, 0), |(c, a), (cached, all)| (c + cached, a + all));
    assert!(all >= u64::from(SIZE), "{files:?}");
    cached as f64 / all as f64
}

fn open(temp: &Path, text: &str, undo: &mut Undo) -> Box<dyn Place> {
    let spec: Spec = text.parse().unwrap();
    let base = Base {
        dir: temp.join(format!("fio-{}", spec.layer)),
        packaged: temp.join("none"),
        exe: std::env::current_exe().unwrap(),
        silence: Duration::from_mins(1),
        until: None,
        content: Content::Fresh,
    };
    for dir in [&base.dir, &base.packaged] {
        std::fs::create_dir_all(dir).unwrap();
    }
    find(&spec.layer).unwrap().open(&base, &spec, undo).unwrap()
}

fn fio_reads_the_images_pages(temp: &Path) {
    let mut version = Command::new("fio");
    if version
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: fio is not installed");
        return;
    }
    let mut undo = Undo::new();
    let places = ["native", LOOP].map(|text| open(temp, text, &mut undo));
    let [native, inside] = places.each_ref().map(|place| {
        fio(&place.info().dir, &["--create_only=1"]);
        place.info().dir.as_path()
    });
    rustix::fs::sync();
    // Other programs use the same disk: the least that it gave is what fio's reads took.
    let cold: Vec<Seen> = (0..5).map(|_| read(native, &devices(temp, true))).collect();
    let from_disk = cold.iter().map(|s| s.from_devices).fold(f64::MAX, f64::min);
    assert!(from_disk >= 0.95, "native is cold: {from_disk}");
    // The loop device has no other reader, so it shows that fio does not read the file's own pages. Pages that are
    // in memory before and after did not come from the disk, whatever others read there. Others may also drop them.
    let in_front = devices(inside, false);
    let cached = (0..20).find_map(|_| {
        let before = image_in_memory(places[1].as_ref());
        let seen = read(inside, &in_front);
        (before.min(image_in_memory(places[1].as_ref())) >= 0.99).then_some(seen)
    });
    let cached = cached.expect("the image is in memory");
    let through_loop = cached.from_devices;
    assert!(
        through_loop >= 0.95,
        "fio drops its own pages: {through_loop}"
    );
    let fastest = cold.iter().map(|s| s.rate).fold(0.0, f64::max);
    println!(
        "fio with its default invalidate=1: {LOOP} reads {:.2}x as fast as native; of the bytes, {from_disk:.2} came \
         from the disk natively, and all from memory in the loop layer",
        cached.rate / fastest
    );
}

/// Runs one point natively and in the loop layer.
fn compare(temp: &Path, name: &str, work: &str) -> Report {
    let (dir, db) = (temp.join(name), temp.join(format!("{name}.db")));
    std::fs::create_dir(&dir).unwrap();
    // Blocks and not time: in a busy machine's 6 s a layer may have none.
    let plan = format!(
        "name = 'cache'\nlayers = ['native', '{LOOP}']\nblocks = 4\nbudget = '3m'\nseed = 3\ncontrol = false\n\
         [[work]]\nworkload = 'file'\nfile_size = '16M'\nrecord = '64K'\nlabel = 'x'\n{work}\n"
    );
    let exe = std::env::current_exe().unwrap();
    let mut request = Request::new(Plan::from_toml(&plan).unwrap(), &dir, exe);
    request.silence = Duration::from_secs(30);
    let mut store = Store::open(db).unwrap();
    layermark_lab::run(request, &mut store, &Stop::new(), &mut |_| {}).unwrap();
    let (run, trials) = store.load("last").unwrap();
    Report::build(&run, &trials)
}

fn in_layer<'a>(report: &'a Report, layer: &str) -> &'a ResultRow {
    report.results.iter().find(|r| r.layer == layer).unwrap()
}

fn cold_is_cold_in_both_places(temp: &Path) {
    let report = compare(temp, "cold", "op = 'read'\ncache = 'cold'");
    for layer in ["native", LOOP] {
        let row = in_layer(&report, layer);
        assert!(row.trials > 0, "{row:?}");
        assert!(row.device_share.unwrap() >= 0.95, "{row:?}");
        assert_eq!(row.served_by, Some(ServedBy::Device), "{row:?}");
        assert_ne!(row.verdict, Verdict::Untrusted, "{row:?}");
    }
    let row = in_layer(&report, LOOP);
    assert!(row.backing_resident.unwrap() <= 0.05, "{row:?}");
    println!(
        "ours, cold: {LOOP} takes {:?} times as long as native; {}",
        row.ratio.map(|r| r.estimate),
        row.served_because.as_deref().unwrap_or_default()
    );
}

/// Past its own cache the loop layer still reads this host's memory, and that is what is said.
fn what_is_cached_twice_is_told(temp: &Path) {
    let report = compare(temp, "direct", "op = 'read'\ndirect = true");
    assert_eq!(
        in_layer(&report, "native").served_by,
        Some(ServedBy::Device)
    );
    let row = in_layer(&report, LOOP);
    assert_eq!(row.served_by, Some(ServedBy::HostMemory), "{row:?}");
    assert_eq!(row.verdict, Verdict::Untrusted, "O_DIRECT was not: {row:?}");
    let why = row.served_because.as_deref().unwrap();
    assert!(why.contains("its place in the image"), "{why}");
    println!("ours, O_DIRECT: {LOOP} read from host memory: {why}");
}
