//! Kinds of work. To add one, write `workloads/NAME.rs` and its line in [`ALL`].

use crate::Workload;

pub mod file;
pub mod iops;
pub mod launch;
pub mod meta;
mod work_dir;

/// Every workload.
pub const ALL: &[&dyn Workload] = &[&file::File, &iops::Iops, &meta::Meta, &launch::Launch];

/// The workload of that name.
pub fn find(id: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|w| w.id() == id)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use layermark_model::ParamKind;
    use std::{fs, path::Path};

    /// Helper modules in these folders that are no plug-ins.
    const HELPERS: [&str; 7] = [
        "mapping", "mod", "order", "steps", "stream", "tests", "work_dir",
    ];

    /// Fails with the line to add when a file in `src/FOLDER` is not among `known`.
    pub fn assert_listed(folder: &str, known: &[&str], line: &str) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(folder);
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(
                HELPERS.contains(&name.as_str()) || known.contains(&name.as_str()),
                "{folder}/{name} is not listed: add `{}` to ALL in {folder}/mod.rs",
                line.replace("NAME", &name),
            );
        }
    }

    #[test]
    fn every_workload_file_is_listed() {
        let known: Vec<&str> = ALL.iter().map(|w| w.id()).collect();
        assert_listed("workloads", &known, "&NAME::Type");
        assert!(known.iter().all(|id| find(id).is_some()));
        assert!(find("flie").is_none());
    }

    #[test]
    fn every_default_makes_points() {
        for workload in ALL {
            let settings = layermark_model::Settings {
                workload: workload.id().into(),
                label: None,
                params: serde_json::Map::new(),
            };
            let points = workload.points(&settings, 1.0).unwrap();
            assert!(!points.is_empty());
            for param in workload.params() {
                if file::MATRIX_KEYS.contains(&param.name) {
                    // They say which points there are.
                    continue;
                }
                assert!(
                    !param.help.is_empty()
                        && (!param.default.is_empty()
                            || matches!(
                                param.kind,
                                ParamKind::Text | ParamKind::Texts | ParamKind::Env
                            )),
                    "{}",
                    param.name
                );
                assert!(
                    points.iter().all(|p| p.params.contains_key(param.name)),
                    "{}",
                    param.name
                );
            }
        }
    }
}
