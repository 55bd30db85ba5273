//! Docker: the machine's client talks to the user's daemon. What is made there has one name, which says which
//! layermark has made it: so the next one finds what a dead one has left.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process,
    time::Duration,
};

use layermark_model::{CONTAINER, Missing, Spec, random_name};
use layermark_sys::process::Stat;

use super::{
    At, ContainerOptions, MOUNTED_DIR, Runtime, agent_in, no_image, root, words, work_dir,
};
use crate::{
    About, Base, LayerError, Place, Undo, child,
    entered::{self, Own, Start, Way, users_command},
    known_paths, needs,
    teardown::Teardown,
};

pub(super) const DOCKER: Runtime = Runtime {
    name: "docker",
    program: ("docker", "docker.io"),
    about: About::of(
        "a container of the user's Docker daemon",
        ": its root is an overlay in most cases",
    ),
    command: None,
    kernel: None,
    rootless: false,
};

/// Label of all that layermark makes there.
const LABEL: &str = "layermark";
/// How long the daemon may take to say its version.
const ANSWER: Duration = Duration::from_secs(10);

/// Runs a command of the client to its end.
fn docker(layer: &str, words: &[OsString]) -> Result<Vec<String>, LayerError> {
    child::lines(layer, &mut client(words))
}

fn client(words: &[OsString]) -> process::Command {
    users_command(&[&["docker".into()], words].concat())
}

/// The program, the daemon, or the user's image, if it is missing.
pub(super) fn missing(options: &ContainerOptions) -> Vec<Missing> {
    let (program, package) = DOCKER.program;
    if !entered::is_found(Path::new(program)) {
        return needs::program(program, package).into_iter().collect();
    }
    let asked = words(["version", "--format", "{{.Server.Version}}"]);
    let why = match child::lines_within(program, &mut client(&asked), ANSWER) {
        Ok(lines) if !lines.iter().any(|line| line.contains("podman")) => {
            let image = options.image.as_ref();
            let found = image.map(|name| id_of(DOCKER.program.0, name));
            let why = found.and_then(Result::err);
            return why
                .and_then(|e| no_image(options, &e))
                .into_iter()
                .collect();
        }
        Ok(_) => "the program `docker` is podman".to_owned(),
        Err(LayerError::Program { tail, .. }) => tail
            .last()
            .map_or("it does not say why".into(), |line| line.trim().to_owned()),
        Err(e) => e.reason(),
    };
    vec![Missing {
        what: format!("a Docker daemon that answers ({why})"),
        hint: "sudo systemctl start docker, or name a daemon that runs: DOCKER_HOST=unix:///PATH/docker.sock"
            .into(),
        installable: false,
    }]
}

/// Name of all that one layer makes: machine, boot, process, its start, and a random number.
fn new_name() -> String {
    let pid = process::id();
    let start = Stat::of(pid).map_or(0, |stat| stat.start);
    random_name(&format!("{LABEL}-{}-{pid}-{start}-", machine()))
}

/// This machine as processes of one namespace see it, and its boot.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id");
    let id = read("/etc/machine-id");
    // Without an id, a machine is only known until it starts again.
    let id = if id.trim().is_empty() { &boot } else { &id };
    let machine = format!("{id}{}", namespace.display());
    let short = |text: &str| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()));
    format!("{}-{}", short(&machine), short(&boot))
}

/// Whether the layermark of this machine that has made something of this name has ended.
fn is_stale(name: &str, machine: &str) -> bool {
    let Some([_, host, boot, pid, start, _]) = parts(name) else {
        return false;
    };
    let Some((this, now)) = machine.split_once('-') else {
        return false;
    };
    let lives = |pid: u32| Stat::of(pid).is_some_and(|stat| stat.start.to_string() == start);
    host == this && (boot != now || pid.parse().is_ok_and(|pid| !lives(pid)))
}

fn parts(name: &str) -> Option<[&str; 6]> {
    let parts: Vec<&str> = name.split('-').collect();
    parts.try_into().ok().filter(|p: &[&str; 6]| p[0] == LABEL)
}

/// Removes all of this name. What is not there is not an error.
fn removal(name: &str) -> [Vec<OsString>; 3] {
    let image = image(name);
    [
        &["docker", "rm", "--force", "--volumes", name][..],
        &["docker", "volume", "rm", "--force", name],
        &["docker", "image", "rm", "--force", &image],
    ]
    .map(|words| words.iter().map(OsString::from).collect())
}

/// Id of an image that the daemon has.
fn id_of(layer: &str, image: &str) -> Result<String, LayerError> {
    let lines = docker(
        layer,
        &words(["image", "inspect", "--format={{.Id}}", image]),
    )?;
    let id = lines
        .first()
        .map_or("", |line| line.trim_start_matches("sha256:"));
    Ok(id.into())
}

fn image(name: &str) -> String {
    format!("{LABEL}:{name}")
}

/// Removes what dead runs of this machine have left.
fn reap(layer: &str) -> Result<(), LayerError> {
    let machine = machine();
    let mut left = std::collections::BTreeSet::new();
    for list in [
        ["ps --all", "{{.Names}}"],
        ["volume ls", "{{.Name}}"],
        ["images", "{{.Tag}}"],
    ] {
        let mut asked: Vec<OsString> = list[0].split(' ').map(OsString::from).collect();
        asked.extend(words(["--filter", "label=layermark", "--format", list[1]]));
        let names = docker(layer, &asked)?;
        left.extend(names.into_iter().filter(|name| is_stale(name, &machine)));
    }
    for name in left {
        for command in removal(&name) {
            // The dead run's own clean-up may be removing it, too.
            let _ = child::lines(layer, &mut users_command(&command));
        }
    }
    Ok(())
}

/// Starts a container in the user's daemon.
pub(super) fn open(
    base: &Base,
    spec: &Spec,
    options: &ContainerOptions,
    undo: &mut Undo,
) -> Result<Box<dyn Place>, LayerError> {
    let layer = spec.to_string();
    let io = |what: &str| LayerError::io(&layer, what, &base.dir);
    base.emptied(undo);
    reap(&layer)?;
    let (name, token) = (new_name(), random_name(""));
    let teardown = Teardown::start(&base.exe, &removal(&name));
    let teardown = teardown.map_err(io("prepare to remove a container of"))?;
    undo.push(format!("remove the container {name}"), move || {
        teardown.run()
    });
    let image = match &options.image {
        Some(image) => id_of(&layer, image)?,
        None => import(base, &layer, options, &name)?,
    };
    let volume = base.dir.join("volume");
    fs::create_dir(&volume).map_err(io("make a volume in"))?;
    create(base, &layer, options, &name, (&image, &token))?;
    let asked = words(["info", "--format", "{{.ServerVersion}}\n{{.Driver}}"]);
    let about = docker(&layer, &asked)?;
    let about = |line: usize| about.get(line).cloned().unwrap_or_default();
    let way = Way {
        command: words(["docker", "start", "--attach", "--interactive", &name]),
        by_hand: Vec::new(),
        start: Start::Own(Own {
            token,
            view: None,
            on_device_of: None,
            volume: (options.at == At::Volume).then(|| base.dir.join("volume")),
            outside: None,
        }),
        drop_caches: Vec::new(),
        dir: work_dir(options.at),
        notes: [
            (CONTAINER.into(), "docker".into()),
            ("storage_driver".into(), about(1)),
        ]
        .into_iter()
        .chain(root::note(options, &image))
        .collect(),
        versions: vec![("docker".into(), about(0))],
    };
    let place = entered::enter(base, spec, way)?;
    // Another user may have exchanged the directory, and the daemon may be on another machine.
    let its = place.info().dir.file_name().unwrap_or_default();
    if options.at == At::Volume && !volume.join(its).is_dir() {
        return Err(LayerError::Entered {
            layer,
            what: format!(
                "the daemon has not mounted {}",
                known_paths::named(&volume).display()
            ),
            tail: Vec::new(),
            hint: Some(
                "choose another directory with --dir, or a volume of Docker's: at=named".into(),
            ),
        });
    }
    place.package()?;
    Ok(Box::new(place))
}

/// Makes an image of the user's directory, or of empty ones. Returns its name.
fn import(
    base: &Base,
    layer: &str,
    options: &ContainerOptions,
    name: &str,
) -> Result<String, LayerError> {
    let [tar, empty] = ["image.tar", "root"].map(|name| base.dir.join(name));
    let io = |what: &str| LayerError::io(layer, what, &empty);
    root::make_dirs(&empty).map_err(io("make"))?;
    let root = options.rootfs.as_ref().map_or(&*empty, Path::new);
    let mut make = needs::tool(layer, "tar", "tar")?;
    make.args(["--one-file-system", "-cf"]).arg(&tar);
    child::run(layer, make.arg("-C").arg(root).arg("."))?;
    let mut asked = words(["import", "--change", "LABEL layermark=run"]);
    asked.extend([tar.clone().into(), image(name).into()]);
    docker(layer, &asked)?;
    // Before it is written to the disk.
    fs::remove_file(&tar).map_err(io("remove the tar of"))?;
    Ok(image(name))
}

/// Creates the container, and copies this binary into it.
fn create(
    base: &Base,
    layer: &str,
    options: &ContainerOptions,
    name: &str,
    (image, token): (&str, &str),
) -> Result<(), LayerError> {
    let agent = agent_in(token);
    // Its output is not logged: this is the probe's. An image may say how it is to be run: we do not want that.
    let mut asked = words([
        "create",
        "--interactive",
        "--pull=never",
        "--network=none",
        "--log-driver=none",
        "--label=layermark=run",
        "--user=0:0",
        "--workdir=/",
        "--entrypoint=",
        "--no-healthcheck",
        "--name",
        name,
    ]);
    match options.at {
        At::Root => {}
        At::Volume => {
            let mount = mount(&known_paths::named(&base.dir.join("volume")));
            asked.extend(["--mount".into(), mount]);
        }
        At::Named => asked.extend(words([
            "--mount",
            &format!("type=volume,source={name},target={MOUNTED_DIR},volume-label=layermark=run"),
        ])),
        At::Tmpfs => asked.extend(words(["--tmpfs", MOUNTED_DIR])),
    }
    if options.rm {
        asked.push("--rm".into());
    }
    asked.push(image.into());
    asked.extend(agent.iter().map(OsString::from));
    docker(layer, &asked)?;
    let to = format!("{name}:{}", agent[0]).into();
    docker(layer, &["cp".into(), base.exe.clone().into(), to]).map(drop)
}

/// A bind mount. The client reads the fields as a line of CSV.
fn mount(source: &Path) -> OsString {
    let mut text = OsString::from("type=bind,\"source=");
    for (n, part) in source.as_os_str().to_string_lossy().split('"').enumerate() {
        if n > 0 {
            text.push("\"\"");
        }
        text.push(OsStr::new(part));
    }
    text.push(format!("\",target={MOUNTED_DIR}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_of_this_machine_has_left_is_stale() {
        let (own, here) = (new_name(), machine());
        let (host, boot) = here.split_once('-').unwrap();
        assert!(!is_stale(&own, &here), "{own}");
        for (name, stale) in [
            (format!("layermark-{here}-{}-1-0", process::id()), true),
            (format!("layermark-{here}-4194305-7-0"), true),
            (format!("layermark-{host}-0000-1-1-0"), true),
            (format!("layermark-other-{boot}-4194305-7-0"), false),
            (format!("other-{here}-4194305-7-0"), false),
            ("layermark".into(), false),
            ("layermark-db".into(), false),
        ] {
            assert_eq!(is_stale(&name, &here), stale, "{name}");
        }
    }

    #[test]
    fn a_path_cannot_add_a_field_to_a_mount() {
        let text = mount(Path::new("/a, b\"c,readonly"));
        assert_eq!(
            text,
            "type=bind,\"source=/a, b\"\"c,readonly\",target=/data"
        );
    }
}
