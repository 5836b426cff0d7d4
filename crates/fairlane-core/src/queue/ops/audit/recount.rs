//! The checks: every count against a recount, every place against its entries.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::limits::VIRTUAL_TIME_HIGH;
use crate::names::GroupId;
use crate::numbers::Level;
use crate::queue::bulk::Bulk;
use crate::queue::job::{Held, Job, JobKey, Place};
use crate::queue::lane::{GroupKey, LaneKey, Standing, TypeKey};
use crate::queue::magnitude::magnitude;
use crate::queue::{BulkRef, GroupSettings, JobRef, Machine};

use super::{Fault, Finding, Suspect};

/// Findings about one suspect.
struct Findings<'a> {
    suspect: &'a Suspect,
    findings: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, fault: Fault, detail: impl Into<String>, stored: u64, counted: u64) {
        self.add_about(self.suspect.clone(), fault, detail, stored, counted);
    }

    fn add_about(
        &mut self,
        suspect: Suspect,
        fault: Fault,
        detail: impl Into<String>,
        stored: u64,
        counted: u64,
    ) {
        let (stored, counted) = (stored as i64, counted as i64);
        self.findings.push(Finding {
            suspect,
            fault,
            detail: detail.into(),
            stored,
            counted,
            repaired: false,
        });
    }

    fn compare(&mut self, fault: Fault, detail: &str, stored: u64, counted: u64) {
        if stored != counted {
            self.add(fault, detail, stored, counted);
        }
    }
}

impl Machine {
    /// The faults of a suspect; none if it does not exist.
    pub(super) fn findings_about(&self, suspect: &Suspect) -> Vec<Finding> {
        let mut findings = Findings { suspect, findings: Vec::new() };
        let group_key = |name: &GroupId| self.groups_by_name.get(name).copied();
        match suspect {
            Suspect::Job(job) => self.recount_job(job, &mut findings),
            Suspect::Group(name) => {
                if let Some(key) = group_key(name) {
                    self.recount_group(key, &mut findings);
                }
            }
            Suspect::Backlog(name) => {
                if let Some(key) = group_key(name) {
                    self.recount_backlog(key, &mut findings);
                }
            }
            Suspect::Type(name) => {
                if let Some(key) = self.types_by_name.get(name) {
                    self.recount_type(*key, &mut findings);
                }
            }
            Suspect::Bulk(bulk) => self.recount_bulk(bulk, &mut findings),
            Suspect::Lease(batch) => {
                if let Some(record) = self.batches.get(batch) {
                    let lives = |&&(key, fence): &&(JobKey, _)| {
                        let held = self.jobs.get(key).and_then(|job| job.held_under(fence));
                        held.is_some_and(|held| held.batch == *batch || fence == *batch)
                    };
                    let left = record.jobs.iter().filter(lives).count() as u64;
                    findings.compare(Fault::Left, "", record.left as u64, left);
                }
            }
            Suspect::Queue => self.recount_whole(&mut findings),
        }
        findings.findings
    }

    fn recount_whole(&self, findings: &mut Findings<'_>) {
        let backlog = self.groups.values().map(|group| group.backlog).sum();
        findings.compare(Fault::Backlog, "", self.backlog, backlog);
        let bytes = self.groups.values().map(|group| group.stored_bytes).sum();
        findings.compare(Fault::StoredBytes, "", self.stored_bytes, bytes);
        let completed = self.completed.chunks.iter().map(|(_, jobs)| jobs.len() as u64).sum();
        findings.compare(Fault::Completed, "", self.completed.jobs, completed);
    }

    fn recount_type(&self, key: TypeKey, findings: &mut Findings<'_>) {
        let state = &self.types[key];
        let leased = self.count_leased(|job| job.type_key == key);
        findings.compare(Fault::InFlight, "", state.in_flight, leased);
        for level in Level::ALL {
            if state.orders[level.index()].virtual_time >= VIRTUAL_TIME_HIGH {
                findings.add(Fault::VirtualTime, format!("level {level}"), 0, 0);
            }
        }
        if state.virtual_time >= VIRTUAL_TIME_HIGH {
            findings.add(Fault::VirtualTime, "the levels", 0, 0);
        }
    }

    /// Counts the leased jobs that `wanted` selects.
    fn count_leased(&self, wanted: impl Fn(&Job) -> bool) -> u64 {
        let mut leased = 0;
        for (batch, record) in &self.batches {
            let held = |&&(key, fence): &&(JobKey, _)| {
                let job = self.jobs.get(key).filter(|job| wanted(job));
                job.and_then(|job| job.held_under(fence)).is_some_and(|held| held.batch == *batch)
            };
            leased += record.jobs.iter().filter(held).count() as u64;
        }
        leased
    }

    fn recount_group(&self, key: GroupKey, findings: &mut Findings<'_>) {
        let group = &self.groups[key];
        for lane in self.lanes_by_place(key) {
            let lane_key = LaneKey { group: key, lane };
            if let Some(fault) = self.lane_fault(lane_key) {
                let lane = self.lane(lane_key);
                let type_name = self.types[lane.type_key].name.escaped();
                findings.add(fault, format!("{}:{type_name}", lane.level.index()), 0, 0);
            }
        }
        let parked = group.lanes.iter().filter(|lane| lane.standing == Standing::SeatParked).count();
        findings.compare(Fault::SeatParked, "", group.seat_parked.into(), parked as u64);
        let mine = group.jobs.values().filter_map(|job| self.jobs.get(*job));
        let leased = mine.filter(|job| matches!(job.place, Place::InFlight(_))).count();
        findings.compare(Fault::InFlight, "", group.in_flight, leased as u64);
        let has_jobs = group.backlog + group.in_flight > 0;
        match (has_jobs, self.active_groups.contains(&group.name)) {
            (true, false) => findings.add(Fault::Unlisted, "", 0, 0),
            (false, true) => findings.add(Fault::NoJobs, "", 0, 0),
            _ => {}
        }
        let is_default = group.settings == GroupSettings::default();
        match (is_default, self.configured_groups.contains(&group.name)) {
            (false, false) => findings.add(Fault::SettingsUnlisted, "", 0, 0),
            (true, true) => findings.add(Fault::NoSettings, "", 0, 0),
            _ => {}
        }
        let is_indexed = self.large_groups.contains(&(group.magnitude, group.name.clone()));
        let indexed = if is_indexed { group.magnitude } else { 0 };
        let expected = magnitude(indexed, group.backlog);
        // The group's own magnitude must agree with the index, too.
        let stored = if indexed == expected { group.magnitude } else { indexed };
        findings.compare(Fault::Magnitude, "", stored.into(), expected.into());
    }

    fn lane_fault(&self, key: LaneKey) -> Option<Fault> {
        let (group, lane) = (&self.groups[key.group], self.lane(key));
        let order = &self.types[lane.type_key].orders[lane.level.index()];
        let in_order = order.lanes.get(&(lane.tag, lane.sequence)) == Some(&key);
        let is_parked = |until| self.parked.get(&(until, self.lane_name(key))) == Some(&key);
        let is_clearing = |since| self.clearing.get(&(since, self.lane_name(key))) == Some(&key);
        match lane.standing {
            Standing::Active if !in_order => Some(Fault::NotInOrder),
            Standing::Active => None,
            _ if in_order => Some(Fault::Stranger),
            Standing::Idle if !lane.is_empty() => Some(Fault::IdleWithJobs),
            Standing::RateParked(until) if !is_parked(until) => Some(Fault::NotParked),
            Standing::SeatParked if self.group_closed(key.group).is_none() => Some(Fault::SeatsFree),
            Standing::Paused if !group.settings.paused => Some(Fault::NotPaused),
            Standing::Clearing(since) if !is_clearing(since) => Some(Fault::NotCleared),
            _ => None,
        }
    }

    fn recount_backlog(&self, key: GroupKey, findings: &mut Findings<'_>) {
        let group = &self.groups[key];
        let (mut backlog, mut waiting, mut in_lanes) = (0, 0, 0);
        for job in group.jobs.values().filter_map(|job| self.jobs.get(*job)) {
            let unleased =
                matches!(job.place, Place::Lane | Place::Ready | Place::OnHold | Place::Waiting(_));
            backlog += u64::from(unleased && !job.cancelled);
            waiting += u64::from(matches!(job.place, Place::Waiting(_)));
            in_lanes += usize::from(job.place == Place::Lane);
        }
        let listed = || group.lanes.iter().flat_map(|lane| lane.returned.iter().chain(&lane.backlog));
        for &job in listed() {
            if self.jobs.get(job).is_none_or(|job| job.place != Place::Lane) {
                self.recount_job_with(job, findings);
            }
        }
        if listed().count() < in_lanes {
            let in_lanes = group.jobs.values().copied().filter(|job| self.jobs[*job].place == Place::Lane);
            // Sorted, because the iteration order of a hash map depends on its seed.
            for job in in_lanes.collect::<BTreeSet<JobKey>>() {
                self.recount_job_with(job, findings);
            }
        }
        findings.compare(Fault::Backlog, "", group.backlog, backlog);
        findings.compare(Fault::Waiting, "", group.record.waiting, waiting);
        findings.compare(Fault::StoredBytes, "", group.stored_bytes, self.bytes_of(key));
    }

    fn bytes_of(&self, key: GroupKey) -> u64 {
        let group = &self.groups[key];
        let jobs = group.jobs.values().filter_map(|job| self.jobs.get(*job)).map(Job::stored_bytes);
        let bulks = group.bulks.values().filter_map(|number| self.bulks.get(number)).map(Bulk::stored_bytes);
        jobs.chain(bulks).sum()
    }

    /// Checks a job that was found in a wrong place, or not found in its place.
    fn recount_job_with(&self, key: JobKey, findings: &mut Findings<'_>) {
        let Some(job) = self.jobs.get(key) else { return };
        findings.findings.extend(self.findings_about(&Suspect::Job(self.job_ref(job))));
    }

    fn recount_job(&self, job: &JobRef, findings: &mut Findings<'_>) {
        let Some(key) = self.find_job(job) else { return };
        let job = &self.jobs[key];
        let places = self.places_of(key);
        if matches!(&job.place, Place::InFlight(held) if !self.has_deadline(key, held)) {
            findings.add(Fault::NoLease, "", 0, 0);
        }
        let wanted = usize::from(!job.place.is_end() && !matches!(job.place, Place::InFlight(_)));
        if places.len() > wanted {
            findings.add(Fault::TwoPlaces, places.join(", "), 0, places.len() as u64);
        } else if places.len() < wanted {
            findings.add(Fault::NoPlace, "", 0, 0);
        } else if job.place.is_end() && !self.is_filed(key) {
            findings.add(Fault::Unfiled, "", 0, 0);
        }
        if matches!(job.place, Place::Waiting(_)) && self.is_unindexed(key) {
            findings.add(Fault::NotIndexed, "", 0, 0);
        }
    }

    /// Whether a waiting job's bulk action does not list it as waiting.
    fn is_unindexed(&self, key: JobKey) -> bool {
        let bulk = self.jobs[key].bulk.and_then(|number| self.bulks.get(&number));
        bulk.is_some_and(|bulk| !bulk.waiting.contains_key(&self.place_name(key)))
    }

    /// Leased jobs without a deadline, unindexed waiting jobs, and ended jobs that are filed
    /// nowhere. All others are checked with their group.
    pub(super) fn odd_jobs(&self) -> Vec<Suspect> {
        let chunks = self.completed.chunks.iter().flat_map(|(_, jobs)| jobs);
        let mut filed: FxHashSet<JobKey> = chunks.chain(self.dead.values()).copied().collect();
        for bulk in self.bulks.values() {
            let jobs = &self.groups[bulk.group].jobs;
            filed.extend(bulk.ended.iter().flat_map(|(_, ids)| ids).filter_map(|id| jobs.get(id)));
        }
        let odd = self.jobs.iter().filter(|(key, job)| match &job.place {
            Place::InFlight(held) => !self.has_deadline(*key, held),
            Place::Waiting(_) => self.is_unindexed(*key),
            place => place.is_end() && !filed.contains(key),
        });
        odd.map(|(_, job)| Suspect::Job(self.job_ref(job))).collect()
    }

    fn job_ref(&self, job: &Job) -> JobRef {
        JobRef { group: self.groups[job.group].name.clone(), id: job.id.clone() }
    }

    /// Whether the lease of a job will expire.
    fn has_deadline(&self, key: JobKey, held: &Held) -> bool {
        self.batches.get(&held.batch).is_some_and(|batch| {
            self.deadlines.contains(&(batch.deadline, held.batch)) && batch.jobs.contains(&(key, held.fence))
        })
    }

    /// The names of the places from which a job could run.
    fn places_of(&self, key: JobKey) -> Vec<&'static str> {
        let job = &self.jobs[key];
        let mut places = Vec::new();
        let mut add = |word, times| places.extend(std::iter::repeat_n(word, times));
        let name = self.place_name(key);
        if let Place::Waiting(due) = job.place {
            add("waiting", usize::from(self.waiting.contains_key(&(due, name))));
        }
        let count =
            |jobs: &std::collections::VecDeque<JobKey>| jobs.iter().filter(|other| **other == key).count();
        add("ready", count(&self.types[job.type_key].ready));
        add(
            "held",
            job.bulk.and_then(|number| self.bulks.get(&number)).map_or(0, |bulk| count(&bulk.on_hold)),
        );
        for lane in &self.groups[job.group].lanes {
            add("lane", count(&lane.returned) + count(&lane.backlog));
        }
        places
    }

    /// Whether an ended job will be removed eventually.
    fn is_filed(&self, key: JobKey) -> bool {
        let job = &self.jobs[key];
        let dead =
            matches!(job.place, Place::Failed(at) if self.dead.contains_key(&(at, self.full_name(key))));
        let bulk = job.bulk.and_then(|number| self.bulks.get(&number));
        let with_bulk = || bulk.is_some_and(|bulk| bulk.ended.iter().any(|(_, ids)| ids.contains(&job.id)));
        dead || with_bulk() || self.completed.chunks.iter().any(|(_, jobs)| jobs.contains(&key))
    }

    fn recount_bulk(&self, bulk: &BulkRef, findings: &mut Findings<'_>) {
        let Some(number) = self.find_bulk(bulk) else { return };
        let bulk = &self.bulks[&number];
        let jobs = self.groups[bulk.group].jobs.values().filter_map(|job| self.jobs.get(*job));
        let unended = jobs.filter(|job| job.bulk == Some(number) && !job.place.is_end() && !job.cancelled);
        let counted = bulk.ended_jobs() + unended.count() as u64;
        findings.compare(Fault::Total, "", bulk.total, counted);
        match (bulk.is_to_be_taken(), self.is_takeable(number)) {
            (true, false) => findings.add(Fault::NotTaken, "", 0, 0),
            (false, true) => findings.add(Fault::StrayTake, "", 0, 0),
            _ => {}
        }
    }
}
