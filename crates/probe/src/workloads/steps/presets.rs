//! Steps that come with layermark.

use layermark_model::{PointError, nearest};
use serde_json::{Map, Value, json};

/// Steps on one kind of material.
pub struct Preset {
    /// Its name.
    pub id: &'static str,
    about: &'static str,
    /// Programs that it needs, with the Debian packages that have them.
    needs: &'static [&'static str],
    material: &'static str,
    files: u64,
    setup: &'static str,
    steps: &'static [PresetStep],
}

/// A step of a preset. Command lines are shell text: the presets are ours.
struct PresetStep {
    name: &'static str,
    cache: &'static str,
    prepare: &'static str,
    run: &'static str,
    check: &'static str,
    expect: &'static [&'static str],
    cleanup: &'static str,
}

/// A step that changes nothing and needs nothing.
const PLAIN: PresetStep = PresetStep {
    name: "",
    cache: "as-is",
    prepare: "",
    run: "",
    check: "",
    expect: &[],
    cleanup: "",
};

/// Installs what a project depends on from the cache, and asks nobody.
const NPM_INSTALL: &str = "npm --prefix project install --cache cache --offline --no-audit --no-fund --no-update-notifier";

/// Every preset.
pub const ALL: &[Preset] = &[
    Preset {
        id: "git",
        about: "a repository of 2,000 files and 500 commits: clone, status, checkout, gc",
        needs: &["git"],
        material: "history",
        files: 2000,
        // git compares times by the second. A file that is not older than the index may have changed since, and git reads
        // it at every `git status` within the first second.
        setup: "git init -q --bare src.git && git -C src.git fast-import --quiet < history && rm history && \
            git -C src.git symbolic-ref HEAD refs/heads/main && git clone -q --no-hardlinks src.git work && \
            find work -path work/.git -prune -o -type f -exec touch -d 2020-01-01 {} + && git -C work status",
        steps: &[
            PresetStep {
                name: "git clone",
                // sshfs numbers the two names of a hard link differently, and git then refuses the link.
                run: "git clone -q --no-hardlinks src.git clone",
                check: "test \"$(git -C clone rev-list --count main)\" = \"$(git -C src.git rev-list --count main)\"",
                expect: &["tree=clone"],
                cleanup: "rm -rf clone",
                ..PLAIN
            },
            PresetStep {
                name: "git status",
                run: "git -C work status",
                expect: &["line=nothing to commit"],
                ..PLAIN
            },
            PresetStep {
                name: "git status",
                cache: "cold",
                run: "git -C work status",
                expect: &["line=nothing to commit"],
                ..PLAIN
            },
            PresetStep {
                name: "git checkout",
                prepare: "git -C work checkout -q main",
                run: "git -C work checkout -q first",
                check: "git -C work diff --quiet first",
                cleanup: "git -C work checkout -q main",
                ..PLAIN
            },
            PresetStep {
                name: "git gc",
                prepare: "rm -rf gc.git && cp -r src.git gc.git",
                run: "git -C gc.git gc -q",
                check: "git -C gc.git cat-file -e main",
                cleanup: "rm -rf gc.git",
                ..PLAIN
            },
        ],
    },
    Preset {
        id: "untar",
        about: "an archive of 10,000 small files",
        needs: &["tar"],
        material: "archive",
        files: 10_000,
        setup: "",
        steps: &[PresetStep {
            name: "untar",
            run: "tar xf small.tar",
            expect: &["tree=small"],
            cleanup: "rm -rf small",
            ..PLAIN
        }],
    },
    Preset {
        id: "rm",
        about: "rm -rf of a tree of 10,000 small files",
        needs: &["tar"],
        material: "archive",
        files: 10_000,
        setup: "",
        steps: &[PresetStep {
            name: "rm -rf",
            prepare: "tar xf small.tar",
            run: "rm -rf small",
            check: "test ! -e small",
            ..PLAIN
        }],
    },
    Preset {
        id: "grep",
        about: "grep -r over 10,000 small files",
        needs: &["grep", "tar"],
        material: "archive",
        files: 10_000,
        setup: "mkdir for-grep && tar xf small.tar -C for-grep",
        steps: &[PresetStep {
            name: "grep -r",
            run: "grep -r f00007.txt for-grep",
            expect: &["line=small/d000/f00007.txt, version 0"],
            ..PLAIN
        }],
    },
    Preset {
        id: "python",
        about: "import of a Python package with 500 modules, compiled before",
        needs: &["python3"],
        material: "modules",
        files: 500,
        setup: "python3 -c 'import storm'",
        steps: &[
            PresetStep {
                name: "python import",
                run: "python3 -c 'import storm; print(\"total\", storm.total)'",
                expect: &["line=^total [0-9]+$"],
                ..PLAIN
            },
            PresetStep {
                name: "python import",
                cache: "cold",
                run: "python3 -c 'import storm; print(\"total\", storm.total)'",
                expect: &["line=^total [0-9]+$"],
                ..PLAIN
            },
        ],
    },
    Preset {
        id: "npm",
        about: "npm install of 100 packages of 20 files each, from npm's cache",
        needs: &["npm", "node"],
        material: "packages",
        files: 2000,
        // The first installation fills the cache and writes the lock file.
        setup: NPM_INSTALL,
        steps: &[PresetStep {
            name: "npm install",
            prepare: "rm -rf project/node_modules",
            run: NPM_INSTALL,
            check: "node project/sum.js | grep -q '^sum [0-9]'",
            expect: &["tree=project/node_modules"],
            ..PLAIN
        }],
    },
    Preset {
        id: "build",
        about: "make -j of a C program of 60 files",
        needs: &["make", "cc"],
        material: "sources",
        files: 60,
        setup: "",
        steps: &[PresetStep {
            name: "make -j",
            prepare: "make -s -C src clean",
            run: "make -s -j -C src",
            check: "src/app | grep -q '^sum '",
            ..PLAIN
        }],
    },
];

/// The Debian package that has a program.
pub fn package(program: &str) -> &str {
    match program {
        "cc" => "gcc libc6-dev",
        "node" => "nodejs",
        other => other,
    }
}

/// The steps of these presets, separated by commas, as tables of a plan. `git status` is the step of this
/// name alone, with a warm cache.
pub fn tables(names: &str) -> Result<Vec<Map<String, Value>>, PointError> {
    let mut all = Vec::new();
    for name in names.split(',').map(str::trim) {
        let steps = ALL.iter().flat_map(|p| p.steps.iter().map(move |s| (p, s)));
        let one = |step: &PresetStep| step.name == name && step.cache == PLAIN.cache;
        let chosen = steps.filter(|(preset, step)| preset.id == name || one(step));
        let before = all.len();
        all.extend(chosen.map(|(preset, step)| preset.table(step)));
        if all.len() > before {
            continue;
        }
        let ids = || ALL.iter().map(|p| p.id);
        let known = || ids().chain(ALL.iter().flat_map(|p| p.steps).map(|s| s.name));
        let error = PointError::of("steps", "preset", format!(" = {name}: no such preset"));
        return Err(error.hint(match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", ids().collect::<Vec<_>>().join(", ")),
        }));
    }
    Ok(all)
}

/// A line of help: each preset and what it does.
pub fn help() -> String {
    let each: Vec<String> = ALL
        .iter()
        .map(|p| format!("{} ({})", p.id, p.about))
        .collect();
    format!(
        "Steps that come with layermark, on files made from a seed; several with commas, also single ones by their \
            name, such as `git status`: {}",
        each.join("; ")
    )
}

impl Preset {
    fn table(&self, step: &PresetStep) -> Map<String, Value> {
        let table = json!({
            "name": step.name,
            "needs": self.needs,
            "material": self.material,
            "files": self.files,
            "setup": line(self.setup),
            "cache": step.cache,
            "prepare": line(step.prepare),
            "run": line(step.run),
            "check": line(step.check),
            "expect": step.expect,
            "cleanup": line(step.cleanup),
        });
        match table {
            Value::Object(table) => table,
            _ => Map::new(),
        }
    }
}

/// A command line that runs this text: without a shell if it needs none.
fn line(text: &str) -> String {
    let special = |c: char| "|&;<>$".contains(c);
    if text.contains(special) {
        shell_words::join(["sh", "-c", text])
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(names: &str) -> Vec<String> {
        let tables = tables(names).unwrap().into_iter();
        let text = |of: &Map<String, Value>, key: &str| of[key].as_str().unwrap().to_owned();
        tables
            .map(|t| text(&t, "name") + ", " + &text(&t, "cache"))
            .collect()
    }

    #[test]
    fn a_preset_is_named_with_all_its_steps_or_one() {
        assert_eq!(steps("git").len(), 5);
        assert_eq!(steps("python").len(), 2);
        assert_eq!(
            steps("git status, untar,python import"),
            ["git status, as-is", "untar, as-is", "python import, as-is"]
        );
        let e = tables("git stats").unwrap_err().to_string();
        assert!(e.contains("no such preset"), "{e}");
    }
}
