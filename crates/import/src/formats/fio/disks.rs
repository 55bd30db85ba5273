//! What fio's `disk_util` counted below its jobs, as a remark.

use serde::Deserialize;

use super::{FioJob, Side};
use crate::values::clean;

/// A block device below the files of the jobs: requests that reached it, of all programs.
#[derive(Deserialize)]
pub struct DiskUtil {
    #[serde(default)]
    name: String,
    #[serde(default)]
    read_ios: f64,
    #[serde(default)]
    write_ios: f64,
}

/// More devices than this are not named: fio lists the disks below a volume as well.
const NAMED: usize = 4;

/// How many requests of the jobs there were for each that a device counted. `None` without a device or a job.
pub fn remark(disks: &[DiskUtil], jobs: &[FioJob]) -> Option<String> {
    let made = |side: fn(&FioJob) -> &Option<Side>| -> f64 {
        let own = jobs.iter().filter(|job| !job.is_sum());
        let counts = own.filter_map(|job| Some(side(job).as_ref()?.total_ios));
        counts.filter(|n| n.is_finite() && *n > 0.0).sum()
    };
    let counted = |word: &str, made: f64, count: fn(&DiskUtil) -> f64| {
        let real = |n: f64| n.is_finite() && n >= 0.0;
        let devices = disks.iter().filter(|disk| real(count(disk))).take(NAMED);
        let devices: Vec<String> = devices
            .map(|disk| format!("{} at {}", count(disk), clean(&disk.name)))
            .collect();
        let any = made > 0.0 && !devices.is_empty();
        any.then(|| format!("{made} {word} of the jobs, {}", devices.join(" and ")))
    };
    let reads = counted("reads", made(|job| &job.read), |disk| disk.read_ios);
    let writes = counted("writes", made(|job| &job.write), |disk| disk.write_ios);
    let told: Vec<String> = reads.into_iter().chain(writes).collect();
    (!told.is_empty()).then(|| {
        format!(
            "{} (disk_util, which counts other programs as well; a request to a device may carry several of a job)",
            told.join("; ")
        )
    })
}
