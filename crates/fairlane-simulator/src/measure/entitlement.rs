//! The cost that each group was served, and its entitlement.
//!
//! Each cost unit that a type serves is divided, at that time, among the groups that have jobs to
//! serve: between the levels by their weights, within a level by the groups' weights. A group's
//! entitlement is the sum of its parts. This is textbook fair queueing, without quantum or credit,
//! in constant time per job: each order counts how much one unit of weight received, and a group
//! remembers that count from the time it became active.
//!
//! A group with a rate or concurrency of its own is entitled as if it had none; a paused group is
//! entitled to nothing.

use fairlane_core::limits::LEVEL_WEIGHTS;
use fairlane_core::queue::LevelOrder;

use crate::scenario::Part;

/// The accounts of all groups.
#[derive(Debug)]
pub struct Entitlement {
    strict: bool,
    /// The orders of each type, by level.
    orders: Vec<[Order; 3]>,
    accounts: Vec<Account>,
    served_total: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Order {
    weight: u64,
    per_weight: f64,
}

#[derive(Debug)]
struct Account {
    type_index: usize,
    level: usize,
    weight: u64,
    cost: u64,
    backlog: u64,
    paused: bool,
    entered: f64,
    entitled: f64,
    served: u64,
    interrupted: bool,
}

impl Account {
    fn is_backlogged(&self) -> bool {
        self.backlog > 0 && !self.paused
    }
}

impl Entitlement {
    /// Accounts of idle groups.
    pub fn new(part: &Part) -> Self {
        let account = |group: &crate::scenario::GroupPart| Account {
            type_index: group.type_index,
            level: group.level.index(),
            weight: group.weight.get(),
            cost: group.cost.get(),
            backlog: 0,
            paused: false,
            entered: 0.0,
            entitled: 0.0,
            served: 0,
            interrupted: true,
        };
        Self {
            strict: part.levels == LevelOrder::Strict,
            orders: vec![Default::default(); part.types.len()],
            accounts: part.groups.iter().map(account).collect(),
            served_total: 0,
        }
    }

    /// Records jobs of a group that can be served.
    pub fn arrived(&mut self, group: usize, jobs: u64) {
        self.change(group, |account| account.backlog += jobs);
    }

    /// Records that a group is paused or resumed.
    pub fn set_paused(&mut self, group: usize, paused: bool) {
        self.change(group, |account| account.paused = paused);
    }

    /// Records that one job of a group is served.
    pub fn served(&mut self, group: usize) {
        let account = &self.accounts[group];
        let cost = account.cost;
        self.divide(account.type_index, cost as f64);
        self.served_total += cost;
        self.change(group, |account| {
            account.served += cost;
            account.backlog -= 1;
        });
    }

    fn divide(&mut self, type_index: usize, cost: f64) {
        let strict = self.strict;
        let orders = &mut self.orders[type_index];
        let active = |orders: &[Order; 3], level: usize| orders[level].weight > 0;
        let first = (0..3).find(|&level| active(orders, level));
        let takes_part =
            |orders: &[Order; 3], level| active(orders, level) && (!strict || first == Some(level));
        let levels = (0..3).filter(|&level| takes_part(orders, level)).map(|level| LEVEL_WEIGHTS[level]);
        let level_weights: u64 = levels.sum();
        for level in 0..3 {
            if takes_part(orders, level) {
                let part = LEVEL_WEIGHTS[level] as f64 / level_weights as f64;
                orders[level].per_weight += cost * part / orders[level].weight as f64;
            }
        }
    }

    /// Changes an account, and the weight of its order when the account becomes or ceases to be
    /// backlogged.
    fn change(&mut self, group: usize, change: impl FnOnce(&mut Account)) {
        let account = &mut self.accounts[group];
        let order = &mut self.orders[account.type_index][account.level];
        let before = account.is_backlogged();
        change(account);
        match (before, account.is_backlogged()) {
            (false, true) => {
                account.entered = order.per_weight;
                order.weight += account.weight;
            }
            (true, false) => {
                account.entitled += (order.per_weight - account.entered) * account.weight as f64;
                account.interrupted = true;
                order.weight -= account.weight;
            }
            _ => {}
        }
    }

    /// The cost served and the cost entitled to so far.
    pub fn so_far(&self, group: usize) -> (f64, f64) {
        let account = &self.accounts[group];
        let order = &self.orders[account.type_index][account.level];
        let open = if account.is_backlogged() { order.per_weight - account.entered } else { 0.0 };
        (account.served as f64, account.entitled + open * account.weight as f64)
    }

    /// Whether the group was backlogged without a break since the last call.
    pub fn take_unbroken(&mut self, group: usize) -> bool {
        let account = &mut self.accounts[group];
        let unbroken = !account.interrupted;
        account.interrupted = !account.is_backlogged();
        unbroken
    }

    /// The cost served and the cost entitled to, as fractions of all cost served.
    pub fn shares(&self, group: usize) -> (f64, f64) {
        let (served, entitled) = self.so_far(group);
        let total = self.served_total.max(1) as f64;
        (served / total, entitled / total)
    }

    /// Jain's index over the part of its entitlement that each entitled group was served: 1 when
    /// all got the same part, 1/n when one got everything.
    pub fn jain(&self) -> Option<f64> {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for group in 0..self.accounts.len() {
            let (served, entitled) = self.so_far(group);
            if entitled > 0.0 {
                let part = served / entitled;
                count += 1.0;
                sum += part;
                squares += part * part;
            }
        }
        (squares > 0.0).then(|| sum * sum / (count * squares))
    }
}
