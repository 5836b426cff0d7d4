//! Detects what was appended to a long list and removed from its front since the last check.
//!
//! Lists do not record their changes. But they grow at one end and shrink at the other, so the
//! position of the former last element shows how many old elements remain. If it is gone, all are.

use std::ops::Range;

/// A list as of the last check. Its elements are numbered in the order in which they were appended.
#[derive(Debug)]
pub(super) struct Tail<T> {
    first: u64,
    seen: usize,
    last: Option<T>,
}

impl<T> Default for Tail<T> {
    fn default() -> Self {
        Self { first: 0, seen: 0, last: None }
    }
}

/// The changes to a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// Elements below this number were removed.
    pub gone_below: Option<u64>,
    /// The positions of the new elements.
    pub added: Range<usize>,
}

impl<T: PartialEq> Tail<T> {
    /// A list of `seen` elements, of which the first has the number `first`.
    pub fn known(first: u64, seen: usize, last: Option<T>) -> Self {
        Self { first, seen, last }
    }

    /// The number of the element at this position.
    pub fn number(&self, index: usize) -> u64 {
        self.first + index as u64
    }

    /// Compares the list with the last check.
    pub fn advance(&mut self, length: usize, element: impl Fn(usize) -> T) -> Moved {
        let last = self.last.as_ref();
        let found = last.and_then(|last| (0..length).rev().find(|index| element(*index) == *last));
        let left = found.map_or(0, |index| index + 1).min(self.seen);
        let gone = self.seen - left;
        self.first += gone as u64;
        self.seen = length;
        self.last = length.checked_sub(1).map(element);
        Moved { gone_below: (gone > 0).then_some(self.first), added: left..length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grows_and_shrinks_is_followed() {
        let mut tail = Tail::default();
        let mut see = |list: &[u64]| {
            let moved = tail.advance(list.len(), |index| list[index]);
            let added: Vec<u64> = moved.added.map(|index| tail.number(index)).collect();
            (moved.gone_below, added)
        };
        assert_eq!(see(&[]), (None, vec![]));
        assert_eq!(see(&[10, 11]), (None, vec![0, 1]));
        assert_eq!(see(&[10, 11]), (None, vec![]));
        assert_eq!(see(&[11, 12]), (Some(1), vec![2]));
        assert_eq!(see(&[20, 21]), (Some(3), vec![3, 4]));
        assert_eq!(see(&[]), (Some(5), vec![]));
        assert_eq!(see(&[30]), (None, vec![5]));
    }
}
