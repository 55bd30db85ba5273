//! Writes a report of made-up figures: `cargo run -p layermark-report --example sample -- page.html`;
//! `card` before the name makes it as large as the default plan, `matrix` a matrix of file sizes and
//! records, `study` the same for a plan that repeats a study, `iozone` the whole of iozone's, and
//! `launches` a series of launches.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use layermark_model::StudyId;
use layermark_report::{
    Report,
    render::{self, Files},
};
use layermark_testkit::sample::{
    self,
    matrix::{IOZONE, Matrix, doubling},
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

fn main() -> anyhow::Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
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
    let mut disk = Disk {
        path: path.clone().into(),
        file: None,
    };
    render::for_path(Path::new(&path))?.write(&report, &mut disk)
}
