//! Standard input, output and error that are files of the recorded tree (`sort < data > out`): a program that is repeated
//! has those of the copy. With a pipe in their place it makes other calls: cat(1) copies from file to file at once.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek as _, SeekFrom},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::OpenOptionsExt,
    },
    path::Path,
};

use layermark_recording::strace::OpenFile;
use rustix::fs::OFlags;

/// Files that were open in a tree, in a copy of it.
pub fn in_copy(files: &[OpenFile], root: &Path, copy: &Path) -> Vec<OpenFile> {
    let files = files.iter().filter_map(|file| {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let path = copy.join(path.strip_prefix(root).ok()?);
        Some(OpenFile {
            path: path.into_os_string().into_vec(),
            ..file.clone()
        })
    });
    files.collect()
}

/// Opens them as they were open, by their descriptors; `None` of those that are none of these files.
pub fn open(files: &[OpenFile]) -> io::Result<[Option<File>; 3]> {
    let mut all = [None, None, None];
    for file in files {
        let first = file.same_as.and_then(|(_, first)| all.get(first as usize));
        let opened = match first {
            // One position, as of `> out 2>&1`.
            Some(Some(first)) => File::try_clone(first)?,
            _ => open_again(file)?,
        };
        if let Some(place) = all.get_mut(file.descriptor as usize) {
            *place = Some(opened);
        }
    }
    Ok(all)
}

fn open_again(file: &OpenFile) -> io::Result<File> {
    let has = |flag: &str| file.flags.split('|').any(|own| own == flag);
    let writes = has("O_WRONLY") || has("O_RDWR");
    let mut opened = File::options()
        .read(!has("O_WRONLY"))
        .write(writes)
        .append(writes && has("O_APPEND"))
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(OsStr::from_bytes(&file.path))?;
    if file.position > 0 {
        opened.seek(SeekFrom::Start(file.position))?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Read as _, Write as _},
    };

    use super::*;

    #[test]
    fn files_are_open_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("in"), "12345").unwrap();
        fs::write(dir.path().join("out"), "old ").unwrap();
        let file = |descriptor, name: &str, flags: &str, position| OpenFile {
            descriptor,
            same_as: None,
            path: format!("/tree/{name}").into_bytes(),
            flags: flags.into(),
            position,
        };
        let mut files = vec![
            file(0, "in", "O_RDONLY|O_LARGEFILE", 3),
            file(1, "out", "O_WRONLY|O_APPEND", 0),
            file(2, "out", "O_WRONLY|O_APPEND", 0),
        ];
        files[2].same_as = Some((7, 1));
        let files = in_copy(&files, Path::new("/tree"), dir.path());
        let [input, out, err] = open(&files).unwrap().map(Option::unwrap);
        let mut text = String::new();
        let (mut input, mut out, mut err) = (input, out, err);
        input.read_to_string(&mut text).unwrap();
        out.write_all(b"and ").unwrap();
        err.write_all(b"new").unwrap();
        assert_eq!(text, "45");
        let text = fs::read_to_string(dir.path().join("out")).unwrap();
        assert_eq!(text, "old and new");
        let none = open(&files[1..2]).unwrap().map(|file| file.is_some());
        assert_eq!(none, [false, true, false]);
        fs::remove_file(dir.path().join("in")).unwrap();
        assert!(open(&files).is_err());
    }
}
