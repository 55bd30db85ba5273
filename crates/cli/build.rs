//! Makes the linker leave out what the release binary does not need.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // lld, with which rustc links for this target.
    if var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu")
        && var("PROFILE").is_ok_and(|profile| profile == "release")
    {
        // Functions with the same code are one, and relocations of a static-pie are a bitmap.
        for flag in ["--icf=all", "-z,pack-relative-relocs"] {
            println!("cargo:rustc-link-arg-bins=-Wl,{flag}");
        }
    }
}
