//! One layer, built in a private mount namespace.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use layermark_layers::{
    Base, Content, End, Facts, KernelCaches, Layer, LayerError, Place, Spec, Undo, Wire, WorkDir,
    find, janitor, sandbox,
};
use layermark_model::{PackagedFile, Point};
use layermark_probe::{packaged, workloads};

use crate::{exercise, power_cut, state::State, traps, virtual_machine};

const SEED: u64 = 7;

/// Bytes of the large packaged file.
pub const BIG: u64 = 3 << 20;

/// A layer that is up, with all that holds it.
pub struct Up {
    pub place: Box<dyn Place>,
    pub undo: Undo,
    pub base: Base,
    pub spec: Spec,
}

/// `inside MODE SPEC DIR EXE`.
pub fn main(args: &[OsString]) -> Result<(), String> {
    let [mode, spec, dir, exe] = args else {
        return Err("inside MODE SPEC DIR EXE".into());
    };
    let exe = PathBuf::from(exe);
    // As in `layermark`: the janitor stays outside, and one thread enters.
    let janitor = janitor::spawn(&exe, None).map_err(|e| e.to_string())?;
    sandbox::enter().map_err(|e| e.to_string())?;
    let mut spec: Spec = spec.to_string_lossy().parse().map_err(|e| format!("{e}"))?;
    layermark_layers::check(&spec).map_err(|e| e.to_string())?;
    let layer = find(&spec.layer).ok_or("no such layer")?;
    let missing = layer.missing(&spec);
    if !missing.is_empty() {
        let what: Vec<String> = missing
            .iter()
            .map(|m| format!("{} ({})", m.what, m.hint))
            .collect();
        assert!(
            missing
                .iter()
                .all(|m| !m.what.is_empty() && !m.hint.is_empty())
        );
        println!("skipped: {}", what.join("; "));
        return Ok(());
    }
    if mode == "full" && sandbox::privilege() == sandbox::Privilege::None {
        println!("skipped: a full disk is made with a small tmpfs, which cannot be mounted here");
        return Ok(());
    }
    let work = WorkDir::create(Path::new(dir)).map_err(|e| e.to_string())?;
    // A serial port takes tens of microseconds for a byte: nothing but time is in the rest of the file.
    let by_serial_port = spec.options.get("agent").is_some_and(|a| a == "serial");
    let base = base(
        work.path(),
        &exe,
        if by_serial_port { BIG / 16 } else { BIG },
        // fuse-overlayfs takes no colon in a path.
        match spec.variant.as_deref() {
            Some("fuse") => "base, with odd\\ name",
            _ => "base, with: odd\\ name",
        },
    );
    if spec.layer == "exec" {
        // What it leaves behind must be seen.
        let dir = base.dir.to_string_lossy().into_owned();
        spec.options.insert("dir".into(), dir);
    }
    if spec.layer == "ssh" {
        // The server does not see what this process has mounted.
        let host = spec.variant.unwrap_or_default();
        spec.variant = Some(format!("{host}:{}", Path::new(dir).display()));
    }
    let mode = mode.to_string_lossy();
    match &*mode {
        "conform" => conform(layer, &spec, &base),
        "conform-vm" => virtual_machine::conform(layer, &spec, &base),
        "vm-fails" => virtual_machine::fails(layer, &spec, &base),
        "hang" => hang(layer, &spec, &base),
        "half-way" => half_way(layer, &spec, &base),
        "full" => full(layer, &spec, &base),
        "no-idmaps" => no_idmaps(layer, &spec, &base),
        "no-user-namespaces" => no_user_namespaces(layer, &spec, &base),
        cut if cut.starts_with("cut") => power_cut::run(cut, layer, &spec, &base),
        trap => traps::run(trap, open(layer, &spec, &base).map_err(|e| e.to_string())?),
    }
    drop(work);
    drop(janitor);
    println!("ok");
    Ok(())
}

fn base(work: &Path, exe: &Path, big: u64, name: &str) -> Base {
    let (dir, master) = (work.join(name), work.join("packaged"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&master).unwrap();
    let mut files = vec![file("big", big), file("sub/small", 100)];
    files.extend(reads().needs.packaged_files());
    packaged::write(&master, &files, SEED, &|| true).unwrap();
    Base {
        dir,
        packaged: master,
        exe: exe.into(),
        silence: std::time::Duration::from_mins(1),
        until: None,
        content: Content::Fresh,
    }
}

fn file(path: &str, size: u64) -> PackagedFile {
    PackagedFile::random(path.into(), size)
}

pub fn open(layer: &dyn Layer, spec: &Spec, base: &Base) -> Result<Up, LayerError> {
    let mut undo = Undo::new();
    let place = layer.open(base, spec, &mut undo)?;
    Ok(Up {
        place,
        undo,
        base: base.clone(),
        spec: spec.clone(),
    })
}

fn conform(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let before = State::of(&base.dir);
    let start = std::time::Instant::now();
    let mut up = open(layer, spec, base).unwrap();
    println!(
        "{spec}: up after {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let facts = up.place.facts().unwrap();
    assert!(!facts.is_empty());
    println!("facts: {}", serde_json::to_string(&facts).unwrap());
    if spec.layer != "mock" {
        assert!(!facts.mounts.is_empty() && facts.versions.contains_key("kernel"));
        same_as_packaged(&up);
        wire(&up);
        trial(&mut up);
        if has_own_kernel(spec) {
            written_inside(&mut up, &facts);
        } else {
            writing(&mut up);
        }
        if spec.layer == "container" && !has_own_kernel(spec) {
            in_its_network(&mut up);
        } else if is_entered(spec) {
            let e = up.place.link().unwrap_err();
            assert!(e.to_string().contains("cannot be an end of a path"), "{e}");
        } else {
            linked(&mut up);
        }
        if is_entered(spec) && !has_own_kernel(spec) {
            assert_eq!(facts.notes["kernel"], "shared with this host");
            assert!(facts.guest.is_none());
        }
    }
    let cooled = up.place.drop_caches(KernelCaches::Now).unwrap();
    assert!(!cooled.how.is_empty());
    up.place.refresh(&[]).unwrap();
    let upkeep = up.place.helper_cpu().unwrap();
    println!("upkeep: {} ns, cooled: {cooled:?}", upkeep.ns);
    if matches!(spec.layer.as_str(), "fuse" | "sshfs" | "rclone")
        || spec.variant.as_deref() == Some("squashfuse")
    {
        assert!(
            upkeep.ns > 100_000,
            "a server that served costs CPU: {upkeep:?}"
        );
    }
    let Up {
        place, mut undo, ..
    } = up;
    drop(place);
    assert_eq!(undo.run(), 0);
    before.comes_back(&base.dir).unwrap();
}

/// Whether a command leads into the layer.
fn is_entered(spec: &Spec) -> bool {
    matches!(spec.layer.as_str(), "exec" | "container" | "ssh")
}

/// Whether the layer's files are in the memory of another kernel on this host.
fn has_own_kernel(spec: &Spec) -> bool {
    spec.variant.as_deref() == Some("gvisor")
}

/// The layer's directory as this process sees it: that of a container through one of its processes.
fn seen(up: &Up) -> PathBuf {
    match up.spec.layer.as_str() {
        "container" => process_of(up).join("root").join(below_root(up)),
        _ => up.place.info().dir.clone(),
    }
}

fn below_root(up: &Up) -> &Path {
    up.place.info().dir.strip_prefix("/").unwrap()
}

/// A process of a container, as its directory in `/proc`.
fn process_of(up: &Up) -> PathBuf {
    let packaged = Path::new("root").join(below_root(up)).join("packaged");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut processes = processes.map(|process| process.path());
    processes.find(|at| at.join(&packaged).is_dir()).unwrap()
}

/// The second probe is on this host's files, in the network of the container.
fn in_its_network(up: &mut Up) {
    let addresses = up.place.link().unwrap();
    assert!(addresses.iter().all(std::net::IpAddr::is_loopback));
    let near = up.place.start(End::Near).unwrap();
    let pid = near.control.pid().unwrap().to_string();
    let network = |at: &Path| fs::read_link(at.join("ns/net")).unwrap();
    let near = network(&Path::new("/proc").join(pid));
    assert_eq!(near, network(&process_of(up)));
    assert_ne!(near, network(Path::new("/proc/self")));
}

/// What a probe writes is undone by `refresh`. The disk is this host's, and what cannot be proved is said.
fn written_inside(up: &mut Up, facts: &Facts) {
    let kernel = &facts.guest.as_ref().unwrap().kernel;
    assert_ne!(*kernel, rustix::system::uname().release().to_string_lossy());
    assert!(!facts.devices.is_empty(), "{facts:?}");
    assert!(facts.notes["not_proved"].contains("cold reads"));
    let writes = point(serde_json::json!({
        "workload": "file", "op": "write", "record": "4K", "file_size": "256K", "sync": "each",
    }));
    trial_of(up, &writes);
    up.place.refresh(&[]).unwrap();
    trial(up);
    same_as_packaged(up);
}

/// The packaged files are there, byte by byte.
pub fn same_as_packaged(up: &Up) {
    for name in ["big", "sub/small"] {
        let want = fs::read(up.base.packaged.join(name)).unwrap();
        let have = fs::read(seen(up).join("packaged").join(name)).unwrap();
        assert!(want == have, "{name} differs");
    }
}

/// One MiB through the wire and back: a second one of the same layer, whose probe is an echo. The
/// second's facts.
pub fn wire(up: &Up) -> Facts {
    let base = Base {
        dir: up.base.dir.with_file_name("echo"),
        packaged: up.base.packaged.clone(),
        exe: up.base.exe.with_file_name("conformance-echo"),
        silence: up.base.silence,
        until: None,
        content: Content::Fresh,
    };
    fs::create_dir(&base.dir).unwrap();
    let mut echo = open(find(&up.spec.layer).unwrap(), &up.spec, &base).unwrap();
    let facts = echo.place.facts().unwrap();
    let data: Vec<u8> = (0..1u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut wire = echo.place.start(End::Far).unwrap();
    let (mut stdin, sent) = (wire.stdin, data.clone());
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut back = Vec::new();
    wire.stdout.read_to_end(&mut back).unwrap();
    writer.join().unwrap().unwrap();
    assert!(back == data, "{} bytes came back", back.len());
    let end = wire.control.wait(Duration::from_secs(5));
    assert_eq!(end.as_deref(), Some("exit code 0"));
    drop(wire.control);
    drop(echo.place);
    assert_eq!(echo.undo.run(), 0);
    assert_eq!(
        fs::read_dir(&base.dir).unwrap().count(),
        0,
        "the directory is not empty"
    );
    fs::remove_dir(&base.dir).unwrap();
    facts
}

/// The first point of these settings.
pub fn point(settings: serde_json::Value) -> Point {
    let workload = workloads::find(settings["workload"].as_str().unwrap()).unwrap();
    let settings = serde_json::from_value(settings).unwrap();
    workload.points(&settings, 1.0).unwrap().remove(0)
}

/// What the probe of [`trial`] reads.
fn reads() -> Point {
    point(serde_json::json!({
        "workload": "file", "op": "read", "record": "4K", "file_size": "256K",
    }))
}

/// A real probe reads a packaged file.
pub fn trial(up: &mut Up) {
    trial_of(up, &reads());
}

/// A real probe does this; what it says of the trial.
pub fn trial_of(up: &mut Up, point: &Point) -> String {
    let mut wire = up.place.start(End::Far).unwrap();
    assert_eq!(wire.control.pid().is_some(), up.place.info().on_this_host);
    let mut lines = BufReader::new(wire.stdout).lines();
    let mut hear = |what: &str| {
        let line = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|l| !l.contains("\"progress\""))
            .unwrap();
        assert!(line.contains(&format!("\"type\":\"{what}\"")), "{line}");
        line
    };
    hear("hello");
    let job = serde_json::json!({
        "type": "job", "id": 1, "dir": &up.place.info().dir, "point": point, "seed": SEED,
        "min_ms": 1, "min_ops": 10, "devices": [],
    });
    writeln!(wire.stdin, "{job}").unwrap();
    hear("ready");
    let turn = r#"{"type": "turn", "id": 1, "round": 0, "ns": 0, "lead_in_ns": 0}"#;
    writeln!(wire.stdin, "{turn}").unwrap();
    hear("turned");
    writeln!(wire.stdin, r#"{{"type": "settle", "id": 1}}"#).unwrap();
    hear("settled");
    writeln!(wire.stdin, r#"{{"type": "end", "id": 1}}"#).unwrap();
    let trial = hear("trial");
    drop(wire.stdin);
    let end = wire.control.wait(Duration::from_secs(5));
    assert_eq!(end.as_deref(), Some("exit code 0"));
    trial
}

/// Writing works and is undone by `refresh`, or is refused.
fn writing(up: &mut Up) {
    let dir = seen(up);
    let file = dir.join("packaged/big");
    if up.place.info().read_only {
        assert!(fs::write(dir.join("new"), b"x").is_err());
        return;
    }
    exercise::all(&dir, &up.spec.layer);
    let change = || {
        use std::os::unix::fs::FileExt;
        let open = fs::File::options().write(true).open(&file).unwrap();
        open.write_all_at(&[0xee; 4096], 1 << 20).unwrap();
        drop(open);
        fs::remove_file(dir.join("packaged/sub/small")).unwrap();
    };
    // One name after the other, and all after one.
    for second in [&["big".to_owned()][..], &[]] {
        change();
        up.place.refresh(&["sub".to_owned()]).unwrap();
        up.place.refresh(second).unwrap();
        same_as_packaged(up);
    }
    for _ in 0..2 {
        change();
        fs::write(dir.join("packaged/extra"), b"x").unwrap();
        up.place.refresh(&[]).unwrap();
        same_as_packaged(up);
        assert!(!dir.join("packaged/extra").exists());
    }
    let master = fs::read(up.base.packaged.join("big")).unwrap();
    assert_eq!(master.len() as u64, BIG);
    assert!(
        master[1 << 20..][..4096] != [0xee; 4096],
        "the master copy was written to"
    );
}

/// Two probes, each in the network that the facts name, which is none of this host's.
pub fn linked(up: &mut Up) {
    let [near, far] = up.place.link().unwrap().map(|a| a.to_string());
    let facts = up.place.facts().unwrap();
    if sandbox::privilege() == sandbox::Privilege::None {
        assert_eq!([near, far], ["127.0.0.1", "127.0.0.1"]);
        assert_eq!(facts.notes["network"], "loopback of this host");
        return;
    }
    let note = |name: &str| facts.notes[name].clone();
    assert_eq!([note("near_address"), note("address")], [near, far]);
    for name in ["nic_driver", "nic_mtu", "nic_queues", "nic_offloads"] {
        assert!(!note(name).is_empty() && !note(&format!("near_{name}")).is_empty());
    }
    let (far, near) = (
        up.place.start(End::Far).unwrap(),
        up.place.start(End::Near).unwrap(),
    );
    let network = |wire: &Wire| {
        let pid = wire.control.pid()?;
        Some(fs::read_link(format!("/proc/{pid}/ns/net")).unwrap())
    };
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert!(
        [network(&far), network(&near)]
            .iter()
            .all(|n| n.as_ref() != Some(&ours))
    );
    // A loopback is one network; a cable is between two.
    let one = network(&far) == network(&near);
    assert_eq!(one, note("nic_driver") == "loopback");
    println!("network: {:?}", facts.notes);
    drop((far, near));
}

/// Up with a probe at work, until somebody kills us.
fn hang(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let mut up = open(layer, spec, base).unwrap();
    let two_ends = spec.layer != "mock" && !is_entered(spec);
    if two_ends {
        up.place.link().unwrap();
    }
    let wire = up.place.start(End::Far).unwrap();
    let near = two_ends.then(|| up.place.start(End::Near).unwrap());
    println!("up");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_mins(1));
    drop((wire, near));
}

/// Something is in the way of the layer half-way through its setting up.
fn half_way(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let before = State::of(&base.dir);
    let mut broken = base.clone();
    match spec.layer.as_str() {
        "fuse" if spec.variant.is_none() => broken.exe = "/nonexistent/layermark".into(),
        // Nothing is mounted: it fails when the packaged files are copied.
        "native" | "dir" | "netns" | "exec" | "container" | "ssh" => {
            broken.packaged = "/nonexistent/packaged".into();
        }
        // The others mount at one of these.
        _ => {
            for name in ["mnt", "merged", "mock"] {
                fs::write(base.dir.join(name), b"in the way").unwrap();
            }
        }
    }
    assert_fails(layer, spec, &broken);
    for name in ["mnt", "merged", "mock"] {
        let _ = fs::remove_file(base.dir.join(name));
    }
    before.comes_back(&base.dir).unwrap();
}

/// The disk has too little room for the packaged files.
fn full(layer: &dyn Layer, spec: &Spec, base: &Base) {
    use rustix::mount;
    let flags = mount::MountFlags::empty();
    mount::mount("small", &base.dir, "tmpfs", flags, Some(c"size=1M")).unwrap();
    let e = open(layer, spec, base).map(|_| ()).unwrap_err();
    println!("failed as it should: {e}");
    assert!(e.hint().unwrap().contains("space"), "{e}: {:?}", e.hint());
    assert_eq!(fs::read_dir(&base.dir).unwrap().count(), 0);
    mount::unmount(&base.dir, mount::UnmountFlags::empty()).unwrap();
}

/// The file system has no idmapped mounts: it is named, with others that have.
fn no_idmaps(layer: &dyn Layer, spec: &Spec, base: &Base) {
    use rustix::mount;
    let flags = mount::MountFlags::empty();
    mount::mount("none", &base.dir, "ramfs", flags, None).unwrap();
    let e = open(layer, spec, base).map(|_| ()).unwrap_err();
    println!("failed as it should: {e}");
    assert!(
        e.to_string().contains("needs idmapped mounts of ramfs"),
        "{e}"
    );
    assert!(e.hint().unwrap().contains("ext4"), "{:?}", e.hint());
    mount::unmount(&base.dir, mount::UnmountFlags::empty()).unwrap();
}

/// User namespaces are forbidden, to root too: the switch is named, with the command that sets it.
fn no_user_namespaces(layer: &dyn Layer, spec: &Spec, base: &Base) {
    use rustix::mount;
    const SWITCH: &str = "/proc/sys/user/max_user_namespaces";
    let zero = base.dir.join("zero");
    fs::write(&zero, "0\n").unwrap();
    mount::mount_bind(&zero, SWITCH).unwrap();
    let missing = layer.missing(spec);
    mount::unmount(SWITCH, mount::UnmountFlags::empty()).unwrap();
    fs::remove_file(&zero).unwrap();
    let [missing] = &missing[..] else {
        panic!("{missing:?}")
    };
    assert_eq!(
        missing.what,
        "idmapped mounts (user.max_user_namespaces is 0)"
    );
    assert_eq!(
        missing.hint,
        "sudo sysctl -w user.max_user_namespaces=15000"
    );
}

fn assert_fails(layer: &dyn Layer, spec: &Spec, base: &Base) {
    let e = open(layer, spec, base).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains(&spec.layer), "{e}");
    println!("failed as it should: {e}");
}
