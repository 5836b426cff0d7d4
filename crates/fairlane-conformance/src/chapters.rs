//! The suite: a chapter per operation, a case per claim.
//!
//! A case's name is its claim. It gets an empty queue at [`START`](crate::subject::START) and panics where
//! the claim does not hold. Left out on purpose: anything only one engine can do.

mod enqueue;
mod extend;
mod inspect;
mod lease;
mod promote;
mod reclaim;
mod set_group;
mod set_type;
mod set_whole;
mod settle;

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
    Chapter { name: "lease", cases: lease::CASES },
    Chapter { name: "extend", cases: extend::CASES },
    Chapter { name: "settle", cases: settle::CASES },
    Chapter { name: "promote", cases: promote::CASES },
    Chapter { name: "reclaim", cases: reclaim::CASES },
    Chapter { name: "set_group", cases: set_group::CASES },
    Chapter { name: "set_type", cases: set_type::CASES },
    Chapter { name: "set_whole", cases: set_whole::CASES },
    Chapter { name: "inspect", cases: inspect::CASES },
];

/// Cases named as their functions are.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$($crate::chapters::Case { name: stringify!($case), run: |subject| Box::pin($case(subject)) }),*]
    };
}
pub(crate) use cases;
