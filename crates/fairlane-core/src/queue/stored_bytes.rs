//! Counts of stored bytes: payloads and notes of jobs, finished ones included, and payloads and
//! summaries of bulk actions.
//!
//! Bytes are added in the step that stores them and subtracted in the step that removes them.
//! Left out on purpose: the overhead of a job, such as its names, which the limits on the
//! number of jobs bound.

use std::sync::Arc;

use crate::names::GroupId;

use super::Machine;
use super::bulk::Bulk;
use super::job::{Job, JobKey, Run};
use super::lane::GroupKey;
use super::ops::Refusal;

impl Job {
    /// Bytes of the job's payload and note.
    pub fn stored_bytes(&self) -> u64 {
        let note = self.run.as_ref().map_or(0, |run| run.note.len());
        (self.payload.len() + note) as u64
    }
}

impl Bulk {
    /// Bytes of the bulk action's payload and summary.
    pub fn stored_bytes(&self) -> u64 {
        (self.payload.len() + self.summary.len()) as u64
    }
}

impl Machine {
    /// Adds stored bytes of a group.
    pub(super) fn add_bytes(&mut self, group: GroupKey, bytes: u64) {
        self.stored_bytes += bytes;
        self.groups[group].stored_bytes += bytes;
    }

    /// Subtracts removed bytes of a group.
    pub(super) fn subtract_bytes(&mut self, group: GroupKey, bytes: u64) {
        self.stored_bytes = self.stored_bytes.strict_sub(bytes);
        let counted = &mut self.groups[group].stored_bytes;
        *counted = counted.strict_sub(bytes);
    }

    /// Replaces the result or reason of a job.
    pub(super) fn set_note(&mut self, key: JobKey, note: Arc<[u8]>) {
        let job = &mut self.jobs[key];
        let (group, before) = (job.group, job.stored_bytes());
        job.run.get_or_insert_with(Run::none).note = note;
        let after = job.stored_bytes();
        self.add_bytes(group, after);
        self.subtract_bytes(group, before);
    }

    /// Why a payload of this group is refused: a limit on stored bytes is reached. An empty payload
    /// is never refused.
    pub(super) fn bytes_refusal(&self, group: &GroupId, payload: &[u8]) -> Option<Refusal> {
        if payload.is_empty() {
            return None;
        }
        if self.stored_bytes >= self.settings.stored_bytes_max {
            return Some(Refusal::QueueBytesFull);
        }
        let of_group = self.groups_by_name.get(group).map_or(0, |&key| self.groups[key].stored_bytes);
        (of_group >= self.settings.group_stored_bytes_max).then_some(Refusal::GroupBytesFull)
    }
}
