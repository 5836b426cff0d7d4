//! The number of connections that the operating system allows: each takes a file descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for the engine, its files and its connections.
const RESERVED: u64 = 128;

/// The number of connections wanted, or the largest possible one. Raises the limit of open files of
/// the process.
pub(super) fn connections_max(wanted: usize) -> usize {
    let needed = (wanted as u64).saturating_add(RESERVED);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        // If the system refuses, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
    let allowed = bounded(wanted, getrlimit(Resource::Nofile).current);
    if allowed < wanted {
        tracing::warn!(
            target: "fairlane", wanted, allowed,
            "the limit of open files is lower than connections_max; raise it (ulimit -n, LimitNOFILE)"
        );
    }
    allowed
}

fn bounded(wanted: usize, files_max: Option<u64>) -> usize {
    let Some(files_max) = files_max else { return wanted };
    // If the limit is very low, half of it is used for connections.
    let allowed = files_max.saturating_sub(RESERVED).max(files_max / 2).max(1);
    wanted.min(usize::try_from(allowed).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_bounds_the_connections() {
        assert_eq!(bounded(16_384, None), 16_384);
        assert_eq!(bounded(16_384, Some(1024)), 1024 - RESERVED as usize);
        assert_eq!(bounded(16_384, Some(100)), 50);
        assert_eq!(bounded(10, Some(1024)), 10);
        assert!(connections_max(10) == 10);
    }
}
