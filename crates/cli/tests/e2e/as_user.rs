//! What a user without privilege has, though layermark is root in the user's own namespace.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::common::{Lm, binary, needs_root};

const NOBODY: u32 = 65534;

/// Puts what looks like a kernel with the modules of `vm` below `root`.
fn pretend_kernel(root: &Path) {
    let (boot, modules) = (root.join("boot"), root.join("lib/modules/9.9.9-own"));
    fs::create_dir_all(&boot).expect("boot");
    fs::create_dir_all(&modules).expect("modules");
    let names = ["virtio_pci", "virtio_blk", "virtio_console", "ext4"];
    let list = names.map(|m| format!("kernel/{m}.ko:\n"));
    fs::write(modules.join("modules.dep"), list.concat()).expect("modules.dep");
    // Documentation/x86/boot.rst: the magic number, and where the version is written.
    let mut image = vec![0; 0x4000];
    image[0x202..][..4].copy_from_slice(b"HdrS");
    image[0x20e..][..2].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x300..][..9].copy_from_slice(b"9.9.9-own");
    fs::write(boot.join("vmlinuz-9.9.9-own"), image).expect("image");
}

/// What `layers vm` says to nobody where this machine has no kernel but the one in `home`.
fn layers(home: &Path, cache: Option<&str>) -> String {
    let hide = "mount -t tmpfs none /var/cache && mount -t tmpfs none /boot && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private", "sh", "-c", hide, "sh"])
        .args([
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
        ])
        .arg(home.join("layermark"))
        .args(["layers", "vm"])
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME")
        .envs(cache.map(|dir| ("XDG_CACHE_HOME", home.join(dir))));
    let output = command.output().expect("unshare");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_users_own_kernel_is_found() {
    if !needs_root() {
        return;
    }
    let home = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in("/var/tmp")
        .expect("a directory");
    let own = home.path().join("layermark");
    fs::copy(binary(), &own).expect("a copy that nobody may run");
    let lacks = layers(home.path(), None);
    assert!(lacks.contains("lacks a kernel for guests"), "{lacks}");
    for (dir, cache) in [(".cache", None), ("elsewhere", Some("elsewhere"))] {
        let kernels = home.path().join(dir).join("layermark/kernel");
        pretend_kernel(&kernels);
        for path in [&kernels, &kernels.join("boot")] {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("its own");
        }
        let found = layers(home.path(), cache);
        assert!(!found.contains("lacks"), "{dir}: {found}");
        fs::remove_dir_all(home.path().join(dir)).expect("removed");
    }
}

/// A hint opens nothing to all users.
#[test]
fn what_a_user_may_not_open_is_for_that_user_alone() {
    if !needs_root() {
        return;
    }
    let before = "touch fuse; chmod 600 fuse; mount --bind fuse /dev/fuse; \
        set -- setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let Some(lm) = Lm::new().args(["layers", "fuse"]).around(before, "") else {
        return;
    };
    let said = lm.run();
    let text = format!("{}{}", said.stdout, said.stderr);
    assert!(
        text.contains("sudo setfacl -m u:$USER:rw /dev/fuse"),
        "{text}"
    );
}
