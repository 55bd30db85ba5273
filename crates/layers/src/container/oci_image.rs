//! An image as a directory of files (OCI Image Layout 1.0). podman starts a container from it at once. To import an
//! image, podman would have to be started twice.

use std::{env::consts::ARCH, fs, io, path::Path};

use layermark_model::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Below the layout; the file names are the hashes.
const BLOBS: &str = "blobs/sha256";

/// Makes an image of one layer, `tar`, in `dir`, which it makes too.
pub(super) fn write(dir: &Path, tar: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir.join(BLOBS))?;
    let kind = |name: &str| format!("application/vnd.oci.image.{name}");
    let layer = blob(dir, &kind("layer.v1.tar"), tar)?;
    // As Go names them.
    let architecture = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = blob(dir, &kind("config.v1+json"), config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind("manifest.v1+json"),
        "config": config,
        "layers": [layer],
    });
    let manifest = manifest.to_string();
    let manifest = blob(dir, &kind("manifest.v1+json"), manifest.as_bytes())?;
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(dir.join("index.json"), index.to_string())?;
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
}

/// Stores it under its hash; its descriptor.
fn blob(dir: &Path, kind: &str, bytes: &[u8]) -> io::Result<Value> {
    let hash = hex(Sha256::digest(bytes));
    fs::write(dir.join(BLOBS).join(&hash), bytes)?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
}
