//! The corpus of the users' jobs: text, words, a table, C sources, and a tree of small files, in
//! several parts. It does not depend on the seed, because the results of all jobs are known
//! (`reference.txt`). They change when this file changes.

use std::{fmt::Write, fs, io, path::Path};

/// Number of parts of the corpus, named `1` and up. A repeated job uses the next part.
pub const PARTS: u64 = 4;

/// Maximum size of the corpus on a disk, bytes. A test checks it.
pub const SIZE: u64 = 2 << 20;

/// Words for which the jobs search.
const COMMON: [&str; 8] = ["the", "of", "and", "vol", "to", "in", "is", "that"];
const SYLLABLES: [&str; 16] = [
    "ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "par", "ser", "tin", "vol", "wen",
    "zar",
];

/// `SplitMix64`: random numbers that do not depend on the version of a library.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn word(&mut self) -> String {
        if self.below(3) == 0 {
            return COMMON[self.below(8) as usize].to_owned();
        }
        let syllables = 1 + self.below(3);
        (0..syllables)
            .map(|_| SYLLABLES[self.below(16) as usize])
            .collect()
    }

    fn lines(&mut self, count: u64) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let words: Vec<String> = (0..5 + self.below(7)).map(|_| self.word()).collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        text
    }

    fn words(&mut self, count: u64) -> String {
        (0..count).map(|_| self.word() + "\n").collect()
    }

    fn table(&mut self, count: u64) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let (key, a, b) = (self.word(), self.below(1000), self.below(1_000_000));
            let _ = writeln!(text, "{key} {a} {b}");
        }
        text
    }

    /// Functions that give a compiler enough work.
    fn tables_c(&mut self) -> String {
        let mut text = String::from("#include \"tables.h\"\n\n");
        for n in 0..FUNCTIONS {
            let [a, b, c] = [(); 3].map(|()| 3 + 2 * self.below(500));
            let _ = write!(
                text,
                "static unsigned long long f{n}(unsigned long long x)\n{{\n\
                 \tunsigned long long sum = {a};\n\
                 \tint i;\n\n\
                 \tfor (i = 0; i < 32; i++) {{\n\
                 \t\tif ((x >> i) & 1)\n\t\t\tsum = sum * {b} + x;\n\
                 \t\telse if (sum % {c} == 0)\n\t\t\tsum ^= x << (i & 7);\n\
                 \t\telse\n\t\t\tsum += (unsigned long long)i * {b};\n\
                 \t}}\n\treturn sum;\n}}\n\n"
            );
        }
        text.push_str("const struct table tables[] = {\n");
        for n in 0..FUNCTIONS {
            let _ = writeln!(text, "\t{{ \"f{n}\", f{n} }},");
        }
        text.push_str("\t{ 0, 0 }\n};\n");
        text
    }
}

/// Number of functions in `tables.c`.
const FUNCTIONS: u64 = 24;

const MAIN_C: &str = r#"#include <stdio.h>
#include "tables.h"

int main(void)
{
	unsigned long long hash = 5381, lines = 0;
	const struct table *t;
	int c;

	while ((c = getchar()) != EOF) {
		hash = hash * 33 + (unsigned long long)c;
		if (c == '\n')
			lines++;
	}
	printf("%llu lines, hash %llu\n", lines, hash);
	for (t = tables; t->name; t++)
		printf("%s %llu\n", t->name, t->of(hash));
	return 0;
}
"#;

const TABLES_H: &str = "struct table {\n\tconst char *name;\n\t\
    unsigned long long (*of)(unsigned long long);\n};\n\nextern const struct table tables[];\n";

const MAKEFILE: &str = "OBJECTS = main.o tables.o\n\nprogram: $(OBJECTS)\n\tcc -o program $(OBJECTS)\n\n\
    main.o: main.c tables.h\n\tcc -O1 -c main.c\n\n\
    tables.o: tables.c tables.h\n\tcc -O1 -c tables.c\n\n\
    clean:\n\trm -f program $(OBJECTS)\n\n.PHONY: clean\n";

/// Writes the corpus into `dir`, which exists.
pub fn write(dir: &Path) -> io::Result<()> {
    for part in 1..=PARTS {
        let mut draw = Draw(part);
        let dir = dir.join(part.to_string());
        let (src, tree) = (dir.join("src"), dir.join("tree"));
        fs::create_dir_all(&src)?;
        fs::write(dir.join("text"), draw.lines(500))?;
        fs::write(dir.join("words"), draw.words(1500))?;
        fs::write(dir.join("table"), draw.table(1000))?;
        fs::write(src.join("main.c"), MAIN_C)?;
        fs::write(src.join("tables.c"), draw.tables_c())?;
        fs::write(src.join("tables.h"), TABLES_H)?;
        fs::write(src.join("Makefile"), MAKEFILE)?;
        for d in 0..4 {
            let dir = tree.join(format!("d{d}"));
            fs::create_dir_all(&dir)?;
            for f in 0..6 {
                let lines = 10 + draw.below(60);
                fs::write(dir.join(format!("f{f}.txt")), draw.lines(lines))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of all files below, in blocks of 4 KiB, bytes.
    fn size(dir: &Path) -> u64 {
        let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
        let each = entries.map(|e| match e.metadata().unwrap() {
            m if m.is_dir() => 4096 + size(&e.path()),
            m => m.len().next_multiple_of(4096),
        });
        each.sum()
    }

    #[test]
    fn it_fits_into_what_is_asked_for_it_and_is_always_the_same() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in &dirs {
            write(dir.path()).unwrap();
        }
        let bytes = size(dirs[0].path());
        assert!((SIZE / 4..SIZE).contains(&bytes), "{bytes}");
        let read = |n: usize, name: &str| fs::read(dirs[n].path().join(name)).unwrap();
        for name in ["1/text", "4/src/tables.c", "2/tree/d3/f5.txt"] {
            assert_eq!(read(0, name), read(1, name), "{name}");
        }
        assert_ne!(read(0, "1/text"), read(0, "2/text"));
    }
}
