//! The plan of a bulk action: stored with it as JSON, read by the worker that aggregates it.

use std::sync::Arc;

use fairlane_core::queue::{BulkRef, BulkView, Callback};
use fairlane_core::{JobId, Trace};
use serde::{Deserialize, Serialize};

/// What happens when a bulk action has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkPlan {
    /// The receiver to notify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackPlan>,
    /// The name of the fold that adds to the summary; every worker that aggregates must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// The fingerprint of the first line of the source of its jobs. Jobs without an id are known by
    /// their position in a source, so jobs of another source must not be mistaken for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The W3C `traceparent` that the bulk action was opened with; its callback joins that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// The target of a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackPlan {
    /// The http or https URL of the receiver.
    pub url: String,
}

impl BulkPlan {
    /// The plan as it is stored; empty for the default plan.
    pub fn to_bytes(&self) -> Arc<[u8]> {
        if *self == Self::default() {
            return Arc::from(&[][..]);
        }
        serde_json::to_vec(self).expect("strings are always JSON").into()
    }

    /// Reads the plan stored with a bulk action.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        if bytes.is_empty() { Ok(Self::default()) } else { serde_json::from_slice(bytes) }
    }
}

/// The callback of an ended bulk action, if its plan names a receiver.
pub(crate) fn callback(plan: &BulkPlan, view: &BulkView) -> Option<Callback> {
    let CallbackPlan { url } = plan.callback.as_ref()?;
    let BulkRef { group, id } = &view.bulk;
    let payload =
        serde_json::json!({ "url": url, "group": group.to_string(), "bulk": id.to_string() }).to_string();
    Some(Callback {
        id: JobId::new(callback_id(view)).expect("letters and digits are a name"),
        payload: payload.into_bytes().into(),
        // A callback without its trace is better than none.
        trace: plan.trace.as_deref().and_then(|trace| Trace::new(trace).ok()),
    })
}

/// The job id of a bulk action's callback. It is the same in every attempt and from every worker,
/// and differs for a later bulk action of the same name, opened after this one is removed.
pub fn callback_id(view: &BulkView) -> String {
    let BulkRef { group, id } = &view.bulk;
    let name = format!("{}\n{}\n{}", group.escaped(), id.escaped(), view.created_at.0);
    format!("bulk_{:032x}", fnv_128(name.as_bytes()))
}

/// FNV-1a with 128 bits: spreads names that are not chosen to collide, and is stable, unlike the
/// standard library's hasher.
fn fnv_128(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}
