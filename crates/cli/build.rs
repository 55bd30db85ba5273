//! Makes the linker leave out what the release binary does not need, and relocations at the start of binaries of tests.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if var("TARGET").is_ok_and(|target| target != "x86_64-unknown-linux-gnu") {
        return;
    }
    // lld, with which rustc links for this target.
    if var("PROFILE").is_ok_and(|profile| profile == "release") {
        // Functions with the same code are one, and relocations of a static-pie are a bitmap.
        for flag in ["--icf=all", "-z,pack-relative-relocs"] {
            println!("cargo:rustc-link-arg-bins=-Wl,{flag}");
        }
    } else if var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|all| all.split(',').any(|one| one == "crt-static"))
    {
        // Tests start it some 25,000 times. Position-independent, it has 310,000 relocations before `main`, for which the
        // kernel copies 900 pages: half of the time of a start. Test programs are linked alike.
        for flag in ["-static", "-no-pie"] {
            println!("cargo:rustc-link-arg={flag}");
        }
    }
}
