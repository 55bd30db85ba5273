//! Containers that layermark starts.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    common::{Lm, READ, Said, is_root, machine, needs_root, result, skipped, wait_for},
    places::{WRITE, at_work, has, kill},
};

/// Facts of a layer that is ready.
fn facts<'a>(said: &Said, report: &'a Value, name: &str) -> &'a Value {
    let all = report["layers"].as_array();
    let all = all.unwrap_or_else(|| panic!("{report:#}{}", said.stderr));
    let layer = all.iter().find(|l| l["name"] == *name).expect("a layer");
    assert_eq!(layer["status"], "ready", "{name}: {}", said.stderr);
    &layer["facts"]
}

/// podman mounts the root of a container with `--rm` so that fsync does nothing: flushes are counted from
/// here. Without it, and in a volume, they reach the disk.
#[test]
fn a_container_started_with_rm_skips_fsync_and_others_do_not() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let [fast, root, volume] = [
        "container:podman,rm=on",
        "container:podman",
        "container:podman,at=volume",
    ];
    let said = Lm::new()
        .work_with(WRITE, &["native", fast, root, volume])
        .args(["--blocks", "9", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let verdict = |layer| &result(&report, label, layer)["durability"]["verdict"];
    let facts = |name| facts(&said, &report, name);
    for layer in [fast, root] {
        let mount = &facts(layer)["mounts"][0];
        assert_eq!(mount["fs"], "overlay", "{mount:#}");
        let volatile = mount["options"].to_string().contains("volatile");
        assert_eq!(volatile, layer == fast, "{mount:#}");
        assert_eq!(facts(layer)["notes"]["storage_driver"], "overlay");
    }
    // A conviction needs silence around it: on a busy machine the flushes of others count too.
    assert_ne!(verdict(fast), "honoured", "{report:#}");
    for layer in [root, volume] {
        assert_ne!(verdict(layer), "absorbed", "{report:#}");
    }
    if verdict(fast) == "cannot tell" {
        skipped("whether --rm skips fsync: others flush this disk, or it does not count flushes");
    }
}

/// gVisor's kernel is not this one, and keeps files in its own memory: that is said. Flushes are counted from here.
#[test]
fn what_cannot_be_seen_of_gvisor_is_not_proved() {
    if !needs_root() || !has("runsc") {
        return;
    }
    // Without the flag a newer runsc keeps changes in an overlay of its own.
    let root = "container:gvisor,overlay=none";
    let volume = "container:gvisor,at=volume";
    let memory = "container:gvisor,overlay=memory";
    let said = Lm::new()
        .work_with(WRITE, &["native", root, volume, memory])
        .args(["--blocks", "2", "--json"])
        .run()
        .left_nothing();
    let report = said.json();
    let label = report["results"][0]["label"].as_str().expect("a label");
    let native = facts(&said, &report, "native");
    for layer in [root, volume] {
        let facts = facts(&said, &report, layer);
        assert_ne!(facts["versions"]["kernel"], native["versions"]["kernel"]);
        assert_eq!(
            facts["devices"][0]["number"],
            native["devices"][0]["number"]
        );
        let hidden = facts["notes"]["not_proved"].as_str().expect("a note");
        assert!(hidden.contains("cold reads"), "{hidden}");
        let row = result(&report, label, layer);
        assert!(row["trials"].as_u64() > Some(0), "{row:#}");
        assert_ne!(row["durability"]["verdict"], "absorbed", "{row:#}");
    }
    // What its overlay keeps reaches no disk: that is memory, and not a flush that is skipped.
    assert_eq!(facts(&said, &report, memory)["mounts"][0]["fs"], "overlay");
    let row = result(&report, label, memory);
    assert!(row["trials"].as_u64() > Some(0), "{row:#}");
    let because = row["durability"]["because"].as_str();
    assert!(
        because.is_some_and(|why| why.contains("the data lies in memory")),
        "{row:#}"
    );
}

/// Where no daemon answers, the layer is missing, with what the client says and a command.
#[test]
fn docker_without_a_daemon_is_missing() {
    if !needs_root() || !has("docker") {
        return;
    }
    Lm::new()
        .env("DOCKER_HOST", "unix:///nonexistent.sock")
        .work_with(READ, &["native", "container:docker"])
        .args(["--blocks", "2"])
        .run()
        .fails(
            3,
            &[
                "a Docker daemon that answers",
                "unix:///nonexistent.sock",
                "sudo systemctl start docker",
            ],
        )
        .left_nothing();
}

/// A Docker daemon of its own, in namespaces that end with it.
struct Daemon {
    dir: tempfile::TempDir,
    process: std::process::Child,
}

impl Daemon {
    fn start() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let log = fs::File::create(at("log")).expect("a log");
        let process = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--propagation", "slave", "dockerd", "--bridge=none"])
            .args(["--iptables=false", "--ip-forward=false"])
            .arg("--default-ulimit=nofile=1024:4096")
            .arg(format!("--cgroup-parent={}", Self::group(&dir)))
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .arg(format!("--host=unix://{}", at("sock").display()))
            .stderr(log)
            .spawn()
            .expect("dockerd");
        let daemon = Self { dir, process };
        wait_for("an answer of dockerd", || {
            let answers = daemon.docker(&["version"]).status.success();
            answers.then_some(())
        });
        daemon
    }

    fn group(dir: &tempfile::TempDir) -> String {
        let name = dir.path().file_name().expect("a name").to_string_lossy();
        format!("/layermark-test-{}", name.trim_start_matches('.'))
    }

    fn host(&self) -> String {
        format!("unix://{}", self.dir.path().join("sock").display())
    }

    fn docker(&self, words: &[&str]) -> std::process::Output {
        let mut docker = Command::new("docker");
        let docker = docker.args(words).env("DOCKER_HOST", self.host());
        docker.output().expect("docker")
    }

    /// Containers, images and volumes.
    fn holds(&self) -> String {
        let lists = [
            &["ps", "-aq"][..],
            &["images", "-q"],
            &["volume", "ls", "-q"],
        ];
        let said = lists.map(|words| self.docker(words).stdout);
        String::from_utf8_lossy(&said.concat()).into_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The kernel ends what is in its PID namespace.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let group = Self::group(&self.dir);
        for controller in fs::read_dir("/sys/fs/cgroup")
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = fs::remove_dir(controller.path().join(&group[1..]));
        }
        let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(&group[1..]));
    }
}

/// A container's root, a volume and a named volume, in one run; nothing stays in the daemon.
#[test]
fn docker_is_measured_and_keeps_nothing() {
    if !needs_root() || !has("docker") || !has("dockerd") {
        return;
    }
    let daemon = Daemon::start();
    let layers = [
        "native",
        "container:docker",
        "container:docker,at=volume",
        "container:docker,at=named,rm=on",
    ];
    let files = Lm::new();
    let host = format!("--host={}", daemon.host());
    let image = Image::import(&files, &["docker", &host]);
    let before = daemon.holds();
    let [theirs, over] = [
        format!("container:docker,image={}", image.name),
        format!("container:docker,rootfs={}", root_of(&files).display()),
    ];
    let said = Lm::new()
        .env("DOCKER_HOST", daemon.host())
        .work_with(WRITE, &[&layers[..], &[&theirs, &over]].concat())
        .args(["--blocks", "2", "--json"])
        .run()
        .left_nothing();
    let report = said.json();
    let facts = |name| facts(&said, &report, name);
    let root = facts(layers[1]);
    assert_eq!(root["mounts"][0]["fs"], "overlay", "{root:#}");
    assert_eq!(root["notes"]["storage_driver"], "overlay2", "{root:#}");
    assert!(root["versions"]["docker"].is_string(), "{root:#}");
    for volume in &layers[2..] {
        let facts = facts(volume);
        assert_eq!(facts["mounts"][0]["at"], "/data", "{facts:#}");
        assert_ne!(facts["mounts"][0]["fs"], "overlay", "{facts:#}");
    }
    let [image_note, over_note] = [(&theirs, "image"), (&over, "rootfs")].map(|(layer, note)| {
        assert_eq!(facts(layer)["mounts"][0]["fs"], "overlay");
        facts(layer)["notes"][note].as_str().expect("a note")
    });
    assert_eq!(image_note, format!("{} ({})", image.name, image.id()));
    assert_eq!(over_note, root_of(&files).display().to_string());
    assert_eq!(daemon.holds(), before);
    Lm::new()
        .env("DOCKER_HOST", daemon.host())
        .work_with(READ, &["native", "container:docker,image=nonesuch:1"])
        .run()
        .fails(
            3,
            &["the image nonesuch:1", "hint: sudo docker pull nonesuch:1"],
        );
    for layer in [&theirs, &over] {
        let lm = Lm::new().env("DOCKER_HOST", daemon.host());
        let (mut child, home, seen) = at_work(lm, layer);
        assert_ne!(daemon.holds(), before, "{layer} is not up");
        kill(child.id());
        child.wait().expect("a child");
        wait_for("the removal", || (daemon.holds() == before).then_some(()));
        let all: Vec<_> = seen.iter().map(|p| (p.pid, p.start)).collect();
        machine::nothing_left(home.path(), &all);
    }
    drop(image);
    assert_eq!(daemon.holds(), "");
}

/// What only one runtime has is refused with the others.
#[test]
fn an_option_of_another_runtime_is_refused() {
    for layer in ["container:crun,rm=on", "container:bubblewrap,at=named"] {
        Lm::new()
            .work_with(READ, &["native", layer])
            .run()
            .fails(2, &["is an option of podman"]);
    }
}

/// Files for a container's root, with links and names that could be in the way of the layer's own.
fn files_in(lm: &Lm) -> PathBuf {
    let root = root_of(lm);
    fs::create_dir_all(root.join("etc")).expect("a directory");
    fs::write(root.join("etc/greeting"), "hello").expect("a file");
    fs::write(root.join("work"), "in the way").expect("a file");
    symlink("etc/greeting", root.join("layermark")).expect("a link");
    symlink("/nonexistent", root.join("tmp")).expect("a link");
    root
}

fn root_of(lm: &Lm) -> PathBuf {
    lm.dir.path().join("their root")
}

/// The runtimes that are installed, each with its container over these files.
fn over(root: &Path) -> Vec<String> {
    let runtimes = [
        ("podman", "podman"),
        ("crun", "crun"),
        ("runc", "runc"),
        ("nspawn", "systemd-nspawn"),
        ("bubblewrap", "bwrap"),
    ];
    let here = runtimes.into_iter().filter(|(_, program)| has(program));
    here.map(|(name, _)| format!("container:{name},rootfs={}", root.display()))
        .collect()
}

/// The directory is measured through an overlay on the disk of `--dir`, and is as it was.
#[test]
fn a_directory_is_the_root_of_a_container_and_is_not_written_to() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let root = files_in(&lm);
    // In the way of a volume.
    symlink("/nonexistent", root.join("data")).expect("a link");
    let before = machine::inventory(&root);
    let containers = over(&root);
    let volumes = [
        ("crun", "crun,at=volume"),
        ("podman", "podman,at=named"),
        ("bwrap", "bubblewrap,at=volume"),
    ];
    let volumes: Vec<String> = volumes
        .iter()
        .filter(|(program, _)| has(program))
        .map(|(_, its)| format!("container:{its},rootfs={}", root.display()))
        .collect();
    let mut layers = vec!["native"];
    layers.extend(containers.iter().chain(&volumes).map(String::as_str));
    let said = lm
        .work_with(WRITE, &layers)
        .args(["--blocks", "2", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let disk = &facts(&said, &report, "native")["devices"][0]["number"];
    for layer in &layers[1..] {
        let facts = facts(&said, &report, layer);
        let in_root = !volumes.iter().any(|volume| volume == layer);
        assert_eq!(facts["mounts"][0]["fs"] == "overlay", in_root, "{facts:#}");
        assert_eq!(facts["notes"]["rootfs"], *root.display().to_string());
        assert_eq!(facts["devices"][0]["number"], *disk, "{layer}: {facts:#}");
    }
    assert_eq!(machine::inventory(&root), before);
}

/// The files of a container at work, whose agent's command line is in its own processes. Changes one, and then
/// kills layermark: nothing is left.
fn seen_changed_and_killed(lm: Lm, layer: &str) {
    let (mut child, home, seen) = at_work(lm, layer);
    let is_agent = |p: &&machine::Proc| p.command.get(1).is_some_and(|word| word == "place");
    let agent = seen.iter().find(is_agent).expect("the agent").pid;
    let file = PathBuf::from(format!("/proc/{agent}/root/etc/greeting"));
    assert_eq!(fs::read_to_string(&file).expect("their file"), "hello");
    fs::write(&file, "changed").expect("it can be changed");
    kill(child.id());
    child.wait().expect("a child");
    let all: Vec<_> = seen.iter().map(|p| (p.pid, p.start)).collect();
    machine::nothing_left(home.path(), &all);
}

/// What the container changes stays in the container.
#[test]
fn a_killed_container_leaves_its_directory_as_it_was() {
    if !needs_root() {
        return;
    }
    let files = Lm::new();
    let root = files_in(&files);
    let before = machine::inventory(&root);
    for layer in over(&root) {
        seen_changed_and_killed(Lm::new(), &layer);
        assert_eq!(machine::inventory(&root), before, "{layer}");
    }
}

/// An image of the test's own, and how it says that it wants to be run. It is removed at the end.
struct Image {
    name: String,
    engine: Vec<String>,
}

impl Image {
    fn import(lm: &Lm, engine: &[&str]) -> Self {
        let (root, tar) = (files_in(lm), lm.dir.path().join("their.tar"));
        let made = Command::new("tar")
            .arg("-cf")
            .arg(&tar)
            .arg("-C")
            .arg(&root)
            .arg(".")
            .status();
        assert!(made.expect("tar").success());
        let unique = lm
            .dir
            .path()
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .to_lowercase();
        let image = Self {
            name: format!("layermark-test:{}", unique.trim_matches('.')),
            engine: engine.iter().map(ToString::to_string).collect(),
        };
        let tar = tar.to_str().expect("a name");
        image.said(&[
            "import",
            "--change=ENTRYPOINT [\"/nonexistent\"]",
            "--change=USER 65534",
            "--change=VOLUME /etc",
            "--change=WORKDIR /nonexistent",
            tar,
            &image.name,
        ]);
        image
    }

    fn said(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.engine[0]);
        let output = command
            .args(&self.engine[1..])
            .args(words)
            .output()
            .expect("an engine");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}{errors}");
        said
    }

    /// Id of the image, shortened.
    fn id(&self) -> String {
        let id = self.said(&["image", "inspect", "--format={{.Id}}", &self.name]);
        id.trim().trim_start_matches("sha256:")[..12].to_owned()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let mut command = Command::new(&self.engine[0]);
        let removed = command
            .args(&self.engine[1..])
            .args(["rmi", &self.name])
            .output();
        if !std::thread::panicking() {
            assert!(
                removed.expect("an engine").status.success(),
                "{} is in use",
                self.name
            );
        }
    }
}

/// Files of podman's store in which an image is.
fn stored(image: &Image) -> BTreeMap<PathBuf, (u64, i64, i64, u32, u64)> {
    let store = image.said(&["info", "--format={{.Store.GraphRoot}}/overlay-images"]);
    machine::inventory(Path::new(store.trim()))
}

/// An image in the user's store: its own driver, and neither a pull nor a change there.
#[test]
fn an_image_of_podmans_is_the_root_of_a_container() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let (files, lm) = (Lm::new(), Lm::new());
    let image = Image::import(&files, &["podman"]);
    let before = (stored(&image), image.said(&["ps", "-aq"]));
    let layer = format!("container:podman,image={}", image.name);
    let volume = format!("container:podman,at=volume,image={}", image.name);
    let said = lm
        .work_with(WRITE, &["native", &layer, &volume])
        .args(["--blocks", "2", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let disk = &facts(&said, &report, "native")["devices"][0]["number"];
    for layer in [&layer, &volume] {
        let facts = facts(&said, &report, layer);
        let name = format!("{} ({})", image.name, image.id());
        assert_eq!(facts["notes"]["image"], *name, "{facts:#}");
        assert_eq!(facts["devices"][0]["number"], *disk, "{facts:#}");
    }
    let root = facts(&said, &report, &layer);
    let driver = image.said(&["info", "--format={{.Store.GraphDriverName}}"]);
    assert_eq!(root["notes"]["storage_driver"], *driver.trim());
    assert_eq!(
        root["mounts"][0]["fs"] == "overlay",
        driver.trim() == "overlay"
    );
    seen_changed_and_killed(Lm::new(), &layer);
    assert_eq!((stored(&image), image.said(&["ps", "-aq"])), before);
}

/// A store whose driver copies files and mounts no overlay, as podman has it where it is in a container itself.
#[test]
fn an_image_in_a_store_of_copies_is_the_root_of_a_container() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let files = Lm::new();
    // podman takes no longer path for what it keeps while it runs.
    let run = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let (home, run) = (files.dir.path().display(), run.path().display());
    let (root, runroot) = (format!("--root={home}/store"), format!("--runroot={run}"));
    let image = Image::import(&files, &["podman", "--storage-driver=vfs", &root, &runroot]);
    let images = files.dir.path().join("store/vfs-images");
    let before = machine::inventory(&images);
    let conf =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{home}/store\"\nrunroot = \"{run}\"\n");
    fs::write(files.dir.path().join("storage.conf"), conf).expect("a file");
    let configure = format!(
        "mkdir {home}/etc; [ ! -d /etc/containers ] || cp -a /etc/containers/. {home}/etc; \
         cp {home}/storage.conf {home}/etc; mkdir -p /etc/containers; mount --bind {home}/etc /etc/containers"
    );
    let layer = format!("container:podman,image={}", image.name);
    let lm = Lm::new().work_with(WRITE, &["native", &layer]);
    let Some(lm) = lm.args(["--blocks", "2", "--json"]).around(&configure, "") else {
        return;
    };
    let said = lm.run().code(0).left_nothing();
    let report = said.json();
    let facts = |name| facts(&said, &report, name);
    let its = facts(&layer);
    assert_eq!(its["notes"]["storage_driver"], "vfs", "{its:#}");
    assert_ne!(its["mounts"][0]["fs"], "overlay", "{its:#}");
    let name = format!("{} ({})", image.name, image.id());
    assert_eq!(its["notes"]["image"], *name, "{its:#}");
    let disk = &facts("native")["devices"][0]["number"];
    assert_eq!(its["devices"][0]["number"], *disk, "{its:#}");
    assert_eq!(machine::inventory(&images), before);
}

/// Without root, podman runs in the user namespace of the run.
#[test]
fn a_user_without_root_has_containers() {
    if is_root() {
        return skipped("root needs no user namespace; scripts/test-unprivileged.sh runs it");
    }
    if !["podman", "crun", "bwrap"].into_iter().all(has) {
        return;
    }
    let layers = [
        "container:podman",
        "container:podman,at=volume",
        "container:crun",
        "container:bubblewrap,at=volume",
    ];
    let said = Lm::new()
        .work_with(WRITE, &[&["native"], &layers[..]].concat())
        .args(["--blocks", "2", "--json"])
        .run();
    if said.code == Some(3) && said.stderr.contains("user namespaces are forbidden") {
        return skipped(&said.stderr);
    }
    let said = said.left_nothing();
    let report = said.json();
    let disk = &facts(&said, &report, "native")["devices"][0]["number"];
    for layer in layers {
        let facts = facts(&said, &report, layer);
        let namespace = &facts["notes"]["user_namespace"];
        assert_eq!(namespace, "that of the run", "{facts:#}");
        assert_eq!(facts["devices"][0]["number"], *disk, "{facts:#}");
    }
    let root = facts(&said, &report, "container:podman");
    assert_eq!(root["mounts"][0]["fs"], "overlay", "{root:#}");
    // The others are for root, with the command.
    for layer in ["container:nspawn", "container:podman,image=x"] {
        let said = Lm::new().work_with(READ, &["native", layer]).run();
        said.fails(3, &["needs root", "hint: sudo layermark"]);
    }
}

/// A host that has version 2 of control groups only.
#[test]
fn containers_start_where_only_version_2_of_control_groups_is_mounted() {
    if !needs_root() || !has("podman") || !has("crun") || !has("bwrap") {
        return;
    }
    let layers = [
        "native",
        "container:podman",
        "container:crun",
        "container:bubblewrap",
    ];
    let only = "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup";
    let lm = Lm::new()
        .work_with(READ, &layers)
        .args(["--blocks", "2", "--json"]);
    let Some(lm) = lm.around(only, "") else {
        return;
    };
    let said = lm.run().code(0).left_nothing();
    let report = said.json();
    for layer in layers {
        facts(&said, &report, layer);
    }
}

/// The image is not pulled, and the message has the command that does it.
#[test]
fn an_image_that_podman_does_not_have_is_missing() {
    if !needs_root() || !has("podman") || !has("crun") {
        return;
    }
    let says = [
        "needs the image localhost/nonesuch:1 in the store of root's podman",
        "not known",
        "hint: sudo podman pull localhost/nonesuch:1",
    ];
    Lm::new()
        .work_with(
            READ,
            &["native", "container:podman,image=localhost/nonesuch:1"],
        )
        .args(["--blocks", "2"])
        .run()
        .fails(3, &says)
        .left_nothing();
}

/// The overlay's upper directory cannot be below its lower one.
#[test]
fn a_root_that_holds_the_work_directory_is_refused() {
    if !needs_root() || !has("crun") {
        return;
    }
    let lm = Lm::new();
    let layer = format!("container:crun,rootfs={}", lm.work().display());
    lm.work_with(READ, &["native", &layer])
        .args(["--blocks", "2"])
        .run()
        .fails(
            3,
            &[
                "holds the directory of --dir",
                "another directory with --dir",
            ],
        )
        .left_nothing();
}

/// Bad values end the run before it begins.
#[test]
fn a_root_that_cannot_be_one_is_refused() {
    for (layer, says) in [
        (
            "container:crun,rootfs=/nonexistent",
            "is not the absolute path of a directory",
        ),
        (
            "container:podman,rootfs=/etc/passwd",
            "is not the absolute path of a directory",
        ),
        (
            "container:docker,rootfs=etc",
            "is not the absolute path of a directory",
        ),
        ("container:podman,image=", "is not the name of an image"),
        (
            "container:docker,image=--privileged",
            "is not the name of an image",
        ),
        ("container:podman,image=a,rootfs=/etc", "choose one"),
        ("container:nspawn,image=a", "is an option of podman"),
        ("container:crun,overlay=none", "is an option of gVisor"),
        (
            "container:gvisor,at=volume,overlay=none",
            "is about the container's root",
        ),
    ] {
        Lm::new()
            .work_with(READ, &["native", layer])
            .run()
            .fails(2, &[says, "layermark layers container"]);
    }
}
