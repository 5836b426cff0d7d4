//! The slots of a worker, and how many of them each type may use.
//!
//! A class is a set of types that are leased together: all types without a limit of their own, and
//! each other type alone, so that no lease returns more jobs of a type than it has room for.

use std::sync::atomic::{AtomicI64, Ordering};

use fairlane_core::TypeId;
use tokio::sync::Notify;

/// Counts of slots are signed, because a batch that is requested again after an error can be larger
/// than the room left by then.
pub(crate) struct Slots {
    classes: Vec<Class>,
    /// Shared slots that are free.
    free: AtomicI64,
    freed: Notify,
}

struct Class {
    types: Vec<TypeId>,
    limit: Option<usize>,
    own: bool,
    in_use: AtomicI64,
}

/// The slots of one type.
pub(crate) struct TypeSlots {
    pub type_id: TypeId,
    /// Most concurrent jobs of the type; `None` if unlimited.
    pub limit: Option<usize>,
    /// Whether the type has slots of its own in addition to the shared ones.
    pub own: bool,
}

/// Free slots for jobs of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub class: usize,
    pub jobs: usize,
}

impl Slots {
    pub fn new(count: usize, types: Vec<TypeSlots>) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        for TypeSlots { type_id, limit, own } in types {
            let shared = classes.iter_mut().find(|class| limit.is_none() && class.limit.is_none());
            match shared {
                Some(class) => class.types.push(type_id),
                None => {
                    classes.push(Class { types: vec![type_id], limit, own, in_use: AtomicI64::new(0) });
                }
            }
        }
        Self { classes, free: AtomicI64::new(count as i64), freed: Notify::new() }
    }

    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    pub fn types(&self, class: usize) -> &[TypeId] {
        &self.classes[class].types
    }

    /// The class of a type, if the worker leases it.
    pub fn class_of(&self, type_id: &TypeId) -> Option<usize> {
        self.classes.iter().position(|class| class.types.contains(type_id))
    }

    /// Number of jobs of this class that could start now.
    pub fn room(&self, class: usize) -> usize {
        let Class { limit, own, in_use, .. } = &self.classes[class];
        let room = limit.map_or(i64::MAX, |limit| limit as i64 - in_use.load(Ordering::Acquire));
        let room = if *own { room } else { room.min(self.free.load(Ordering::Acquire)) };
        room.max(0) as usize
    }

    /// Number of jobs that hold a slot.
    pub fn in_use(&self) -> usize {
        let in_use = self.classes.iter().map(|class| class.in_use.load(Ordering::Acquire));
        in_use.sum::<i64>().max(0) as usize
    }

    pub fn take(&self, class: usize) {
        self.move_one(class, 1);
    }

    pub fn give_back(&self, class: usize) {
        self.move_one(class, -1);
        self.freed.notify_one();
    }

    /// Resolves when a slot was freed since the last call.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    fn move_one(&self, class: usize, by: i64) {
        let Class { own, in_use, .. } = &self.classes[class];
        in_use.fetch_add(by, Ordering::AcqRel);
        if !own {
            self.free.fetch_sub(by, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(name: &str) -> TypeId {
        TypeId::new(name).unwrap()
    }

    #[test]
    fn types_without_a_limit_share_a_class_and_each_other_type_has_its_own() {
        let limits = [("mail", None), ("push", Some(2)), ("sms", None)];
        let types = limits.map(|(name, limit)| TypeSlots { type_id: type_of(name), limit, own: false });
        let slots = Slots::new(3, types.into());
        let class_of = |name| slots.class_of(&type_of(name)).unwrap();
        assert_eq!(slots.types(0), [type_of("mail"), type_of("sms")]);
        assert_eq!((slots.room(0), slots.room(1)), (3, 2));
        slots.take(class_of("push"));
        slots.take(class_of("push"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0), "push uses all its slots");
        slots.take(class_of("mail"));
        slots.take(class_of("mail"));
        assert_eq!(slots.room(0), 0, "more slots are in use than there are");
        slots.give_back(class_of("push"));
        assert_eq!(slots.room(0), 0);
        slots.give_back(class_of("mail"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 1));
    }

    #[test]
    fn own_slots_of_a_type_are_separate_from_shared_slots() {
        let own = TypeSlots { type_id: type_of("callback"), limit: Some(2), own: true };
        let shared = TypeSlots { type_id: type_of("mail"), limit: None, own: false };
        let slots = Slots::new(1, vec![shared, own]);
        let class_of = |name| slots.class_of(&type_of(name)).unwrap();
        slots.take(class_of("callback"));
        slots.take(class_of("callback"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0));
        slots.take(class_of("mail"));
        slots.give_back(class_of("callback"));
        assert_eq!((slots.room(0), slots.room(1), slots.in_use()), (0, 1, 2));
    }
}
