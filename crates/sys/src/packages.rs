//! Names of packages, and the command that installs them on this system.

use std::{fs, sync::OnceLock};

/// How a distribution installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Debian,
    Fedora,
    Arch,
    Suse,
    Alpine,
}

/// Families by the names that distributions have in `os-release`.
const FAMILIES: &[(&str, Family)] = &[
    ("debian", Family::Debian),
    ("ubuntu", Family::Debian),
    ("fedora", Family::Fedora),
    ("rhel", Family::Fedora),
    ("centos", Family::Fedora),
    ("arch", Family::Arch),
    ("suse", Family::Suse),
    ("opensuse", Family::Suse),
    ("alpine", Family::Alpine),
];

/// Packages with other names than Debian's: Fedora, Arch, openSUSE, Alpine. `""`: it has no such package.
const NAMES: &[(&str, [&str; 4])] = &[
    ("apache2", ["httpd", "apache", "apache2", "apache2"]),
    ("apache2-bin", ["httpd", "apache", "apache2", "apache2"]),
    (
        "btrfs-progs",
        ["btrfs-progs", "btrfs-progs", "btrfsprogs", "btrfs-progs"],
    ),
    (
        "containernetworking-plugins",
        [
            "containernetworking-plugins",
            "cni-plugins",
            "cni-plugins",
            "cni-plugins",
        ],
    ),
    ("docker.io", ["docker", "docker", "docker", "docker"]),
    (
        "eatmydata",
        [
            "libeatmydata",
            "libeatmydata",
            "libeatmydata",
            "libeatmydata",
        ],
    ),
    (
        "libc6-dev",
        ["glibc-devel", "glibc", "glibc-devel", "musl-dev"],
    ),
    (
        "linux-image-amd64",
        ["kernel-core", "linux", "kernel-default", "linux-virt"],
    ),
    ("mawk", ["gawk", "gawk", "gawk", "gawk"]),
    ("nginx-light", ["nginx", "nginx", "nginx", "nginx"]),
    (
        "nfs-ganesha-vfs",
        ["nfs-ganesha-vfs", "", "nfs-ganesha-vfs", ""],
    ),
    (
        "openssh-client",
        [
            "openssh-clients",
            "openssh",
            "openssh-clients",
            "openssh-client",
        ],
    ),
    (
        "openssh-server",
        [
            "openssh-server",
            "openssh",
            "openssh-server",
            "openssh-server",
        ],
    ),
    (
        "postgresql",
        [
            "postgresql-server",
            "postgresql",
            "postgresql-server",
            "postgresql",
        ],
    ),
    // Debian alone keeps several servers beside each other.
    ("postgresql-common", ["", "", "", ""]),
    ("procps", ["procps-ng", "procps-ng", "procps", "procps-ng"]),
    ("python3", ["python3", "python", "python3", "python3"]),
    (
        "qemu-system-x86",
        [
            "qemu-system-x86",
            "qemu-system-x86",
            "qemu-x86",
            "qemu-system-x86_64",
        ],
    ),
    (
        "qemu-utils",
        ["qemu-img", "qemu-img", "qemu-img", "qemu-img"],
    ),
    ("redis-server", ["redis", "redis", "redis", "redis"]),
    ("redis-tools", ["redis", "redis", "redis", "redis"]),
    ("runsc", ["", "", "", ""]),
    (
        "samba-common-bin",
        ["samba-common-tools", "samba", "samba", "samba-common-tools"],
    ),
    ("sqlite3", ["sqlite", "sqlite", "sqlite3", "sqlite"]),
    (
        "squashfs-tools",
        [
            "squashfs-tools",
            "squashfs-tools",
            "squashfs",
            "squashfs-tools",
        ],
    ),
    ("sshfs", ["fuse-sshfs", "sshfs", "sshfs", "sshfs"]),
    (
        "systemd-container",
        ["systemd-container", "systemd", "systemd-container", ""],
    ),
    (
        "virtiofsd",
        ["virtiofsd", "virtiofsd", "virtiofsd", "virtiofsd"],
    ),
    (
        "xfonts-base",
        [
            "xorg-x11-fonts-misc",
            "xorg-fonts-misc",
            "xorg-x11-fonts",
            "font-misc-misc",
        ],
    ),
    (
        "xvfb",
        [
            "xorg-x11-server-Xvfb",
            "xorg-server-xvfb",
            "xorg-x11-server-Xvfb",
            "xvfb",
        ],
    ),
];

impl Family {
    /// From the text of `os-release`: the distribution, or the nearest that it says it is like.
    fn of(os_release: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = os_release.lines();
            let value = lines.find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
            Some(value.trim().trim_matches(['"', '\'']))
        };
        let names = ["ID", "ID_LIKE"].into_iter().filter_map(value);
        let mut names = names.flat_map(str::split_whitespace);
        names.find_map(|name| {
            // `opensuse-leap`, `opensuse-tumbleweed`.
            let name = name.split('-').next().unwrap_or(name);
            let found = FAMILIES.iter().find(|(known, _)| *known == name);
            found.map(|(_, family)| *family)
        })
    }

    /// Debian's package under the name that it has here. `None`: there is none.
    fn name(self, package: &str) -> Option<&str> {
        let known = NAMES.iter().find(|(debian, _)| *debian == package);
        let other = |at: usize| known.map_or(package, |(_, names)| names[at]);
        let name = match self {
            Self::Debian => package,
            Self::Fedora => other(0),
            Self::Arch => other(1),
            Self::Suse => other(2),
            Self::Alpine => other(3),
        };
        (!name.is_empty()).then_some(name)
    }

    fn command(self) -> &'static str {
        match self {
            Self::Debian => "apt-get install",
            Self::Fedora => "dnf install",
            Self::Arch => "pacman -S",
            Self::Suse => "zypper install",
            Self::Alpine => "apk add",
        }
    }
}

/// The command that installs these packages here. They have Debian's names, separated by blanks.
pub fn install(packages: &str) -> String {
    install_on(here(), packages).unwrap_or_else(|words| words)
}

fn here() -> Option<Family> {
    static HERE: OnceLock<Option<Family>> = OnceLock::new();
    *HERE.get_or_init(|| {
        // os-release(5) has this order.
        let files = ["/etc/os-release", "/usr/lib/os-release"];
        let text = files.iter().find_map(|file| fs::read_to_string(file).ok());
        Family::of(&text.unwrap_or_default())
    })
}

/// The same as root, by sudo(8).
pub fn sudo_install(packages: &str) -> String {
    as_root(install_on(here(), packages))
}

fn as_root(command: Result<String, String>) -> String {
    command.map_or_else(|words| words, |command| format!("sudo {command}"))
}

/// The command, or in words what to install where no command is known.
fn install_on(family: Option<Family>, packages: &str) -> Result<String, String> {
    let Some(family) = family else {
        let may = if packages.contains(' ') {
            "their packages may have other names here"
        } else {
            "its package may have another name here"
        };
        return Err(format!("install {packages}; {may}"));
    };
    let mut names = Vec::new();
    for package in packages.split_whitespace() {
        let name = family.name(package);
        names.push(
            name.ok_or_else(|| {
                format!("install {package}; this distribution has no package of it")
            })?,
        );
    }
    names.dedup();
    Ok(format!("{} {}", family.command(), names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn says(os_release: &str, packages: &str, command: &str) {
        let found = install_on(Family::of(os_release), packages);
        assert_eq!(found.as_deref(), Ok(command));
    }

    const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nID=debian\n";
    const ROCKY: &str = "NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n";
    const ARCH: &str = "NAME=\"Arch Linux\"\nID=arch\n";
    const LEAP: &str = "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n";
    const ALPINE: &str = "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.22\n";

    #[test]
    fn debian_and_what_is_like_it_have_apt() {
        says(DEBIAN, "strace", "apt-get install strace");
        let mint = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        says(mint, "gcc libc6-dev", "apt-get install gcc libc6-dev");
        says("ID=ubuntu\n", "sshfs", "apt-get install sshfs");
    }

    #[test]
    fn fedora_and_what_is_like_it_have_dnf() {
        says("ID=fedora\n", "sshfs", "dnf install fuse-sshfs");
        says(ROCKY, "qemu-utils", "dnf install qemu-img");
        says(ROCKY, "gcc libc6-dev", "dnf install gcc glibc-devel");
    }

    #[test]
    fn arch_and_what_is_like_it_have_pacman() {
        says(ARCH, "openssh-server openssh-client", "pacman -S openssh");
        says(
            "ID=manjaro\nID_LIKE=arch\n",
            "xvfb",
            "pacman -S xorg-server-xvfb",
        );
    }

    #[test]
    fn suse_has_zypper() {
        says(LEAP, "btrfs-progs", "zypper install btrfsprogs");
        says(
            "ID=opensuse-tumbleweed\n",
            "strace",
            "zypper install strace",
        );
        says(
            "ID=sles\nID_LIKE=suse\n",
            "apache2",
            "zypper install apache2",
        );
    }

    #[test]
    fn alpine_has_apk() {
        says(ALPINE, "qemu-system-x86", "apk add qemu-system-x86_64");
        says(ALPINE, "gcc libc6-dev", "apk add gcc musl-dev");
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let words = |os_release: &str, packages: &str| {
            let found = install_on(Family::of(os_release), packages);
            assert_eq!(as_root(found.clone()), found.clone().unwrap_err());
            found.unwrap_err()
        };
        let strace = "install strace; its package may have another name here";
        for text in ["", "ID=nixos\n", "no lines = of it\nID", "ID_LIKE=\n"] {
            assert_eq!(words(text, "strace"), strace);
        }
        let both = "install gcc make; their packages may have other names here";
        assert_eq!(words("", "gcc make"), both);
        // It is known that there is none, whatever it is called.
        let none = "install systemd-container; this distribution has no package of it";
        assert_eq!(words(ALPINE, "strace systemd-container"), none);
        let strace = install_on(Family::of(DEBIAN), "strace");
        assert_eq!(as_root(strace), "sudo apt-get install strace");
    }
}
