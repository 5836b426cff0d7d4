//! The gates that a job passes to be leased: the rates of the queue, the type and the group, and
//! the seats of the type and the group.
//!
//! A denial is a value: it determines how the lane or type is set aside and when to try again.

use crate::limits::PARK_MS_MAX;
use crate::numbers::Micros;
use crate::rate::{Flow, Rate};

use super::Machine;
use super::lane::{GroupKey, Standing, TypeKey};

/// How many jobs may pass, or when to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Jobs(u64),
    Denied { wake_at: Option<Micros> },
}

/// The gate of one requested type. Its flow stays constant during one lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypeGate {
    pub key: TypeKey,
    pub flow: Option<Flow>,
}

impl Machine {
    /// Refills a type's bucket up to now.
    pub(super) fn open_type_gate(&mut self, key: TypeKey, now: Micros) -> TypeGate {
        let state = &mut self.types[key];
        let flow = state.downstream.flow(state.settings.rate, now);
        if let Some(flow) = flow {
            state.bucket.refill(flow, now);
        }
        TypeGate { key, flow }
    }

    pub(super) fn open_queue_gate(&mut self, now: Micros) -> Option<Flow> {
        let flow = self.settings.rate.map(Rate::flow)?;
        self.bucket.refill(flow, now);
        Some(flow)
    }

    pub(super) fn queue_pass(&self, flow: Option<Flow>, asked: u64) -> Pass {
        let Some(flow) = flow else { return Pass::Jobs(u64::MAX) };
        match self.bucket.slots(flow) {
            0 => Pass::Denied { wake_at: Some(self.bucket.wake(flow, asked)) },
            slots => Pass::Jobs(slots),
        }
    }

    pub(super) fn type_pass(&self, gate: TypeGate, asked: u64, now: Micros) -> Pass {
        let state = &self.types[gate.key];
        if state.settings.paused {
            return Pass::Denied { wake_at: None };
        }
        let seats = state
            .settings
            .concurrency
            .map_or(u64::MAX, |most| u64::from(most).saturating_sub(state.in_flight));
        if seats == 0 {
            return Pass::Denied { wake_at: None };
        }
        let closed_until = state.downstream.closed_until;
        if now < closed_until {
            return Pass::Denied { wake_at: Some(closed_until.min(now.plus_ms(PARK_MS_MAX))) };
        }
        let Some(flow) = gate.flow else { return Pass::Jobs(seats) };
        match state.bucket.slots(flow) {
            0 => Pass::Denied { wake_at: Some(state.bucket.wake(flow, asked)) },
            slots => Pass::Jobs(seats.min(slots)),
        }
    }

    /// The number of jobs of a group that may pass, or how to park its lane.
    pub(super) fn group_pass(&mut self, key: GroupKey, asked: u64, now: Micros) -> Result<u64, Standing> {
        let group = &mut self.groups[key];
        if group.settings.paused {
            return Err(Standing::Paused);
        }
        let seats = group
            .settings
            .concurrency
            .map_or(u64::MAX, |most| u64::from(most).saturating_sub(group.in_flight));
        if seats == 0 {
            return Err(Standing::SeatParked);
        }
        let Some(flow) = group.settings.rate.map(Rate::flow) else { return Ok(seats) };
        group.bucket.refill(flow, now);
        match group.bucket.slots(flow) {
            0 => Err(Standing::RateParked(group.bucket.wake(flow, asked))),
            slots => Ok(seats.min(slots)),
        }
    }

    /// Charges `jobs` slots and seats to every gate.
    pub(super) fn charge_gates(
        &mut self,
        queue_flow: Option<Flow>,
        gate: TypeGate,
        group: GroupKey,
        jobs: u64,
    ) {
        if let Some(flow) = queue_flow {
            self.bucket.take(flow, jobs);
        }
        let state = &mut self.types[gate.key];
        if let Some(flow) = gate.flow {
            state.bucket.take(flow, jobs);
        }
        state.in_flight += jobs;
        let classic = self.is_classic();
        let counted = &mut self.groups[group];
        if let Some(rate) = counted.settings.rate.filter(|_| !classic) {
            counted.bucket.take(rate.flow(), jobs);
        }
        counted.in_flight += jobs;
        self.mark_dirty(group);
    }

    /// How to set aside a lane of this group, if the group is paused or has no free seat.
    pub(super) fn group_closed(&self, group: GroupKey) -> Option<Standing> {
        let group = &self.groups[group];
        if group.settings.paused {
            return Some(Standing::Paused);
        }
        let full = group.settings.concurrency.is_some_and(|most| group.in_flight >= u64::from(most));
        full.then_some(Standing::SeatParked)
    }

    /// Frees the seats of `jobs` jobs that are no longer in flight.
    pub(super) fn free_seats(&mut self, group: GroupKey, type_key: TypeKey, jobs: u64) {
        self.groups[group].in_flight -= jobs;
        self.mark_dirty(group);
        self.types[type_key].in_flight -= jobs;
    }
}
