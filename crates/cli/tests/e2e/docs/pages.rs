//! What stands in the pages: code blocks, and command lines.

use std::{fs, path::PathBuf};

use crate::common::root;

/// A code block of a page.
pub struct Block {
    /// Number of its first line.
    pub at: usize,
    pub language: String,
    pub text: String,
}

/// A command line of a page.
pub struct Line {
    /// Page and line number, as an editor opens them.
    pub at: String,
    pub text: String,
    /// In a code block or a table, for the reader to type; not only named in a sentence.
    pub to_type: bool,
}

/// README and the pages of the book: path in the checkout, and text.
pub fn all() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = ["", "howto", "studies"]
        .iter()
        .flat_map(|dir| fs::read_dir(root().join("docs/src").join(dir)).expect("the book"))
        .map(|entry| entry.expect("a page").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    paths.sort();
    paths.push(root().join("README.md"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("a path").display();
        (name.to_string(), fs::read_to_string(&path).expect("a page"))
    };
    paths.into_iter().map(read).collect()
}

pub fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (i, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                let known = ["sh", "text", "toml", "yaml", "rust", "python"].contains(&language);
                assert!(
                    known,
                    "{page}:{}: a code block needs its language: sh for commands, text for what they print",
                    i + 1
                );
                let language = language.to_owned();
                open = Some(Block {
                    at: i + 2,
                    language,
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a code block has no end");
    found
}

/// The commands of a page: lines of its shell blocks and CI files, and code in its text.
pub fn commands(page: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut prose: Vec<&str> = text.lines().collect();
    for block in blocks(page, text) {
        let lines = block.at - 2..block.at + block.text.lines().count();
        prose[lines].fill("");
        let joined = block.text.replace("\\\n", " ");
        for (i, line) in joined.lines().enumerate() {
            let line = line.trim();
            let command = line.trim_start_matches("- ").trim_start_matches("run: ");
            let in_ci = block.language == "yaml" && command.starts_with("layermark ");
            if (block.language == "sh" && !line.is_empty()) || in_ci {
                let command = command.split(" # ").next().unwrap_or(command).trim_end();
                let line = |text: &str| Line {
                    at: format!("{page}:{}", block.at + i),
                    text: text.into(),
                    to_type: true,
                };
                found.extend(command.split(" && ").map(line));
            }
        }
    }
    let prose = prose.join("\n");
    let mut at = 1;
    for (i, code) in prose.split('`').enumerate() {
        if i % 2 == 1 && code.starts_with("layermark ") {
            let in_table = prose
                .lines()
                .nth(at - 1)
                .is_some_and(|l| l.starts_with('|'));
            found.push(Line {
                at: format!("{page}:{at}"),
                text: code.replace("\\|", "|").replace('\n', " "),
                to_type: in_table && code.split(' ').count() > 2,
            });
        }
        at += code.matches('\n').count();
    }
    found
}
