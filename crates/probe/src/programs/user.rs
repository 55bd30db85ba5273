//! The user that runs a program. Servers such as databases refuse to run as root.

use std::fs;

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
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && in_map(&map, uid)
}

/// Lines of first id here, first id outside, and number of ids (`user_namespaces(7)`).
fn in_map(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        let uid = u64::from(uid);
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&uid))
    })
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

    #[test]
    fn a_namespace_has_its_own_numbers() {
        let (all, own) = ("         0          0 4294967295\n", "0 1000 1\n");
        assert!(in_map(all, 65534) && in_map(own, 0));
        assert!(!in_map(own, 65534) && !in_map("", 0));
    }
}
