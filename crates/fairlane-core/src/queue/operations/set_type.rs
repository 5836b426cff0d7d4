//! `set_type`: rate, concurrency, pause and retries of a type.

use serde::{Deserialize, Serialize};

use crate::limits::{ATTEMPTS_MAX, TYPES_MAX};
use crate::names::TypeId;
use crate::numbers::{Micros, within};
use crate::queue::{Downstream, Machine, TypePatch, TypeSettings};

use super::Invalid;
use super::set_group::{changed_bucket, valid_concurrency};

/// Changes a type, made if need be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetType {
    /// Which.
    pub type_id: TypeId,
    /// What changes.
    pub patch: TypePatch,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeSet {
    /// What holds now.
    Set(TypeSettings),
    /// There are as many types as there may be.
    TooManyTypes,
}

impl SetType {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        valid_concurrency(self.patch.concurrency)?;
        let retries = self.patch.max_retry_count.flatten().unwrap_or(0);
        within("max_retry_count", retries.into(), 0, ATTEMPTS_MAX.into())?;
        Ok(())
    }
}

impl Machine {
    /// Any change, also to what holds already, opens a type that a Retry-After has closed. A changed rate forgets all
    /// that refusals have taught: it is a new statement about the downstream.
    pub(in crate::queue) fn set_type(&mut self, command: SetType, now: Micros) -> TypeSet {
        let Some(key) = self.type_key(&command.type_id) else {
            debug_assert!(self.types_by_name.len() >= TYPES_MAX);
            return TypeSet::TooManyTypes;
        };
        let state = &mut self.types[key];
        let settings = command.patch.applied_to(&state.settings);
        let reopened = command.patch != TypePatch::default() && state.downstream.reopen(now);
        if settings == state.settings && !reopened {
            return TypeSet::Set(settings);
        }
        if settings.rate != state.settings.rate {
            state.downstream = Downstream::default();
        }
        changed_bucket(&mut state.bucket, state.settings.rate, settings.rate, now);
        state.settings = settings.clone();
        if state.is_active() || !state.ready.is_empty() {
            self.push_token(key);
        }
        TypeSet::Set(settings)
    }
}
