//! Writes a report of made-up figures: `cargo run -p layermark-report --example sample -- page.html`;
//! `card` before the name makes it as large as the default plan, `matrix` a matrix of file sizes and
//! records, `study` the same for a plan that repeats a study, `iozone` the whole of iozone's, and
//! `launches` a series of launches. `fixtures DIRECTORY` writes the page of each stored run of the testkit, and
//! of two runs and of two machines that are compared.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use layermark_model::StudyId;
use layermark_report::{
    Report,
    render::{self, Files},
};
use layermark_testkit::{
    fixtures,
    sample::{
        self,
        matrix::{IOZONE, Matrix, doubling},
    },
};

struct Disk {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Files for Disk {
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write> {
        let file = File::create(render::part_path(&self.path, part))?;
        Ok(self.file.insert(BufWriter::new(file)))
    }
}

fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    let mut disk = Disk {
        path: path.to_owned(),
        file: None,
    };
    render::for_path(path)?.write(report, &mut disk)
}

/// The page of each stored run, and of comparisons.
fn stored(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    let report = |name: &str| {
        let kept = fixtures::fixture(name).read();
        let mut report = Report::build(&kept.run, &kept.trials);
        for import in &kept.imports {
            report.set_beside(import);
        }
        report
    };
    for fixture in fixtures::ALL {
        let path = dir.join(format!("{}.html", fixture.name));
        write(&report(fixture.name), &path)?;
    }
    let gates = [report("compare-old"), report("compare-new")];
    // The same run on another machine.
    let [here, mut there] = [report("quiet"), report("quiet")];
    there.run.push('2');
    there.machine.cpu = "Another CPU with a name as long as they are, 3.00GHz".into();
    there.machine.kernel = "5.10.0-1-amd64".into();
    there.machine.label = Some("build-7".into());
    for (name, [old, new]) in [("compared", gates), ("machines", [here, there])] {
        let mut both = new.compare(&old, new.delta).context("nothing in common")?;
        let gate = "slower=10%".parse()?;
        both.hold_to(&[gate], false);
        write(&both, &dir.join(format!("{name}.html")))?;
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, dir] = args.as_slice()
        && what == "fixtures"
    {
        return stored(Path::new(dir));
    }
    let report = |(run, trials): (_, Vec<_>)| Report::build(&run, &trials);
    let report = match args.first().map(String::as_str) {
        Some("card") => sample::card(),
        Some("matrix") => report(
            Matrix {
                blocks: 14,
                ..Matrix::default()
            }
            .build(),
        ),
        Some("launches") => {
            let ms: Vec<f64> = (0..40).map(|n| 400.0 + f64::from(n * 7 % 20)).collect();
            report(sample::launches(&ms))
        }
        Some("study") => {
            let (mut run, trials) = Matrix {
                blocks: 14,
                ..Matrix::default()
            }
            .build();
            run.plan.study = Some(StudyId::IozoneVm);
            report((run, trials))
        }
        Some("iozone") => report(
            Matrix {
                works: IOZONE.to_vec(),
                files: doubling(64 << 10, 512 << 20),
                records: doubling(4 << 10, 16 << 20),
                layers: vec!["fuse", "loop:xfs"],
                blocks: 2,
            }
            .build(),
        ),
        _ => report(sample::full().build()),
    };
    let path = args.pop().unwrap_or_else(|| "sample.html".into());
    write(&report, Path::new(&path))
}
