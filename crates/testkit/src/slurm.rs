//! A Slurm of three nodes for a test, on free ports of the loopback, with munge on a socket of its own.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::wait_for;

/// Nodes of the cluster.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

const PROGRAMS: [&str; 4] = [
    "/usr/sbin/munged",
    "/usr/sbin/slurmctld",
    "/usr/sbin/slurmd",
    "/usr/bin/srun",
];

/// A cluster. It ends and its files are removed with the test, however that ends.
#[derive(Debug)]
pub struct Slurm {
    dir: PathBuf,
    /// A process that waits for the end of its standard input, which this process holds.
    guard: Child,
}

impl Slurm {
    /// Starts one. `None` where Slurm is not installed, or without root.
    ///
    /// # Panics
    /// If it is installed and does not start.
    pub fn start() -> Option<Self> {
        let installed = PROGRAMS.iter().all(|p| Path::new(p).exists());
        if !installed || !rustix::process::geteuid().is_root() {
            return None;
        }
        let dir = tempfile::Builder::new()
            .prefix("layermark-slurm-")
            .tempdir();
        let dir = dir.expect("a directory").keep();
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let held: Vec<TcpListener> = (0..4).map(|_| free()).collect();
        let ports = held.iter().map(|l| l.local_addr().expect("a port").port());
        let ports: Vec<u16> = ports.collect();
        drop(held);
        write_files(&dir, &ports);
        let text = r#"cd "$0" || exit 1
munged --foreground --force --key-file="$0/key" --socket="$0/munge" --pid-file="$0/munge.pid" --log-file="$0/munge.log" --seed-file="$0/seed" &
all=$!
for i in 1 2 3 4 5 6 7 8 9 10; do [ -S munge ] && break; sleep 0.1; done
slurmctld -D & all="$all $!"
for n in n1 n2 n3; do
  unshare --mount sh -c 'mount --bind "$0/own.$1" "$0/own" && exec slurmd -D -N "$1"' "$0" $n & all="$all $!"
done
cat
kill $all; wait; rm -rf "$0""#;
        let guard = Command::new("sh")
            .args(["-c", text])
            .arg(&dir)
            .env("SLURM_CONF", dir.join("slurm.conf"))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        let slurm = Self { dir, guard };
        wait_for("three idle nodes", || {
            let said = slurm
                .command("sinfo")
                .args(["-h", "-N", "-o", "%T"])
                .output();
            let said = said.expect("sinfo").stdout;
            let idle = String::from_utf8_lossy(&said);
            (idle.lines().filter(|l| *l == "idle").count() == 3).then_some(())
        });
        Some(slurm)
    }

    /// Path of its configuration, for `SLURM_CONF`.
    pub fn config(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    /// A directory that is another one on each node: all other paths are shared, because the nodes are one machine.
    pub fn own_dir(&self) -> PathBuf {
        self.dir.join("own")
    }

    /// The own directory of a node as it is seen from here.
    pub fn own_dir_of(&self, node: &str) -> PathBuf {
        self.dir.join(format!("own.{node}"))
    }

    /// One of its commands.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.config());
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn write_files(dir: &Path, ports: &[u16]) {
    use std::os::unix::fs::PermissionsExt;
    let key: Vec<u8> = (0..1024u32)
        .map(|i| (i.wrapping_mul(167) >> 3) as u8)
        .collect();
    fs::write(dir.join("key"), key).expect("a key");
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode("key", 0o400);
    mode("", 0o700);
    let of_nodes = |what: &'static str| NODES.map(|node| format!("{what}.{node}"));
    let dirs = ["state".into(), "own".into()].into_iter();
    for name in dirs.chain(of_nodes("spool")).chain(of_nodes("own")) {
        fs::create_dir(dir.join(name)).expect("a directory");
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let here = dir.display();
    let node = |(node, port): (&&str, &u16)| {
        format!(
            "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000"
        )
    };
    let nodes: Vec<String> = NODES.iter().zip(&ports[1..]).map(node).collect();
    let nodes = nodes.join("\n");
    let text = format!(
        "ClusterName=lab\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={here}/munge\nCryptoType=crypto/munge\nSlurmctldPort={}\nStateSaveLocation={here}/state\n\
         SlurmdSpoolDir={here}/spool.%n\nSlurmctldPidFile={here}/ctld.pid\nSlurmdPidFile={here}/slurmd.%n.pid\n\
         SlurmctldLogFile={here}/ctld.log\nSlurmdLogFile={here}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\nMpiDefault=none\n\
         ReturnToService=2\nSlurmdParameters=config_overrides\nPropagateResourceLimits=NONE\nSwitchType=switch/none\n\
         {nodes}\nPartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n",
        ports[0]
    );
    fs::write(dir.join("slurm.conf"), text).expect("slurm.conf");
}
