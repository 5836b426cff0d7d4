//! Which groups have jobs, and the congestion records of those that do.

use crate::congestion::Backoff;
use crate::numbers::Micros;

use super::Machine;
use super::job::{End, JobKey};
use super::lane::{GroupKey, Record, Snapshot, TypeKey};
use super::ops::Ended;
use super::settings::Discipline;

impl Machine {
    /// Adds `jobs` to the backlog: the unfinished jobs that are not in flight.
    pub(super) fn count_backlog(&mut self, group: GroupKey, jobs: i64) {
        self.backlog = self.backlog.strict_add_signed(jobs);
        let counted = &mut self.groups[group].backlog;
        *counted = counted.strict_add_signed(jobs);
        self.mark_dirty(group);
    }

    /// Marks a group for `note_activity` because its counts have changed.
    pub(super) fn mark_dirty(&mut self, group: GroupKey) {
        if self.dirty_groups.last() != Some(&group) {
            self.dirty_groups.push(group);
        }
    }

    /// Runs after each command: moves groups within the index of large groups, and handles groups
    /// that got their first job and groups that have no jobs left.
    pub(super) fn note_activity(&mut self) {
        for key in std::mem::take(&mut self.dirty_groups) {
            if self.groups.get(key).is_none() {
                continue;
            }
            self.index_group(key);
            let group = &self.groups[key];
            let active = group.backlog + group.in_flight > 0;
            if active == group.active {
                continue;
            }
            let group = &mut self.groups[key];
            group.active = active;
            if active {
                self.active_groups.insert(group.name.clone());
            } else {
                group.record = Record::default();
                self.active_groups.remove(&group.name);
                self.watch_idle(key);
            }
        }
    }

    /// Forgets a group's congestion record; its jobs and their counts stay.
    pub(super) fn forget_congestion(&mut self, group: GroupKey) {
        let record = &mut self.groups[group].record;
        (record.throttles, record.throttles_since) = (0, record.done);
        (record.noted, record.backoff_ms) = (0, 0);
        record.history.clear();
    }

    /// Writes a snapshot of a group that was just refused, at most one per second.
    pub(super) fn note_congestion(&mut self, group: GroupKey, backoff: Backoff) {
        if !self.settings.congestion.enabled {
            return;
        }
        let base_ms = self.settings.congestion.base_backoff_ms;
        self.saved_spins += (backoff.backoff_ms / base_ms).saturating_sub(1);
        let (now, kept) = (self.now, self.settings.congestion.history_max() as usize);
        let second = now.as_millis() / 1000;
        let record = &mut self.groups[group].record;
        record.backoff_ms = backoff.backoff_ms;
        if record.noted == second {
            return;
        }
        record.noted = second;
        let Backoff { backoff_ms, waiting, speed, .. } = backoff;
        record.history.push_back(Snapshot { at: now, waiting, speed, backoff_ms });
        while record.history.len() > kept {
            record.history.pop_front();
        }
    }

    /// The predicted backoff of a group that was just refused in `share`: its jobs divided by its
    /// rate, or by the type's responses of the last second.
    pub(super) fn predicted_backoff(&self, group: GroupKey, type_key: TypeKey) -> Backoff {
        let group = &self.groups[group];
        let answered = || self.types[type_key].downstream.answers(self.now);
        let speed = group.settings.rate.map_or_else(answered, |rate| rate.milli_per_second() / 1000);
        Backoff::calculate(group.backlog, speed, &self.settings.congestion)
    }

    /// Jobs per second that each active group may have in `classic`: an equal part of the queue's
    /// rate, at least 1.
    pub(super) fn group_speed(&self) -> u64 {
        (self.settings.global_rps / (self.active_groups.len() as u64).max(1)).max(1)
    }

    /// Counts the end of a job, once. The caller sets the job's place.
    pub(super) fn count_end(&mut self, key: JobKey, end: End, ended: &mut Ended) {
        let job = &self.jobs[key];
        let (group, bulk) = (job.group, job.bulk);
        let throttles = job.run.as_ref().map_or(0, |run| run.throttles);
        let record = &mut self.groups[group].record;
        record.done += 1;
        record.throttles += u64::from(throttles);
        match end {
            End::Succeeded => self.succeeded_total += 1,
            End::Failed => self.dead_total += 1,
            End::Cancelled => {}
        }
        self.mark_dirty(group);
        if let Some(number) = bulk {
            self.bulk_counts(number, end);
            ended.review(number);
        }
    }

    /// Files an ended job with its bulk action, or with the finished jobs that have none.
    pub(super) fn file_end(&mut self, key: JobKey, end: End, ended: &mut Ended) {
        if end != End::Failed {
            self.leave_type(self.jobs[key].type_key);
        }
        let job = &self.jobs[key];
        ended.filed += 1;
        if let Some(number) = job.bulk.filter(|number| self.bulks.contains_key(number)) {
            ended.file(number, job.id.clone());
        } else if end != End::Failed {
            ended.completed.push(key);
        }
        if end == End::Failed {
            let entry = (self.now, self.full_name(key));
            self.dead.insert(entry, key);
        }
    }

    /// `group:id`, the sort key of a job where jobs are sorted by name.
    pub(super) fn full_name(&self, key: JobKey) -> Box<str> {
        let job = &self.jobs[key];
        format!("{}:{}", self.groups[job.group].name.escaped(), job.id.escaped()).into()
    }

    /// Whether the discipline is `classic`.
    pub(super) fn is_classic(&self) -> bool {
        self.settings.discipline == Discipline::Classic
    }

    /// The second that contains an instant.
    pub(super) fn second(now: Micros) -> u64 {
        now.as_millis() / 1000
    }
}
