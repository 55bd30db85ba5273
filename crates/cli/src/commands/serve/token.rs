//! Access control by a random token, kept in a file that only the user can read.
//!
//! Because of the file, a bookmarked address still works after a restart of the server. A browser's
//! cookie holds another token, valid for one server process only.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use layermark_model::hex;
use rustix::{
    fs::OFlags,
    process::geteuid,
    rand::{GetRandomFlags, getrandom},
};

/// Length of a token: 128 bits as hexadecimal digits.
const LENGTH: usize = 32;

/// The token in the printed address.
pub struct Token(String);

impl Token {
    /// The user's token, created at first use. If it cannot be stored, each process has a new one.
    pub fn of_user() -> io::Result<Self> {
        let path = path();
        if let Some(kept) = path.as_deref().and_then(read) {
            return Ok(kept);
        }
        let token = Self::random()?;
        if let Some(path) = path {
            // If the file cannot be written, the token is valid until this process ends.
            let _ = token.write(&path);
        }
        Ok(token)
    }

    /// A new random token.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; LENGTH / 2];
        let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if got != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self(hex(bytes)))
    }

    /// Writes the file atomically, mode 0600.
    fn write(&self, path: &Path) -> io::Result<()> {
        let dir = path.parent().ok_or(io::ErrorKind::NotFound)?;
        fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(self.0.as_bytes())?;
        file.persist(path)?;
        Ok(())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so that timing reveals nothing about the token.
    pub fn is(&self, said: &str) -> bool {
        let (own, said) = (self.0.as_bytes(), said.as_bytes());
        let differ = own.iter().zip(said).fold(0, |all, (a, b)| all | (a ^ b));
        // Prevents the compiler from leaving the loop at the first difference.
        own.len() == said.len() && std::hint::black_box(differ) == 0
    }
}

/// Path of the token's file: next to the user's store.
fn path() -> Option<PathBuf> {
    let store = layermark_store::default_path().ok()?;
    Some(store.with_file_name("serve.token"))
}

/// Reads a token. Refuses a file that another user could have read or written.
fn read(path: &Path) -> Option<Token> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    let options = options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).ok()?;
    let about = file.metadata().ok()?;
    let private =
        about.is_file() && about.uid() == geteuid().as_raw() && about.mode() & 0o777 == 0o600;
    let mut text = String::new();
    file.take(LENGTH as u64 + 1)
        .read_to_string(&mut text)
        .ok()?;
    let whole = text.len() == LENGTH && text.bytes().all(|b| b.is_ascii_hexdigit());
    (private && whole).then_some(Token(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::random().unwrap();
        let text = token.as_str().to_owned();
        assert!(text.len() == LENGTH && token.is(&text));
        let other = Token::random().unwrap();
        assert!(!token.is(other.as_str()) && !token.is("") && !token.is(&text[1..]));
        assert!(
            !token.is(&format!("{text}0")) && !token.is(&text.to_uppercase().replace('0', "1"))
        );
    }

    #[test]
    fn a_kept_token_is_private_and_whole() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data/serve.token");
        assert!(read(&path).is_none());
        let token = Token::random().unwrap();
        token.write(&path).unwrap();
        assert_eq!(read(&path).unwrap().as_str(), token.as_str());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // A readable file, a link, or a truncated token is refused.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link).is_none());
        fs::write(&path, "0123").unwrap();
        assert!(read(&path).is_none());
    }
}
