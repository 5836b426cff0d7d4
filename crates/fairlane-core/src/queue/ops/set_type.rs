//! `set_type`: changes rate, concurrency, pause and retries of a type.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::ATTEMPTS_MAX;
use crate::names::TypeId;
use crate::numbers::{Micros, within};
use crate::queue::{Downstream, Machine, TypePatch, TypeSettings};

use super::set_group::valid_concurrency;

/// Changes a type; creates it if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetType {
    /// The type to change.
    pub type_id: TypeId,
    /// The settings to change.
    pub patch: TypePatch,
}

/// The reply to [`SetType`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeSet {
    /// The settings after the change.
    Set(TypeSettings),
    /// The type is new, and the queue has reached the limit on types.
    TooManyTypes,
}

impl Operation for SetType {
    type Machine = Machine;
    type Reply = TypeSet;

    const STEM: &'static str = "set_type";

    fn validate(&self) -> Result<(), Invalid> {
        valid_concurrency(self.patch.concurrency)?;
        let retries = self.patch.max_retry_count.flatten().unwrap_or(0);
        within("max_retry_count", retries.into(), 0, ATTEMPTS_MAX.into())?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        // An empty patch adds the type and changes nothing, as the first job of the type does.
        let is_empty = self.patch == TypePatch::default();
        Access::all_groups(if is_empty { Permission::Produce } else { Permission::Operate })
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> TypeSet {
        machine.set_type(self, context.now)
    }
}

impl Machine {
    /// Any patch that is not empty reopens a type that Retry-After has closed, even if it changes
    /// no value. A changed rate is a new statement about the downstream and discards the state
    /// learned from refusals.
    pub(in crate::queue) fn set_type(&mut self, command: SetType, now: Micros) -> TypeSet {
        let Some(key) = self.type_key(&command.type_id) else {
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
        state.bucket.change_rate(state.settings.rate, settings.rate, now);
        state.settings = settings.clone();
        if state.is_active() || !state.ready.is_empty() {
            self.push_token(key);
        }
        TypeSet::Set(settings)
    }
}
