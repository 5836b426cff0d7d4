//! The slots of a worker, and how many of them each type may use.
//!
//! A class is a set of types that are leased together: all types without a limit of their own, and
//! each other type alone, so that no lease returns more jobs of a type than it has room for.

use std::collections::HashMap;
use std::sync::Mutex;

use fairlane_core::TypeId;
use tokio::sync::Notify;

pub(crate) struct Slots {
    classes: Vec<Class>,
    class_of: HashMap<TypeId, usize>,
    usage: Mutex<Usage>,
    freed: Notify,
}

struct Class {
    types: Vec<TypeId>,
    limit: Option<usize>,
    own: bool,
}

/// The slots of one type.
pub(crate) struct TypeSlots {
    pub type_id: TypeId,
    /// Most concurrent jobs of the type; `None` if unlimited.
    pub limit: Option<usize>,
    /// Whether the type has slots of its own in addition to the shared ones.
    pub own: bool,
}

/// Slots in use. Signed, because a batch that is requested again after an error can be larger than
/// the room left by then.
struct Usage {
    free: i64,
    by_class: Vec<i64>,
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
        let mut class_of = HashMap::new();
        for TypeSlots { type_id, limit, own } in types {
            let shared = classes.iter().position(|class| limit.is_none() && class.limit.is_none());
            let class = shared.unwrap_or_else(|| {
                classes.push(Class { types: Vec::new(), limit, own });
                classes.len() - 1
            });
            classes[class].types.push(type_id.clone());
            class_of.insert(type_id, class);
        }
        let usage = Usage { free: count as i64, by_class: vec![0; classes.len()] };
        Self { classes, class_of, usage: Mutex::new(usage), freed: Notify::new() }
    }

    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    pub fn types(&self, class: usize) -> &[TypeId] {
        &self.classes[class].types
    }

    /// Number of jobs of this class that could start now.
    pub fn room(&self, class: usize) -> usize {
        self.room_of(&self.usage(), class).max(0) as usize
    }

    /// Number of jobs that hold a slot.
    pub fn in_use(&self) -> usize {
        self.usage().by_class.iter().sum::<i64>().max(0) as usize
    }

    pub fn take(&self, type_id: &TypeId) {
        let mut usage = self.usage();
        self.move_one(&mut usage, type_id, 1);
    }

    pub fn give_back(&self, type_id: &TypeId) {
        {
            let mut usage = self.usage();
            self.move_one(&mut usage, type_id, -1);
        }
        self.freed.notify_one();
    }

    /// Resolves when a slot was freed since the last call.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    fn room_of(&self, usage: &Usage, class: usize) -> i64 {
        let limit = self.classes[class].limit.map_or(i64::MAX, |limit| limit as i64);
        let room = limit - usage.by_class[class];
        if self.classes[class].own { room } else { room.min(usage.free) }
    }

    fn move_one(&self, usage: &mut Usage, type_id: &TypeId, by: i64) {
        let class = self.class_of.get(type_id).copied();
        if !class.is_some_and(|class| self.classes[class].own) {
            usage.free -= by;
        }
        if let Some(class) = class {
            usage.by_class[class] += by;
        }
    }

    fn usage(&self) -> std::sync::MutexGuard<'_, Usage> {
        self.usage.lock().expect("nothing panics while it holds the slots")
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
        assert_eq!(slots.types(0), [type_of("mail"), type_of("sms")]);
        assert_eq!((slots.room(0), slots.room(1)), (3, 2));
        slots.take(&type_of("push"));
        slots.take(&type_of("push"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0), "push uses all its slots");
        slots.take(&type_of("mail"));
        slots.take(&type_of("mail"));
        assert_eq!(slots.room(0), 0, "more slots are in use than there are");
        slots.give_back(&type_of("push"));
        assert_eq!(slots.room(0), 0);
        slots.give_back(&type_of("mail"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 1));
    }

    #[test]
    fn own_slots_of_a_type_are_separate_from_shared_slots() {
        let own = TypeSlots { type_id: type_of("callback"), limit: Some(2), own: true };
        let shared = TypeSlots { type_id: type_of("mail"), limit: None, own: false };
        let slots = Slots::new(1, vec![shared, own]);
        slots.take(&type_of("callback"));
        slots.take(&type_of("callback"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0));
        slots.take(&type_of("mail"));
        slots.give_back(&type_of("callback"));
        assert_eq!((slots.room(0), slots.room(1), slots.in_use()), (0, 1, 2));
    }
}
