//! The suite: a chapter per operation, a case per claim.
//!
//! A case's name is its claim. It gets an empty queue at [`START`](crate::subject::START) and panics where
//! the claim does not hold. Left out on purpose: anything only one engine can do.

mod admit;
mod audit;
mod cancel_bulk;
mod cancel_job;
mod discard;
mod enqueue;
mod explain;
mod extend;
mod finish_bulk;
mod hold_bulk;
mod inspect;
mod lease;
mod list_jobs;
mod make_due;
mod open_bulk;
mod promote;
mod reclaim;
mod remove_type;
mod requeue_dead;
mod resume_bulk;
mod seal_bulk;
mod set_group;
mod set_type;
mod set_whole;
mod settle;
mod sweep;
mod take_completed;

use fairlane_engine::BoxFuture;

use crate::subject::Subject;

/// One claim.
#[derive(Clone, Copy)]
pub struct Case {
    /// The claim.
    pub name: &'static str,
    /// Panics if it does not hold.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

/// The claims about one operation.
#[derive(Clone, Copy)]
pub struct Chapter {
    /// The operation.
    pub name: &'static str,
    /// Its claims.
    pub cases: &'static [Case],
}

/// Every chapter, in the order of a job's road.
pub const CHAPTERS: &[Chapter] = &[
    Chapter { name: "enqueue", cases: enqueue::CASES },
    Chapter { name: "admit", cases: admit::CASES },
    Chapter { name: "lease", cases: lease::CASES },
    Chapter { name: "extend", cases: extend::CASES },
    Chapter { name: "settle", cases: settle::CASES },
    Chapter { name: "promote", cases: promote::CASES },
    Chapter { name: "reclaim", cases: reclaim::CASES },
    Chapter { name: "open_bulk", cases: open_bulk::CASES },
    Chapter { name: "seal_bulk", cases: seal_bulk::CASES },
    Chapter { name: "hold_bulk", cases: hold_bulk::CASES },
    Chapter { name: "resume_bulk", cases: resume_bulk::CASES },
    Chapter { name: "cancel_bulk", cases: cancel_bulk::CASES },
    Chapter { name: "take_completed", cases: take_completed::CASES },
    Chapter { name: "finish_bulk", cases: finish_bulk::CASES },
    Chapter { name: "cancel_job", cases: cancel_job::CASES },
    Chapter { name: "requeue_dead", cases: requeue_dead::CASES },
    Chapter { name: "discard", cases: discard::CASES },
    Chapter { name: "make_due", cases: make_due::CASES },
    Chapter { name: "sweep", cases: sweep::CASES },
    Chapter { name: "set_group", cases: set_group::CASES },
    Chapter { name: "set_type", cases: set_type::CASES },
    Chapter { name: "remove_type", cases: remove_type::CASES },
    Chapter { name: "set_whole", cases: set_whole::CASES },
    Chapter { name: "inspect", cases: inspect::CASES },
    Chapter { name: "list_jobs", cases: list_jobs::CASES },
    Chapter { name: "explain", cases: explain::CASES },
    Chapter { name: "audit", cases: audit::CASES },
];

/// Cases named as their functions are.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$($crate::chapters::Case { name: stringify!($case), run: |subject| Box::pin($case(subject)) }),*]
    };
}
pub(crate) use cases;
