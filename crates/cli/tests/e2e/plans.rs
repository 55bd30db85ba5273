//! Every plan in `plans/` runs, small; and what `layermark layers` says of this machine.

use std::{collections::BTreeSet, fs};

use layermark_model::Plan;
use serde_json::Value;

use crate::common::{Lm, MOCK, is_root, root, skipped};

/// A test for each plan, named after it.
mod every_plan_runs_small {
    macro_rules! plans {
        ($($plan:ident)*) => {
            $(#[test]
            fn $plan() {
                super::runs_small(&stringify!($plan).replace('_', "-"));
            })*

            #[test]
            fn each_plan_has_a_test() {
                let tested = [$(stringify!($plan)),*].map(|plan| plan.replace('_', "-"));
                assert_eq!(super::plans(), tested.into());
            }
        };
    }

    plans! {
        buffer_size card container_mounts daily fileio_appvirt flush_cost fuse_fast17 gvisor_rootfs iops iozone_vm
        launch_share overlay_copy_up share share_storm sqlite_blobs virtiofs_9p virtual_io_stack wsl_mnt
    }
}

/// The names of all plans.
fn plans() -> BTreeSet<String> {
    let files = fs::read_dir(root().join("plans"))
        .expect("plans/")
        .flatten();
    let names = files.map(|e| e.file_name().to_string_lossy().into_owned());
    let plans = names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()));
    plans.collect()
}

fn runs_small(plan: &str) {
    let plan = root().join(format!("plans/{plan}.toml"));
    let lm = Lm::new();
    let work = lm.work();
    let small = [
        "--scale",
        "0.05",
        "--blocks",
        "1",
        "-l",
        "tmpfs",
        "--no-control",
        "--json",
        "--dir",
    ];
    let said = lm
        .args(["run"])
        .args([&plan])
        .args(small)
        .args([work])
        .run()
        .left_nothing();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    assert!(!rows.is_empty() && report["status"] == "done");
    // Each claim has an answer, if only why it has none.
    let text = fs::read_to_string(&plan).expect("a plan");
    let answers = report["study"]["conclusions"].as_array();
    let answers = answers.into_iter().flatten();
    let answers: BTreeSet<&str> = answers.filter_map(|c| c["claim"].as_str()).collect();
    for claim in Plan::from_toml(&text).expect("a plan").claim {
        // `{against}` stands for a layer.
        let says = String::from(claim.says);
        let (start, end) = says.split_once("{against}").unwrap_or((&says, ""));
        let whole = start.len() == says.len();
        let is = |c: &&str| {
            if whole {
                *c == says
            } else {
                c.starts_with(start) && c.ends_with(end)
            }
        };
        assert!(answers.iter().any(is), "{says}: {answers:#?}");
    }
    for row in rows {
        // In a user namespace xterm cannot give its terminal to the group it wants.
        let label = row["label"].as_str().unwrap_or_default();
        if !is_root() && label.starts_with("xterm") && row["failed_trials"] != 0 {
            let why = row["error"].as_str().unwrap_or_default();
            assert!(why.contains("chown"), "{why}");
            skipped(&format!("{label} without root: {why}"));
            continue;
        }
        assert!(row["trials"].as_u64() > Some(0), "{row:#}");
        assert_eq!(row["failed_trials"], 0, "{row:#}");
    }
}

const CLAIM: &str = "name = 'mine'
[[work]]
label = 'tiny'
workload = 'meta'
op = 'open-stat'
files = 20

[[claim]]
says = 'takes no longer than an hour'
holds = 'time <= 1000000'
source = 'us'
";

#[test]
fn each_plan_is_listed_with_what_it_answers() {
    let said = Lm::new().args(["plans"]).run().code(0);
    for plan in plans() {
        let line = said
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("{plan} ")));
        let about = line.map(|l| l[plan.len()..].trim()).unwrap_or_default();
        assert!(about.len() > 20, "{plan}: {}", said.stdout);
    }
}

#[test]
fn a_claim_of_the_users_own_plan_stays_with_the_run() {
    let lm = Lm::new();
    let work = lm.work();
    let plan = work.join("mine.toml");
    fs::write(&plan, CLAIM).unwrap();
    let answer = |report: &Value| {
        let study = &report["study"];
        assert_eq!(study["remarks"], serde_json::json!(["Source: us"]));
        let all = study["conclusions"].as_array().expect("conclusions");
        assert_eq!(
            (all.len(), &all[0]["layer"]),
            (1, &"tmpfs".into()),
            "{all:#?}"
        );
        assert_eq!(all[0]["holds"], "holds", "{all:#?}");
        all[0]["text"].clone()
    };
    let lm = lm.args(["run"]).args([&plan]);
    let run = lm.args([
        "-l",
        "tmpfs",
        "--blocks",
        "6",
        "--no-control",
        "--json",
        "--dir",
    ]);
    let run = run.args([&work]).run().code(0);
    let said = answer(&run.json());
    fs::remove_file(&plan).unwrap();
    let stored = run.then().args(["report", "--json"]).run().code(0);
    assert_eq!(answer(&stored.json()), said);
    let again = stored.then().args(["run", "--replay", "last", "--json"]);
    answer(&again.run().code(0).json());
}

#[test]
fn a_malformed_claim_is_refused_with_its_line() {
    for (wrong, words) in [
        (
            "holds = 'tame <= 1'",
            ["line 10", "`tame <= 1` cannot be decided"],
        ),
        ("holds = 'sme'", ["line 10", "did you mean `same`?"]),
        (
            "holds = 'same'\nlayers = ['tmpfss']",
            ["line 11", "did you mean `tmpfs`?"],
        ),
        (
            "holds = 'same'\ntext = '{lyer}'",
            ["line 11", "`{lyer}` is not a placeholder"],
        ),
        (
            "holds = 'same'\n[[claim]]\nholds = 'same'\nsays = '{n} points'",
            ["line 13", "`says` cannot have `{n}`"],
        ),
        (
            "holds = 'same'\nwrok = {}",
            ["line 11", "unknown field `wrok`"],
        ),
        ("of = 'all'", ["line 8", "missing field `holds`"]),
    ] {
        let lm = Lm::new();
        let plan = lm.work().join("mine.toml");
        let text = CLAIM.replace("holds = 'time <= 1000000'", wrong);
        fs::write(&plan, text).unwrap();
        let said = lm.args(["run"]).args([&plan]).run();
        said.fails(
            2,
            &[
                &plan.to_string_lossy(),
                words[0],
                words[1],
                "layermark schema plan",
            ],
        );
    }
}

/// `layermark run` alone is the plan `card`, in every layer that can be set up here.
#[test]
fn the_default_plan_measures_every_layer_of_this_machine() {
    let lm = Lm::new();
    let work = lm.work();
    // With a budget some would be left out.
    let small = ["run", "--scale", "0.05", "--blocks", "1", "--json", "--dir"];
    let said = lm.args(small).args([work]).run().left_nothing();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    assert_eq!(report["label"], "card");
    let layers = report["layers"].as_array().expect("layers");
    let listed = Lm::new().args(["layers", "--json"]).run().code(0).json();
    for layer in listed["layers"].as_array().expect("layers") {
        for spec in layer["specs"]
            .as_array()
            .expect("specs")
            .iter()
            // The others are measured when they are asked for only.
            .filter(|s| s["ready"] == true && s["default"] == true)
        {
            let here = layers.iter().find(|l| l["spec"] == spec["spec"]);
            let here =
                here.unwrap_or_else(|| panic!("{} is ready and was not measured", spec["spec"]));
            assert_eq!(here["status"], "ready", "{here:#}\n{}", said.stderr);
        }
    }
    assert!(
        layers.len() >= if is_root() { 12 } else { 5 },
        "{}",
        layers.len()
    );
}

#[test]
fn layers_tells_what_is_missing_and_how_to_get_it() {
    let said = Lm::new().args(["layers"]).run().code(0);
    for id in [
        "native",
        "tmpfs",
        "overlay:upper",
        "fuse",
        "loop:ext4",
        "image:squashfs",
    ] {
        assert!(
            said.stdout.lines().any(|l| l.starts_with(id)),
            "no {id} in {}",
            said.stdout
        );
    }
    let groups: Vec<&str> = said
        .stdout
        .lines()
        .filter_map(|l| l.strip_suffix(':'))
        .collect();
    let all = [
        "this kernel",
        "user space",
        "containers",
        "guests",
        "network",
        "places of yours",
    ];
    assert_eq!(groups, all, "{}", said.stdout);
    // A machine without any of the programs that layers need.
    let hide = "mount -t tmpfs none $W; for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin; do \
        [ ! -d $d ] || hidden=\"${hidden:-} $d\"; done; for d in $hidden; do mount --bind $W $d; done";
    let Some(lm) = Lm::new().args(["layers"]).around(hide, "") else {
        return;
    };
    let said = lm.run().code(0);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let mut lacks = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("lacks ") {
            lacks += 1;
            let hint = lines.get(at + 1).map_or("", |l| l.trim());
            assert!(
                hint.starts_with("hint: ") && hint.len() > 8,
                "{line}: {hint}"
            );
        }
    }
    assert!(lacks >= 5, "{}", said.stdout);
    for program in ["mkfs.xfs", "mksquashfs", "mkfs.erofs"] {
        assert!(said.stdout.contains(program), "{}", said.stdout);
    }
    assert!(
        said.stdout.contains("apt-get install") || !is_root(),
        "{}",
        said.stdout
    );
    let json = Lm::new()
        .args(["layers", "--json"])
        .around(hide, "")
        .unwrap()
        .run()
        .json();
    let specs: Vec<&Value> = json["layers"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|l| l["specs"].as_array().unwrap())
        .collect();
    let group = |spec: &str| specs.iter().find(|s| s["spec"] == spec)?["group"].as_str();
    assert_eq!(group("container:podman"), Some("containers"));
    assert_eq!(group("exec"), Some("places of yours"));
    assert_eq!(group("overlay:upper"), Some("this kernel"));
    assert_eq!(group("overlay:fuse"), Some("user space"));
    let missing = specs.iter().filter(|s| s["ready"] == false).count();
    assert!(
        missing >= 5 && specs.iter().any(|s| s["ready"] == true),
        "{json:#}"
    );
}

#[test]
fn a_layer_that_lacks_something_is_refused_with_the_command_when_it_is_named() {
    let hide = "mount -t tmpfs none $W/../no; for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin; do \
        [ ! -d $d ] || hidden=\"${hidden:-} $d\"; done; for d in $hidden; do mount --bind $W/../no $d; done";
    let lm = Lm::new().measure(&["loop:xfs", "native"]);
    fs::create_dir(lm.dir.path().join("no")).unwrap();
    let Some(lm) = lm.around(hide, "") else {
        return;
    };
    lm.run()
        .fails(3, &["loop:xfs", "mkfs.xfs", "apt-get install"])
        .left_nothing();
}

#[test]
fn one_layer_is_shown_with_its_options() {
    let said = Lm::new()
        .args(["layers", "fuse"])
        .run()
        .code(0)
        .prints("options:");
    for word in [
        "delay=",
        "cache=auto|always|none",
        "[default: auto]",
        "direct=pass|drop",
    ] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
    Lm::new()
        .args(["layers", "overlay:upper"])
        .run()
        .code(0)
        .prints("variant=");
    Lm::new()
        .args(["layers", "tmpfs"])
        .run()
        .code(0)
        .prints("not for:\n  power cuts: its files are in memory");
    let containers = Lm::new().args(["layers", "container", "--json"]).run();
    let listed = containers.code(0).json();
    let specs = listed["layers"][0]["specs"].as_array().expect("specs");
    let docker = specs.iter().find(|s| s["spec"] == "container:docker");
    let why = &docker.expect("docker")["not_for"]["power cuts"];
    assert_eq!(*why, "its files belong to a daemon of yours");
    Lm::new()
        .args(["layers", "ovrlay"])
        .run()
        .fails(2, &["ovrlay", "did you mean `overlay`?"]);
    Lm::new()
        .args(["layers", "mock"])
        .run()
        .code(0)
        .prints("die-after=");
}

/// A job file of fio is measured like a plan, and the report has what of it is different here.
#[test]
fn a_job_file_of_fio_is_a_plan() {
    let job = "[global]\nsize=64k\nramp_time=5\n[small]\nrw=randread\nbs=4k\ninvalidate=0\n[synced]\nstonewall\nrw=write\nbs=16k\nfsync=1\n";
    let args = [
        "run",
        "job.fio",
        "--blocks",
        "2",
        "--sessions",
        "1",
        "--json",
    ];
    let said = Lm::new().work_with(&args, MOCK).file("job.fio", job).run();
    assert!(
        said.stderr
            .contains("note: [small] ramp_time=5 has no effect here"),
        "{}",
        said.stderr
    );
    let report = said.json();
    assert_eq!(report["label"], "job");
    let about = report["about"].as_str().expect("about");
    assert!(
        about.contains("job.fio") && about.contains("[synced] ramp_time=5"),
        "{about}"
    );
    let labels: Vec<&str> = report["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter_map(|row| row["label"].as_str())
        .collect();
    assert!(
        labels.contains(&"small") && labels.contains(&"synced"),
        "{labels:?}"
    );
    let said = said
        .then()
        .file("bad.fio", "[a]\nrw=trim\nsize=1m\n")
        .args(["run", "bad.fio"])
        .run();
    said.fails(
        2,
        &[
            "job file bad.fio: [a] rw=trim",
            "what to write instead of others: layermark docs from-fio",
        ],
    );
}

#[test]
fn a_command_line_of_fio_is_work_of_file() {
    let like = "--rw=randread --bs=4k --size=64k --invalidate=0";
    let args = ["file", "--like", like, "--blocks", "2", "--json"];
    let said = Lm::new().work_with(&args, MOCK).run();
    let said_json = said.json();
    let row = &said_json["results"][0];
    assert_eq!(row["meaning"]["operation"], "rand-read");
    let said = said
        .then()
        .args([
            "file",
            "--like",
            "--rw=randrw --size=64k --ioengine=io_uring --iodepth=4",
        ])
        .run();
    said.fails(
        2,
        &["work of `iops`", "hint: layermark iops", "--iodepth 4"],
    );
}
