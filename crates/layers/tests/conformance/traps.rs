//! The traps that were found by hand when these layers were first tried; each is proved here.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

use layermark_layers::{End, KernelCaches, LayerError, mounts};
use layermark_probe::resident;
use layermark_testkit::wait_for;
use rustix::mount::UnmountFlags;

use crate::inside::{Up, same_as_packaged};

pub fn run(trap: &str, mut up: Up) {
    match trap {
        "direct-honoured" => assert!(!cached_after_direct_read(&mut up), "read through a cache"),
        "direct-dropped" => assert!(cached_after_direct_read(&mut up), "no cache was used"),
        "volatile-shows" => volatile_shows(&up),
        "mount-lost" => mount_lost(&mut up),
        "overlay-residency" => overlay_residency(&up),
        "cool-works" => cool_works(&mut up),
        "cool-cannot" => cool_cannot(&mut up),
        "volatile-again" => volatile_again(&mut up),
        "copies-up" => copies_up(&up),
        "delay" => delay(&up),
        "distant" => distant(&up),
        "refuses-writes" => refuses_writes(&up),
        "shifts-owners" | "private-home" => shifts_owners(&up),
        other => panic!("no trap {other}"),
    }
}

fn big(up: &Up) -> std::path::PathBuf {
    up.place.info().dir.join("packaged/big")
}

/// `O_DIRECT` may be dropped without a word: then what lies behind the layer gets cached.
fn cached_after_direct_read(up: &mut Up) -> bool {
    let behind = up.place.backing_extents(&["packaged/big".into()]);
    let backing = behind[0].path.clone();
    up.place.drop_caches(KernelCaches::Now).unwrap();
    let forget = || {
        let file = File::open(&backing).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        resident::share(&backing).unwrap()
    };
    let before = forget();
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(big(up))
        .unwrap();
    let mut buffer = vec![0u8; (1 << 20) + 4096];
    let start = buffer.as_ptr().align_offset(4096);
    // By how much it grows with each read: another test may empty the caches between two of them.
    let (mut share, mut grown) = (before, 0.0);
    for part in 0..3u64 {
        let got = file
            .read_at(&mut buffer[start..start + (1 << 20)], part << 20)
            .unwrap();
        assert_eq!(got, 1 << 20);
        let after = resident::share(&backing).unwrap();
        println!("share of the backing file in the cache: {share} before, {after} after");
        grown += (after - share).max(0.0);
        share = after;
    }
    // One read of the three may have lost it.
    let bytes = grown * backing.metadata().unwrap().len() as f64;
    bytes > f64::from(3 << 19)
}

/// fsync does nothing on a volatile overlay: the facts say so.
fn volatile_shows(up: &Up) {
    let facts = up.place.facts().unwrap();
    assert!(
        facts.mounts[0].options.contains("volatile"),
        "{:?}",
        facts.mounts[0]
    );
    assert!(
        facts.mounts.iter().any(|m| m.fs != "overlay"),
        "{:?}",
        facts.mounts
    );
}

/// A layer whose mount is gone leaves a directory that can be measured just as well.
fn mount_lost(up: &mut Up) {
    let dir = up.place.info().dir.clone();
    let entry = mounts::holding(&dir).unwrap();
    rustix::mount::unmount(&entry.at, UnmountFlags::DETACH).unwrap();
    fs::create_dir_all(&dir).unwrap();
    for outcome in [
        up.place.facts().map(drop),
        up.place.start(End::Far).map(drop),
    ] {
        let e = outcome.unwrap_err();
        assert!(matches!(e, LayerError::NotMounted { .. }), "{e}");
        println!("{e}");
    }
}

/// cachestat(2) says 0 on overlay, whatever is cached; the file that it shows tells as well.
fn overlay_residency(up: &Up) {
    let [shown] = up
        .place
        .backing_extents(&["packaged/big".into()])
        .try_into()
        .unwrap();
    assert!(shown.path != big(up), "{shown:?}");
    // Another test may empty the caches of the machine in between.
    wait_for("the whole file in the cache, by either name", || {
        let _ = fs::read(big(up)).unwrap();
        let whole = resident::share(&big(up)) == Some(1.0);
        let (cached, all) = resident::cached(&shown.path, shown.ranges.as_deref()).unwrap();
        assert_eq!(all, crate::inside::BIG);
        (whole && cached == all).then_some(())
    });
}

/// A dirty page cannot be dropped: `cool` has to write it back first.
fn cool_works(up: &mut Up) {
    let path = up.place.info().dir.join("dirty");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    // FUSE forgets what was written when it sees the new time, and caches what is read. Another test may empty the caches of
    // the machine in between.
    wait_for("the whole file in the cache", || {
        assert_eq!(fs::read(&path).unwrap().len(), 1 << 20);
        (resident::share(&path) == Some(1.0)).then_some(())
    });
    let cooled = up.place.drop_caches(KernelCaches::Now).unwrap();
    let left = resident::share(&path).unwrap();
    assert!(left < 0.05, "{left} is left after {cooled:?}");
    assert!(resident::share(&big(up)).unwrap() < 0.05);
}

/// tmpfs is never evicted: it may not claim to be cold.
fn cool_cannot(up: &mut Up) {
    let cooled = up.place.drop_caches(KernelCaches::Now).unwrap();
    assert!(!cooled.complete, "{cooled:?}");
    assert_eq!(resident::share(&big(up)), Some(1.0));
}

/// Nothing can be written in the mount, and the directory below it can.
fn refuses_writes(up: &Up) {
    let options = up.place.facts().unwrap().mounts[0].options.clone();
    assert!(options.split(',').any(|o| o == "ro"), "{options}");
    let e = fs::write(big(up), b"x").unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    fs::write(up.base.dir.join("source/new"), b"x").unwrap();
    assert!(
        up.place.info().dir.join("new").exists(),
        "it is a bind mount"
    );
}

/// Root in the mount is another user on the disk, and the kernel says that it is so.
fn shifts_owners(up: &Up) {
    let options = up.place.facts().unwrap().mounts[0].options.clone();
    assert!(options.split(',').any(|o| o == "idmapped"), "{options}");
    fs::write(up.place.info().dir.join("new"), b"x").unwrap();
    for name in ["new", "packaged/big", ""] {
        let owner = |dir: &Path| {
            let found = dir.join(name).metadata().unwrap();
            (found.uid(), found.gid())
        };
        assert_eq!(owner(&up.place.info().dir), (0, 0), "{name}");
        assert_eq!(
            owner(&up.base.dir.join("source")),
            (100_000, 100_000),
            "{name}"
        );
    }
}

/// A volatile overlay cannot be mounted a second time before `work/incompat` is removed.
fn volatile_again(up: &mut Up) {
    for _ in 0..3 {
        fs::write(big(up), b"changed").unwrap();
        up.place.refresh(&[]).unwrap();
        same_as_packaged(up);
    }
}

/// The first write to a packaged file copies the whole of it to the upper layer.
fn copies_up(up: &Up) {
    assert!(up.place.facts().unwrap().copies_up());
    let copy = up.base.dir.join("upper/packaged/big");
    assert!(!copy.exists());
    let open = File::options().write(true).open(big(up)).unwrap();
    // Paid in the open, before anything is written.
    assert_eq!(copy.metadata().unwrap().len(), crate::inside::BIG);
    open.write_all_at(b"x", 0).unwrap();
}

/// Every request takes as long as was asked, and not much longer.
fn delay(up: &Up) {
    let asked = match up.spec.options["delay"].as_str() {
        "2ms" => Duration::from_millis(2),
        "100us" => Duration::from_micros(100),
        _ => Duration::ZERO,
    };
    let file = File::open(big(up)).unwrap();
    // With cache=none each of these is one request.
    let mut took: Vec<Duration> = (0..400).map(|n| read(&file, n)).collect();
    took.sort();
    println!(
        "{}: a read takes {:?} at least, {:?} in the median, {:?} at most",
        up.spec, took[0], took[200], took[399]
    );
    assert!(took[0] >= asked, "{took:?}");
    assert!(took[0] < asked + Duration::from_millis(1), "{took:?}");
}

/// A request to the server takes a round trip, and data the time that the cable takes for it.
fn distant(up: &Up) {
    const ROUND_TRIP: Duration = Duration::from_millis(6);
    let notes = up.place.facts().unwrap().notes;
    assert_eq!(notes["delay"], "6ms round trip, by layermark's relay");
    assert_eq!(notes["rate"], "100mbit each way, by layermark's relay");
    let start = Instant::now();
    let mut file = File::create_new(up.place.info().dir.join("new")).unwrap();
    assert!(start.elapsed() >= ROUND_TRIP);
    let start = Instant::now();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    assert!(start.elapsed() >= Duration::from_secs_f64(f64::from(8 << 20) / 100e6));
}

fn read(file: &File, block: u64) -> Duration {
    let mut buffer = [0; 4096];
    let start = Instant::now();
    file.read_exact_at(&mut buffer, block * 4096).unwrap();
    start.elapsed()
}
