//! Which groups have jobs, and what is recorded of them while they do.

use crate::congestion::Backoff;
use crate::numbers::Micros;

use super::Machine;
use super::job::{End, JobKey};
use super::lane::{GroupKey, Record, Snapshot, TypeKey};
use super::operations::Ended;
use super::settings::Discipline;

impl Machine {
    /// Adds to the jobs that are unfinished and not in flight.
    pub(super) fn count_backlog(&mut self, group: GroupKey, jobs: i64) {
        self.backlog = self.backlog.strict_add_signed(jobs);
        let counted = &mut self.groups[group].backlog;
        *counted = counted.strict_add_signed(jobs);
        self.stir(group);
    }

    /// A group's counts have changed.
    pub(super) fn stir(&mut self, group: GroupKey) {
        if self.stirred.last() != Some(&group) {
            self.stirred.push(group);
        }
    }

    /// After each command: groups that got their first job, and groups that have none left.
    pub(super) fn note_activity(&mut self) {
        for key in std::mem::take(&mut self.stirred) {
            let Some(group) = self.groups.get(key) else { continue };
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

    /// Forgets what is recorded of a group's congestion; its jobs stay and stay counted.
    pub(super) fn forget_congestion(&mut self, group: GroupKey) {
        let record = &mut self.groups[group].record;
        (record.throttles, record.throttles_since) = (0, record.done);
        (record.noted, record.backoff_ms) = (0, 0);
        record.history.clear();
    }

    /// Writes a snapshot of a group that was just refused, at most one a second.
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

    /// What a group that was just refused may expect in `share`: its jobs over what its rate allows, or over what
    /// the type has answered in the last second.
    pub(super) fn predicted_backoff(&self, group: GroupKey, type_key: TypeKey) -> Backoff {
        let group = &self.groups[group];
        let answered = || self.types[type_key].downstream.answers(self.now);
        let speed = group.settings.rate.map_or_else(answered, |rate| rate.milli_per_second() / 1000);
        Backoff::calculate(group.backlog, speed, &self.settings.congestion)
    }

    /// Jobs a second each active group is allowed in `classic`: an even part of the whole, at least 1.
    pub(super) fn group_speed(&self) -> u64 {
        (self.settings.global_rps / (self.active_groups.len() as u64).max(1)).max(1)
    }

    /// Counts a job's end, once; where it stands is the caller's to say.
    pub(super) fn count_end(&mut self, key: JobKey, end: End, ended: &mut Ended) {
        let job = &self.jobs[key];
        let (group, bulk) = (job.group, job.bulk);
        let throttles = job.run.as_ref().map_or(0, |run| run.throttles);
        let record = &mut self.groups[group].record;
        record.done += 1;
        record.throttles += u64::from(throttles);
        self.stir(group);
        if let Some(number) = bulk {
            self.bulk_counts(number, end);
            ended.review(number);
        }
    }

    /// Files a job that has ended with its bulk action, or among the finished jobs that have none.
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

    /// `group:id`, the name of a job where jobs are sorted by name.
    pub(super) fn full_name(&self, key: JobKey) -> Box<str> {
        let job = &self.jobs[key];
        format!("{}:{}", self.groups[job.group].name.escaped(), job.id.escaped()).into()
    }

    /// Whether the discipline is `classic`.
    pub(super) fn is_classic(&self) -> bool {
        self.settings.discipline == Discipline::Classic
    }

    /// The second a time lies in.
    pub(super) fn second(now: Micros) -> u64 {
        now.as_millis() / 1000
    }
}
