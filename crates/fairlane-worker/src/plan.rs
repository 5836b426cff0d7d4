//! What the opener of a bulk action asked for: kept with it as JSON, read by whoever aggregates it.

use std::sync::Arc;

use fairlane_core::queue::{BulkRef, BulkView};
use serde::{Deserialize, Serialize};

/// The type of the jobs that deliver callbacks.
pub const CALLBACK_TYPE: &str = "fairlane-callback";

/// What is to be done when a bulk action has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkPlan {
    /// Whom to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackPlan>,
    /// The fold that adds to its summary; every worker that aggregates must know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// What the source of its jobs begins with, as a fingerprint: jobs that are known by their position in one source
    /// must not be taken for those of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The W3C `traceparent` it was opened in; its callback belongs to the same trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Where a callback goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackPlan {
    /// An http or https address.
    pub url: String,
}

impl BulkPlan {
    /// As it is kept; empty if nothing was asked for.
    pub fn to_bytes(&self) -> Arc<[u8]> {
        if *self == Self::default() {
            return Arc::from(&[][..]);
        }
        serde_json::to_vec(self).expect("strings are always JSON").into()
    }

    /// Reads what is kept with a bulk action.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        if bytes.is_empty() { Ok(Self::default()) } else { serde_json::from_slice(bytes) }
    }
}

/// The id of a bulk action's callback: the same in every attempt and from every worker, and another one for a
/// bulk action of the same name that is opened after this one is forgotten.
pub fn callback_id(view: &BulkView) -> String {
    let BulkRef { group, id } = &view.bulk;
    let name = format!("{}\n{}\n{}", group.escaped(), id.escaped(), view.created_at.0);
    format!("bulk_{:032x}", fnv_128(name.as_bytes()))
}

/// FNV-1a with 128 bits: spreads names that are not chosen to collide; a stable function, unlike the
/// standard library's hasher.
fn fnv_128(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}
