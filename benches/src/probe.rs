//! Drives `layermark probe` as the lab does.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_model::{
    CpuUse, Point, Settings, Trial, Turn,
    protocol::{FromProbe, Job, Peer, ToProbe, TurnRequest},
    random_name,
};
use serde_json::Value;

/// A probe with one job, which is repeated.
pub struct Probe {
    binary: PathBuf,
    process: Process,
    /// The far end, for work with two ends.
    far: Option<Process>,
    job: Job,
    /// The file it reads; for a writer, an unused name.
    pub file: PathBuf,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Probe {
    /// Starts it. Packages the file that the only point of `settings` reads, if there is one.
    pub fn start(binary: &Path, dir: &Path, settings: &Value, min_ms: u64) -> Result<Self> {
        let settings: Settings = serde_json::from_value(settings.clone())?;
        let name = &settings.workload;
        let workload = layermark_probe::workloads::find(name)
            .ok_or_else(|| anyhow!("no workload `{name}`"))?;
        let point: Point = workload.points(&settings, 1.0)?.remove(0);
        let files: Vec<_> = point.needs.packaged_files().collect();
        layermark_probe::packaged::write(&dir.join("packaged"), &files, 1, &|| true)?;
        let packaged = |f: &layermark_model::PackagedFile| dir.join("packaged").join(&f.path);
        let file = files.first().map_or_else(|| dir.join("file"), packaged);
        let job = Job {
            id: 0,
            dir: dir.to_string_lossy().into_owned(),
            point,
            seed: 1,
            min_ms,
            min_ops: 200,
            devices: Vec::new(),
            cpus: None,
            below: Vec::new(),
            peer: None,
            env: layermark_model::Environment::new(),
        };
        Ok(Self {
            binary: binary.to_owned(),
            process: Process::start(binary)?,
            far: None,
            job,
            file,
        })
    }

    /// Continues in a new process, with other memory pages.
    pub fn restart(&mut self) -> Result<()> {
        self.process = Process::start(&self.binary)?;
        Ok(())
    }

    /// Starts a far end on the loopback.
    pub fn serve(&mut self) -> Result<()> {
        let mut far = Process::start(&self.binary)?;
        let peer = Peer {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            secret: random_name(""),
        };
        let mut job = self.job.clone();
        job.peer = Some(peer.clone());
        // As in the lab, because a probe removes files that others have left in its directory.
        let dir = Path::new(&job.dir).join("far");
        fs::create_dir_all(&dir)?;
        job.dir = dir.to_string_lossy().into_owned();
        far.say(&ToProbe::Serve(Box::new(job)))?;
        match far.answer()? {
            FromProbe::Serving { port, .. } => self.job.peer = Some(Peer { port, ..peer }),
            other => bail!("the far end answered with {other:?}"),
        }
        self.far = Some(far);
        Ok(())
    }

    /// Address of the far end.
    pub fn peer(&self) -> Option<&Peer> {
        self.job.peer.as_ref()
    }

    pub fn point(&self) -> &Point {
        &self.job.point
    }

    /// Prepares its job for turns.
    pub fn begin(&mut self) -> Result<()> {
        self.job.id += 1;
        self.process
            .say(&ToProbe::Job(Box::new(self.job.clone())))?;
        match self.process.answer()? {
            FromProbe::Ready { .. } => Ok(()),
            other => bail!("the probe answered a job with {other:?}"),
        }
    }

    /// Runs a turn. Returns the CPU time per operation, ns.
    pub fn turn(&mut self, round: u32, lead_in_ns: u64, ns: u64) -> Result<f64> {
        let (turn, cpu) = self.turned(round, lead_in_ns, ns)?;
        Ok((cpu.user_ns + cpu.sys_ns) as f64 / turn.ops as f64)
    }

    /// Runs a turn. Returns the turn and its CPU time.
    pub fn turned(&mut self, round: u32, lead_in_ns: u64, ns: u64) -> Result<(Turn, CpuUse)> {
        self.process.say(&ToProbe::Turn {
            id: self.job.id,
            ask: TurnRequest {
                round,
                ns,
                lead_in_ns,
            },
        })?;
        match self.process.answer()? {
            FromProbe::Turned { turned, .. } => Ok((turned.turn, turned.cpu)),
            other => bail!("the probe answered a turn with {other:?}"),
        }
    }

    /// Runs one trial in one stretch.
    pub fn trial(&mut self) -> Result<Trial> {
        self.job.id += 1;
        let process = &mut self.process;
        process.say(&ToProbe::Job(Box::new(self.job.clone())))?;
        loop {
            let said = process.read()?;
            if let Some(next) = ToProbe::in_one_stretch(&said) {
                process.say(&next)?;
            }
            match said {
                FromProbe::Trial { trial, .. } => return Ok(*trial),
                FromProbe::Error { message, .. } => bail!("probe: {message}"),
                _ => {}
            }
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

impl Process {
    fn start(binary: &Path) -> Result<Self> {
        let mut child = Command::new(binary)
            .arg("probe")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let mut process = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        match process.read()? {
            FromProbe::Hello { .. } => Ok(process),
            other => bail!("the probe began with {other:?}"),
        }
    }

    fn read(&mut self) -> Result<FromProbe> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the probe said `{}`", line.trim()))
    }

    /// The probe's next message, without progress.
    fn answer(&mut self) -> Result<FromProbe> {
        loop {
            match self.read()? {
                FromProbe::Progress { .. } => {}
                FromProbe::Error { message, .. } => bail!("probe: {message}"),
                other => return Ok(other),
            }
        }
    }

    fn say(&mut self, line: &ToProbe) -> Result<()> {
        writeln!(self.input, "{}", serde_json::to_string(line)?)?;
        Ok(self.input.flush()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.say(&ToProbe::Quit);
        if self.child.wait().is_err() {
            let _ = self.child.kill();
        }
    }
}
