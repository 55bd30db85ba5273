//! `layermark fleet script`: files that run a fleet. They are made from the same flags, and printed to be read and changed.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{HostsArg, hosts, shared};
use crate::{
    commands::{measure::exe, stdout},
    failure::Failure,
    say::say,
};
use layermark_fleet::hosts::HostsAsked;

#[derive(Debug, Args)]
pub struct FleetScriptArgs {
    /// For which engine
    pub engine: Engine,
    /// How many hosts; for mpi the script takes a file with their names
    #[arg(long, value_name = "HOSTS", value_parser = hosts, default_value = "3")]
    pub hosts: HostsArg,
    /// The directory that all hosts share
    #[arg(long, value_name = "DIR", default_value = "/shared")]
    pub share: String,
    /// Each host's own directory
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    pub dir: String,
    /// The image of the pods: it has layermark in /usr/local/bin, and sh
    #[arg(long, value_name = "IMAGE", default_value = "layermark:latest")]
    pub image: String,
    /// The claim of the shared volume of the pods
    #[arg(long, value_name = "NAME", default_value = "shared")]
    pub claim: String,
}

/// An engine that places tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// A batch file for sbatch
    Slurm,
    /// A shell script around mpirun
    Mpi,
    /// A Job for kubectl, as JSON; it was never tried in a cluster
    Kubernetes,
}

/// Prints the file of an engine.
pub fn print(args: &FleetScriptArgs) -> Result<ExitCode, Failure> {
    let share = shared(&args.share)?;
    let exe = exe()?.to_string_lossy().into_owned();
    let (count, names) = match &args.hosts.0 {
        HostsAsked::Count(n) => (*n, None),
        HostsAsked::Names(names) => (names.len() as u32, Some(names.join(","))),
        HostsAsked::Unsaid => (1, None),
    };
    let text = match args.engine {
        Engine::Slurm => slurm(&exe, (count, names.as_deref()), &share, &args.dir),
        Engine::Mpi => mpi(&exe, &share, &args.dir),
        Engine::Kubernetes => {
            let job = kubernetes(args, count, &share);
            say(
                "note: this manifest was checked against the fields of batch/v1, and never tried in a cluster",
            );
            say(pods_hint(&share, &args.dir));
            serde_json::to_string_pretty(&job).map_err(Failure::failed)? + "\n"
        }
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// How the pods of a Job are checked.
fn pods_hint(share: &str, dir: &str) -> String {
    let (share, dir) = (shell_words::quote(share), shell_words::quote(dir));
    format!(
        "hint: kubectl apply -f job.json; then layermark fleet check --launcher 'kubectl exec -i {{host}} --' \
         --exe /usr/local/bin/layermark --hosts \"$(kubectl get pods -l app=layermark -o jsonpath='{{.items[*].metadata.name}}' | tr ' ' ,)\" \
         --share {share} --dir {dir}"
    )
}

fn command(exe: &str, share: &str, dir: &str) -> String {
    let words = [
        exe,
        "fleet",
        "run",
        "share-storm",
        "--share",
        share,
        "--dir",
        dir,
    ];
    shell_words::join(words)
}

fn slurm(exe: &str, (nodes, names): (u32, Option<&str>), share: &str, dir: &str) -> String {
    let names = names.map(|names| format!("#SBATCH --nodelist={names}\n"));
    let names = names.unwrap_or_default();
    let run = command(exe, share, dir);
    format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=layermark\n\
         #SBATCH --nodes={nodes}\n\
         {names}#SBATCH --ntasks-per-node=1\n\
         #SBATCH --exclusive\n\
         # A node that fails is a lost host: the others go on.\n\
         #SBATCH --no-kill\n\
         #SBATCH --time=00:30:00\n\
         # The share as one host sees it alone, then 2, 4 ... and all of them at once.\n\
         exec {run} --launcher slurm -o \"layermark-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}.json\"\n"
    )
}

fn mpi(exe: &str, share: &str, dir: &str) -> String {
    let run = command(exe, share, dir);
    format!(
        "#!/bin/sh\n\
         # usage: FILE HOSTFILE [OPTION OF MPIRUN]...     a line for each host, its name first\n\
         set -eu\n\
         hosts=$(awk '!/^#/ && NF {{ print $1 }}' \"$1\" | paste -sd, -)\n\
         shift\n\
         # Each option is quoted, because the launcher is one text.\n\
         launcher=mpi\n\
         for option in \"$@\"; do\n\
         \x20 launcher=\"$launcher '$(printf '%s' \"$option\" | sed \"s/'/'\\\\\\\\''/g\")'\"\n\
         done\n\
         exec {run} --launcher \"$launcher\" --hosts \"$hosts\"\n"
    )
}

/// A Job whose pods wait for `kubectl exec`, one on each node.
fn kubernetes(args: &FleetScriptArgs, pods: u32, share: &str) -> serde_json::Value {
    let labels = json!({ "app": "layermark" });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "layermark", "labels": labels },
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "activeDeadlineSeconds": 3600,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "affinity": { "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{
                            "labelSelector": { "matchLabels": labels },
                            "topologyKey": "kubernetes.io/hostname",
                        }],
                    } },
                    "containers": [{
                        "name": "layermark",
                        "image": args.image,
                        "command": ["sh", "-c", "sleep 3600"],
                        "volumeMounts": [
                            { "name": "shared", "mountPath": share },
                            { "name": "own", "mountPath": args.dir },
                        ],
                    }],
                    "volumes": [
                        { "name": "shared", "persistentVolumeClaim": { "claimName": args.claim } },
                        { "name": "own", "emptyDir": {} },
                    ],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of batch/v1 that a Job of pods uses, by the reference of the Kubernetes API, with nothing else allowed.
    fn schema() -> serde_json::Value {
        let object = |properties: serde_json::Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let list = |of: serde_json::Value| json!({ "type": "array", "items": of });
        let text = json!({ "type": "string" });
        let labels = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        let number = json!({ "type": "integer", "minimum": 0 });
        let term = object(
            json!({ "labelSelector": object(json!({ "matchLabels": labels }), &[]), "topologyKey": text }),
            &["topologyKey"],
        );
        let anti = object(
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": list(term) }),
            &[],
        );
        let mount = object(
            json!({ "name": text, "mountPath": text }),
            &["name", "mountPath"],
        );
        let container = object(
            json!({ "name": text, "image": text, "command": list(text.clone()), "volumeMounts": list(mount) }),
            &["name"],
        );
        let claim = object(json!({ "claimName": text }), &["claimName"]);
        let volume = object(
            json!({ "name": text, "persistentVolumeClaim": claim, "emptyDir": object(json!({}), &[]) }),
            &["name"],
        );
        let pod = object(
            json!({
                "restartPolicy": { "enum": ["Never", "OnFailure"] },
                "affinity": object(json!({ "podAntiAffinity": anti }), &[]),
                "containers": list(container),
                "volumes": list(volume),
            }),
            &["containers", "restartPolicy"],
        );
        let template = object(
            json!({ "metadata": object(json!({ "labels": labels }), &[]), "spec": pod }),
            &["spec"],
        );
        let job = object(
            json!({
                "completions": number, "parallelism": number, "completionMode": { "enum": ["Indexed", "NonIndexed"] },
                "backoffLimit": number, "activeDeadlineSeconds": number, "template": template,
            }),
            &["template"],
        );
        object(
            json!({
                "apiVersion": { "const": "batch/v1" }, "kind": { "const": "Job" },
                "metadata": object(json!({ "name": text, "labels": labels }), &["name"]), "spec": job,
            }),
            &["apiVersion", "kind", "metadata", "spec"],
        )
    }

    #[test]
    fn the_job_has_the_fields_of_the_api() {
        let args = FleetScriptArgs {
            engine: Engine::Kubernetes,
            hosts: HostsArg(HostsAsked::Count(5), "5".into()),
            share: "/shared".into(),
            dir: "/scratch".into(),
            image: "registry/layermark:1".into(),
            claim: "nas".into(),
        };
        let job = kubernetes(&args, 5, "/shared");
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&job).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(job["spec"]["parallelism"], 5);
        let mut wrong = job;
        wrong["spec"]["template"]["spec"]["restart"] = "Never".into();
        assert!(
            !validator.is_valid(&wrong),
            "the schema finds what is not a field"
        );
    }

    #[test]
    fn words_are_quoted() {
        let hint = pods_hint("/a b", "/mnt/own");
        assert!(hint.ends_with(" --share '/a b' --dir /mnt/own"), "{hint}");
        let text = slurm("/opt/lay ermark", (4, Some("n1,n2,n3,n4")), "/a b", "/tmp");
        assert!(
            text.contains("exec '/opt/lay ermark' fleet run share-storm --share '/a b'"),
            "{text}"
        );
        let nodes = "#SBATCH --nodes=4\n#SBATCH --nodelist=n1,n2,n3,n4\n#SBATCH --ntasks";
        assert!(text.contains(nodes), "{text}");
        assert!(text.contains("\n#SBATCH --no-kill\n"), "{text}");
    }

    /// What the script starts, in place of layermark: a program that prints its words.
    #[test]
    fn options_of_mpirun_stay_whole() {
        use std::{fs, os::unix::fs::PermissionsExt, process::Command};
        let dir = tempfile::tempdir().unwrap();
        let (exe, script, hosts) = (
            dir.path().join("exe"),
            dir.path().join("mpi.sh"),
            dir.path().join("hosts"),
        );
        fs::write(&exe, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&script, mpi(&exe.to_string_lossy(), "/s", "/tmp")).unwrap();
        fs::write(&hosts, "n1 slots=2\n# not n2\nn3\n").unwrap();
        let options = ["--mca", "btl tcp", "it's", "-x"];
        let said = Command::new("sh")
            .arg(&script)
            .arg(&hosts)
            .args(options)
            .output()
            .unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let words: Vec<&str> = said.lines().collect();
        let after = |flag: &str| {
            words
                .iter()
                .position(|w| *w == flag)
                .map(|at| words[at + 1])
        };
        assert_eq!(after("--hosts"), Some("n1,n3"), "{said}");
        let (_, read) = layermark_fleet::launchers::find(after("--launcher").unwrap()).unwrap();
        assert_eq!(read, options, "{said}");
    }
}
