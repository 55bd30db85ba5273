//! A report of the default plan's size.

use super::full;
use layermark_report::{LayerReport, Report, ResultRow};

/// A report with as many layers and operations as the default plan has.
pub fn card() -> Report {
    let (run, trials) = full().build();
    let mut report = Report::build(&run, &trials);
    let mut next = 0;
    let mut add = |report: &mut Report, from: &dyn Fn(&ResultRow) -> bool, to: [&str; 2]| {
        let rows: Vec<ResultRow> = report.results.iter().filter(|r| from(r)).cloned().collect();
        report.results.extend(rows.into_iter().map(|row| {
            next += 1;
            let [layer, label] = to.map(str::to_owned);
            ResultRow {
                id: format!("c{next}"),
                layer: if layer.is_empty() { row.layer } else { layer },
                label: if label.is_empty() { row.label } else { label },
                ..row
            }
        }));
    };
    let fuse = report.layers.iter().find(|l| l.name == "fuse").cloned();
    let fuse = fuse.expect("the sample has it");
    for name in [
        "image:squashfs",
        "loop:ext4",
        "image:squashfuse",
        "loop:btrfs",
        "container:podman,userns=auto",
    ] {
        add(&mut report, &|r| r.layer == "fuse", [name, ""]);
        report.layers.push(LayerReport {
            name: name.into(),
            ..fuse.clone()
        });
    }
    for label in ["unlink", "large write, fsync", "random read, warm"] {
        add(&mut report, &|r| r.label == "open and stat", ["", label]);
    }
    for (n, layer) in report.layers.iter_mut().enumerate() {
        layer.brief = format!("made-up layer {n}, in words of usual length");
        layer.about = format!("{}: and details", layer.brief);
    }
    report
}
