//! Errors that say nothing of a file.

/// Whether this machine gives an error such as this one when it has no more descriptors, memory or processes, whatever the
/// file is. A server that stands below may give it too.
pub fn is_of_hosts(errno: i32) -> bool {
    const OF_HOST: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
    OF_HOST.contains(&errno)
}
