//! The user that runs a program. Servers such as databases refuse to run as root.

use std::fs;

use layermark_sys::users::UidMap;

/// Ids of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Reads a name of `/etc/passwd`, or `UID:GID`. The C library would ask name services for which a
/// static program has no code.
pub fn find(name: &str) -> Result<User, String> {
    if let Some((uid, gid)) = name.split_once(':')
        && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
    {
        return Ok(User { uid, gid });
    }
    let text = fs::read_to_string("/etc/passwd").map_err(|e| format!("/etc/passwd: {e}"))?;
    listed(&text, name).ok_or_else(|| "no such user in /etc/passwd".to_owned())
}

/// `name:password:UID:GID:...` (passwd(5)).
fn listed(text: &str, name: &str) -> Option<User> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [listed, _, uid, gid, ..] = fields.as_slice() else {
            return None;
        };
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        (*listed == name).then_some(User { uid, gid })
    })
}

/// Whether this process may become `uid`: it is root, and its user namespace maps that id.
pub fn mapped(uid: u32) -> bool {
    rustix::process::geteuid().is_root() && UidMap::own().is_ok_and(|map| map.has(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken\nbob:x:1000:1001::/:/bin/sh\n";
        let bob = User {
            uid: 1000,
            gid: 1001,
        };
        assert_eq!(listed(text, "bob"), Some(bob));
        assert_eq!(listed(text, "broken"), None);
        assert_eq!(find("1000:1001"), Ok(bob));
        assert_eq!(find("root"), Ok(User { uid: 0, gid: 0 }));
        assert!(find("nobody-of-that-name").is_err());
    }
}
