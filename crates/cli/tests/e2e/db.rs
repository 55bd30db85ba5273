//! `layermark db`: where a database should live.

use crate::common::{Lm, needs_root};

#[test]
fn the_answer_shows_commits_a_second_and_flushes_a_commit() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args(["db", "--op", "commit", "--journal", "wal"])
        .args(["-l", "overlay:upper", "--blocks", "2", "--sessions", "1"])
        .args(["--dir"])
        .args([work])
        .run()
        .left_nothing();
    for head in ["commits/s", "p99", "flushes a commit"] {
        assert!(said.stdout.contains(head), "{head}: {}", said.stdout);
    }
}
