//! How many connections the system allows: each takes a file descriptor, and others need some too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the engine, its files and its connections.
const FOR_OTHERS: u64 = 128;

/// As many connections as wanted, or as there can be; the process may open more files afterwards.
pub(super) fn connections_max(wanted: usize) -> usize {
    let needed = (wanted as u64).saturating_add(FOR_OTHERS);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        // A system that refuses leaves what there was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
    let allowed = bounded(wanted, getrlimit(Resource::Nofile).current);
    if allowed < wanted {
        tracing::warn!(
            target: "fairlane", wanted, allowed,
            "the system allows fewer open files than connections are wanted; raise its limit (ulimit -n, LimitNOFILE)"
        );
    }
    allowed
}

fn bounded(wanted: usize, files_max: Option<u64>) -> usize {
    let Some(files_max) = files_max else { return wanted };
    // A process with next to no files still serves somebody.
    let allowed = files_max.saturating_sub(FOR_OTHERS).max(files_max / 2).max(1);
    wanted.min(usize::try_from(allowed).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_bounds_the_connections() {
        assert_eq!(bounded(16_384, None), 16_384);
        assert_eq!(bounded(16_384, Some(1024)), 1024 - FOR_OTHERS as usize);
        assert_eq!(bounded(16_384, Some(100)), 50);
        assert_eq!(bounded(10, Some(1024)), 10);
        assert!(connections_max(10) == 10);
    }
}
