//! Files that presets work on, made from a fixed seed: they are the same in every layer, run and
//! machine.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::json;

use crate::{
    data::{self, Noise},
    param::words,
};

words! {
    /// What is made in the directory of the steps before `setup`.
    #[derive(Default)]
    pub enum Material {
        /// Nothing.
        #[default]
        None = "none",
        /// `history`: a stream for `git fast-import`, of this many files in a quarter as many commits.
        History = "history",
        /// `small.tar`: an archive of this many small files.
        Archive = "archive",
        /// `storm/`: a Python package with this many modules.
        Modules = "modules",
        /// `packages/` and `project/`: packages of JavaScript with this many files, and a project that
        /// depends on each.
        Packages = "packages",
        /// `src/`: a C program of this many source files, with a `Makefile`.
        Sources = "sources",
    }
}

/// Files in a directory.
const PER_DIRECTORY: u64 = 50;
/// Files of a package of JavaScript.
const PER_PACKAGE: u64 = 20;
/// Files that a commit changes.
const CHANGED: u64 = 4;
/// Bytes of a text: from this on.
const LEAST: u64 = 400;
/// Up to this many bytes more.
const MORE: u64 = 2400;
/// The time of the first commit and of all files: 2020-09-13 12:26:40 UTC, in seconds.
const THEN: u64 = 1_600_000_000;

impl Material {
    /// Makes `files` files, or something of that size, in `dir`.
    pub fn make(self, dir: &Path, files: u64) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::History => history(&dir.join("history"), files),
            Self::Archive => archive(&dir.join("small.tar"), files),
            Self::Modules => modules(&dir.join("storm"), files),
            Self::Packages => packages(dir, files),
            Self::Sources => sources(&dir.join("src"), files),
        }
    }
}

/// A text in lines, the same for the same name and version.
fn text(name: &str, version: u64) -> String {
    const WORDS: [&str; 16] = [
        "read", "write", "open", "close", "cache", "page", "block", "inode", "sync", "layer",
        "guest", "mount", "lookup", "rename", "extent", "journal",
    ];
    let seed = data::derive(version, name);
    let size = (LEAST + seed % MORE) as usize;
    let mut noise = Noise::new(seed);
    let mut text = format!("{name}, version {version}\n");
    while text.len() < size {
        let mut drawn = [0; 2];
        noise.fill(&mut drawn);
        let [word, end] = drawn;
        text.push_str(WORDS[usize::from(word) % WORDS.len()]);
        text.push(if end % 9 == 0 { '\n' } else { ' ' });
    }
    text.push('\n');
    text
}

fn path(n: u64) -> String {
    format!("d{:03}/f{n:05}.txt", n / PER_DIRECTORY)
}

/// See git-fast-import(1).
fn history(at: &Path, files: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(at)?);
    let commits = (files / 4).max(2);
    for commit in 0..commits {
        let message = format!("change {commit}");
        writeln!(
            out,
            "commit refs/heads/main\nmark :{}\ncommitter layermark <layermark@localhost> {} +0000",
            commit + 1,
            THEN + commit * 60
        )?;
        writeln!(out, "data {}\n{message}", message.len())?;
        let changed: Vec<u64> = if commit == 0 {
            (0..files).collect()
        } else {
            (0..CHANGED)
                .map(|i| data::derive(commit, &i.to_string()) % files)
                .collect()
        };
        for n in changed {
            let name = path(n);
            let text = text(&name, commit);
            writeln!(out, "M 100644 inline {name}\ndata {}\n{text}", text.len())?;
        }
    }
    writeln!(out, "reset refs/tags/first\nfrom :1\n")?;
    out.flush()
}

fn archive(at: &Path, files: u64) -> io::Result<()> {
    tar(
        at,
        (0..files).map(|n| {
            let name = format!("small/{}", path(n));
            let text = text(&name, 0);
            (name, text)
        }),
    )
}

/// An archive of files with these names and contents.
fn tar(at: &Path, files: impl IntoIterator<Item = (String, String)>) -> io::Result<()> {
    let mut out = tar::Builder::new(BufWriter::new(File::create(at)?));
    for (name, text) in files {
        let mut head = tar::Header::new_ustar();
        head.set_mode(0o644);
        head.set_uid(0);
        head.set_gid(0);
        head.set_mtime(THEN);
        head.set_size(text.len() as u64);
        out.append_data(&mut head, &name, text.as_bytes())?;
    }
    out.into_inner()?.flush()
}

/// Archives as `npm pack` makes them, and a project whose `package.json` names them.
fn packages(dir: &Path, files: u64) -> io::Result<()> {
    let (from, project) = (dir.join("packages"), dir.join("project"));
    fs::create_dir(&from)?;
    fs::create_dir(&project)?;
    let mut needed = serde_json::Map::new();
    for n in 0..files.div_ceil(PER_PACKAGE) {
        let name = format!("p{n:04}");
        let about = json!({"name": name, "version": "1.0.0", "main": "index.js"});
        let own = [
            ("package.json", about.to_string()),
            ("index.js", format!("exports.value = {n};\n")),
        ];
        let own = own.map(|(file, text)| (format!("package/{file}"), text));
        // Two files are its own.
        let modules = (2..PER_PACKAGE).map(|m| {
            let text = text(&format!("{name}, module {m}"), 0);
            (format!("package/lib/m{m:02}.js"), format!("/* {text} */\n"))
        });
        tar(
            &from.join(format!("{name}.tar")),
            own.into_iter().chain(modules),
        )?;
        needed.insert(name.clone(), format!("file:../packages/{name}.tar").into());
    }
    let about =
        json!({"name": "project", "version": "1.0.0", "private": true, "dependencies": needed});
    fs::write(project.join("package.json"), about.to_string())?;
    fs::write(
        project.join("sum.js"),
        "const names = Object.keys(require('./package.json').dependencies);\n\
         console.log('sum', names.reduce((sum, name) => sum + require(name).value, 0));\n",
    )
}

/// A package whose import imports all its modules, which are in one directory.
fn modules(at: &Path, files: u64) -> io::Result<()> {
    fs::create_dir(at)?;
    let all = each(files, |n| {
        format!("from . import m{n:04}\ntotal += m{n:04}.VALUE\n")
    });
    for n in 0..files {
        let text = text(&format!("m{n:04}"), 0);
        fs::write(
            at.join(format!("m{n:04}.py")),
            format!("VALUE = {n}\nTEXT = \"\"\"{text}\"\"\"\n\n\ndef get():\n    return TEXT\n"),
        )?;
    }
    fs::write(at.join("__init__.py"), format!("total = 0\n{all}"))
}

/// A text for each number, one after the other.
fn each(files: u64, text: impl Fn(u64) -> String) -> String {
    let all: Vec<String> = (0..files).map(text).collect();
    all.concat()
}

fn sources(at: &Path, files: u64) -> io::Result<()> {
    fs::create_dir(at)?;
    let declared = each(files, |n| format!("int f{n}(int);\n"));
    let sum = each(files, |n| format!(" + f{n}({n})"));
    let objects = each(files, |n| format!(" f{n}.o"));
    for n in 0..files {
        let body = format!(
            "#include \"all.h\"\nint f{n}(int x)\n{{\n\tint i, y = {n};\n\tfor (i = 0; i < x; i++)\n\t\ty += i * {n};\n\treturn y;\n}}\n"
        );
        fs::write(at.join(format!("f{n}.c")), body)?;
    }
    fs::write(at.join("all.h"), format!("#include <stdio.h>\n{declared}"))?;
    fs::write(
        at.join("main.c"),
        format!(
            "#include \"all.h\"\nint main(void)\n{{\n\tprintf(\"sum %d\\n\", 0{sum});\n\treturn 0;\n}}\n"
        ),
    )?;
    fs::write(
        at.join("Makefile"),
        format!(
            "app: main.o{objects}\n\tcc -o app main.o{objects}\nmain.o{objects}: all.h\n.c.o:\n\tcc -c $<\nclean:\n\trm -f app *.o\n.PHONY: clean\n"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::tree::content;
    use super::*;

    #[test]
    fn material_is_the_same_each_time() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in &dirs {
            for material in [
                Material::History,
                Material::Archive,
                Material::Modules,
                Material::Packages,
                Material::Sources,
            ] {
                material.make(dir.path(), 120).unwrap();
            }
        }
        let [a, b] = dirs.each_ref().map(|dir| content(dir.path()).unwrap());
        assert_eq!(a, b);
    }

    #[test]
    fn tar_reads_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        Material::Archive.make(dir.path(), 120).unwrap();
        let done = Command::new("tar")
            .arg("xf")
            .arg("small.tar")
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        let name = format!("small/{}", path(119));
        assert_eq!(
            fs::read_to_string(dir.path().join(&name)).unwrap(),
            text(&name, 0)
        );
        let content = content(&dir.path().join("small")).unwrap();
        assert!(content.starts_with("123 entries"), "{content}");
    }
}
