//! The suite: a chapter per operation, a case per claim.
//!
//! A case's name is its claim. It gets an empty queue at [`START`](crate::subject::START) and
//! panics where the claim does not hold. Left out on purpose: operations that only one engine
//! supports.

mod activity;
mod admit;
mod audit;
mod cancel_bulk;
mod cancel_job;
mod discard;
mod enqueue;
mod explain;
mod extend;
mod hold_bulk;
mod inspect_bulk;
mod inspect_congestion;
mod inspect_group;
mod inspect_job;
mod inspect_queue;
mod inspect_type;
mod lease;
mod lease_bulks;
mod list_bulks;
mod list_groups;
mod list_jobs;
mod list_largest_groups;
mod list_snapshots;
mod lock;
mod make_due;
mod open_bulk;
mod promote;
mod ranking;
mod reclaim;
mod remove_type;
mod report_progress;
mod requeue_dead;
mod resume_bulk;
mod room;
mod seal_bulk;
mod set_group;
mod set_queue;
mod set_type;
mod settle;
mod settle_bulk;
mod sweep;

use fairlane_engine::BoxFuture;

use crate::subject::Subject;

/// One claim about an operation, and the test of it.
#[derive(Clone, Copy)]
pub struct Case {
    /// The claim, which is the name of its function.
    pub name: &'static str,
    /// Panics if the claim does not hold.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

/// The claims about one operation.
#[derive(Clone, Copy)]
pub struct Chapter {
    /// The stem of the operation.
    pub name: &'static str,
    /// The claims about it.
    pub cases: &'static [Case],
}

/// Every chapter, in the order of the life of a job, of a lock, of a place in a waiting room, of a
/// board and of the activity log.
pub const CHAPTERS: &[Chapter] = &[
    Chapter { name: "enqueue", cases: enqueue::CASES },
    Chapter { name: "admit", cases: admit::CASES },
    Chapter { name: "lease", cases: lease::CASES },
    Chapter { name: "extend", cases: extend::CASES },
    Chapter { name: "report_progress", cases: report_progress::CASES },
    Chapter { name: "settle", cases: settle::CASES },
    Chapter { name: "promote", cases: promote::CASES },
    Chapter { name: "reclaim", cases: reclaim::CASES },
    Chapter { name: "open_bulk", cases: open_bulk::CASES },
    Chapter { name: "seal_bulk", cases: seal_bulk::CASES },
    Chapter { name: "hold_bulk", cases: hold_bulk::CASES },
    Chapter { name: "resume_bulk", cases: resume_bulk::CASES },
    Chapter { name: "cancel_bulk", cases: cancel_bulk::CASES },
    Chapter { name: "lease_bulks", cases: lease_bulks::CASES },
    Chapter { name: "settle_bulk", cases: settle_bulk::CASES },
    Chapter { name: "cancel_job", cases: cancel_job::CASES },
    Chapter { name: "requeue_dead", cases: requeue_dead::CASES },
    Chapter { name: "discard", cases: discard::CASES },
    Chapter { name: "make_due", cases: make_due::CASES },
    Chapter { name: "sweep", cases: sweep::CASES },
    Chapter { name: "set_group", cases: set_group::CASES },
    Chapter { name: "set_type", cases: set_type::CASES },
    Chapter { name: "remove_type", cases: remove_type::CASES },
    Chapter { name: "set_queue", cases: set_queue::CASES },
    Chapter { name: "inspect_job", cases: inspect_job::CASES },
    Chapter { name: "inspect_group", cases: inspect_group::CASES },
    Chapter { name: "inspect_type", cases: inspect_type::CASES },
    Chapter { name: "inspect_bulk", cases: inspect_bulk::CASES },
    Chapter { name: "inspect_congestion", cases: inspect_congestion::CASES },
    Chapter { name: "inspect_queue", cases: inspect_queue::CASES },
    Chapter { name: "list_jobs", cases: list_jobs::CASES },
    Chapter { name: "list_groups", cases: list_groups::CASES },
    Chapter { name: "list_largest_groups", cases: list_largest_groups::CASES },
    Chapter { name: "list_bulks", cases: list_bulks::CASES },
    Chapter { name: "list_snapshots", cases: list_snapshots::CASES },
    Chapter { name: "explain", cases: explain::CASES },
    Chapter { name: "audit", cases: audit::CASES },
    Chapter { name: "acquire_lock", cases: lock::acquire_lock::CASES },
    Chapter { name: "renew_locks", cases: lock::renew_locks::CASES },
    Chapter { name: "release_lock", cases: lock::release_lock::CASES },
    Chapter { name: "attend_locks", cases: lock::attend_locks::CASES },
    Chapter { name: "inspect_lock", cases: lock::inspect_lock::CASES },
    Chapter { name: "list_locks", cases: lock::list_locks::CASES },
    Chapter { name: "break_lock", cases: lock::break_lock::CASES },
    Chapter { name: "sweep_locks", cases: lock::sweep_locks::CASES },
    Chapter { name: "join_room", cases: room::join_room::CASES },
    Chapter { name: "show_place", cases: room::show_place::CASES },
    Chapter { name: "keep_place", cases: room::keep_place::CASES },
    Chapter { name: "admit_waiters", cases: room::admit_waiters::CASES },
    Chapter { name: "leave_room", cases: room::leave_room::CASES },
    Chapter { name: "revoke_place", cases: room::revoke_place::CASES },
    Chapter { name: "set_room", cases: room::set_room::CASES },
    Chapter { name: "set_phase", cases: room::set_phase::CASES },
    Chapter { name: "pause_room", cases: room::pause_room::CASES },
    Chapter { name: "report_room", cases: room::report_room::CASES },
    Chapter { name: "inspect_room", cases: room::inspect_room::CASES },
    Chapter { name: "list_rooms", cases: room::list_rooms::CASES },
    Chapter { name: "list_places", cases: room::list_places::CASES },
    Chapter { name: "sweep_rooms", cases: room::sweep_rooms::CASES },
    Chapter { name: "set_board", cases: ranking::set_board::CASES },
    Chapter { name: "record_events", cases: ranking::record_events::CASES },
    Chapter { name: "cancel_events", cases: ranking::cancel_events::CASES },
    Chapter { name: "set_scores", cases: ranking::set_scores::CASES },
    Chapter { name: "list_ranks", cases: ranking::list_ranks::CASES },
    Chapter { name: "show_ranks", cases: ranking::show_ranks::CASES },
    Chapter { name: "close_season", cases: ranking::close_season::CASES },
    Chapter { name: "rebuild_board", cases: ranking::rebuild_board::CASES },
    Chapter { name: "inspect_board", cases: ranking::inspect_board::CASES },
    Chapter { name: "list_boards", cases: ranking::list_boards::CASES },
    Chapter { name: "remove_board", cases: ranking::remove_board::CASES },
    Chapter { name: "sweep_boards", cases: ranking::sweep_boards::CASES },
    Chapter { name: "record_activity", cases: activity::record_activity::CASES },
    Chapter { name: "list_activity", cases: activity::list_activity::CASES },
];

/// Cases named after their functions.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$($crate::chapters::Case { name: stringify!($case), run: |subject| Box::pin($case(subject)) }),*]
    };
}
pub(crate) use cases;
