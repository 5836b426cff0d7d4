//! The event loop: virtual time, the real machine.
//!
//! One process has all worker slots and one fetcher, as the worker crate does. It leases at most as
//! many jobs as there are free slots. It leases again when a wake-up token is available, at the
//! time that the last lease named, when a lease returned all that was requested, and when jobs were
//! settled. Events at the same time are processed together, in the order in which they were
//! planned, and then the fetcher runs; so the same scenario always runs the same way.

mod ticks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use fairlane_core::kernel::Operation;
use fairlane_core::limits::{ENQUEUE_JOBS_MAX, LEASE_MS_MAX, SETTLE_JOBS_MAX};
use fairlane_core::queue::{
    Enqueue, GroupPatch, InspectQueue, JobRef, Lease, Leased, LeasedJob, Machine, NewJob, Outcome, SetGroup,
    SetType, Settle, Settlement, TypePatch,
};
use fairlane_core::{Cost, GroupId, HashSeed, JobId, Level, Micros, RequestNumber, TypeId, WorkerId};

use crate::arrivals::Flow;
use crate::downstream::{CallResult, Downstream};
use crate::generator::Generator;
use crate::measure::{GroupMeasure, Measure};
use crate::report::PartReport;
use crate::scenario::{Arrival, Moment, Part, Scenario, SimulationError};
use ticks::Ticks;

/// The time at which virtual time begins; its value does not matter.
const START: Micros = Micros(1_700_000_000_000_000);
/// Number of completions between two calls of the progress function.
const PROGRESS_JOBS: u64 = 4096;
/// Most groups of a part whose end state is checked in debug builds.
const CHECKED_GROUPS_MAX: usize = 64;

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The name of the running part.
    pub part: &'a str,
    /// Number of jobs of this part done so far, over all its runs.
    pub completed: u64,
    /// Number of jobs expected in this part, over all its runs.
    pub total: u64,
}

/// Runs every part of a scenario, in order, and reports on each.
///
/// A part with `alone_without` is run a second time without those groups, to measure how long the
/// others would have waited.
pub fn run(
    scenario: &Scenario,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<PartReport>, SimulationError> {
    let mut reports = Vec::new();
    for part in scenario.parts() {
        let left_out = part.alone_without.iter().map(|&group| part.groups[group].jobs_expected());
        let total = match part.alone_without.is_empty() {
            true => part.jobs_expected(),
            false => (2 * part.jobs_expected()).saturating_sub(left_out.sum()),
        };
        let mut done_before = 0;
        let mut report_progress = |completed| progress(Progress { part: &part.name, completed, total });
        let mut full = Simulation::new(part);
        full.play(&mut |completed| report_progress(completed));
        let mut report = PartReport::new(scenario.name(), part, &full.measure);
        done_before += full.measure.completed;
        if !part.alone_without.is_empty() {
            let alone_part = part.alone(&full.moments_us);
            let mut alone = Simulation::new(&alone_part);
            alone.play(&mut |completed| report_progress(done_before + completed));
            report.add_alone(&alone_part, &alone.measure);
            done_before += alone.measure.completed;
        }
        progress(Progress { part: &part.name, completed: done_before, total: done_before });
        reports.push(report);
    }
    Ok(reports)
}

/// The results of a run for each group of its part.
pub(crate) struct Played {
    pub lanes: Vec<PlayedLane>,
}

/// The jobs of one group in a run.
pub(crate) struct PlayedLane {
    pub started: u64,
    pub completed: u64,
    /// The sum of the waits of the jobs that were started.
    pub waits_us: u64,
}

/// Runs a part without a report.
pub(crate) fn played(part: &Part) -> Played {
    let mut simulation = Simulation::new(part);
    simulation.play(&mut |_| {});
    let lane = |group: &GroupMeasure| PlayedLane {
        started: group.waits_us.len() as u64,
        completed: group.completed,
        waits_us: group.waits_us.iter().sum(),
    };
    Played { lanes: simulation.measure.groups.iter().map(lane).collect() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The jobs of a group's arrival with this number arrive at once.
    AtOnce { group: usize, arrival: usize },
    /// The next job of a flow arrives.
    Flow { flow: usize },
    /// A call ends.
    CallEnd { flight: usize },
    /// A group is paused or resumed.
    Pause { group: usize, paused: bool },
    /// The fetcher's timer fires.
    Wake,
    /// Jobs are taken from their lanes and admitted or refused (`classic`).
    Admit,
    /// Jobs whose backoff is over return to their lanes (`classic`).
    Promote,
}

/// A call in flight.
struct Flight {
    settlement: Settlement,
    group: usize,
}

/// Jobs that arrive when another group has completed this many jobs.
struct Watch {
    jobs_done: u64,
    group: usize,
    arrival: usize,
    later_us: u64,
}

struct Simulation<'a> {
    part: &'a Part,
    machine: Machine,
    measure: Measure,
    now_us: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    flows: Vec<(usize, Flow)>,
    watches: Vec<Vec<Watch>>,
    /// When the jobs of each watched arrival arrived, by group and arrival, in microseconds.
    moments_us: BTreeMap<(usize, usize), u64>,
    payloads: Vec<Arc<[u8]>>,
    downstreams: Vec<Option<Downstream<'a>>>,
    flights: Vec<Option<Flight>>,
    free_flights: Vec<usize>,
    in_flight: u64,
    fetcher: Fetcher,
    ticks: Ticks,
}

struct Fetcher {
    worker: WorkerId,
    types: Vec<TypeId>,
    request: u64,
    /// Whether there is a reason to lease again.
    is_due: bool,
    wake_at_us: Option<u64>,
}

impl<'a> Simulation<'a> {
    fn new(part: &'a Part) -> Self {
        let fetcher = Fetcher {
            worker: WorkerId::new("simulator").expect("a plain word is a valid name"),
            types: part.types.iter().map(|part| part.id.clone()).collect(),
            request: 0,
            is_due: false,
            wake_at_us: None,
        };
        let mut simulation = Self {
            part,
            machine: Machine::new(part.settings(), HashSeed::FIXED, START),
            measure: Measure::new(part),
            now_us: 0,
            events: BinaryHeap::new(),
            planned: 0,
            flows: Vec::new(),
            watches: part.groups.iter().map(|_| Vec::new()).collect(),
            moments_us: BTreeMap::new(),
            payloads: (0..part.groups.len() as u32).map(|group| group.to_le_bytes().into()).collect(),
            downstreams: downstreams(part),
            flights: Vec::new(),
            free_flights: Vec::new(),
            in_flight: 0,
            fetcher,
            ticks: Ticks::default(),
        };
        simulation.set_limits();
        simulation.plan_arrivals();
        simulation.plan_pauses();
        simulation.start_ticking();
        simulation
    }

    fn call<O: Operation<Machine = Machine>>(&mut self, operation: O) -> O::Reply {
        debug_assert_eq!(operation.validate(), Ok(()));
        self.machine.call(operation, START.plus_us(self.now_us))
    }

    fn set_limits(&mut self) {
        let part = self.part;
        for part in &part.types {
            let (rate, concurrency) = (Some(part.rate), Some(part.concurrency));
            let patch = TypePatch { rate, concurrency, ..TypePatch::default() };
            self.call(SetType { type_id: part.id.clone(), patch });
        }
        for group in part.groups.iter().filter(|_| !part.is_fifo) {
            let patch = GroupPatch {
                weight: Some(group.weight),
                base_priority: Some(group.base_priority),
                rate: Some(group.rate),
                concurrency: Some(group.concurrency),
                paused: None,
            };
            self.set_group(group.id.clone(), patch);
        }
    }

    fn set_group(&mut self, group: GroupId, patch: GroupPatch) {
        self.call(SetGroup { group, patch, reset_congestion: false });
    }

    fn plan(&mut self, at_us: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at_us, self.planned, event)));
    }

    fn plan_arrivals(&mut self) {
        let part = self.part;
        for (group, group_part) in part.groups.iter().enumerate() {
            for (arrival, written) in group_part.arrivals.iter().enumerate() {
                match written {
                    Arrival::AtOnce { moment: Moment::At { us: u64::MAX }, .. } => {}
                    Arrival::AtOnce { moment: Moment::At { us }, .. } => {
                        self.plan(*us, Event::AtOnce { group, arrival });
                    }
                    Arrival::AtOnce { moment, .. } => self.watch(group, arrival, *moment),
                    Arrival::Flow { rate, until_us, jobs, poisson } => {
                        let stream = [group_part.stream[0], group_part.stream[1], arrival as u64];
                        let random = poisson.then(|| Generator::of(part.seed, &stream));
                        self.flows.push((group, Flow::new(rate, *until_us, *jobs, random)));
                        self.plan_flow(self.flows.len() - 1);
                    }
                }
            }
        }
    }

    fn watch(&mut self, group: usize, arrival: usize, moment: Moment) {
        if let Moment::WhenDone { group: watched, jobs: jobs_done, later_us } = moment {
            self.watches[watched].push(Watch { jobs_done, group, arrival, later_us });
        }
    }

    fn plan_flow(&mut self, flow: usize) {
        if let Some(at_us) = self.flows[flow].1.next() {
            self.plan(at_us, Event::Flow { flow });
        }
    }

    fn plan_pauses(&mut self) {
        let part = self.part;
        for (group, group_part) in part.groups.iter().enumerate() {
            for pause in &group_part.pauses {
                self.plan(pause.from_us, Event::Pause { group, paused: true });
                if let Some(until_us) = pause.until_us {
                    self.plan(until_us, Event::Pause { group, paused: false });
                }
            }
        }
    }

    /// Runs until no event is planned, or to the part's stop.
    fn play(&mut self, report_progress: &mut dyn FnMut(u64)) {
        let mut reported = 0;
        while let Some(Reverse((at_us, _, _))) = self.events.peek() {
            let at_us = *at_us;
            if self.part.stop_after_us.is_some_and(|stop_us| at_us > stop_us) || self.is_complete() {
                break;
            }
            self.now_us = at_us;
            self.measure.advance(at_us);
            self.process_events();
            self.fetch();
            if self.measure.completed >= reported + PROGRESS_JOBS {
                reported = self.measure.completed;
                report_progress(reported);
            }
        }
        // The check reads every job once for each group.
        if self.part.groups.len() <= CHECKED_GROUPS_MAX {
            debug_assert_eq!(self.machine.check(), Ok(()));
        }
    }

    fn is_complete(&self) -> bool {
        self.in_flight == 0 && self.starts_left() == 0
    }

    /// Number of starts that the part's stop still allows.
    fn starts_left(&self) -> u64 {
        let accepted = self.measure.started - self.measure.refused;
        self.part.stop_after_jobs.map_or(u64::MAX, |stop| stop.saturating_sub(accepted))
    }

    fn process_events(&mut self) {
        let mut ended: Vec<usize> = Vec::new();
        while let Some(Reverse((at_us, _, event))) = self.events.peek().copied()
            && at_us == self.now_us
        {
            self.events.pop();
            match event {
                Event::AtOnce { group, arrival } => self.arrive_at_once(group, arrival),
                Event::Flow { flow } => {
                    self.enqueue(self.flows[flow].0, 1);
                    self.plan_flow(flow);
                }
                Event::CallEnd { flight } => ended.push(flight),
                Event::Pause { group, paused } => self.set_paused(group, paused),
                Event::Wake if self.fetcher.wake_at_us == Some(at_us) => {
                    self.fetcher.wake_at_us = None;
                    self.fetcher.is_due = true;
                }
                Event::Wake => {}
                Event::Admit => self.admit(),
                Event::Promote => self.promote(),
            }
        }
        for flights in ended.chunks(SETTLE_JOBS_MAX) {
            self.settle(flights);
        }
        self.keep_ticking();
    }

    fn arrive_at_once(&mut self, group: usize, arrival: usize) {
        let Arrival::AtOnce { jobs, moment } = &self.part.groups[group].arrivals[arrival] else { return };
        if matches!(moment, Moment::WhenDone { .. }) {
            self.moments_us.insert((group, arrival), self.now_us);
        }
        self.enqueue(group, *jobs);
    }

    fn enqueue(&mut self, group: usize, jobs: u64) {
        let group_part = &self.part.groups[group];
        let first = self.measure.groups[group].jobs;
        // In a plain queue all jobs are those of one group, and alike.
        let (shared, level, cost) = match self.part.is_fifo {
            true => (&self.part.groups[0].id, Level::default(), Cost::default()),
            false => (&group_part.id, group_part.level, group_part.cost),
        };
        let new_job = |number: u64| NewJob {
            job: JobRef {
                group: shared.clone(),
                id: JobId::new(format!("{group}-{number}")).expect("two numbers make a valid name"),
            },
            type_id: self.part.types[group_part.type_index].id.clone(),
            level,
            cost,
            payload: self.payloads[group].clone(),
            delay_ms: 0,
            bulk: None,
            trace: None,
        };
        let numbers: Vec<u64> = (first..first + jobs).collect();
        let batches = numbers.chunks(ENQUEUE_JOBS_MAX).map(|batch| batch.iter().map(|&n| new_job(n)));
        for jobs in batches {
            self.machine.call(Enqueue { jobs: jobs.collect() }, START.plus_us(self.now_us));
        }
        self.measure.arrived(group, jobs, self.now_us);
    }

    fn set_paused(&mut self, group: usize, paused: bool) {
        if self.part.is_fifo {
            return;
        }
        let patch = GroupPatch { paused: Some(paused), ..GroupPatch::default() };
        self.set_group(self.part.groups[group].id.clone(), patch);
        self.measure.entitlement.set_paused(group, paused);
    }

    fn settle(&mut self, flights: &[usize]) {
        let mut settlements = Vec::with_capacity(flights.len());
        for &number in flights {
            let flight = self.flights[number].take().expect("a call ends once");
            self.free_flights.push(number);
            self.in_flight -= 1;
            if matches!(flight.settlement.outcome, Outcome::Throttled { .. }) {
                self.measure.returned(flight.group);
            } else {
                self.done(flight.group);
            }
            settlements.push(flight.settlement);
        }
        self.call(Settle { settlements });
        self.fetcher.is_due = true;
    }

    fn done(&mut self, group: usize) {
        self.measure.done(group, self.now_us);
        let completed = self.measure.groups[group].completed;
        let reached = |watch: &mut Watch| watch.jobs_done <= completed;
        let reached: Vec<Watch> = self.watches[group].extract_if(.., reached).collect();
        for watch in reached {
            let event = Event::AtOnce { group: watch.group, arrival: watch.arrival };
            self.plan(self.now_us + watch.later_us, event);
        }
    }

    /// Leases jobs while there are free slots and a reason to lease.
    fn fetch(&mut self) {
        loop {
            let free = (self.part.workers - self.in_flight).min(self.starts_left());
            if free == 0 || !(self.fetcher.is_due || self.machine.take_token(&self.fetcher.types).is_some()) {
                return;
            }
            let jobs_max = free.min(self.part.lease_jobs) as usize;
            let (jobs, wake_in_us) = self.lease(jobs_max);
            self.fetcher.is_due = jobs.len() == jobs_max;
            for job in jobs {
                self.start(job);
            }
            if let Some(wake_in_us) = wake_in_us {
                let at_us = self.now_us + wake_in_us;
                self.fetcher.wake_at_us = Some(at_us);
                self.plan(at_us, Event::Wake);
            }
        }
    }

    fn lease(&mut self, jobs_max: usize) -> (Vec<LeasedJob>, Option<u64>) {
        self.fetcher.request += 1;
        let command = Lease {
            worker: self.fetcher.worker.clone(),
            request: RequestNumber(self.fetcher.request),
            types: self.fetcher.types.clone(),
            jobs_max,
            lease_ms: LEASE_MS_MAX,
        };
        let waiting_before = if self.part.is_classic() { 0 } else { self.waiting() };
        let Leased::Jobs { jobs, wake_in_us } = self.call(command) else {
            unreachable!("request numbers only grow, so a lease returns jobs")
        };
        if !self.part.is_classic() {
            // A lease in `share` only takes jobs out of waiting; jobs that it adds were set aside.
            self.measure.set_aside += self.waiting().saturating_sub(waiting_before);
        }
        (jobs, wake_in_us)
    }

    fn waiting(&mut self) -> u64 {
        self.call(InspectQueue).waiting
    }

    fn start(&mut self, job: LeasedJob) {
        let bytes: [u8; 4] = job.payload[..].try_into().expect("a payload is the number of its group");
        let group = u32::from_le_bytes(bytes) as usize;
        let group_part = &self.part.groups[group];
        let service = self.part.types[group_part.type_index].service;
        let number = job.job.id.escaped().rsplit('-').next().and_then(|number| number.parse().ok());
        let number: u64 = number.expect("a job's id ends with its number");
        let [file, member] = group_part.stream;
        let service_us = service.draw(&mut Generator::of(self.part.seed, &[file, member, number]));
        let result = match &mut self.downstreams[group_part.type_index] {
            Some(downstream) => downstream.call(service_us, self.now_us),
            None => CallResult::Done { after_us: service_us },
        };
        let (refused, outcome) = match result {
            CallResult::Done { .. } => (false, Outcome::Succeeded { result: NO_RESULT.with(Arc::clone) }),
            CallResult::Refused { delay_ms, retry_after_ms, .. } => {
                (true, Outcome::Throttled { delay_ms, retry_after_ms })
            }
        };
        let wait_us = START.plus_us(self.now_us).since(job.created_at);
        self.measure.started(group, wait_us, refused, self.now_us);
        let settlement = Settlement { job: job.job, fence: job.fence, outcome };
        let flight = self.take_off(Flight { settlement, group });
        self.plan(self.now_us + result.after_us(), Event::CallEnd { flight });
    }

    fn take_off(&mut self, flight: Flight) -> usize {
        self.in_flight += 1;
        match self.free_flights.pop() {
            Some(number) => {
                self.flights[number] = Some(flight);
                number
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() - 1
            }
        }
    }
}

fn downstreams(part: &Part) -> Vec<Option<Downstream<'_>>> {
    let mut downstreams = Vec::new();
    for (number, part_type) in part.types.iter().enumerate() {
        let generator = Generator::of(part.seed, &[number as u64]);
        let downstream = part_type.downstream.as_ref();
        downstreams.push(downstream.map(|downstream| Downstream::new(downstream, generator)));
    }
    downstreams
}

thread_local! {
    /// The empty result that all jobs of a simulation share.
    static NO_RESULT: Arc<[u8]> = Arc::from(&[][..]);
}
