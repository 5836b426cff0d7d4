//! The key builder: the names of all keys.
//!
//! Scripts get the key of the partition and derive all others from it: they replace `partition`
//! after the prefix by another name. On a cluster, the prefix contains the partition's hash tag, so
//! that all keys share a slot. Names inside keys are escaped and never contain `:`.

use fairlane_core::{ProcessId, TypeId};

/// The prefix of all keys, unless another is set.
pub(super) const DEFAULT_PREFIX: &str = "bulk-action:";
const PARTITION: &str = "partition";
const TAG: &str = "{0}:";
/// The beginning of the channels of signals; the tag is that of the partition.
const SIGNALS: &str = "lock:release:{0}:";

/// The keys of one partition.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub fn new(prefix: &str, tagged: bool) -> Self {
        Self { prefix: if tagged { format!("{prefix}{TAG}") } else { prefix.to_owned() } }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The partition's own row, which is also the key that every script declares.
    pub fn partition(&self) -> String {
        format!("{}{PARTITION}", self.prefix)
    }

    /// A key that is written and removed again to test the user's permissions.
    pub fn probe(&self) -> String {
        format!("{}probe", self.prefix)
    }

    /// A field of [`Keys::in_flight`] that is not a job: names of jobs contain a colon.
    pub const WIDENER: &str = "-";

    /// The hash with the state of leased jobs.
    pub fn in_flight(&self) -> String {
        format!("{}in-flight", self.prefix)
    }

    /// The channels of all signals, as a pattern of an access control list.
    pub const SIGNAL_CHANNELS: &str = "lock:release:*";

    /// The channel of the signals to a process. It has no prefix, because a process id is unique.
    pub fn signals_to(process: &ProcessId) -> String {
        format!("{SIGNALS}{}", process.escaped())
    }

    /// The process of a channel of signals.
    pub fn process_of(channel: &str) -> Option<ProcessId> {
        ProcessId::from_escaped(channel.strip_prefix(SIGNALS)?).ok()
    }

    /// The list of wake-up tokens of a type.
    pub fn wake(&self, type_id: &TypeId) -> String {
        format!("{}wake:{}", self.prefix, type_id.escaped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Erratum Q34.
    #[test]
    fn keys_on_a_cluster_share_one_hash_tag_and_keys_elsewhere_carry_none() {
        let mail = TypeId::new("mail").unwrap();
        let tagged = Keys::new("bulk-action:", true);
        assert_eq!(tagged.partition(), "bulk-action:{0}:partition");
        assert_eq!(tagged.wake(&mail), "bulk-action:{0}:wake:mail");
        assert_eq!(Keys::new("bulk-action:", false).wake(&mail), "bulk-action:wake:mail");
    }
}
