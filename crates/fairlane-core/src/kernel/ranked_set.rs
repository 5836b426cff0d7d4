//! An ordered set that knows the rank of each item: insertion, removal, the rank of an item and the
//! item at a rank take logarithmic time.
//!
//! It is a treap: a search tree whose nodes are also a heap by a pseudo-random priority, which keeps
//! it shallow whatever the order of the insertions. Every node counts the items below it. The
//! priorities come from a counter, so the same commands build the same tree.

use std::cmp::Ordering;

const NONE: u32 = u32::MAX;
/// Where the sequence of priorities begins; any number but 0.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone)]
struct Node<T> {
    /// `None` in a free node.
    item: Option<T>,
    priority: u32,
    /// Items at and below this node.
    size: u32,
    left: u32,
    right: u32,
}

/// An ordered set with ranks; the first item has rank 0.
#[derive(Debug, Clone)]
pub struct RankedSet<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    root: u32,
    /// The state of the sequence of priorities.
    state: u64,
}

impl<T> Default for RankedSet<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, state: SEED }
    }
}

impl<T: Ord> RankedSet<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.size(self.root) as usize
    }

    /// Whether the set has no items.
    pub fn is_empty(&self) -> bool {
        self.root == NONE
    }

    /// Adds an item; returns false if it was there.
    pub fn insert(&mut self, item: T) -> bool {
        if self.rank(&item).is_some() {
            return false;
        }
        let (before, after) = self.split(self.root, &|other| *other < item);
        let node = self.new_node(item);
        let front = self.merge(before, node);
        self.root = self.merge(front, after);
        true
    }

    /// Removes an item; returns whether it was there.
    pub fn remove(&mut self, item: &T) -> bool {
        let (before, rest) = self.split(self.root, &|other| other < item);
        let (found, after) = self.split(rest, &|other| other <= item);
        self.root = self.merge(before, after);
        if found == NONE {
            return false;
        }
        self.nodes[found as usize].item = None;
        self.free.push(found);
        true
    }

    /// The rank of an item.
    pub fn rank(&self, item: &T) -> Option<usize> {
        let (mut at, mut before) = (self.root, 0);
        while at != NONE {
            let left = self.size(self.node(at).left);
            match item.cmp(self.item(at)) {
                Ordering::Less => at = self.node(at).left,
                Ordering::Equal => return Some((before + left) as usize),
                Ordering::Greater => {
                    before += left + 1;
                    at = self.node(at).right;
                }
            }
        }
        None
    }

    /// The number of items at the front for which `is_before` holds. The set must be partitioned by
    /// it: once it is false for an item, it is false for all later ones.
    pub fn count_before(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut at, mut before) = (self.root, 0);
        while at != NONE {
            if is_before(self.item(at)) {
                before += self.size(self.node(at).left) + 1;
                at = self.node(at).right;
            } else {
                at = self.node(at).left;
            }
        }
        before as usize
    }

    /// The item with this rank.
    pub fn nth(&self, rank: usize) -> Option<&T> {
        let (mut at, mut rank) = (self.root, rank as u64);
        while at != NONE {
            let left = u64::from(self.size(self.node(at).left));
            match rank.cmp(&left) {
                Ordering::Less => at = self.node(at).left,
                Ordering::Equal => return Some(self.item(at)),
                Ordering::Greater => {
                    rank -= left + 1;
                    at = self.node(at).right;
                }
            }
        }
        None
    }

    /// The first item.
    pub fn first(&self) -> Option<&T> {
        self.nth(0)
    }

    /// The items in order, from this rank on. Each takes logarithmic time.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = &T> {
        (rank..self.len()).filter_map(|rank| self.nth(rank))
    }

    /// Drops up to `most` items of a set that is not used any more, in no order.
    pub fn drop_some(&mut self, most: usize) {
        self.nodes.truncate(self.nodes.len().saturating_sub(most));
    }

    /// Whether [`Self::drop_some`] has dropped everything.
    pub const fn is_dropped(&self) -> bool {
        self.nodes.is_empty()
    }

    fn node(&self, at: u32) -> &Node<T> {
        &self.nodes[at as usize]
    }

    fn item(&self, at: u32) -> &T {
        self.node(at).item.as_ref().expect("a node of the tree has an item")
    }

    fn size(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.node(at).size }
    }

    fn new_node(&mut self, item: T) -> u32 {
        // Xorshift: a full period over all numbers but 0.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let node =
            Node { item: Some(item), priority: (self.state >> 32) as u32, size: 1, left: NONE, right: NONE };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Links two subtrees below a node and recounts its items.
    fn link(&mut self, at: u32, left: u32, right: u32) -> u32 {
        let size = self.size(left) + self.size(right) + 1;
        let node = &mut self.nodes[at as usize];
        (node.left, node.right, node.size) = (left, right, size);
        at
    }

    /// Divides a subtree into the items for which `is_before` holds and the others.
    fn split(&mut self, at: u32, is_before: &impl Fn(&T) -> bool) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let (left, right) = (self.node(at).left, self.node(at).right);
        if is_before(self.item(at)) {
            let (before, after) = self.split(right, is_before);
            (self.link(at, left, before), after)
        } else {
            let (before, after) = self.split(left, is_before);
            (before, self.link(at, after, right))
        }
    }

    /// Joins two subtrees, of which the first has the smaller items.
    fn merge(&mut self, front: u32, back: u32) -> u32 {
        if front == NONE || back == NONE {
            return front.min(back);
        }
        if self.node(front).priority >= self.node(back).priority {
            let (left, right) = (self.node(front).left, self.node(front).right);
            let right = self.merge(right, back);
            self.link(front, left, right)
        } else {
            let (left, right) = (self.node(back).left, self.node(back).right);
            let left = self.merge(front, left);
            self.link(back, left, right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth<T: Ord>(set: &RankedSet<T>, at: u32) -> usize {
        if at == NONE { 0 } else { 1 + depth(set, set.node(at).left).max(depth(set, set.node(at).right)) }
    }

    #[test]
    fn random_changes_give_what_a_sorted_list_gives() {
        let mut state = 7_u64;
        let mut below = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let (mut set, mut list) = (RankedSet::default(), Vec::<u64>::new());
        for step in 0..20_000 {
            let item = below(400);
            let place = list.binary_search(&item);
            if below(2) == 0 {
                assert_eq!(set.insert(item), place.is_err(), "step {step}");
                if let Err(at) = place {
                    list.insert(at, item);
                }
            } else {
                assert_eq!(set.remove(&item), place.is_ok(), "step {step}");
                if let Ok(at) = place {
                    list.remove(at);
                }
            }
            let (item, rank) = (below(400), below(450) as usize);
            assert_eq!(set.rank(&item), list.binary_search(&item).ok());
            assert_eq!(set.count_before(|other| *other < item), list.partition_point(|other| *other < item));
            assert_eq!((set.nth(rank), set.len()), (list.get(rank), list.len()));
            assert_eq!((set.first(), set.is_empty()), (list.first(), list.is_empty()));
            if step % 1000 == 0 {
                assert!(set.iter_from(rank).eq(list.iter().skip(rank)));
            }
        }
    }

    #[test]
    fn sorted_insertions_keep_the_tree_shallow() {
        let mut set = RankedSet::default();
        for item in 0..100_000_u32 {
            set.insert(item);
        }
        assert!(depth(&set, set.root) < 60, "{}", depth(&set, set.root));
        assert_eq!((set.rank(&99_999), set.nth(50_000)), (Some(99_999), Some(&50_000)));
    }
}
