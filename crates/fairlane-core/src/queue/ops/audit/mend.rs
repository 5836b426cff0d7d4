//! The repairs. The machine keeps a job's place with the job, so most faults are in
//! counts and lanes.

use crate::limits::AUDIT_LEASE_MS;
use crate::queue::Machine;
use crate::queue::job::{End, JobKey, Place};
use crate::queue::lane::{Entry, GroupKey, LaneKey, Standing};

use super::super::Ended;
use super::{Fault, Finding, Suspect};

impl Machine {
    /// Repairs a fault; returns false if it cannot be repaired.
    pub(super) fn mend(&mut self, finding: &Finding) -> bool {
        let counted = finding.counted as u64;
        match &finding.suspect {
            Suspect::Group(name) | Suspect::Backlog(name) => {
                let Some(&key) = self.groups_by_name.get(name) else { return false };
                self.mend_group(key, finding)
            }
            Suspect::Type(name) if finding.fault == Fault::InFlight => {
                let Some(&key) = self.types_by_name.get(name) else { return false };
                self.types[key].in_flight = counted;
                self.push_token(key);
                true
            }
            Suspect::Bulk(bulk) => {
                let Some(number) = self.find_bulk(bulk) else { return false };
                if finding.fault == Fault::Total
                    && let Some(bulk) = self.bulk_mut(number)
                {
                    bulk.total = counted;
                }
                self.review_bulk(number);
                self.mend_taking(number);
                true
            }
            Suspect::Lease(batch) => {
                if let Some(record) = self.batches.get_mut(batch) {
                    record.left = counted as usize;
                }
                self.mark_batch(*batch);
                true
            }
            Suspect::Queue if finding.fault == Fault::Backlog => {
                self.backlog = counted;
                true
            }
            Suspect::Queue if finding.fault == Fault::StoredBytes => {
                self.stored_bytes = counted;
                true
            }
            Suspect::Queue => {
                self.completed.jobs = counted;
                true
            }
            Suspect::Job(job) => self.find_job(job).is_some_and(|key| self.mend_job(key, finding.fault)),
            Suspect::Type(_) => false,
        }
    }

    fn mend_job(&mut self, key: JobKey, fault: Fault) -> bool {
        let (now, place) = (self.now, self.jobs[key].place.clone());
        let mut ended = Ended::default();
        match (fault, place) {
            (Fault::NoLease, Place::InFlight(held)) => {
                let Some(batch) = self.batches.get_mut(&held.batch) else { return false };
                batch.deadline = now.plus_ms(AUDIT_LEASE_MS);
                self.deadlines.insert((batch.deadline, held.batch));
                self.mark_batch(held.batch);
            }
            (Fault::NoPlace, Place::Lane) => self.return_to_lane(key, false),
            (Fault::NotIndexed, Place::Waiting(_)) => {
                let name = self.place_name(key);
                let bulk = self.jobs[key].bulk.and_then(|number| self.bulks.get_mut(&number));
                let Some(bulk) = bulk else { return false };
                bulk.waiting.insert(name, key);
            }
            (Fault::Unfiled, Place::Completed) => self.file_end(key, End::Succeeded, &mut ended),
            (Fault::Unfiled, Place::Cancelled) => self.file_end(key, End::Cancelled, &mut ended),
            (Fault::Unfiled, Place::Failed(_)) => {
                self.jobs[key].place = Place::Failed(now);
                self.file_end(key, End::Failed, &mut ended);
            }
            _ => return false,
        }
        self.record_ended(ended, now);
        true
    }

    fn mend_group(&mut self, key: GroupKey, finding: &Finding) -> bool {
        let counted = finding.counted as u64;
        self.mark_dirty(key);
        let group = &mut self.groups[key];
        match finding.fault {
            Fault::Backlog => group.backlog = counted,
            Fault::Waiting => group.record.waiting = counted,
            Fault::StoredBytes => group.stored_bytes = counted,
            Fault::SeatParked => group.seat_parked = counted as u32,
            Fault::InFlight => {
                group.in_flight = counted;
                if self.group_closed(key).is_none() {
                    self.wake_lanes_of(key, |standing| standing == Standing::SeatParked);
                }
            }
            Fault::Magnitude => {
                if !self.large_groups.contains(&(group.magnitude, group.name.clone())) {
                    group.magnitude = 0;
                }
                self.index_group(key);
            }
            Fault::SettingsUnlisted | Fault::NoSettings => self.list_settings(key),
            Fault::Unlisted => {
                group.active = true;
                let name = group.name.clone();
                self.active_groups.insert(name);
            }
            Fault::NoJobs => {
                group.active = false;
                let name = group.name.clone();
                self.active_groups.remove(&name);
                self.watch_idle(key);
            }
            _ => self.mend_lane(key, &finding.detail),
        }
        true
    }

    /// Removes a lane from wherever it is and, if it has jobs, inserts it into its order.
    fn mend_lane(&mut self, group: GroupKey, place: &str) {
        let name = |lane: &u32| self.lane_name(LaneKey { group, lane: *lane });
        let found =
            self.lanes_by_place(group).into_iter().find(|lane| name(lane).starts_with(&format!("{place}:")));
        let Some(lane) = found else { return };
        let key = LaneKey { group, lane };
        let (type_key, level) = (self.lane(key).type_key, self.lane(key).level);
        self.types[type_key].orders[level.index()].lanes.retain(|_, other| *other != key);
        self.parked.retain(|_, other| *other != key);
        self.clearing.retain(|_, other| *other != key);
        if self.lane(key).standing == Standing::SeatParked {
            self.groups[group].seat_parked -= 1;
        }
        self.lane_mut(key).standing = Standing::Idle;
        if self.lane(key).is_empty() {
            return self.left_order(type_key, level);
        }
        self.enter_order(key, Entry::Back);
        self.push_token(type_key);
    }
}
