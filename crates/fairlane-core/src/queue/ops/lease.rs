//! `lease`: promotes due jobs, picks jobs in fair order, charges every gate and leases the
//! jobs, in one step.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{
    CLAMPS_MAX, LEASE_BYTES_MAX, LEASE_JOBS_MAX, LEASE_LANES_MAX, LEASE_MS_MAX, LEASE_MS_MIN,
    LEASE_PARKS_MAX, LEASE_PROMOTES_MAX, LEASE_REQUESTS_FORGOTTEN, LEASE_SKIPS_MAX, LEASE_WAKES_MAX,
    PARK_MS_MAX, QUANTUM, TIMER_BACKSTOP_MS, TYPES_MAX, VISIT_SKIPS_MAX,
};
use crate::names::{BulkId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, RequestNumber, within};
use crate::queue::bulk::Disposition;
use crate::queue::gate::{Pass, TypeGate};
use crate::queue::job::{End, Held, JobKey, Place, Run};
use crate::queue::lane::{GroupKey, Head, LaneKey, Standing, Timer, TypeKey};
use crate::queue::{BulkState, JobRef, Machine, Request};
use crate::rate::Flow;
use crate::trace::Trace;

use super::Ended;

/// Leases up to `jobs_max` jobs of the given types; fewer if their payloads are large or if they are
/// of many groups.
///
/// Picking stops once the payloads have [`LEASE_BYTES_MAX`] bytes or [`LEASE_LANES_MAX`] lanes were
/// served, as if `jobs_max` had been reached. The remaining jobs are left for the next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker that requests jobs.
    pub worker: WorkerId,
    /// The number of the request: repeated until a reply arrives, then raised.
    pub request: RequestNumber,
    /// The requested types, at most 64.
    #[serde(deserialize_with = "crate::encoding::list::<TYPES_MAX, _, _>")]
    pub types: Vec<TypeId>,
    /// The most jobs to lease, at most 500.
    pub jobs_max: usize,
    /// The length of the leases, in milliseconds.
    pub lease_ms: u64,
}

/// A job that a worker has leased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeasedJob {
    /// The job, by group and id.
    pub job: JobRef,
    /// The type of the job.
    pub type_id: TypeId,
    /// The level of the job within its type.
    pub level: Level,
    /// The cost of the job in its group's share.
    pub cost: Cost,
    /// The payload of the job.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// When it was enqueued.
    pub created_at: Micros,
    /// The fence of the lease, required by `settle` and `extend`. Jobs leased together share it.
    pub fence: Fence,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The bulk action it belongs to.
    pub bulk: Option<BulkId>,
    /// The trace it was enqueued with.
    pub trace: Option<Trace>,
}

/// The reply to [`Lease`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Leased {
    /// The leased jobs.
    Jobs {
        /// The jobs in the order they were picked.
        jobs: Vec<LeasedJob>,
        /// The time after which to request again if no wake-up arrives before, in microseconds.
        /// Only one caller per type gets it.
        wake_in_us: Option<u64>,
    },
    /// The worker has sent a higher request number since.
    Superseded {
        /// The highest request number of the worker.
        newest: RequestNumber,
    },
}

/// The state of one call: its remaining budget and its results.
struct Call {
    now: Micros,
    deadline: Micros,
    worker: WorkerId,
    asked: u64,
    left: u64,
    bytes: usize,
    /// Lanes served; in `classic`, jobs served, because admitted jobs are no longer in lanes.
    lanes: usize,
    queue_flow: Option<Flow>,
    /// Whether the requested types have only one lane in their orders: it is served without leaving
    /// its order after each quantum.
    is_alone: bool,
    fence: Fence,
    parks: usize,
    skips: usize,
    wake_at: Option<Micros>,
    picked: Vec<JobKey>,
    ended: Ended,
}

impl Call {
    /// Whether the call has reached its limit of jobs, bytes or lanes.
    fn is_full(&self) -> bool {
        self.left == 0 || self.bytes >= LEASE_BYTES_MAX || self.lanes >= LEASE_LANES_MAX
    }

    fn note_wake(&mut self, at: Option<Micros>) {
        self.wake_at = [self.wake_at, at].into_iter().flatten().min();
    }
}

/// How one type's turn ended.
enum Turn {
    Served,
    TypeBlocked,
    AllBlocked,
}

impl Operation for Lease {
    type Machine = Machine;
    type Reply = Leased;

    const STEM: &'static str = "lease";

    fn validate(&self) -> Result<(), Invalid> {
        within("the types of one lease", self.types.len() as u64, 0, TYPES_MAX as u64)?;
        one_to("the jobs of one lease", self.jobs_max, LEASE_JOBS_MAX)?;
        within("the length of a lease in ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        RequestNumber::new(self.request.0)?;
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.jobs_max)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Leased {
        machine.lease(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn lease(&mut self, command: Lease, now: Micros) -> Leased {
        if let Some(answer) = self.answer_again(&command, now) {
            return answer;
        }
        let mut call = Call {
            now,
            deadline: now.plus_ms(command.lease_ms),
            worker: command.worker.clone(),
            asked: command.jobs_max as u64,
            left: command.jobs_max as u64,
            bytes: 0,
            lanes: 0,
            queue_flow: self.open_queue_gate(now),
            is_alone: false,
            fence: Fence((self.fence.0 + 1).max(now.0)),
            parks: 0,
            skips: 0,
            wake_at: None,
            picked: Vec::with_capacity(command.jobs_max.min(64)),
            ended: Ended::default(),
        };
        // Fences are never behind the clock: a fence ahead of it means that the clock may
        // have stepped back.
        if self.fence.0 > now.0 {
            self.lower_far_deadlines(now);
        }
        if !self.is_classic() {
            self.bring_back_due(&mut call);
        }
        let gates = self.gates_in_turn(&command.types, now);
        let lanes = |gate: &TypeGate| self.types[gate.key].orders.iter().map(|order| order.lanes.len());
        call.is_alone = gates.iter().flat_map(lanes).sum::<usize>() == 1;
        self.serve(&gates, &mut call);
        self.note_ends(&gates, &mut call);
        self.record_ended(std::mem::take(&mut call.ended), now);
        if !call.picked.is_empty() {
            self.fence = call.fence;
            let batch = call.picked.iter().map(|&key| (key, call.fence)).collect();
            self.open_batch(call.fence, batch, call.deadline);
        }
        let until = now.plus_ms(LEASE_MS_MAX);
        let fence = if call.picked.is_empty() { Fence(0) } else { call.fence };
        self.remember_request(command.worker, Request { number: command.request, until, fence });
        self.forget_requests(LEASE_REQUESTS_FORGOTTEN, now);
        let jobs = call.picked.iter().map(|&key| self.leased_job(key, call.fence)).collect();
        Leased::Jobs { jobs, wake_in_us: call.wake_at.map(|at| at.since(now)) }
    }

    /// The reply to a request that was applied before, or that is outdated.
    fn answer_again(&self, command: &Lease, now: Micros) -> Option<Leased> {
        let known = self.requests.get(&command.worker).filter(|known| known.until > now)?;
        if command.request > known.number {
            return None;
        }
        if command.request < known.number {
            return Some(Leased::Superseded { newest: known.number });
        }
        let batch = self.batches.get(&known.fence);
        let mut jobs = Vec::new();
        for &(key, fence) in batch.iter().flat_map(|batch| &batch.jobs) {
            if self.jobs.get(key).is_some_and(|job| job.held_under(fence).is_some()) {
                jobs.push(self.leased_job(key, fence));
            }
        }
        Some(Leased::Jobs { jobs, wake_in_us: None })
    }

    fn leased_job(&self, key: JobKey, fence: Fence) -> LeasedJob {
        let job = &self.jobs[key];
        LeasedJob {
            job: JobRef { group: self.groups[job.group].name.clone(), id: job.id.clone() },
            type_id: self.types[job.type_key].name.clone(),
            level: job.level,
            cost: job.cost,
            payload: job.payload.clone(),
            created_at: job.created_at,
            fence,
            attempt: job.attempts() + 1,
            bulk: self.bulk_name(job.bulk),
            trace: job.trace.clone(),
        }
    }

    /// After the clock stepped back: lowers deadlines to the latest that could be set now.
    pub(super) fn lower_far_deadlines(&mut self, now: Micros) {
        let lease_end = now.plus_ms(LEASE_MS_MAX);
        for _ in 0..CLAMPS_MAX {
            let Some(&(deadline, batch)) = self.deadlines.last() else { break };
            if deadline <= lease_end {
                break;
            }
            self.deadlines.pop_last();
            self.deadlines.insert((lease_end, batch));
            self.batches.get_mut(&batch).expect("a deadline has a batch").deadline = lease_end;
            self.mark_batch(batch);
        }
        let park_end = now.plus_ms(PARK_MS_MAX);
        for _ in 0..CLAMPS_MAX {
            let Some(last) = self.parked.last_entry() else { break };
            if last.key().0 <= park_end {
                break;
            }
            let ((_, name), key) = last.remove_entry();
            self.parked.insert((park_end, name), key);
            self.lane_mut(key).standing = Standing::RateParked(park_end);
        }
    }

    /// Promotes due jobs and wakes due lanes. If either bound is reached, there may
    /// be more at once.
    fn bring_back_due(&mut self, call: &mut Call) {
        if self.promote_due(LEASE_PROMOTES_MAX, call.now) == LEASE_PROMOTES_MAX {
            call.note_wake(Some(call.now));
        }
        let mut woken = 0;
        while woken < LEASE_WAKES_MAX {
            let Some(((until, _), &key)) = self.parked.first_key_value() else { break };
            if *until > call.now {
                break;
            }
            self.wake_lane(key);
            woken += 1;
        }
        if woken == LEASE_WAKES_MAX {
            call.note_wake(Some(call.now));
        }
    }

    /// The requested types that exist, by name, starting after the type served last.
    fn gates_in_turn(&mut self, types: &[TypeId], now: Micros) -> Vec<TypeGate> {
        let mut known: Vec<&TypeId> =
            types.iter().filter(|name| self.types_by_name.contains_key(*name)).collect();
        known.sort();
        known.dedup();
        if let Some(cursor) = self.cursor {
            let last = &self.types[cursor].name;
            let first = known.partition_point(|name| *name <= last);
            known.rotate_left(first);
        }
        let keys: Vec<_> = known.into_iter().map(|name| self.types_by_name[name]).collect();
        for &key in &keys {
            self.note_asked(key, now);
        }
        keys.into_iter().map(|key| self.open_type_gate(key, now)).collect()
    }

    /// Notes the time of a request for a type, at most once per second, which saves most writes.
    fn note_asked(&mut self, key: TypeKey, now: Micros) {
        let asked_at = self.types[key].asked_at;
        if asked_at > now || asked_at.plus_ms(1000) <= now {
            self.types[key].asked_at = now;
        }
    }

    /// Serves each type a quantum in turn until enough jobs are picked or all types are blocked.
    fn serve(&mut self, gates: &[TypeGate], call: &mut Call) {
        let mut turns: VecDeque<TypeGate> = gates.iter().copied().collect();
        while !call.is_full()
            && let Some(gate) = turns.pop_front()
        {
            let turn =
                if self.is_classic() { self.serve_ready(gate, call) } else { self.serve_type(gate, call) };
            match turn {
                Turn::Served => {
                    self.cursor = Some(gate.key);
                    turns.push_back(gate);
                }
                Turn::TypeBlocked => {}
                Turn::AllBlocked => break,
            }
        }
    }

    /// Serves one lane of a type; lanes of denied groups are parked on the way.
    fn serve_type(&mut self, gate: TypeGate, call: &mut Call) -> Turn {
        loop {
            let Some(level) = self.next_level(gate.key) else { return Turn::TypeBlocked };
            let type_jobs = match self.type_pass(gate, call.asked, call.now) {
                Pass::Jobs(jobs) => jobs,
                Pass::Denied { wake_at } => {
                    call.note_wake(wake_at);
                    return Turn::TypeBlocked;
                }
            };
            let queue_jobs = match self.queue_pass(call.queue_flow, call.asked) {
                Pass::Jobs(jobs) => jobs,
                Pass::Denied { wake_at } => {
                    call.note_wake(wake_at);
                    return Turn::AllBlocked;
                }
            };
            if call.parks >= LEASE_PARKS_MAX {
                self.go_on_at_once(gate.key, call);
                return Turn::AllBlocked;
            }
            let lane = self.pop_lane(gate.key, level).expect("the next level has a lane");
            match self.group_pass(lane.group, call.asked, call.now) {
                Ok(group_jobs) => {
                    let most = call.left.min(type_jobs).min(queue_jobs).min(group_jobs);
                    if self.serve_lane(lane, gate, most, call) {
                        return Turn::Served;
                    }
                }
                Err(standing) => self.deny_lane(lane, standing, call),
            }
        }
    }

    /// Handles a bound that was reached. Lanes that were set aside are not visited again, so the
    /// next call continues from here. The token lets that call start without a delay.
    fn go_on_at_once(&mut self, key: TypeKey, call: &mut Call) {
        call.note_wake(Some(call.now));
        self.push_token(key);
    }

    fn deny_lane(&mut self, key: LaneKey, standing: Standing, call: &mut Call) {
        call.parks += 1;
        if matches!(standing, Standing::RateParked(_) | Standing::SeatParked) {
            let backoff = self.predicted_backoff(key.group, self.lane(key).type_key);
            self.note_congestion(key.group, backoff);
        }
        self.park_lane(key, standing);
    }

    /// Leases a quantum from one lane, or all that may pass from the only one, and moves the lane to
    /// its new place. False if it had no runnable job.
    fn serve_lane(&mut self, key: LaneKey, gate: TypeGate, most: u64, call: &mut Call) -> bool {
        let (mut jobs, mut charged, mut cost, mut blocked) = (0, 0, 0, false);
        let allowed = VISIT_SKIPS_MAX.min(LEASE_SKIPS_MAX - call.skips);
        let mut skips_left = allowed;
        while jobs < most && call.bytes < LEASE_BYTES_MAX {
            if cost >= QUANTUM {
                if !call.is_alone {
                    break;
                }
                self.charge_lane(key, jobs - charged, cost);
                (charged, cost) = (jobs, 0);
            }
            let head = self.clear_head(key, &mut skips_left, &mut call.ended);
            blocked = head == Head::Blocked;
            let Head::Runnable(job) = head else { break };
            self.pop_first_of(key);
            cost += self.jobs[job].cost.get();
            jobs += 1;
            self.lease_job(job, call);
        }
        call.skips += allowed - skips_left;
        if jobs > 0 {
            call.left -= jobs;
            call.lanes += 1;
            self.count_backlog(key.group, -(jobs as i64));
            self.charge_gates(call.queue_flow, gate, key.group, jobs);
        }
        if jobs > charged {
            self.charge_lane(key, jobs - charged, cost);
        }
        if self.lane(key).is_empty() {
            call.parks += usize::from(jobs == 0);
            self.park_lane(key, Standing::Idle);
        } else if blocked {
            call.parks += 1;
            self.park_lane(key, Standing::Clearing(call.now));
        } else {
            match self.group_pass(key.group, call.asked, call.now) {
                Ok(_) => self.reenter_order(key),
                Err(standing) => self.deny_lane(key, standing, call),
            }
        }
        jobs > 0
    }

    /// Leases one admitted job of a type; a job that may not run after all returns to its lane.
    fn serve_ready(&mut self, gate: TypeGate, call: &mut Call) -> Turn {
        loop {
            let Some(&key) = self.types[gate.key].ready.front() else { return Turn::TypeBlocked };
            if let Pass::Denied { wake_at } = self.type_pass(gate, call.asked, call.now) {
                call.note_wake(wake_at);
                return Turn::TypeBlocked;
            }
            if let Pass::Denied { wake_at } = self.queue_pass(call.queue_flow, call.asked) {
                call.note_wake(wake_at);
                return Turn::AllBlocked;
            }
            let group = self.jobs[key].group;
            let may_run = self.disposition(key) == Disposition::Run && self.group_closed(group).is_none();
            if !may_run && call.skips >= LEASE_SKIPS_MAX {
                self.go_on_at_once(gate.key, call);
                return Turn::TypeBlocked;
            }
            self.types[gate.key].ready.pop_front();
            if self.skip_unrunnable(key, &mut call.ended) {
                call.skips += 1;
            } else if !may_run {
                self.return_to_lane(key, false);
                call.skips += 1;
            } else {
                call.left -= 1;
                call.lanes += 1;
                self.lease_job(key, call);
                self.count_backlog(group, -1);
                self.charge_gates(call.queue_flow, gate, group, 1);
                return Turn::Served;
            }
        }
    }

    /// Removes up to `left` unrunnable jobs from the head of a lane, and returns the new head.
    pub(super) fn clear_head(&mut self, key: LaneKey, left: &mut usize, ended: &mut Ended) -> Head {
        loop {
            let lane = self.lane(key);
            let first = lane.returned.front().or_else(|| lane.backlog.front());
            let Some(&job) = first else { return Head::Empty };
            if self.disposition(job) == Disposition::Run {
                return Head::Runnable(job);
            }
            if *left == 0 {
                return Head::Blocked;
            }
            *left -= 1;
            self.pop_first_of(key);
            self.skip_unrunnable(job, ended);
        }
    }

    /// Removes the first job of a lane.
    pub(super) fn pop_first_of(&mut self, key: LaneKey) {
        let lane = self.lane_mut(key);
        let _ = lane.returned.pop_front().or_else(|| lane.backlog.pop_front());
    }

    /// Moves or ends a popped job that must not run; false if the job may run.
    pub(super) fn skip_unrunnable(&mut self, key: JobKey, ended: &mut Ended) -> bool {
        match self.disposition(key) {
            Disposition::Run => return false,
            Disposition::Hold(number) => {
                let last = self.bulks[&number].on_hold.back().map_or(0, |last| self.jobs[*last].order);
                let job = &mut self.jobs[key];
                (job.place, job.order) = (Place::OnHold, last + 1);
                let bulk = self.bulk_mut(number).expect("its mode is hold");
                bulk.on_hold.push_back(key);
            }
            Disposition::Drop => {
                self.count_backlog(self.jobs[key].group, -1);
                self.jobs[key].run.get_or_insert_with(Run::none).settled_at = self.now;
                self.end_job(key, End::Cancelled, ended);
            }
            Disposition::Cancelled => {
                let job = &mut self.jobs[key];
                (job.place, job.cancelled) = (Place::Cancelled, false);
                self.file_end(key, End::Cancelled, ended);
            }
        }
        true
    }

    fn lease_job(&mut self, key: JobKey, call: &mut Call) {
        let (fence, worker) = (call.fence, call.worker.clone());
        self.jobs[key].place =
            Place::InFlight(Held { fence, batch: fence, worker, cancelled: false, progress: None });
        if let Some(number) = self.jobs[key].bulk {
            self.bulk_reached(number, BulkState::Running);
        }
        call.bytes += self.jobs[key].payload.len();
        call.picked.push(key);
    }

    /// Ensures that a worker wakes up for the remaining servable jobs: now by a token,
    /// later by a timer.
    fn note_ends(&mut self, gates: &[TypeGate], call: &mut Call) {
        if call.is_full() {
            call.wake_at = None;
            return self.wake_others(gates);
        }
        if !self.is_classic() {
            call.note_wake(self.parked.keys().next().map(|(until, _)| *until));
            call.note_wake(self.waiting.keys().next().map(|(due, _)| *due));
        }
        let Some(wake_at) = call.wake_at else { return };
        let mut holds_timer = false;
        for gate in gates {
            let timer = &mut self.types[gate.key].timer;
            let taken = timer.as_ref().is_some_and(|timer| {
                timer.worker != call.worker
                    && timer.at <= wake_at
                    && timer.at.plus_ms(TIMER_BACKSTOP_MS) > call.now
            });
            if !taken {
                *timer = Some(Timer { worker: call.worker.clone(), at: wake_at });
                holds_timer = true;
            }
        }
        if !holds_timer {
            call.wake_at = None;
        }
    }

    /// Wakes other workers for the jobs that a satisfied caller leaves: to serve them now, or
    /// to hold the timer.
    fn wake_others(&mut self, gates: &[TypeGate]) {
        let mut woken = false;
        let classic = self.is_classic();
        for gate in gates {
            let state = &self.types[gate.key];
            let servable = if classic { !state.ready.is_empty() } else { state.is_active() };
            let settings = &state.settings;
            let seated = settings.concurrency.is_none_or(|most| state.in_flight < u64::from(most));
            if servable && !settings.paused && seated {
                self.push_token(gate.key);
                woken = true;
            }
        }
        let later = !self.parked.is_empty() || !self.waiting.is_empty();
        if later && !woken && !classic {
            self.push_token(gates[0].key);
        }
    }

    /// Returns the lanes of a group that waited for a seat to their orders.
    pub(super) fn wake_seat_parked(&mut self, group: GroupKey) {
        if self.groups[group].seat_parked > 0 {
            self.wake_lanes_of(group, |standing| standing == Standing::SeatParked);
        }
    }
}
