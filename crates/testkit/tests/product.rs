//! What is made for tests is not in the binary that users build.

use std::process::Command;

/// What cargo builds `layermark` from, and the features that each crate gets.
fn built_from(edges: &str) -> String {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--package", "layermark", "--edges", edges])
        .args(["--prefix", "none", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(out.stdout).unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "cargo tree: {said}");
    assert!(tree.contains("layermark-layers feature"), "{tree}");
    tree
}

#[test]
fn the_binary_has_no_made_up_numbers() {
    const MADE_UP: [&str; 2] = ["layermark-testkit", "layermark-layers feature \"mock\""];
    let product = built_from("features,normal");
    for made_up in MADE_UP {
        assert!(!product.contains(made_up), "{made_up} is in the binary");
    }
    let tested = built_from("features,normal,dev");
    assert!(tested.contains(MADE_UP[1]), "tests have the mock layer");
}
