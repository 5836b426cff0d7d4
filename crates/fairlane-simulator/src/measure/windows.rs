//! The smallest part of its share that a group was served in any ten seconds.
//!
//! Time is divided into whole seconds of the run; a window is ten in a row, and the next begins a
//! second later. Only windows during which the group was always backlogged count.

use std::collections::VecDeque;

use crate::scenario::Part;

use super::Entitlement;

const SECOND_US: u64 = 1_000_000;
const WINDOW_SECONDS: usize = 10;

/// The windows of all groups.
#[derive(Debug)]
pub struct Windows {
    next_us: u64,
    groups: Vec<Window>,
}

#[derive(Debug, Default)]
struct Window {
    /// Whether the group is left out, because its own limit, not its share, determines what it is
    /// served.
    exempt: bool,
    served: f64,
    entitled: f64,
    seconds: VecDeque<(f64, f64)>,
    least: Option<f64>,
}

impl Windows {
    /// Windows at time zero.
    pub fn new(part: &Part) -> Self {
        let window = |group: &crate::scenario::GroupPart| Window {
            exempt: group.has_own_limit(),
            ..Window::default()
        };
        Self { next_us: SECOND_US, groups: part.groups.iter().map(window).collect() }
    }

    /// Closes every second that ends at or before `now_us`.
    pub fn advance(&mut self, now_us: u64, entitlement: &mut Entitlement) {
        while self.next_us <= now_us {
            for (group, window) in self.groups.iter_mut().enumerate() {
                let unbroken = entitlement.take_unbroken(group);
                window.close_second(entitlement.so_far(group), unbroken);
            }
            self.next_us += SECOND_US;
        }
    }

    /// The smallest part of a group; `None` if no window counted.
    pub fn least(&self, group: usize) -> Option<f64> {
        self.groups[group].least.filter(|_| !self.groups[group].exempt)
    }
}

impl Window {
    fn close_second(&mut self, (served, entitled): (f64, f64), unbroken: bool) {
        let second = (served - self.served, entitled - self.entitled);
        (self.served, self.entitled) = (served, entitled);
        if !unbroken {
            self.seconds.clear();
            return;
        }
        self.seconds.push_back(second);
        if self.seconds.len() > WINDOW_SECONDS {
            self.seconds.pop_front();
        }
        let entitled: f64 = self.seconds.iter().map(|second| second.1).sum();
        if self.seconds.len() == WINDOW_SECONDS && entitled > 0.0 {
            let served: f64 = self.seconds.iter().map(|second| second.0).sum();
            let part = served / entitled;
            self.least = Some(self.least.map_or(part, |least| least.min(part)));
        }
    }
}
